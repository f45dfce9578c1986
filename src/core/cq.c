/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/cq.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/timer.h"
#include "core/cross.h"
#include "core/ringmem.h"

static uint32_t load(const _Atomic uint32_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

/* For the emptiness check without a lock; the lock orders everything else. */
static void store(_Atomic uint32_t *p, uint32_t v)
{
	atomic_store_explicit(p, v, memory_order_release);
}

static size_t ring_bytes(uint32_t mask)
{
	return ((size_t)mask + 1) * sizeof(struct ur_cqe);
}

/* cqe entries plus one, rounded up, as UR_MAX_CQE is a power minus one. */
static struct ur_cqe *ring_get(const struct ur_ring_source **from, uint32_t cqe,
			       uint32_t *mask)
{
	*mask = ur_pow2(cqe + 1) - 1;
	return ur_ring_get(from, ring_bytes(*mask), UR_RING_CQ);
}

int ur_cq_init(struct ur_cq *cq, uint32_t cqe, struct ur_evq *channel,
	       struct ur_evq *async, void *object)
{
	if (cqe == 0 || cqe > UR_MAX_CQE)
		return -EINVAL;
	memset(cq, 0, sizeof(*cq));
	cq->ring = ring_get(&cq->ring_source, cqe, &cq->mask);
	if (!cq->ring)
		return -ENOMEM;
	cq->cqe = cq->mask;
	cq->limit = cq->cqe;
	ur_latch_init(&cq->lock);
	atomic_init(&cq->fire_at_ns, UR_NEVER);
	cq->show_at_ns = UR_NEVER;
	ur_list_init(&cq->moderated);
	ur_list_init(&cq->waiting);
	cq->channel = channel;
	cq->async = async;
	cq->object = object;
	ur_ev_init(&cq->event, &cq->source, object);
	return 0;
}

static void disarm(struct ur_cq *cq)
{
	if (load(&cq->armed) != UR_CQ_IDLE)
		atomic_fetch_sub_explicit(&cq->channel->armed, 1,
					  memory_order_relaxed);
	store(&cq->armed, UR_CQ_IDLE);
	cq->mod_seen = 0;
	atomic_store_explicit(&cq->fire_at_ns, UR_NEVER, memory_order_relaxed);
}

int ur_cq_fini(struct ur_cq *cq)
{
	if (atomic_load(&cq->users) != 0)
		return -EBUSY;
	disarm(cq);
	ur_evq_drain(cq->channel, &cq->source);
	ur_evq_drain(cq->async, &cq->async_source);
	ur_ring_put(cq->ring_source, cq->ring, ring_bytes(cq->mask),
		    UR_RING_CQ);
	return 0;
}

int ur_cq_set_ring_source(struct ur_cq *cq, const struct ur_ring_source *source)
{
	struct ur_cqe *ring = ring_get(&source, cq->cqe, &cq->mask);

	if (!ring)
		return -ENOMEM;
	ur_ring_put(cq->ring_source, cq->ring, ring_bytes(cq->mask),
		    UR_RING_CQ);
	cq->ring = ring;
	cq->ring_source = source;
	return 0;
}

static void disarm_and_signal(struct ur_cq *cq)
{
	disarm(cq);
	ur_evq_post(cq->channel, &cq->event);
}

/*
 * An armed queue got a completion that would signal it: is the signal delayed?
 */
static bool moderated(struct ur_cq *cq, uint64_t now_ns)
{
	if (!cq->mod_count || ++cq->mod_seen >= cq->mod_count)
		return false;
	if (cq->mod_seen == 1)
		atomic_store_explicit(&cq->fire_at_ns,
				      now_ns + cq->mod_period_ns,
				      memory_order_relaxed);
	return true;
}

void ur_cq_moderate(struct ur_cq *cq, uint32_t count, uint32_t period_us)
{
	ur_latch_lock(&cq->lock);
	cq->mod_count = count && period_us ? count : 0;
	cq->mod_period_ns = (uint64_t)period_us * 1000;
	if (cq->mod_seen)
		disarm_and_signal(cq);
	ur_latch_unlock(&cq->lock);
}

void ur_cq_fire(struct ur_cq *cq, uint64_t now_ns)
{
	ur_latch_lock(&cq->lock);
	if (atomic_load_explicit(&cq->fire_at_ns, memory_order_relaxed) <=
	    now_ns)
		disarm_and_signal(cq);
	ur_latch_unlock(&cq->lock);
}

/* Reported once per queue: the first lost completion. */
static void overrun(struct ur_cq *cq, uint32_t qpn)
{
	if (cq->overrun)
		return;
	cq->overrun = true;
	ur_warn("completion queue %u of %s holds %u entries and has overrun: "
		"completions of queue pair 0x%x and of what follows are lost",
		cq->handle, program_invocation_short_name, cq->cqe, qpn);
	if (cq->async)
		ur_evq_post_async(cq->async, UR_EVENT_CQ_ERR, &cq->async_source,
				  cq->object, 0);
}

/* The entry at the tail is seen from now on. */
static inline __attribute__((always_inline)) void
publish(struct ur_cq *cq, const struct ur_cqe *cqe, bool solicited)
{
	uint32_t armed;

	store(&cq->tail, load(&cq->tail) + 1);
	cq->pushed++;
	if (__builtin_expect(cq->waited_for, 0))
		ur_cross_reached(cq, cqe);
	armed = load(&cq->armed);
	if ((armed == UR_CQ_ARMED_ANY ||
	     (armed == UR_CQ_ARMED_SOLICITED && solicited)) &&
	    !moderated(cq, cqe->ts_ns))
		disarm_and_signal(cq);
}

/* Their owners may be gone, and a lane of theirs is not this thread's. */
static void show(struct ur_cq *cq)
{
	struct ur_cqe c = { .owner = UR_CQE_SRQ };

	for (; cq->held; cq->held--) {
		c.ts_ns = cq->ring[load(&cq->tail) & cq->mask].ts_ns;
		publish(cq, &c, cq->held_solicited);
	}
	cq->held_solicited = false;
	cq->show_at_ns = UR_NEVER;
	/* No thread that sleeps knows of the time at which the event is due. */
	if (cq->mod_seen)
		disarm_and_signal(cq);
}

/* True: the completion is not to be seen yet, nor those that follow. */
static bool holds(struct ur_cq *cq)
{
	uint64_t until = 0;

	/* Queue pairs wait for it: they would have to be woken later. */
	if (cq->waited_for)
		show(cq);
	else if (cq->held)
		return true;
	else if (cq->late)
		until = cq->late(cq->late_arg, cq, cq->pushed);
	if (until)
		cq->show_at_ns = until;
	return until;
}

/* The queue is full, exhausted or late. */
static bool push_slowly(struct ur_cq *cq, const struct ur_cqe *cqe,
			bool solicited)
{
	uint32_t head = load(&cq->head);
	uint32_t limit = cq->late && !cq->exhausted ? cq->cqe : cq->limit;

	if (load(&cq->tail) + cq->held - head >= limit)
		show(cq);
	if (load(&cq->tail) + cq->held - head >= limit) {
		if (!atomic_load_explicit(&cq->ignore_overrun,
					  memory_order_relaxed)) {
			overrun(cq, cqe->qpn);
			return false;
		}
		store(&cq->head, head + 1);
	}
	if (holds(cq)) {
		cq->ring[(load(&cq->tail) + cq->held++) & cq->mask] = *cqe;
		cq->held_solicited |= solicited;
	} else {
		cq->ring[load(&cq->tail) & cq->mask] = *cqe;
		publish(cq, cqe, solicited);
	}
	return true;
}

bool ur_cq_push(struct ur_cq *cq, const struct ur_cqe *cqe, bool solicited)
{
	uint32_t tail;
	bool done = true;

	ur_latch_lock(&cq->lock);
	tail = load(&cq->tail);
	if (__builtin_expect(tail - load(&cq->head) < cq->limit, 1)) {
		cq->ring[tail & cq->mask] = *cqe;
		publish(cq, cqe, solicited);
	} else {
		done = push_slowly(cq, cqe, solicited);
	}
	ur_latch_unlock(&cq->lock);
	return done;
}

static void set_limit(struct ur_cq *cq)
{
	cq->limit = cq->exhausted || cq->late ? 0 : cq->cqe;
}

bool ur_cq_exhaust(struct ur_cq *cq)
{
	bool may;

	ur_latch_lock(&cq->lock);
	may = !atomic_load(&cq->ignore_overrun);
	cq->exhausted |= may;
	set_limit(cq);
	ur_latch_unlock(&cq->lock);
	return may;
}

void ur_cq_set_late(struct ur_cq *cq, ur_cq_late_fn *late, void *arg)
{
	ur_latch_lock(&cq->lock);
	if (!late)
		show(cq);
	cq->late = late;
	cq->late_arg = arg;
	set_limit(cq);
	ur_latch_unlock(&cq->lock);
}

uint64_t ur_cq_show(struct ur_cq *cq, uint64_t now_ns)
{
	uint64_t next;

	ur_latch_lock(&cq->lock);
	if (cq->show_at_ns <= now_ns)
		show(cq);
	next = cq->show_at_ns;
	ur_latch_unlock(&cq->lock);
	return next;
}

void ur_cq_ignore_overrun(struct ur_cq *cq, bool on)
{
	ur_latch_lock(&cq->lock);
	cq->exhausted = false;
	set_limit(cq);
	atomic_store_explicit(&cq->ignore_overrun, on, memory_order_relaxed);
	ur_latch_unlock(&cq->lock);
}

/* Returns the old ring, or NULL if the entries held do not fit. */
static struct ur_cqe *ring_swap(struct ur_cq *cq, struct ur_cqe *ring,
				uint32_t mask)
{
	uint32_t head = load(&cq->head);
	uint32_t tail = load(&cq->tail);
	struct ur_cqe *old = cq->ring;

	if (tail - head > mask)
		return NULL;
	for (uint32_t i = head; i != tail; i++)
		ring[i & mask] = old[i & cq->mask];
	cq->ring = ring;
	cq->mask = mask;
	cq->cqe = mask;
	cq->exhausted = false;
	set_limit(cq);
	return old;
}

int ur_cq_resize(struct ur_cq *cq, uint32_t cqe)
{
	const struct ur_ring_source *source = cq->ring_source;
	const struct ur_ring_source *old_source = source;
	struct ur_cqe *ring, *old;
	uint32_t mask, old_mask;

	if (cqe == 0 || cqe > UR_MAX_CQE)
		return -EINVAL;
	ring = ring_get(&source, cqe, &mask);
	if (!ring)
		return -ENOMEM;
	ur_latch_lock(&cq->lock);
	show(cq);
	old_mask = cq->mask;
	old = ring_swap(cq, ring, mask);
	ur_latch_unlock(&cq->lock);
	if (!old) {
		ur_ring_put(source, ring, ring_bytes(mask), UR_RING_CQ);
		return -EINVAL;
	}
	cq->ring_source = source;
	ur_ring_put(old_source, old, ring_bytes(old_mask), UR_RING_CQ);
	return 0;
}

uint32_t ur_cq_poll(struct ur_cq *cq, struct ur_cqe *out, uint32_t n)
{
	uint32_t head, held;

	ur_latch_lock(&cq->lock);
	head = load(&cq->head);
	held = load(&cq->tail) - head;
	if (n > held)
		n = held;
	for (uint32_t i = 0; i < n; i++)
		out[i] = cq->ring[(head + i) & cq->mask];
	store(&cq->head, head + n);
	ur_latch_unlock(&cq->lock);
	return n;
}

void ur_cq_arm(struct ur_cq *cq, bool solicited_only)
{
	if (!cq->channel)
		return;
	ur_latch_lock(&cq->lock);
	if (load(&cq->armed) == UR_CQ_IDLE)
		atomic_fetch_add_explicit(&cq->channel->armed, 1,
					  memory_order_relaxed);
	/* IBTA 11.4.2.2: a request for any completion is not weakened. */
	if (!solicited_only || load(&cq->armed) != UR_CQ_ARMED_ANY)
		store(&cq->armed,
		      solicited_only ? UR_CQ_ARMED_SOLICITED : UR_CQ_ARMED_ANY);
	ur_latch_unlock(&cq->lock);
}

void ur_cq_take_idle(struct ur_cq *cq, struct ur_ev *out)
{
	ur_latch_lock(&cq->lock);
	disarm(cq);
	ur_evq_deliver(cq->channel, &cq->event, out);
	ur_latch_unlock(&cq->lock);
}

void ur_cq_purge(struct ur_cq *cq, const void *qp)
{
	uint32_t head, tail, to;

	ur_latch_lock(&cq->lock);
	show(cq);
	head = load(&cq->head);
	tail = load(&cq->tail);
	to = head;
	for (uint32_t i = head; i != tail; i++) {
		if (cq->ring[i & cq->mask].qp == qp)
			continue;
		cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
	}
	store(&cq->tail, to);
	ur_latch_unlock(&cq->lock);
}
