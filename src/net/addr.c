/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our own addresses. They are used at once, since they are configured and their
 * users cannot wait for seconds. Meanwhile they are probed for duplicates (RFC
 * 5227 2.1, RFC 4862 5.4; faster than these say), then announced twice, and
 * later defended, with a rate limit so that two stations with the same address
 * do not fight.
 */
#include <errno.h>

#include "net/internal.h"

#define ANNOUNCE_NUM	     2u
#define ANNOUNCE_INTERVAL_NS (2 * UR_S)
#define DEFEND_INTERVAL_NS   (10 * UR_S)
#define PROBE_GAP_NS	     (100 * UR_MS)

static void mask_of(struct ur_own *o)
{
	uint32_t bits = o->a.prefix + (o->v4 ? 96u : 0u);

	memset(o->mask, 0, sizeof(o->mask));
	memset(o->mask, 0xff, bits / 8);
	if (bits % 8)
		o->mask[bits / 8] = (uint8_t)(0xff << (8 - bits % 8));
}

static bool is_usable(const uint8_t ip[16])
{
	if (ur_addr_is_multicast(ip) || ur_addr_is_zero(ip))
		return false;
	return !ur_addr_is_v4(ip) || (ip[12] != 0 && ip[12] != 127);
}

int ur_own_init(struct ur_net *net)
{
	const struct ur_net_config *c = &net->cfg;

	if (!c->naddrs || c->naddrs > UR_NET_ADDRS)
		return -EINVAL;
	for (uint32_t i = 0; i < c->naddrs; i++) {
		struct ur_own *o = &net->own[i];
		const struct ur_net_addr *a = &c->addrs[i];

		o->v4 = ur_addr_is_v4(a->ip);
		if (!is_usable(a->ip) || a->prefix > (o->v4 ? 32 : 128) ||
		    ur_own_find(net, a->ip))
			return -EINVAL;
		o->a = *a;
		mask_of(o);
		ur_timer_init(&o->timer.timer);
		o->timer.kind = UR_NET_TIMER_ADDR;
		o->probes = c->probes;
		o->announce = ANNOUNCE_NUM;
		ur_timer_arm(&net->timers, &o->timer.timer, 0);
		net->nown++;
	}
	return 0;
}

struct ur_own *ur_own_find(struct ur_net *net, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < net->nown; i++)
		if (!memcmp(net->own[i].a.ip, addr, 16))
			return &net->own[i];
	return NULL;
}

bool ur_own_on_link(const struct ur_own *o, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < 16; i++)
		if ((o->a.ip[i] ^ addr[i]) & o->mask[i])
			return false;
	return true;
}

static void announce(struct ur_net *net, const struct ur_own *o)
{
	if (o->v4)
		ur_arp_announce(net, o->a.ip);
	else
		ur_nd_announce(net, o->a.ip);
}

void ur_own_announce(struct ur_net *net, struct ur_own *o, uint64_t now_ns)
{
	o->announce = ANNOUNCE_NUM;
	o->probes = net->cfg.probes;
	ur_own_expire(net, o, now_ns);
}

static void ask(struct ur_net *net, const struct ur_own *o)
{
	if (o->v4)
		ur_arp_request(net, NULL, o->a.ip, NULL);
	else
		ur_nd_solicit(net, NULL, o->a.ip, NULL);
}

void ur_own_expire(struct ur_net *net, struct ur_own *o, uint64_t now_ns)
{
	if (!o->announce)
		return;
	if (o->probes) {
		o->probes--;
		ask(net, o);
		ur_timer_arm(&net->timers, &o->timer.timer,
			     now_ns + PROBE_GAP_NS);
		return;
	}
	announce(net, o);
	if (--o->announce)
		ur_timer_arm(&net->timers, &o->timer.timer,
			     now_ns + ANNOUNCE_INTERVAL_NS);
}

/* RFC 5227 2.4 b: defend it once, and not again within the interval. */
void ur_own_conflict(struct ur_net *net, struct ur_own *o,
		     const uint8_t mac[UR_MAC_LEN], uint64_t now_ns)
{
	struct ur_net_event ev = { .kind = UR_NET_ADDR_DUPLICATE };

	net->count.addr_conflict++;
	if (o->announce == ANNOUNCE_NUM) {
		/* The other station was first: pending announcements are
		 * dropped. */
		o->announce = 0;
	} else if (o->defended &&
		   now_ns - o->defended_ns < DEFEND_INTERVAL_NS) {
		return;
	} else {
		o->defended = true;
		o->defended_ns = now_ns;
		announce(net, o);
	}
	memcpy(ev.addr, o->a.ip, 16);
	memcpy(ev.mac_old, net->cfg.mac, UR_MAC_LEN);
	memcpy(ev.mac_new, mac, UR_MAC_LEN);
	ur_net_report(net, &ev);
}
