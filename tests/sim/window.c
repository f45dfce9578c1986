/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: each direction has one, on its target. The target's queue
 * pair binds it, the peer uses it instead of the region, and one of them
 * invalidates it: the peer by a SEND with a fence, or the target when nothing
 * is in flight. In between the key must work, afterwards it is not used;
 * retransmissions must do no harm.
 */
#include <stdlib.h>

#include "sim/sim.h"

void sim_win_create(struct sim_dir *d)
{
	struct rig_host *h = d->to->lane->rig.host;

	RIG_CHECK(ur_mw_create(&h->mrs, &h->pd, UR_MW_TYPE_2, &d->win.mw) == 0);
}

void sim_win_destroy(struct sim_dir *d)
{
	ur_mw_destroy(&d->to->lane->rig.host->mrs, d->win.mw);
	if (d->dst.mr->windows)
		sim_fail(d->from->w, "a region counts windows that are gone");
}

static bool may_have(const struct sim_end *e)
{
	return e->w->p.windows && e->qp.type == UR_QPT_RC;
}

/* The target posts a bind of a window of the region that `d` writes to. */
static void draw_bind(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;
	struct sim_win *win = &d->win;
	uint32_t off = sim_below(w, d->dst.len - 1);
	uint32_t len = d->dst.len - off;

	win->state = SIM_WIN_BINDING;
	win->off = off;
	win->len = sim_chance(w, SIM_PROB / 2) ? len : 1 + sim_below(w, len);
	win->zero = sim_chance(w, SIM_PROB / 3);
	win->bind = (struct ur_mw_bind){
		.addr = (uintptr_t)d->dst.p + off,
		.length = win->len,
		.window = win->mw->win.key,
		.key = win->mw->win.key + 1,
		.lkey = d->dst.mr->key,
		.access = UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ |
			  UR_ACCESS_REMOTE_ATOMIC | UR_ACCESS_FLUSH_GLOBAL |
			  (win->zero ? UR_ACCESS_ZERO_BASED : 0),
	};
	op->opcode = UR_WR_BIND_MW;
	op->flags = UR_SEND_SIGNALED;
}

static bool draw_own(struct sim_dir *d, struct sim_op *op)
{
	struct sim_win *win = &d->win;

	if (win->state == SIM_WIN_FREE) {
		draw_bind(d, op);
		return true;
	}
	/* Only the target knows when it is safe: nothing is in flight. */
	if (win->state != SIM_WIN_BOUND || d->posted != d->retired)
		return false;
	win->state = SIM_WIN_ENDING;
	op->opcode = UR_WR_LOCAL_INV;
	op->flags = UR_SEND_SIGNALED;
	op->imm = win->key;
	return true;
}

static bool draw_theirs(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;

	if (d->win.state != SIM_WIN_BOUND)
		return false;
	d->win.state = SIM_WIN_ENDING;
	op->opcode = UR_WR_SEND_INV;
	op->flags = UR_SEND_SIGNALED | UR_SEND_FENCE;
	op->imm = d->win.key;
	op->len = sim_below(w, w->p.max_msg + 1);
	op->nsge = sim_cut(w, op->len, op->piece);
	return true;
}

bool sim_win_draw(struct sim_dir *d, struct sim_op *op)
{
	struct sim_world *w = d->from->w;

	if (!may_have(d->from) || !sim_chance(w, SIM_PROB / 5))
		return false;
	return sim_chance(w, SIM_PROB / 2) ? draw_own(d->from->in, op)
					   : draw_theirs(d, op);
}

/* The queue was full: it was never posted. */
void sim_win_undo(struct sim_dir *d, const struct sim_op *op)
{
	if (op->opcode == UR_WR_BIND_MW)
		d->from->in->win.state = SIM_WIN_FREE;
	else if (op->opcode == UR_WR_LOCAL_INV)
		d->from->in->win.state = SIM_WIN_BOUND;
	else if (op->opcode == UR_WR_SEND_INV)
		d->win.state = SIM_WIN_BOUND;
}

void sim_win_name(struct sim_dir *d, const struct sim_op *op, struct rig_wr *wr)
{
	struct sim_win *win = &d->win;

	if (op->opcode == UR_WR_BIND_MW)
		wr->bind = &d->from->in->win.bind;
	if (win->state != SIM_WIN_BOUND || op->dst_off == SIM_COUNTER ||
	    op->dst_off < win->off ||
	    op->dst_off + op->len > win->off + win->len ||
	    !sim_chance(d->from->w, SIM_PROB / 2))
		return;
	wr->rkey = win->key;
	/* Zero-based, an atomic's address would be unaligned */
	if (win->zero && win->off % 8 == 0)
		wr->remote_addr = op->dst_off - win->off;
	else if (win->zero)
		wr->rkey = d->dst.mr->key;
}

/* A request of d's source completed: of its own window, that is of d->in. */
void sim_win_completed(struct sim_dir *d, const struct sim_op *op)
{
	struct sim_win *win = &d->from->in->win;

	if (op->opcode == UR_WR_BIND_MW) {
		win->state = SIM_WIN_BOUND;
		win->key = win->mw->win.key;
		if (d->from->in->dst.mr->windows != 1)
			sim_fail(d->from->w, "a bound window is not counted");
	} else if (op->opcode == UR_WR_LOCAL_INV) {
		win->state = SIM_WIN_FREE;
	}
}

/* The target of d has received the SEND that invalidates. */
void sim_win_invalidated(struct sim_dir *d)
{
	d->win.state = SIM_WIN_FREE;
	if (d->dst.mr->windows)
		sim_fail(d->from->w, "an invalidated window is still bound");
}
