/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests from post to completion.  A send queue completes in order, and a request
 * without completion of its own completes with a later one.  A shared receive
 * queue completes in any order, so there wr_id decides.
 */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define BUCKETS	 4096u
/* Requests whose completions other threads have, and not recorded yet; more are
 * missing for good, since the ring of their poller was full. */
#define LATE_MAX 1024u

struct post {
	struct post *next;
	const struct ur_trace_source *source;
	struct ur_trace_rec rec;
};

struct queue {
	struct queue *next; /* in its bucket */
	const struct ur_trace_proc *proc;
	uint64_t name; /* number of the queue pair, handle of the SRQ */
	uint32_t context;
	uint8_t kind; /* enum ur_trace_queue */
	struct post *first;
	struct post **end;
	/* SQ: what is known of the queue pair. */
	uint64_t srq;
	bool linked;
	uint8_t local[16];
	uint8_t peer[16];
};

struct ur_trace_queues {
	ur_trace_wr_fn *fn;
	void *arg;
	struct post *free;
	struct queue *bucket[BUCKETS];
};

struct ur_trace_queues *ur_trace_queues_create(ur_trace_wr_fn *fn, void *arg)
{
	struct ur_trace_queues *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->fn = fn;
	q->arg = arg;
	return q;
}

/* NULL: no memory. */
static struct queue *find(struct ur_trace_queues *all,
			  const struct ur_trace_proc *proc, uint32_t context,
			  uint64_t name, uint8_t kind)
{
	uint64_t hash =
		(name ^ proc->pid ^ (uint64_t)kind << 40) * 0x9e3779b97f4a7c15u;
	struct queue **at = &all->bucket[(hash >> 32) % BUCKETS], *k;

	for (k = *at; k; k = k->next)
		if (k->proc == proc && k->name == name && k->kind == kind &&
		    (kind == UR_TRACE_SRQ || k->context == context))
			return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->proc = proc;
	k->name = name;
	k->context = context;
	k->kind = kind;
	k->end = &k->first;
	k->next = *at;
	*at = k;
	return k;
}

/* --- the list --- */

static void append(struct ur_trace_queues *all, struct queue *k,
		   const struct ur_trace_source *s,
		   const struct ur_trace_rec *r)
{
	struct post *p = all->free;

	if (p)
		all->free = p->next;
	else
		p = malloc(sizeof(*p));
	if (!p)
		return;
	p->next = NULL;
	p->source = s;
	p->rec = *r;
	*k->end = p;
	k->end = &p->next;
}

static void take_out(struct ur_trace_queues *all, struct queue *k,
		     struct post **at)
{
	struct post *p = *at;

	if (!p)
		return;
	*at = p->next;
	if (!*at)
		k->end = at;
	p->next = all->free;
	all->free = p;
}

static void cancel(struct ur_trace_queues *all, struct queue *k, uint32_t n)
{
	uint32_t have = 0;
	struct post **at = &k->first;

	for (const struct post *p = k->first; p; p = p->next)
		have++;
	for (uint32_t skip = have > n ? have - n : 0; skip && *at; skip--)
		at = &(*at)->next;
	while (*at)
		take_out(all, k, at);
}

/* --- completions --- */

/* FNV-1a over the ends, in the direction of the message, and its number. */
static uint64_t flow_of(const uint8_t from[16], const uint8_t to[16],
			uint32_t seq)
{
	uint8_t bytes[36];
	uint64_t hash = 14695981039346656037u;

	memcpy(bytes, from, 16);
	memcpy(bytes + 16, to, 16);
	memcpy(bytes + 32, &seq, 4);
	for (size_t i = 0; i < sizeof(bytes); i++)
		hash = (hash ^ bytes[i]) * 1099511628211u;
	return hash | 1;
}

static uint64_t flow(const struct queue *qp, const struct ur_trace_wr *w)
{
	bool recv = ur_trace_is_recv(w);
	uint32_t seq = recv ? w->done.seq : w->post.seq;

	if (!qp->linked || !seq || (recv ? !w->poller : !w->poster))
		return 0;
	return recv ? flow_of(qp->peer, qp->local, seq)
		    : flow_of(qp->local, qp->peer, seq);
}

static void emit(const struct ur_trace_queues *all, const struct queue *qp,
		 const struct post *p, const struct ur_trace_source *poller,
		 const struct ur_trace_rec *done, bool implied)
{
	struct ur_trace_wr w = { .poller = poller,
				 .done = *done,
				 .implied = implied,
				 .end_ns = done->ns };

	if (p) {
		w.poster = p->source;
		w.post = p->rec;
	}
	w.flow = flow(qp, &w);
	all->fn(all->arg, &w);
}

/* The request of the completion: the first that was to be signaled, or after an
 * error any.  With sampling there is only one, and it was counted that this is its
 * completion. */
static struct post **match(struct queue *k, const struct ur_trace_rec *done)
{
	for (struct post **at = &k->first; *at; at = &(*at)->next) {
		const struct ur_trace_rec *r = &(*at)->rec;

		if (k->kind == UR_TRACE_SQ && !done->status &&
		    (done->flags & UR_TRACE_SAMPLED))
			return at;
		if (r->wr_id == done->wr_id &&
		    (done->status || !(r->flags & UR_TRACE_UNSIGNALED)))
			return at;
	}
	return NULL;
}

