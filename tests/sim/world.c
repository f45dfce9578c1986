/* SPDX-License-Identifier: BSD-2-Clause */
/* The loop over virtual time. A lane runs as in the engine: receive, serve
 * timers, send until nothing is left, poll completions. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

/* Runs of lanes without progress of time that count as a livelock. */
#define STILL_MAX 20000u

void sim_fail(struct sim_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed)
		return;
	w->failed = true;
	va_start(ap, fmt);
	(void)vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	SIM_TRACEF(w, "FAILED: %s", w->why);
}

void sim_trace_write(struct sim_world *w, const char *fmt, ...)
{
	char *line = w->trace[w->trace_count++ % SIM_TRACE];
	va_list ap;
	int n = snprintf(line, sizeof(w->trace[0]), "%12.3f us ",
			 (double)w->now_ns / 1000);

	va_start(ap, fmt);
	(void)vsnprintf(line + n, sizeof(w->trace[0]) - (size_t)n, fmt, ap);
	va_end(ap);
	if (w->verbose)
		(void)printf("%s\n", line);
}

void sim_lane_wake(struct sim_lane *l, uint64_t delay_ns)
{
	uint64_t at = l->w->now_ns + delay_ns;

	if (at < l->run_at_ns)
		l->run_at_ns = at;
}

static uint64_t lane_next(const struct sim_lane *l)
{
	uint64_t at = l->run_at_ns, deadline;

	if (l->dead)
		return UR_NEVER;
	deadline = ur_roce_deadline(l->rig.roce);
	if (deadline < at)
		at = deadline;
	if (at != UR_NEVER && at < l->stalled_until_ns)
		at = l->stalled_until_ns;
	return at;
}

void sim_lane_pump(struct sim_lane *l)
{
	static struct ur_burst burst;
	uint32_t n = 0;

	while (ur_roce_output(l->rig.roce, &burst, l->w->now_ns)) {
		sim_net_burst(l, &burst);
		if (++n > STILL_MAX) {
			sim_fail(l->w, "output never ends");
			return;
		}
	}
}

static void lane_events(struct sim_lane *l)
{
	struct rig_host *h = l->rig.host;
	struct ur_ev ev;

	while (!ur_list_empty(&h->async.queue) && rig_event(h, &ev)) {
		struct sim_world *w = l->w;

		SIM_TRACEF(w, "asynchronous event %u", ev.type);
		if (ev.type == UR_EVENT_CQ_ERR)
			sim_fail(w, "a CQ overran");
		for (uint32_t i = 0; i < 2 * w->nconns; i++) {
			struct sim_end *e = &w->conns[i / 2]->end[i % 2];

			if (ev.object == &e->qp)
				e->events[ev.type]++;
		}
	}
}

static void poll_cq(struct sim_lane *l, struct ur_cq *cq)
{
	struct ur_cqe cqe[16];
	uint32_t n;

	while (!ur_cq_is_empty(cq) && (n = ur_cq_poll(cq, cqe, 16))) {
		for (uint32_t i = 0; i < n; i++) {
			struct sim_end *e = sim_end_by_qpn(l, cqe[i].qpn);

			if (e)
				sim_end_completion(e, &cqe[i]);
			else
				sim_fail(l->w, "a completion of no QP");
		}
	}
}

static void lane_poll(struct sim_lane *l)
{
	struct sim_world *w = l->w;

	if (w->p.shared_cq)
		poll_cq(l, &l->cq);
	for (uint32_t i = 0; i < w->nconns && !w->p.shared_cq; i++) {
		for (uint32_t k = 0; k < 2; k++) {
			if (w->conns[i]->end[k].lane == l)
				poll_cq(l, w->conns[i]->end[k].cq);
		}
	}
	for (uint32_t i = 0; i < w->nuds; i++) {
		if (w->uds[i]->lane == l)
			sim_ud_poll(w->uds[i]);
	}
	sim_tags_poll(l);
	lane_events(l);
}

