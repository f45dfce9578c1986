/* SPDX-License-Identifier: BSD-2-Clause */
/* What applications post: random requests in random bursts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

bool sim_op_eats_recv(const struct sim_op *op)
{
	return op->opcode == UR_WR_SEND || op->opcode == UR_WR_SEND_IMM ||
	       op->opcode == UR_WR_SEND_INV ||
	       op->opcode == UR_WR_RDMA_WRITE_IMM;
}

bool sim_op_reads(const struct sim_op *op)
{
	return op->opcode == UR_WR_RDMA_READ || op->opcode == UR_WR_CMP_SWP ||
	       op->opcode == UR_WR_FETCH_ADD || sim_op_is_masked(op);
}

static uint8_t draw_opcode(struct sim_world *w, enum ur_qp_type type)
{
	static const uint8_t rc[] = {
		UR_WR_SEND,
		UR_WR_SEND,
		UR_WR_SEND_IMM,
		UR_WR_RDMA_WRITE,
		UR_WR_RDMA_WRITE,
		UR_WR_RDMA_WRITE_IMM,
		UR_WR_RDMA_READ,
		UR_WR_RDMA_READ,
		UR_WR_FETCH_ADD,
		UR_WR_FETCH_ADD,
		UR_WR_CMP_SWP,
		UR_WR_FLUSH,
		UR_WR_ATOMIC_WRITE,
		UR_WR_MASKED_CMP_SWP,
		UR_WR_MASKED_FETCH_ADD,
	};

	/* The first six are those of UC. */
	if (type == UR_QPT_UC)
		return rc[sim_below(w, 6)];
	/* The last four have no opcodes on XRC. */
	return rc[sim_below(w, (uint32_t)sizeof(rc) -
				       (type == UR_QPT_RC ? 0 : 4))];
}

static uint32_t draw_len(struct sim_world *w, uint32_t mtu)
{
	uint32_t max = w->p.max_msg;
	uint32_t len;

	switch (sim_below(w, 8)) {
	case 0:
		return 0;
	case 1:
	case 2:
		len = 1 + sim_below(w, 64);
		break;
	case 3:
	case 4:
		/* Close to a multiple of the MTU. */
		len = (1 + sim_below(w, max / mtu + 1)) * mtu - 2 +
		      sim_below(w, 5);
		break;
	case 5:
		len = sim_below(w, max + 1);
		break;
	default:
		len = sim_below(w, max / 8 + 1);
		break;
	}
	return len < max ? len : max;
}

/* FLUSH has a range and no data. */
static void draw_flush(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;

	op->len = sim_below(w, w->p.max_msg + 1);
	op->nsge = 1;
	op->piece[0] = op->len;
	op->dst_off = sim_below(w, d->dst.len - op->len + 1);
}

static bool dir_reaches_counter(const struct sim_dir *d)
{
	return d->to->lane->host == 0 && d->from->w->counter.mr;
}

static void draw_atomic(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;

	op->len = 8;
	op->nsge = 1;
	op->piece[0] = 8;
	op->dst_off = 8 * sim_below(w, d->dst.len < 64 ? 1 : 8);
	op->swap_add = ur_rng_next(&w->rng);
	op->compare = ur_rng_next(&w->rng);
	if (op->opcode == UR_WR_CMP_SWP && sim_chance(w, SIM_PROB / 2))
		memcpy(&op->compare, d->model + op->dst_off, 8);
	if (op->opcode == UR_WR_FETCH_ADD && dir_reaches_counter(d) &&
	    sim_chance(w, SIM_PROB / 2)) {
		op->dst_off = SIM_COUNTER;
		op->swap_add = 1;
		w->counter_adds++;
	}
}

