/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Managed queues: what an application posts is executed when a queue pair beside it,
 * which sends nothing, has waited for completions and enables it.  Sends wait for
 * completions that are certain to come, and receives, of which another queue pair takes
 * care, for none: so all is executed in the end, and nothing before its wait is over.
 */
#include <stdlib.h>
#include <string.h>

#include "core/cross.h"
#include "sim/sim.h"

#define DEPTH 1024u /* more than is ever posted to a control queue */

struct gate {
	uint32_t begin; /* the first request behind it */
	uint64_t until; /* what the CQ must have had */
};

struct sim_tasks {
	struct ur_qp sends, receives; /* enable those of the end's */
	struct ur_cq cq;
	bool manages_receives;
	struct gate gate[DEPTH];
	uint32_t gates;
	uint32_t open;	  /* gates that have been seen to be passed */
	uint32_t enabled; /* sends before this have a gate */
};

static struct sim_lane *lane_of(const struct ur_qp *qp)
{
	/* What the engine's lane is to the engine */
	return (struct sim_lane *)(void *)qp->lane;
}

static void wake(struct ur_qp *qp, const struct ur_lane *held)
{
	struct sim_lane *l = lane_of(qp);

	(void)held;
	l->woken = true;
	sim_lane_wake(l, 0);
}

static void make_cross(struct sim_end *e, struct ur_qp *qp, uint32_t flags)
{
	qp->lane = (struct ur_lane *)(void *)e->lane;
	RIG_CHECK(ur_cross_create(qp, flags, wake) == 0);
}

/* Connected to itself: it completes requests, and sends no packet. */
static void control_create(struct sim_end *e, struct ur_qp *qp)
{
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .send_cq = &e->tasks->cq,
				   .recv_cq = &e->tasks->cq,
				   .cap = { DEPTH, 1, 1, 1, 0 } };
	struct rig_link k = { .path_mtu = 3, .timeout = 14, .retry_cnt = 7 };

	rig_qp_create(&e->lane->rig, qp, &init);
	make_cross(e, qp, UR_CROSS_MASTER);
	memcpy(k.src, e->lane->rig.host->addr, sizeof(k.src));
	memcpy(k.dst, k.src, sizeof(k.dst));
	k.dest_qpn = qp->qpn;
	rig_qp_connect(&e->lane->rig, qp, &k, e->w->now_ns);
}

void sim_tasks_create(struct sim_end *e)
{
	struct sim_world *w = e->w;
	struct sim_tasks *t;

	if (w->p.scenario != SIM_TASKS)
		return;
	t = calloc(1, sizeof(*t));
	RIG_CHECK(t != NULL);
	e->tasks = t;
	RIG_CHECK(ur_cq_init(&t->cq, 1, NULL, &e->lane->rig.host->async,
			     NULL) == 0);
	ur_cq_ignore_overrun(&t->cq, true);
	t->manages_receives = !w->p.srq && sim_chance(w, SIM_PROB / 2);
	make_cross(e, &e->qp,
		   UR_CROSS_MANAGED_SEND |
			   (t->manages_receives ? UR_CROSS_MANAGED_RECV : 0));
	control_create(e, &t->sends);
	control_create(e, &t->receives);
}

static void post(struct ur_qp *qp, struct ur_swqe from)
{
	struct ur_swqe *w;

	ur_latch_lock(&qp->sq.lock);
	w = ur_sq_stage(&qp->sq);
	RIG_CHECK(w != NULL);
	w->opcode = from.opcode;
	w->flags = from.flags;
	w->num_sge = 0;
	w->length = 0;
	w->wr = from.wr;
	ur_sq_commit(&qp->sq);
	ur_latch_unlock(&qp->sq.lock);
}

static uint8_t any_flags(struct sim_world *w)
{
	uint8_t flags = sim_chance(w, SIM_PROB / 4) ? UR_SEND_FENCE : 0;

	return flags | (sim_chance(w, SIM_PROB / 2) ? UR_SEND_SIGNALED : 0);
}

static void post_wait(struct ur_qp *by, struct ur_cq *cq, uint64_t until)
{
	struct ur_swqe wait = { .opcode = UR_CROSS_WAIT,
				.flags = any_flags(lane_of(by)->w),
				.wr.wait = { .until = until, .cq = cq } };

	ur_cross_hold_cq(cq);
	post(by, wait);
}

static void post_enable(struct ur_qp *by, struct ur_qp *of, uint8_t opcode,
			uint32_t until)
{
	struct ur_swqe enable = { .opcode = opcode,
				  .flags = any_flags(lane_of(by)->w) };

	enable.wr.enable.of = ur_cross_hold(of->cross);
	enable.wr.enable.until = until;
	post(by, enable);
}

/* Completions that will come, whatever is behind the last gate */
static uint32_t certain(const struct sim_dir *d)
{
	uint32_t n = 0;

	if (!ur_cq_is_empty(d->from->cq))
		return 0;
	for (uint32_t i = d->retired; i < d->from->tasks->enabled; i++)
		n += (d->ops[i].flags & UR_SEND_SIGNALED) != 0;
	return n;
}

