/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ethernet and IP of one port that no kernel serves: what is between RoCEv2
 * and the frames of a poll mode driver.  A pure object: no thread, clock, lock
 * or system call; one caller at a time.  Time is an argument (nanoseconds of a
 * monotonic clock), addresses are 16 bytes and IPv4 is mapped
 * (::ffff:a.b.c.d).
 *
 * Four entry points, as every protocol has them:
 *
 *   ur_net_input()     a frame came in: is it RoCE's, the host's, or done with?
 *   ur_net_output()    the next frame that the stack itself wants to send
 *   ur_net_deadline()  when ur_net_expire() is due
 *   ur_net_expire()    timers
 *
 * Call ur_net_output() until it returns 0 after any of the others.
 *
 * What RoCE sends does not pass through ur_net_output().  It is written by the
 * caller with the headers of a flow:
 *
 *   err = ur_net_flow(net, &key, now, &f);          once for a burst
 *   ur_net_put(f, frame, ip_id, payload_len);       for each packet
 *   … f->len bytes on the payload follows …
 *   if (f->sums & UR_NET_SUM_SOFT)
 *           ur_net_sum(f, frame, iov, niov);
 *   if (f->ready)
 *           … to the port …
 *   else
 *           ur_net_park(net, f, frame, len, now);   until the neighbour answers
 */
#ifndef UR_NET_NET_H
#define UR_NET_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/packet.h"
#include "net/counters.h"

#define UR_NET_ADDRS	  16u	/* of a port */
#define UR_NET_GROUPS	  64u	/* multicast groups joined at a time */
#define UR_NET_NEIGHS	  1024u /* neighbours known at a time */
#define UR_NET_FLOWS	  4096u /* flows with headers ready */
/* Bytes of frames, and what keeps them, that wait for one neighbour (as much as
 * Linux keeps), and for all. */
#define UR_NET_PARKED	  212992u
#define UR_NET_PARKED_ALL (4u << 20)
#define UR_NET_OUTBOX	  256u	/* frames that wait for ur_net_output() */
#define UR_NET_RELEASED	  4096u /* … and such as waited for a neighbour */
#define UR_NET_HDR_MAX	  68u	/* Ethernet, tag, IPv6, UDP; a multiple of 4 */
#define UR_NET_MTU_MIN4	  576u
#define UR_NET_MTU_MIN6	  1280u
#define UR_NET_MTU_MAX	  9216u
#define UR_NET_FRAME_MAX  (UR_NET_MTU_MAX + 18u)

/* What the port does by itself with frames that it is given to send. */
#define UR_NET_TX_IPV4_SUM 1u /* the checksum of the IPv4 header */
#define UR_NET_TX_UDP_SUM  2u /* that of UDP, given the pseudo header's */

/* An address of this port and how many of its leading bits (of 32 for IPv4,
 * of 128 for IPv6) are those of the network. */
struct ur_net_addr {
	uint8_t ip[16];
	uint8_t prefix;
};

enum ur_net_event_kind {
	UR_NET_ADDR_READY,  /* an own address may be used */
	UR_NET_ADDR_TAKEN,  /* mac_new has our address too */
	UR_NET_NEIGH_CLAIM, /* mac_new claims addr, which is mac_old: probed */
	UR_NET_NEIGH_MOVED, /* … and mac_old answers no more: it is mac_new */
	UR_NET_UNREACHABLE, /* nobody there: no neighbour, or an ICMP says so */
	UR_NET_TOO_BIG,	    /* packets to addr may have at most mtu bytes */
	UR_NET_MACS,	    /* ur_net_macs() says something else now */
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
	uint16_t vlan;	   /* 1 to 4094: frames carry that tag; 0: none */
	uint8_t pcp;	   /* priority in the tag of what we send */
	uint32_t mtu;	   /* of IP packets, UR_NET_MTU_MIN6 to _MAX */
	uint32_t scope_id; /* told as ur_rx.scope_id of what comes in */
	uint32_t naddrs;
	struct ur_net_addr addrs[UR_NET_ADDRS];
	uint8_t gateway4[16]; /* zeros: none */
	uint8_t gateway6[16];
	uint32_t tx; /* UR_NET_TX_ */
	/* UDP on IPv4 carries a checksum even where the port does not compute
	 * it.  Without, it is 0 (RFC 768): the ICRC guards the packet, but
	 * Linux's GRO does not merge such packets. */
	bool udp4_sum;
	/* There is a host that takes what is not RoCE's (a TAP).  Without, the
	 * stack answers that nobody listens. */
	bool host;
	/* How often to ask whether somebody has our addresses already (RFC
	 * 5227, RFC 4862) before they are used; 0: announce them at once. */
	uint32_t probes;
	/* Use them meanwhile: addresses that were configured, and whose users
	 * cannot wait for seconds.  The questions follow one another faster,
	 * and an address that somebody has is told (UR_NET_ADDR_TAKEN) and not
	 * announced, but kept, as Linux does for IPv4. */
	bool early;
	uint64_t seed; /* for jitter */
	/* Called from within input, expire and park; it must not call back.
	 * May be NULL. */
	void (*event)(void *arg, const struct ur_net_event *ev);
	void *arg;
};

