/* SPDX-License-Identifier: BSD-2-Clause */
/* Echo, and errors that we receive. */
#include "fixture.h"

#define FLOW_PORT 0xc0de /* of stk_flow() */

static void restart(struct stk *s)
{
	stk_fini(s);
	stk_start(s);
}

/* As ping sends it; recorded with its reply: 84 bytes of IP. */
static void test_echo4(void **state)
{
	struct stk *s = *state;
	uint8_t f[256], rest[60];
	uint32_t len;

	for (uint8_t i = 0; i < sizeof(rest); i++)
		rest[i] = i;
	len = mk_icmp(f, mac_us, "10.0.0.2", "10.0.0.1", 8, 0, rest,
		      sizeof(rest));
	assert_int_equal(stk_in(s, f, len), UR_NET_DONE);
	assert_true(stk_out(s));
	assert_int_equal(s->len, len);
	/* The request reversed, except for DF. */
	mk_icmp(f, mac_peer, "10.0.0.1", "10.0.0.2", 0, 0, rest, sizeof(rest));
	memcpy(f + 6, mac_us, 6);
	f[20] = 0x40;
	fix_ip4(f);
	assert_memory_equal(s->frame, f, len);
	assert_false(stk_out(s));
	assert_int_equal(stk_count(s)->tx_echo, 1);
}

static void test_echo6(void **state)
{
	struct stk *s = *state;
	uint8_t f[2048], rest[1456] = { 7 };
	uint32_t len;

	len = mk_icmp(f, mac_us, "2001:db8::2", "fd00::1", 128, 0, rest,
		      sizeof(rest));
	assert_int_equal(stk_in(s, f, len), UR_NET_DONE);
	assert_true(stk_out(s));
	mk_icmp(f, mac_peer, "fd00::1", "2001:db8::2", 129, 0, rest,
		sizeof(rest));
	memcpy(f + 6, mac_us, 6);
	assert_int_equal(s->len, len);
	assert_memory_equal(s->frame, f, len);
	/* Of another network, but it needed no neighbour entry. */
	assert_int_equal(stk_neigh(s, "fd00::fe", NULL), -1);
}

static void test_echo_refused(void **state)
{
	struct stk *s = *state;
	uint8_t f[256], rest[8] = { 0 };
	uint32_t len = mk_icmp(f, mac_us, "10.0.0.2", "10.0.0.1", 8, 0, rest,
			       sizeof(rest));

	f[36] ^= 1;
	stk_in(s, f, len);
	assert_int_equal(stk_count(s)->drop_icmp_sum, 1);
	len = mk_icmp(f, mac_us, "10.0.0.2", "10.0.0.1", 8, 1, rest,
		      sizeof(rest));
	stk_in(s, f, len);
	assert_int_equal(stk_count(s)->drop_icmp_other, 1);
	len = mk_icmp(f, mac_us, "10.0.0.2", "10.0.0.1", 8, 0, rest, 3);
	stk_in(s, f, len);
	assert_int_equal(stk_count(s)->drop_icmp_form, 1);
	len = mk_icmp(f, mac_us, "fd00::2", "fd00::1", 128, 0, rest, 3);
	stk_in(s, f, len);
	assert_int_equal(stk_count(s)->drop_icmp_form, 2);
	len = mk_icmp(f, mac_us, "fd00::2", "fd00::1", 128, 0, rest, 4);
	f[56] ^= 1;
	stk_in(s, f, len);
	assert_int_equal(stk_count(s)->drop_icmp_sum, 2);
	/* To a group: replies from every station would flood the sender. */
	len = mk_icmp(f, mac_all, "10.0.0.2", "224.0.0.1", 8, 0, rest, 4);
	stk_in(s, f, len);
	len = mk_icmp(f, mac_all, "10.0.0.2", "10.0.0.255", 8, 0, rest, 4);
	stk_in(s, f, len);
	len = mk_icmp(f, mac_all, "fd00::2", "ff02::1", 128, 0, rest, 4);
	stk_in(s, f, len);
	assert_int_equal(stk_drain(s), 0);
	/* Two hundred at once, a thousand in a second. */
	len = mk_icmp(f, mac_us, "10.0.0.2", "10.0.0.1", 8, 0, rest, 8);
	for (int i = 0; i < 250; i++)
		stk_in(s, f, len);
	assert_int_equal(stk_drain(s), 200);
	assert_int_equal(stk_count(s)->drop_rate, 50);
	stk_run(s, 100 * MS);
	for (int i = 0; i < 250; i++)
		stk_in(s, f, len);
	assert_int_equal(stk_drain(s), 100);
}

