/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/proto.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

enum {
	FLAG_BIG_ENDIAN = 1 << 0,
	FLAG_IOMAP = 1 << 1,
	IOMAP_EXACT = 128, /* and the bit that marks a number of 256s */
	UDP_TAG = 0x55555555,
	UDP_OP_DATA = 0,
	UDP_OP_ANSWER = 7,
	V4_DGRAM_LEN = 8,
	V6_DGRAM_LEN = 24,
	V4_UDP_LEN = 16,
	V6_UDP_LEN = 28,
};

bool urs_big_endian(void)
{
	return htons(1) == 1;
}

static void put_sge(struct ur_wr *w, const struct urs_sge *s)
{
	ur_wr_be64(w, s->addr);
	ur_wr_be32(w, s->key);
	ur_wr_be32(w, s->length);
}

static struct urs_sge get_sge(struct ur_rd *r)
{
	struct urs_sge s;

	s.addr = ur_rd_be64(r);
	s.key = ur_rd_be32(r);
	s.length = ur_rd_be32(r);
	return s;
}

void urs_hello_encode(const struct urs_hello *h, uint8_t out[URS_HELLO_LEN])
{
	struct ur_wr w = ur_wr_init(out, URS_HELLO_LEN);

	ur_wr_u8(&w, URS_VERSION);
	ur_wr_u8(&w, (h->big_endian ? FLAG_BIG_ENDIAN : 0) |
			     (h->has_iomap ? FLAG_IOMAP : 0));
	ur_wr_be16(&w, h->credits);
	ur_wr_be24(&w, 0);
	ur_wr_u8(&w, urs_iomap_pack(h->iomap_size));
	put_sge(&w, &h->sgl);
	put_sge(&w, &h->data);
}

int urs_hello_decode(const void *buf, size_t len, struct urs_hello *out)
{
	struct ur_rd r = ur_rd_init(buf, len);
	struct urs_hello h = { 0 };
	uint8_t version = ur_rd_u8(&r);
	uint8_t flags = ur_rd_u8(&r);
	uint8_t maps;

	h.credits = ur_rd_be16(&r);
	ur_rd_be24(&r);
	maps = ur_rd_u8(&r);
	h.sgl = get_sge(&r);
	h.data = get_sge(&r);
	if (r.bad)
		return -EPROTO;
	if (version != URS_VERSION)
		return -ENOTSUP;
	if (h.sgl.length == 0)
		return -EPROTO;
	h.big_endian = flags & FLAG_BIG_ENDIAN;
	h.has_iomap = flags & FLAG_IOMAP;
	if (h.has_iomap)
		h.iomap_size = urs_iomap_unpack(maps);
	*out = h;
	return 0;
}

uint8_t urs_iomap_pack(unsigned int n)
{
	if (n <= IOMAP_EXACT)
		return (uint8_t)n;
	if (n > 0x7fff)
		n = 0x7fff;
	return (uint8_t)(IOMAP_EXACT | (n >> 8));
}

uint16_t urs_iomap_unpack(uint8_t packed)
{
	if (packed <= IOMAP_EXACT)
		return packed;
	return (uint16_t)((packed & (IOMAP_EXACT - 1)) << 8);
}

uint16_t urs_iomap_round(unsigned int n)
{
	return urs_iomap_unpack(urs_iomap_pack(n));
}

struct urs_sge urs_sge_swap(struct urs_sge s)
{
	s.addr = __builtin_bswap64(s.addr);
	s.key = __builtin_bswap32(s.key);
	s.length = __builtin_bswap32(s.length);
	return s;
}

struct urs_iomap urs_iomap_swap(struct urs_iomap m)
{
	m.offset = __builtin_bswap64(m.offset);
	m.sge = urs_sge_swap(m.sge);
	return m;
}

socklen_t urs_addr_len(const union urs_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? sizeof(a->in6) : sizeof(a->in4);
}

bool urs_addr_equal(const union urs_addr *a, const union urs_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET6)
		return a->in6.sin6_port == b->in6.sin6_port &&
		       !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16);
	return a->in4.sin_port == b->in4.sin_port &&
	       a->in4.sin_addr.s_addr == b->in4.sin_addr.s_addr;
}