struct ur_net;

/* 0; -EINVAL: something in the configuration cannot be; -ENOMEM.  Addresses
 * are probed from the first ur_net_expire() on, which is due at once. */
int ur_net_create(const struct ur_net_config *cfg, struct ur_net **out);
void ur_net_destroy(struct ur_net *net);

/* ---- In ---- */

/* What the port found out about a received frame. */
#define UR_NET_RX_IP_GOOD 1u /* the IPv4 header's checksum is right */
#define UR_NET_RX_L4_GOOD 2u /* so is that of UDP, TCP or ICMP */
#define UR_NET_RX_L4_BAD  4u

struct ur_net_rx {
	const uint8_t *frame; /* from the Ethernet header on, without FCS */
	uint32_t len;
	uint16_t tpid; /* not 0: the port took this tag off the frame */
	uint16_t tci;
	uint32_t flags; /* UR_NET_RX_ */
};

enum ur_net_verdict {
	UR_NET_DONE, /* nothing is left to do: answered, or dropped, counted */
	UR_NET_ROCE, /* out->roce is to go to ur_roce_input() */
	UR_NET_HOST, /* the frame is the host's (only if there is one) */
};

struct ur_net_in {
	struct ur_rx roce; /* UR_NET_ROCE: points into the frame; the IPv4
			    * identification is its index */
	uint16_t l3; /* UR_NET_HOST: where what is behind the tag begins */
};

/*
 * A frame came in.  The checksum of UDP is not verified for RoCE unless the
 * port did: the ICRC covers more.  *out is written as the verdict says.
 */
enum ur_net_verdict ur_net_input(struct ur_net *net, const struct ur_net_rx *rx,
				 uint64_t now_ns, struct ur_net_in *out);

/* ---- Out: RoCE ---- */

struct ur_net_key {
	uint8_t src[16]; /* one of our addresses */
	uint8_t dst[16];
	uint16_t sport;
	uint8_t tclass;	   /* DSCP and ECN */
	uint8_t hop_limit; /* 0: 64 */
};

/* What is to be done about checksums of a flow's packets. */
#define UR_NET_SUM_IP	1u /* the port: of the IPv4 header (field is 0) */
#define UR_NET_SUM_UDP	2u /* the port: of UDP (field: pseudo header's) */
#define UR_NET_SUM_SOFT 4u /* the caller: ur_net_sum() */

/* Headers of the packets to one destination.  To be read only. */
struct ur_net_flow {
	uint8_t hdr[UR_NET_HDR_MAX];
	uint8_t len; /* bytes of hdr: where the payload begins */
	uint8_t l2;  /* of these Ethernet and tag … */
	uint8_t l3;  /* … and IP */
	uint8_t sums;
	bool v4;
	bool ready;    /* the neighbour is known: send */
	bool local;    /* dst is this port's: deliver it here, send nothing */
	bool member;   /* dst is a group that we are in: deliver it here too */
	uint16_t mtu;  /* of the path: largest IP packet */
	uint32_t sum3; /* of the IPv4 header without length and id */
	uint32_t sum4; /* of pseudo header and UDP header without lengths */
};

/*
 * The flow of a key; *out is valid until the next call of ur_net_flow(),
 * _input(), _expire() or _set_…() of this net, at most.  Marks the neighbour as
 * used.
 *  -EADDRNOTAVAIL  src is not ours, or not yet, or somebody else has it too
 *  -ENETUNREACH    neither a network of ours nor a gateway leads to dst
 *  -EHOSTUNREACH   the neighbour does not answer; it is asked again later
 *  -EINVAL         src and dst are not of one family, or dst cannot be
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
 * Write a packet's headers, f->len bytes, for `payload` bytes behind them, at
 * most ur_net_payload_max().  `id` is the IPv4 identification, which the ICRC
 * covers: the packet's place in its burst.
 */
void ur_net_put(const struct ur_net_flow *f, uint8_t *frame, uint16_t id,
		uint32_t payload);

