/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of net/.
 *
 *   net       create, inbound Ethernet, timers
 *   ip4, ip6  checks of inbound packets; destination
 *   known     fast path for packets of known flows
 *   icmp      echo, unreachable, too big; both families
 *   arp, nd   requests and replies about neighbours and addresses
 *   neigh     the cache of neighbours and its states
 *   addr      our own addresses: probed, announced, defended
 *   group     multicast groups that we receive
 *   flow      destinations, next hops, headers of RoCE's packets
 *   outbox    the stack's own frames that wait to be sent
 */
#ifndef UR_NET_INTERNAL_H
#define UR_NET_INTERNAL_H

#include <string.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/timer.h"
#include "net/net.h"
#include "raw/csum.h"

#define UR_MS 1000000ull
#define UR_S  1000000000ull

#define UR_MAC_LEN	     6u
#define UR_NET_ARP_LEN	     28u
#define UR_NET_HOPS	     64u
#define UR_ETHERTYPE_ARP     0x0806u
#define UR_VLAN_VID_MASK     0x0fffu
#define UR_IPPROTO_ICMP	     1u
#define UR_IPPROTO_ICMPV6    58u
#define UR_IP4_DF	     0x4000u
#define UR_IP4_FRAGMENT_MASK 0x3fffu /* more fragments, offset */

#define UR_NET_BUCKETS	    256u /* of the neighbour table */
#define UR_NET_FLOW_BUCKETS 4096u
#define UR_NET_KNOWN_FLOWS  16u /* inbound flows with cached headers */

enum ur_net_timer_kind {
	UR_NET_TIMER_NEIGH,
	UR_NET_TIMER_ADDR,
};

struct ur_net_timer {
	struct ur_timer timer;
	enum ur_net_timer_kind kind;
};

/* A frame in the outbox, or parked at a neighbour. */
struct ur_net_frame {
	struct ur_list node;
	uint32_t len;
	uint8_t data[];
};

enum ur_net_neigh_state {
	UR_NEIGH_INCOMPLETE, /* requested, no reply yet: packets wait */
	UR_NEIGH_REACHABLE,  /* has replied recently */
	UR_NEIGH_STALE,	     /* not recently; probed when it is used */
	UR_NEIGH_DELAY,	     /* used again: is confirmed, or probed soon */
	UR_NEIGH_PROBE,	     /* is being probed, and used meanwhile */
	UR_NEIGH_FAILED,     /* did not reply */
};

struct ur_neigh {
	struct ur_net_timer timer;
	struct ur_list node; /* in the list of all, used ones at the end */
	struct ur_neigh *hash_next;
	uint8_t addr[16];
	uint8_t mac[UR_MAC_LEN];
	uint8_t own; /* index of our address that requests are sent from */
	uint8_t state;
	uint8_t tries;	/* unanswered requests in this state */
	bool has_mac;	/* mac is, or was, its address */
	bool used;	/* we send to it */
	bool confirmed; /* mac came in answer to a request of ours */
	bool disputed;	/* another station claims its address */
	bool contested; /* mac has changed without a request */
	uint32_t parked_bytes;
	struct ur_list parked;
	struct ur_list dests; /* destinations reached through it */
};

/* An address that we send to. */
struct ur_dest {
	struct ur_list node; /* in its neighbour's list */
	struct ur_dest *hash_next;
	struct ur_list flows;
	uint8_t addr[16];
	struct ur_neigh *neigh; /* NULL: a group, or this port; or evicted */
	uint16_t pmtu;		/* 0: the port's MTU */
	uint64_t pmtu_until_ns; /* end of validity of pmtu */
	bool local;
	bool group;
};

struct ur_flow_entry {
	struct ur_net_flow flow;
	struct ur_net_key key;
	struct ur_flow_entry *hash_next;
	struct ur_list node; /* in its destination's list */
	struct ur_list lru;
	struct ur_dest *dest;
};

struct ur_own {
	struct ur_net_addr a;
	bool v4;
	uint8_t mask[16];
	struct ur_net_timer timer;
	uint32_t probes;   /* still to be sent; then it is announced */
	uint32_t announce; /* still to be sent */
	uint64_t defended_ns;
	bool defended;
};

/* Token bucket: a limit per second (RFC 4443 2.4 f). */
struct ur_net_bucket {
	uint64_t last_ns;
	uint32_t tokens;
	uint32_t burst;
	uint64_t per_ns;
};

/* The headers of a packet accepted for RoCE, without length, identification and
 * checksum of IPv4; their sum, and the result for RoCE. */
struct ur_net_known {
	uint32_t sum; /* 0: the entry is empty */
	uint8_t hdr[UR_NET_HDR_MAX];
	struct ur_rx rx;
};

