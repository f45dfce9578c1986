/* SPDX-License-Identifier: BSD-2-Clause */
/* Input: each reason to drop a frame, and the destination of others. */
#include "fixture.h"

static void restart(struct stk *s)
{
	stk_fini(s);
	stk_start(s);
}

/* Dropped for this reason only, and nothing is sent. */
#define DROPPED(s, f, len, reason)                                             \
	do {                                                                   \
		uint64_t before_ = stk_count(s)->reason;                       \
		assert_int_equal(stk_in(s, f, len), UR_NET_DONE);              \
		assert_int_equal(stk_count(s)->reason, before_ + 1);           \
		assert_int_equal(stk_drain(s), 0);                             \
	} while (0)

#define TO_HOST(s, f, len)                                                     \
	do {                                                                   \
		assert_int_equal(stk_in(s, f, len), UR_NET_HOST);              \
		assert_int_equal(stk_drain(s), 0);                             \
	} while (0)

static void test_roce(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);

	f[14 + 1] = 0x6b; /* DSCP 26, CE */
	f[14 + 4] = 0x12;
	f[14 + 5] = 0x34;
	f[14 + 8] = 61;
	fix_ip4(f);
	assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
	assert_ptr_equal(s->in.roce.data, f + 42);
	assert_int_equal(s->in.roce.len, 32);
	assert_int_equal(s->in.roce.sport, 0xc123);
	assert_int_equal(s->in.roce.tclass, 0x6b);
	assert_int_equal(s->in.roce.hop_limit, 61);
	assert_int_equal(s->in.roce.index, 0x1234);
	assert_memory_equal(s->in.roce.src, ip("10.0.0.2"), 16);
	assert_memory_equal(s->in.roce.dst, ip("10.0.0.1"), 16);
	assert_false(s->in.roce.icrc_checked);
	/* Ethernet's padding is not passed to RoCE. */
	assert_int_equal(stk_in(s, f, len + 7), UR_NET_ROCE);
	assert_int_equal(s->in.roce.len, 32);
	len = mk_udp(f, "fd00::2", "fd00::1", 4791, 32);
	f[14] |= 6;
	f[15] = 0xb0;
	assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
	assert_int_equal(s->in.roce.tclass, 0x6b);
	assert_int_equal(s->in.roce.index, 0);
	assert_int_equal(stk_count(s)->rx_roce, 3);
	assert_int_equal(stk_drain(s), 0);
}

static void test_ethernet(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);

	for (uint32_t n = 0; n < 14; n++)
		DROPPED(s, f, n, drop_runt);
	f[5] = 9;
	DROPPED(s, f, len, drop_mac);
	/* RFC 1122 3.3.6: unicast in a broadcast frame. */
	memset(f, 255, 6);
	TO_HOST(s, f, len);
	memcpy(f, mac_us, 6);
	f[12] = 0x88; /* LLDP */
	f[13] = 0xcc;
	TO_HOST(s, f, len);
	f[12] = 0; /* a length */
	f[13] = 60;
	TO_HOST(s, f, len);
}

/* Put a tag into the frame. */
static uint32_t tag(uint8_t *f, uint32_t len, uint16_t tpid, uint16_t tci)
{
	memmove(f + 16, f + 12, len - 12);
	f[12] = (uint8_t)(tpid >> 8);
	f[13] = (uint8_t)tpid;
	f[14] = (uint8_t)(tci >> 8);
	f[15] = (uint8_t)tci;
	return len + 4;
}

/* Without a VLAN: none, or a priority only. */
static void test_no_tag(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);

	len = tag(f, len, 0x8100, 6 << 13);
	assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
	f[15] = 5;
	DROPPED(s, f, len, drop_vlan);
	for (uint32_t k = 14; k < 18; k++)
		DROPPED(s, f, k, drop_runt);
}

static void use_vlan(struct stk *s, uint16_t vlan)
{
	s->cfg.vlan = vlan;
	restart(s);
}