static void lane_input(struct sim_lane *l, const struct sim_pkt *p)
{
	struct ur_rx rx = { .data = p->data,
			    .len = p->len,
			    .sport = p->sport,
			    .index = p->index,
			    .hop_limit = 64,
			    .tclass = p->ce ? 3 : 0 };
	memcpy(rx.src, p->src, 16);
	memcpy(rx.dst, p->dst, 16);
#ifdef __SANITIZE_ADDRESS__
	uint8_t *exact = malloc(p->len ? p->len : 1);

	RIG_CHECK(exact != NULL);
	memcpy(exact, p->data, p->len);
	rx.data = exact;
	ur_roce_input(l->rig.roce, &rx, l->w->now_ns);
	free(exact);
#else
	ur_roce_input(l->rig.roce, &rx, l->w->now_ns);
#endif
}

static void lane_run(struct sim_lane *l)
{
	struct sim_world *w = l->w;
	const struct sim_net_params *n = &w->p.net;
	struct sim_pkt *p;

	l->run_at_ns = UR_NEVER;
	while ((p = sim_net_take(l))) {
		lane_input(l, p);
		sim_net_recycle(w, p);
	}
	if (ur_roce_deadline(l->rig.roce) <= w->now_ns)
		ur_roce_expire(l->rig.roce, w->now_ns);
	sim_shm_poll(l);
	sim_tasks_run(l);
	sim_lane_pump(l);
	lane_poll(l);
	sim_shm_rest(l);
	if (n->stall_prob && sim_chance(w, n->stall_prob)) {
		l->stalled_until_ns =
			w->now_ns + sim_below(w, (uint32_t)n->stall_ns);
		w->wire.stalls++;
		SIM_TRACEF(w, "lane %u stalls until %lu",
			   (uint32_t)(l - w->lanes), l->stalled_until_ns);
	}
}

static void dispatch(struct sim_world *w, const struct sim_event *ev)
{
	switch (ev->kind) {
	case SIM_EV_PACKET:
		sim_net_arrive(w, ev->arg);
		break;
	case SIM_EV_POST:
		sim_dir_post(ev->arg);
		break;
	case SIM_EV_RECV:
		sim_rxq_post(ev->arg);
		break;
	case SIM_EV_UD:
		sim_ud_post(ev->arg);
		break;
	case SIM_EV_TAGS:
		sim_tags_turn(w);
		break;
	case SIM_EV_ATTACK:
		sim_hostile_turn(w);
		break;
	case SIM_EV_ACT:
		sim_scenario_act(w);
		break;
	case SIM_EV_NEAR:
		sim_shm_act(ev->arg);
		break;
	}
}

static uint64_t next_time(const struct sim_world *w)
{
	uint64_t at = sim_event_next(w);

	for (uint32_t i = 0; i < w->nlanes; i++) {
		uint64_t t = lane_next(&w->lanes[i]);

		if (t < at)
			at = t;
	}
	return at;
}

/* Everything due at the next time; false: no event is left. */
static bool step(struct sim_world *w)
{
	uint64_t at = next_time(w);
	struct sim_event ev;

	if (at == UR_NEVER)
		return false;
	if (at > w->now_ns) {
		w->now_ns = at;
		w->still = 0;
	} else if (++w->still > STILL_MAX) {
		sim_fail(w, "time stands still");
	}
	while (sim_event_take(w, &ev))
		dispatch(w, &ev);
	for (uint32_t i = 0; i < w->nlanes; i++) {
		if (lane_next(&w->lanes[i]) <= w->now_ns)
			lane_run(&w->lanes[i]);
	}
	w->events++;
	return true;
}

static void report_stuck(struct sim_world *w, const char *how)
{
	for (uint32_t i = 0; i < 2 * w->nconns; i++) {
		struct sim_dir *d = &w->conns[i / 2]->end[i % 2].out;

		if (d->retired < d->planned)
			sim_fail(w,
				 "%s: qp %x completed %u of %u posted, "
				 "%u planned (now %lu ms)",
				 how, d->from->qp.qpn, d->retired, d->posted,
				 d->planned, w->now_ns / SIM_MS);
	}
	sim_fail(w, "%s", how);
}

static void run_to_end(struct sim_world *w)
{
	uint64_t limit;

	while (!w->failed && !sim_scenario_done(w)) {
		if (!step(w))
			report_stuck(w, "deadlock");
		else if (w->now_ns - w->start_ns > sim_time_limit(w))
			report_stuck(w, "too slow");
	}
	/* An idle adapter has no timers: it must cause no wakeups. */
	w->done_ns = w->now_ns;
	limit = w->now_ns + 20 * sim_timeout_ns(w->p.timeout) + SIM_S;
	/* But connections of DC end some time after their last use. */
	if (w->p.dc_conns)
		limit += 10 * SIM_S;
	while (!w->failed && step(w)) {
		if (w->now_ns > limit)
			report_stuck(w, "not idle after the end");
	}
}

