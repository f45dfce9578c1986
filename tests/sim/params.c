/* SPDX-License-Identifier: BSD-2-Clause */
/* From a seed and a scenario to the parameters of a world. */
#include <string.h>

#include "sim/sim.h"

const char *const sim_scenario_names[SIM_SCENARIOS] = {
	[SIM_CLEAN] = "clean",
	[SIM_LOSSY] = "lossy",
	[SIM_CHAOS] = "chaos",
	[SIM_INCAST] = "incast",
	[SIM_RNR] = "rnr",
	[SIM_UC] = "uc",
	[SIM_UD] = "ud",
	[SIM_XRC] = "xrc",
	[SIM_DC] = "dc",
	[SIM_TASKS] = "tasks",
	[SIM_TAGS] = "tags",
	[SIM_MIXED] = "mixed",
	[SIM_BIG] = "big",
	[SIM_HOSTILE] = "hostile",
	[SIM_PEER_DIES] = "peer_dies",
	[SIM_BAD_RKEY] = "bad_rkey",
	[SIM_RECV_SHORT] = "recv_short",
	[SIM_LOCAL_PROT] = "local_prot",
	[SIM_MODIFY_ERR] = "modify_err",
	[SIM_SQD] = "sqd",
	[SIM_RESET] = "reset",
	[SIM_RNR_EXCEEDED] = "rnr_exceeded",
	[SIM_MIGRATE] = "migrate",
	[SIM_MARKED] = "marked",
};

/* Weight of each in a seed's choice, of 64. DC and tasks have none: they came
 * later, and seeds keep their scenarios. */
static const uint8_t weight[SIM_SCENARIOS] = {
	[SIM_CLEAN] = 4,	[SIM_LOSSY] = 6,      [SIM_CHAOS] = 5,
	[SIM_INCAST] = 3,	[SIM_RNR] = 4,	      [SIM_UC] = 3,
	[SIM_UD] = 3,		[SIM_XRC] = 3,	      [SIM_MIXED] = 4,
	[SIM_BIG] = 2,		[SIM_HOSTILE] = 6,    [SIM_PEER_DIES] = 2,
	[SIM_BAD_RKEY] = 2,	[SIM_RECV_SHORT] = 2, [SIM_LOCAL_PROT] = 1,
	[SIM_MODIFY_ERR] = 2,	[SIM_SQD] = 2,	      [SIM_RESET] = 2,
	[SIM_RNR_EXCEEDED] = 1, [SIM_TAGS] = 3,	      [SIM_MIGRATE] = 2,
	[SIM_MARKED] = 2,
};

uint32_t sim_below(struct sim_world *w, uint32_t n)
{
	return n ? ur_rng_below(&w->rng, n) : 0;
}

bool sim_chance(struct sim_world *w, uint32_t prob)
{
	return sim_below(w, SIM_PROB) < prob;
}

uint32_t sim_range(struct sim_world *w, uint32_t lo, uint32_t hi)
{
	return lo + sim_below(w, hi - lo + 1);
}

static enum sim_scenario draw_scenario(struct sim_world *w)
{
	uint32_t at = sim_below(w, 64);

	for (uint32_t i = 0; i < SIM_SCENARIOS; i++) {
		if (at < weight[i])
			return (enum sim_scenario)i;
		at -= weight[i];
	}
	return SIM_CLEAN;
}

/* Zero, except with probability 1/n: uniform up to that. */
static uint32_t upto(struct sim_world *w, uint32_t one_in)
{
	return 1 + sim_below(w, SIM_PROB / one_in);
}

static void draw_net(struct sim_world *w)
{
	struct sim_net_params *n = &w->p.net;
	static const uint32_t latency_us[] = { 1, 2, 5, 10, 30, 100, 1000 };

	n->latency_ns = latency_us[sim_below(w, 7)] * SIM_US;
	n->jitter_ns = 1 + n->latency_ns * sim_range(w, 1, 4);
	n->byte_ps = sim_range(w, 40, 4000);
	n->burst = 1;
	n->rx_bytes = 64u << 20;
	n->guess_index = sim_chance(w, SIM_PROB / 4);
}

