/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <arpa/inet.h>

const uint8_t mac_us[6] = { 2, 0, 0, 0, 0, 1 };
const uint8_t mac_peer[6] = { 2, 0, 0, 0, 0, 2 };
const uint8_t mac_thief[6] = { 2, 0, 0, 0, 0, 0x66 };
const uint8_t mac_all[6] = { 255, 255, 255, 255, 255, 255 };

const uint8_t *ip(const char *text)
{
	static uint8_t bufs[8][16];
	static uint32_t next;
	uint8_t *b = bufs[next++ % 8];

	memset(b, 0, 16);
	if (inet_pton(AF_INET, text, b + 12) == 1)
		b[10] = b[11] = 0xff;
	else
		assert_int_equal(inet_pton(AF_INET6, text, b), 1);
	return b;
}

static void note(void *arg, const struct ur_net_event *ev)
{
	struct stk *s = arg;

	if (s->nevents < EVENTS_MAX)
		s->events[s->nevents++] = *ev;
}

void stk_init(struct stk *s)
{
	memset(s, 0, sizeof(*s));
	s->now = 1000 * SEC;
	s->cfg.mtu = 1500;
	s->cfg.scope_id = 7;
	s->cfg.naddrs = 2;
	memcpy(s->cfg.mac, mac_us, 6);
	memcpy(s->cfg.addrs[0].ip, ip("10.0.0.1"), 16);
	s->cfg.addrs[0].prefix = 24;
	memcpy(s->cfg.addrs[1].ip, ip("fd00::1"), 16);
	s->cfg.addrs[1].prefix = 64;
	memcpy(s->cfg.gateway4, ip("10.0.0.254"), 16);
	memcpy(s->cfg.gateway6, ip("fd00::fe"), 16);
	s->cfg.seed = 1;
	s->cfg.event = note;
	s->cfg.arg = s;
}

void stk_start(struct stk *s)
{
	assert_int_equal(ur_net_create(&s->cfg, &s->net), 0);
	if (s->cfg.probes)
		return;
	stk_run(s, 3 * SEC);
	stk_drain(s);
	s->nevents = 0;
}

void stk_fini(struct stk *s)
{
	ur_net_destroy(s->net);
}

int stk_setup_idle(void **state)
{
	struct stk *s = malloc(sizeof(*s));

	if (!s)
		return -1;
	stk_init(s);
	*state = s;
	return 0;
}

int stk_setup(void **state)
{
	int err = stk_setup_idle(state);

	if (!err)
		stk_start(*state);
	return err;
}

int stk_teardown(void **state)
{
	stk_fini(*state);
	free(*state);
	return 0;
}

void stk_run(struct stk *s, uint64_t ns)
{
	uint64_t end = s->now + ns;

	while (ur_net_deadline(s->net) <= end) {
		uint64_t at = ur_net_deadline(s->net);

		if (at > s->now)
			s->now = at;
		ur_net_expire(s->net, s->now);
		assert_true(ur_net_deadline(s->net) > s->now);
	}
	s->now = end;
}

/* In a buffer of exactly that size, so that a sanitizer sees an overrun. */
enum ur_net_verdict stk_in(struct stk *s, const uint8_t *frame, uint32_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct ur_net_rx rx = { .frame = copy, .len = len };
	enum ur_net_verdict v;

	assert_non_null(copy);
	memcpy(copy, frame, len);
	v = ur_net_input(s->net, &rx, s->now, &s->in);
	if (v == UR_NET_ROCE) {
		assert_true(s->in.roce.data >= copy &&
			    s->in.roce.data + s->in.roce.len <= copy + len);
		s->in.roce.data = frame + (s->in.roce.data - copy);
	}
	free(copy);
	return v;
}

bool stk_out(struct stk *s)
{
	s->len = ur_net_output(s->net, s->frame, sizeof(s->frame));
	return s->len != 0;
}

uint32_t stk_drain(struct stk *s)
{
	uint32_t n = 0;

	while (stk_out(s))
		n++;
	return n;
}

uint32_t stk_events(const struct stk *s, enum ur_net_event_kind kind)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->nevents; i++)
		n += s->events[i].kind == kind;
	return n;
}

const struct ur_net_counters *stk_count(const struct stk *s)
{
	return ur_net_counters(s->net);
}

int stk_flow(struct stk *s, const char *dst, const struct ur_net_flow **f)
{
	struct ur_net_key key = { .sport = 0xc0de };

	memcpy(key.dst, ip(dst), 16);
	memcpy(key.src, strchr(dst, ':') ? ip("fd00::1") : ip("10.0.0.1"), 16);
	return ur_net_flow(s->net, &key, s->now, f);
}

int stk_send(struct stk *s, const char *dst)
{
	const struct ur_net_flow *f;
	uint8_t frame[UR_NET_HDR_MAX + 16];
	int err = stk_flow(s, dst, &f);

	if (err)
		return err;
	memset(frame, 0x5a, sizeof(frame));
	ur_net_put(f, frame, 0, 16);
	if (f->sums & UR_NET_SUM_SOFT)
		ur_net_sum(f, frame);
	if (f->ready)
		return 1;
	return ur_net_park(s->net, f, frame, f->len + 16u, s->now);
}

int stk_neigh(const struct stk *s, const char *addr, uint8_t mac[6])
{
	const struct ur_neigh *n = ur_neigh_find(s->net, ip(addr));

	if (n && mac)
		memcpy(mac, n->mac, 6);
	return n ? (int)n->state : -1;
}

