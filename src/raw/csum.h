/* SPDX-License-Identifier: BSD-2-Clause */
/* The Internet checksum (RFC 1071) of IPv4, TCP and UDP. */
#ifndef UR_RAW_CSUM_H
#define UR_RAW_CSUM_H

#include "raw/pkt.h"

/* Sum of 16-bit words onto `sum`, of memory; an odd last byte is the upper. */
uint64_t ur_csum_add(uint64_t sum, const void *data, uint32_t len);

/* The complement of the folded sum, as it goes into a header. */
uint16_t ur_csum_fold(uint64_t sum);

/* Sum over the pseudo header of l4_len bytes of that protocol. */
uint64_t ur_csum_pseudo(const struct ur_hdrs *h, uint32_t l4_len);

/* Both sums of a packet are right, of IPv4 with TCP or UDP in one piece.  A
 * UDP packet without a checksum passes. */
bool ur_csum_verify(const struct ur_hdrs *h);

/*
 * Complete what a sender left to the device: the sum from `start` on, onto what
 * stands at start + offset.  False if that is not within len bytes.
 */
bool ur_csum_complete(uint8_t *frame, uint32_t len, uint32_t start,
		      uint32_t offset);

/* The header checksum of an IPv4 header. */
void ur_csum_ipv4(uint8_t *ip);

/* Where a transport protocol has its checksum; 0: it has none. */
uint32_t ur_csum_offset(uint8_t proto);

#endif
