/* SPDX-License-Identifier: BSD-2-Clause */
/* Our own addresses: probed, announced, defended; and invalid ones. */
#include "fixture.h"

#include "base/timer.h"

static const uint8_t zero[6];

/* In use: defended, but only once in ten seconds. */
static void test_defended(void **state)
{
	struct stk *s = *state;
	uint8_t f[64];

	stk_start(s);
	for (int i = 0; i < 4; i++) {
		stk_in(s, f,
		       mk_arp(f, mac_all, 1, mac_thief, "10.0.0.1", zero,
			      "10.0.0.2"));
		stk_run(s, 4 * SEC);
	}
	assert_int_equal(stk_count(s)->addr_conflict, 4);
	assert_int_equal(stk_events(s, UR_NET_ADDR_DUPLICATE), 2);
	assert_int_equal(stk_drain(s), 2);
	assert_true(ur_own_find(s->net, ip("10.0.0.1")) != NULL);
	assert_int_equal(stk_neigh(s, "10.0.0.1", NULL), -1);
	/* A probe of it is answered like any request. */
	stk_in(s, f,
	       mk_arp(f, mac_all, 1, mac_thief, "0.0.0.0", zero, "10.0.0.1"));
	assert_int_equal(stk_drain(s), 1);
	assert_int_equal(stk_count(s)->addr_conflict, 4);
	/* Our own frame looped back is no conflict. */
	stk_in(s, f,
	       mk_arp(f, mac_all, 1, mac_us, "10.0.0.1", zero, "10.0.0.1"));
	assert_int_equal(stk_count(s)->addr_conflict, 4);
	assert_int_equal(stk_drain(s), 0);
}

/* Used at once; meanwhile three probes with sender 0.0.0.0 (RFC 5227), then two
 * announcements. */
static void test_probes_v4(void **state)
{
	static const uint8_t probe[20] = {
		2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
	};
	struct stk *s = *state;

	s->cfg.probes = 3;
	s->cfg.naddrs = 1;
	stk_start(s);
	for (int i = 0; i < 3; i++) {
		stk_run(s, i ? 100 * MS : 1);
		assert_non_null(ur_own_find(s->net, ip("10.0.0.1")));
		assert_true(stk_out(s));
		assert_memory_equal(s->frame, mac_all, 6);
		assert_int_equal(s->frame[21], 1);
		assert_memory_equal(s->frame + 22, probe, 20);
		assert_false(stk_out(s));
	}
	assert_int_equal(stk_count(s)->tx_arp, 3);
	for (int i = 0; i < 2; i++) {
		stk_run(s, i ? 2 * SEC : 100 * MS);
		assert_true(stk_out(s));
		assert_memory_equal(s->frame + 28, ip("10.0.0.1") + 12, 4);
		assert_memory_equal(s->frame + 38, ip("10.0.0.1") + 12, 4);
		assert_false(stk_out(s));
	}
	assert_int_equal(ur_net_deadline(s->net), UR_NEVER);
	assert_int_equal(stk_events(s, UR_NET_ADDR_DUPLICATE), 0);
	/* The link has come back: all of it again. */
	ur_net_link_up(s->net, s->now);
	stk_run(s, 3 * SEC);
	assert_int_equal(stk_drain(s), 5);
}

/* RFC 4862: solicitations from the unspecified address. */
static void test_probes_v6(void **state)
{
	static const uint8_t golden[78] = {
		0x33, 0x33, 0xff, 0, 0, 1, 2,	0,  0,	  0,	0, 1,
		0x86, 0xdd, 0x60, 0, 0, 0, 0,	24, 58,	  255,	0, 0,
		0,    0,    0,	  0, 0, 0, 0,	0,  0,	  0,	0, 0,
		0,    0,    0xff, 2, 0, 0, 0,	0,  0,	  0,	0, 0,
		0,    1,    0xff, 0, 0, 1, 135, 0,  0x7d, 0xa5, 0, 0,
		0,    0,    0xfd, 0, 0, 0, 0,	0,  0,	  0,	0, 0,
		0,    0,    0,	  0, 0, 1,
	};
	struct stk *s = *state;

	s->cfg.naddrs = 1;
	s->cfg.addrs[0] = s->cfg.addrs[1];
	s->cfg.probes = 1;
	stk_start(s);
	stk_run(s, 1);
	assert_true(stk_out(s));
	assert_int_equal(s->len, 78);
	assert_memory_equal(s->frame, golden, sizeof(golden));
	assert_false(stk_out(s));
	stk_run(s, 100 * MS);
	/* An advertisement to all, with override. */
	assert_true(stk_out(s));
	assert_int_equal(s->len, 14 + 40 + 32);
	assert_int_equal(s->frame[54], 136);
	assert_int_equal(s->frame[58], 0x20);
}

