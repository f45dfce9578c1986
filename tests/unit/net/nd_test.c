/* SPDX-License-Identifier: BSD-2-Clause */
/* Neighbour discovery: its messages byte by byte, and their validity. */
#include "fixture.h"

/* RFC 4861 4.3, typed; the checksum computed by hand once. */
static const uint8_t solicitation[86] = {
	0x33, 0x33, 0xff, 0, 0,	   2,	 2,  0,	 0,   0,    0,	  1,	0x86,
	0xdd, 0x60, 0,	  0, 0,	   0,	 32, 58, 255, 0xfd, 0,	  0,	0,
	0,    0,    0,	  0, 0,	   0,	 0,  0,	 0,   0,    0,	  1,	0xff,
	2,    0,    0,	  0, 0,	   0,	 0,  0,	 0,   0,    1,	  0xff, 0,
	0,    2,    135,  0, 0x7d, 0x97, 0,  0,	 0,   0,    0xfd, 0,	0,
	0,    0,    0,	  0, 0,	   0,	 0,  0,	 0,   0,    0,	  0,	2,
	1,    1,    2,	  0, 0,	   0,	 0,  1,
};

static void test_solicited(void **state)
{
	struct stk *s = *state;
	uint8_t f[128], mac[6];

	assert_int_equal(stk_send(s, "fd00::2"), 0);
	assert_true(stk_out(s));
	assert_int_equal(s->len, sizeof(solicitation));
	assert_memory_equal(s->frame, solicitation, sizeof(solicitation));
	/* Without the option the MAC address is unknown; with it the entry is
	 * complete. */
	stk_in(s, f,
	       mk_nd(f, mac_us, "fd00::2", "fd00::1", 136, 0x60000000,
		     "fd00::2", NULL));
	assert_int_equal(stk_neigh(s, "fd00::2", NULL), UR_NEIGH_INCOMPLETE);
	stk_in(s, f,
	       mk_nd(f, mac_us, "fd00::2", "fd00::1", 136, 0x40000000,
		     "fd00::2", mac_peer));
	assert_int_equal(stk_neigh(s, "fd00::2", mac), UR_NEIGH_REACHABLE);
	assert_memory_equal(mac, mac_peer, 6);
	assert_true(stk_out(s)); /* the parked packet */
	assert_false(stk_out(s));
}

/* Unicast, so it may omit the option in its reply. */
static void test_probed(void **state)
{
	struct stk *s = *state;
	uint8_t f[128];

	stk_meet(s, "fd00::2", mac_peer);
	stk_run(s, 46 * SEC);
	assert_int_equal(stk_send(s, "fd00::2"), 1);
	stk_run(s, 5 * SEC);
	assert_true(stk_out(s));
	assert_memory_equal(s->frame, mac_peer, 6);
	assert_memory_equal(s->frame + 38, ip("fd00::2"), 16);
	stk_in(s, f,
	       mk_nd(f, mac_us, "fd00::2", "fd00::1", 136, 0x40000000,
		     "fd00::2", NULL));
	assert_int_equal(stk_neigh(s, "fd00::2", NULL), UR_NEIGH_REACHABLE);
}

static void test_answers(void **state)
{
	static const uint8_t node[6] = { 0x33, 0x33, 0xff, 0, 0, 1 };
	struct stk *s = *state;
	uint8_t f[128], g[128];
	uint32_t len;

	len = mk_nd(f, node, "fd00::2", "ff02::1:ff00:1", 135, 0, "fd00::1",
		    mac_peer);
	assert_int_equal(stk_in(s, f, len), UR_NET_DONE);
	assert_true(stk_out(s));
	len = mk_nd(g, mac_peer, "fd00::1", "fd00::2", 136, 0x60000000,
		    "fd00::1", mac_us);
	assert_int_equal(s->len, len);
	assert_memory_equal(s->frame, g, len);
	assert_int_equal(stk_neigh(s, "fd00::2", NULL), UR_NEIGH_STALE);
	/* Unicast request without its address. */
	len = mk_nd(f, mac_us, "fd00::3", "fd00::1", 135, 0, "fd00::1", NULL);
	stk_in(s, f, len);
	assert_true(stk_out(s));
	assert_memory_equal(s->frame, mac_peer, 6);
	assert_int_equal(stk_neigh(s, "fd00::3", NULL), -1);
	/* Another station probes our address: an advertisement goes to all
	 * nodes. */
	len = mk_nd(f, node, "::", "ff02::1:ff00:1", 135, 0, "fd00::1", NULL);
	stk_in(s, f, len);
	assert_true(stk_out(s));
	assert_int_equal(s->frame[0], 0x33);
	assert_int_equal(s->frame[58], 0x20);
	assert_memory_equal(s->frame + 38, ip("ff02::1"), 16);
	assert_false(stk_out(s));
}

