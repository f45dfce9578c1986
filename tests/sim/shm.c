/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels between lanes (shm/shm.h): in a seed with them all hosts are one,
 * and lanes that talk get a channel before their connection, in the middle of
 * its traffic or never; some lose it again.  Either side opens and closes at
 * a time of its own.  All of it is drawn apart, so that a seed without channels
 * is the same with and without this file.
 */
#include <stdlib.h>
#include <string.h>

#include "shm/shm.h"
#include "sim/sim.h"

#define ALIGN 4096u

enum side_state {
	SIDE_NEW,
	SIDE_OPEN,
	SIDE_ENDED,
};

struct side {
	struct sim_shm *shm;
	struct sim_lane *lane;
	enum side_state state;
	struct ur_shm_peer peer;
};

struct sim_shm {
	struct sim_world *w;
	struct side side[2];
	void *mem;
	bool cut; /* it has ended once */
};

static uint32_t below(struct sim_world *w, uint32_t n)
{
	return n ? ur_rng_below(&w->shm_rng, n) : 0;
}

/* Up to us microseconds, short ones as likely as long ones. */
static uint64_t some_time(struct sim_world *w, uint32_t us)
{
	return (uint64_t)below(w, (1 + us) >> below(w, 12)) * SIM_US +
	       below(w, 1000);
}

void sim_shm_draw(struct sim_world *w)
{
	struct sim_params *p = &w->p;

	ur_rng_seed(&w->shm_rng, w->seed ^ 0x6e656172);
	p->shm = below(w, 2);
	if (w->shm_forced >= 0)
		p->shm = w->shm_forced;
	if (!p->shm)
		return;
	/* A QP may be the only one on the wire, and get all of a burst. */
	if (p->net.burst > 4)
		p->net.burst = 4;
	/* Pauses longer than the timers of what went before. */
	if (below(w, 8) == 0)
		p->gap_ns = 50 * SIM_MS;
	p->shm_wakeup_ns = (uint64_t)below(w, 20) * SIM_US;
	p->shm_cut = below(w, 4) == 0 && p->scenario != SIM_HOSTILE &&
		     p->scenario != SIM_TAGS &&
		     (p->scenario < SIM_PEER_DIES || p->scenario == SIM_RESET ||
		      p->scenario == SIM_MODIFY_ERR);
	if (p->shm_cut) {
		p->srq = false;
		p->windows = false;
	}
}

static struct sim_shm *between(struct sim_world *w, const struct sim_lane *a,
			       const struct sim_lane *b)
{
	for (uint32_t i = 0; i < w->nnears; i++) {
		struct sim_shm *n = w->nears[i];

		if ((n->side[0].lane == a && n->side[1].lane == b) ||
		    (n->side[0].lane == b && n->side[1].lane == a))
			return n;
	}
	return NULL;
}

static void signal(struct ur_shm_peer *p)
{
	struct side *s = ur_container_of(p, struct side, peer);
	struct sim_world *w = s->shm->w;
	struct sim_lane *l = s->shm->side[s == &s->shm->side[0]].lane;

	SIM_TRACEF(w, "lane %u rings lane %u", (uint32_t)(s->lane - w->lanes),
		   (uint32_t)(l - w->lanes));
	sim_lane_wake(l, below(w, (uint32_t)w->p.shm_wakeup_ns + 1));
}

/* The memory of an earlier channel is gone when both have closed it. */
static void begin(struct sim_shm *n)
{
	memset(n->mem, 0, ur_chan_bytes());
	ur_chan_format(n->mem);
	n->side[0].state = n->side[1].state = SIDE_NEW;
}

static struct sim_shm *create(struct sim_world *w, struct sim_lane *a,
			      struct sim_lane *b)
{
	struct sim_shm *n = calloc(1, sizeof(*n));
	size_t bytes = (ur_chan_bytes() + ALIGN - 1) & ~(size_t)(ALIGN - 1);

	RIG_CHECK(n != NULL && w->nnears < SIM_NEARS);
	n->w = w;
	n->mem = aligned_alloc(ALIGN, bytes);
	RIG_CHECK(n->mem != NULL);
	n->side[0] = (struct side){ .shm = n, .lane = a, .state = SIDE_ENDED };
	n->side[1] = (struct side){ .shm = n, .lane = b, .state = SIDE_ENDED };
	w->nears[w->nnears++] = n;
	return n;
}

