/* SPDX-License-Identifier: BSD-2-Clause */
/* Provoked errors, and their required consequences. The victim is always the
 * first connection, between hosts 0 and 1; the others continue undisturbed. */
#include <string.h>

#include "sim/sim.h"

enum { STEP_FIRST, STEP_WAIT, STEP_RESUME, STEP_DONE };

bool sim_scenario_has_victim(const struct sim_world *w)
{
	return w->p.scenario >= SIM_PEER_DIES;
}

bool sim_scenario_is_victim(const struct sim_end *e)
{
	const struct sim_world *w = e->w;

	if (w->p.scenario == SIM_HOSTILE)
		return e->conn->hostile;
	return sim_scenario_has_victim(w) && w->p.scenario != SIM_SQD &&
	       w->p.scenario != SIM_RESET && w->p.scenario != SIM_MIGRATE &&
	       e->conn == w->conns[0];
}

bool sim_scenario_spares(const struct sim_end *e)
{
	return sim_scenario_is_victim(e) || sim_shm_was_cut(e);
}

static void act_at(struct sim_world *w, uint64_t delay_ns)
{
	sim_event_add(w, w->now_ns + delay_ns, SIM_EV_ACT, NULL);
	w->p.scenario_ns += delay_ns;
}

void sim_scenario_start(struct sim_world *w)
{
	struct sim_dir *d;

	if (!sim_scenario_has_victim(w))
		return;
	d = &w->conns[0]->end[0].out;
	if (w->p.scenario == SIM_BAD_RKEY || w->p.scenario == SIM_LOCAL_PROT ||
	    w->p.scenario == SIM_RECV_SHORT)
		d->bad_op = sim_below(w, d->planned);
	act_at(w, sim_below(w, 2000) * SIM_US);
}

static void kill_peer(struct sim_world *w)
{
	struct sim_lane *l = w->conns[0]->end[1].lane;

	l->dead = true;
	sim_shm_died(l);
	w->act_ns = w->now_ns;
}

static void start_draining(struct sim_world *w)
{
	struct sim_end *e = &w->conns[0]->end[0];
	struct ur_qp_attr attr = { .state = UR_QPS_SQD,
				   .en_sqd_async_notify = true };

	RIG_CHECK(ur_roce_qp_modify(e->lane->rig.roce, &e->qp, &attr,
				    UR_QP_STATE | UR_QP_EN_SQD_ASYNC_NOTIFY,
				    w->now_ns) == 0);
	sim_lane_wake(e->lane, 0);
	w->act_ns = w->now_ns;
	w->act_step = STEP_WAIT;
	act_at(w, 50 * SIM_US);
}

static void act_sqd(struct sim_world *w)
{
	struct sim_end *e = &w->conns[0]->end[0];

	if (w->act_step == STEP_FIRST) {
		start_draining(w);
	} else if (w->act_step == STEP_WAIT) {
		if (e->events[UR_EVENT_SQ_DRAINED]) {
			w->act_step = STEP_RESUME;
			w->drained_psn = e->sent_psn;
			w->drained_ops = e->out.retired;
		}
		act_at(w, sim_range(w, 50, 1000) * SIM_US);
	} else if (w->act_step == STEP_RESUME) {
		if ((e->sent_any && e->sent_psn != w->drained_psn) ||
		    e->out.retired != w->drained_ops)
			sim_fail(w, "qp %x sends while drained", e->qp.qpn);
		RIG_CHECK(rig_qp_state(&e->lane->rig, &e->qp, UR_QPS_RTS,
				       w->now_ns) == 0);
		ur_roce_kick(e->lane->rig.roce, &e->qp, w->now_ns);
		sim_lane_wake(e->lane, 0);
		w->act_step = STEP_DONE;
	}
}

static void act_reset(struct sim_world *w)
{
	struct sim_conn *c = w->conns[0];
	const struct sim_net_params *n = &w->p.net;

	if (w->act_step == STEP_FIRST) {
		sim_conn_reset(c);
		/* As an application would, wait until old packets are gone. */
		act_at(w, 4 * (n->latency_ns + n->jitter_ns) + 10 * SIM_MS);
		w->act_step = STEP_RESUME;
		return;
	}
	w->act_step = STEP_DONE;
	sim_conn_connect(c);
	for (uint32_t i = 0; i < 2; i++) {
		sim_rxq_wake(c->end[i].rxq, 0);
		sim_dir_plan(&c->end[i].out, w->p.ops);
	}
}

void sim_scenario_act(struct sim_world *w)
{
	struct sim_end *e = &w->conns[0]->end[0];

	SIM_TRACEF(w, "the scenario acts, step %u", w->act_step);
	if (w->p.scenario == SIM_SQD) {
		act_sqd(w);
		return;
	}
	if (w->p.scenario == SIM_RESET) {
		act_reset(w);
		return;
	}
	if (w->p.scenario == SIM_MIGRATE) {
		sim_migrate_act(w);
		return;
	}
	if (w->p.scenario == SIM_PEER_DIES)
		kill_peer(w);
	if (w->p.scenario == SIM_RNR_EXCEEDED)
		w->conns[0]->end[1].rxq->closed = true;
	if (w->p.scenario == SIM_MODIFY_ERR) {
		RIG_CHECK(rig_qp_state(&e->lane->rig, &e->qp, UR_QPS_ERR,
				       w->now_ns) == 0);
		sim_lane_wake(e->lane, 0);
	}
	w->act_step = STEP_DONE;
}