static void draw_op(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;
	struct sim_end *e = d->from;
	bool last = d->posted + 1 == d->planned;

	memset(op, 0, sizeof(*op));
	op->id = ++w->next_id;
	op->posted_ns = w->now_ns;
	op->imm = (uint32_t)op->id;
	if (d->posted != d->bad_op && sim_win_draw(d, op))
		return;
	op->opcode = draw_opcode(w, e->conn->type);
	if (op->opcode == UR_WR_FETCH_ADD || op->opcode == UR_WR_CMP_SWP) {
		draw_atomic(d, op);
	} else if (sim_op_is_masked(op)) {
		sim_masked_draw(d, op);
	} else if (op->opcode == UR_WR_FLUSH) {
		draw_flush(d, op);
	} else {
		op->len = draw_len(w, ur_mtu_bytes(e->conn->mtu));
		if (op->opcode == UR_WR_ATOMIC_WRITE)
			op->len = 8;
		op->nsge = sim_cut(w, op->len, op->piece);
		op->dst_off = sim_below(w, d->dst.len - op->len + 1);
		if (op->opcode == UR_WR_ATOMIC_WRITE)
			op->dst_off &= ~7u;
		if (!sim_op_reads(op) && op->len <= e->qp.sq.max_inline &&
		    sim_chance(w, SIM_PROB / 2))
			op->flags |= UR_SEND_INLINE;
	}
	if (e->qp.sq_sig_all || last || d->unsignaled + 1 >= w->p.slots / 2 ||
	    d->unsignaled + 2 >= e->qp.sq.max_wr || sim_chance(w, SIM_PROB / 2))
		op->flags |= UR_SEND_SIGNALED;
	if (sim_chance(w, SIM_PROB / 12))
		op->flags |= UR_SEND_FENCE;
	if (sim_chance(w, SIM_PROB / 3))
		op->flags |= UR_SEND_SOLICITED;
}

static void op_wr(struct sim_dir *d, const struct sim_op *op, struct rig_wr *wr,
		  struct ur_sge *sge)
{
	const struct rig_buf *b = &d->dst;
	uint32_t off = op->dst_off;

	if (off == SIM_COUNTER) {
		b = &d->from->w->counter;
		off = 0;
	}
	*wr = (struct rig_wr){
		.wr_id = d->posted,
		.sge = sge,
		.nsge = op->nsge,
		.imm_be = op->imm,
		.remote_addr = (uintptr_t)b->p + off,
		.rkey = b->mr->key,
		.srqn = d->to->own_rxq.srq.number,
		.placement = UR_FLUSH_GLOBAL,
		.level = op->id % 2 ? UR_FLUSH_RANGE : UR_FLUSH_MR,
		.opcode = op->opcode,
		.flags = op->flags,
		.compare_add = op->opcode == UR_WR_CMP_SWP ? op->compare
							   : op->swap_add,
		.swap = op->swap_add,
		.masked = &op->masked,
	};
}

/* The scenario's victim is a request that must fail in a given way. */
static void spoil(struct sim_dir *d, struct sim_op *op, struct rig_wr *wr,
		  struct ur_sge *sge)
{
	struct sim_world *w = d->from->w;

	if (w->p.scenario == SIM_BAD_RKEY) {
		switch (sim_below(w, 3)) {
		case 0:
			wr->rkey ^= 1u << sim_below(w, 32);
			break;
		case 1: /* one byte beyond the end */
			wr->remote_addr =
				(uintptr_t)d->dst.p + d->dst.len - op->len + 8;
			break;
		default: /* registered without remote rights */
			wr->rkey = d->to->own_rxq.buf.mr->key;
			wr->remote_addr = (uintptr_t)d->to->own_rxq.buf.p;
			break;
		}
	} else if (w->p.scenario == SIM_LOCAL_PROT) {
		sge[op->nsge - 1].lkey ^= 0x100u << sim_below(w, 24);
	}
}