static bool is_signaled(const struct post *p)
{
	return !(p->rec.flags & UR_TRACE_UNSIGNALED);
}

/* The requests in front of a completed one, of a send queue.  Those with completions
 * of their own stay: another thread has polled them, and is later. */
static struct post **imply(struct ur_trace_queues *all, struct queue *k,
			   const struct queue *qp, const struct post *it,
			   const struct ur_trace_source *s,
			   const struct ur_trace_rec *done)
{
	struct post **at = &k->first;
	uint32_t kept = 0;

	for (const struct post *p = k->first; p && p != it; p = p->next)
		kept += is_signaled(p);
	while (*at && *at != it) {
		if (is_signaled(*at) && kept <= LATE_MAX) {
			at = &(*at)->next;
			continue;
		}
		kept -= is_signaled(*at);
		emit(all, qp, *at, s, done, true);
		take_out(all, k, at);
	}
	return at;
}

static bool complete(struct ur_trace_queues *all, struct queue *k,
		     const struct queue *qp, const struct ur_trace_source *s,
		     const struct ur_trace_rec *done)
{
	struct post **at = match(k, done);
	const struct post *it = at ? *at : NULL;

	if (!it)
		return false;
	if (k->kind == UR_TRACE_SQ)
		at = imply(all, k, qp, it, s, done);
	emit(all, qp, it, s, done,
	     !done->status && (it->rec.flags & UR_TRACE_UNSIGNALED));
	take_out(all, k, at);
	return true;
}

static void done(struct ur_trace_queues *all, const struct ur_trace_source *s,
		 const struct ur_trace_rec *r)
{
	struct queue *qp =
		find(all, s->proc, r->context, r->wr_qpn, UR_TRACE_SQ);
	struct queue *rq;

	if (!qp)
		return;
	if (r->queue == UR_TRACE_SQ && complete(all, qp, qp, s, r))
		return;
	rq = qp->srq ? find(all, s->proc, 0, qp->srq, UR_TRACE_SRQ)
		     : find(all, s->proc, r->context, r->wr_qpn, UR_TRACE_RQ);
	/* The opcode of a failed one need not be right. */
	if (rq && (r->queue != UR_TRACE_SQ || r->status) &&
	    complete(all, rq, qp, s, r))
		return;
	emit(all, qp, NULL, s, r, false);
}

/* --- the whole --- */

static void abandon(struct ur_trace_queues *all, struct queue *k,
		    uint64_t end_ns)
{
	while (k->first) {
		struct ur_trace_wr w = { .poster = k->first->source,
					 .post = k->first->rec,
					 .ended_late = true,
					 .end_ns = end_ns };

		if (k->kind == UR_TRACE_SQ)
			w.flow = flow(k, &w);
		all->fn(all->arg, &w);
		take_out(all, k, &k->first);
	}
}

static void learn(struct ur_trace_queues *all, const struct ur_trace_source *s,
		  const struct ur_trace_rec *r)
{
	struct queue *qp =
		find(all, s->proc, r->qp_context, r->qp_num, UR_TRACE_SQ);
	struct queue *rq =
		find(all, s->proc, r->qp_context, r->qp_num, UR_TRACE_RQ);

	if (!qp || !rq)
		return;
	qp->srq = r->srq;
	qp->linked = r->count;
	if (r->count) {
		memcpy(qp->local, r->local, sizeof(qp->local));
		memcpy(qp->peer, r->peer, sizeof(qp->peer));
		return;
	}
	/* It is a new one, of a number that was used before. */
	abandon(all, qp, r->ns);
	abandon(all, rq, r->ns);
}

void ur_trace_queues_put(struct ur_trace_queues *all,
			 const struct ur_trace_source *s,
			 const struct ur_trace_rec *r)
{
	struct queue *k;

	if (r->kind == UR_TRACE_DONE) {
		done(all, s, r);
		return;
	}
	if (r->kind == UR_TRACE_QP) {
		learn(all, s, r);
		return;
	}
	k = find(all, s->proc, r->context,
		 r->queue == UR_TRACE_SRQ ? r->addr : r->wr_qpn, r->queue);
	if (k && r->kind == UR_TRACE_POST)
		append(all, k, s, r);
	else if (k)
		cancel(all, k, r->count);
}

void ur_trace_queues_end(struct ur_trace_queues *all, uint64_t end_ns)
{
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct queue *k = all->bucket[i]; k; k = k->next)
			abandon(all, k, end_ns);
}

void ur_trace_queues_destroy(struct ur_trace_queues *all)
{
	if (!all)
		return;
	for (uint32_t i = 0; i < BUCKETS; i++)
		while (all->bucket[i]) {
			struct queue *k = all->bucket[i];

			all->bucket[i] = k->next;
			while (k->first)
				take_out(all, k, &k->first);
			free(k);
		}
	while (all->free) {
		struct post *p = all->free;

		all->free = p->next;
		free(p);
	}
	free(all);
}
