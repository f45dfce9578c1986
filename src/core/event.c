/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  The eventfd's count is the number of entries.  A taker
 * first gets a count by read(2), outside of the lock since it may block, then
 * an entry under the lock.  Invariant, under the lock:
 *
 *   count of the eventfd + deferred + counts that takers hold
 *   == entries + stale + counts of the kernel
 *
 * A drain removes entries and as many counts.  Counts that takers hold already
 * become stale; the next takers discard that many and read again.  Counts are
 * interchangeable, so it does not matter which taker does so.
 *
 * The kernel may add counts without an entry at any time (engine/chanpoll.c).
 * ur_evq_take_polled() reads all counts, and writes back as many as there are
 * entries.  Where blocking takers hold counts, that may be too many, which wakes a
 * thread once too often, but never too few.
 *
 * Deferred counts are added by their threads after they have released other
 * locks; a queue is not destroyed before.
 */
#include "core/event.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"

/* So many counts are read at a time, in case the application adds some. */
#define COUNTS_MAX 256u

/* Queues to which this thread has to add counts. */
static __thread struct {
	bool later;
	uint32_t n;
	struct ur_evq *to[UR_EVQ_DEFERRED_MAX];
} debts;

void ur_ev_init(struct ur_ev *ev, struct ur_ev_source *source, void *object)
{
	*ev = (struct ur_ev){ .source = source, .object = object };
	ur_list_init(&ev->node);
}

int ur_evq_init(struct ur_evq *q)
{
	int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	q->fd = fd;
	atomic_init(&q->armed, 0);
	atomic_init(&q->polled_lanes, 0);
	atomic_init(&q->spins, 0);
	q->inner = false;
	atomic_init(&q->blocks, false);
	q->stale = 0;
	q->deferred = 0;
	q->deferring = 0;
	q->pid = getpid();
	q->raised = NULL;
	q->owner = NULL;
	atomic_init(&q->feeders, 0);
	ur_lock_init(&q->lock);
	pthread_cond_init(&q->acked, NULL);
	ur_list_init(&q->queue);
	return 0;
}

static void ev_unlink(struct ur_ev *ev)
{
	ur_list_del(&ev->node);
	ev->pending = 0;
	if (ev->owned)
		free(ev);
}

void ur_evq_settle(struct ur_evq *q)
{
	/* After a fork the deferring threads are in the other process. */
	if (q->pid != getpid())
		return;
	ur_lock(&q->lock);
	while (q->deferring)
		pthread_cond_wait(&q->acked, &q->lock.m);
	ur_unlock(&q->lock);
}

void ur_evq_fini(struct ur_evq *q)
{
	ur_list_each_safe(struct ur_ev, e, &q->queue, node)
		ev_unlink(e);
	ur_evq_settle(q);
	close(q->fd);
	pthread_cond_destroy(&q->acked);
	ur_lock_fini(&q->lock);
}

static void count_add(struct ur_evq *q, uint64_t n)
{
	if (ur_sys_write(q->fd, &n, sizeof(n)) != sizeof(n))
		ur_err("event: cannot signal descriptor %d: errno %d", q->fd,
		       errno);
}

/* Without blocking, whatever the descriptor's mode. */
static bool count_read(const struct ur_evq *q)
{
	uint64_t one;
	struct iovec iov = { .iov_base = &one, .iov_len = sizeof(one) };

	return ur_sys_read_now(q->fd, &iov) == sizeof(one);
}

/* Remove up to n counts. */
static uint32_t count_take(struct ur_evq *q, uint32_t n)
{
	uint32_t i = n < q->deferred ? n : q->deferred;

	q->deferred -= i;
	while (i < n && count_read(q))
		i++;
	return i;
}

/* Does this thread defer wakes, and is there room to remember q? */
static bool defer_count(struct ur_evq *q)
{
	if (!debts.later)
		return false;
	for (uint32_t i = 0; i < debts.n; i++)
		if (debts.to[i] == q)
			return true;
	if (debts.n == UR_EVQ_DEFERRED_MAX)
		return false;
	debts.to[debts.n++] = q;
	q->deferring++;
	return true;
}

void ur_evq_defer_wakes(void)
{
	debts.later = true;
}

void ur_evq_end_deferring(void)
{
	debts.later = false;
}

/* True: the descriptor was signalled. */
static bool signal_deferred(struct ur_evq *q)
{
	bool signal;

	ur_lock(&q->lock);
	signal = q->deferred;
	if (signal)
		count_add(q, q->deferred);
	q->deferred = 0;
	if (--q->deferring == 0)
		pthread_cond_broadcast(&q->acked);
	ur_unlock(&q->lock);
	return signal;
}

void ur_evq_flush_wakes(void)
{
	while (debts.n)
		(void)signal_deferred(debts.to[--debts.n]);
}

struct ur_evq_told ur_evq_hand_out(void)
{
	struct ur_evq_told told = { 0 };

	while (debts.n) {
		struct ur_evq *q = debts.to[--debts.n];

		if (q->raised && q->raised(q))
			told.raised = true;
		if (signal_deferred(q))
			told.signalled = true;
	}
	return told;
}

bool ur_evq_has_deferred(void)
{
	return debts.n;
}

