/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: MAC addresses, and which are received. */
#include "fixture.h"

/* RFC 1112 6.4 has the upper bit of the 24 zero; RFC 2464 7 takes four bytes. */
static void test_macs(void **state)
{
	static const struct {
		const char *group;
		uint8_t mac[6];
	} maps[] = {
		{ "224.0.0.1", { 1, 0, 0x5e, 0, 0, 1 } },
		{ "239.255.255.250", { 1, 0, 0x5e, 0x7f, 0xff, 0xfa } },
		{ "224.128.0.1", { 1, 0, 0x5e, 0, 0, 1 } },
		{ "ff02::1:ff00:1", { 0x33, 0x33, 0xff, 0, 0, 1 } },
		{ "ff0e::8899:aabb", { 0x33, 0x33, 0x88, 0x99, 0xaa, 0xbb } },
	};
	uint8_t mac[6];

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		ur_net_group_mac(ip(maps[i].group), mac);
		assert_memory_equal(mac, maps[i].mac, 6);
	}
}

/* Ours: all hosts, all nodes, the solicited node. Others are the host's. */
static void test_received(void **state)
{
	static const struct {
		const char *src, *group;
		bool ours;
	} to[] = {
		{ "10.0.0.2", "224.0.0.1", true },
		{ "10.0.0.2", "239.1.2.3", false },
		{ "fd00::2", "ff02::1", true },
		{ "fd00::2", "ff02::1:ff00:1", true },
		{ "fd00::2", "ff02::1:ff00:2", false },
	};
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len;

	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		len = mk_udp(f, to[i].src, to[i].group, 4791, 32);
		ur_net_group_mac(ip(to[i].group), f);
		assert_int_equal(stk_in(s, f, len),
				 to[i].ours ? UR_NET_ROCE : UR_NET_HOST);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, stk_setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_macs),
		T(test_received),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