static void make_lanes(struct sim_world *w)
{
	struct sim_params *p = &w->p;
	uint64_t told = p->net.rx_bytes > 4u << 20 ? 1u << 20 : p->net.rx_bytes;

	for (uint32_t i = 0; i < p->hosts; i++)
		rig_host_init(&w->hosts[i], i, p->v6);
	w->nlanes = p->hosts * p->lanes_per_host;
	for (uint32_t i = 0; i < w->nlanes; i++) {
		struct sim_lane *l = &w->lanes[i];
		uint32_t slot = 1 + i % p->lanes_per_host;

		l->w = w;
		l->host = i / p->lanes_per_host;
		l->run_at_ns = UR_NEVER;
		l->rx_tail = &l->rx_head;
		/* Slots are per host, and here all are one. */
		if (p->shm)
			slot = 1 + i;
		w->hosts[l->host].want_peer = p->shm ? sim_shm_want : NULL;
		w->hosts[l->host].want_arg = l;
		rig_lane_init(&l->rig, &w->hosts[l->host], slot,
			      ur_rng_next(&w->rng), told);
		RIG_CHECK(ur_cq_init(&l->cq, 8192, NULL,
				     &w->hosts[l->host].async, NULL) == 0);
		if (p->srq) {
			RIG_CHECK(ur_srq_init(&l->srq.srq, &l->rig.host->pd,
					      SIM_SLOTS, SIM_SGES, 0,
					      &l->rig.host->async, NULL) == 0);
			sim_rxq_init(&l->srq, l, &l->srq.srq.rq, p->max_msg);
		}
	}
}

/* Lanes of two different hosts; the first is host 0's if all send to one. */
static void draw_pair(struct sim_world *w, struct sim_lane **a,
		      struct sim_lane **b)
{
	const struct sim_params *p = &w->p;
	uint32_t i = sim_below(w, p->hosts), k = sim_below(w, p->hosts - 1);

	if (k >= i)
		k++;
	if (p->scenario == SIM_INCAST) {
		i = 1 + w->nconns % (p->hosts - 1);
		k = 0;
	}
	if (p->scenario == SIM_HOSTILE) {
		/* The attacker is always the second end. */
		i = sim_below(w, p->hosts - 1);
		k = w->nconns == 0 || sim_chance(w, SIM_PROB / 3)
			    ? p->hosts - 1
			    : (i + 1) % (p->hosts - 1);
		/*
		 * An XRC connection is initiator and target; an initiator may
		 * name any queue of the domain, so honest targets are not in
		 * the attacker's.
		 */
		if (w->nconns >= p->rc_conns + p->uc_conns) {
			k = p->hosts - 1;
			if (w->nconns % 2) {
				k = i;
				i = p->hosts - 1;
			}
		}
	}
	/* The first connection is the victim's; its hosts have no other. */
	if (sim_scenario_has_victim(w)) {
		i = w->nconns ? 2 : 0;
		k = i + 1;
	}
	*a = &w->lanes[i * p->lanes_per_host + sim_below(w, p->lanes_per_host)];
	*b = &w->lanes[k * p->lanes_per_host + sim_below(w, p->lanes_per_host)];
}

static void make_conns_of(struct sim_world *w, enum ur_qp_type type, uint32_t n)
{
	struct sim_lane *a, *b;

	for (uint32_t i = 0; i < n; i++) {
		draw_pair(w, &a, &b);
		if (type == UR_QPT_RC)
			b = sim_shm_pair(w, a, b);
		sim_conn_create(w, type, a, b);
	}
}

