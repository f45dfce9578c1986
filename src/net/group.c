/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups. Switches with IGMP or MLD snooping forward a group only to
 * stations that reported it, so we report: IGMPv2 (RFC 2236) and MLDv1 (RFC
 * 2710), which routers of later versions understand. The solicited-node groups
 * of our addresses are received without reports: neighbours need them, and
 * snooping switches forward them (RFC 4541 3).
 */
#include <errno.h>

#include "net/internal.h"

#define REPORTS	      2u /* when joining, in case one is lost */
#define REPORT_GAP_MS 1000u
#define IGMP_LEN      8u
#define IGMP_REPORT   0x16u
#define IGMP_LEAVE    0x17u
#define IP4_ALERT_LEN 24u /* header with the router alert option (RFC 2113) */
#define MLD_LEN	      24u
#define MLD_REPORT    131u
#define MLD_DONE      132u
#define HOPOPT_LEN    8u /* likewise (RFC 2711) */

static const uint8_t all_nodes6[16] = { 0xff, 2, [15] = 1 };
static const uint8_t all_routers6[16] = { 0xff, 2, [15] = 2 };
static const uint8_t all_hosts4[16] = { [10] = 0xff, 0xff, 224, 0, 0, 1 };
static const uint8_t all_routers4[16] = { [10] = 0xff, 0xff, 224, 0, 0, 2 };

void ur_net_group_mac(const uint8_t group[16], uint8_t mac[UR_MAC_LEN])
{
	static const uint8_t v4[3] = { 0x01, 0x00, 0x5e };

	if (ur_addr_is_v4(group)) {
		memcpy(mac, v4, 3);
		memcpy(mac + 3, group + 13, 3);
		mac[3] &= 0x7f;
	} else {
		memset(mac, 0x33, 2);
		memcpy(mac + 2, group + 12, 4);
	}
}

static struct ur_net_group *find(const struct ur_net *net,
				 const uint8_t addr[16])
{
	for (uint32_t i = 0; i < UR_NET_GROUPS; i++) {
		const struct ur_net_group *g = &net->groups[i];

		if (g->refs && !memcmp(g->addr, addr, 16))
			return (struct ur_net_group *)(uintptr_t)g;
	}
	return NULL;
}

bool ur_group_joined(const struct ur_net *net, const uint8_t addr[16])
{
	return find(net, addr) != NULL;
}

bool ur_group_is_ours(const struct ur_net *net, const uint8_t addr[16])
{
	uint8_t node[16];

	if (!memcmp(addr, all_nodes6, 16) || !memcmp(addr, all_hosts4, 16))
		return true;
	for (uint32_t i = 0; i < net->nown && addr[0] == 0xff; i++) {
		ur_nd_solicited_node(net->own[i].a.ip, node);
		if (!net->own[i].v4 && !memcmp(node, addr, 16))
			return true;
	}
	return ur_group_joined(net, addr);
}

/* An address of ours of that family to report from; for MLD a link-local one if
 * there is any (RFC 2710 3). */
static const uint8_t *source(const struct ur_net *net, bool v4)
{
	const uint8_t *src = NULL;

	for (uint32_t i = 0; i < net->nown; i++) {
		const struct ur_own *o = &net->own[i];

		if (o->v4 != v4 || o->state != UR_OWN_READY)
			continue;
		if (!src || (!v4 && ur_net_is_link_local(o->a.ip)))
			src = o->a.ip;
	}
	return src;
}

static void send_igmp(struct ur_net *net, uint8_t type, const uint8_t dst[16],
		      const uint8_t group[16])
{
	static const uint8_t alert[4] = { 0x94, 4, 0, 0 };
	const uint8_t *src = source(net, true);
	uint8_t mac[UR_MAC_LEN], *p;
	struct ur_net_frame *f;

	if (!src)
		return;
	ur_net_group_mac(dst, mac);
	f = ur_outbox_new(net, IP4_ALERT_LEN + IGMP_LEN, mac, UR_ETHERTYPE_IP,
			  &p);
	if (!f)
		return;
	ur_net_put_ip4(p, src, dst, UR_IPPROTO_IGMP, 1, 4 + IGMP_LEN);
	p[0] = 0x46;
	memcpy(p + UR_IPV4_LEN, alert, sizeof(alert));
	ur_csum_ipv4(p);
	p += IP4_ALERT_LEN;
	memset(p, 0, IGMP_LEN);
	p[0] = type;
	memcpy(p + 4, group + 12, 4);
	ur_put_be16(p + 2, ur_csum_fold(ur_csum_add(0, p, IGMP_LEN)));
	net->count.tx_membership++;
	ur_outbox_push(net, f);
}

static void send_mld(struct ur_net *net, uint8_t type, const uint8_t dst[16],
		     const uint8_t group[16])
{
	static const uint8_t alert[HOPOPT_LEN] = {
		UR_IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0
	};
	const uint8_t *src = source(net, false);
	uint8_t mac[UR_MAC_LEN], *p;
	struct ur_net_frame *f;

	if (!src)
		return;
	ur_net_group_mac(dst, mac);
	f = ur_outbox_new(net, UR_IPV6_LEN + HOPOPT_LEN + MLD_LEN, mac,
			  UR_ETHERTYPE_IPV6, &p);
	if (!f)
		return;
	ur_net_put_ip6(p, src, dst, 0, 1, HOPOPT_LEN + MLD_LEN);
	p += UR_IPV6_LEN;
	memcpy(p, alert, HOPOPT_LEN);
	p += HOPOPT_LEN;
	memset(p, 0, MLD_LEN);
	p[0] = type;
	memcpy(p + 8, group, 16);
	ur_net_sum_icmp6(src, dst, p, MLD_LEN);
	net->count.tx_membership++;
	ur_outbox_push(net, f);
}

