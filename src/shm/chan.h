/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel between two lanes of one host (docs/decisions/0013): memory that
 * both have mapped, with a ring in each direction.  Pure: mapping it and
 * signalling the other side's wakeup fd are the caller's.
 *
 * A ring is an array of cells, a cache line each, and a stretch of bytes for
 * payload that does not fit into its cell.  One producer, one consumer.  A
 * cell says itself whether it is full: its sequence number is that of the lap.
 * So a message is seen with the first line that crosses over, and no index is
 * shared while there is room.  Bytes of the application never stand where a
 * sequence number is looked for.
 *
 * Each side trusts its own struct ur_chan alone.  What the other side writes
 * may be anything at any time: cells are copied before they are looked at
 * (ur_chan_copy()), and every number in them is checked.
 */
#ifndef UR_SHM_CHAN_H
#define UR_SHM_CHAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shared.h"

#define UR_CHAN_VERSION 4u
#define UR_CHAN_DESCS	512u
#define UR_CHAN_DATA	(4u << 20) /* bytes of payload in each direction */
#define UR_CHAN_BODY	40u	   /* bytes that fit into a cell */
#define UR_CHAN_EXTRA	8192u	   /* for the owner's other purposes, zeroed */
/* Cells, and messages of few bytes, whose lines are asked for in advance. */
#define UR_CHAN_AHEAD	8u
#define UR_CHAN_FEW	256u

struct ur_desc {
	_Atomic uint32_t seq; /* lap, from 1; written last */
	uint8_t kind;
	uint8_t flags;
	uint16_t len; /* bytes of payload, in the body or at data_at() */
	uint32_t to;
	uint32_t from;
	uint32_t ack;
	uint32_t imm_be;
	union {
		uint8_t bytes[UR_CHAN_BODY];
		struct {
			uint64_t va;
			uint32_t rkey;
			uint32_t total; /* bytes of the whole message */
			uint32_t index;
			uint32_t at; /* of the payload in the stretch */
			uint64_t value[2];
		};
	} body;
};

_Static_assert(sizeof(struct ur_desc) == 64, "a cache line");

struct ur_chan_mem;

/* One side of a channel. */
struct ur_chan {
	struct ur_chan_mem *mem;
	unsigned int side;
	/* Producer. */
	struct ur_desc *tx;
	uint8_t *tx_data;
	uint32_t tx_head;      /* the next cell */
	uint32_t tx_tail;      /* the consumer's, as last seen */
	uint32_t tx_data_head; /* bytes; a multiple of the line */
	uint32_t tx_data_tail;
	uint32_t tx_span; /* how much of the stretch we use, so far … */
	uint32_t tx_most; /* … and at most: all, but in tests */
	/* Consumer. */
	struct ur_desc *rx;
	const uint8_t *rx_data;
	uint32_t rx_tail;
	uint32_t rx_data_tail;
	uint32_t rx_released; /* the tail that the producer knows */
	uint32_t rx_row;      /* cells found full, one right after the other */
	uint32_t rx_fetched;  /* cells before this one were asked for */
	uint32_t rx_data_early; /* rx_data_tail, at the last tell of any kind */
};

/* Bytes that a channel's memory takes. */
size_t ur_chan_bytes(void);

/* Make the memory, zeroed, a channel; before the other side has it. */
void ur_chan_format(void *mem);

/*
 * Take one side (0: who made it, 1) of a channel; -EPROTO: it is none, or one
 * of another version.
 */
int ur_chan_attach(struct ur_chan *c, void *mem, unsigned int side);

/* UR_CHAN_EXTRA bytes that both sides see. */
void *ur_chan_extra(const struct ur_chan *c);

/* --- producer --- */

/* Has the consumer made room since we looked last? */
void ur_chan_refresh(struct ur_chan *c);

/*
 * Where len bytes (1 ... UR_CHAN_DATA / 4) of payload go; NULL: no room.  Taken
 * when the cell that names *at is published.
 */
uint8_t *ur_chan_data(struct ur_chan *c, uint32_t len, uint32_t *at);

/* Does one more cell fit, with `spare` (less than all) left behind it? */
static inline bool ur_chan_has_room(struct ur_chan *c, uint32_t spare)
{
	if (c->tx_head - c->tx_tail < UR_CHAN_DESCS - spare)
		return true;
	ur_chan_refresh(c);
	return c->tx_head - c->tx_tail < UR_CHAN_DESCS - spare;
}

/* The next cell, to be filled (not its seq) and published. */
static inline struct ur_desc *ur_chan_desc(const struct ur_chan *c)
{
	return &c->tx[c->tx_head % UR_CHAN_DESCS];
}

static inline uint32_t ur_chan_lap(uint32_t at)
{
	return at / UR_CHAN_DESCS + 1;
}

/*
 * The line is about to be written: have it here by then.  A hint, which
 * processors without it take for nothing.
 */
static inline void ur_chan_prefetchw(const void *line)
{
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
}

