/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a neighbour, on ARP; parked packets; limits. */
#include "fixture.h"

#include "base/timer.h"

/* Typed from RFC 826's fields. */
static const uint8_t request_golden[42] = {
	255, 255, 255, 255, 255, 255, 2,  0, 0, 0, 0, 1, 8, 6, /* Ethernet */
	0,   1,	  8,   0,   6,	 4,   0,  1,		       /* request */
	2,   0,	  0,   0,   0,	 1,   10, 0, 0, 1,	       /* from */
	0,   0,	  0,   0,   0,	 0,   10, 0, 0, 2,	       /* for */
};

static void answer(struct stk *s, const uint8_t mac[6])
{
	uint8_t f[64];

	stk_in(s, f, mk_arp(f, mac_us, 2, mac, "10.0.0.2", mac_us, "10.0.0.1"));
}

static void test_asked_and_answered(void **state)
{
	struct stk *s = *state;
	uint8_t mac[6];

	assert_int_equal(stk_send(s, "10.0.0.2"), 0);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_INCOMPLETE);
	assert_true(stk_out(s));
	assert_int_equal(s->len, 42);
	assert_memory_equal(s->frame, request_golden, 42);
	assert_false(stk_out(s));
	answer(s, mac_peer);
	assert_int_equal(stk_neigh(s, "10.0.0.2", mac), UR_NEIGH_REACHABLE);
	assert_memory_equal(mac, mac_peer, 6);
	/* Parked packets are sent, and the next one at once. */
	assert_true(stk_out(s));
	assert_int_equal(s->len, 14 + 28 + 16);
	assert_memory_equal(s->frame, mac_peer, 6);
	assert_int_equal(s->frame[57], 0x5a);
	assert_false(stk_out(s));
	assert_int_equal(stk_send(s, "10.0.0.2"), 1);
}

static void test_no_answer(void **state)
{
	struct stk *s = *state;

	assert_int_equal(stk_send(s, "10.0.0.2"), 0);
	stk_run(s, 2500 * MS);
	assert_int_equal(stk_drain(s), 3); /* one a second */
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_INCOMPLETE);
	stk_run(s, 501 * MS);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_FAILED);
	assert_int_equal(stk_events(s, UR_NET_UNREACHABLE), 1);
	assert_memory_equal(s->events[0].addr, ip("10.0.0.2"), 16);
	assert_int_equal(stk_count(s)->neigh_failed, 1);
	assert_int_equal(stk_count(s)->drop_parked_failed, 1);
	assert_int_equal(stk_drain(s), 0);
	/* Not again at once, but a second later. */
	assert_int_equal(stk_send(s, "10.0.0.2"), -EHOSTUNREACH);
	assert_int_equal(stk_drain(s), 0);
	stk_run(s, 1000 * MS);
	assert_int_equal(stk_send(s, "10.0.0.2"), 0);
	assert_int_equal(stk_drain(s), 1);
	answer(s, mac_peer);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_REACHABLE);
}

static void test_delay_and_probe(void **state)
{
	struct stk *s = *state;

	stk_meet(s, "10.0.0.2", mac_peer);
	stk_run(s, 14 * SEC); /* 15 s is the least */
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_REACHABLE);
	stk_run(s, 32 * SEC); /* 45 s the most */
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_STALE);
	/* Unused: not probed. */
	stk_run(s, 1000 * SEC);
	assert_int_equal(stk_drain(s), 0);
	assert_int_equal(stk_send(s, "10.0.0.2"), 1);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_DELAY);
	stk_run(s, 4999 * MS);
	assert_int_equal(stk_drain(s), 0);
	stk_run(s, 1 * MS);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_PROBE);
	/* Unicast. */
	assert_true(stk_out(s));
	assert_memory_equal(s->frame, mac_peer, 6);
	assert_int_equal(s->frame[21], 1);
	assert_int_equal(stk_send(s, "10.0.0.2"), 1);
	answer(s, mac_peer);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_REACHABLE);
	assert_int_equal(stk_drain(s), 0);
}

/* It has gone: three unicast probes, three multicast ones, then unreachable. */
static void test_neighbour_disappears(void **state)
{
	struct stk *s = *state;
	uint32_t alone = 0, all = 0;

	stk_meet(s, "10.0.0.2", mac_peer);
	stk_run(s, 46 * SEC);
	assert_int_equal(stk_send(s, "10.0.0.2"), 1);
	stk_run(s, 5 * SEC + 2999 * MS);
	while (stk_out(s))
		alone += !memcmp(s->frame, mac_peer, 6);
	assert_int_equal(alone, 3);
	stk_run(s, 1 * MS);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_INCOMPLETE);
	assert_int_equal(stk_send(s, "10.0.0.2"), 0);
	stk_run(s, 3 * SEC);
	while (stk_out(s))
		all += !memcmp(s->frame, mac_all, 6);
	assert_int_equal(all, 3);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_FAILED);
}

static void park(struct stk *s, const struct ur_net_flow *f, uint16_t id,
		 uint16_t len)
{
	static uint8_t frame[2048];

	ur_net_put(f, frame, id, len);
	assert_int_equal(ur_net_park(s->net, f, frame, f->len + len, s->now),
			 0);
}

/* A message of many packets is parked whole; beyond the limit the oldest is
 * dropped. */