static void draw_faults(struct sim_world *w)
{
	struct sim_net_params *n = &w->p.net;

	n->loss_prob = sim_chance(w, SIM_PROB * 3 / 4) ? upto(w, 25) : 0;
	n->burst = sim_range(w, 1, 8);
	if (n->burst > 1)
		n->loss_prob /= 2;
	if (w->p.scenario == SIM_LOSSY)
		return;
	n->jitter_prob = sim_chance(w, SIM_PROB / 2) ? upto(w, 10) : 0;
	n->dup_prob = sim_chance(w, SIM_PROB / 2) ? upto(w, 20) : 0;
	n->corrupt_prob = sim_chance(w, SIM_PROB / 2) ? upto(w, 50) : 0;
	n->ce_prob = sim_chance(w, SIM_PROB / 4) ? upto(w, 4) : 0;
	if (sim_chance(w, SIM_PROB / 3)) {
		n->stall_prob = upto(w, 200);
		n->stall_ns = sim_range(w, 10, 3000) * SIM_US;
	}
	if (sim_chance(w, SIM_PROB / 3))
		n->rx_bytes = sim_range(w, 64, 512) << 10;
}

uint64_t sim_timeout_ns(uint8_t code)
{
	return 4096ull << code;
}

/* A timeout longer than any undisturbed packet takes. */
static void draw_timers(struct sim_world *w)
{
	const struct sim_net_params *n = &w->p.net;
	uint64_t queue =
		(uint64_t)(w->p.rc_conns + w->p.uc_conns + w->p.xrc_conns +
			   w->p.dc_conns + w->p.tag_senders) *
		(2u << 20) * n->byte_ps / 1000;
	uint64_t rtt = 2 * (n->latency_ns + n->jitter_ns + w->p.poll_delay_ns);
	uint64_t need = 3 * (rtt + queue + n->stall_ns);
	uint8_t code = 8;

	while (sim_timeout_ns(code) < need)
		code++;
	w->p.timeout = (uint8_t)(code + sim_below(w, 2));
	w->p.retry_cnt = 7;
	w->p.rnr_retry = 7;
	w->p.min_rnr_timer = (uint8_t)sim_range(w, 1, 14);
}

static void draw_shape(struct sim_world *w)
{
	struct sim_params *p = &w->p;
	static const uint32_t max_msg[] = { 64, 300, 4096, 9000, 40000, 70000 };

	p->v6 = sim_chance(w, SIM_PROB / 3);
	p->hosts = sim_range(w, 2, SIM_HOSTS);
	p->lanes_per_host = sim_range(w, 1, 2);
	p->rc_conns = sim_range(w, 1, 4);
	p->ops = sim_range(w, 5, 60);
	p->slots = sim_range(w, 4, SIM_SLOTS);
	p->max_msg = max_msg[sim_below(w, 6)];
	p->gap_ns = sim_range(w, 0, 20) * SIM_US;
	p->recv_delay_ns =
		sim_chance(w, SIM_PROB / 2) ? sim_below(w, 200) * SIM_US : 0;
	p->poll_delay_ns = sim_below(w, 6) * SIM_US;
	p->shared_cq = sim_chance(w, SIM_PROB / 2);
	p->srq = sim_chance(w, SIM_PROB / 3);
	p->windows = sim_chance(w, SIM_PROB / 2);
}

/* Errors are provoked on a good network, where their outcome is certain. */
static bool is_error_scenario(enum sim_scenario s)
{
	return s >= SIM_PEER_DIES && s != SIM_SQD && s != SIM_RESET &&
	       s != SIM_MIGRATE;
}

static void shape_shared_queues(struct sim_world *w)
{
	struct sim_params *p = &w->p;

	if (p->scenario == SIM_XRC) {
		p->rc_conns = sim_below(w, 3);
		p->xrc_conns = sim_range(w, 1, 4);
		p->srq = false; /* targets have them anyway */
	}
	if (p->scenario == SIM_DC) {
		p->rc_conns = sim_below(w, 3);
		p->dc_conns = sim_range(w, 1, 5);
		p->srq = false; /* targets have them anyway */
	}
	if (p->scenario == SIM_TAGS) {
		p->rc_conns = sim_below(w, 3);
		p->tag_senders = sim_range(w, 1, 3);
		if (p->max_msg > 20000)
			p->max_msg = 20000;
	}
}

