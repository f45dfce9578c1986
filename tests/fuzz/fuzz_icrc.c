/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Input: a byte for the IP version, two for the identification, four to be
 * XORed to the valid ICRC, the packet from its BTH on without ICRC. The valid
 * one passes, exactly if the identification is known; a wrong one passes if and
 * only if some identification explains it.
 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "base/crc.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

#define PACKET_MAX 9000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct ur_icrc_flow flow = { .sport = 0xc000, .dport = 4791 };
static struct ur_icrc_cache cache; /* across lengths */

/* By trying all, with nothing but prefixes. */
static bool some_id_fits(uint32_t prefix, const uint8_t *pkt, size_t len,
			 uint32_t icrc)
{
	uint32_t base = ur_icrc_run(prefix, pkt, UR_BTH_LEN);

	base = ur_crc32(base, pkt + UR_BTH_LEN, len - UR_BTH_LEN);
	for (unsigned int id = 0; id <= UINT16_MAX; id++) {
		uint32_t diff = ur_icrc_prefix_id(&flow, (uint16_t)id);

		if ((base ^ ur_crc32_shift(diff, len)) == icrc)
			return true;
	}
	return false;
}

static void check(const uint8_t *packet, size_t len, uint16_t id, uint32_t flip)
{
	static unsigned int rounds;
	static uint8_t pkt[PACKET_MAX + UR_ICRC_LEN];
	size_t all = len + UR_ICRC_LEN;
	uint32_t prefix = ur_icrc_prefix(&flow, all);
	uint32_t icrc = ur_icrc_run(prefix ^ ur_icrc_prefix_id(&flow, id),
				    packet, UR_BTH_LEN);
	bool exact = false;
	bool pass;

	icrc = ur_crc32(icrc, packet + UR_BTH_LEN, len - UR_BTH_LEN);
	memcpy(pkt, packet, len);
	memcpy(pkt + len, &icrc, sizeof(icrc));
	assert(ur_icrc_check(&flow, prefix, &cache, pkt, all, id, &exact));
	assert(exact);
	assert(ur_icrc_check(&flow, prefix, &cache, pkt, all, 0, &exact));
	icrc ^= flip;
	memcpy(pkt + len, &icrc, sizeof(icrc));
	pass = ur_icrc_check(&flow, prefix, &cache, pkt, all, id, &exact);
	assert(exact == !flip);
	/* trying all takes milliseconds */
	if ((pass && flip) || rounds++ % 1024 == 0)
		assert(pass == some_id_fits(prefix, pkt, len, icrc));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct ur_rd r = ur_rd_init(data, len);
	bool v4 = ur_rd_u8(&r) & 1;
	uint16_t id = ur_rd_be16(&r);
	uint32_t flip = ur_rd_be32(&r);
	size_t left = ur_rd_left(&r);

	flow.dst[10] = flow.dst[11] = v4 ? 0xff : 0;
	assert(ur_addr_is_v4(flow.dst) == v4);
	ur_icrc_check(&flow, 0, &cache, r.p, left, id, NULL);
	if (left >= UR_BTH_LEN && left <= PACKET_MAX)
		check(r.p, left, id, flip);
	return 0;
}
