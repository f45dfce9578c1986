/* SPDX-License-Identifier: BSD-2-Clause */
/* A station claims to be our neighbour. Whichever of the two is present and
 * replies keeps the address; every claim is counted, and reported once. */
#include "fixture.h"

static const uint8_t zero[6];

static int setup(void **state)
{
	struct stk *s = malloc(sizeof(*s));

	stk_init(s);
	stk_start(s);
	stk_meet(s, "10.0.0.2", mac_peer);
	stk_meet(s, "fd00::2", mac_peer);
	*state = s;
	return 0;
}

/* The ways to claim it. */
static void say_arp(struct stk *s, const uint8_t to[6], uint16_t op,
		    const uint8_t tha[6], const char *tpa)
{
	uint8_t f[64];

	stk_in(s, f, mk_arp(f, to, op, mac_thief, "10.0.0.2", tha, tpa));
}

static void gratuitous_request(struct stk *s)
{
	say_arp(s, mac_all, 1, zero, "10.0.0.2");
}

static void gratuitous_reply(struct stk *s)
{
	say_arp(s, mac_all, 2, mac_all, "10.0.0.2");
}

static void reply_to_us(struct stk *s)
{
	say_arp(s, mac_us, 2, mac_us, "10.0.0.1");
}

static void request_to_us(struct stk *s)
{
	say_arp(s, mac_us, 1, zero, "10.0.0.1");
}

static void advertisement_to_all(struct stk *s)
{
	static const uint8_t all_nodes[6] = { 0x33, 0x33, 0, 0, 0, 1 };
	uint8_t f[128];

	stk_in(s, f,
	       mk_nd(f, all_nodes, "fd00::2", "ff02::1", 136, 0x20000000,
		     "fd00::2", mac_thief));
}

static void advertisement_as_if_asked(struct stk *s)
{
	uint8_t f[128];

	stk_in(s, f,
	       mk_nd(f, mac_us, "fd00::2", "fd00::1", 136, 0x60000000,
		     "fd00::2", mac_thief));
}

static void solicitation_of_us(struct stk *s)
{
	uint8_t f[128];

	stk_in(s, f,
	       mk_nd(f, mac_us, "fd00::2", "fd00::1", 135, 0, "fd00::1",
		     mac_thief));
}

struct way {
	void (*say)(struct stk *s);
	const char *addr;
	uint32_t sent; /* replies to the claim itself */
};

static const struct way ways[] = {
	{ gratuitous_request, "10.0.0.2", 0 },
	{ gratuitous_reply, "10.0.0.2", 0 },
	{ reply_to_us, "10.0.0.2", 0 },
	{ request_to_us, "10.0.0.2", 1 },
	{ advertisement_to_all, "fd00::2", 0 },
	{ advertisement_as_if_asked, "fd00::2", 0 },
	{ solicitation_of_us, "fd00::2", 1 },
};

static void is_at(const struct stk *s, const char *addr, const uint8_t mac[6])
{
	uint8_t is[6];

	assert_true(stk_neigh(s, addr, is) >= 0);
	assert_memory_equal(is, mac, 6);
}

/* The next frame probes the neighbour's own MAC address. */
static void asks(struct stk *s, const uint8_t to[6])
{
	assert_true(stk_out(s));
	assert_memory_equal(s->frame, to, 6);
}

