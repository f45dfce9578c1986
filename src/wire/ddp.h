/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP (RFC 5041, section 4): the header of a segment.
 *
 *  tagged    T L rsvd DV | ulp | STag 4 | TO 8
 *  untagged  T L rsvd DV | ulp | ulp 4  | QN 4 | MSN 4 | MO 4
 *
 * The ulp octets are RDMAP's (wire/rdmap.h).
 */
#ifndef UR_WIRE_DDP_H
#define UR_WIRE_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_DDP_TAGGED_LEN   14u
#define UR_DDP_UNTAGGED_LEN 18u
#define UR_DDP_HDR_MAX	    18u
#define UR_DDP_VERSION	    1u

/* Queues of the untagged model that RDMAP uses (RFC 5040, 5.1; 7306, 5). */
enum ur_ddp_queue {
	UR_QN_SEND,
	UR_QN_READ,
	UR_QN_TERMINATE,
	UR_QN_ATOMIC,
	UR_QN_COUNT,
};

struct ur_ddp_hdr {
	bool tagged;
	bool last;
	uint8_t rsvd; /* four reserved bits */
	uint8_t version;
	uint8_t ulp;
	/* tagged */
	uint32_t stag;
	uint64_t to;
	/* untagged */
	uint32_t ulp_word;
	uint32_t qn;
	uint32_t msn;
	uint32_t mo;
};

static inline uint32_t ur_ddp_hdr_len(bool tagged)
{
	return tagged ? UR_DDP_TAGGED_LEN : UR_DDP_UNTAGGED_LEN;
}

/* False if buf is shorter than the header; any version is taken. */
bool ur_ddp_decode(struct ur_ddp_hdr *h, const uint8_t *buf, size_t len);

/* Returns the length. */
uint32_t ur_ddp_encode(const struct ur_ddp_hdr *h, uint8_t buf[UR_DDP_HDR_MAX]);

#endif
