/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring in shared memory with one producer and one consumer: an array of slots
 * of one cache line, and an area of bytes for payload that does not fit into a
 * slot.  Channels between lanes (chan.h) and the rings of urnicd's ports
 * (ring.h) are made of it.  Pure: mapping the memory and signalling the other
 * side's wakeup fd are the caller's.
 *
 * A slot tells itself whether it is full: its sequence number is that of the
 * lap.  So the consumer sees a message with the first cache line that is moved,
 * and no index is shared while there is room.  Bytes of the application are
 * never where a sequence number is expected.
 *
 * Each side trusts its own structure only.  The other side may write anything at
 * any time: slots are copied before they are read (ur_spsc_copy()), and all
 * numbers in them are checked.
 *
 * spsc.c explains how the consumer sleeps and is woken.
 */
#ifndef UR_SHM_SPSC_H
#define UR_SHM_SPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"

#define UR_SPSC_LINE  64u
/* Slots, and payloads of few bytes, whose lines are prefetched. */
#define UR_SPSC_AHEAD 8u
#define UR_SPSC_FEW   256u

struct ur_slot {
	_Atomic uint32_t seq; /* ur_spsc_lap(); written last */
	uint8_t bytes[UR_SPSC_LINE - 4];
};

/* Shared words of a ring. */
struct ur_spsc_ctl {
	/* Written by the consumer. */
	_Alignas(UR_SPSC_LINE) _Atomic uint32_t tail;
	_Atomic uint32_t data_tail;
	_Alignas(UR_SPSC_LINE) _Atomic uint32_t rest; /* spsc.c */
	/* Set by the producer, cleared by the consumer. */
	_Alignas(UR_SPSC_LINE) _Atomic uint32_t wants_room;
	/* Either side: messages that found no room. */
	_Atomic uint64_t lost;
};

/* Where a ring is; sizes are powers of two. */
struct ur_spsc_place {
	struct ur_spsc_ctl *ctl;
	struct ur_slot *slots;
	uint8_t *data;
	uint32_t nslots;
	uint32_t data_size;
};

struct ur_spsc_tx {
	struct ur_slot *slots;
	uint8_t *data;
	struct ur_spsc_ctl *ctl;
	uint32_t mask; /* nslots - 1 */
	uint32_t data_mask;
	uint32_t head;	    /* the next slot */
	uint32_t tail;	    /* the consumer's, as last seen */
	uint32_t data_head; /* bytes; a multiple of the line */
	uint32_t data_tail;
	uint32_t span; /* bytes of the area in use so far */
	uint32_t most; /* limit of span: all, except in tests */
};

struct ur_spsc_rx {
	const struct ur_slot *slots;
	const uint8_t *data;
	struct ur_spsc_ctl *ctl;
	uint32_t mask;
	uint32_t data_mask;
	uint32_t tail;
	uint32_t data_tail;
	uint32_t released;   /* the tail that the producer knows */
	uint32_t row;	     /* slots found full, one after the other */
	uint32_t fetched;    /* slots before this one were prefetched */
	uint32_t data_early; /* data_tail at the last release of any kind */
};

/* The producer begins with `span` bytes of the area. */
void ur_spsc_tx_init(struct ur_spsc_tx *t, const struct ur_spsc_place *p,
		     uint32_t span);
void ur_spsc_rx_init(struct ur_spsc_rx *r, const struct ur_spsc_place *p);

/* --- producer --- */

/* Read how much room the consumer has made. */
void ur_spsc_refresh(struct ur_spsc_tx *t);

/*
 * Room for len bytes (1 ... a quarter of the area) of payload, in one piece;
 * NULL: none.  Taken by ur_spsc_data_used(), when the slot that names *at is
 * published.
 */
uint8_t *ur_spsc_data(struct ur_spsc_tx *t, uint32_t len, uint32_t *at);

/* Is there a free slot, with `spare` (less than all) left behind it? */
static inline bool ur_spsc_has_room(struct ur_spsc_tx *t, uint32_t spare)
{
	if (t->head - t->tail < t->mask + 1 - spare)
		return true;
	ur_spsc_refresh(t);
	return t->head - t->tail < t->mask + 1 - spare;
}

/* The next slot, to be filled (except seq) and published. */
static inline struct ur_slot *ur_spsc_slot(const struct ur_spsc_tx *t)
{
	return &t->slots[t->head & t->mask];
}

/* What the slot of a position holds when it is published: another value in each
 * lap, and not 0 in the first one. */
static inline uint32_t ur_spsc_lap(uint32_t at, uint32_t mask)
{
	return (at | mask) + 1;
}

/* Prefetch a line that is about to be written.  For any x86-64 processor the
 * compilers prefetch it for reading; those without prefetchw execute a NOP. */
static inline void ur_spsc_prefetchw(const void *line)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/*
 * A slot that is written again is in the consumer's cache, and moving its line
 * takes as long as many messages.  Stores wait for it in order, so it is
 * prefetched that much earlier.
 */
static inline void ur_spsc_publish(struct ur_spsc_tx *t)
{
	atomic_store_explicit(&ur_spsc_slot(t)->seq,
			      ur_spsc_lap(t->head, t->mask),
			      memory_order_release);
	t->head++;
	ur_spsc_prefetchw(&t->slots[(t->head + UR_SPSC_AHEAD) & t->mask]);
}