static void shape_scenario(struct sim_world *w)
{
	struct sim_params *p = &w->p;

	if (p->scenario == SIM_UC || p->scenario == SIM_MIXED)
		p->uc_conns = sim_range(w, 1, 3);
	if (p->uc_conns)
		p->slots = sim_range(w, 2 * p->uc_conns + 2, SIM_SLOTS);
	if (p->scenario == SIM_UC)
		p->rc_conns = 0;
	if (p->scenario == SIM_UD || p->scenario == SIM_MIXED)
		p->uds = sim_range(w, 2, SIM_UDS);
	if (p->scenario == SIM_UD)
		p->rc_conns = 0;
	shape_shared_queues(w);
	if (p->scenario == SIM_INCAST) {
		p->hosts = SIM_HOSTS;
		p->rc_conns = sim_range(w, 3, 6);
		p->net.rx_bytes = sim_range(w, 64, 512) << 10;
	}
	if (p->scenario == SIM_BIG) {
		p->max_msg = 1u << 20;
		p->slots = 4;
		p->ops = sim_range(w, 3, 12);
		p->rc_conns = sim_range(w, 1, 2);
		p->srq = false;
		p->net.loss_prob /= 16;
	}
	if (p->scenario == SIM_RNR)
		p->recv_delay_ns = sim_range(w, 100, 3000) * SIM_US;
	if (p->scenario == SIM_HOSTILE) {
		p->hosts = sim_range(w, 3, SIM_HOSTS);
		p->xrc_conns = sim_below(w, 3);
		p->srq = p->srq && !p->xrc_conns;
	}
	if (p->scenario == SIM_MARKED) {
		p->net.ce_prob = SIM_PROB >> 2 * sim_below(w, 4);
		p->xrc_conns = sim_below(w, 2);
		p->srq = p->srq && !p->xrc_conns;
	}
	if (p->scenario == SIM_MIGRATE)
		p->ops = sim_range(w, 50, 400);
	if (sim_scenario_has_victim(w))
		p->hosts = SIM_HOSTS;
	if (is_error_scenario(p->scenario) || p->scenario == SIM_RESET)
		p->srq = false;
	if (is_error_scenario(p->scenario) || p->scenario == SIM_RESET ||
	    p->scenario == SIM_HOSTILE)
		p->windows = false;
}

void sim_params_draw(struct sim_world *w, int scenario)
{
	struct sim_params *p = &w->p;
	enum sim_scenario drawn = draw_scenario(w);

	memset(p, 0, sizeof(*p));
	p->scenario = scenario < 0 ? drawn : (enum sim_scenario)scenario;
	draw_shape(w);
	draw_net(w);
	if (p->scenario == SIM_LOSSY || p->scenario == SIM_CHAOS ||
	    p->scenario == SIM_UC || p->scenario == SIM_UD ||
	    p->scenario == SIM_XRC || p->scenario == SIM_MIXED ||
	    p->scenario == SIM_DC || p->scenario == SIM_TASKS ||
	    p->scenario == SIM_SQD ||
	    (p->scenario == SIM_TAGS && sim_chance(w, SIM_PROB * 3 / 4)) ||
	    (p->scenario == SIM_MIGRATE && sim_chance(w, SIM_PROB / 2)) ||
	    (p->scenario == SIM_BIG && sim_chance(w, SIM_PROB / 2)))
		draw_faults(w);
	shape_scenario(w);
	sim_shm_draw(w);
	draw_timers(w);
	if (p->scenario == SIM_RNR_EXCEEDED)
		p->rnr_retry = (uint8_t)sim_below(w, 4);
	if (p->scenario == SIM_PEER_DIES)
		p->retry_cnt = (uint8_t)sim_below(w, 8);
}