/* The source of an echo request to all of the network. */
static void test_echo_from_all(void **state)
{
	struct stk *s = *state;
	uint8_t f[256], rest[8] = { 0 };
	uint32_t len = mk_icmp(f, mac_us, "10.0.0.255", "10.0.0.1", 8, 0, rest,
			       sizeof(rest));

	stk_in(s, f, len);
	assert_int_equal(stk_drain(s), 0);
	assert_int_equal(stk_count(s)->drop_ip_source, 1);
}

/* A routing header on an echo request: left to the host. */
static void test_echo_extended(void **state)
{
	static const uint8_t routing[24] = { 58, 2, 0, 1 };
	struct stk *s = *state;
	uint8_t f[256], rest[8] = { 0 };
	uint32_t len = mk_icmp(f, mac_us, "fd00::2", "fd00::1", 128, 0, rest,
			       sizeof(rest));

	memmove(f + 54 + sizeof(routing), f + 54, len - 54);
	memcpy(f + 54, routing, sizeof(routing));
	f[19] = (uint8_t)(f[19] + sizeof(routing));
	f[20] = 43;
	len += sizeof(routing);
	assert_int_equal(stk_in(s, f, len), UR_NET_HOST);
	assert_int_equal(stk_drain(s), 0);
}

/* The source port of a frame of UDP: by default that of stk_flow(). */
static void from_port(uint8_t *f, bool v4, uint16_t port)
{
	f[v4 ? 34 : 54] = (uint8_t)(port >> 8);
	f[v4 ? 35 : 55] = (uint8_t)port;
}

/* A router's error about a packet from `src` to `dst`:dport. */
static uint32_t mk_error(uint8_t *f, uint8_t type, uint8_t code, uint32_t mtu,
			 const char *src, const char *dst, uint16_t dport)
{
	bool v4 = !strchr(src, ':');
	uint8_t rest[4 + 60] = { 0 }, sent[256];

	mk_udp(sent, src, dst, dport, 64);
	from_port(sent, v4, FLOW_PORT);
	rest[0] = (uint8_t)(mtu >> 24);
	rest[1] = (uint8_t)(mtu >> 16);
	rest[2] = (uint8_t)(mtu >> 8);
	rest[3] = (uint8_t)mtu;
	if (v4) {
		sent[16] = 1500 >> 8;
		sent[17] = 1500 & 255;
	}
	memcpy(rest + 4, sent + 14, v4 ? 28 : 48);
	return mk_icmp(f, mac_us, v4 ? "10.0.0.254" : "fd00::fe",
		       v4 ? "10.0.0.1" : "fd00::1", type, code, rest,
		       4 + (v4 ? 28 : 48));
}

static void test_too_big4(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t e[256];
	uint32_t len = mk_error(e, 3, 4, 1400, "10.0.0.1", "192.0.2.9", 4791);

	/* We do not send there. */
	assert_int_equal(stk_in(s, e, len), UR_NET_HOST);
	assert_int_equal(stk_flow(s, "192.0.2.9", &f), 0);
	assert_int_equal(f->mtu, 1500);
	stk_in(s, e, len);
	assert_int_equal(f->mtu, 1400);
	assert_int_equal(ur_net_payload_max(f), 1372);
	assert_int_equal(stk_events(s, UR_NET_TOO_BIG), 1);
	assert_memory_equal(s->events[0].addr, ip("192.0.2.9"), 16);
	assert_int_equal(s->events[0].mtu, 1400);
	/* A larger one is ignored; the minimum applies. */
	stk_in(s, e, mk_error(e, 3, 4, 1450, "10.0.0.1", "192.0.2.9", 4791));
	assert_int_equal(f->mtu, 1400);
	stk_in(s, e, mk_error(e, 3, 4, 68, "10.0.0.1", "192.0.2.9", 4791));
	assert_int_equal(f->mtu, 576);
	assert_int_equal(stk_events(s, UR_NET_TOO_BIG), 2);
	/* Ten minutes later the larger is tried again. */
	stk_run(s, 599 * SEC);
	assert_int_equal(stk_flow(s, "192.0.2.9", &f), 0);
	assert_int_equal(f->mtu, 576);
	stk_run(s, 1 * SEC);
	assert_int_equal(stk_flow(s, "192.0.2.9", &f), 0);
	assert_int_equal(f->mtu, 1500);
	/* An old router: the next smaller usual size. */
	stk_in(s, e, mk_error(e, 3, 4, 0, "10.0.0.1", "192.0.2.9", 4791));
	assert_int_equal(f->mtu, 1492);
}