/* Another station replies: reported, counted, kept, and not announced or
 * defended. */
static void test_taken_v4(void **state)
{
	struct stk *s = *state;
	uint8_t f[64];

	s->cfg.probes = 3;
	s->cfg.naddrs = 1;
	stk_start(s);
	stk_run(s, 1);
	stk_drain(s);
	stk_in(s, f,
	       mk_arp(f, mac_us, 2, mac_thief, "10.0.0.1", mac_us, "0.0.0.0"));
	stk_run(s, 5 * SEC);
	assert_int_equal(stk_drain(s), 0);
	assert_int_equal(stk_count(s)->addr_conflict, 1);
	assert_int_equal(stk_events(s, UR_NET_ADDR_DUPLICATE), 1);
	assert_true(ur_own_find(s->net, ip("10.0.0.1")) != NULL);
	/* Later it is defended as any other. */
	stk_in(s, f,
	       mk_arp(f, mac_all, 1, mac_thief, "10.0.0.1", zero, "10.0.0.2"));
	assert_int_equal(stk_drain(s), 1);
}

static void test_taken_v6(void **state)
{
	static const uint8_t all[6] = { 0x33, 0x33, 0, 0, 0, 1 };
	struct stk *s = *state;
	uint8_t f[128];

	s->cfg.probes = 3;
	s->cfg.naddrs = 2;
	stk_start(s);
	stk_run(s, 1);
	stk_drain(s);
	stk_in(s, f,
	       mk_nd(f, all, "fd00::1", "ff02::1", 136, 0x20000000, "fd00::1",
		     mac_thief));
	assert_int_equal(stk_count(s)->addr_conflict, 1);
	assert_int_equal(stk_events(s, UR_NET_ADDR_DUPLICATE), 1);
	assert_true(ur_own_find(s->net, ip("fd00::1")) != NULL);
}

static int create(const struct ur_net_config *c)
{
	struct ur_net *net;
	int err = ur_net_create(c, &net);

	if (!err)
		ur_net_destroy(net);
	return err;
}

static void refused(const struct ur_net_config *c)
{
	assert_int_equal(create(c), -EINVAL);
}

static struct ur_net_config good_config(struct stk *s)
{
	struct ur_net_config good;

	stk_start(s);
	good = s->cfg;
	good.event = NULL;
	assert_int_equal(create(&good), 0);
	return good;
}

#define WITH(...)                                                              \
	do {                                                                   \
		struct ur_net_config c = good;                                 \
		__VA_ARGS__;                                                   \
		refused(&c);                                                   \
	} while (0)

static void test_links_that_cannot_be(void **state)
{
	struct ur_net_config good = good_config(*state);

	WITH(memset(c.mac, 0, 6));
	WITH(c.mac[0] |= 1);
	WITH(c.vlan = 4095);
	WITH(c.pcp = 8);
	WITH(c.mtu = UR_NET_MTU_MIN6 - 1);
	WITH(c.mtu = UR_NET_MTU_MAX + 1);
}

static void test_addresses_that_cannot_be(void **state)
{
	struct ur_net_config good = good_config(*state);

	WITH(c.naddrs = 0);
	WITH(c.naddrs = UR_NET_ADDRS + 1);
	WITH(c.addrs[0].prefix = 33);
	WITH(c.addrs[1].prefix = 129);
	WITH(c.addrs[1] = c.addrs[0]);
	WITH(memcpy(c.addrs[0].ip, ip("224.0.0.1"), 16));
	WITH(memcpy(c.addrs[0].ip, ip("127.0.0.1"), 16));
	WITH(memcpy(c.addrs[1].ip, ip("::"), 16));
	WITH(memcpy(c.addrs[1].ip, ip("ff02::1"), 16));
}

static void test_gateways_that_cannot_be(void **state)
{
	struct ur_net_config good = good_config(*state);

	WITH(memcpy(c.gateway4, ip("fd00::1"), 16));
	WITH(memcpy(c.gateway4, ip("224.0.0.1"), 16));
	WITH(memcpy(c.gateway6, ip("10.0.0.2"), 16));
	WITH(memcpy(c.gateway6, ip("ff02::2"), 16));
}

int main(void)
{
#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, stk_setup_idle, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_probes_v4),
		T(test_probes_v6),
		T(test_taken_v4),
		T(test_taken_v6),
		T(test_defended),
		T(test_links_that_cannot_be),
		T(test_addresses_that_cannot_be),
		T(test_gateways_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
