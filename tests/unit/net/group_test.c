/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: MAC addresses, reports to routers, limits. */
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

static void test_filters_of_the_port(void **state)
{
	static const uint8_t joined[6] = { 1, 0, 0x5e, 1, 2, 3 };
	struct stk *s = *state;
	uint8_t macs[8][6];

	/* All hosts, all nodes, solicited node. */
	assert_int_equal(ur_net_macs(s->net, macs, 8), 3);
	assert_int_equal(ur_net_join(s->net, ip("239.1.2.3"), s->now), 0);
	assert_int_equal(stk_events(s, UR_NET_MACS), 1);
	assert_int_equal(ur_net_macs(s->net, macs, 8), 4);
	assert_memory_equal(macs[3], joined, 6);
	/* Another group of the same MAC address. */
	assert_int_equal(ur_net_join(s->net, ip("238.129.2.3"), s->now), 0);
	assert_int_equal(ur_net_macs(s->net, macs, 8), 4);
	assert_true(ur_net_macs(s->net, macs, 2) > 2);
	assert_int_equal(ur_net_leave(s->net, ip("239.1.2.3"), s->now), 0);
	assert_int_equal(ur_net_macs(s->net, macs, 8), 4);
	assert_int_equal(ur_net_leave(s->net, ip("238.129.2.3"), s->now), 0);
	assert_int_equal(ur_net_macs(s->net, macs, 8), 3);
}

/* RFC 2236: with the router alert, hop limit 1, twice; then the leave. */
static void test_igmp(void **state)
{
	static const uint8_t golden[46] = {
		1, 0, 0x5e, 1, 2,    3,	   2,	0, 0,	 0, 0,	  1,
		8, 0, 0x46, 0, 0,    32,   0,	0, 0x40, 0, 1,	  2,
		0, 0, 10,   0, 0,    1,	   239, 1, 2,	 3, 0x94, 4,
		0, 0, 0x16, 0, 0xf8, 0xfa, 239, 1, 2,	 3,
	};
	struct stk *s = *state;

	assert_int_equal(ur_net_join(s->net, ip("239.1.2.3"), s->now), 0);
	assert_true(stk_out(s));
	assert_int_equal(s->len, 46);
	assert_memory_equal(s->frame, golden, 24);
	assert_memory_equal(s->frame + 26, golden + 26, 20);
	assert_false(stk_out(s));
	stk_run(s, 1 * SEC);
	assert_true(stk_out(s));
	assert_memory_equal(s->frame + 38, golden + 38, 8);
	/* Joining it twice gives no further report. */
	assert_int_equal(ur_net_join(s->net, ip("239.1.2.3"), s->now), 0);
	assert_int_equal(ur_net_leave(s->net, ip("239.1.2.3"), s->now), 0);
	stk_run(s, 10 * SEC);
	assert_false(stk_out(s));
	assert_int_equal(ur_net_leave(s->net, ip("239.1.2.3"), s->now), 0);
	assert_true(stk_out(s));
	assert_memory_equal(s->frame + 30, ip("224.0.0.2") + 12, 4);
	assert_int_equal(s->frame[38], 0x17);
	stk_run(s, 10 * SEC);
	assert_false(stk_out(s));
}

/* RFC 2710, from a link-local address if there is one. */
static void test_mld(void **state)
{
	struct stk *s = *state;

	stk_fini(s);
	s->cfg.naddrs = 3;
	memcpy(s->cfg.addrs[2].ip, ip("fe80::1"), 16);
	s->cfg.addrs[2].prefix = 64;
	stk_start(s);
	assert_int_equal(ur_net_join(s->net, ip("ff0e::1"), s->now), 0);
	assert_true(stk_out(s));
	assert_int_equal(s->len, 14 + 40 + 8 + 24);
	assert_int_equal(s->frame[20], 0); /* hop by hop */
	assert_int_equal(s->frame[21], 1);
	assert_memory_equal(s->frame + 22, ip("fe80::1"), 16);
	assert_memory_equal(s->frame + 38, ip("ff0e::1"), 16);
	assert_int_equal(s->frame[54], 58);
	assert_int_equal(s->frame[56], 5); /* router alert */
	assert_int_equal(s->frame[62], 131);
	assert_memory_equal(s->frame + 70, ip("ff0e::1"), 16);
	assert_int_equal(ur_net_leave(s->net, ip("ff0e::1"), s->now), 0);
	assert_true(stk_out(s));
	assert_int_equal(s->frame[62], 132);
	assert_memory_equal(s->frame + 38, ip("ff02::2"), 16);
	/* Groups of link-local scope or less are not reported. */
	assert_int_equal(ur_net_join(s->net, ip("ff01::1"), s->now), 0);
	assert_int_equal(ur_net_join(s->net, ip("ff02::1"), s->now), 0);
	assert_int_equal(ur_net_join(s->net, ip("224.0.0.1"), s->now), 0);
	stk_run(s, 10 * SEC);
	assert_false(stk_out(s));
}