/* With one: only that. */
static void test_tag(void **state)
{
	struct stk *s = *state;
	uint8_t f[256], plain[256];
	uint32_t len = mk_udp(plain, "10.0.0.2", "10.0.0.1", 4791, 32), n;

	use_vlan(s, 5);
	memcpy(f, plain, len);
	n = tag(f, len, 0x8100, 6 << 13 | 5);
	assert_int_equal(stk_in(s, f, n), UR_NET_ROCE);
	f[14] = 7 << 5;
	assert_int_equal(stk_in(s, f, n), UR_NET_ROCE);
	f[15] = 6;
	DROPPED(s, f, n, drop_vlan);
	f[15] = 0;
	DROPPED(s, f, n, drop_vlan);
	DROPPED(s, plain, len, drop_vlan);
}

static void test_tag_taken_off_by_the_port(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	struct ur_net_rx rx = { .frame = f, .tpid = 0x8100, .tci = 5 };

	use_vlan(s, 5);
	rx.len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);
	assert_int_equal(ur_net_input(s->net, &rx, s->now, &s->in),
			 UR_NET_ROCE);
	rx.tci = 6;
	assert_int_equal(ur_net_input(s->net, &rx, s->now, &s->in),
			 UR_NET_DONE);
}

static void test_two_tags(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t n = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);

	use_vlan(s, 5);
	n = tag(f, n, 0x8100, 5);
	n = tag(f, n, 0x88a8, 5);
	DROPPED(s, f, n, drop_vlan);
	f[12] = 0x81;
	f[13] = 0;
	TO_HOST(s, f, n);
}

/* A valid packet with one byte changed. */
static uint32_t with_byte(uint8_t *f, uint32_t at, uint8_t value)
{
	uint32_t len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);

	f[at] = value;
	fix_ip4(f);
	return len;
}

static void test_ip4_form(void **state)
{
	static const struct {
		uint32_t at;
		uint8_t value;
	} lengths[] = { { 14, 0x44 }, { 17, 19 }, { 16, 1 } };
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);

	for (uint32_t n = 14; n < len; n++)
		DROPPED(s, f, n, drop_ip_length);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		with_byte(f, lengths[i].at, lengths[i].value);
		DROPPED(s, f, len, drop_ip_length);
	}
	with_byte(f, 14, 0x65);
	DROPPED(s, f, len, drop_ip_version);
	with_byte(f, 20, 0x20); /* the first, visibly RoCE */
	DROPPED(s, f, len, drop_fragment);
	with_byte(f, 21, 1);
	TO_HOST(s, f, len);
}

static void test_ip4_addresses(void **state)
{
	static const char *const sources[] = { "224.0.0.1", "255.255.255.255",
					       "127.0.0.1", "0.0.0.0",
					       "10.0.0.1" };
	static const char *const dests[] = { "10.0.0.3", "10.0.0.255",
					     "239.0.0.1" };
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len;

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		len = mk_udp(f, sources[i], "10.0.0.1", 4791, 32);
		DROPPED(s, f, len, drop_ip_source);
	}
	for (size_t i = 0; i < sizeof(dests) / sizeof(dests[0]); i++) {
		len = mk_udp(f, "10.0.0.2", dests[i], 4791, 32);
		TO_HOST(s, f, len);
	}
}

/* The port's checksum offload is trusted. */
static void test_ip4_sum(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	struct ur_net_rx rx = { .frame = f, .flags = UR_NET_RX_IP_GOOD };

	rx.len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);
	f[24] ^= 1;
	DROPPED(s, f, rx.len, drop_ip_sum);
	assert_int_equal(ur_net_input(s->net, &rx, s->now, &s->in),
			 UR_NET_ROCE);
}

/* IBTA A17.3.1: RoCEv2 has neither options nor extension headers. */
static void test_extras(void **state)
{
	static const uint8_t nops[4] = { 1, 1, 1, 0 };
	struct stk *s = *state;
	uint8_t f[256], udp[40] = { 0xc1, 0x23, 4791 >> 8, 4791 & 255, 0, 40 };
	uint8_t v6[48] = { 17, 0, 1, 4 };
	uint32_t len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);

	memmove(f + 38, f + 34, 40);
	memcpy(f + 34, nops, 4);
	f[14] = 0x46;
	f[17] = (uint8_t)(f[17] + 4);
	fix_ip4(f);
	DROPPED(s, f, len + 4, drop_ip_options);
	memcpy(v6 + 8, udp, 40);
	len = mk_ip(f, mac_us, mac_peer, "fd00::2", "fd00::1", 60, v6, 48);
	DROPPED(s, f, len, drop_ip_extension);
	v6[0] = 60; /* longer than the packet */
	v6[8] = 17;
	v6[9] = 200;
	len = mk_ip(f, mac_us, mac_peer, "fd00::2", "fd00::1", 60, v6, 48);
	DROPPED(s, f, len, drop_ip_extension);
}

