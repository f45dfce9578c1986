/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers of RoCE's packets: forms, checksums, next hops, path MTU, limits. */
#include "fixture.h"

#include <sys/uio.h>

#define PAYLOAD 100u

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)(p[0] << 8 | p[1]);
}

/* The Internet checksum of a packet as a receiver computes it: 0 is valid. */
static uint16_t sum(uint32_t start, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		start += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (start > 0xffff)
		start = (start >> 16) + (start & 0xffff);
	return (uint16_t)~start;
}

static uint16_t udp_sum(const uint8_t *l3, bool v4, uint32_t len)
{
	uint8_t all[256];
	uint32_t n = v4 ? 8 : 32;

	memcpy(all, l3 + (v4 ? 12 : 8), n);
	memcpy(all + n, l3 + (v4 ? 20 : 40), len);
	return sum(17 + len, all, n + len);
}

/* A packet of that many bytes, ready; its flow. */
static const struct ur_net_flow *make(struct stk *s, const char *dst,
				      uint8_t *frame, uint16_t id, uint32_t len)
{
	const struct ur_net_flow *f;

	assert_int_equal(stk_flow(s, dst, &f), 0);
	memset(frame, 0xee, f->len + len + 1);
	for (uint32_t i = 0; i < len; i++)
		frame[f->len + i] = (uint8_t)(i * 7);
	ur_net_put(f, frame, id, len);
	if (f->sums & UR_NET_SUM_SOFT)
		ur_net_sum(f, frame);
	assert_int_equal(frame[f->len + len], 0xee);
	return f;
}

static void check_ip4(const uint8_t *h, uint16_t id)
{
	assert_int_equal(h[0], 0x45);
	assert_int_equal(get16(h + 2), 20 + 8 + PAYLOAD);
	assert_int_equal(get16(h + 4), id);
	assert_int_equal(get16(h + 6), 0x4000); /* DF */
	assert_int_equal(h[8], 64);
	assert_int_equal(h[9], 17);
	assert_int_equal(sum(0, h, 20), 0);
	assert_int_equal(get16(h + 20), 0xc0de);
	assert_int_equal(get16(h + 22), 4791);
	assert_int_equal(get16(h + 24), 8 + PAYLOAD);
}

static void test_ip4(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t frame[256];

	stk_start(s);
	stk_meet(s, "10.0.0.2", mac_peer);
	f = make(s, "10.0.0.2", frame, 0, PAYLOAD);
	assert_int_equal(f->len, 42);
	assert_int_equal(f->l2, 14);
	assert_int_equal(f->l3, 20);
	assert_int_equal(f->sums, 0);
	assert_int_equal(f->mtu, 1500);
	assert_int_equal(ur_net_payload_max(f), 1472);
	assert_true(f->ready && f->v4);
	assert_false(f->local);
	assert_memory_equal(frame, mac_peer, 6);
	assert_memory_equal(frame + 6, mac_us, 6);
	assert_int_equal(get16(frame + 12), 0x0800);
	check_ip4(frame + 14, 0);
	assert_memory_equal(frame + 26, ip("10.0.0.1") + 12, 4);
	assert_memory_equal(frame + 30, ip("10.0.0.2") + 12, 4);
	assert_int_equal(get16(frame + 40), 0); /* RFC 768: none */
	/* The identification is the packet's index in its burst. */
	for (uint32_t id = 1; id < 65536; id += 7) {
		make(s, "10.0.0.2", frame, (uint16_t)id, PAYLOAD);
		check_ip4(frame + 14, (uint16_t)id);
	}
}

