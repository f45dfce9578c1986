/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A packet like an earlier one takes the fast path. Every following packet must
 * give the same result as in a stack without that history: the same verdict,
 * counters and ur_rx.
 */
#include "fixture.h"

#include "net/internal.h"

#define PAYLOAD	 32u
#define COUNTERS (sizeof(struct ur_net_counters) / sizeof(uint64_t))

struct pair {
	struct stk *warm; /* has had the packet */
	struct stk cold;
};

static void assert_same_told(const struct ur_rx *a, const struct ur_rx *b)
{
	assert_ptr_equal(a->data, b->data);
	assert_int_equal(a->len, b->len);
	assert_int_equal(a->scope_id, b->scope_id);
	assert_memory_equal(a->src, b->src, 16);
	assert_memory_equal(a->dst, b->dst, 16);
	assert_int_equal(a->sport, b->sport);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->tclass, b->tclass);
	assert_int_equal(a->hop_limit, b->hop_limit);
	assert_int_equal(a->dst_unknown, b->dst_unknown);
	assert_int_equal(a->icrc_checked, b->icrc_checked);
}

/* The effect of that frame on the counters. */
static enum ur_net_verdict input(struct stk *s, const struct ur_net_rx *rx,
				 uint64_t change[COUNTERS])
{
	uint64_t before[COUNTERS], after[COUNTERS];
	enum ur_net_verdict v;

	memcpy(before, stk_count(s), sizeof(before));
	v = ur_net_input(s->net, rx, s->now, &s->in);
	memcpy(after, stk_count(s), sizeof(after));
	for (uint32_t i = 0; i < COUNTERS; i++)
		change[i] = after[i] - before[i];
	stk_drain(s);
	return v;
}

/* `first` is the earlier packet, rx is given to both stacks. */
static enum ur_net_verdict both(struct pair *p, const struct ur_net_rx *first,
				const struct ur_net_rx *rx)
{
	uint64_t changes[2][COUNTERS];
	enum ur_net_verdict warm, cold;

	assert_int_equal(ur_net_input(p->warm->net, first, p->warm->now,
				      &p->warm->in),
			 UR_NET_ROCE);
	/* Refill the rate limits. */
	p->warm->now += SEC;
	p->cold.cfg = p->warm->cfg;
	stk_start(&p->cold);
	warm = input(p->warm, rx, changes[0]);
	cold = input(&p->cold, rx, changes[1]);
	assert_int_equal(warm, cold);
	assert_memory_equal(changes[0], changes[1], sizeof(changes[0]));
	if (warm == UR_NET_ROCE)
		assert_same_told(&p->warm->in.roce, &p->cold.in.roce);
	stk_fini(&p->cold);
	return warm;
}

/* Every byte of the headers, changed in several ways, with the checksum
 * corrected or not. */
static void try_bytes(struct pair *p, const struct ur_net_rx *first,
		      uint32_t l2)
{
	bool v4 = first->frame[l2] >> 4 == 4;
	static const uint8_t patterns[] = { 0x01, 0x10, 0x80, 0xff };
	uint8_t f[256];
	struct ur_net_rx rx = *first;

	rx.frame = f;
	for (uint32_t at = 0; at < l2 + (v4 ? 28 : 48); at++) {
		for (uint32_t i = 0; i < sizeof(patterns); i++) {
			memcpy(f, first->frame, first->len);
			f[at] ^= patterns[i];
			both(p, first, &rx);
			if (l2 > 14 || !v4)
				continue;
			fix_ip4(f);
			both(p, first, &rx);
		}
	}
}

static void test_headers(void **state)
{
	struct pair p = { .warm = *state };
	uint8_t f[256];
	struct ur_net_rx rx = { .frame = f };

	stk_init(&p.cold);
	rx.len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, PAYLOAD);
	assert_int_equal(both(&p, &rx, &rx), UR_NET_ROCE);
	try_bytes(&p, &rx, 14);
	rx.flags = UR_NET_RX_IP_GOOD | UR_NET_RX_L4_GOOD;
	try_bytes(&p, &rx, 14);
	rx.flags = 0;
	rx.len = mk_udp(f, "fd00::2", "fd00::1", 4791, PAYLOAD);
	assert_int_equal(both(&p, &rx, &rx), UR_NET_ROCE);
	try_bytes(&p, &rx, 14);
}

/* The slow path would find that the address is no longer ours. */
static void lose_addresses(struct stk *s)
{
	s->net->nown = 0;
}

static void test_is_short(void **state)
{
	static const char *const pairs[][2] = { { "10.0.0.2", "10.0.0.1" },
						{ "fd00::4", "fd00::1" } };
	struct stk *s = *state;
	uint8_t f[256];

	for (int i = 0; i < 2; i++) {
		uint32_t len =
			mk_udp(f, pairs[i][0], pairs[i][1], 4791, PAYLOAD);

		assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
	}
	lose_addresses(s);
	for (int i = 0; i < 2; i++) {
		uint32_t len =
			mk_udp(f, pairs[i][0], pairs[i][1], 4791, PAYLOAD);

		assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
		len = mk_udp(f, i ? "fd00::3" : "10.0.0.3", pairs[i][1], 4791,
			     PAYLOAD);
		assert_int_not_equal(stk_in(s, f, len), UR_NET_ROCE);
	}
}

static void test_lengths(void **state)
{
	static const char *const pairs[][2] = { { "10.0.0.2", "10.0.0.1" },
						{ "fd00::2", "fd00::1" } };
	struct pair p = { .warm = *state };
	uint8_t f[256], g[256];
	struct ur_net_rx first = { .frame = f }, rx = { .frame = g };

	stk_init(&p.cold);
	for (uint32_t i = 0; i < 128; i++) {
		const char *const *ends = pairs[i & 1];
		uint32_t len = mk_udp(g, ends[0], ends[1], 4791, i / 2);

		first.len = mk_udp(f, ends[0], ends[1], 4791, PAYLOAD);
		for (rx.len = 0; rx.len < len + 4; rx.len++)
			both(&p, &first, &rx);
	}
}

static void test_flags(void **state)
{
	struct pair p = { .warm = *state };
	uint8_t f[256];
	struct ur_net_rx first = { .frame = f }, rx = { .frame = f };

	stk_init(&p.cold);
	first.len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, PAYLOAD);
	rx.len = first.len;
	for (rx.flags = 0; rx.flags < 8; rx.flags++)
		both(&p, &first, &rx);
	rx.flags = 0;
	rx.tpid = 0x8100;
	assert_int_equal(both(&p, &first, &rx), UR_NET_ROCE);
	rx.tci = 1;
	assert_int_equal(both(&p, &first, &rx), UR_NET_DONE);
}

static void test_tag(void **state)
{
	struct pair p = { .warm = *state };
	uint8_t f[256];
	struct ur_net_rx rx = { .frame = f };

	stk_init(&p.cold);
	p.warm->cfg.vlan = 5;
	stk_fini(p.warm);
	stk_start(p.warm);
	rx.len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, PAYLOAD) + 4;
	memmove(f + 16, f + 12, rx.len - 16);
	f[12] = 0x81;
	f[13] = 0;
	f[14] = 0;
	f[15] = 5;
	assert_int_equal(both(&p, &rx, &rx), UR_NET_ROCE);
	try_bytes(&p, &rx, 18);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, stk_setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_headers), T(test_lengths),  T(test_flags),
		T(test_tag),	 T(test_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
