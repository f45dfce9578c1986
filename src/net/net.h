/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet and IP of a port that no kernel serves: between RoCEv2 and the
 * frames of a poll mode driver.  A pure object: no thread, clock, lock or
 * system call; one caller at a time.  Time is an argument (nanoseconds of a
 * monotonic clock), addresses are 16 bytes and IPv4 is mapped
 * (::ffff:a.b.c.d).
 *
 * Four entry points, as in every protocol:
 *
 *   ur_net_input()     a frame arrived: is it for RoCE, the host, or done?
 *   ur_net_output()    the next frame that the stack itself has to send
 *   ur_net_deadline()  when ur_net_expire() is due
 *   ur_net_expire()    timers
 *
 * After any of the others call ur_net_output() until it returns 0.
 *
 * RoCE's packets do not pass through ur_net_output().  The caller writes them
 * with the headers of a flow:
 *
 *   err = ur_net_flow(net, &key, now, &f);          once for a burst
 *   ur_net_put(f, frame, ip_id, payload_len);       for each packet
 *   ... the payload follows f->len bytes on ...
 *   if (f->sums & UR_NET_SUM_SOFT)
 *           ur_net_sum(f, frame);
 *   if (f->ready)
 *           ... to the port ...
 *   else
 *           ur_net_park(net, f, frame, len, now);   until the neighbour replies
 */
#ifndef UR_NET_NET_H
#define UR_NET_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/packet.h"
#include "net/counters.h"

#define UR_NET_ADDRS	  16u	/* per port */
#define UR_NET_NEIGHS	  1024u /* cached neighbours */
#define UR_NET_FLOWS	  4096u /* flows with cached headers */
/* Bytes of frames and their descriptors that wait for one neighbour (as much as
 * Linux keeps), and in total. */
#define UR_NET_PARKED	  212992u
#define UR_NET_PARKED_ALL (4u << 20)
#define UR_NET_OUTBOX	  256u	/* frames that wait for ur_net_output() */
#define UR_NET_RELEASED	  4096u /* including those released by a neighbour */
#define UR_NET_HDR_MAX	  68u	/* Ethernet, tag, IPv6, UDP; a multiple of 4 */
#define UR_NET_MTU_MIN4	  576u
#define UR_NET_MTU_MIN6	  1280u
#define UR_NET_MTU_MAX	  9216u
#define UR_NET_FRAME_MAX  (UR_NET_MTU_MAX + 18u)

/* Offloads of the port for transmitted frames. */
#define UR_NET_TX_IPV4_SUM 1u /* the checksum of the IPv4 header */
#define UR_NET_TX_UDP_SUM                                                      \
	2u /* that of UDP; the field holds the pseudo header's */

/* An address of this port and the length of its network prefix (of 32 bits for
 * IPv4, of 128 for IPv6). */
struct ur_net_addr {
	uint8_t ip[16];
	uint8_t prefix;
};

enum ur_net_event_kind {
	UR_NET_ADDR_DUPLICATE, /* mac_new has our address too */
	UR_NET_NEIGH_CLAIM, /* mac_new claims addr, which mac_old has: probing */
	UR_NET_NEIGH_MOVED, /* mac_old no longer replies: addr is at mac_new */
	UR_NET_UNREACHABLE, /* no reply from the neighbour, or an ICMP error */
	UR_NET_TOO_BIG,	    /* packets to addr may have at most mtu bytes */
	UR_NET_EVENT_KINDS,
};

struct ur_net_event {
	enum ur_net_event_kind kind;
	uint8_t addr[16];
	uint8_t mac_old[6];
	uint8_t mac_new[6];
	uint32_t mtu; /* of IP packets */
};

