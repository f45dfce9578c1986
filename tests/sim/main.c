/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim --seeds A-B [--scenario NAME] [--shm yes|no] [--verbose]
 * sim --file LIST        seeds, scenarios and "shm", one of each a line
 *
 * Prints each seed that fails, with the end of its trace, and returns 1.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/sim.h"

#define MAX_FAILURES 20u
#define SEED_SECONDS 120u

static struct sim_world world;
static unsigned int failures;

static struct {
	uint64_t seeds;
	uint64_t pkts;
	uint64_t ops;
	uint64_t lost;
	uint64_t repeated;
	uint64_t shm;
	uint64_t refused;
	uint64_t cuts;
	uint64_t virtual_ns;
} total;

/* A crash or a hang inside the protocol must still name the seed. */
static void on_death(int sig)
{
	char text[96];
	int n = snprintf(text, sizeof(text),
			 "seed %llu, scenario %s: signal %d\n",
			 (unsigned long long)world.seed,
			 sim_scenario_names[world.p.scenario], sig);

	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(2);
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
}

static void print_trace(const struct sim_world *w)
{
	uint64_t n = w->trace_count < SIM_TRACE ? w->trace_count : SIM_TRACE;

	for (uint64_t i = w->trace_count - n; i < w->trace_count; i++)
		(void)printf("    %s\n", w->trace[i % SIM_TRACE]);
}

static void run_seed(uint64_t seed, int scenario, int shm_forced, bool verbose)
{
	bool ok;

	(void)alarm(SEED_SECONDS);
	world.tracing = world.verbose = verbose;
	world.shm_forced = shm_forced;
	ok = sim_run(&world, seed, scenario);
	total.seeds++;
	total.pkts += world.wire.pkts;
	total.ops += world.work_ops;
	total.lost +=
		world.wire.lost + world.wire.overflowed + world.wire.corrupted;
	total.repeated += world.wire.repeated;
	total.shm += world.shm_requests;
	total.refused += world.shm_refused;
	total.cuts += world.shm_cuts;
	total.virtual_ns += world.now_ns;
	if (ok)
		return;
	failures++;
	(void)printf("seed %llu (%s%s): %s\n", (unsigned long long)seed,
		     sim_scenario_names[world.p.scenario],
		     world.p.shm ? ", shm" : "", world.why);
	if (verbose || failures > 1)
		return;
	/* Run again with tracing. */
	world.tracing = true;
	(void)sim_run(&world, seed, scenario);
	print_trace(&world);
}

static int scenario_by_name(const char *name)
{
	for (int i = 0; i < SIM_SCENARIOS; i++) {
		if (strcmp(name, sim_scenario_names[i]) == 0)
			return i;
	}
	(void)fprintf(stderr, "no scenario %s; there are:\n", name);
	for (int i = 0; i < SIM_SCENARIOS; i++)
		(void)fprintf(stderr, "  %s\n", sim_scenario_names[i]);
	exit(2);
}

/* Lines of "SEED [SCENARIO [shm]]  # why"; "-": the seed's own choice. */
static int run_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256], name[64], shm[8];
	unsigned long long seed;

	if (!f) {
		perror(path);
		return 2;
	}
	while (fgets(line, sizeof(line), f)) {
		int n = sscanf(line, "%llu %63s %7s", &seed, name, shm);
		int yes = n == 3 && strcmp(shm, "shm") == 0;

		if (n < 1)
			continue;
		if (n == 3 && !yes && shm[0] != '#') {
			(void)fprintf(stderr, "%s: %s", path, line);
			(void)fclose(f);
			return 2;
		}
		if (n < 2 || name[0] == '#' || name[0] == '-')
			run_seed(seed, -1, yes, false);
		else
			run_seed(seed, scenario_by_name(name), yes, false);
	}
	(void)fclose(f);
	return 0;
}

static int usage(void)
{
	(void)fprintf(stderr, "usage: sim --seeds A-B [--scenario NAME] "
			      "[--shm yes|no] [--verbose] | --file LIST\n");
	return 2;
}

static void print_total(void)
{
	(void)printf("%llu seeds, %u failed: %llu requests, %llu packets, "
		     "%llu lost, %llu repeated, %.1f s of virtual time; "
		     "%llu requests by channels, %llu refused, "
		     "%llu times one was closed\n",
		     (unsigned long long)total.seeds, failures,
		     (unsigned long long)total.ops,
		     (unsigned long long)total.pkts,
		     (unsigned long long)total.lost,
		     (unsigned long long)total.repeated,
		     (double)total.virtual_ns / 1e9,
		     (unsigned long long)total.shm,
		     (unsigned long long)total.refused,
		     (unsigned long long)total.cuts);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 's' },
		{ "scenario", required_argument, NULL, 'c' },
		{ "file", required_argument, NULL, 'f' },
		{ "shm", required_argument, NULL, 'n' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	unsigned long long first = 1, last = 0;
	const char *file = NULL;
	int scenario = -1, shm_forced = -1, c;
	bool verbose = false;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's') {
			if (sscanf(optarg, "%llu-%llu", &first, &last) == 1)
				last = first;
		} else if (c == 'c') {
			scenario = scenario_by_name(optarg);
		} else if (c == 'f') {
			file = optarg;
		} else if (c == 'n') {
			shm_forced = strcmp(optarg, "yes") == 0;
		} else if (c == 'v') {
			verbose = true;
		} else {
			return usage();
		}
	}
	if (!file && last < first)
		return usage();
	(void)signal(SIGSEGV, on_death);
	(void)signal(SIGABRT, on_death);
	(void)signal(SIGALRM, on_death);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (file && run_file(file))
		return 2;
	for (uint64_t s = first; s <= last && failures < MAX_FAILURES; s++)
		run_seed(s, scenario, shm_forced, verbose);
	print_total();
	return failures != 0;
}
