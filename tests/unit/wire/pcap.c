/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap.h"

#include <string.h>

#include "base/bytes.h"

#define MAGIC_US    0xa1b2c3d4u
#define LINK_ETHER  1u
#define ETHER_IPV4  0x0800
#define ETHER_IPV6  0x86dd
#define PROTO_UDP   17
#define PORT_ROCE   4791
#define UDP_HDR_LEN 8u

int pcap_open(struct pcap *p, const char *path)
{
	uint32_t head[6];

	p->file = fopen(path, "rb");
	if (!p->file)
		return -1;
	if (fread(head, sizeof(head), 1, p->file) == 1 && head[0] == MAGIC_US &&
	    head[5] == LINK_ETHER)
		return 0;
	pcap_close(p);
	return -1;
}

void pcap_close(struct pcap *p)
{
	fclose(p->file);
}

static void get_ipv4(struct ur_rd *r, struct pcap_packet *out, uint8_t *proto)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	size_t header = (ur_rd_u8(r) & 0xfu) * 4u;
	const uint8_t *p;

	ur_rd_bytes(r, 3);
	out->id = ur_rd_be16(r);
	ur_rd_bytes(r, 3);
	*proto = ur_rd_u8(r);
	ur_rd_bytes(r, 2);
	memcpy(out->flow.src, mapped, 12);
	memcpy(out->flow.dst, mapped, 12);
	p = ur_rd_bytes(r, 8);
	if (p) {
		memcpy(out->flow.src + 12, p, 4);
		memcpy(out->flow.dst + 12, p + 4, 4);
	}
	ur_rd_bytes(r, header - 20);
	out->v4 = true;
}

static void get_ipv6(struct ur_rd *r, struct pcap_packet *out, uint8_t *proto)
{
	const uint8_t *p;

	ur_rd_bytes(r, 6);
	*proto = ur_rd_u8(r);
	ur_rd_u8(r);
	p = ur_rd_bytes(r, 32);
	if (p) {
		memcpy(out->flow.src, p, 16);
		memcpy(out->flow.dst, p + 16, 16);
	}
}

static void dissect(const uint8_t *frame, size_t len, struct pcap_packet *out)
{
	struct ur_rd r = ur_rd_init(frame, len);
	uint8_t proto = 0;
	uint16_t type;

	memset(out, 0, sizeof(*out));
	ur_rd_bytes(&r, 12);
	type = ur_rd_be16(&r);
	if (type == ETHER_IPV4)
		get_ipv4(&r, out, &proto);
	else if (type == ETHER_IPV6)
		get_ipv6(&r, out, &proto);
	if (proto != PROTO_UDP)
		return;
	out->flow.sport = ur_rd_be16(&r);
	out->flow.dport = ur_rd_be16(&r);
	out->udp_len = ur_rd_be16(&r) - UDP_HDR_LEN;
	ur_rd_be16(&r);
	out->udp = ur_rd_bytes(&r, out->udp_len);
	out->roce = !r.bad && out->flow.dport == PORT_ROCE;
}

int pcap_next(struct pcap *p, struct pcap_packet *out)
{
	uint32_t head[4]; /* seconds, microseconds, captured, on the wire */

	if (fread(head, sizeof(head), 1, p->file) != 1 ||
	    head[2] > sizeof(p->frame) || head[2] != head[3] ||
	    fread(p->frame, head[2], 1, p->file) != 1)
		return 0;
	dissect(p->frame, head[2], out);
	return 1;
}