/* Not reported: all-nodes groups (RFC 2236 6, RFC 2710 5) and groups of host
 * scope. */
static bool is_reported(const uint8_t group[16])
{
	if (ur_addr_is_v4(group))
		return memcmp(group, all_hosts4, 16) != 0;
	return memcmp(group, all_nodes6, 16) != 0 && (group[1] & 0xf) > 1;
}

static void report(struct ur_net *net, const struct ur_net_group *g)
{
	if (!is_reported(g->addr))
		return;
	if (ur_addr_is_v4(g->addr))
		send_igmp(net, IGMP_REPORT, g->addr, g->addr);
	else
		send_mld(net, MLD_REPORT, g->addr, g->addr);
}

void ur_group_expire(struct ur_net *net, struct ur_net_group *g,
		     uint64_t now_ns)
{
	report(net, g);
	if (g->reports && --g->reports)
		ur_timer_arm(&net->timers, &g->timer.timer,
			     now_ns + ur_rng_below(&net->rng, REPORT_GAP_MS) *
					      UR_MS);
}

void ur_group_report_all(struct ur_net *net, bool v4, uint64_t now_ns)
{
	for (uint32_t i = 0; i < UR_NET_GROUPS; i++) {
		struct ur_net_group *g = &net->groups[i];

		if (!g->refs || ur_addr_is_v4(g->addr) != v4)
			continue;
		g->reports = REPORTS;
		ur_timer_arm(&net->timers, &g->timer.timer, now_ns);
	}
}

void ur_group_query(struct ur_net *net, const uint8_t addr[16], bool v4,
		    uint64_t max_ns, uint64_t now_ns)
{
	uint32_t max_ms = (uint32_t)(max_ns / UR_MS);

	net->count.rx_membership_query++;
	for (uint32_t i = 0; i < UR_NET_GROUPS; i++) {
		struct ur_net_group *g = &net->groups[i];
		uint64_t at_ns =
			now_ns + ur_rng_below(&net->rng, max_ms + 1) * UR_MS;

		if (!g->refs || ur_addr_is_v4(g->addr) != v4 ||
		    (!ur_addr_is_zero(addr) && memcmp(g->addr, addr, 16) != 0))
			continue;
		if (g->timer.timer.at_ns > at_ns)
			ur_timer_arm(&net->timers, &g->timer.timer, at_ns);
	}
}

static void changed(struct ur_net *net)
{
	struct ur_net_event ev = { .kind = UR_NET_MACS };

	ur_flow_groups_changed(net);
	ur_net_report(net, &ev);
}

int ur_net_join(struct ur_net *net, const uint8_t group[16], uint64_t now_ns)
{
	struct ur_net_group *g = find(net, group);

	if (!ur_addr_is_multicast(group))
		return -EINVAL;
	if (g) {
		g->refs++;
		return 0;
	}
	for (uint32_t i = 0; i < UR_NET_GROUPS && !g; i++)
		if (!net->groups[i].refs)
			g = &net->groups[i];
	if (!g)
		return -ENOSPC;
	memcpy(g->addr, group, 16);
	g->refs = 1;
	g->reports = REPORTS;
	ur_timer_init(&g->timer.timer);
	g->timer.kind = UR_NET_TIMER_GROUP;
	ur_group_expire(net, g, now_ns);
	changed(net);
	return 0;
}

int ur_net_leave(struct ur_net *net, const uint8_t group[16], uint64_t now_ns)
{
	struct ur_net_group *g = find(net, group);

	(void)now_ns;
	if (!g)
		return -EINVAL;
	if (--g->refs)
		return 0;
	ur_timer_cancel(&net->timers, &g->timer.timer);
	if (is_reported(group) && ur_addr_is_v4(group))
		send_igmp(net, IGMP_LEAVE, all_routers4, group);
	else if (is_reported(group))
		send_mld(net, MLD_DONE, all_routers6, group);
	changed(net);
	return 0;
}

static uint32_t add_mac(uint8_t (*macs)[6], uint32_t cap, uint32_t n,
			const uint8_t group[16])
{
	uint8_t mac[UR_MAC_LEN];

	ur_net_group_mac(group, mac);
	for (uint32_t i = 0; i < n && i < cap; i++)
		if (!memcmp(macs[i], mac, UR_MAC_LEN))
			return n;
	if (n < cap)
		memcpy(macs[n], mac, UR_MAC_LEN);
	return n + 1;
}

uint32_t ur_net_macs(const struct ur_net *net, uint8_t (*macs)[6], uint32_t cap)
{
	uint32_t n = 0;
	uint8_t group[16];

	for (uint32_t i = 0; i < net->nown; i++) {
		if (net->own[i].v4) {
			n = add_mac(macs, cap, n, all_hosts4);
			continue;
		}
		ur_nd_solicited_node(net->own[i].a.ip, group);
		n = add_mac(macs, cap, n, group);
		n = add_mac(macs, cap, n, all_nodes6);
	}
	for (uint32_t i = 0; i < UR_NET_GROUPS; i++)
		if (net->groups[i].refs)
			n = add_mac(macs, cap, n, net->groups[i].addr);
	return n;
}