static void lie(struct stk *s, const struct way *w)
{
	const struct ur_net_flow *f;
	uint64_t before = stk_count(s)->neigh_conflict;

	s->nevents = 0;
	w->say(s);
	assert_int_equal(stk_count(s)->neigh_conflict, before + 1);
	assert_int_equal(stk_events(s, UR_NET_NEIGH_CLAIM), 1);
	assert_memory_equal(s->events[0].addr, ip(w->addr), 16);
	assert_memory_equal(s->events[0].mac_old, mac_peer, 6);
	assert_memory_equal(s->events[0].mac_new, mac_thief, 6);
	/* Probed at once; meanwhile nothing changes. */
	for (uint32_t i = 0; i < w->sent; i++)
		assert_true(stk_out(s));
	stk_run(s, 0);
	asks(s, mac_peer);
	is_at(s, w->addr, mac_peer);
	assert_int_equal(stk_flow(s, w->addr, &f), 0);
	assert_true(f->ready);
	assert_memory_equal(f->hdr, mac_peer, 6);
	/* Repeated, it is counted and not reported again. */
	w->say(s);
	assert_int_equal(stk_count(s)->neigh_conflict, before + 2);
	assert_int_equal(stk_events(s, UR_NET_NEIGH_CLAIM), 1);
	stk_answer(s, w->addr, mac_peer);
	assert_int_equal(stk_neigh(s, w->addr, NULL), UR_NEIGH_REACHABLE);
	stk_run(s, 3 * SEC);
	is_at(s, w->addr, mac_peer);
	assert_int_equal(stk_events(s, UR_NET_NEIGH_MOVED), 0);
	stk_drain(s);
}

static void test_false_claims_change_nothing(void **state)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		lie(*state, &ways[i]);
}

/* A connected queue pair does not wait for a fresh entry: in other states the
 * address stays as well. */
static void test_false_claims_in_every_state(void **state)
{
	struct stk *s = *state;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct way *w = &ways[i];

		stk_run(s, 46 * SEC);
		assert_int_equal(stk_neigh(s, w->addr, NULL), UR_NEIGH_STALE);
		lie(s, w);
		stk_run(s, 46 * SEC);
		assert_int_equal(stk_send(s, w->addr), 1);
		assert_int_equal(stk_neigh(s, w->addr, NULL), UR_NEIGH_DELAY);
		lie(s, w);
		stk_run(s, 46 * SEC);
		assert_int_equal(stk_send(s, w->addr), 1);
		stk_run(s, 5 * SEC);
		assert_int_equal(stk_neigh(s, w->addr, NULL), UR_NEIGH_PROBE);
		stk_drain(s);
		lie(s, w);
	}
}

/* The old station is silent: after three probes the request is multicast, and
 * the station that replies has the address. */
static void test_takeover(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;

	for (size_t i = 0; i < 5; i += 4) {
		const char *addr = ways[i].addr;

		s->nevents = 0;
		ways[i].say(s);
		stk_run(s, 599 * MS);
		assert_int_equal(stk_drain(s), 3);
		is_at(s, addr, mac_peer);
		stk_run(s, 1 * MS);
		assert_int_equal(stk_neigh(s, addr, NULL), UR_NEIGH_INCOMPLETE);
		assert_int_equal(stk_send(s, addr), 0);
		assert_true(stk_out(s)); /* the multicast request */
		assert_true(s->frame[0] & 1);
		/* An unsolicited reply is still no answer. */
		if (i == 0)
			gratuitous_reply(s), request_to_us(s);
		else
			advertisement_to_all(s), solicitation_of_us(s);
		assert_true(stk_out(s)); /* that request was answered */
		assert_int_equal(stk_neigh(s, addr, NULL), UR_NEIGH_INCOMPLETE);
		stk_answer(s, addr, mac_thief);
		is_at(s, addr, mac_thief);
		assert_int_equal(stk_events(s, UR_NET_NEIGH_MOVED), 1);
		assert_int_equal(stk_flow(s, addr, &f), 0);
		assert_memory_equal(f->hdr, mac_thief, 6);
		assert_true(stk_out(s)); /* the parked packet */
		assert_memory_equal(s->frame, mac_thief, 6);
		assert_false(stk_out(s));
	}
	assert_int_equal(stk_count(s)->neigh_moved, 2);
}

/* Two replies to one request: the second is a claim. */
static void test_two_answers(void **state)
{
	struct stk *s = *state;

	s->nevents = 0;
	assert_int_equal(stk_send(s, "10.0.0.3"), 0);
	stk_drain(s);
	stk_answer(s, "10.0.0.3", mac_peer);
	stk_answer(s, "10.0.0.3", mac_thief);
	is_at(s, "10.0.0.3", mac_peer);
	assert_int_equal(stk_events(s, UR_NET_NEIGH_CLAIM), 1);
}

