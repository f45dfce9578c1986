/* SPDX-License-Identifier: BSD-2-Clause */
/* Hosts, processes and virtual time. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cm/cmsim.h"

#define TIME_LIMIT_NS (2000 * CS_S)
#define MAX_EVENTS    2000000u
/* 16 tries of each of six messages, and what answers them. */
#define MSGS_PER_CONN 240u

void cs_fail(struct cs_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed)
		return;
	w->failed = true;
	va_start(ap, fmt);
	(void)vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
}

void cs_trace(struct cs_world *w, const char *fmt, ...)
{
	char *line = w->trace[w->traced % CS_TRACE];
	va_list ap;
	int n;

	if (!w->tracing)
		return;
	w->traced++;
	n = snprintf(line, sizeof(w->trace[0]), "%12.6f ",
		     (double)w->now_ns / 1e9);
	va_start(ap, fmt);
	(void)vsnprintf(line + n, sizeof(w->trace[0]) - (size_t)n, fmt, ap);
	va_end(ap);
	if (w->verbose)
		(void)printf("%s\n", line);
}

static bool before(const struct cs_event *a, const struct cs_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

void cs_event_add(struct cs_world *w, uint64_t delay_ns, enum cs_kind kind,
		  struct cs_end *end, struct ur_cm_dgram *dgram)
{
	struct cs_event ev = { w->now_ns + delay_ns, w->next_seq++, kind, end,
			       dgram };
	uint32_t i = w->nevents++;

	if (i == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 256;
		w->events = realloc(w->events, w->cap * sizeof(ev));
		if (!w->events)
			abort();
	}
	for (; i && before(&ev, &w->events[(i - 1) / 2]); i = (i - 1) / 2)
		w->events[i] = w->events[(i - 1) / 2];
	w->events[i] = ev;
}

static struct cs_event event_take(struct cs_world *w)
{
	struct cs_event first = w->events[0], last = w->events[--w->nevents];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < w->nevents) {
		if (child + 1 < w->nevents &&
		    before(&w->events[child + 1], &w->events[child]))
			child++;
		if (!before(&w->events[child], &last))
			break;
		w->events[i] = w->events[child];
		i = child;
	}
	w->events[i] = last;
	return first;
}

void cs_addr(uint8_t addr[16], uint32_t host)
{
	const uint8_t a[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)host
	};

	memcpy(addr, a, 16);
}

struct cs_proc *cs_proc_at(struct cs_world *w, uint32_t host, uint32_t slot)
{
	for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++) {
		if (w->procs[i].host == host && w->procs[i].slot == slot)
			return &w->procs[i];
	}
	return NULL;
}

void cs_proc_start(struct cs_proc *p)
{
	static const uint8_t any[16];
	static const uint16_t ps[2] = { 0x0106, 0x0111 };
	struct ur_cm_config cfg = { .slot = p->slot,
				    .ca_guid = 0x1000 + p->host,
				    .ack_delay = 15 };

	cfg.seed = p->w->seed * 64 + p->host * 16 + p->slot * 4 + p->lives++;
	if (ur_cm_create(&cfg, &p->cm) < 0)
		abort();
	for (uint32_t i = 0; i < 2; i++) {
		if (ur_cm_id_create(p->cm, ps[i], NULL, &p->listener[i]) < 0 ||
		    ur_cm_listen(p->listener[i], any,
				 (uint16_t)(CS_PORT + p->slot - 1), false,
				 p->w->p.backlog) < 0)
			abort();
	}
}

static void mark_dead(struct cs_end *e, const struct cs_proc *p)
{
	if (e->proc != p || (!e->id && e->server))
		return;
	e->dead = true;
	e->left = true;
	e->id = NULL;
}

/* A process dies without sending anything, and restarts at once. */
static void crash(struct cs_world *w)
{
	struct cs_proc *p = &w->procs[cs_below(w, CS_HOSTS * CS_PROCS)];

	cs_trace(w, "host %u slot %u dies", p->host, p->slot);
	ur_cm_destroy(p->cm);
	p->cm = NULL;
	for (uint32_t i = 0; i < w->p.conns; i++) {
		mark_dead(&w->clients[i], p);
		mark_dead(&w->servers[i], p);
	}
	cs_proc_start(p);
}

static void happen(struct cs_world *w, struct cs_event *ev)
{
	switch (ev->kind) {
	case CS_EV_DGRAM:
		cs_net_arrive(w, ev->dgram);
		free(ev->dgram);
		break;
	case CS_EV_START:
		cs_app_start(ev->end);
		break;
	case CS_EV_ACT:
		cs_app_act(ev->end);
		break;
	case CS_EV_LEAVE:
		cs_app_leave(ev->end);
		break;
	case CS_EV_LAP:
		cs_app_lap(ev->end);
		break;
	case CS_EV_APR:
		cs_app_apr(ev->end);
		break;
	case CS_EV_CRASH:
		crash(w);
		break;
	case CS_EV_ATTACK:
		cs_net_attack(w);
		break;
	}
}