struct ur_net_config {
	uint8_t mac[6];
	uint16_t vlan;	   /* 1 to 4094: VLAN tag of frames; 0: untagged */
	uint8_t pcp;	   /* priority in the tag of sent frames */
	uint32_t mtu;	   /* of IP packets, UR_NET_MTU_MIN6 to _MAX */
	uint32_t scope_id; /* ur_rx.scope_id of received packets */
	uint32_t naddrs;
	struct ur_net_addr addrs[UR_NET_ADDRS];
	uint8_t gateway4[16]; /* zeros: none */
	uint8_t gateway6[16];
	uint32_t tx; /* UR_NET_TX_ */
	/*
	 * UDP over IPv4 carries a checksum even where the port does not compute
	 * it. Otherwise it is 0 (RFC 768): the ICRC protects the packet, but
	 * Linux's GRO does not merge such packets.
	 */
	bool udp4_sum;
	/*
	 * Number of probes for duplicate addresses (RFC 5227, RFC 4862); 0:
	 * announce at once. A duplicate address is reported
	 * (UR_NET_ADDR_DUPLICATE) and not announced, but kept, as Linux does for
	 * IPv4.
	 */
	uint32_t probes;
	uint64_t seed; /* for jitter */
	/* Called from within input, expire and park; it must not call back. May
	 * be NULL. */
	void (*event)(void *arg, const struct ur_net_event *ev);
	void *arg;
};

struct ur_net;

/* 0; -EINVAL: invalid configuration; -ENOMEM. Addresses are probed from the
 * first ur_net_expire() on, which is due at once. */
int ur_net_create(const struct ur_net_config *cfg, struct ur_net **out);
void ur_net_destroy(struct ur_net *net);

/* ---- Input ---- */

/* Receive offloads: what the port verified. */
#define UR_NET_RX_IP_GOOD 1u /* the IPv4 header's checksum is right */
#define UR_NET_RX_L4_GOOD 2u /* those of UDP, TCP or ICMP too */
#define UR_NET_RX_L4_BAD  4u

struct ur_net_rx {
	const uint8_t *frame; /* from the Ethernet header on, without FCS */
	uint32_t len;
	uint16_t tpid; /* not 0: the port stripped this tag */
	uint16_t tci;
	uint32_t flags; /* UR_NET_RX_ */
};

enum ur_net_verdict {
	UR_NET_DONE, /* nothing left to do: answered, or dropped and counted */
	UR_NET_ROCE, /* out->roce is to go to ur_roce_input() */
	UR_NET_HOST, /* the frame is for the host */
};

struct ur_net_in {
	struct ur_rx roce; /* UR_NET_ROCE: points into the frame; the IPv4
			    * identification is its index */
	uint16_t l3;	   /* UR_NET_HOST: offset of the header after the tag */
};

/* A frame has arrived. The UDP checksum of RoCE is not verified unless the port
 * did: the ICRC is stronger. *out is written according to the verdict. */
enum ur_net_verdict ur_net_input(struct ur_net *net, const struct ur_net_rx *rx,
				 uint64_t now_ns, struct ur_net_in *out);

/* ---- Output: RoCE ---- */

struct ur_net_key {
	uint8_t src[16]; /* one of our addresses */
	uint8_t dst[16];
	uint16_t sport;
	uint8_t tclass;	   /* DSCP and ECN */
	uint8_t hop_limit; /* 0: 64 */
};

/* How the checksums of a flow's packets are computed. */
#define UR_NET_SUM_IP	1u /* the port: of the IPv4 header (field is 0) */
#define UR_NET_SUM_UDP	2u /* the port: of UDP (field: pseudo header's) */
#define UR_NET_SUM_SOFT 4u /* the caller: ur_net_sum() */

/* Headers of the packets to one destination.  To be read only. */
struct ur_net_flow {
	uint8_t hdr[UR_NET_HDR_MAX];
	uint8_t len; /* bytes of hdr: offset of the payload */
	uint8_t l2;  /* length of Ethernet and tag */
	uint8_t l3;  /* length of IP */
	uint8_t sums;
	bool v4;
	bool ready;    /* the neighbour is resolved: send */
	bool local;    /* dst is this port's: deliver it locally only */
	uint16_t mtu;  /* of the path: largest IP packet */
	uint32_t sum3; /* of the IPv4 header without length and id */
	uint32_t sum4; /* of pseudo header and UDP header without lengths */
};

