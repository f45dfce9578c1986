/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCEv2 (IBTA A17.3.3): CRC-32 over eight bytes of ff,
 * the IP and UDP headers with the fields that routers change set to ones, the
 * BTH with byte 4 set to ones, and the rest of the packet. It follows the
 * payload in little-endian order.
 *
 * Sending: our IPv4 packets carry DF and identification 0; segments of one
 * UDP_SEGMENT burst count 0, 1, 2. Receiving: a UDP socket hides the
 * identification. CRCs are linear, so a wrong guess of the 16-bit field changes
 * the result by one of 2^16 values known for the packet's length:
 * ur_icrc_check() accepts exactly these. That leaves 16 bits of protection, and
 * 32 where the identification is the expected one.
 */
#ifndef UR_WIRE_ICRC_H
#define UR_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"

/* Addresses are 16 bytes; IPv4 is mapped (::ffff:a.b.c.d). */
struct ur_icrc_flow {
	uint8_t src[16];
	uint8_t dst[16];
	uint16_t sport;
	uint16_t dport;
};

/* CRC over everything before the BTH for a UDP payload of udp_len bytes (BTH to
 * ICRC inclusive) and IPv4 identification 0. */
uint32_t ur_icrc_prefix(const struct ur_icrc_flow *flow, size_t udp_len);

/* What to XOR to that value for identification `id`; IPv6: 0. */
uint32_t ur_icrc_prefix_id(const struct ur_icrc_flow *flow, uint16_t id);

/* Continue from a prefix over the first len bytes of a packet, at least the BTH
 * (12 bytes; byte 4 counts as ones). */
uint32_t ur_icrc_run(uint32_t prefix, const uint8_t *pkt, size_t len);

/* `crc` as the last bytes of a packet, least significant first. */
static inline void ur_icrc_put(uint8_t *p, uint32_t crc)
{
	for (uint32_t i = 0; i < UR_ICRC_LEN; i++)
		p[i] = (uint8_t)(crc >> 8 * i);
}

/* Write the ICRC of a packet of udp_len bytes (BTH to ICRC) that is not part of
 * a burst: IPv4 identification 0. */
void ur_icrc_write(const struct ur_icrc_flow *flow, uint8_t *pkt,
		   size_t udp_len);

/* ur_icrc_check()'s cache per packet length; zero-initialise. */
struct ur_icrc_cache {
	size_t udp_len;
	uint32_t unshift; /* factor: from the ICRC back to the identification */
};

/*
 * Verify pkt (BTH to ICRC, udp_len bytes, at least 16). `prefix` is
 * ur_icrc_prefix() of the flow; `id` the likeliest identification, tried first.
 * `exact` (may be NULL) tells whether that one matched. A packet shorter than
 * BTH and ICRC is refused, *exact unchanged. IPv6 has no identification: only
 * the exact value passes.
 */
bool ur_icrc_check(const struct ur_icrc_flow *flow, uint32_t prefix,
		   struct ur_icrc_cache *cache, const uint8_t *pkt,
		   size_t udp_len, uint16_t id, bool *exact);

#endif