/*
 * Each cell that is written anew lies in the consumer's cache, and getting it
 * back takes as long as many messages.  Stores wait for it in order, so it is
 * asked for that much earlier.
 */
static inline void ur_chan_publish(struct ur_chan *c)
{
	atomic_store_explicit(&ur_chan_desc(c)->seq, ur_chan_lap(c->tx_head),
			      memory_order_release);
	c->tx_head++;
	ur_chan_prefetchw(&c->tx[(c->tx_head + UR_CHAN_AHEAD) % UR_CHAN_DESCS]);
}

/*
 * Payload of the cell that was just published lies at `at`.  What follows is
 * probably as long; long ones the processor sees coming by itself.
 */
static inline void ur_chan_data_used(struct ur_chan *c, uint32_t at,
				     uint32_t len)
{
	uint32_t lines = (len + 63u) & ~63u;

	c->tx_data_head = at + lines;
	if (lines > UR_CHAN_FEW)
		return;
	for (uint32_t i = 0; i < lines; i += 64)
		ur_chan_prefetchw(c->tx_data + (at + UR_CHAN_AHEAD * lines +
						i) % UR_CHAN_DATA);
}

/*
 * After publishing: is the consumer asleep, so that its bell must be rung?
 * True once for each time that it sleeps.  A full barrier, but for a consumer
 * that is polled.
 */
bool ur_chan_must_signal(struct ur_chan *c);

/* Ask the consumer to ring when it has made room; look again afterwards. */
void ur_chan_want_room(struct ur_chan *c);

/* --- consumer --- */

static inline bool ur_chan_is_empty(const struct ur_chan *c)
{
	const struct ur_desc *cell = &c->rx[c->rx_tail % UR_CHAN_DESCS];

	return atomic_load_explicit(&cell->seq, memory_order_acquire) !=
	       ur_chan_lap(c->rx_tail);
}

/*
 * A copy of the oldest cell; only if there is one.  Its memory is the
 * producer's, which may write there at any time: every word is read once.
 */
static inline void ur_chan_copy(const struct ur_chan *c, struct ur_desc *out)
{
	ur_shared_copy(out, &c->rx[c->rx_tail % UR_CHAN_DESCS], sizeof(*out));
}

/*
 * The payload of a cell with these numbers; NULL if they are not what a
 * producer writes.
 */
const uint8_t *ur_chan_payload(const struct ur_chan *c, uint32_t at,
			       uint32_t len);

/*
 * The oldest cell is full: ask for those behind it, or they would come over one
 * by one.  The longer the row is, the more of them are probably full as well;
 * one that is not would only be taken away from the producer, so behind the
 * first one of a row nothing is asked for.
 */
static inline void ur_chan_prefetch(struct ur_chan *c)
{
	uint32_t end = c->rx_row++ * 2;

	end = c->rx_tail + (end < UR_CHAN_AHEAD ? end : UR_CHAN_AHEAD);
	if ((int32_t)(c->rx_fetched - c->rx_tail) <= 0)
		c->rx_fetched = c->rx_tail + 1;
	for (; (int32_t)(end - c->rx_fetched) >= 0; c->rx_fetched++)
		__builtin_prefetch(&c->rx[c->rx_fetched % UR_CHAN_DESCS]);
}

/* The oldest cell is not full: the row has ended. */
static inline void ur_chan_row_ended(struct ur_chan *c)
{
	c->rx_row = 0;
}

/* The oldest cell is done with. */
static inline void ur_chan_consume(struct ur_chan *c)
{
	c->rx_tail++;
}

/* Its payload, too; the next ones probably are as long. */
static inline void ur_chan_data_done(struct ur_chan *c, uint32_t at,
				     uint32_t len)
{
	uint32_t lines = (len + 63u) & ~63u;

	c->rx_data_tail = at + lines;
	if (lines > UR_CHAN_FEW || c->rx_row < UR_CHAN_AHEAD / 2)
		return;
	for (uint32_t i = 0; i < lines; i += 64)
		__builtin_prefetch(c->rx_data + (at + UR_CHAN_AHEAD * lines +
						 i) % UR_CHAN_DATA);
}

/* Tell the producer what is free.  True: it waits, ring its bell. */
bool ur_chan_release(struct ur_chan *c);

/*
 * The same in the middle of many cells, if so much is free by now that it pays:
 * a producer that is awake goes on while the rest is taken.  ur_chan_release()
 * has to follow.
 */
void ur_chan_release_early(struct ur_chan *c);

/*
 * About to sleep, or awake.  After `true` look into the ring once more: what
 * was published before is seen then, what comes later rings.
 */
void ur_chan_sleeps(struct ur_chan *c, bool asleep);

/*
 * Somebody looks into the ring all the time, so the producer need not wait
 * until its cells are seen before it looks whether to ring.  Who sleeps within
 * a millisecond of that looks once more after a millisecond.
 */
void ur_chan_polled(struct ur_chan *c);

#endif