/* A lane's request for a channel, served as by the engine; sometimes it fails. */
void sim_shm_want(void *arg, uint16_t slot)
{
	struct sim_lane *l = arg;
	struct sim_world *w = l->w;
	struct sim_lane *to = &w->lanes[slot - 1];
	struct sim_shm *n = between(w, l, to);

	RIG_CHECK(slot && slot <= w->nlanes);
	if (!n)
		n = create(w, l, to);
	if (n->side[0].state != SIDE_ENDED || n->side[1].state != SIDE_ENDED ||
	    l->dead || to->dead || below(w, 8) == 0)
		return;
	begin(n);
	for (uint32_t i = 0; i < 2; i++)
		sim_event_add(w, w->now_ns + some_time(w, 2000), SIM_EV_NEAR,
			      &n->side[i]);
}

/* Some talk to a lane of their own host, or to themselves. */
struct sim_lane *sim_shm_pair(struct sim_world *w, const struct sim_lane *a,
			      struct sim_lane *b)
{
	const struct sim_params *p = &w->p;

	if (!p->shm || sim_scenario_has_victim(w) ||
	    p->scenario == SIM_HOSTILE || p->scenario == SIM_INCAST ||
	    below(w, 5))
		return b;
	return &w->lanes[a->host * p->lanes_per_host +
			 below(w, p->lanes_per_host)];
}

static void side_open(struct side *s)
{
	struct sim_shm *n = s->shm;
	struct sim_world *w = n->w;
	unsigned int i = s == &n->side[1];

	memset(&s->peer, 0, sizeof(s->peer));
	RIG_CHECK(ur_chan_attach(&s->peer.chan, n->mem, i) == 0);
	s->peer.chan.tx.most = 256u << 10; /* so that it is full at times */
	s->peer.slot = (uint16_t)n->side[!i].lane->rig.slot;
	s->peer.signal = signal;
	s->state = SIDE_OPEN;
	ur_shm_open(s->lane->rig.roce, &s->peer);
	sim_lane_wake(s->lane, 0);
	if (w->p.shm_cut && below(w, 4))
		sim_event_add(w, w->now_ns + some_time(w, 3000), SIM_EV_NEAR,
			      s);
}

static void side_close(struct side *s)
{
	struct sim_shm *n = s->shm;
	struct sim_world *w = n->w;
	struct side *other = &n->side[s == &n->side[0]];

	if (s->peer.broken)
		sim_fail(w, "a channel was taken for broken");
	s->state = SIDE_ENDED;
	ur_shm_close(s->lane->rig.roce, &s->peer, w->now_ns);
	sim_lane_wake(s->lane, 0);
	n->cut = true;
	w->shm_cuts++;
	if (!other->lane->dead)
		sim_event_add(w, w->now_ns + some_time(w, 500), SIM_EV_NEAR,
			      other);
}

/* It is time for a side to open or to close. */
void sim_shm_act(void *arg)
{
	struct side *s = arg;
	struct sim_world *w = s->shm->w;

	SIM_TRACEF(w, "lane %u: channel to lane %u, state %d",
		   (uint32_t)(s->lane - w->lanes), s->peer.slot - 1u, s->state);
	if (s->lane->dead)
		return;
	if (s->state == SIDE_NEW)
		side_open(s);
	else if (s->state == SIDE_OPEN)
		side_close(s);
}

/* Some have a channel before a queue pair is connected. */
void sim_shm_start(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nlanes && w->p.shm; i++) {
		for (uint32_t k = i; k < w->nlanes; k++) {
			struct sim_shm *n;

			if (below(w, 8))
				continue;
			n = create(w, &w->lanes[i], &w->lanes[k]);
			begin(n);
			side_open(&n->side[0]);
			side_open(&n->side[1]);
		}
	}
}

