/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our own addresses. Before use an address is probed for a duplicate (RFC 5227
 * 2.1, RFC 4862 5.4), then announced twice, and later defended, with a rate
 * limit so that two stations with the same address do not fight. With cfg.early
 * it is used at once, while it is probed.
 */
#include <errno.h>

#include "net/internal.h"

/* RFC 5227 1.1; IPv6 waits for RetransTimer instead (RFC 4861 10). */
#define PROBE_WAIT_MS	     1000u
#define PROBE_MIN_MS	     1000u
#define PROBE_MAX_MS	     2000u
#define ANNOUNCE_WAIT_NS     (2 * UR_S)
#define ANNOUNCE_NUM	     2u
#define ANNOUNCE_INTERVAL_NS (2 * UR_S)
#define DEFEND_INTERVAL_NS   (10 * UR_S)
#define RETRANS_NS	     (1 * UR_S)
#define EARLY_GAP_NS	     (100 * UR_MS)

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

bool ur_net_addr_ready(const struct ur_net *net, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < net->nown; i++)
		if (!memcmp(net->own[i].a.ip, addr, 16))
			return net->own[i].state == UR_OWN_READY;
	return false;
}

static void tell(struct ur_net *net, const struct ur_own *o,
		 enum ur_net_event_kind kind, const uint8_t *mac)
{
	struct ur_net_event ev = { .kind = kind };

	memcpy(ev.addr, o->a.ip, 16);
	memcpy(ev.mac_old, net->cfg.mac, UR_MAC_LEN);
	if (mac)
		memcpy(ev.mac_new, mac, UR_MAC_LEN);
	ur_net_report(net, &ev);
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
	if (o->state != UR_OWN_READY)
		return;
	o->announce = ANNOUNCE_NUM;
	o->early = net->cfg.early ? net->cfg.probes : 0;
	ur_own_expire(net, o, now_ns);
}

/* How long until the next step of probing. */
static uint64_t probe_gap(struct ur_net *net, const struct ur_own *o, bool last)
{
	uint32_t spread = PROBE_MAX_MS - PROBE_MIN_MS + 1;

	if (!o->v4)
		return RETRANS_NS;
	if (last)
		return ANNOUNCE_WAIT_NS;
	return (PROBE_MIN_MS + ur_rng_below(&net->rng, spread)) * UR_MS;
}

static void ask(struct ur_net *net, const struct ur_own *o)
{
	if (o->v4)
		ur_arp_request(net, NULL, o->a.ip, NULL);
	else
		ur_nd_solicit(net, NULL, o->a.ip, NULL);
}

/* True: the address is ours now. */
static bool probe(struct ur_net *net, struct ur_own *o, uint64_t now_ns)
{
	if (o->probed > net->cfg.probes || !net->cfg.probes)
		return true;
	if (o->probed == 0) {
		/* Random delay: many stations may have been switched on
		 * together. */
		ur_timer_arm(&net->timers, &o->timer.timer,
			     now_ns + ur_rng_below(&net->rng, PROBE_WAIT_MS) *
					      UR_MS);
	} else {
		ask(net, o);
		ur_timer_arm(&net->timers, &o->timer.timer,
			     now_ns + probe_gap(net, o,
						o->probed == net->cfg.probes));
	}
	o->probed++;
	return false;
}

void ur_own_expire(struct ur_net *net, struct ur_own *o, uint64_t now_ns)
{
	if (o->state == UR_OWN_TENTATIVE) {
		if (!net->cfg.early && !probe(net, o, now_ns))
			return;
		o->state = UR_OWN_READY;
		o->announce = ANNOUNCE_NUM;
		o->early = net->cfg.early ? net->cfg.probes : 0;
		tell(net, o, UR_NET_ADDR_READY, NULL);
	}
	if (o->state != UR_OWN_READY || !o->announce)
		return;
	if (o->early) {
		o->early--;
		ask(net, o);
		ur_timer_arm(&net->timers, &o->timer.timer,
			     now_ns + EARLY_GAP_NS);
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
	net->count.addr_conflict++;
	if (o->state == UR_OWN_TENTATIVE) {
		o->state = UR_OWN_DUPLICATE;
		ur_timer_cancel(&net->timers, &o->timer.timer);
	} else if (o->announce == ANNOUNCE_NUM) {
		/* The other station was first: pending announcements are
		 * dropped. */
		o->announce = 0;
	} else if (o->state != UR_OWN_READY ||
		   (o->defended &&
		    now_ns - o->defended_ns < DEFEND_INTERVAL_NS)) {
		return;
	} else {
		o->defended = true;
		o->defended_ns = now_ns;
		announce(net, o);
	}
	tell(net, o, UR_NET_ADDR_DUPLICATE, mac);
}