/* A victim is the simplest request of its kind, with data. */
static void shape_victim(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;
	static const uint8_t remote[] = { UR_WR_RDMA_WRITE, UR_WR_RDMA_READ,
					  UR_WR_FETCH_ADD };

	op->flags = UR_SEND_SIGNALED;
	op->opcode = UR_WR_SEND;
	op->len = 8 + sim_below(w, w->p.max_msg - 7);
	if (w->p.scenario == SIM_BAD_RKEY)
		op->opcode = remote[sim_below(w, 3)];
	if (w->p.scenario == SIM_RECV_SHORT)
		op->len = w->p.max_msg + 1;
	if (op->opcode == UR_WR_FETCH_ADD)
		op->len = 8;
	op->dst_off = 0;
	op->nsge = 1;
	op->piece[0] = op->len;
}

static bool dir_post_one(struct sim_dir *d)
{
	struct sim_world *w = d->from->w;
	struct sim_op *op = &d->ops[d->posted];
	struct ur_sge sge[SIM_SGES];
	bool bad = d->posted == d->bad_op;
	struct ur_dc_target to;
	struct rig_wr wr;
	uint32_t at;

	draw_op(d, op);
	if (bad)
		shape_victim(d, op);
	op->slot = (uint32_t)__builtin_ctz(~d->busy_slots);
	at = op->slot * d->slot_size;
	sim_slot_blank(&d->src, at, d->slot_size);
	sim_sges(&d->src, at, op->piece, op->nsge, sge);
	if (!sim_op_reads(op))
		sim_sges_fill(sge, op->nsge, op->id);
	op_wr(d, op, &wr, sge);
	sim_win_name(d, op, &wr);
	sim_dc_name(d, &to, &wr);
	if (bad)
		spoil(d, op, &wr, sge);
	if (rig_post_send(&d->from->qp, &wr)) {
		if (op->dst_off == SIM_COUNTER)
			w->counter_adds--;
		sim_win_undo(d, op);
		return false;
	}
	SIM_TRACEF(w, "qp %x posts #%u op %u len %u flags %x", d->from->qp.qpn,
		   d->posted, op->opcode, op->len, op->flags);
	d->busy_slots |= 1u << op->slot;
	d->unsignaled = op->flags & UR_SEND_SIGNALED ? 0 : d->unsignaled + 1;
	/* Inline data was copied: the buffer may be reused at once. */
	if (op->flags & UR_SEND_INLINE)
		sim_slot_blank(&d->src, at, d->slot_size);
	sim_dir_apply(d, op);
	w->work_bytes += op->len;
	w->work_ops++;
	d->posted++;
	if (w->p.dc_conns)
		sim_dc_turn(d);
	return true;
}

static bool dir_may_post(const struct sim_dir *d)
{
	uint32_t all = (1u << d->from->w->p.slots) - 1;

	return d->posted < d->planned && (d->busy_slots & all) != all;
}

void sim_dir_post(struct sim_dir *d)
{
	struct sim_world *w = d->from->w;
	uint32_t n = 1 + sim_below(w, 8);
	bool room = true;

	d->post_pending = false;
	while (n-- && room && dir_may_post(d))
		room = dir_post_one(d);
	sim_tasks_sends(d);
	ur_roce_kick(d->from->lane->rig.roce, &d->from->qp, w->now_ns);
	sim_lane_wake(d->from->lane, 0);
	/* Without room the next completion schedules it. */
	if (room && dir_may_post(d))
		sim_dir_wake(d, w->p.gap_ns);
}

void sim_dir_wake(struct sim_dir *d, uint64_t delay_ns)
{
	struct sim_world *w = d->from->w;

	if (d->post_pending || d->posted >= d->planned)
		return;
	d->post_pending = true;
	if (delay_ns)
		delay_ns = sim_below(w, (uint32_t)delay_ns);
	sim_event_add(w, w->now_ns + delay_ns, SIM_EV_POST, d);
}

void sim_dir_plan(struct sim_dir *d, uint32_t ops)
{
	d->planned = ops;
	if (!ops)
		return;
	d->ops = calloc(ops, sizeof(*d->ops));
	RIG_CHECK(d->ops != NULL);
	sim_dir_wake(d, d->from->w->p.gap_ns);
}