/* Its process has died: the others notice late or never. */
void sim_shm_died(struct sim_lane *l)
{
	struct sim_world *w = l->w;

	for (uint32_t i = 0; i < w->nnears; i++) {
		struct sim_shm *n = w->nears[i];

		for (uint32_t k = 0; k < 2; k++) {
			if (n->side[!k].lane == l && below(w, 2))
				sim_event_add(w, w->now_ns + some_time(w, 9000),
					      SIM_EV_NEAR, &n->side[k]);
		}
	}
}

static void trace_cell(struct sim_world *w, const struct ur_desc *c)
{
	SIM_TRACEF(w, "  cell kind %u to %x from %x flags %02x ack %u len %u",
		   c->kind, c->to, c->from, c->flags, c->ack, c->len);
}

/* What has come and is not taken yet. */
static void trace_cells(void *arg, const struct ur_shm_peer *p)
{
	struct ur_chan c = p->chan;
	struct ur_desc cell;

	for (; !ur_spsc_is_empty(&c.rx); ur_spsc_consume(&c.rx)) {
		ur_spsc_copy(&c.rx, &cell);
		trace_cell(arg, &cell);
	}
}

void sim_shm_poll(struct sim_lane *l)
{
	struct ur_roce *r = l->rig.roce;
	uint32_t n = 0;

	if (!l->w->p.shm)
		return;
	(void)ur_shm_sleep(r, false);
	if (l->w->tracing)
		ur_shm_for_each(r, trace_cells, l->w);
	if (ur_shm_waits_link(r) && sim_net_is_dry(l))
		ur_shm_link_empty(r);
	while (ur_shm_poll(r, l->w->now_ns) && below(l->w, 4)) {
		if (++n > 1000)
			sim_fail(l->w, "cells never end");
	}
	if (below(l->w, 2))
		ur_shm_flush_acks(r);
}

/* Until it is signalled, unless it polls again by itself. */
void sim_shm_rest(struct sim_lane *l)
{
	struct ur_roce *r = l->rig.roce;
	struct sim_world *w = l->w;

	if (!w->p.shm || !ur_shm_any(r))
		return;
	if (below(w, 3) == 0) {
		sim_lane_wake(l, 100 + some_time(w, 20));
		return;
	}
	ur_shm_flush_acks(r);
	if (!ur_shm_sleep(r, true))
		sim_lane_wake(l, 100 + some_time(w, 5));
}

bool sim_shm_was_cut(const struct sim_end *e)
{
	struct sim_world *w = e->w;
	const struct sim_end *peer = &e->conn->end[e == &e->conn->end[0]];
	const struct sim_shm *n = between(w, e->lane, peer->lane);

	return e->qp.type == UR_QPT_RC && n && n->cut;
}

/* A channel that ends fails what is under way, in one way only. */
void sim_shm_check(struct sim_world *w)
{
	for (uint32_t i = 0; i < 2 * w->nconns && w->p.shm_cut; i++) {
		const struct sim_end *e = &w->conns[i / 2]->end[i % 2];

		if (sim_scenario_is_victim(e))
			continue;
		if (e->out.failed &&
		    e->out.failed_status != UR_WC_RETRY_EXC_ERR)
			sim_fail(w, "qp %x: #%u failed with status %u",
				 e->qp.qpn, e->out.failed_at,
				 e->out.failed_status);
	}
	for (uint32_t i = 0; i < w->nnears; i++) {
		for (uint32_t k = 0; k < 2; k++) {
			const struct side *s = &w->nears[i]->side[k];

			if (s->state == SIDE_OPEN && s->peer.broken)
				sim_fail(w, "a channel is taken for broken");
		}
	}
}

void sim_shm_destroy(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nlanes; i++) {
		const struct ur_roce_counters *c =
			ur_roce_counters(w->lanes[i].rig.roce);

		w->shm_requests += c->shm_requests;
		w->shm_refused += c->shm_refused;
	}
	for (uint32_t i = 0; i < w->nnears; i++) {
		struct sim_shm *n = w->nears[i];

		for (uint32_t k = 0; k < 2; k++) {
			if (n->side[k].state == SIDE_OPEN)
				ur_shm_close(n->side[k].lane->rig.roce,
					     &n->side[k].peer, w->now_ns);
		}
		free(n->mem);
		free(n);
	}
}