bool sim_scenario_done(struct sim_world *w)
{
	if (sim_scenario_has_victim(w) && w->act_step != STEP_DONE)
		return false;
	if (w->p.scenario == SIM_HOSTILE && !sim_hostile_over(w))
		return false;
	for (uint32_t i = 0; i < 2 * w->nconns; i++) {
		struct sim_dir *d = &w->conns[i / 2]->end[i % 2].out;

		if (!d->from->lane->dead && d->retired < d->planned)
			return false;
	}
	return sim_ud_done(w) && sim_tags_done(w);
}

static void expect_failure(struct sim_dir *d, uint8_t status, uint8_t other)
{
	struct sim_world *w = d->from->w;

	if (!d->failed || d->failed_at != d->bad_op)
		sim_fail(w, "qp %x: #%u should have failed (failed: %d #%u)",
			 d->from->qp.qpn, d->bad_op, d->failed, d->failed_at);
	else if (d->failed_status != status && d->failed_status != other)
		sim_fail(w, "qp %x: bad request #%u has status %u, not %u",
			 d->from->qp.qpn, d->bad_op, d->failed_status, status);
}

static void expect_if_failed(struct sim_dir *d, uint8_t status)
{
	if (d->failed && d->failed_status != status)
		sim_fail(d->from->w, "qp %x: #%u has status %u, not %u",
			 d->from->qp.qpn, d->failed_at, d->failed_status,
			 status);
}

static void expect_err(struct sim_end *e)
{
	if (e->qp.state != UR_QPS_ERR)
		sim_fail(e->w, "qp %x is in state %d instead of ERR", e->qp.qpn,
			 e->qp.state);
	else if (e->rxq->fifo_head != e->rxq->fifo_tail && !e->lane->dead)
		sim_fail(e->w, "qp %x: %u receives were not flushed", e->qp.qpn,
			 e->rxq->fifo_tail - e->rxq->fifo_head);
}

/* IBTA 9.9.2.4.2 and C9-139 ff: between one and four times the timeout each. */
static void check_retry_time(struct sim_dir *d)
{
	struct sim_world *w = d->from->w;
	uint64_t timeout = sim_timeout_ns(w->p.timeout);
	uint64_t tries = w->p.retry_cnt + 1u;
	uint64_t posted = d->ops[d->failed_at].posted_ns;
	uint64_t since = posted > w->act_ns ? posted : w->act_ns;
	uint64_t most = (tries * 4 + 1) * sim_patience_ns(w) + SIM_MS +
			8 * w->p.net.latency_ns;

	if (d->failed_ns > since + most)
		sim_fail(w, "qp %x failed after %lu us, %lu at most expected",
			 d->from->qp.qpn, (d->failed_ns - since) / SIM_US,
			 most / SIM_US);
	if (d->failed_ns < posted + tries * timeout * 9 / 10)
		sim_fail(w, "qp %x failed after %lu us, %lu at least expected",
			 d->from->qp.qpn, (d->failed_ns - posted) / SIM_US,
			 tries * timeout / SIM_US);
}

static void check_recv_short(struct sim_world *w)
{
	struct sim_end *a = &w->conns[0]->end[0], *b = &w->conns[0]->end[1];

	expect_failure(&a->out, UR_WC_REM_INV_REQ_ERR, UR_WC_REM_OP_ERR);
	if (b->recv_status != (a->out.failed_status == UR_WC_REM_INV_REQ_ERR
				       ? UR_WC_LOC_LEN_ERR
				       : UR_WC_LOC_QP_OP_ERR))
		sim_fail(w, "qp %x: the short receive has status %u", b->qp.qpn,
			 b->recv_status);
	expect_err(a);
	expect_err(b);
}

static void check_bad_rkey(struct sim_world *w)
{
	struct sim_end *a = &w->conns[0]->end[0], *b = &w->conns[0]->end[1];

	expect_failure(&a->out, UR_WC_REM_ACCESS_ERR, UR_WC_REM_ACCESS_ERR);
	expect_err(a);
	expect_err(b);
	if (b->events[UR_EVENT_QP_ACCESS_ERR] != 1)
		sim_fail(w, "qp %x: %u access error events", b->qp.qpn,
			 b->events[UR_EVENT_QP_ACCESS_ERR]);
}

void sim_scenario_check(struct sim_world *w)
{
	struct sim_end *a, *b;

	if (w->p.scenario == SIM_HOSTILE)
		sim_hostile_check(w);
	if (!sim_scenario_has_victim(w) || w->failed)
		return;
	a = &w->conns[0]->end[0];
	b = &w->conns[0]->end[1];
	switch ((int)w->p.scenario) {
	case SIM_PEER_DIES:
		expect_if_failed(&a->out, UR_WC_RETRY_EXC_ERR);
		if (a->out.failed)
			check_retry_time(&a->out);
		break;
	case SIM_BAD_RKEY:
		check_bad_rkey(w);
		break;
	case SIM_RECV_SHORT:
		check_recv_short(w);
		break;
	case SIM_LOCAL_PROT:
		expect_failure(&a->out, UR_WC_LOC_PROT_ERR, UR_WC_LOC_PROT_ERR);
		expect_err(a);
		expect_if_failed(&b->out, UR_WC_RETRY_EXC_ERR);
		break;
	case SIM_MODIFY_ERR:
		expect_if_failed(&a->out, UR_WC_WR_FLUSH_ERR);
		expect_if_failed(&b->out, UR_WC_RETRY_EXC_ERR);
		expect_err(a);
		break;
	case SIM_MIGRATE:
		sim_migrate_check(w);
		break;
	case SIM_RNR_EXCEEDED:
		expect_if_failed(&a->out, UR_WC_RNR_RETRY_EXC_ERR);
		expect_if_failed(&b->out, UR_WC_RETRY_EXC_ERR);
		break;
	default:
		break;
	}
}