static uint32_t mk_igmp_query(uint8_t *f, uint8_t tenths, const char *group)
{
	static const uint8_t all[6] = { 1, 0, 0x5e, 0, 0, 1 };
	uint8_t q[8] = { 0x11, tenths };
	uint32_t sum;

	memcpy(q + 4, ip(group) + 12, 4);
	sum = (uint32_t)(q[0] << 8 | q[1]) + (uint32_t)(q[4] << 8 | q[5]) +
	      (uint32_t)(q[6] << 8 | q[7]);
	sum = ~((sum & 0xffff) + (sum >> 16));
	q[2] = (uint8_t)(sum >> 8);
	q[3] = (uint8_t)sum;
	return mk_ip(f, all, mac_peer, "10.0.0.254", "224.0.0.1", 2, q, 8);
}

/* A router queries: reports come within the time that it gives. */
static void test_queries(void **state)
{
	static const uint8_t all[6] = { 0x33, 0x33, 0, 0, 0, 1 };
	struct stk *s = *state;
	uint8_t f[128], rest[20] = { 0x27, 0x10 };
	uint32_t len;

	assert_int_equal(ur_net_join(s->net, ip("239.1.2.3"), s->now), 0);
	assert_int_equal(ur_net_join(s->net, ip("239.1.2.4"), s->now), 0);
	assert_int_equal(ur_net_join(s->net, ip("ff0e::1"), s->now), 0);
	stk_run(s, 5 * SEC);
	assert_int_equal(stk_drain(s), 6);
	stk_in(s, f, mk_igmp_query(f, 100, "0.0.0.0"));
	stk_run(s, 10 * SEC);
	assert_int_equal(stk_drain(s), 2);
	stk_in(s, f, mk_igmp_query(f, 100, "239.1.2.4"));
	stk_run(s, 10 * SEC);
	assert_int_equal(stk_drain(s), 1);
	stk_in(s, f, mk_igmp_query(f, 100, "239.1.2.5"));
	len = mk_igmp_query(f, 100, "0.0.0.0");
	f[36] ^= 1;
	stk_in(s, f, len);
	stk_run(s, 10 * SEC);
	assert_int_equal(stk_drain(s), 0);
	len = mk_icmp(f, all, "fe80::fe", "ff02::1", 130, 0, rest, 20);
	f[21] = 1;
	stk_in(s, f, len);
	stk_run(s, 10 * SEC);
	assert_int_equal(stk_drain(s), 1);
	assert_int_equal(stk_count(s)->rx_membership_query, 4);
}

static void test_most_groups(void **state)
{
	struct stk *s = *state;
	char name[32];

	for (uint32_t i = 0; i < UR_NET_GROUPS; i++) {
		snprintf(name, sizeof(name), "239.0.0.%u", i);
		assert_int_equal(ur_net_join(s->net, ip(name), s->now), 0);
	}
	assert_int_equal(ur_net_join(s->net, ip("239.0.1.1"), s->now), -ENOSPC);
	assert_int_equal(ur_net_join(s->net, ip("239.0.0.1"), s->now), 0);
	assert_int_equal(ur_net_leave(s->net, ip("239.0.0.2"), s->now), 0);
	assert_int_equal(ur_net_join(s->net, ip("239.0.1.1"), s->now), 0);
	assert_int_equal(ur_net_leave(s->net, ip("239.0.0.2"), s->now),
			 -EINVAL);
	assert_int_equal(ur_net_join(s->net, ip("10.0.0.1"), s->now), -EINVAL);
	assert_int_equal(ur_net_join(s->net, ip("fd00::1"), s->now), -EINVAL);
}

/* Joined before there is an address to report from: reported later. */
static void test_joined_early(void **state)
{
	struct stk *s = *state;
	uint32_t reports = 0;

	stk_fini(s);
	s->cfg.probes = 1;
	stk_start(s);
	assert_int_equal(ur_net_join(s->net, ip("239.1.2.3"), s->now), 0);
	assert_false(stk_out(s));
	stk_run(s, 10 * SEC);
	while (stk_out(s))
		reports += s->frame[0] == 1;
	assert_int_equal(reports, 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, stk_setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_macs),	      T(test_filters_of_the_port),
		T(test_igmp),	      T(test_mld),
		T(test_queries),      T(test_most_groups),
		T(test_joined_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
