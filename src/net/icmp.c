/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP of both families (RFC 792, RFC 4443). Replies go to the MAC address that
 * the request came from: so they need no neighbour entry, and strangers cannot
 * make us resolve one.
 */
#include "net/internal.h"
#include "wire/bth.h"

#define ICMP_LEN 8u

#define ICMP4_ECHO_REPLY   0u
#define ICMP4_UNREACHABLE  3u
#define ICMP4_ECHO	   8u
#define ICMP4_CODE_TOO_BIG 4u

#define ICMP6_UNREACHABLE  1u
#define ICMP6_TOO_BIG	   2u
#define ICMP6_ECHO	   128u
#define ICMP6_ECHO_REPLY   129u
#define ICMP6_ROUTER_FIRST 133u
#define ICMP6_NS	   135u
#define ICMP6_NA	   136u
#define ICMP6_REDIRECT	   137u

/* A reply of len bytes to the sender of p; *body: where it goes. */
static struct ur_net_frame *answer(struct ur_net *net,
				   const struct ur_net_pkt *p, uint32_t len,
				   uint8_t **body)
{
	uint32_t l3 = p->v4 ? UR_IPV4_LEN : UR_IPV6_LEN;
	const uint8_t *mac = p->frame + UR_MAC_LEN;
	struct ur_net_frame *f;
	uint8_t *ip;

	if (!ur_mac_is_station(mac))
		return NULL;
	f = ur_outbox_new(net, l3 + len, mac,
			  p->v4 ? UR_ETHERTYPE_IP : UR_ETHERTYPE_IPV6, &ip);
	if (!f)
		return NULL;
	if (p->v4)
		ur_net_put_ip4(ip, p->dst, p->src, UR_IPPROTO_ICMP, UR_NET_HOPS,
			       len);
	else
		ur_net_put_ip6(ip, p->dst, p->src, UR_IPPROTO_ICMPV6,
			       UR_NET_HOPS, len);
	*body = ip + l3;
	return f;
}

static void finish(struct ur_net *net, const struct ur_net_pkt *p,
		   struct ur_net_frame *f, uint8_t *icmp, uint32_t len)
{
	if (p->v4) {
		ur_put_be16(icmp + 2, 0);
		ur_put_be16(icmp + 2, ur_csum_fold(ur_csum_add(0, icmp, len)));
	} else {
		ur_net_sum_icmp6(p->dst, p->src, icmp, len);
	}
	ur_outbox_push(net, f);
}

/* Options and routing headers affect the reply (RFC 1122 3.2.2.6, RFC 8200 4),
 * so the host answers these. */
static enum ur_net_verdict echo(struct ur_net *net, const struct ur_net_pkt *p,
				struct ur_net_in *out)
{
	struct ur_net_frame *f;
	uint8_t *icmp;

	net->count.rx_echo++;
	if (p->extended)
		return ur_net_to_host(net, out, p);
	if (p->to_group || p->payload[1]) {
		net->count.drop_icmp_other++;
		return UR_NET_DONE;
	}
	if (!ur_net_bucket_take(&net->echoes, p->now_ns)) {
		net->count.drop_rate++;
		return UR_NET_DONE;
	}
	f = answer(net, p, p->payload_len, &icmp);
	if (!f)
		return UR_NET_DONE;
	memcpy(icmp, p->payload, p->payload_len);
	icmp[0] = p->v4 ? ICMP4_ECHO_REPLY : ICMP6_ECHO_REPLY;
	net->count.tx_echo++;
	finish(net, p, f, icmp, p->payload_len);
	return UR_NET_DONE;
}

/* The packet that an error message quotes. */
struct quote {
	bool roce; /* to port 4791 */
	uint8_t src[16];
	uint8_t dst[16];
	uint16_t sport;
	uint32_t len;
};

static void read_quote(const struct ur_net_pkt *p, struct quote *q)
{
	struct ur_rd r =
		ur_rd_init(p->payload + ICMP_LEN, p->payload_len - ICMP_LEN);
	const uint8_t *ip = ur_rd_bytes(&r, p->v4 ? UR_IPV4_LEN : UR_IPV6_LEN);
	uint8_t proto;

	*q = (struct quote){ 0 };
	if (!ip || ip[0] >> 4 != (p->v4 ? 4 : 6))
		return;
	ur_addr_of_packet(ip, q->src, q->dst);
	if (p->v4) {
		q->len = ur_be16_at(ip + 2);
		proto = ip[9];
		if ((ip[0] & 15) != 5)
			return;
	} else {
		q->len = UR_IPV6_LEN + ur_be16_at(ip + 4);
		proto = ip[6];
	}
	q->sport = ur_rd_be16(&r);
	q->roce = ur_rd_be16(&r) == UR_ROCE_PORT && proto == UR_IPPROTO_UDP;
}