struct ur_net {
	struct ur_net_config cfg;
	uint8_t l2; /* bytes of Ethernet and tag in sent frames */
	struct ur_timers timers;
	struct ur_rng rng;
	struct ur_net_counters count;
	uint32_t nown;
	struct ur_own own[UR_NET_ADDRS];
	struct ur_net_bucket echoes; /* limit of answers */

	uint32_t nneigh;
	uint32_t parked_bytes; /* of all neighbours */
	struct ur_list neighs;
	struct ur_neigh *neigh_hash[UR_NET_BUCKETS];

	uint32_t nflows;
	struct ur_list flows; /* in order of use, most recent last */
	struct ur_flow_entry *flow_hash[UR_NET_FLOW_BUCKETS];
	struct ur_dest *dest_hash[UR_NET_FLOW_BUCKETS];
	struct ur_flow_entry *last; /* the last one requested; NULL: freed */

	struct ur_net_known known[UR_NET_KNOWN_FLOWS];

	uint32_t noutbox;
	struct ur_list outbox;
};

/* A received packet during the checks. */
struct ur_net_pkt {
	const uint8_t *frame;
	uint32_t flags; /* UR_NET_RX_ */
	uint16_t l3;	/* offset of the header after Ethernet and tag */
	bool l2_group;	/* its MAC address is a group's */
	bool v4;
	bool extended; /* options or extension headers */
	bool to_group; /* its IP address is a group's */
	uint8_t proto;
	uint8_t tclass;
	uint8_t hops;
	uint16_t id;
	const uint8_t *ip; /* header, and how many of its bytes are present */
	const uint8_t *payload;
	uint32_t payload_len;
	uint8_t src[16];
	uint8_t dst[16];
	uint64_t now_ns;
};

/* ---- Addresses ---- */

static inline bool ur_net_is_link_local(const uint8_t a[16])
{
	return a[0] == 0xfe && (a[1] & 0xc0) == 0x80;
}

static inline bool ur_mac_is_group(const uint8_t mac[UR_MAC_LEN])
{
	return mac[0] & 1;
}

/* A valid address of a single station. */
static inline bool ur_mac_is_station(const uint8_t mac[UR_MAC_LEN])
{
	static const uint8_t zero[UR_MAC_LEN];

	return !ur_mac_is_group(mac) && memcmp(mac, zero, UR_MAC_LEN) != 0;
}

uint32_t ur_net_hash(const void *data, uint32_t len);

static inline void ur_net_report(const struct ur_net *net,
				 const struct ur_net_event *ev)
{
	if (net->cfg.event)
		net->cfg.event(net->cfg.arg, ev);
}

/* Is there a token for one more? */
bool ur_net_bucket_take(struct ur_net_bucket *b, uint64_t now_ns);

/* Packets that the stack does not handle, or that the host needs too. */
enum ur_net_verdict ur_net_to_host(struct ur_net *net, struct ur_net_in *out,
				   const struct ur_net_pkt *p);

/* ---- Outbox ---- */

/* Begin a frame to `mac`: writes Ethernet and tag, reserves len bytes after
 * them. NULL: none is left; counted. ur_outbox_push() takes ownership. */
struct ur_net_frame *ur_outbox_new(struct ur_net *net, uint32_t len,
				   const uint8_t mac[UR_MAC_LEN], uint16_t type,
				   uint8_t **body);
void ur_outbox_push(struct ur_net *net, struct ur_net_frame *f);
void ur_outbox_drop_all(struct ur_net *net);

/* Writes Ethernet and tag; returns the address after them. */
uint8_t *ur_net_put_l2(const struct ur_net *net, uint8_t *frame,
		       const uint8_t mac[UR_MAC_LEN], uint16_t type);

/* IP header of our own packets, without options; with checksum. */
void ur_net_put_ip4(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16],
		    uint8_t proto, uint8_t ttl, uint32_t payload);
void ur_net_put_ip6(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16],
		    uint8_t proto, uint8_t hops, uint32_t payload);

/* Writes the checksum of an ICMPv6 message that follows an IPv6 header. */
void ur_net_sum_icmp6(const uint8_t src[16], const uint8_t dst[16],
		      uint8_t *icmp, uint32_t len);
/* Verifies it. */
bool ur_net_check_icmp6(const struct ur_net_pkt *p);

/* ---- Input ---- */

/* Does it match a known flow, and is it valid? */
bool ur_known_input(struct ur_net *net, const struct ur_net_rx *rx,
		    struct ur_rx *out);
/* It has passed all checks, with the result rx. */
void ur_known_add(struct ur_net *net, const struct ur_net_pkt *p,
		  const struct ur_rx *rx);

