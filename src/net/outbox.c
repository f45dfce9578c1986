/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stack's own frames wait until ur_net_output() takes them. So the number
 * of replies that strangers can trigger is bounded, and no call sends from
 * within.
 */
#include <stdlib.h>

#include "net/internal.h"

uint8_t *ur_net_put_l2(const struct ur_net *net, uint8_t *frame,
		       const uint8_t mac[UR_MAC_LEN], uint16_t type)
{
	uint8_t *p = frame + UR_MACS_LEN;

	memcpy(frame, mac, UR_MAC_LEN);
	memcpy(frame + UR_MAC_LEN, net->cfg.mac, UR_MAC_LEN);
	if (net->cfg.vlan) {
		ur_put_be16(p, UR_ETHERTYPE_VLAN);
		ur_put_be16(p + 2,
			    (uint16_t)(net->cfg.pcp << 13 | net->cfg.vlan));
		p += UR_VLAN_LEN;
	}
	ur_put_be16(p, type);
	return p + 2;
}

struct ur_net_frame *ur_outbox_new(struct ur_net *net, uint32_t len,
				   const uint8_t mac[UR_MAC_LEN], uint16_t type,
				   uint8_t **body)
{
	struct ur_net_frame *f = NULL;

	if (net->noutbox < UR_NET_OUTBOX)
		f = malloc(sizeof(*f) + net->l2 + len);
	if (!f) {
		net->count.drop_tx_full++;
		return NULL;
	}
	ur_list_init(&f->node);
	f->len = net->l2 + len;
	*body = ur_net_put_l2(net, f->data, mac, type);
	return f;
}

/* Also for parked frames, which have no reserved slot: they all come when the
 * neighbour replies, and are sent at once. */
void ur_outbox_push(struct ur_net *net, struct ur_net_frame *f)
{
	if (net->noutbox >= UR_NET_OUTBOX + UR_NET_RELEASED) {
		net->count.drop_tx_full++;
		free(f);
		return;
	}
	ur_list_add_tail(&net->outbox, &f->node);
	net->noutbox++;
}

void ur_outbox_drop_all(struct ur_net *net)
{
	ur_list_each_safe(struct ur_net_frame, f, &net->outbox, node)
		free(f);
	ur_list_init(&net->outbox);
	net->noutbox = 0;
}

uint32_t ur_net_output(struct ur_net *net, uint8_t *buf, uint32_t cap)
{
	uint32_t len = 0;

	ur_list_each_safe(struct ur_net_frame, f, &net->outbox, node) {
		ur_list_del(&f->node);
		net->noutbox--;
		if (f->len <= cap) {
			len = f->len;
			memcpy(buf, f->data, len);
			net->count.tx_frames++;
		} else {
			net->count.drop_tx_full++;
		}
		free(f);
		if (len)
			break;
	}
	return len;
}

void ur_net_put_ip4(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16],
		    uint8_t proto, uint8_t ttl, uint32_t payload)
{
	memset(ip, 0, UR_IPV4_LEN);
	ip[0] = 0x45;
	ur_put_be16(ip + 2, (uint16_t)(UR_IPV4_LEN + payload));
	ur_put_be16(ip + 6, UR_IP4_DF);
	ip[8] = ttl;
	ip[9] = proto;
	memcpy(ip + 12, src + 12, 4);
	memcpy(ip + 16, dst + 12, 4);
	ur_csum_ipv4(ip);
}

void ur_net_put_ip6(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16],
		    uint8_t proto, uint8_t hops, uint32_t payload)
{
	memset(ip, 0, 8);
	ip[0] = 0x60;
	ur_put_be16(ip + 4, (uint16_t)payload);
	ip[6] = proto;
	ip[7] = hops;
	memcpy(ip + 8, src, 16);
	memcpy(ip + 24, dst, 16);
}

static uint16_t icmp6_sum(const uint8_t src[16], const uint8_t dst[16],
			  const uint8_t *icmp, uint32_t len)
{
	uint64_t sum = (uint64_t)UR_IPPROTO_ICMPV6 + len;

	sum = ur_csum_add(sum, src, 16);
	sum = ur_csum_add(sum, dst, 16);
	return ur_csum_fold(ur_csum_add(sum, icmp, len));
}

void ur_net_sum_icmp6(const uint8_t src[16], const uint8_t dst[16],
		      uint8_t *icmp, uint32_t len)
{
	ur_put_be16(icmp + 2, 0);
	ur_put_be16(icmp + 2, icmp6_sum(src, dst, icmp, len));
}

bool ur_net_check_icmp6(const struct ur_net_pkt *p)
{
	return (p->flags & UR_NET_RX_L4_GOOD) ||
	       icmp6_sum(p->src, p->dst, p->payload, p->payload_len) == 0;
}
