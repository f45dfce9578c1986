/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_cm --seeds A-B [--scenario NAME] [--verbose] */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cm/cmsim.h"

#define SEED_SECONDS 20u
#define MAX_FAILURES 5u

const char *const cs_scenario_names[CS_SCENARIOS] = {
	"clean", "lossy", "chaos", "crash", "hostile",
};

static struct cs_world world;
static unsigned long long conns, messages, lost, paths, seeds;
static unsigned int failures;

uint32_t cs_below(struct cs_world *w, uint32_t n)
{
	return ur_rng_below(&w->rng, n);
}

bool cs_chance(struct cs_world *w, uint32_t prob)
{
	return cs_below(w, CS_PROB) < prob;
}

uint64_t cs_upto(struct cs_world *w, uint64_t ns)
{
	return ns ? ur_rng_next(&w->rng) % ns : 0;
}

void cs_params_draw(struct cs_world *w, int scenario)
{
	struct cs_params *p = &w->p;

	w->scenario = scenario < 0 ? (enum cs_scenario)cs_below(w, CS_SCENARIOS)
				   : (enum cs_scenario)scenario;
	*p = (struct cs_params){ .conns = 1 + cs_below(w, CS_CONNS),
				 .latency_ns = 10 * CS_US,
				 .think_ns = 50 * CS_MS,
				 .live_ns = 5 * CS_S,
				 .backlog = CS_CONNS };
	if (w->scenario == CS_CLEAN)
		return;
	p->latency_ns = CS_US + cs_upto(w, CS_MS);
	p->loss_prob = cs_below(w, CS_PROB / 8);
	p->backlog = 1 + (int)cs_below(w, 8);
	if (w->scenario == CS_LOSSY)
		return;
	p->jitter_ns = cs_upto(w, 100 * CS_MS);
	p->dup_prob = cs_below(w, CS_PROB / 4);
	p->dup_delay_ns = cs_upto(w, 400 * CS_MS);
	p->think_ns = cs_upto(w, 2 * CS_S);
	if (w->scenario == CS_CRASH)
		p->crashes = 1 + cs_below(w, 6);
	if (w->scenario == CS_HOSTILE)
		p->attacks = 500;
}

static void print_trace(void)
{
	uint64_t n = world.traced < CS_TRACE ? world.traced : CS_TRACE;

	for (uint64_t i = world.traced - n; i < world.traced; i++)
		(void)printf("    %s\n", world.trace[i % CS_TRACE]);
}

static void run_seed(uint64_t seed, int scenario, bool verbose)
{
	bool ok;

	(void)alarm(SEED_SECONDS);
	world.tracing = world.verbose = verbose;
	ok = cs_run(&world, seed, scenario);
	seeds++;
	conns += world.p.conns;
	messages += world.sent;
	lost += world.lost;
	paths += world.paths;
	if (!ok) {
		failures++;
		(void)printf("seed %llu (%s): %s\n", (unsigned long long)seed,
			     cs_scenario_names[world.scenario], world.why);
		if (!verbose && failures == 1) {
			world.tracing = true;
			(void)cs_run(&world, seed, scenario);
			print_trace();
		}
	}
}

static int scenario_by_name(const char *name)
{
	for (int i = 0; i < CS_SCENARIOS; i++) {
		if (strcmp(name, cs_scenario_names[i]) == 0)
			return i;
	}
	(void)fprintf(stderr, "no scenario %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 's' },
		{ "scenario", required_argument, NULL, 'c' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned long long first = 1, last = 0;
	int scenario = -1, c;
	bool verbose = false;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's') {
			if (sscanf(optarg, "%llu-%llu", &first, &last) == 1)
				last = first;
		} else if (c == 'c') {
			scenario = scenario_by_name(optarg);
		} else if (c == 'v') {
			verbose = true;
		} else {
			return 2;
		}
	}
	for (uint64_t s = first; s <= last && failures < MAX_FAILURES; s++)
		run_seed(s, scenario, verbose);
	(void)printf("%llu seeds, %u failed: %llu connections, %llu other "
		     "paths, %llu messages, %llu lost\n",
		     seeds, failures, conns, paths, messages, lost);
	return failures != 0 || seeds == 0;
}
