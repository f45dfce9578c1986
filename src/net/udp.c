/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP (RFC 768): port 4791 is RoCE's, no other is ours. */
#include "net/internal.h"
#include "wire/bth.h"

static void fill(const struct ur_net *net, const struct ur_net_pkt *p,
		 uint32_t len, struct ur_rx *rx)
{
	rx->data = p->payload + UR_UDP_LEN;
	rx->len = len - UR_UDP_LEN;
	rx->scope_id = net->cfg.scope_id;
	memcpy(rx->src, p->src, 16);
	memcpy(rx->dst, p->dst, 16);
	rx->sport = ur_be16_at(p->payload);
	rx->index = p->v4 ? p->id : 0;
	rx->tclass = p->tclass;
	rx->hop_limit = p->hops;
	rx->dst_unknown = false;
	rx->icrc_checked = false;
}

enum ur_net_verdict ur_udp_input(struct ur_net *net, struct ur_net_pkt *p,
				 struct ur_net_in *out)
{
	uint32_t len =
		p->payload_len < UR_UDP_LEN ? 0 : ur_be16_at(p->payload + 4);

	if (len < UR_UDP_LEN || len > p->payload_len) {
		net->count.drop_udp_length++;
		return UR_NET_DONE;
	}
	if (p->flags & UR_NET_RX_L4_BAD) {
		net->count.drop_udp_sum++;
		return UR_NET_DONE;
	}
	if (ur_be16_at(p->payload + 2) != UR_ROCE_PORT)
		return ur_net_to_host(net, out, p);
	/* IBTA A17.3.1: no options, no extension headers. */
	if (p->extended) {
		if (p->v4)
			net->count.drop_ip_options++;
		else
			net->count.drop_ip_extension++;
		return UR_NET_DONE;
	}
	net->count.rx_roce++;
	fill(net, p, len, &out->roce);
	ur_known_add(net, p, &out->roce);
	return UR_NET_ROCE;
}