/*
 * The flow of a key; *out is valid at most until the next call of
 * ur_net_flow(), _input(), _expire() or a setter of this net.  Marks the
 * neighbour as used.
 *  -EADDRNOTAVAIL  src is not ours
 *  -ENETUNREACH    no route to dst
 *  -EHOSTUNREACH   the neighbour does not reply; it is resolved again later
 *  -EINVAL         src and dst are of different families, or dst is invalid
 *  -ENOMEM
 */
int ur_net_flow(struct ur_net *net, const struct ur_net_key *key,
		uint64_t now_ns, const struct ur_net_flow **out);

/* The largest UDP payload (BTH to ICRC) of a flow. */
static inline uint32_t ur_net_payload_max(const struct ur_net_flow *f)
{
	return f->mtu - (uint32_t)(f->len - f->l2);
}

/*
 * Write a packet's headers, f->len bytes, for `payload` bytes after them, at
 * most ur_net_payload_max(). `id` is the IPv4 identification, which the ICRC
 * covers: the packet's index in its burst.
 */
void ur_net_put(const struct ur_net_flow *f, uint8_t *frame, uint16_t id,
		uint32_t payload);

/* Write the UDP checksum of such a packet; its payload is in place. Only for
 * flows with UR_NET_SUM_SOFT. */
void ur_net_sum(const struct ur_net_flow *f, uint8_t *frame);

/*
 * The flow is not ready: keep a copy of the whole frame until the neighbour has
 * replied; ur_net_output() then returns it with all checksums. Beyond
 * UR_NET_PARKED the oldest are dropped, beyond UR_NET_PARKED_ALL new ones. 0,
 * -EMSGSIZE, -ENOMEM.
 */
int ur_net_park(struct ur_net *net, const struct ur_net_flow *f,
		const uint8_t *frame, uint32_t len, uint64_t now_ns);

/* ---- Output: other packets ---- */

/* Send a complete IP packet, with all checksums; the stack adds Ethernet and
 * keeps it while the neighbour is resolved. As ur_net_flow(), and -EMSGSIZE. */
int ur_net_send_ip(struct ur_net *net, const uint8_t *packet, uint32_t len,
		   uint64_t now_ns);

/* Ethernet header for such a packet. */
struct ur_net_hop {
	uint8_t l2[18];
	uint8_t len;
	bool ready; /* false: only ur_net_send_ip() can send it, later */
};

/* For a port that sends it itself; as ur_net_send_ip(). */
int ur_net_hop(struct ur_net *net, const uint8_t *packet, uint32_t len,
	       uint64_t now_ns, struct ur_net_hop *out);

/*
 * The next frame that the stack has to send (ARP, ND, ICMP, parked ones): its
 * length, with every header and checksum; 0: none. A frame longer than cap is
 * dropped; UR_NET_FRAME_MAX suffices for all.
 */
uint32_t ur_net_output(struct ur_net *net, uint8_t *buf, uint32_t cap);

/* ---- Time ---- */

/* When ur_net_expire() is to be called next; UR_NEVER: no timer. */
uint64_t ur_net_deadline(const struct ur_net *net);
void ur_net_expire(struct ur_net *net, uint64_t now_ns);

/* ---- Addresses and groups ---- */

/* The multicast MAC address of a group (RFC 1112 6.4, RFC 2464 7). */
void ur_net_group_mac(const uint8_t group[16], uint8_t mac[6]);

/*
 * The port's link has come up: announce our addresses, probe neighbours again.
 */
void ur_net_link_up(struct ur_net *net, uint64_t now_ns);

/* ---- Diagnostics ---- */

const struct ur_net_counters *ur_net_counters(const struct ur_net *net);

#endif
