/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: two queue pairs, their queues and buffers. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

static void dir_init(struct sim_dir *d, struct sim_end *from,
		     struct sim_end *to)
{
	struct sim_world *w = from->w;
	uint32_t dst_len = (w->p.max_msg + 4096 + 7) & ~7u;

	d->from = from;
	d->to = to;
	d->bad_op = UINT32_MAX;
	d->slot_size = (w->p.max_msg + SIM_SGES * SIM_SGE_GAP + 63) & ~63u;
	rig_buf_init(&d->src, from->lane->rig.host, d->slot_size * w->p.slots,
		     UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&d->dst, to->lane->rig.host, dst_len,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			     UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC |
			     UR_ACCESS_FLUSH_GLOBAL | UR_ACCESS_MW_BIND);
	memset(d->dst.p, 0, dst_len);
	sim_win_create(d);
	d->model = calloc(1, dst_len);
	d->before = calloc(1, dst_len);
	RIG_CHECK(d->model != NULL && d->before != NULL);
}

static void dir_free_ops(struct sim_dir *d)
{
	for (uint32_t i = 0; i < d->posted; i++)
		free(d->ops[i].expect);
	free(d->ops);
	d->ops = NULL;
}

static void dir_fini(struct sim_dir *d)
{
	if (!rig_buf_guards_ok(&d->src))
		sim_fail(d->from->w, "send buffer: written outside of it");
	if (!rig_buf_guards_ok(&d->dst))
		sim_fail(d->from->w, "target region: written outside of it");
	dir_free_ops(d);
	free(d->model);
	free(d->before);
	sim_win_destroy(d);
	rig_buf_fini(&d->src);
	rig_buf_fini(&d->dst);
}

bool sim_end_flushes(const struct sim_end *e)
{
	return e->rxq == &e->own_rxq && e->qp.type != UR_QPT_XRC_RECV &&
	       e->qp.type != UR_QPT_DC_TGT;
}

bool sim_end_receives(const struct sim_end *e)
{
	return ur_qp_type_receives(e->qp.type) || e->qp.type == UR_QPT_XRC_RECV;
}

/* A target's receives are those of an XRC queue, here of one for each. */
static void xrc_srq_create(struct sim_end *e)
{
	struct rig_host *h = e->lane->rig.host;
	struct ur_srq *srq = &e->own_rxq.srq;

	RIG_CHECK(ur_srq_init(srq, &h->pd, SIM_SLOTS, SIM_SGES, 0, &h->async,
			      NULL) == 0);
	ur_srq_set_cq(srq, e->cq, &h->xrcd);
	RIG_CHECK(ur_srq_table_add(h->srqs, srq, e->lane->rig.slot) == 0);
}

static void srq_destroy(struct sim_end *e)
{
	if (e->own_rxq.srq.number)
		ur_srq_table_remove(e->lane->rig.host->srqs, &e->own_rxq.srq);
	RIG_CHECK(ur_srq_fini(&e->own_rxq.srq) == 0);
}

static void end_create(struct sim_end *e, struct sim_conn *c,
		       struct sim_lane *l, enum ur_qp_type type)
{
	struct sim_world *w = l->w;
	struct ur_qp_init init = { .type = type };

	e->w = w;
	e->lane = l;
	e->conn = c;
	e->max_recv = w->p.max_msg;
	e->cq = w->p.shared_cq ? &l->cq : &e->own_cq;
	if (!w->p.shared_cq)
		RIG_CHECK(ur_cq_init(&e->own_cq, 512, NULL, &l->rig.host->async,
				     NULL) == 0);
	init.send_cq = e->cq;
	init.recv_cq = e->cq;
	init.srq = w->p.srq ? &l->srq.srq : NULL;
	init.cap = (struct ur_qp_cap){
		.max_send_wr = sim_range(w, 4, 64),
		.max_recv_wr = w->p.srq ? 0 : SIM_SLOTS,
		.max_send_sge = SIM_SGES,
		.max_recv_sge = w->p.srq ? 0 : SIM_SGES,
		.max_inline = sim_below(w, 257),
	};
	init.sq_sig_all = sim_chance(w, SIM_PROB / 4);
	if (type == UR_QPT_DC_INI) {
		/* Room for all of dir_post_one() and sim_dc_turn() */
		init.cap.max_send_wr = 4 * SIM_SLOTS;
		init.sq_sig_all = false;
	}
	if (type == UR_QPT_DC_TGT) {
		init.srq = &e->own_rxq.srq;
		RIG_CHECK(ur_srq_init(init.srq, &l->rig.host->pd, SIM_SLOTS,
				      SIM_SGES, 0, &l->rig.host->async,
				      NULL) == 0);
	}
	rig_qp_create(&l->rig, &e->qp, &init);
	sim_tasks_create(e);
	e->rxq = w->p.srq ? &l->srq : &e->own_rxq;
	if (!w->p.srq) {
		e->own_rxq.end = e;
		if (type == UR_QPT_XRC_RECV)
			xrc_srq_create(e);
		sim_rxq_init(&e->own_rxq, l,
			     e->own_rxq.srq.rq.ring ? &e->own_rxq.srq.rq
						    : &e->qp.rq,
			     w->p.max_msg);
	}
}

