/* SPDX-License-Identifier: BSD-2-Clause */
/* The Internet checksum (RFC 1071) of IPv4, TCP and UDP. */
#ifndef UR_RAW_CSUM_H
#define UR_RAW_CSUM_H

#include "raw/pkt.h"

/*
 * Adds the 16-bit words of memory to `sum`; an odd last byte is the upper half.
 */
uint64_t ur_csum_add(uint64_t sum, const void *data, uint32_t len);

/* The complement of the folded sum, in header byte order. */
uint16_t ur_csum_fold(uint64_t sum);

/* Sum over the pseudo header of l4_len bytes of that protocol. */
uint64_t ur_csum_pseudo(const struct ur_hdrs *h, uint32_t l4_len);

/* Are both checksums right? For unfragmented IPv4 with TCP or UDP. A UDP packet
 * without a checksum passes. */
bool ur_csum_verify(const struct ur_hdrs *h);

/*
 * Complete a checksum that the sender left to the device: the sum from `start`
 * on, added to the field at start + offset. False if that is not within len
 * bytes.
 */
bool ur_csum_complete(uint8_t *frame, uint32_t len, uint32_t start,
		      uint32_t offset);

/* The header checksum of an IPv4 header. */
void ur_csum_ipv4(uint8_t *ip);

/* Offset of the checksum in the transport header; 0: none. */
uint32_t ur_csum_offset(uint8_t proto);

#endif
