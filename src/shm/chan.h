/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel between two lanes of one host (docs/decisions/0013): memory that
 * both have mapped, with a ring (spsc.h) in each direction.
 */
#ifndef UR_SHM_CHAN_H
#define UR_SHM_CHAN_H

#include "shm/spsc.h"

#define UR_CHAN_VERSION 7u
#define UR_CHAN_DESCS	512u
#define UR_CHAN_DATA	(4u << 20) /* bytes of payload in each direction */
#define UR_CHAN_BODY	40u	   /* bytes that fit into a descriptor */
#define UR_CHAN_EXTRA	8192u	   /* zeroed bytes for other uses */

/* What a slot holds. */
struct ur_desc {
	_Atomic uint32_t seq; /* of the slot */
	uint8_t kind;
	uint8_t flags;
	uint16_t len; /* bytes of payload, in the body or beside the ring */
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
			uint32_t at; /* of the payload beside the ring */
			uint64_t value[2];
		};
	} body;
};

_Static_assert(sizeof(struct ur_desc) == sizeof(struct ur_slot), "a slot");

struct ur_chan_mem;

/* One side of a channel. */
struct ur_chan {
	struct ur_chan_mem *mem;
	struct ur_spsc_tx tx;
	struct ur_spsc_rx rx;
};

/* Size of a channel's memory. */
size_t ur_chan_bytes(void);

/* Make zeroed memory a channel; before the other side has it. */
void ur_chan_format(void *mem);

/*
 * Take a side (0: its maker, 1) of a channel; -EPROTO: it is none, or one of
 * another version.
 */
int ur_chan_attach(struct ur_chan *c, void *mem, unsigned int side);

/* UR_CHAN_EXTRA bytes that both sides see. */
void *ur_chan_extra(const struct ur_chan *c);

/* The next descriptor, to be filled (except seq) and published. */
static inline struct ur_desc *ur_chan_desc(const struct ur_chan *c)
{
	return (struct ur_desc *)(void *)ur_spsc_slot(&c->tx);
}

#endif