/* In software, of payload of any length. */
static void test_soft_sums(void **state)
{
	struct stk *s = *state;
	uint8_t frame[2048];

	s->cfg.udp4_sum = true;
	s->cfg.vlan = 5;
	s->cfg.pcp = 3;
	stk_start(s);
	for (uint32_t len = 16; len < 64; len++) {
		const struct ur_net_flow *f;

		f = make(s, "10.0.0.2", frame, 9, len);
		assert_int_equal(f->sums, UR_NET_SUM_SOFT);
		assert_int_equal(f->len, 46);
		assert_int_equal(udp_sum(frame + 18, true, 8 + len), 0);
		f = make(s, "fd00::2", frame, 9, len);
		assert_int_equal(f->sums, UR_NET_SUM_SOFT);
		assert_int_equal(f->len, 66);
		assert_int_equal(udp_sum(frame + 18, false, 8 + len), 0);
	}
	assert_int_equal(get16(frame + 12), 0x8100);
	assert_int_equal(get16(frame + 14), 3 << 13 | 5);
	assert_int_equal(get16(frame + 16), 0x86dd);
}

/* A checksum of 0 is sent as ffff: 0 would mean none. */
static void test_sum_of_zero(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t frame[128];
	bool seen = false;

	s->cfg.udp4_sum = true;
	stk_start(s);
	assert_int_equal(stk_flow(s, "10.0.0.2", &f), 0);
	for (uint32_t i = 0; i < 65536; i++) {
		memset(frame, 0, sizeof(frame));
		ur_net_put(f, frame, 0, 16);
		frame[42] = (uint8_t)(i >> 8);
		frame[43] = (uint8_t)i;
		ur_net_sum(f, frame);
		assert_int_not_equal(get16(frame + 40), 0);
		seen |= get16(frame + 40) == 0xffff;
	}
	assert_true(seen);
}

/* Offloads: fields as DPDK and others require them. */
static void test_offloads(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t frame[256], pseudo[12] = { 0 };
	uint16_t whole;

	s->cfg.tx = UR_NET_TX_IPV4_SUM | UR_NET_TX_UDP_SUM;
	stk_start(s);
	f = make(s, "10.0.0.2", frame, 3, PAYLOAD);
	assert_int_equal(f->sums, UR_NET_SUM_IP | UR_NET_SUM_UDP);
	assert_int_equal(get16(frame + 24), 0);
	memcpy(pseudo, frame + 26, 8);
	pseudo[9] = 17;
	pseudo[11] = 8 + PAYLOAD;
	assert_int_equal(get16(frame + 40), (uint16_t)~sum(0, pseudo, 12));
	/* The port completes it so. */
	whole = sum(0, frame + 34, 8 + PAYLOAD);
	frame[40] = (uint8_t)(whole >> 8);
	frame[41] = (uint8_t)whole;
	assert_int_equal(udp_sum(frame + 14, true, 8 + PAYLOAD), 0);
	f = make(s, "fd00::2", frame, 3, PAYLOAD);
	assert_int_equal(f->sums, UR_NET_SUM_UDP);
}

/* Parked packets leave with checksums, whatever the port offloads. */
static void test_parked_sums(void **state)
{
	static const char *const to[] = { "10.0.0.2", "fd00::2" };
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t frame[256], arp[128];

	s->cfg.tx = UR_NET_TX_IPV4_SUM | UR_NET_TX_UDP_SUM;
	stk_start(s);
	for (int i = 0; i < 2; i++) {
		f = make(s, to[i], frame, 3, PAYLOAD);
		assert_false(f->ready);
		assert_int_equal(ur_net_park(s->net, f, frame, f->len + PAYLOAD,
					     s->now),
				 0);
		stk_drain(s);
		if (i)
			stk_in(s, arp,
			       mk_nd(arp, mac_us, to[i], "fd00::1", 136,
				     0x60000000, to[i], mac_peer));
		else
			stk_in(s, arp,
			       mk_arp(arp, mac_us, 2, mac_peer, to[i], mac_us,
				      "10.0.0.1"));
		assert_true(stk_out(s));
		assert_memory_equal(s->frame, mac_peer, 6);
		if (!i)
			check_ip4(s->frame + 14, 3);
		assert_int_equal(udp_sum(s->frame + 14, !i, 8 + PAYLOAD), 0);
	}
	assert_int_equal(ur_net_park(s->net, f, frame, f->len - 1u, s->now),
			 -EMSGSIZE);
	assert_int_equal(ur_net_park(s->net, f, frame, 14 + 1501, s->now),
			 -EMSGSIZE);
}

