/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migration under load: every host has a second address, the first connection
 * is armed repeatedly, and then either an end is told to migrate or its path
 * fails. All posted requests must complete, as in the other scenarios without
 * errors.
 */
#include <string.h>

#include "sim/sim.h"

#define ROUNDS	 4u
#define POLL_NS	 (100 * SIM_US)
#define ALT_FROM 64u /* numbers of the second addresses */

/* As many as those of scenario.c, which detects the end. */
enum { STEP_ARM, STEP_ARMING, STEP_MOVING, STEP_DONE };

static void second_addr(const struct sim_world *w, uint32_t host,
			uint8_t addr[16])
{
	rig_addr(addr, ALT_FROM + host, w->p.v6);
}

bool sim_host_has(const struct sim_world *w, uint32_t host,
		  const uint8_t addr[16])
{
	uint8_t second[16];

	if (memcmp(w->hosts[host].addr, addr, 16) == 0)
		return true;
	if (w->p.scenario != SIM_MIGRATE)
		return false;
	second_addr(w, host, second);
	return memcmp(second, addr, 16) == 0;
}

bool sim_migrate_swallows(const struct sim_world *w, const struct sim_pkt *p)
{
	const uint8_t(*dead)[16] = w->mig.dead;

	return w->mig.cut &&
	       ((!memcmp(p->src, dead[0], 16) &&
		 !memcmp(p->dst, dead[1], 16)) ||
		(!memcmp(p->src, dead[1], 16) && !memcmp(p->dst, dead[0], 16)));
}

static struct ur_qp_attr query(struct sim_end *e)
{
	struct ur_qp_attr a;

	ur_roce_qp_query(e->lane->rig.roce, &e->qp, &a);
	return a;
}

static void modify(struct sim_end *e, const struct ur_qp_attr *a, uint32_t mask)
{
	RIG_CHECK(ur_roce_qp_modify(e->lane->rig.roce, &e->qp, a, mask,
				    e->w->now_ns) == 0);
	sim_lane_wake(e->lane, 0);
}

/*
 * The first time the other path is loaded; later the old one is the alternate.
 */
static void arm(struct sim_world *w, struct sim_conn *c)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct sim_end *e = &c->end[i];
		struct ur_qp_attr a = { .path_mig_state = UR_MIG_REARM,
					.alt_port_num = 1,
					.alt_timeout = w->p.timeout };
		uint32_t mask = UR_QP_PATH_MIG_STATE;
		uint8_t src[16], dst[16];

		second_addr(w, e->lane->host, src);
		second_addr(w, c->end[!i].lane->host, dst);
		rig_av(&a.alt_av, src, dst);
		if (w->mig.round == 0)
			mask |= UR_QP_ALT_PATH;
		modify(e, &a, mask);
	}
}

static bool both_in(struct sim_conn *c, enum ur_mig_state state)
{
	return query(&c->end[0]).path_mig_state == state &&
	       query(&c->end[1]).path_mig_state == state;
}

static bool is_over(const struct sim_conn *c)
{
	for (uint32_t i = 0; i < 2; i++) {
		if (c->end[i].out.retired < c->end[i].out.planned)
			return false;
	}
	return true;
}

/* Requests posted from now on need the new path. */
static bool has_more(const struct sim_conn *c)
{
	for (uint32_t i = 0; i < 2; i++) {
		if (c->end[i].out.posted < c->end[i].out.planned)
			return true;
	}
	return false;
}

static void cut(struct sim_world *w, struct sim_conn *c)
{
	struct ur_qp_attr a = query(&c->end[0]);

	SIM_TRACEF(w, "the path goes dead");
	memcpy(w->mig.dead[0], a.av.sgid, 16);
	memcpy(w->mig.dead[1], a.av.dgid, 16);
	w->mig.cut = true;
	w->p.scenario_ns += (w->p.retry_cnt + 3ull) * 8 * sim_patience_ns(w);
}

static void move(struct sim_world *w, struct sim_conn *c)
{
	const struct ur_qp_attr a = { .path_mig_state = UR_MIG_MIGRATED };
	bool last = w->mig.round + 1 == ROUNDS;

	w->mig.expected += has_more(c);
	if (last && sim_chance(w, SIM_PROB / 2)) {
		cut(w, c);
		return;
	}
	if (sim_chance(w, SIM_PROB / 2))
		modify(&c->end[sim_below(w, 2)], &a, UR_QP_PATH_MIG_STATE);
	else
		for (uint32_t i = 0; i < 2; i++)
			modify(&c->end[i], &a, UR_QP_PATH_MIG_STATE);
}

void sim_migrate_act(struct sim_world *w)
{
	struct sim_conn *c = w->conns[0];

	if (w->act_step == STEP_ARM) {
		arm(w, c);
		w->act_step = STEP_ARMING;
	} else if (w->act_step == STEP_ARMING && both_in(c, UR_MIG_ARMED)) {
		move(w, c);
		w->act_step = STEP_MOVING;
	} else if (w->act_step == STEP_MOVING && both_in(c, UR_MIG_MIGRATED)) {
		w->mig.round++;
		w->act_step = w->mig.round < ROUNDS ? STEP_ARM : STEP_DONE;
	}
	if (is_over(c))
		w->act_step = STEP_DONE;
	if (w->act_step != STEP_DONE)
		sim_event_add(w, w->now_ns + 1 + sim_below(w, POLL_NS),
			      SIM_EV_ACT, NULL);
}

void sim_migrate_check(struct sim_world *w)
{
	const struct sim_net_params *n = &w->p.net;
	/* A late packet of an earlier arming may request an unintended
	 * migration. */
	bool in_order = !n->jitter_prob && !n->dup_prob;

	for (uint32_t i = 0; i < 2; i++) {
		struct sim_end *e = &w->conns[0]->end[i];
		uint32_t moved = e->events[UR_EVENT_PATH_MIG];

		if (moved < w->mig.expected)
			sim_fail(w, "qp %x migrated %u times instead of %u",
				 e->qp.qpn, moved, w->mig.expected);
		if (in_order && moved > w->mig.round + 1)
			sim_fail(w, "qp %x migrated %u times in %u rounds",
				 e->qp.qpn, moved, w->mig.round);
		if (in_order && e->events[UR_EVENT_PATH_MIG_ERR])
			sim_fail(w, "qp %x refused to migrate", e->qp.qpn);
	}
}
