/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes before the BTH are the same for all packets of a flow except for
 * lengths and the IPv4 identification, so their CRC is a prefix that callers
 * may cache.
 *
 * The hidden identification. Two packets that differ in the identification
 * alone have ICRCs that differ. That difference, taken back through all bytes
 * after the field (base/crc.h), is the value of a CRC register before these two
 * bytes are processed: the two bytes themselves in its lower half, zero in the
 * upper. So one multiplication by a factor that depends on the length tells
 * whether an identification explains the difference, and which.
 */
#include "wire/icrc.h"

#include <assert.h>
#include <string.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "wire/opcode.h"

#define MASK_LEN   8u /* ones in place of the InfiniBand LRH */
#define IPV4_LEN   20u
#define IPV6_LEN   40u
#define UDP_LEN	   8u
#define PROTO_UDP  17u
#define IPV4_ID_AT 4u
#define IPV4_DF	   0x4000u
#define BTH_MASKED 4u /* the byte with FECN and BECN */
/* That byte as ones instead of zero, as a difference before the BTH:
 * ur_crc32_unshift(0xff, BTH_MASKED). */
#define MASK_ONES  0x0f6a70d9u
#define ID_TABLE   64u /* packets of the largest burst */

/* From the identification to the end of the UDP header. */
#define AFTER_ID (IPV4_LEN - IPV4_ID_AT + UDP_LEN)

static void put_ipv4(struct ur_wr *w, const struct ur_icrc_flow *flow,
		     size_t udp_len)
{
	ur_wr_u8(w, 0x45);
	ur_wr_u8(w, 0xff); /* type of service */
	ur_wr_be16(w, (uint16_t)(IPV4_LEN + UDP_LEN + udp_len));
	ur_wr_be16(w, 0); /* identification */
	ur_wr_be16(w, IPV4_DF);
	ur_wr_u8(w, 0xff); /* time to live */
	ur_wr_u8(w, PROTO_UDP);
	ur_wr_be16(w, 0xffff); /* header checksum */
	ur_wr_copy(w, flow->src + 12, 4);
	ur_wr_copy(w, flow->dst + 12, 4);
}

static void put_ipv6(struct ur_wr *w, const struct ur_icrc_flow *flow,
		     size_t udp_len)
{
	ur_wr_be32(w, 0x6fffffff); /* version; traffic class, flow label */
	ur_wr_be16(w, (uint16_t)(UDP_LEN + udp_len));
	ur_wr_u8(w, PROTO_UDP);
	ur_wr_u8(w, 0xff); /* hop limit */
	ur_wr_copy(w, flow->src, 16);
	ur_wr_copy(w, flow->dst, 16);
}

uint32_t ur_icrc_prefix(const struct ur_icrc_flow *flow, size_t udp_len)
{
	uint8_t buf[MASK_LEN + IPV6_LEN + UDP_LEN];
	struct ur_wr w = ur_wr_init(buf, sizeof(buf));

	ur_wr_be64(&w, UINT64_MAX);
	if (ur_addr_is_v4(flow->dst))
		put_ipv4(&w, flow, udp_len);
	else
		put_ipv6(&w, flow, udp_len);
	ur_wr_be16(&w, flow->sport);
	ur_wr_be16(&w, flow->dport);
	ur_wr_be16(&w, (uint16_t)(UDP_LEN + udp_len));
	ur_wr_be16(&w, 0xffff); /* checksum */
	assert(!w.bad);
	return ur_crc32(0, buf, (size_t)(w.p - buf));
}

static uint32_t id_table[ID_TABLE];

/* The register before the two bytes, first byte lowest. */
static uint32_t id_difference(uint16_t id)
{
	return ur_crc32_shift(__builtin_bswap16(id), AFTER_ID);
}

__attribute__((constructor)) static void icrc_init(void)
{
	for (uint16_t id = 0; id < ID_TABLE; id++)
		id_table[id] = id_difference(id);
}

uint32_t ur_icrc_prefix_id(const struct ur_icrc_flow *flow, uint16_t id)
{
	if (!id || !ur_addr_is_v4(flow->dst))
		return 0;
	return id < ID_TABLE ? id_table[id] : id_difference(id);
}

uint32_t ur_icrc_run(uint32_t prefix, const uint8_t *pkt, size_t len)
{
	uint32_t ones = MASK_ONES;

	if (pkt[BTH_MASKED])
		ones = ur_crc32_unshift(0xffu ^ pkt[BTH_MASKED], BTH_MASKED);
	return ur_crc32(prefix ^ ones, pkt, len);
}

void ur_icrc_write(const struct ur_icrc_flow *flow, uint8_t *pkt,
		   size_t udp_len)
{
	size_t covered = udp_len - UR_ICRC_LEN;

	ur_icrc_put(pkt + covered,
		    ur_icrc_run(ur_icrc_prefix(flow, udp_len), pkt, covered));
}

/* Is there an identification that explains the difference? */
static bool id_explains(struct ur_icrc_cache *cache, size_t udp_len,
			uint32_t diff)
{
	if (cache->udp_len != udp_len) {
		cache->udp_len = udp_len;
		cache->unshift = ur_crc32_unshift(
			UR_CRC32_ONE, AFTER_ID + udp_len - UR_ICRC_LEN);
	}
	return ur_crc32_times(diff, cache->unshift) <= UINT16_MAX;
}

bool ur_icrc_check(const struct ur_icrc_flow *flow, uint32_t prefix,
		   struct ur_icrc_cache *cache, const uint8_t *pkt,
		   size_t udp_len, uint16_t id, bool *exact)
{
	size_t covered = udp_len - UR_ICRC_LEN;
	uint32_t crc;
	uint32_t diff;

	if (udp_len < UR_BTH_LEN + UR_ICRC_LEN)
		return false;
	crc = ur_icrc_run(prefix ^ ur_icrc_prefix_id(flow, id), pkt, covered);
	memcpy(&diff, pkt + covered, sizeof(diff));
	diff ^= crc;
	if (exact)
		*exact = !diff;
	return !diff ||
	       (ur_addr_is_v4(flow->dst) && id_explains(cache, udp_len, diff));
}