static void post_locked(struct ur_evq *q, struct ur_ev *ev)
{
	if (ev->pending++ == 0)
		ur_list_add_tail(&q->queue, &ev->node);
	if (defer_count(q))
		q->deferred++;
	else
		count_add(q, 1);
}

void ur_evq_post(struct ur_evq *q, struct ur_ev *ev)
{
	ur_lock(&q->lock);
	post_locked(q, ev);
	ur_unlock(&q->lock);
}

void ur_evq_post_async(struct ur_evq *q, enum ur_event_type type,
		       struct ur_ev_source *source, void *object,
		       uint8_t port_num)
{
	struct ur_ev *ev = malloc(sizeof(*ev));

	if (!ev) {
		ur_err("event: no memory, asynchronous event %d lost", type);
		return;
	}
	ur_ev_init(ev, source, object);
	ev->type = type;
	ev->port_num = port_num;
	ev->owned = true;
	ur_evq_post(q, ev);
}

/* A copy for the application. */
static void deliver(const struct ur_ev *ev, struct ur_ev *out)
{
	*out = *ev;
	ur_list_init(&out->node);
	out->pending = 0;
	out->owned = false;
	if (ev->source)
		ev->source->delivered++;
}

/* Removes the oldest entry. */
static bool take_entry(struct ur_evq *q, struct ur_ev *out)
{
	struct ur_ev *ev;

	if (ur_list_empty(&q->queue))
		return false;
	ev = ur_container_of(q->queue.next, struct ur_ev, node);
	deliver(ev, out);
	if (ev->pending > 1) {
		/* To the end of the queue, so that no source starves others. */
		ev->pending--;
		ur_list_del(&ev->node);
		ur_list_add_tail(&q->queue, &ev->node);
	} else {
		ev_unlink(ev);
	}
	return true;
}

/*
 * The holder of a count gets the oldest entry, unless the count is stale.  Without
 * an entry the kernel or the application has added the count.
 */
static bool take_locked(struct ur_evq *q, struct ur_ev *out)
{
	if (q->stale) {
		q->stale--;
		return false;
	}
	return take_entry(q, out);
}

int ur_evq_take(struct ur_evq *q, struct ur_ev *out)
{
	bool taken = false;
	uint64_t count;

	while (!taken) {
		if (read(q->fd, &count, sizeof(count)) < 0)
			return -errno;
		ur_lock(&q->lock);
		taken = take_locked(q, out);
		ur_unlock(&q->lock);
	}
	return 0;
}

bool ur_evq_has(struct ur_evq *q)
{
	bool has;

	ur_lock(&q->lock);
	has = !ur_list_empty(&q->queue);
	ur_unlock(&q->lock);
	return has;
}

bool ur_evq_take_now(struct ur_evq *q, struct ur_ev *out)
{
	bool taken = false;

	ur_lock(&q->lock);
	while (!taken && (q->stale || !ur_list_empty(&q->queue)) &&
	       count_take(q, 1))
		taken = take_locked(q, out);
	ur_unlock(&q->lock);
	return taken;
}

bool ur_evq_take_polled(struct ur_evq *q, struct ur_ev *out, bool *readable)
{
	uint32_t n = 0, entries = 0;
	bool taken;

	ur_lock(&q->lock);
	while (n < COUNTS_MAX && count_read(q))
		n++;
	ur_list_each(struct ur_ev, e, &q->queue, node)
		entries += e->pending;
	taken = take_entry(q, out);
	entries -= taken;
	if (q->deferred > entries)
		q->deferred = entries;
	entries -= q->deferred;
	if (n && entries)
		count_add(q, n < entries ? n : entries);
	ur_unlock(&q->lock);
	*readable = n;
	return taken;
}

void ur_evq_deliver(struct ur_evq *q, const struct ur_ev *ev, struct ur_ev *out)
{
	ur_lock(&q->lock);
	deliver(ev, out);
	ur_unlock(&q->lock);
}

void ur_evq_ack(struct ur_evq *q, struct ur_ev_source *source, uint32_t n)
{
	ur_lock(&q->lock);
	source->acked += n;
	pthread_cond_broadcast(&q->acked);
	ur_unlock(&q->lock);
}

uint32_t ur_evq_delivered(struct ur_evq *q, const struct ur_ev_source *source)
{
	uint32_t n;

	ur_lock(&q->lock);
	n = source->delivered;
	ur_unlock(&q->lock);
	return n;
}

static void forget_locked(struct ur_evq *q, struct ur_ev_source *source)
{
	uint32_t n = 0;

	ur_list_each_safe(struct ur_ev, ev, &q->queue, node) {
		if (ev->source == source) {
			n += ev->pending;
			ev_unlink(ev);
		}
	}
	q->stale += n - count_take(q, n);
}

void ur_evq_purge(struct ur_evq *q, struct ur_ev_source *source)
{
	ur_lock(&q->lock);
	forget_locked(q, source);
	ur_unlock(&q->lock);
}

void ur_evq_drain(struct ur_evq *q, struct ur_ev_source *source)
{
	if (!q)
		return;
	ur_lock(&q->lock);
	forget_locked(q, source);
	/* Acknowledging more events than were delivered does not block. */
	while ((int32_t)(source->delivered - source->acked) > 0)
		pthread_cond_wait(&q->acked, &q->lock.m);
	ur_unlock(&q->lock);
}