static void test_traffic_class(void **state)
{
	struct stk *s = *state;
	struct ur_net_key key = { .sport = 1, .tclass = 0x6b, .hop_limit = 9 };
	const struct ur_net_flow *f;

	stk_start(s);
	memcpy(key.src, ip("10.0.0.1"), 16);
	memcpy(key.dst, ip("10.0.0.2"), 16);
	assert_int_equal(ur_net_flow(s->net, &key, s->now, &f), 0);
	assert_int_equal(f->hdr[15], 0x6b);
	assert_int_equal(f->hdr[22], 9);
	memcpy(key.src, ip("fd00::1"), 16);
	memcpy(key.dst, ip("fd00::2"), 16);
	assert_int_equal(ur_net_flow(s->net, &key, s->now, &f), 0);
	assert_int_equal(f->hdr[14], 0x66);
	assert_int_equal(f->hdr[15], 0xb0);
	assert_int_equal(f->hdr[21], 9);
}

/* Next hops: our networks, gateways, none. */
static void test_next_hops(void **state)
{
	static const struct {
		const char *dst, *asked;
	} hops[] = {
		{ "10.0.0.2", "10.0.0.2" },    { "10.0.1.2", "10.0.0.254" },
		{ "192.0.2.1", "10.0.0.254" }, { "fd00::2", "fd00::2" },
		{ "fe80::2", "fe80::2" },      { "fd00:0:0:1::2", "fd00::fe" },
		{ "2001:db8::1", "fd00::fe" },
	};
	struct stk *s = *state;
	const struct ur_net_flow *f;

	stk_start(s);
	for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++) {
		const uint8_t *a = ip(hops[i].asked);

		assert_int_equal(stk_flow(s, hops[i].dst, &f), 0);
		assert_true(stk_neigh(s, hops[i].asked, NULL) >= 0);
		if (strcmp(hops[i].dst, hops[i].asked) != 0)
			assert_int_equal(stk_neigh(s, hops[i].dst, NULL), -1);
		if (!stk_out(s))
			continue; /* requested already */
		if (strchr(hops[i].dst, ':'))
			assert_memory_equal(s->frame + 62, a, 16);
		else
			assert_memory_equal(s->frame + 38, a + 12, 4);
	}
	stk_fini(s);
	memset(s->cfg.gateway4, 0, 16);
	memset(s->cfg.gateway6, 0, 16);
	stk_start(s);
	assert_int_equal(stk_flow(s, "10.0.1.2", &f), -ENETUNREACH);
	assert_int_equal(stk_flow(s, "fd01::2", &f), -ENETUNREACH);
	assert_int_equal(stk_flow(s, "10.0.0.2", &f), 0);
}

static void test_what_cannot_be_sent(void **state)
{
	struct stk *s = *state;
	struct ur_net_key key = { .sport = 1 };
	const struct ur_net_flow *f;

	stk_start(s);
	memcpy(key.src, ip("10.0.0.3"), 16);
	memcpy(key.dst, ip("10.0.0.2"), 16);
	assert_int_equal(ur_net_flow(s->net, &key, s->now, &f), -EADDRNOTAVAIL);
	memcpy(key.src, ip("fd00::1"), 16);
	assert_int_equal(ur_net_flow(s->net, &key, s->now, &f), -EINVAL);
	assert_int_equal(stk_flow(s, "127.0.0.1", &f), -EINVAL);
	assert_int_equal(stk_flow(s, "255.255.255.255", &f), -EINVAL);
	assert_int_equal(stk_flow(s, "0.0.0.0", &f), -EINVAL);
	assert_int_equal(stk_flow(s, "::", &f), -EINVAL);
	assert_int_equal(stk_flow(s, "::1", &f), -EINVAL);
}