static void bad(struct stk *s, const uint8_t *f, uint32_t len)
{
	uint64_t before = stk_count(s)->drop_nd_form;

	assert_int_equal(stk_in(s, f, len), UR_NET_DONE);
	assert_int_equal(stk_count(s)->drop_nd_form, before + 1);
	assert_int_equal(stk_drain(s), 0);
}

/* RFC 4861 7.1: invalid messages are ignored. */
static void test_forms(void **state)
{
	static const uint8_t node[6] = { 0x33, 0x33, 0xff, 0, 0, 1 };
	static const uint8_t none[6];
	struct stk *s = *state;
	uint8_t f[128], rest[28] = { 0 };
	uint32_t len;

	len = mk_nd(f, node, "fd00::2", "ff02::1:ff00:1", 135, 0, "fd00::1",
		    mac_peer);
	f[21] = 254; /* a router has forwarded it */
	bad(s, f, len);
	len = mk_nd(f, node, "fd00::2", "ff02::1:ff00:1", 135, 0, "ff02::1",
		    mac_peer);
	bad(s, f, len);
	len = mk_nd(f, node, "fd00::2", "ff02::1:ff00:1", 135, 0, "fd00::1",
		    mac_all);
	memcpy(f + 6, mac_peer, 6);
	bad(s, f, len);
	len = mk_nd(f, node, "fd00::2", "ff02::1:ff00:1", 135, 0, "fd00::1",
		    none);
	bad(s, f, len);
	/* Probes: to the group only, without the option. */
	len = mk_nd(f, mac_us, "::", "fd00::1", 135, 0, "fd00::1", NULL);
	bad(s, f, len);
	len = mk_nd(f, node, "::", "ff02::1:ff00:1", 135, 0, "fd00::1",
		    mac_peer);
	bad(s, f, len);
	/* Solicited, but to all. */
	len = mk_nd(f, node, "fd00::2", "ff02::1:ff00:1", 136, 0x60000000,
		    "fd00::2", mac_peer);
	bad(s, f, len);
	/* An option of length 0, and one that is longer than the rest. */
	memcpy(rest + 4, ip("fd00::1"), 16);
	rest[20] = 1;
	for (uint8_t words = 0; words < 3; words += 2) {
		rest[21] = words;
		len = mk_icmp(f, mac_us, "fd00::2", "fd00::1", 135, 0, rest,
			      28);
		f[21] = 255;
		bad(s, f, len);
	}
	for (uint32_t n = 4; n < 20; n++) {
		len = mk_icmp(f, mac_us, "fd00::2", "fd00::1", 135, 0, rest, n);
		f[21] = 255;
		bad(s, f, len);
	}
	len = mk_icmp(f, mac_us, "fd00::2", "fd00::1", 135, 1, rest, 20);
	f[21] = 255;
	bad(s, f, len);
	assert_int_equal(stk_neigh(s, "fd00::2", NULL), -1);
}

/* Routers come from the configuration. */
static void test_routers(void **state)
{
	static const uint8_t types[] = { 133, 134, 137 };
	struct stk *s = *state;
	uint8_t f[128], rest[36] = { 0 };
	uint32_t len = 0;

	for (size_t i = 0; i < sizeof(types); i++) {
		len = mk_icmp(f, mac_us, "fe80::fe", "fd00::1", types[i], 0,
			      rest, sizeof(rest));
		f[21] = 255;
		assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, stk_setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_solicited), T(test_probed),  T(test_answers),
		T(test_forms),	   T(test_routers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
