/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DC: each connection is an initiator and its target, and the initiator turns to the
 * other targets in between, with WRITEs of nothing.
 */
#include "sim/sim.h"

#define KEY 0xd0c0u

bool sim_is_dc(const struct sim_conn *c)
{
	return c->type == UR_QPT_DC_INI;
}

static void target_of(const struct sim_end *from, const struct sim_end *to,
		      struct ur_dc_target *t)
{
	rig_av(&t->av, from->lane->rig.host->addr, to->lane->rig.host->addr);
	/* Some paths have a smaller MTU than the initiator's queue pair. */
	t->av.dc_mtu = (uint8_t)(1 + to->qp.qpn % UR_MTU_CODE_MAX);
	t->dctn = to->qp.qpn;
	t->key = KEY;
}

void sim_dc_connect(struct sim_end *e)
{
	struct rig_link k = e->link;

	k.dc_key = KEY;
	if (e->qp.type == UR_QPT_DC_INI) {
		if (k.max_rd_atomic > UR_MAX_DC_RD_ATOMIC)
			k.max_rd_atomic = UR_MAX_DC_RD_ATOMIC;
		rig_qp_connect(&e->lane->rig, &e->qp, &k, e->w->now_ns);
		return;
	}
	/* Initiators with any MTU send to it. */
	k.path_mtu = UR_MTU_CODE_MAX;
	rig_dct_activate(&e->lane->rig, &e->qp, &k, e->w->now_ns);
}

void sim_dc_name(const struct sim_dir *d, struct ur_dc_target *t,
		 struct rig_wr *wr)
{
	if (!sim_is_dc(d->from->conn))
		return;
	target_of(d->from, d->to, t);
	wr->dc = t;
}

void sim_dc_turn(const struct sim_dir *d)
{
	struct sim_world *w = d->from->w;
	const struct sim_conn *c = w->conns[sim_below(w, w->nconns)];
	struct ur_dc_target t;
	struct rig_wr wr = { .opcode = UR_WR_RDMA_WRITE, .dc = &t };

	if (!sim_is_dc(d->from->conn) || !sim_is_dc(c) ||
	    sim_chance(w, SIM_PROB / 2))
		return;
	target_of(d->from, &c->end[1], &t);
	RIG_CHECK(rig_post_send(&d->from->qp, &wr) == 0);
}

struct sim_end *sim_dc_initiator(struct sim_world *w, const uint8_t src[16],
				 const struct ur_hdr *h)
{
	struct sim_lane *l = sim_lane_at(w, src, h->sqpn);

	return l ? sim_end_by_qpn(l, h->sqpn) : NULL;
}