/* RFC 1191 7: old routers do not report the next hop's MTU. */
static uint32_t plateau_below(uint32_t len)
{
	static const uint32_t plateaus[] = { 8166, 4352, 2002, 1492, 1006 };

	for (uint32_t i = 0; i < sizeof(plateaus) / sizeof(plateaus[0]); i++)
		if (plateaus[i] < len)
			return plateaus[i];
	return UR_NET_MTU_MIN4;
}

/*
 * An error is accepted only if it quotes a packet that we may have sent: an
 * off-path attacker would have to guess addresses and port (RFC 5927). The host
 * may also have sent packets to that port.
 */
static enum ur_net_verdict failure(struct ur_net *net,
				   const struct ur_net_pkt *p,
				   struct ur_net_in *out, bool too_big,
				   uint32_t mtu)
{
	struct ur_net_event ev = { .kind = UR_NET_UNREACHABLE };
	struct ur_dest *d;
	struct quote q;

	read_quote(p, &q);
	d = q.roce ? ur_dest_find(net, q.dst) : NULL;
	if (!d || d->local || !ur_dest_has_flow(d, q.src, q.sport))
		return ur_net_to_host(net, out, p);
	if (too_big) {
		net->count.rx_too_big++;
		ur_dest_too_big(net, d, mtu ? mtu : plateau_below(q.len),
				p->now_ns);
		return UR_NET_DONE;
	}
	net->count.rx_unreachable++;
	memcpy(ev.addr, q.dst, 16);
	ur_net_report(net, &ev);
	return UR_NET_DONE;
}

enum ur_net_verdict ur_icmp4_input(struct ur_net *net, struct ur_net_pkt *p,
				   struct ur_net_in *out)
{
	const uint8_t *icmp = p->payload;
	bool too_big;

	if (p->payload_len < ICMP_LEN) {
		net->count.drop_icmp_form++;
		return UR_NET_DONE;
	}
	if (!(p->flags & UR_NET_RX_L4_GOOD) &&
	    ur_csum_fold(ur_csum_add(0, icmp, p->payload_len))) {
		net->count.drop_icmp_sum++;
		return UR_NET_DONE;
	}
	if (icmp[0] == ICMP4_ECHO)
		return echo(net, p, out);
	too_big = icmp[1] == ICMP4_CODE_TOO_BIG;
	if (icmp[0] == ICMP4_UNREACHABLE)
		return failure(net, p, out, too_big, ur_be16_at(icmp + 6));
	return ur_net_to_host(net, out, p);
}

static uint32_t too_big_mtu(const uint8_t *icmp)
{
	return (uint32_t)ur_be16_at(icmp + 4) << 16 | ur_be16_at(icmp + 6);
}

enum ur_net_verdict ur_icmp6_input(struct ur_net *net, struct ur_net_pkt *p,
				   struct ur_net_in *out)
{
	const uint8_t *icmp = p->payload;

	if (p->payload_len < ICMP_LEN) {
		net->count.drop_icmp_form++;
		return UR_NET_DONE;
	}
	if (!ur_net_check_icmp6(p)) {
		net->count.drop_icmp_sum++;
		return UR_NET_DONE;
	}
	if (icmp[0] == ICMP6_NS || icmp[0] == ICMP6_NA)
		return ur_nd_input(net, p, out);
	if (icmp[0] >= ICMP6_ROUTER_FIRST && icmp[0] <= ICMP6_REDIRECT)
		return ur_net_to_host(net, out, p);
	if (ur_addr_is_zero(p->src) || ur_own_find(net, p->src)) {
		net->count.drop_ip_source++;
		return UR_NET_DONE;
	}
	if (icmp[0] == ICMP6_ECHO)
		return echo(net, p, out);
	/* RFC 8201 4: a smaller MTU than the minimum is invalid. */
	if (icmp[0] == ICMP6_TOO_BIG && too_big_mtu(icmp) < UR_NET_MTU_MIN6) {
		net->count.drop_icmp_form++;
		return UR_NET_DONE;
	}
	if (icmp[0] == ICMP6_TOO_BIG)
		return failure(net, p, out, true, too_big_mtu(icmp));
	if (icmp[0] == ICMP6_UNREACHABLE)
		return failure(net, p, out, false, 0);
	return ur_net_to_host(net, out, p);
}
