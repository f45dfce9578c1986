/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port's stack: the input is a configuration and then steps, each a frame,
 * passing time, or something to send. Checked: payload passed on lies
 * within the frame, output is a frame of ours that fits, timers do not spin,
 * and no limit is exceeded.
 *
 * Frames are arbitrary, or begin as valid ones modified by the next bytes, so
 * that the checks after the checksums are reached too.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/timer.h"
#include "net/internal.h"
#include "raw/csum.h"

#define FRAME_MAX 256u
#define STEPS_MAX 400u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct fuzz {
	struct ur_rd in;
	struct ur_net *net;
	struct ur_net_config cfg;
	uint64_t now;
};

static const uint8_t macs[4][6] = {
	{ 2, 0, 0, 0, 0, 1 }, /* ours */
	{ 2, 0, 0, 0, 0, 2 },
	{ 255, 255, 255, 255, 255, 255 },
	{ 0x33, 0x33, 0xff, 0, 0, 1 },
};

static void v4(uint8_t out[16], uint8_t c, uint8_t d)
{
	memset(out, 0, 16);
	out[10] = out[11] = 0xff;
	out[12] = 10;
	out[14] = c;
	out[15] = d;
}

static void v6(uint8_t out[16], uint8_t c, uint8_t d)
{
	memset(out, 0, 16);
	out[0] = 0xfd;
	out[7] = c;
	out[15] = d;
}

/* A relevant address: ours, a neighbour's, another one; or a group. */
static void pick_addr(struct fuzz *z, uint8_t out[16], bool six)
{
	uint8_t which = ur_rd_u8(&z->in);

	(six ? v6 : v4)(out, which >> 6 & 1, which & 7);
	if (which & 0x80) {
		out[six ? 0 : 12] = six ? 0xff : 239;
		out[six ? 1 : 13] = six ? 0x0e : 1;
	}
}

static void event(void *arg, const struct ur_net_event *ev)
{
	const struct fuzz *z = arg;

	assert(ev->kind < UR_NET_EVENT_KINDS);
	assert(ev->kind != UR_NET_TOO_BIG ||
	       (ev->mtu >= UR_NET_MTU_MIN4 && ev->mtu < z->cfg.mtu));
	assert(ev->kind != UR_NET_NEIGH_MOVED ||
	       memcmp(ev->mac_old, ev->mac_new, 6) != 0);
}

static void begin(struct fuzz *z)
{
	uint8_t flags = ur_rd_u8(&z->in);
	struct ur_net_config *c = &z->cfg;

	memcpy(c->mac, macs[0], 6);
	c->vlan = flags & 1 ? 5 : 0;
	c->udp4_sum = flags & 4;
	c->probes = flags & 8 ? 2 : 0;
	c->tx = flags >> 4 & 3;
	c->mtu = flags & 64 ? 9000 : 1500;
	c->naddrs = 2;
	v4(c->addrs[0].ip, 0, 1);
	c->addrs[0].prefix = 24;
	v6(c->addrs[1].ip, 0, 1);
	c->addrs[1].prefix = 64;
	if (flags & 128) {
		v4(c->gateway4, 0, 7);
		v6(c->gateway6, 0, 7);
	}
	c->event = event;
	c->arg = z;
	assert(ur_net_create(c, &z->net) == 0);
}

static uint32_t count_neighs(const struct ur_net *net)
{
	uint32_t count = 0;

	ur_list_each(const struct ur_neigh, n, &net->neighs, node) {
		assert(n->state <= UR_NEIGH_FAILED);
		assert(n->parked_bytes <= UR_NET_PARKED);
		assert(!n->parked_bytes || n->state == UR_NEIGH_INCOMPLETE);
		count++;
	}
	return count;
}