bool urs_addr_is_any(const union urs_addr *a)
{
	if (a->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
	return a->in4.sin_addr.s_addr == htonl(INADDR_ANY);
}

uint16_t urs_addr_port_be(const union urs_addr *a)
{
	return a->sa.sa_family == AF_INET6 ? a->in6.sin6_port : a->in4.sin_port;
}

void urs_addr_set_port_be(union urs_addr *a, uint16_t port)
{
	if (a->sa.sa_family == AF_INET6)
		a->in6.sin6_port = port;
	else
		a->in4.sin_port = port;
}

int urs_addr_set(union urs_addr *out, const struct sockaddr *sa, socklen_t len)
{
	size_t want;

	if (!sa || len < sizeof(sa->sa_family))
		return -EINVAL;
	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	want = sa->sa_family == AF_INET6 ? sizeof(out->in6) : sizeof(out->in4);
	if (len < want)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	memcpy(out, sa, want);
	return 0;
}

void urs_addr_get(const union urs_addr *a, struct sockaddr *out, socklen_t *len)
{
	socklen_t full = urs_addr_len(a);

	if (!len)
		return;
	if (out)
		memcpy(out, a, *len < full ? *len : full);
	*len = full;
}

size_t urs_dgram_hdr_encode(const union urs_addr *src,
			    uint8_t out[URS_DGRAM_HDR_MAX])
{
	bool v6 = src->sa.sa_family == AF_INET6;
	size_t len = v6 ? V6_DGRAM_LEN : V4_DGRAM_LEN;

	out[0] = v6 ? 6 : 4;
	out[1] = (uint8_t)len;
	/* Ports, addresses and the flow are in network order already. */
	if (v6) {
		memcpy(out + 2, &src->in6.sin6_port, 2);
		memcpy(out + 4, &src->in6.sin6_flowinfo, 4);
		memcpy(out + 8, &src->in6.sin6_addr, 16);
	} else {
		memcpy(out + 2, &src->in4.sin_port, 2);
		memcpy(out + 4, &src->in4.sin_addr, 4);
	}
	return len;
}

int urs_dgram_hdr_decode(const void *buf, size_t len, union urs_addr *src)
{
	const uint8_t *p = buf;
	union urs_addr a = { 0 };

	if (len < V4_DGRAM_LEN || len < p[1])
		return -EPROTO;
	if (p[0] == 4 && p[1] == V4_DGRAM_LEN) {
		a.in4.sin_family = AF_INET;
		memcpy(&a.in4.sin_port, p + 2, 2);
		memcpy(&a.in4.sin_addr, p + 4, 4);
	} else if (p[0] == 6 && p[1] == V6_DGRAM_LEN) {
		a.in6.sin6_family = AF_INET6;
		memcpy(&a.in6.sin6_port, p + 2, 2);
		memcpy(&a.in6.sin6_flowinfo, p + 4, 4);
		memcpy(&a.in6.sin6_addr, p + 8, 16);
	} else {
		return -EPROTO;
	}
	*src = a;
	return p[1];
}

size_t urs_udp_hdr_encode(const struct urs_udp_hdr *h,
			  uint8_t out[URS_UDP_HDR_MAX])
{
	bool v6 = h->addr.sa.sa_family == AF_INET6;
	struct ur_wr w = ur_wr_init(out, URS_UDP_HDR_MAX);
	size_t len = v6 ? V6_UDP_LEN : V4_UDP_LEN;

	ur_wr_be32(&w, UDP_TAG);
	ur_wr_u8(&w, v6 ? 6 : 4);
	ur_wr_u8(&w, h->answer ? UDP_OP_ANSWER : UDP_OP_DATA);
	ur_wr_u8(&w, (uint8_t)len);
	ur_wr_u8(&w, 0);
	ur_wr_be32(&w, h->qpn & 0xffffff);
	if (v6)
		memcpy(w.p, &h->addr.in6.sin6_addr, 16);
	else
		memcpy(w.p, &h->addr.in4.sin_addr, 4);
	return len;
}

int urs_udp_hdr_decode(const void *buf, size_t len, struct urs_udp_hdr *out)
{
	struct ur_rd r = ur_rd_init(buf, len);
	struct urs_udp_hdr h = { 0 };
	uint32_t tag = ur_rd_be32(&r);
	uint8_t version = ur_rd_u8(&r);
	uint8_t op = ur_rd_u8(&r);
	uint8_t hdr_len = ur_rd_u8(&r);
	const uint8_t *a;

	ur_rd_u8(&r);
	h.qpn = ur_rd_be32(&r) & 0xffffff;
	a = ur_rd_bytes(&r, version == 6 ? 16 : 4);
	if (r.bad || tag != UDP_TAG)
		return -EPROTO;
	if (version == 4 && hdr_len == V4_UDP_LEN) {
		h.addr.in4.sin_family = AF_INET;
		memcpy(&h.addr.in4.sin_addr, a, 4);
	} else if (version == 6 && hdr_len == V6_UDP_LEN) {
		h.addr.in6.sin6_family = AF_INET6;
		memcpy(&h.addr.in6.sin6_addr, a, 16);
	} else {
		return -EPROTO;
	}
	if (op != UDP_OP_DATA && op != UDP_OP_ANSWER)
		return -EPROTO;
	h.answer = op == UDP_OP_ANSWER;
	*out = h;
	return hdr_len;
}