static void test_too_many_extensions(void **state)
{
	struct stk *s = *state;
	uint8_t f[256], ext[96] = { 0 };
	uint32_t len;

	for (uint32_t i = 0; i < 80; i += 8)
		ext[i] = 60;
	len = mk_ip(f, mac_us, mac_peer, "fd00::2", "fd00::1", 60, ext, 96);
	DROPPED(s, f, len, drop_ip_extension);
}

static void test_ip6_form(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len = mk_udp(f, "fd00::2", "fd00::1", 4791, 32);

	for (uint32_t n = 14; n < len; n++)
		DROPPED(s, f, n, drop_ip_length);
	f[19]++;
	DROPPED(s, f, len, drop_ip_length);
	f[19]--;
	f[14] = 0x40;
	DROPPED(s, f, len, drop_ip_version);
}

static void test_ip6_addresses(void **state)
{
	static const char *const sources[] = { "ff02::1", "::1",
					       "::", "fd00::1", "10.0.0.2" };
	static const char *const dests[] = { "10.0.0.1", "fd00::3", "ff0e::1" };
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len;

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		len = mk_udp(f, "fd00::2", "fd00::1", 4791, 32);
		memcpy(f + 22, ip(sources[i]), 16);
		DROPPED(s, f, len, drop_ip_source);
	}
	for (size_t i = 0; i < sizeof(dests) / sizeof(dests[0]); i++) {
		len = mk_udp(f, "fd00::2", "fd00::1", 4791, 32);
		memcpy(f + 38, ip(dests[i]), 16);
		TO_HOST(s, f, len);
	}
}

/* Only the first fragment has the port that identifies RoCE. */
static void test_fragments6(void **state)
{
	struct stk *s = *state;
	uint8_t f[256];
	uint8_t part[56] = { 17, 0,    0,    1,		0,	    0, 0,
			     9,	 0xc1, 0x23, 4791 >> 8, 4791 & 255, 1, 0 };
	uint32_t len;

	len = mk_ip(f, mac_us, mac_peer, "fd00::2", "fd00::1", 44, part, 56);
	DROPPED(s, f, len, drop_fragment);
	part[3] = 9;
	len = mk_ip(f, mac_us, mac_peer, "fd00::2", "fd00::1", 44, part, 56);
	TO_HOST(s, f, len);
	/* The same on IPv4. */
	len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);
	f[20] = 0x20;
	fix_ip4(f);
	DROPPED(s, f, len, drop_fragment);
	f[21] = 1;
	fix_ip4(f);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
}

static void test_udp(void **state)
{
	struct stk *s = *state;
	struct ur_net_rx rx = { .flags = UR_NET_RX_L4_BAD };
	uint8_t f[256], udp[8] = { 0xc1, 0x23, 4791 >> 8, 4791 & 255, 0, 8 };
	uint32_t len;

	for (uint32_t n = 0; n < 8; n++) {
		len = mk_ip(f, mac_us, mac_peer, "10.0.0.2", "10.0.0.1", 17,
			    udp, n);
		DROPPED(s, f, len, drop_udp_length);
	}
	len = mk_ip(f, mac_us, mac_peer, "10.0.0.2", "10.0.0.1", 17, udp, 8);
	assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
	assert_int_equal(s->in.roce.len, 0);
	f[39] = 7;
	DROPPED(s, f, len, drop_udp_length);
	f[39] = 9;
	DROPPED(s, f, len, drop_udp_length);
	len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);
	rx.frame = f;
	rx.len = len;
	assert_int_equal(ur_net_input(s->net, &rx, s->now, &s->in),
			 UR_NET_DONE);
	assert_int_equal(stk_count(s)->drop_udp_sum, 1);
	/* Otherwise its checksum is ignored: the ICRC is stronger. */
	f[40] ^= 1;
	assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
}