/* Output is from us, complete, and not longer than the MTU. */
static void drain(struct fuzz *z)
{
	static uint8_t frame[UR_NET_FRAME_MAX];
	uint32_t l2 = z->cfg.vlan ? 18 : 14, n = 0, len, total;

	while ((len = ur_net_output(z->net, frame, sizeof(frame)))) {
		const uint8_t *l3 = frame + l2;

		assert(len > l2 && len <= l2 + z->cfg.mtu);
		assert(!memcmp(frame + 6, macs[0], 6));
		if (ur_be16_at(l3 - 2) == 0x0800) {
			total = ur_be16_at(l3 + 2);
			assert(ur_csum_fold(ur_csum_add(
				       0, l3, (l3[0] & 15u) * 4)) == 0);
		} else if (ur_be16_at(l3 - 2) == 0x86dd) {
			total = 40u + ur_be16_at(l3 + 4);
		} else {
			total = 28;
		}
		assert(len == l2 + total);
		assert(++n <= UR_NET_OUTBOX + UR_NET_RELEASED);
	}
}

/* The beginning of a valid frame of some kind; its length. */
static uint32_t template(struct fuzz *z, uint8_t *f, uint8_t kind)
{
	static const uint8_t arp[8] = { 0, 1, 8, 0, 6, 4, 0, 1 };
	uint8_t who = ur_rd_u8(&z->in), src[16], dst[16];
	bool six = kind & 1;
	uint8_t *p = f + 12;

	memcpy(f, macs[who & 3], 6);
	memcpy(f + 6, macs[who >> 2 & 3], 6);
	f[11] ^= who >> 4;
	if (z->cfg.vlan) {
		ur_put_be16(p, 0x8100);
		ur_put_be16(p + 2, z->cfg.vlan);
		p += 4;
	}
	pick_addr(z, src, six);
	pick_addr(z, dst, six);
	ur_put_be16(p, kind == 4 ? 0x0806 : six ? 0x86dd : 0x0800);
	p += 2;
	if (kind == 4) {
		memcpy(p, arp, sizeof(arp));
		memcpy(p + 8, f + 6, 6);
		memcpy(p + 14, src + 12, 4);
		memcpy(p + 24, dst + 12, 4);
		return (uint32_t)(p - f) + 28;
	}
	p[0] = six ? 0x60 : 0x45;
	p[six ? 7 : 8] = 255;
	p[six ? 6 : 9] = kind < 2 ? 17 : six ? 58 : 1;
	memcpy(p + (six ? 8 : 12), six ? src : src + 12, six ? 16 : 4);
	memcpy(p + (six ? 24 : 16), six ? dst : dst + 12, six ? 16 : 4);
	p += six ? 40 : 20;
	if (kind < 2) {
		ur_put_be16(p + 2, 4791);
		ur_put_be16(p + 4, 8 + 16);
	}
	return (uint32_t)(p - f) + 24;
}

/* Fixes lengths and checksums, unless they are to be wrong. */
static void mend(const struct fuzz *z, uint8_t *f, uint32_t len)
{
	uint32_t l2 = z->cfg.vlan ? 18 : 14, l3 = 0;
	uint8_t *p = f + l2;
	uint64_t sum;

	if (ur_be16_at(p - 2) == 0x0800 && len >= l2 + 20) {
		ur_put_be16(p + 2, (uint16_t)(len - l2));
		l3 = (p[0] & 15u) * 4;
		if (l3 < 20 || l2 + l3 > len)
			return;
		ur_csum_ipv4(p);
		if (p[9] != 1 && p[9] != 2)
			return;
		sum = 0;
	} else if (ur_be16_at(p - 2) == 0x86dd && len >= l2 + 40) {
		l3 = 40;
		ur_put_be16(p + 4, (uint16_t)(len - l2 - 40));
		if (p[6] != 58)
			return;
		sum = ur_csum_add(58 + len - l2 - 40, p + 8, 32);
	} else {
		return;
	}
	if (len < l2 + l3 + 4)
		return;
	ur_put_be16(p + l3 + 2, 0);
	ur_put_be16(p + l3 + 2,
		    ur_csum_fold(ur_csum_add(sum, p + l3, len - l2 - l3)));
}