void stk_answer(struct stk *s, const char *addr, const uint8_t mac[6])
{
	uint8_t f[128];

	if (strchr(addr, ':'))
		stk_in(s, f,
		       mk_nd(f, mac_us, addr, "fd00::1", 136, 0x60000000, addr,
			     mac));
	else
		stk_in(s, f,
		       mk_arp(f, mac_us, 2, mac, addr, mac_us, "10.0.0.1"));
}

void stk_meet(struct stk *s, const char *addr, const uint8_t mac[6])
{
	assert_int_equal(stk_send(s, addr), 0);
	stk_answer(s, addr, mac);
	assert_int_equal(stk_neigh(s, addr, NULL), UR_NEIGH_REACHABLE);
	stk_drain(s);
}

/* ---- Frames ---- */

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* Written for the tests, independent of the stack's own. */
static uint32_t add(uint32_t sum, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		sum += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum > 0xffff)
		sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t)~sum;
}

void fix_ip4(uint8_t *f)
{
	uint8_t *h = f + 14;

	put16(h + 10, 0);
	put16(h + 10, fold(add(0, h, (h[0] & 15u) * 4)));
}

static void ethernet(uint8_t *f, const uint8_t to[6], const uint8_t from[6],
		     uint16_t type)
{
	memcpy(f, to, 6);
	memcpy(f + 6, from, 6);
	put16(f + 12, type);
}

uint32_t mk_arp(uint8_t *f, const uint8_t to[6], uint16_t op,
		const uint8_t sha[6], const char *spa, const uint8_t tha[6],
		const char *tpa)
{
	static const uint8_t head[6] = { 0, 1, 8, 0, 6, 4 };

	ethernet(f, to, sha, 0x0806);
	memcpy(f + 14, head, 6);
	put16(f + 20, op);
	memcpy(f + 22, sha, 6);
	memcpy(f + 28, ip(spa) + 12, 4);
	memcpy(f + 32, tha, 6);
	memcpy(f + 38, ip(tpa) + 12, 4);
	return 42;
}

uint32_t mk_ip(uint8_t *f, const uint8_t to[6], const uint8_t from[6],
	       const char *src, const char *dst, uint8_t proto,
	       const void *payload, uint32_t len)
{
	bool v4 = !strchr(src, ':');
	uint8_t *h = f + 14;

	ethernet(f, to, from, v4 ? 0x0800 : 0x86dd);
	memset(h, 0, 40);
	if (v4) {
		h[0] = 0x45;
		put16(h + 2, 20 + len);
		h[8] = 64;
		h[9] = proto;
		memcpy(h + 12, ip(src) + 12, 4);
		memcpy(h + 16, ip(dst) + 12, 4);
		fix_ip4(f);
	} else {
		h[0] = 0x60;
		put16(h + 4, len);
		h[6] = proto;
		h[7] = 64;
		memcpy(h + 8, ip(src), 16);
		memcpy(h + 24, ip(dst), 16);
	}
	memcpy(h + (v4 ? 20 : 40), payload, len);
	return 14 + (v4 ? 20 : 40) + len;
}

uint32_t mk_udp(uint8_t *f, const char *src, const char *dst, uint16_t dport,
		uint32_t len)
{
	uint8_t udp[2048] = { 0 };
	bool v4 = !strchr(src, ':');
	uint32_t sum = 17 + 8 + len;

	assert_true(len + 8 <= sizeof(udp));
	put16(udp, 0xc123);
	put16(udp + 2, dport);
	put16(udp + 4, 8 + len);
	for (uint32_t i = 0; i < len; i++)
		udp[8 + i] = (uint8_t)i;
	sum = v4 ? add(add(sum, ip(src) + 12, 4), ip(dst) + 12, 4)
		 : add(add(sum, ip(src), 16), ip(dst), 16);
	put16(udp + 6, fold(add(sum, udp, 8 + len)));
	return mk_ip(f, mac_us, mac_peer, src, dst, 17, udp, 8 + len);
}

uint32_t mk_icmp(uint8_t *f, const uint8_t to[6], const char *src,
		 const char *dst, uint8_t type, uint8_t code, const void *rest,
		 uint32_t len)
{
	uint8_t icmp[2048] = { type, code };
	bool v4 = !strchr(src, ':');
	uint32_t sum = 58 + 4 + len;

	assert_true(len + 4 <= sizeof(icmp));
	memcpy(icmp + 4, rest, len);
	sum = v4 ? 0 : add(add(sum, ip(src), 16), ip(dst), 16);
	put16(icmp + 2, fold(add(sum, icmp, 4 + len)));
	return mk_ip(f, to, mac_peer, src, dst, v4 ? 1 : 58, icmp, 4 + len);
}

uint32_t mk_nd(uint8_t *f, const uint8_t to[6], const char *src,
	       const char *dst, uint8_t type, uint32_t flags,
	       const char *target, const uint8_t *mac)
{
	uint8_t rest[28] = { (uint8_t)(flags >> 24) };
	uint32_t len = mac ? 28 : 20, n;

	memcpy(rest + 4, ip(target), 16);
	if (mac) {
		rest[20] = type == 135 ? 1 : 2;
		rest[21] = 1;
		memcpy(rest + 22, mac, 6);
	}
	n = mk_icmp(f, to, src, dst, type, 0, rest, len);
	f[14 + 7] = 255;
	if (mac)
		memcpy(f + 6, mac, 6);
	return n;
}