static void test_parked_most(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint16_t n = 0, first;

	assert_int_equal(stk_flow(s, "10.0.0.2", &f), 0);
	stk_drain(s);
	while (n < 196)
		park(s, f, n++, 256);
	assert_int_equal(stk_count(s)->drop_parked_full, 0);
	while (stk_count(s)->drop_parked_full < 4)
		park(s, f, n++, 1000);
	assert_in_range((n - 196) * 1000 + 196 * 256, 180000, UR_NET_PARKED);
	first = (uint16_t)stk_count(s)->drop_parked_full;
	answer(s, mac_peer);
	for (uint16_t i = first; i < n; i++) {
		assert_true(stk_out(s));
		assert_int_equal(s->frame[18] << 8 | s->frame[19], i);
	}
	assert_false(stk_out(s));
}

/* Neighbours that do not reply share a limit. */
static void test_parked_of_all(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint64_t parked;
	char to[32];

	for (int k = 10; k < 60; k++) {
		snprintf(to, sizeof(to), "10.0.0.%d", k);
		assert_int_equal(stk_flow(s, to, &f), 0);
		for (uint16_t i = 0; i < 120; i++)
			park(s, f, i, 1400);
	}
	parked = stk_count(s)->tx_parked;
	assert_in_range(parked, UR_NET_PARKED_ALL / 1600,
			UR_NET_PARKED_ALL / 1400);
	assert_true(stk_count(s)->drop_parked_full > 0);
}

/* A station that requests us becomes known without a request, but is probed
 * soon when used. */
static void test_requester_becomes_known(void **state)
{
	struct stk *s = *state;
	uint8_t f[64], mac[6], tha[6] = { 0 };

	assert_int_equal(stk_in(s, f,
				mk_arp(f, mac_all, 1, mac_peer, "10.0.0.2", tha,
				       "10.0.0.1")),
			 UR_NET_DONE);
	assert_true(stk_out(s));
	assert_int_equal(s->len, 42);
	assert_memory_equal(s->frame, mac_peer, 6);
	assert_int_equal(s->frame[21], 2);
	assert_memory_equal(s->frame + 22, mac_us, 6);
	assert_memory_equal(s->frame + 28, ip("10.0.0.1") + 12, 4);
	assert_memory_equal(s->frame + 32, mac_peer, 6);
	assert_memory_equal(s->frame + 38, ip("10.0.0.2") + 12, 4);
	assert_int_equal(stk_neigh(s, "10.0.0.2", mac), UR_NEIGH_STALE);
	assert_memory_equal(mac, mac_peer, 6);
	assert_int_equal(stk_send(s, "10.0.0.2"), 1);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_DELAY);
	stk_run(s, 5 * SEC);
	assert_int_equal(stk_drain(s), 1);
	/*
	 * A station that requests others, or is of another network, does not.
	 */
	stk_in(s, f,
	       mk_arp(f, mac_all, 1, mac_peer, "10.0.0.3", tha, "10.0.0.9"));
	stk_in(s, f,
	       mk_arp(f, mac_all, 1, mac_peer, "10.1.0.3", tha, "10.0.0.1"));
	assert_int_equal(stk_neigh(s, "10.0.0.3", NULL), -1);
	assert_int_equal(stk_neigh(s, "10.1.0.3", NULL), -1);
	assert_int_equal(stk_drain(s), 1);
}

/* The table is full of neighbours in use: other stations get no entry, but a
 * new destination replaces the least recently used one. */
static void test_most_neighbours(void **state)
{
	struct stk *s = *state;
	uint8_t f[64], tha[6] = { 0 };
	char name[32];

	stk_fini(s);
	s->cfg.addrs[0].prefix = 16;
	stk_start(s);
	for (uint32_t i = 0; i < UR_NET_NEIGHS; i++) {
		snprintf(name, sizeof(name), "10.0.%u.%u", 1 + i / 200,
			 1 + i % 200);
		assert_int_equal(stk_send(s, name), 0);
	}
	stk_drain(s);
	assert_int_equal(stk_count(s)->neigh_evicted, 0);
	stk_in(s, f,
	       mk_arp(f, mac_all, 1, mac_peer, "10.0.0.2", tha, "10.0.0.1"));
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), -1);
	assert_int_equal(stk_send(s, "10.0.1.1"), 0);
	assert_int_equal(stk_send(s, "10.0.0.3"), 0);
	assert_int_equal(stk_count(s)->neigh_evicted, 1);
	assert_int_equal(stk_neigh(s, "10.0.1.1", NULL), UR_NEIGH_INCOMPLETE);
	assert_int_equal(stk_neigh(s, "10.0.1.2", NULL), -1);
	/* The evicted one is requested again when needed. */
	stk_drain(s);
	assert_int_equal(stk_send(s, "10.0.1.2"), 0);
	assert_int_equal(stk_drain(s), 1);
}

/* The link was down: all entries are probed, all addresses announced. */
static void test_link_up(void **state)
{
	struct stk *s = *state;

	stk_meet(s, "10.0.0.2", mac_peer);
	ur_net_link_up(s->net, s->now);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_STALE);
	assert_int_equal(stk_drain(s), 2);
	stk_run(s, 10 * SEC);
	assert_int_equal(stk_drain(s), 2);
	assert_int_equal(ur_net_deadline(s->net), UR_NEVER);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, stk_setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_asked_and_answered),
		T(test_no_answer),
		T(test_delay_and_probe),
		T(test_neighbour_disappears),
		T(test_parked_most),
		T(test_parked_of_all),
		T(test_requester_becomes_known),
		T(test_most_neighbours),
		T(test_link_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