static void end_destroy(struct sim_end *e)
{
	sim_tasks_destroy(e);
	if (e->own_rxq.srq.rq.ring)
		srq_destroy(e);
	if (e->cq == &e->own_cq)
		RIG_CHECK(ur_cq_fini(&e->own_cq) == 0);
	if (e->rxq == &e->own_rxq)
		sim_rxq_fini(&e->own_rxq);
}

/* PSNs are sometimes near the wrap. */
static uint32_t draw_psn(struct sim_world *w)
{
	if (sim_chance(w, SIM_PROB / 2))
		return (UR_PSN_MASK - sim_below(w, 64)) & UR_PSN_MASK;
	return (uint32_t)ur_rng_next(&w->rng) & UR_PSN_MASK;
}

void sim_conn_connect(struct sim_conn *c)
{
	struct sim_world *w = c->end[0].w;
	uint8_t rd = (uint8_t)sim_range(
		w, 1, sim_chance(w, SIM_PROB / 8) ? UR_MAX_RD_ATOMIC : 16);
	bool first = w->nconns == 0 || c == w->conns[0];

	for (uint32_t i = 0; i < 2; i++) {
		struct sim_end *e = &c->end[i], *peer = &c->end[!i];
		struct rig_link *k = &e->link;

		memcpy(k->src, e->lane->rig.host->addr, 16);
		memcpy(k->dst, peer->lane->rig.host->addr, 16);
		k->dest_qpn = peer->qp.qpn;
		k->path_mtu = c->mtu;
		k->interface_mtu = c->interface_mtu[i];
		k->access = UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ |
			    UR_ACCESS_REMOTE_ATOMIC | UR_ACCESS_FLUSH_GLOBAL;
		k->timeout = w->p.timeout;
		k->retry_cnt = w->p.retry_cnt;
		k->rnr_retry = i == 0 && first ? w->p.rnr_retry : 7;
		k->min_rnr_timer = w->p.min_rnr_timer;
		k->max_rd_atomic = rd;
		k->max_dest_rd_atomic = rd;
		k->sq_psn = draw_psn(w);
		k->is_local = w->p.shm && !c->hostile;
		peer->link.rq_psn = k->sq_psn;
		e->sent_any = false;
		e->own_rxq.closed = !sim_end_receives(e);
	}
	for (uint32_t i = 0; i < 2; i++) {
		if (sim_is_dc(c))
			sim_dc_connect(&c->end[i]);
		else
			rig_qp_connect(&c->end[i].lane->rig, &c->end[i].qp,
				       &c->end[i].link, w->now_ns);
	}
}

static void dir_reset(struct sim_dir *d)
{
	dir_free_ops(d);
	d->planned = d->posted = d->retired = d->received = 0;
	d->busy_slots = 0;
	d->unsignaled = 0;
	d->failed = false;
	d->unsure = false;
	memcpy(d->model, d->dst.p, d->dst.len);
	memcpy(d->before, d->dst.p, d->dst.len);
}

void sim_conn_reset(struct sim_conn *c)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct sim_end *e = &c->end[i];

		RIG_CHECK(rig_qp_state(&e->lane->rig, &e->qp, UR_QPS_RESET,
				       e->w->now_ns) == 0);
		sim_lane_wake(e->lane, 0);
		if (sim_end_flushes(e))
			sim_rxq_reset(e->rxq);
		e->recv_errors = 0;
	}
	for (uint32_t i = 0; i < 2; i++)
		dir_reset(&c->end[i].out);
}

/* Both ends have the same MTU, or not; none is room for no more. */
static void draw_interfaces(struct sim_world *w, struct sim_conn *c)
{
	uint32_t mtu = ur_mtu_bytes(c->mtu);

	if (c->type != UR_QPT_RC || sim_chance(w, SIM_PROB / 4))
		return;
	for (uint32_t i = 0; i < 2; i++)
		c->interface_mtu[i] =
			sim_range(w, mtu, mtu < 2048 ? 2 * mtu : 6100);
	if (sim_chance(w, SIM_PROB * 3 / 4))
		c->interface_mtu[1] = c->interface_mtu[0];
}

void sim_conn_create(struct sim_world *w, enum ur_qp_type type,
		     struct sim_lane *a, struct sim_lane *b)
{
	struct sim_conn *c = calloc(1, sizeof(*c));

	RIG_CHECK(c != NULL && w->nconns < SIM_CONNS);
	c->type = type;
	c->mtu = sim_range(w, 1, 5);
	draw_interfaces(w, c);
	end_create(&c->end[0], c, a, type);
	end_create(&c->end[1], c, b,
		   type == UR_QPT_XRC_SEND ? UR_QPT_XRC_RECV
		   : type == UR_QPT_DC_INI ? UR_QPT_DC_TGT
					   : type);
	for (uint32_t i = 0; i < 2; i++) {
		dir_init(&c->end[i].out, &c->end[i], &c->end[!i]);
		c->end[i].in = &c->end[!i].out;
	}
	sim_conn_connect(c);
	w->conns[w->nconns++] = c;
}

void sim_conn_destroy(struct sim_conn *c)
{
	for (uint32_t i = 0; i < 2; i++)
		end_destroy(&c->end[i]);
	for (uint32_t i = 0; i < 2; i++)
		dir_fini(&c->end[i].out);
	free(c);
}
