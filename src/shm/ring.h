/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of packets between a lane and who runs its port: memory that both
 * have mapped, records one behind the other.  Pure: who maps it and who rings
 * the other's bell is not decided here.
 *
 * One producer, one consumer.  Each counts the bytes that it has written or
 * read, and shares that count alone.  A record is a header of one cache line
 * and its payload; it stands in one piece, the end of the ring is skipped if
 * it does not fit there.
 *
 * Each side trusts its own struct ur_ring alone.  What the other side writes
 * may be anything at any time: a header is copied before it is looked at, and
 * every number in it is checked.
 */
#ifndef UR_SHM_RING_H
#define UR_SHM_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_RING_LINE 64u

/* What a record says of its payload: a packet received, or a burst. */
struct ur_ring_rec {
	uint32_t len;	  /* bytes of payload */
	uint32_t pkt_len; /* of each packet but the last of a burst */
	uint32_t scope_id;
	uint16_t sport;
	uint16_t index;
	uint8_t tclass;
	uint8_t hop_limit;
	uint16_t kind; /* the ring's own */
	uint8_t src[16];
	uint8_t dst[16];
	uint8_t unused[12];
};

_Static_assert(sizeof(struct ur_ring_rec) == UR_RING_LINE, "a cache line");

struct ur_ring_mem;

/* One side of a ring. */
struct ur_ring {
	struct ur_ring_mem *mem;
	uint8_t *data;
	uint32_t size; /* a power of two */
	uint32_t own;  /* bytes written, or read */
	uint32_t seen; /* the other side's count, as last seen */
	uint32_t step; /* of the record reserved, or peeked at */
};

/* Bytes of memory for a ring of `size` bytes, a power of two from 4 KiB to
 * 1 GiB; the memory begins zeroed. */
size_t ur_ring_bytes(uint32_t size);

/* Take a side of the ring at mem; the same for both sides. */
void ur_ring_init(struct ur_ring *r, void *mem, uint32_t size);

/* ---- Producer ---- */

/*
 * Room for a record with len bytes of payload (at most a quarter of the ring):
 * where these go; NULL: there is none now.  Nothing is there for the consumer
 * until it is published.
 */
uint8_t *ur_ring_reserve(struct ur_ring *r, uint32_t len);

/* Publish what was reserved; rec->len is not looked at.  True: the consumer
 * sleeps and must be told. */
bool ur_ring_publish(struct ur_ring *r, const struct ur_ring_rec *rec,
		     uint32_t len);

/* ---- Consumer ---- */

/*
 * The next record: 1, its header and its payload, which the other side may
 * still change, until ur_ring_pop(); 0: there is none; -EPROTO: the other side
 * has written nonsense, and the ring is not to be used any more.
 */
int ur_ring_peek(struct ur_ring *r, struct ur_ring_rec *rec,
		 const uint8_t **payload);
void ur_ring_pop(struct ur_ring *r);

/*
 * The consumer is about to sleep (or is not any more): the producer tells it
 * of the next record.  False: there is one already.
 */
bool ur_ring_sleep(struct ur_ring *r, bool on);

/* Records that the producer had no room for; either side. */
void ur_ring_count_lost(struct ur_ring *r);
uint64_t ur_ring_lost(const struct ur_ring *r);

#endif