enum ur_net_verdict ur_arp_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out);
enum ur_net_verdict ur_ip4_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out);
enum ur_net_verdict ur_ip6_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out);
/* Common to both after their header checks. */
enum ur_net_verdict ur_udp_input(struct ur_net *net, struct ur_net_pkt *p,
				 struct ur_net_in *out);
enum ur_net_verdict ur_icmp4_input(struct ur_net *net, struct ur_net_pkt *p,
				   struct ur_net_in *out);
enum ur_net_verdict ur_icmp6_input(struct ur_net *net, struct ur_net_pkt *p,
				   struct ur_net_in *out);
enum ur_net_verdict ur_nd_input(struct ur_net *net, struct ur_net_pkt *p,
				struct ur_net_in *out);

/* ---- Neighbour requests and replies ---- */

/* Request the MAC address of addr: from all, or only from `mac`. Sent from one
 * of our addresses; NULL: a probe, from none. */
void ur_arp_request(struct ur_net *net, const uint8_t *src,
		    const uint8_t addr[16], const uint8_t *mac);
void ur_nd_solicit(struct ur_net *net, const uint8_t *src,
		   const uint8_t addr[16], const uint8_t *mac);
/* Announce one of our addresses. */
void ur_arp_announce(struct ur_net *net, const uint8_t addr[16]);
void ur_nd_announce(struct ur_net *net, const uint8_t addr[16]);
void ur_nd_solicited_node(const uint8_t addr[16], uint8_t group[16]);

/* ---- Neighbours ---- */

struct ur_neigh *ur_neigh_find(const struct ur_net *net,
			       const uint8_t addr[16]);
/*
 * The entry for that address, created and resolved if missing; NULL: no memory.
 */
struct ur_neigh *ur_neigh_get(struct ur_net *net, const uint8_t addr[16],
			      uint8_t own, uint64_t now_ns);
/* We send to it from now on. */
void ur_neigh_use(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns);
static inline bool ur_neigh_ready(const struct ur_neigh *n)
{
	return n->state != UR_NEIGH_INCOMPLETE && n->state != UR_NEIGH_FAILED;
}
/* A reply to our request. `override`: it replaces a different MAC address (RFC
 * 4861 4.4). */
void ur_neigh_reply(struct ur_net *net, struct ur_neigh *n,
		    const uint8_t mac[UR_MAC_LEN], bool override,
		    uint64_t now_ns);
/* An unsolicited claim that addr has mac. `meet`: the station sends to us, so
 * we shall need it. */
void ur_neigh_claim(struct ur_net *net, const uint8_t addr[16],
		    const uint8_t mac[UR_MAC_LEN], bool meet, uint64_t now_ns);
void ur_neigh_expire(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns);
/* Keep a frame, whose Ethernet header is completed later; takes ownership. */
void ur_neigh_park(struct ur_net *net, struct ur_neigh *n,
		   struct ur_net_frame *f);
void ur_neigh_probe_all(struct ur_net *net, uint64_t now_ns);
void ur_neigh_fini(struct ur_net *net);

/* ---- Own addresses, groups ---- */

int ur_own_init(struct ur_net *net);
struct ur_own *ur_own_find(struct ur_net *net, const uint8_t addr[16]);
void ur_own_expire(struct ur_net *net, struct ur_own *o, uint64_t now_ns);
/* Another station has the address too. */
void ur_own_conflict(struct ur_net *net, struct ur_own *o,
		     const uint8_t mac[UR_MAC_LEN], uint64_t now_ns);
void ur_own_announce(struct ur_net *net, struct ur_own *o, uint64_t now_ns);
/* Is addr within the network of o? */
bool ur_own_on_link(const struct ur_own *o, const uint8_t addr[16]);

/* Is it a group that we receive: all-nodes, or solicited-node? */
bool ur_group_is_ours(const struct ur_net *net, const uint8_t addr[16]);

/* ---- Destinations ---- */

/* The next hop to dst and our address to resolve it from; 0 or -errno as
 * ur_net_flow(). */
int ur_route(struct ur_net *net, const uint8_t dst[16], uint8_t hop[16],
	     uint8_t *own);
/* The neighbour's MAC address became known, unknown, or changed: update its
 * flows' headers. */
void ur_flow_neigh_changed(struct ur_net *net, struct ur_neigh *n);
/* The neighbour entry is being freed; its destinations get another. */
void ur_flow_neigh_freed(struct ur_neigh *n);
struct ur_dest *ur_dest_find(const struct ur_net *net, const uint8_t addr[16]);
/* Is there a flow to it from that address and port? */
bool ur_dest_has_flow(const struct ur_dest *d, const uint8_t src[16],
		      uint16_t sport);
/* A router reports that the path has this mtu. */
void ur_dest_too_big(struct ur_net *net, struct ur_dest *d, uint32_t mtu,
		     uint64_t now_ns);
void ur_flow_fini(struct ur_net *net);

#endif