/* To ourselves, and to a group. */
static void test_local_and_groups(void **state)
{
	static const uint8_t mac4[6] = { 1, 0, 0x5e, 0x7f, 2, 3 };
	static const uint8_t mac6[6] = { 0x33, 0x33, 1, 2, 3, 4 };
	struct stk *s = *state;
	const struct ur_net_flow *f;

	stk_start(s);
	assert_int_equal(stk_flow(s, "10.0.0.1", &f), 0);
	assert_true(f->local && f->ready);
	assert_int_equal(stk_flow(s, "239.255.2.3", &f), 0);
	assert_true(f->ready && !f->local);
	assert_memory_equal(f->hdr, mac4, 6);
	assert_int_equal(stk_flow(s, "ff0e::102:304", &f), 0);
	assert_memory_equal(f->hdr, mac6, 6);
}

/* Flows are cached up to a limit; a destination is freed with its last flow. */
static void test_most_flows(void **state)
{
	struct stk *s = *state;
	struct ur_net_key key = { .sport = 1 };
	const struct ur_net_flow *f, *first;

	stk_start(s);
	stk_meet(s, "10.0.0.2", mac_peer);
	memcpy(key.src, ip("10.0.0.1"), 16);
	memcpy(key.dst, ip("10.0.0.2"), 16);
	assert_int_equal(ur_net_flow(s->net, &key, s->now, &first), 0);
	for (uint32_t i = 0; i < 3 * UR_NET_FLOWS; i++) {
		key.sport = (uint16_t)(i % (UR_NET_FLOWS + 1) + 1);
		assert_int_equal(ur_net_flow(s->net, &key, s->now, &f), 0);
		assert_int_equal(get16(f->hdr + 34), key.sport);
		assert_true(f->ready);
	}
	/* Used in between, it stays. */
	for (uint32_t i = 0; i < 2 * UR_NET_FLOWS; i++) {
		key.sport = 1;
		assert_int_equal(ur_net_flow(s->net, &key, s->now, &f), 0);
		if (i == 0)
			first = f;
		assert_ptr_equal(f, first);
		key.sport = (uint16_t)(10000 + i);
		assert_int_equal(ur_net_flow(s->net, &key, s->now, &f), 0);
	}
}

/* IP packets of another stack. */
static void test_send_ip(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len = mk_ip(f, mac_us, mac_peer, "10.0.0.1", "10.0.0.2", 6,
			     "0123456789", 10) -
		       14;

	stk_start(s);
	assert_int_equal(ur_net_send_ip(s->net, f + 14, len, s->now), 0);
	assert_int_equal(stk_drain(s), 1); /* the request */
	stk_in(s, s->frame,
	       mk_arp(s->frame, mac_us, 2, mac_peer, "10.0.0.2", mac_us,
		      "10.0.0.1"));
	assert_true(stk_out(s));
	assert_int_equal(s->len, 14 + len);
	assert_memory_equal(s->frame, mac_peer, 6);
	assert_memory_equal(s->frame + 12, f + 12, 2 + len);
	assert_int_equal(ur_net_send_ip(s->net, f + 14, len, s->now), 0);
	assert_true(stk_out(s));
	f[14 + 15] = 9; /* from 10.0.0.9 */
	assert_int_equal(ur_net_send_ip(s->net, f + 14, len, s->now),
			 -EADDRNOTAVAIL);
	assert_int_equal(ur_net_send_ip(s->net, f + 14, 19, s->now), -EINVAL);
	f[14] = 0x55;
	assert_int_equal(ur_net_send_ip(s->net, f + 14, len, s->now), -EINVAL);
	len = mk_ip(f, mac_us, mac_peer, "fd00::1", "ff0e::1", 6, "x", 1) - 14;
	assert_int_equal(ur_net_send_ip(s->net, f + 14, len, s->now), 0);
	assert_true(stk_out(s));
	assert_int_equal(s->frame[0], 0x33);
	assert_int_equal(get16(s->frame + 12), 0x86dd);
}

int main(void)
{
#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, stk_setup_idle, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_ip4),
		T(test_soft_sums),
		T(test_sum_of_zero),
		T(test_offloads),
		T(test_parked_sums),
		T(test_traffic_class),
		T(test_next_hops),
		T(test_what_cannot_be_sent),
		T(test_local_and_groups),
		T(test_most_flows),
		T(test_send_ip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