static void test_too_big6(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t e[256];

	assert_int_equal(stk_flow(s, "2001:db8::9", &f), 0);
	stk_in(s, e, mk_error(e, 2, 0, 1400, "fd00::1", "2001:db8::9", 4791));
	assert_int_equal(f->mtu, 1400);
	/* RFC 8201 4: less than the minimum is ignored. */
	stk_in(s, e, mk_error(e, 2, 0, 1279, "fd00::1", "2001:db8::9", 4791));
	stk_in(s, e, mk_error(e, 2, 0, 0, "fd00::1", "2001:db8::9", 4791));
	assert_int_equal(stk_count(s)->drop_icmp_form, 2);
	assert_int_equal(f->mtu, 1400);
	stk_in(s, e, mk_error(e, 2, 0, 1280, "fd00::1", "2001:db8::9", 4791));
	assert_int_equal(f->mtu, 1280);
	assert_int_equal(stk_count(s)->rx_too_big, 2);
}

static void test_unreachable(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t e[256];

	assert_int_equal(stk_flow(s, "192.0.2.9", &f), 0);
	assert_int_equal(stk_flow(s, "2001:db8::9", &f), 0);
	stk_in(s, e, mk_error(e, 3, 1, 0, "10.0.0.1", "192.0.2.9", 4791));
	assert_int_equal(stk_events(s, UR_NET_UNREACHABLE), 1);
	assert_memory_equal(s->events[0].addr, ip("192.0.2.9"), 16);
	stk_in(s, e, mk_error(e, 1, 3, 0, "fd00::1", "2001:db8::9", 4791));
	assert_int_equal(stk_events(s, UR_NET_UNREACHABLE), 2);
	assert_int_equal(stk_count(s)->rx_unreachable, 2);
	/* About packets of others: for the host. */
	assert_int_equal(
		stk_in(s, e,
		       mk_error(e, 3, 1, 0, "10.0.0.7", "192.0.2.9", 4791)),
		UR_NET_HOST);
	assert_int_equal(stk_events(s, UR_NET_UNREACHABLE), 2);
	restart(s);
	assert_int_equal(
		stk_in(s, e, mk_error(e, 3, 1, 0, "10.0.0.1", "192.0.2.9", 53)),
		UR_NET_HOST);
	assert_int_equal(
		stk_in(s, e,
		       mk_error(e, 3, 1, 0, "10.0.0.1", "192.0.2.9", 4791)),
		UR_NET_HOST);
	assert_int_equal(stk_flow(s, "192.0.2.9", &f), 0);
	assert_int_equal(
		stk_in(s, e,
		       mk_error(e, 3, 1, 0, "10.0.0.1", "192.0.2.9", 4791)),
		UR_NET_DONE);
}

/* An off-path attacker does not know our port; the host has sockets of its own
 * that send to that port. */
static void test_another_port(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t e[256], rest[4 + 28] = { 0 }, sent[256];

	assert_int_equal(stk_flow(s, "192.0.2.9", &f), 0);
	mk_udp(sent, "10.0.0.1", "192.0.2.9", 4791, 64);
	from_port(sent, true, FLOW_PORT + 1);
	rest[2] = 600 >> 8;
	rest[3] = 600 & 255;
	memcpy(rest + 4, sent + 14, 28);
	assert_int_equal(stk_in(s, e,
				mk_icmp(e, mac_us, "10.0.0.254", "10.0.0.1", 3,
					4, rest, sizeof(rest))),
			 UR_NET_HOST);
	assert_int_equal(f->mtu, 1500);
	assert_int_equal(stk_count(s)->rx_too_big, 0);
}

/* A quotation truncated anywhere. */
static void test_short_quote(void **state)
{
	struct stk *s = *state;
	const struct ur_net_flow *f;
	uint8_t rest[4 + 64] = { 0 }, sent[256], e[256];

	assert_int_equal(stk_flow(s, "192.0.2.9", &f), 0);
	mk_udp(sent, "10.0.0.1", "192.0.2.9", 4791, 64);
	from_port(sent, true, FLOW_PORT);
	memcpy(rest + 4, sent + 14, 28);
	for (uint32_t n = 4; n < 4 + 24; n++)
		assert_int_equal(stk_in(s, e,
					mk_icmp(e, mac_us, "10.0.0.254",
						"10.0.0.1", 3, 4, rest, n)),
				 UR_NET_HOST);
	assert_int_equal(f->mtu, 1500);
	stk_in(s, e,
	       mk_icmp(e, mac_us, "10.0.0.254", "10.0.0.1", 3, 4, rest, 28));
	assert_int_equal(stk_count(s)->rx_too_big, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, stk_setup, stk_teardown)
	static const struct CMUnitTest tests[] = {
		T(test_echo4),	       T(test_echo6),
		T(test_echo_refused),  T(test_too_big4),
		T(test_too_big6),      T(test_unreachable),
		T(test_short_quote),   T(test_another_port),
		T(test_echo_from_all), T(test_echo_extended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
