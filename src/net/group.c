/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. The host is the member of all that programs join, and
 * reports them; the stack receives all-nodes groups, and the solicited-node
 * groups of our addresses, by which neighbours find them.
 */
#include "net/internal.h"

static const uint8_t all_nodes6[16] = { 0xff, 2, [15] = 1 };
static const uint8_t all_hosts4[16] = { [10] = 0xff, 0xff, 224, 0, 0, 1 };

void ur_net_group_mac(const uint8_t group[16], uint8_t mac[UR_MAC_LEN])
{
	static const uint8_t v4[3] = { 0x01, 0x00, 0x5e };

	if (ur_addr_is_v4(group)) {
		memcpy(mac, v4, 3);
		memcpy(mac + 3, group + 13, 3);
		mac[3] &= 0x7f;
	} else {
		memset(mac, 0x33, 2);
		memcpy(mac + 2, group + 12, 4);
	}
}

bool ur_group_is_ours(const struct ur_net *net, const uint8_t addr[16])
{
	uint8_t node[16];

	if (!memcmp(addr, all_nodes6, 16) || !memcmp(addr, all_hosts4, 16))
		return true;
	for (uint32_t i = 0; i < net->nown && addr[0] == 0xff; i++) {
		ur_nd_solicited_node(net->own[i].a.ip, node);
		if (!net->own[i].v4 && !memcmp(node, addr, 16))
			return true;
	}
	return false;
}
