/* SPDX-License-Identifier: BSD-2-Clause */
#include "dataplane/tcp_packet.h"
#include "base/bytes.h"

#include <string.h>

#include "base/addr.h"

#define IP4_LEN	    20u
#define IP6_LEN	    40u
#define FRAG_LEN    8u
#define TCP_LEN	    20u
#define PROTO_TCP   6u
#define PROTO_FRAG  44u
#define OFFSET_MASK 0x1fffu
#define MORE	    0x2000u
#define DONT_FRAG   0x40u
#define TTL	    64u
#define FIN	    0x01u
#define SYN	    0x02u
#define RST	    0x04u
#define ACK	    0x10u
#define SUM_AT	    16u /* in the header of TCP */

static void read_tcp(const uint8_t *tcp, uint8_t from[2], uint8_t to[2],
		     struct ur_tcp_packet *p)
{
	memcpy(from, tcp, 2);
	memcpy(to, tcp + 2, 2);
	p->fin = tcp[13] & FIN;
	p->syn = tcp[13] & SYN;
	p->rst = tcp[13] & RST;
	p->ack = tcp[13] & ACK;
}

/* Where TCP begins; 0: it is none. */
static uint32_t find4(const uint8_t *packet, uint32_t len,
		      struct ur_tcp_packet *p)
{
	uint32_t hdr = (packet[0] & 15u) * 4, field;

	if (len < IP4_LEN || hdr < IP4_LEN || packet[9] != PROTO_TCP)
		return 0;
	field = ur_be16_at(packet + 6);
	p->fragment = field & (OFFSET_MASK | MORE);
	p->headless = field & OFFSET_MASK;
	memcpy(p->key, packet + 12, 8);
	memcpy(p->key + 32, packet + 4, 2);
	return hdr;
}

static uint32_t find6(const uint8_t *packet, uint32_t len,
		      struct ur_tcp_packet *p)
{
	const uint8_t *frag = packet + IP6_LEN;

	if (len < IP6_LEN)
		return 0;
	if (packet[6] == PROTO_TCP)
		return IP6_LEN;
	if (packet[6] != PROTO_FRAG || len < IP6_LEN + FRAG_LEN ||
	    frag[0] != PROTO_TCP)
		return 0;
	p->fragment = true;
	p->headless = ur_be16_at(frag + 2) & ~7u;
	memcpy(p->key, packet + 8, 32);
	memcpy(p->key + 32, frag + 4, 4);
	return IP6_LEN + FRAG_LEN;
}

static uint32_t find_tcp(const uint8_t *packet, uint32_t len,
			 struct ur_tcp_packet *p)
{
	uint32_t at = 0;

	memset(p, 0, sizeof(*p));
	if (!len)
		return 0;
	if (packet[0] >> 4 == 4)
		at = find4(packet, len, p);
	else if (packet[0] >> 4 == 6)
		at = find6(packet, len, p);
	return at && (p->headless || len >= at + TCP_LEN) ? at : 0;
}

bool ur_tcp_packet_in(const uint8_t *packet, uint32_t len,
		      struct ur_tcp_packet *p)
{
	uint32_t at = find_tcp(packet, len, p);

	if (!at)
		return false;
	ur_addr_of_packet(packet, p->ends.peer, p->ends.local);
	if (!p->headless)
		read_tcp(packet + at, p->ends.peer_port, p->ends.local_port, p);
	return true;
}

bool ur_tcp_packet_out(const uint8_t *packet, uint32_t len,
		       struct ur_tcp_packet *p)
{
	uint32_t at = find_tcp(packet, len, p), said, hdr;

	if (!at || p->fragment)
		return false;
	said = at == IP4_LEN ? ur_be16_at(packet + 2)
			     : IP6_LEN + ur_be16_at(packet + 4);
	hdr = (packet[at + 12] >> 4) * 4u;
	if ((at != IP4_LEN && at != IP6_LEN) || said != len || hdr < TCP_LEN ||
	    at + hdr > len)
		return false;
	ur_addr_of_packet(packet, p->ends.local, p->ends.peer);
	read_tcp(packet + at, p->ends.local_port, p->ends.peer_port, p);
	p->seq_end = ur_be32_at(packet + at + 4) + (len - at - hdr) + p->syn +
		     p->fin;
	return true;
}

/* ---- Writing ---- */

static uint32_t add(uint32_t sum, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i += 2)
		sum += ur_be16_at(p + i);
	return sum;
}

static void put_sum(uint8_t *at, uint32_t sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	sum = ~((sum >> 16) + sum);
	at[0] = (uint8_t)(sum >> 8);
	at[1] = (uint8_t)sum;
}

static uint32_t put_ip4(const struct ur_steer_ends *e, uint8_t *out)
{
	static const uint8_t head[12] = {
		0x45,	   0, 0,   IP4_LEN + TCP_LEN, 0, 0,
		DONT_FRAG, 0, TTL, PROTO_TCP
	};

	memcpy(out, head, sizeof(head));
	memcpy(out + 12, e->local + 12, 4);
	memcpy(out + 16, e->peer + 12, 4);
	put_sum(out + 10, add(0, out, IP4_LEN));
	return IP4_LEN;
}

static uint32_t put_ip6(const struct ur_steer_ends *e, uint8_t *out)
{
	static const uint8_t head[8] = { 0x60, 0,	0,	   0,
					 0,    TCP_LEN, PROTO_TCP, TTL };

	memcpy(out, head, sizeof(head));
	memcpy(out + 8, e->local, 16);
	memcpy(out + 24, e->peer, 16);
	return IP6_LEN;
}

uint32_t ur_tcp_packet_rst(const struct ur_steer_ends *e, uint32_t seq,
			   uint8_t out[UR_STEER_RST_MAX])
{
	bool v4 = ur_addr_is_v4(e->peer);
	uint32_t at = v4 ? put_ip4(e, out) : put_ip6(e, out);
	uint8_t *tcp = out + at;
	/* The pseudo header: addresses, protocol, length. */
	uint32_t sum = v4 ? add(0, out + 12, 8) : add(0, out + 8, 32);

	memset(tcp, 0, TCP_LEN);
	memcpy(tcp, e->local_port, 2);
	memcpy(tcp + 2, e->peer_port, 2);
	ur_put_be32(tcp + 4, seq);
	tcp[12] = TCP_LEN / 4 << 4;
	tcp[13] = RST;
	put_sum(tcp + SUM_AT, add(sum + PROTO_TCP + TCP_LEN, tcp, TCP_LEN));
	return at + TCP_LEN;
}
