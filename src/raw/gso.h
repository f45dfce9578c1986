/* SPDX-License-Identifier: BSD-2-Clause */
/* Cuts GSO frames of the host into the packets that the wire would have
 * carried: TCP segments (RFC 9293), UDP datagrams. */
#ifndef UR_RAW_GSO_H
#define UR_RAW_GSO_H

#include "raw/frame.h"
#include "raw/pkt.h"

struct ur_cut {
	const uint8_t *frame;
	uint32_t hdr_len; /* Ethernet to transport */
	uint32_t l3;	  /* offsets of headers */
	uint32_t l4;
	uint32_t size; /* payload per packet */
	uint32_t payload;
	uint32_t next; /* index of the next packet */
	uint32_t count;
	bool ipv4;
	bool tcp;
};

/* False: it does not match gso, or has no payload to cut. */
bool ur_cut_init(struct ur_cut *c, const struct ur_pkt *p, uint16_t gso_size);

/* The next packet, with correct lengths and checksums, into buf of `cap` bytes:
 * its length; 0: none left, or it does not fit. */
uint32_t ur_cut_next(struct ur_cut *c, uint8_t *buf, uint32_t cap);

#endif