/* The stack behind the TAP gets everything else addressed to us. */
static void test_host(void **state)
{
	static const uint8_t mac_mdns[6] = { 1, 0, 0x5e, 0, 0, 0xfb };
	struct stk *s = *state;
	uint8_t f[256];
	uint32_t len;

	len = mk_udp(f, "10.0.0.2", "10.0.0.1", 53, 32);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	assert_int_equal(s->in.l3, 14);
	len = mk_ip(f, mac_us, mac_peer, "10.0.0.2", "10.0.0.1", 6, "abcd", 4);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	len = mk_ip(f, mac_us, mac_peer, "fd00::2", "fd00::1", 6, "abcd", 4);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	/* An address of the host only. */
	len = mk_ip(f, mac_us, mac_peer, "10.0.0.2", "10.0.0.9", 6, "abcd", 4);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	len = mk_ip(f, mac_mdns, mac_peer, "10.0.0.2", "224.0.0.251", 17,
		    "abcdefgh", 8);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	len = mk_ip(f, mac_all, mac_peer, "10.0.0.2", "255.255.255.255", 17,
		    "abcdefgh", 8);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	f[12] = 0x88;
	f[13] = 0xcc;
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	/* A reply to the host's request, and a station that has moved; but
	 * requests are answered by the stack. */
	len = mk_arp(f, mac_us, 2, mac_peer, "10.0.0.2", mac_us, "10.0.0.1");
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	len = mk_arp(f, mac_all, 1, mac_peer, "10.0.0.2", mac_us, "10.0.0.2");
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	len = mk_arp(f, mac_us, 1, mac_peer, "10.0.0.2", mac_us, "10.0.0.1");
	assert_int_equal(stk_in(s, f, len), UR_NET_DONE);
	assert_int_equal(stk_drain(s), 1);
	len = mk_nd(f, mac_us, "fd00::2", "fd00::1", 136, 0x60000000, "fd00::2",
		    mac_peer);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	/* RoCE is not for the host, nor are invalid packets. */
	len = mk_udp(f, "10.0.0.2", "10.0.0.1", 4791, 32);
	assert_int_equal(stk_in(s, f, len), UR_NET_ROCE);
	f[24] ^= 1;
	DROPPED(s, f, len, drop_ip_sum);
	assert_int_equal(stk_count(s)->rx_host, 10);
	assert_int_equal(stk_drain(s), 0);
}

static void test_arp_forms(void **state)
{
	static const uint8_t offsets[] = { 14, 15, 16, 17, 18, 19, 20, 21, 22 };
	static const uint8_t zero[6];
	struct stk *s = *state;
	uint8_t f[64];
	uint32_t len;

	for (size_t i = 0; i < sizeof(offsets); i++) {
		len = mk_arp(f, mac_all, 1, mac_peer, "10.0.0.2", zero,
			     "10.0.0.1");
		f[offsets[i]] ^= 0x81;
		DROPPED(s, f, len, drop_arp_form);
	}
	len = mk_arp(f, mac_all, 1, mac_peer, "10.0.0.2", zero, "10.0.0.1");
	for (uint32_t n = 14; n < len; n++)
		DROPPED(s, f, n, drop_arp_form);
	mk_arp(f, mac_all, 1, zero, "10.0.0.2", zero, "10.0.0.1");
	DROPPED(s, f, len, drop_arp_form);
	mk_arp(f, mac_all, 1, mac_peer, "224.0.0.2", zero, "10.0.0.1");
	DROPPED(s, f, len, drop_arp_form);
	mk_arp(f, mac_all, 1, mac_peer, "10.0.0.2", zero, "10.0.0.3");
	DROPPED(s, f, len, drop_arp_other);
	/* The host may have asked. */
	mk_arp(f, mac_us, 2, mac_peer, "10.0.0.2", mac_us, "10.0.0.1");
	TO_HOST(s, f, len);
	assert_int_equal(stk_count(s)->drop_arp_other, 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, stk_setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_roce),
		T(test_ethernet),
		T(test_no_tag),
		T(test_tag),
		T(test_tag_taken_off_by_the_port),
		T(test_two_tags),
		T(test_ip4_form),
		T(test_ip4_addresses),
		T(test_ip4_sum),
		T(test_extras),
		T(test_too_many_extensions),
		T(test_ip6_form),
		T(test_ip6_addresses),
		T(test_fragments6),
		T(test_udp),
		T(test_host),
		T(test_arp_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