/* Sends all output and handles all events. */
static void pump(struct cs_world *w)
{
	struct ur_cm_dgram d;

	for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++) {
		struct cs_proc *p = &w->procs[i];

		do {
			if (ur_cm_deadline(p->cm) <= w->now_ns)
				ur_cm_expire(p->cm, w->now_ns);
			cs_app_events(p);
			while (ur_cm_output(p->cm, &d))
				cs_net_send(w, &d);
		} while (ur_cm_deadline(p->cm) <= w->now_ns);
	}
}

static uint64_t next_time(const struct cs_world *w)
{
	uint64_t at = w->nevents ? w->events[0].at_ns : UR_NEVER;

	for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++) {
		uint64_t t = ur_cm_deadline(w->procs[i].cm);

		if (t < at)
			at = t;
	}
	return at;
}

static void loop(struct cs_world *w)
{
	uint32_t steps = 0;
	uint64_t at;

	while (!w->failed && (at = next_time(w)) != UR_NEVER) {
		if (at > TIME_LIMIT_NS || steps++ > MAX_EVENTS) {
			cs_fail(w, "it does not end");
			return;
		}
		w->now_ns = at;
		if (w->nevents && w->events[0].at_ns <= at) {
			struct cs_event ev = event_take(w);

			happen(w, &ev);
		}
		pump(w);
	}
}

static void count_ids(void *arg, const struct ur_cm_id *id)
{
	uint32_t *n = arg;

	++*n;
}

static void check_clean(struct cs_world *w)
{
	for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++) {
		const struct ur_cm_counters *c = ur_cm_counters(w->procs[i].cm);

		if (c->retries || c->duplicates || c->timeouts || c->stale)
			cs_fail(w, "repeats although nothing is lost");
	}
}

/* Only the listeners are left. */
static void check_end(struct cs_world *w)
{
	for (uint32_t i = 0; i < w->p.conns; i++) {
		cs_app_check(&w->clients[i]);
		cs_app_check(&w->servers[i]);
	}
	for (uint32_t i = 0; i < w->p.conns; i++) {
		if (w->servers[i].id)
			ur_cm_id_destroy(w->servers[i].id, w->now_ns);
		w->servers[i].id = NULL;
	}
	for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++) {
		uint32_t n = 0;

		ur_cm_for_each(w->procs[i].cm, count_ids, &n);
		if (n != 2)
			cs_fail(w, "%u ids are left in a process", n - 2);
	}
	if (w->sent > (uint64_t)MSGS_PER_CONN * w->p.conns)
		cs_fail(w, "%llu messages for %u connections",
			(unsigned long long)w->sent, w->p.conns);
	if (w->scenario == CS_CLEAN)
		check_clean(w);
}

static void setup(struct cs_world *w)
{
	for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++) {
		w->procs[i] = (struct cs_proc){ .w = w,
						.host = i / CS_PROCS,
						.slot = 1 + i % CS_PROCS };
		cs_proc_start(&w->procs[i]);
	}
	for (uint32_t i = 0; i < w->p.conns; i++) {
		struct cs_end *c = &w->clients[i], *s = &w->servers[i];

		*c = (struct cs_end){ .w = w, .token = i, .qpn = 0x1000 + i };
		*s = (struct cs_end){ .w = w, .token = i, .qpn = 0x2000 + i };
		s->server = true;
		c->proc = &w->procs[cs_below(w, CS_HOSTS * CS_PROCS)];
		c->datagram = cs_chance(w, CS_PROB / 4);
		c->patient = cs_chance(w, CS_PROB / 2);
		/*
		 * if the peer may die silently, both sides must be able to end
		 */
		if (w->scenario == CS_CRASH)
			c->patient = false;
		cs_event_add(w, cs_upto(w, w->p.live_ns), CS_EV_START, c, NULL);
	}
	for (uint32_t i = 0; i < w->p.crashes; i++)
		cs_event_add(w, cs_upto(w, 3 * w->p.live_ns), CS_EV_CRASH, NULL,
			     NULL);
	for (uint32_t i = 0; i < w->p.attacks; i++)
		cs_event_add(w, cs_upto(w, 3 * w->p.live_ns), CS_EV_ATTACK,
			     NULL, NULL);
}

bool cs_run(struct cs_world *w, uint64_t seed, int scenario)
{
	bool tracing = w->tracing, verbose = w->verbose;

	memset(w, 0, sizeof(*w));
	w->tracing = tracing;
	w->verbose = verbose;
	w->seed = seed;
	ur_rng_seed(&w->rng, seed);
	cs_params_draw(w, scenario);
	setup(w);
	loop(w);
	if (!w->failed)
		check_end(w);
	for (uint32_t i = 0; i < CS_HOSTS * CS_PROCS; i++)
		ur_cm_destroy(w->procs[i].cm);
	for (uint32_t i = 0; i < w->nevents; i++)
		free(w->events[i].dgram);
	free(w->events);
	return !w->failed;
}
