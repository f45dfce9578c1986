/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap_frame.h"

#include <string.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "raw/csum.h"

#define ETH_LEN	 14u
#define IPV4_LEN 20u
#define IPV6_LEN 40u
#define UDP_LEN	 8u
#define TCP_LEN	 20u
#define UDP	 17u
#define TCP	 6u
#define HOPS	 64u
#define PORT	 4791u

struct ur_frame_ends ur_frame_ends_of(const struct ur_capture_rec *rec)
{
	return (struct ur_frame_ends){ .src = rec->src,
				       .dst = rec->dst,
				       .sport = rec->sport,
				       .dport = rec->kind == UR_CAP_TCP
							? rec->dport
							: PORT,
				       .tclass = rec->tclass,
				       .hop_limit = rec->hop_limit };
}

/* Locally administered, from the end of the IP address: the process does not know
 * the real ones. */
static void put_mac(uint8_t *to, const uint8_t gid[16])
{
	to[0] = 2;
	to[1] = 0;
	memcpy(to + 2, gid + 12, 4);
}

static uint32_t put_ipv4(uint8_t *ip, const struct ur_frame_ends *e,
			 uint8_t proto, size_t len)
{
	memset(ip, 0, IPV4_LEN);
	ip[0] = 0x45;
	ip[1] = e->tclass;
	ur_put_be16(ip + 2, (uint16_t)(IPV4_LEN + len));
	ur_put_be16(ip + 4, e->id);
	ip[6] = 0x40; /* do not fragment */
	ip[8] = e->hop_limit ? e->hop_limit : HOPS;
	ip[9] = proto;
	memcpy(ip + 12, e->src + 12, 4);
	memcpy(ip + 16, e->dst + 12, 4);
	ur_put_be16(ip + 10, ur_csum_fold(ur_csum_add(0, ip, IPV4_LEN)));
	return IPV4_LEN;
}

static uint32_t put_ipv6(uint8_t *ip, const struct ur_frame_ends *e,
			 uint8_t proto, size_t len)
{
	ur_put_be32(ip, 6u << 28 | (uint32_t)e->tclass << 20);
	ur_put_be16(ip + 4, (uint16_t)len);
	ip[6] = proto;
	ip[7] = e->hop_limit ? e->hop_limit : HOPS;
	memcpy(ip + 8, e->src, 16);
	memcpy(ip + 24, e->dst, 16);
	return IPV6_LEN;
}

/* Ethernet and IP; where the transport's header goes, or NULL: too long. */
static uint8_t *put_ip(uint8_t *to, const struct ur_frame_ends *e,
		       uint8_t proto, size_t len)
{
	bool v4 = ur_addr_is_v4(e->dst);

	if (len > 65535u - IPV4_LEN)
		return NULL;
	put_mac(to, e->dst);
	put_mac(to + 6, e->src);
	ur_put_be16(to + 12, v4 ? 0x0800 : 0x86dd);
	to += ETH_LEN;
	return to + (v4 ? put_ipv4 : put_ipv6)(to, e, proto, len);
}

static uint16_t checksum(const struct ur_frame_ends *e, uint8_t proto,
			 const uint8_t *l4, size_t len)
{
	bool v4 = ur_addr_is_v4(e->dst);
	uint64_t sum = proto + (uint64_t)len;

	sum = ur_csum_add(sum, e->src + (v4 ? 12 : 0), v4 ? 4 : 16);
	sum = ur_csum_add(sum, e->dst + (v4 ? 12 : 0), v4 ? 4 : 16);
	return ur_csum_fold(ur_csum_add(sum, l4, (uint32_t)len));
}

uint32_t ur_frame_udp(uint8_t *to, const struct ur_frame_ends *e,
		      const uint8_t *payload, size_t len)
{
	uint8_t *udp = put_ip(to, e, UDP, UDP_LEN + len);
	uint16_t sum;

	if (!udp)
		return 0;
	ur_put_be16(udp, e->sport);
	ur_put_be16(udp + 2, e->dport);
	ur_put_be16(udp + 4, (uint16_t)(UDP_LEN + len));
	ur_put_be16(udp + 6, 0);
	memcpy(udp + UDP_LEN, payload, len);
	/* IPv4 may have none, as with many adapters. */
	if (!ur_addr_is_v4(e->dst)) {
		sum = checksum(e, UDP, udp, UDP_LEN + len);
		ur_put_be16(udp + 6, sum ? sum : 0xffff);
	}
	return (uint32_t)(udp + UDP_LEN + len - to);
}

uint32_t ur_frame_tcp(uint8_t *to, const struct ur_frame_ends *e,
		      const struct ur_frame_tcp *tcp, const uint8_t *payload,
		      size_t len)
{
	uint8_t *h = put_ip(to, e, TCP, TCP_LEN + len);

	if (!h)
		return 0;
	memset(h, 0, TCP_LEN);
	ur_put_be16(h, e->sport);
	ur_put_be16(h + 2, e->dport);
	ur_put_be32(h + 4, tcp->seq);
	ur_put_be32(h + 8, tcp->ack);
	h[12] = TCP_LEN / 4 << 4;
	h[13] = tcp->flags;
	ur_put_be16(h + 14, 65535);
	if (len)
		memcpy(h + TCP_LEN, payload, len);
	ur_put_be16(h + 16, checksum(e, TCP, h, TCP_LEN + len));
	return (uint32_t)(h + TCP_LEN + len - to);
}
