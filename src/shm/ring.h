/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of packets in a ring (spsc.h) between a lane and the process that runs
 * its port: a record's header is a slot, its payload is in the ring's area.
 */
#ifndef UR_SHM_RING_H
#define UR_SHM_RING_H

#include "shm/spsc.h"

/* Header of a record: a packet received, or a burst. */
struct ur_ring_rec {
	uint32_t seq;	  /* the slot's */
	uint32_t len;	  /* bytes of payload ... */
	uint32_t at;	  /* ... and its position; both the ring's own */
	uint32_t pkt_len; /* of each packet but the last of a burst */
	uint32_t scope_id;
	uint16_t sport;
	uint16_t index;
	uint8_t tclass;
	uint8_t hop_limit;
	uint8_t unused[6];
	uint8_t src[16];
	uint8_t dst[16];
};

_Static_assert(sizeof(struct ur_ring_rec) == sizeof(struct ur_slot), "a slot");

/* Bytes of payload for which there is a record. */
#define UR_RING_PER_RECORD 128u

/* One side of a ring: its producer uses tx, its consumer rx. */
struct ur_ring {
	struct ur_spsc_tx tx;
	struct ur_spsc_rx rx;
	uint32_t at;  /* payload reserved, or of the record peeked at */
	uint32_t len; /* of the record peeked at */
};

/* Bytes of memory for a ring with `size` bytes of payload, a power of two from
 * 4 KiB to 1 GiB.  The memory must be zeroed. */
size_t ur_ring_bytes(uint32_t size);

/* Attach to the ring at mem, as either side. */
void ur_ring_init(struct ur_ring *r, void *mem, uint32_t size);

/* ---- Producer ---- */

/*
 * Room for a record with len bytes of payload (at most a quarter of the ring):
 * where the payload goes; NULL: no room.
 */
uint8_t *ur_ring_reserve(struct ur_ring *r, uint32_t len);

/* Publish the reserved record; ignores rec->len and at.  True: the consumer
 * sleeps and must be signalled. */
bool ur_ring_publish(struct ur_ring *r, const struct ur_ring_rec *rec,
		     uint32_t len);

/* ---- Consumer ---- */

/*
 * The next record: 1, with its header and its payload, which the producer may
 * still change, valid until ur_ring_pop(); 0: none; -EPROTO: the producer has
 * violated the protocol, and the ring must not be used any more.
 */
int ur_ring_peek(struct ur_ring *r, struct ur_ring_rec *rec,
		 const uint8_t **payload);
void ur_ring_pop(struct ur_ring *r);

/*
 * The consumer is about to sleep (or awake again): the producer signals the next
 * record.  False: there is a record already, do not sleep.
 */
bool ur_ring_sleep(struct ur_ring *r, bool on);

/* Records that found no room; either side. */
void ur_ring_count_lost(struct ur_ring *r);
uint64_t ur_ring_lost(const struct ur_ring *r);

#endif
