/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two rsockets tell each other, as rdma-core's rsockets do (protocol
 * version 1).  Pure codec: no verbs, no sockets.
 *
 * A stream exchanges one hello each way in the CM's private data.  After that
 * everything is an RDMA write that carries a 32-bit message: as immediate
 * data, or, on transports without it, as a SEND of four bytes behind the
 * write.  Each side grants the other two halves of its receive buffer at a time
 * by writing struct urs_sge into the list that the other one has exposed.
 *
 * Datagrams carry a header of their own, both in the UDP packets by which two
 * sides find each other's QP and in the packets between the QPs.
 */
#ifndef UR_RSOCKET_PROTO_H
#define UR_RSOCKET_PROTO_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	URS_VERSION = 1,
	URS_HELLO_LEN = 40,
	URS_SGL_LEN = 2, /* entries that we expose */
	URS_MSG_LEN = 4,
	URS_MSG_MAX = 0x1fffffff, /* what fits beside the operation */
};

/* Entries of the lists that the peer writes, in the reader's byte order. */
struct urs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

struct urs_iomap {
	uint64_t offset;
	struct urs_sge sge;
};

/* Upper three bits of a message; the rest is its argument. */
enum urs_op {
	URS_OP_DATA = 0,  /* bytes written into the stream */
	URS_OP_SGL = 4,	  /* messages that may be sent, modulo 2^16 */
	URS_OP_IOMAP = 6, /* index of a changed mapping */
	URS_OP_CTRL = 7,  /* enum urs_ctrl */
};

enum urs_ctrl {
	URS_CTRL_DISCONNECT = 0,
	URS_CTRL_KEEPALIVE = 1,
	URS_CTRL_SHUTDOWN = 2,
};

static inline uint32_t urs_msg(enum urs_op op, uint32_t arg)
{
	return ((uint32_t)op << 29) | (arg & URS_MSG_MAX);
}

static inline unsigned urs_msg_op(uint32_t msg)
{
	return msg >> 29;
}

static inline uint32_t urs_msg_arg(uint32_t msg)
{
	return msg & URS_MSG_MAX;
}

struct urs_hello {
	bool big_endian; /* the sender's */
	bool has_iomap;	 /* iomap_size is valid */
	uint16_t credits;
	uint16_t iomap_size; /* mappings that the list has room for */
	struct urs_sge sgl;  /* where; length counts entries */
	struct urs_sge data; /* the first half of the receive buffer */
};

/* Our own byte order, as a hello tells it. */
bool urs_big_endian(void);

void urs_hello_encode(const struct urs_hello *h, uint8_t out[URS_HELLO_LEN]);

/* -EPROTO: too short, or no list; -ENOTSUP: another version. */
int urs_hello_decode(const void *buf, size_t len, struct urs_hello *out);

/* The number of mappings travels in eight bits: exact up to 128, in steps of
 * 256 above.  Round gives what remains of a number on this way. */
uint8_t urs_iomap_pack(unsigned int n);
uint16_t urs_iomap_unpack(uint8_t packed);
uint16_t urs_iomap_round(unsigned int n);

/* For a peer of the other byte order. */
struct urs_sge urs_sge_swap(struct urs_sge s);
struct urs_iomap urs_iomap_swap(struct urs_iomap m);

union urs_addr {
	struct sockaddr sa;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;
	struct sockaddr_storage any;
};

socklen_t urs_addr_len(const union urs_addr *a);
/* Family, address and port; nothing else. */
bool urs_addr_equal(const union urs_addr *a, const union urs_addr *b);
bool urs_addr_is_any(const union urs_addr *a);
uint16_t urs_addr_port_be(const union urs_addr *a);
void urs_addr_set_port_be(union urs_addr *a, uint16_t port);
/* 0, or -EINVAL, -EAFNOSUPPORT. */
int urs_addr_set(union urs_addr *out, const struct sockaddr *sa, socklen_t len);
/* As getsockname(): *len is what there is room for, then the full size. */
void urs_addr_get(const union urs_addr *a, struct sockaddr *out,
		  socklen_t *len);

enum {
	URS_DGRAM_HDR_MAX = 24,
	URS_UDP_HDR_MAX = 28,
	URS_DGRAM_SLOT = 2048, /* largest datagram, its header included */
};

/* In front of each datagram between QPs: its sender.  Returns its length. */
size_t urs_dgram_hdr_encode(const union urs_addr *src,
			    uint8_t out[URS_DGRAM_HDR_MAX]);
/* The length of the header, or -EPROTO. */
int urs_dgram_hdr_decode(const void *buf, size_t len, union urs_addr *src);

/* In front of each UDP packet. */
struct urs_udp_hdr {
	bool answer; /* carries no data, but is an answer to a packet that did */
	uint32_t qpn;
	union urs_addr addr; /* the sender's, which its QP belongs to */
};

size_t urs_udp_hdr_encode(const struct urs_udp_hdr *h,
			  uint8_t out[URS_UDP_HDR_MAX]);
int urs_udp_hdr_decode(const void *buf, size_t len, struct urs_udp_hdr *out);

#endif