static void make_conns(struct sim_world *w)
{
	uint32_t most =
		(w->p.rc_conns + w->p.xrc_conns + w->p.dc_conns) * 2 * w->p.ops;

	rig_buf_init(&w->counter, &w->hosts[0], 8,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_ATOMIC);
	memset(w->counter.p, 0, 8);
	w->counter_seen = calloc(1, most * 2 / 8 + 1);
	RIG_CHECK(w->counter_seen != NULL);
	make_conns_of(w, UR_QPT_RC, w->p.rc_conns);
	make_conns_of(w, UR_QPT_UC, w->p.uc_conns);
	make_conns_of(w, UR_QPT_XRC_SEND, w->p.xrc_conns);
	make_conns_of(w, UR_QPT_DC_INI, w->p.dc_conns);
	for (uint32_t i = 0; i < w->p.uds; i++)
		sim_ud_create(w, &w->lanes[i % w->nlanes]);
}

static void start(struct sim_world *w)
{
	for (uint32_t i = 0; i < 2 * w->nconns; i++) {
		struct sim_end *e = &w->conns[i / 2]->end[i % 2];

		if (e->lane->dead)
			continue;
		sim_rxq_wake(e->rxq, 0);
		/* All in one direction in an incast, or sometimes. */
		if (i % 2 == 0 || (e->qp.type != UR_QPT_XRC_RECV &&
				   e->qp.type != UR_QPT_DC_TGT &&
				   w->p.scenario != SIM_INCAST &&
				   sim_chance(w, SIM_PROB / 2)))
			sim_dir_plan(&e->out, w->p.ops);
	}
	sim_ud_plan(w);
	if (w->p.scenario == SIM_TAGS)
		sim_tags_create(w);
	w->start_ns = w->now_ns;
	sim_scenario_start(w);
}

static void check(struct sim_world *w)
{
	uint64_t count;

	for (uint32_t i = 0; i < 2 * w->nconns && !w->failed; i++)
		sim_dir_check_final(&w->conns[i / 2]->end[i % 2].out);
	memcpy(&count, w->counter.p, 8);
	if (count > w->counter_adds ||
	    (count != w->counter_adds && !sim_scenario_has_victim(w) &&
	     !w->shm_cuts && w->p.scenario != SIM_HOSTILE))
		sim_fail(w, "the counter holds %lu after %lu adds of one",
			 count, w->counter_adds);
	/* One in 2^16 may; far more would be a bug. */
	if (w->wire.collisions > 3 + w->wire.corrupted / 8192)
		sim_fail(w, "%lu corrupted packets have a good ICRC",
			 w->wire.collisions);
	sim_ud_check_final(w);
	sim_tags_check_final(w);
	sim_scenario_check(w);
	sim_shm_check(w);
	if (!w->failed)
		sim_bounds_check(w);
}

static void destroy(struct sim_world *w)
{
	sim_hostile_destroy(w);
	sim_net_fini(w);
	for (uint32_t i = 0; i < w->nconns; i++)
		sim_conn_destroy(w->conns[i]);
	for (uint32_t i = 0; i < w->nuds; i++)
		sim_ud_destroy(w->uds[i]);
	sim_tags_destroy(w);
	sim_shm_destroy(w);
	free(w->ud_msgs);
	free(w->counter_seen);
	rig_buf_fini(&w->counter);
	for (uint32_t i = 0; i < w->nlanes; i++) {
		struct sim_lane *l = &w->lanes[i];

		rig_lane_fini(&l->rig);
		if (w->p.srq) {
			sim_rxq_fini(&l->srq);
			RIG_CHECK(ur_srq_fini(&l->srq.srq) == 0);
		}
		RIG_CHECK(ur_cq_fini(&l->cq) == 0);
	}
	for (uint32_t i = 0; i < w->p.hosts; i++)
		rig_host_fini(&w->hosts[i]);
}

bool sim_run(struct sim_world *w, uint64_t seed, int scenario)
{
	bool tracing = w->tracing, verbose = w->verbose;
	int shm_forced = w->shm_forced;

	memset(w, 0, sizeof(*w));
	w->tracing = tracing;
	w->verbose = verbose;
	w->shm_forced = shm_forced;
	w->seed = seed;
	w->now_ns = SIM_MS;
	ur_rng_seed(&w->rng, seed);
	sim_params_draw(w, scenario);
	make_lanes(w);
	sim_shm_start(w);
	make_conns(w);
	if (w->p.scenario == SIM_HOSTILE)
		sim_hostile_create(w);
	start(w);
	run_to_end(w);
	check(w);
	destroy(w);
	return !w->failed;
}