static void add_gate(struct sim_dir *d, uint32_t end)
{
	struct sim_end *e = d->from;
	struct sim_tasks *t = e->tasks;
	struct gate *g = &t->gate[t->gates++];

	RIG_CHECK(t->gates < DEPTH);
	g->begin = t->enabled;
	g->until = e->cq->pushed + sim_below(e->w, certain(d) + 1);
	t->enabled = end;
	post_wait(&t->sends, e->cq, g->until);
	post_enable(&t->sends, &e->qp, UR_CROSS_SEND_ENABLE, end);
	SIM_TRACEF(e->w, "qp %x: #%u to #%u wait for %lu", e->qp.qpn, g->begin,
		   end - 1, g->until);
}

void sim_tasks_sends(struct sim_dir *d)
{
	struct sim_tasks *t = d->from->tasks;
	struct sim_world *w = d->from->w;
	uint32_t most = sim_range(w, 1, 3);

	if (!t)
		return;
	while (t->enabled != d->posted) {
		uint32_t left = d->posted - t->enabled;

		if (--most)
			left = 1 + sim_below(w, left);
		add_gate(d, t->enabled + left);
		if (!most)
			break;
	}
	wake(&d->from->qp, NULL);
}

void sim_tasks_receives(struct sim_end *e)
{
	struct sim_tasks *t = e->tasks;

	if (!t || !t->manages_receives)
		return;
	post_wait(&t->receives, &t->cq, 0);
	post_enable(&t->receives, &e->qp, UR_CROSS_RECV_ENABLE,
		    ur_rq_posted(&e->qp.rq));
	wake(&t->receives, NULL);
}

/* The protocol sees no request before the waits of its gate are over. */
static void check(struct sim_end *e)
{
	struct sim_tasks *t = e->tasks;
	uint32_t seen = ur_sq_tail(&e->qp.sq);

	for (; t->open < t->gates && t->gate[t->open].begin < seen; t->open++)
		if (e->cq->pushed < t->gate[t->open].until)
			sim_fail(e->w, "qp %x: #%u begins at %lu of %lu",
				 e->qp.qpn, t->gate[t->open].begin,
				 e->cq->pushed, t->gate[t->open].until);
	if (seen > t->enabled)
		sim_fail(e->w, "qp %x: #%u is not enabled", e->qp.qpn,
			 t->enabled);
}

static void run(struct sim_lane *l, struct ur_qp *qp)
{
	ur_cross_run(qp);
	ur_roce_kick(l->rig.roce, qp, l->w->now_ns);
}

/* As the engine serves doorbells */
void sim_tasks_run(struct sim_lane *l)
{
	struct sim_world *w = l->w;

	if (!l->woken)
		return;
	l->woken = false;
	for (uint32_t i = 0; i < 2 * w->nconns; i++) {
		struct sim_end *e = &w->conns[i / 2]->end[i % 2];

		if (e->lane != l)
			continue;
		run(l, &e->tasks->sends);
		run(l, &e->tasks->receives);
		run(l, &e->qp);
		check(e);
	}
}

/* Requests that are never executed refer to nothing afterwards: either they are
 * flushed, or dropped with their queue. */
static void leave_some(struct sim_end *e)
{
	struct sim_tasks *t = e->tasks;

	post_wait(&t->sends, e->cq, UINT64_MAX);
	post_enable(&t->sends, &e->qp, UR_CROSS_SEND_ENABLE, t->enabled);
	post_wait(&t->receives, &t->cq, UINT64_MAX);
	if (t->manages_receives)
		post_enable(&t->receives, &e->qp, UR_CROSS_RECV_ENABLE,
			    ur_rq_posted(&e->qp.rq));
	run(e->lane, &t->sends);
	if (sim_chance(e->w, SIM_PROB / 2))
		RIG_CHECK(rig_qp_state(&e->lane->rig, &t->sends, UR_QPS_ERR,
				       e->w->now_ns) == 0);
	sim_lane_pump(e->lane);
}

static void control_destroy(struct sim_end *e, struct ur_qp *qp)
{
	ur_cross_end(qp);
	rig_qp_destroy(&e->lane->rig, qp);
}

void sim_tasks_destroy(struct sim_end *e)
{
	struct sim_tasks *t = e->tasks;

	if (!t) {
		rig_qp_destroy(&e->lane->rig, &e->qp);
		return;
	}
	leave_some(e);
	if (sim_chance(e->w, SIM_PROB / 2)) {
		control_destroy(e, &e->qp);
		control_destroy(e, &t->sends);
	} else {
		control_destroy(e, &t->sends);
		control_destroy(e, &e->qp);
	}
	control_destroy(e, &t->receives);
	RIG_CHECK(ur_cq_fini(&t->cq) == 0);
	free(t);
}