static void check(enum ur_net_verdict v, const struct ur_net_in *out,
		  const uint8_t *f, uint32_t len)
{
	assert(v != UR_NET_HOST || out->l3 <= len);
	if (v != UR_NET_ROCE)
		return;
	assert(out->roce.data >= f && out->roce.data <= f + len);
	assert(out->roce.len <= (size_t)(f + len - out->roce.data));
}

/*
 * A frame: a template and changes, or bytes; in a buffer of exactly its size.
 */
static void frame_in(struct fuzz *z, uint8_t kind)
{
	uint8_t buf[FRAME_MAX] = { 0 }, n;
	uint32_t len = 0, room;
	struct ur_net_rx rx = { .flags = kind >> 5 & 3 };
	struct ur_net_in out = { 0 };
	const uint8_t *bytes;
	uint8_t *copy;

	if ((kind & 7) < 5)
		len = template(z, buf, kind & 7);
	for (n = ur_rd_u8(&z->in) & 15; n && len; n--) {
		uint8_t at = ur_rd_u8(&z->in);

		buf[at % len] = ur_rd_u8(&z->in);
	}
	n = ur_rd_u8(&z->in);
	room = FRAME_MAX - len;
	bytes = ur_rd_bytes(&z->in, n < room ? n : room);
	if (bytes) {
		memcpy(buf + len, bytes, n < room ? n : room);
		len += n < room ? n : room;
	}
	if (!(kind & 8))
		mend(z, buf, len);
	copy = malloc(len ? len : 1);
	assert(copy);
	memcpy(copy, buf, len);
	rx.frame = copy;
	rx.len = len;
	check(ur_net_input(z->net, &rx, z->now, &out), &out, copy, len);
	free(copy);
}

static void transmit(struct fuzz *z, bool six)
{
	struct ur_net_key key = { .sport = ur_rd_u8(&z->in) };
	uint8_t frame[UR_NET_HDR_MAX + 32] = { 0 };
	const struct ur_net_flow *f;

	(six ? v6 : v4)(key.src, 0, 1);
	pick_addr(z, key.dst, six);
	if (ur_net_flow(z->net, &key, z->now, &f))
		return;
	assert(f->mtu <= z->cfg.mtu && f->len <= UR_NET_HDR_MAX);
	ur_net_put(f, frame, key.sport, 32);
	if (f->sums & UR_NET_SUM_SOFT)
		ur_net_sum(f, frame);
	if (!f->ready)
		assert(ur_net_park(z->net, f, frame, f->len + 32u, z->now) ==
		       0);
}

static void pass_time(struct fuzz *z, uint8_t shift)
{
	z->now += (uint64_t)(ur_rd_u8(&z->in) + 1) << shift;
	ur_net_expire(z->net, z->now);
	assert(ur_net_deadline(z->net) > z->now);
}

static void step(struct fuzz *z)
{
	uint8_t what = ur_rd_u8(&z->in);

	switch (what >> 6) {
	case 0:
		pass_time(z, 16 + what % 20);
		break;
	case 1:
		transmit(z, what & 1);
		break;
	case 2:
		frame_in(z, what & 63);
		break;
	default:
		if (what & 4)
			ur_net_link_up(z->net, z->now);
		else
			frame_in(z, what & 63);
		break;
	}
	if (what & 32)
		return; /* more before it is taken */
	drain(z);
	assert(count_neighs(z->net) <= UR_NET_NEIGHS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz z = { .in = ur_rd_init(data, len), .now = 1000000000 };

	begin(&z);
	ur_net_expire(z.net, z.now);
	for (uint32_t i = 0; i < STEPS_MAX && ur_rd_left(&z.in); i++)
		step(&z);
	drain(&z);
	ur_net_destroy(z.net);
	return 0;
}