/* A known but unused station may change as it likes. */
static void test_unused(void **state)
{
	struct stk *s = *state;
	uint8_t f[64];

	stk_in(s, f,
	       mk_arp(f, mac_us, 1, mac_peer, "10.0.0.4", zero, "10.0.0.1"));
	is_at(s, "10.0.0.4", mac_peer);
	stk_in(s, f,
	       mk_arp(f, mac_us, 1, mac_thief, "10.0.0.4", zero, "10.0.0.1"));
	is_at(s, "10.0.0.4", mac_thief);
	assert_int_equal(stk_count(s)->neigh_conflict, 0);
	assert_int_equal(stk_events(s, UR_NET_NEIGH_MOVED), 1);
}

/* Two claims without a request: when it is used, the request is multicast. */
static void test_contested(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t frame[64];

	for (uint32_t i = 0; i < 2; i++)
		stk_in(s, frame,
		       mk_arp(frame, mac_us, 1, i ? mac_thief : mac_peer,
			      "10.0.0.4", zero, "10.0.0.1"));
	assert_int_equal(stk_drain(s), 2);
	assert_int_equal(stk_send(s, "10.0.0.4"), 0);
	assert_int_equal(stk_flow(s, "10.0.0.4", &f), 0);
	assert_false(f->ready);
	asks(s, mac_all);
	assert_false(stk_out(s));
	stk_answer(s, "10.0.0.4", mac_peer);
	asks(s, mac_peer); /* the parked packet */
	is_at(s, "10.0.0.4", mac_peer);
	assert_int_equal(stk_neigh(s, "10.0.0.4", NULL), UR_NEIGH_REACHABLE);
}

/* It was silent for a time, in which another station claimed its address. */
static void test_contested_silent(void **state)
{
	struct stk *s = *state;

	stk_run(s, 60 * SEC);
	stk_send(s, "10.0.0.2");
	stk_run(s, 12 * SEC);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_FAILED);
	stk_drain(s);
	request_to_us(s);
	is_at(s, "10.0.0.2", mac_thief);
	asks(s, mac_thief); /* is the reply to its request */
	assert_int_equal(stk_send(s, "10.0.0.2"), 0);
	asks(s, mac_all);
	stk_answer(s, "10.0.0.2", mac_peer);
	is_at(s, "10.0.0.2", mac_peer);
}

/* An earlier claim gives no priority. */
static void test_contested_twice(void **state)
{
	struct stk *s = *state;
	uint8_t f[64];

	stk_run(s, 60 * SEC);
	stk_send(s, "10.0.0.2");
	stk_run(s, 12 * SEC);
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_FAILED);
	request_to_us(s);
	stk_in(s, f,
	       mk_arp(f, mac_us, 1, mac_peer, "10.0.0.2", zero, "10.0.0.1"));
	stk_drain(s);
	stk_run(s, 10 * SEC);
	assert_int_equal(stk_drain(s), 0);
	assert_int_equal(stk_send(s, "10.0.0.2"), 0);
	asks(s, mac_all);
	stk_answer(s, "10.0.0.2", mac_peer);
	is_at(s, "10.0.0.2", mac_peer);
}

/* The same repeated by the right station is no claim. */
static void test_repeats_itself(void **state)
{
	struct stk *s = *state;
	uint8_t f[64];

	stk_in(s, f,
	       mk_arp(f, mac_all, 1, mac_peer, "10.0.0.2", zero, "10.0.0.2"));
	assert_int_equal(stk_neigh(s, "10.0.0.2", NULL), UR_NEIGH_REACHABLE);
	assert_int_equal(stk_count(s)->neigh_conflict, 0);
	assert_int_equal(stk_drain(s), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_false_claims_change_nothing),
		T(test_false_claims_in_every_state),
		T(test_takeover),
		T(test_two_answers),
		T(test_unused),
		T(test_contested),
		T(test_contested_silent),
		T(test_contested_twice),
		T(test_repeats_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