/* Enter the UDP checksum of such a packet; its payload is iov.  Only for flows
 * with UR_NET_SUM_SOFT. */
void ur_net_sum(const struct ur_net_flow *f, uint8_t *frame,
		const struct iovec *iov, uint32_t niov);

/*
 * The flow is not ready: keep a copy of the whole frame until the neighbour
 * has answered, when it comes out of ur_net_output() with all checksums in it.
 * Of more than UR_NET_PARKED the oldest are dropped, and those that come when
 * UR_NET_PARKED_ALL are there.  0, -EMSGSIZE, -ENOMEM.
 */
int ur_net_park(struct ur_net *net, const struct ur_net_flow *f,
		const uint8_t *frame, uint32_t len, uint64_t now_ns);

/* A peer proves that what we sent to addr has arrived (an acknowledgement of
 * something new): its neighbour need not be asked. */
void ur_net_confirm(struct ur_net *net, const uint8_t addr[16],
		    uint64_t now_ns);

/* ---- Out: everything else ---- */

/*
 * Send an IP packet that somebody else has built, with all its checksums; the
 * stack adds Ethernet and keeps it while the neighbour is asked.  As
 * ur_net_flow(), and -EMSGSIZE.
 */
int ur_net_send_ip(struct ur_net *net, const uint8_t *packet, uint32_t len,
		   uint64_t now_ns);

/* Where such a packet goes: what stands before it. */
struct ur_net_hop {
	uint8_t l2[18];
	uint8_t len;
	bool ready; /* false: only ur_net_send_ip() can send it, later */
};

/* For a port that sends it itself; as ur_net_send_ip(). */
int ur_net_hop(struct ur_net *net, const uint8_t *packet, uint32_t len,
	       uint64_t now_ns, struct ur_net_hop *out);

/*
 * The next frame that the stack wants sent (ARP, ND, ICMP, what was parked):
 * its length, with every header and checksum; 0: nothing.  A frame that is
 * longer than cap is dropped; UR_NET_FRAME_MAX is enough for all.
 */
uint32_t ur_net_output(struct ur_net *net, uint8_t *buf, uint32_t cap);

/* ---- Time ---- */

/* When ur_net_expire() is to be called next; UR_NEVER: not at all. */
uint64_t ur_net_deadline(const struct ur_net *net);
void ur_net_expire(struct ur_net *net, uint64_t now_ns);

/* ---- Addresses and groups ---- */

/* May it be used as a source now? */
bool ur_net_addr_ready(const struct ur_net *net, const uint8_t addr[16]);

/*
 * Receive a multicast group; each join wants a leave.  -EINVAL: not a group,
 * or not joined; -ENOSPC: UR_NET_GROUPS others are.
 */
int ur_net_join(struct ur_net *net, const uint8_t group[16], uint64_t now_ns);
int ur_net_leave(struct ur_net *net, const uint8_t group[16], uint64_t now_ns);

/* The multicast MAC address of a group (RFC 1112 6.4, RFC 2464 7). */
void ur_net_group_mac(const uint8_t group[16], uint8_t mac[6]);

/*
 * The multicast MAC addresses that the port must receive, those of our
 * addresses' solicited-node groups included; how many there are.  If that is
 * more than cap, the first cap were written and some may be counted twice.
 */
uint32_t ur_net_macs(const struct ur_net *net, uint8_t (*macs)[6],
		     uint32_t cap);

/* The port's link has come up: announce our addresses, ask neighbours anew. */
void ur_net_link_up(struct ur_net *net, uint64_t now_ns);

/* ---- To be seen ---- */

enum ur_net_neigh_state {
	UR_NEIGH_INCOMPLETE, /* asked, no answer yet: packets wait */
	UR_NEIGH_REACHABLE,  /* has answered lately */
	UR_NEIGH_STALE,	     /* … not lately; to be asked when it is used */
	UR_NEIGH_DELAY,	     /* is used again: is confirmed, or asked soon */
	UR_NEIGH_PROBE,	     /* is asked again, and used meanwhile */
	UR_NEIGH_FAILED,     /* did not answer */
};

struct ur_net_neigh_info {
	uint8_t addr[16];
	uint8_t mac[6];
	enum ur_net_neigh_state state;
	uint32_t parked; /* bytes */
};

const char *ur_net_neigh_state_name(enum ur_net_neigh_state state);

/* Call fn for each neighbour. */
void ur_net_for_each_neigh(const struct ur_net *net,
			   void (*fn)(void *arg,
				      const struct ur_net_neigh_info *n),
			   void *arg);

const struct ur_net_counters *ur_net_counters(const struct ur_net *net);

#endif