/*
 * Payload of the slot that was just published is at `at`.  Prefetches for the
 * next ones, which are probably as long; long ones the processor prefetches.
 */
static inline void ur_spsc_data_used(struct ur_spsc_tx *t, uint32_t at,
				     uint32_t len)
{
	uint32_t lines = (len + 63u) & ~63u;

	t->data_head = at + lines;
	if (lines > UR_SPSC_FEW)
		return;
	for (uint32_t i = 0; i < lines; i += UR_SPSC_LINE)
		ur_spsc_prefetchw(t->data + ((at + UR_SPSC_AHEAD * lines + i) &
					     t->data_mask));
}

/*
 * After publishing: does the consumer sleep, so that it must be signalled?  True
 * once for each time that it sleeps.  A full barrier, unless the consumer polls.
 */
bool ur_spsc_must_signal(struct ur_spsc_tx *t);

/* Ask the consumer to signal when it has made room; check for room afterwards. */
void ur_spsc_want_room(struct ur_spsc_tx *t);

/* --- consumer --- */

static inline bool ur_spsc_is_empty(const struct ur_spsc_rx *r)
{
	const struct ur_slot *slot = &r->slots[r->tail & r->mask];

	return atomic_load_explicit(&slot->seq, memory_order_acquire) !=
	       ur_spsc_lap(r->tail, r->mask);
}

/*
 * Copy the oldest slot, if there is one.  The producer may write to it at any
 * time, so each word is read once.
 */
static inline void ur_spsc_copy(const struct ur_spsc_rx *r, void *out)
{
	ur_shared_copy(out, &r->slots[r->tail & r->mask],
		       sizeof(struct ur_slot));
}

/* The payload with these numbers; NULL if no producer writes such numbers. */
static inline const uint8_t *ur_spsc_payload(const struct ur_spsc_rx *r,
					     uint32_t at, uint32_t len)
{
	uint32_t off = at & r->data_mask;

	if (at % UR_SPSC_LINE || len > r->data_mask + 1 - off)
		return NULL;
	return r->data + off;
}

/*
 * The oldest slot is full: prefetch those behind it, whose lines would be moved
 * one by one.  The longer the row, the more of them are probably full as well.
 * A slot that is not full would be taken from the producer, so nothing is
 * prefetched behind the first one of a row.
 */
static inline void ur_spsc_prefetch(struct ur_spsc_rx *r)
{
	uint32_t end = r->row++ * 2;

	end = r->tail + (end < UR_SPSC_AHEAD ? end : UR_SPSC_AHEAD);
	if ((int32_t)(r->fetched - r->tail) <= 0)
		r->fetched = r->tail + 1;
	for (; (int32_t)(end - r->fetched) >= 0; r->fetched++)
		__builtin_prefetch(&r->slots[r->fetched & r->mask]);
}

/* The oldest slot is not full: the row has ended. */
static inline void ur_spsc_row_ended(struct ur_spsc_rx *r)
{
	r->row = 0;
}

/* The oldest slot is no longer used. */
static inline void ur_spsc_consume(struct ur_spsc_rx *r)
{
	r->tail++;
}

/* Nor is its payload; prefetches the next ones, which are probably as long. */
static inline void ur_spsc_data_done(struct ur_spsc_rx *r, uint32_t at,
				     uint32_t len)
{
	uint32_t lines = (len + 63u) & ~63u;

	r->data_tail = at + lines;
	if (lines > UR_SPSC_FEW || r->row < UR_SPSC_AHEAD / 2)
		return;
	for (uint32_t i = 0; i < lines; i += UR_SPSC_LINE)
		__builtin_prefetch(r->data + ((at + UR_SPSC_AHEAD * lines + i) &
					      r->data_mask));
}

/* Show the producer the free space.  It is not signalled. */
void ur_spsc_show_room(struct ur_spsc_rx *r);

/*
 * The same; true: the producer waits for room and must be signalled.  `back`:
 * the ring in which the producer is the consumer, or NULL.  If it polls that
 * one, it checks for room by itself, and no barrier is needed.
 */
bool ur_spsc_release(struct ur_spsc_rx *r, const struct ur_spsc_tx *back);

/*
 * The same in the middle of many slots, if enough is free to pay for the cache
 * line: a producer that is awake continues meanwhile.  ur_spsc_release() must
 * follow.
 */
void ur_spsc_release_early(struct ur_spsc_rx *r);

/*
 * About to sleep, or awake.  After `true` check the ring once more: slots
 * published before are seen then, later ones make the producer signal.
 */
void ur_spsc_sleeps(struct ur_spsc_rx *r, bool asleep);

/*
 * The consumer polls without a pause, so the producer need not wait until its
 * slot is visible before it decides whether to signal.  A consumer that sleeps
 * within a millisecond of this call checks the ring again after a millisecond.
 */
void ur_spsc_polled(struct ur_spsc_rx *r);

/* Does the consumer of the ring poll like that? */
bool ur_spsc_is_polled(const struct ur_spsc_tx *t);

#endif
