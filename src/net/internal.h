/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the files of net/.
 *
 *   net       create, Ethernet in, timers
 *   ip4, ip6  checks of what comes in; who is it for?
 *   known     a short way for packets like those before
 *   icmp      echo, unreachable, too big; both families
 *   arp, nd   questions and answers about neighbours and addresses
 *   neigh     the cache of neighbours and its states
 *   addr      our own addresses: probed, announced, defended
 *   group     multicast groups and their membership reports
 *   flow      destinations, next hops, headers of what RoCE sends
 *   outbox    frames of our own that wait to be taken
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
#define UR_ETHERTYPE_MIN     0x0600u /* below it is a length (IEEE 802.3) */
#define UR_VLAN_VID_MASK     0x0fffu
#define UR_IPPROTO_ICMP	     1u
#define UR_IPPROTO_IGMP	     2u
#define UR_IPPROTO_ICMPV6    58u
#define UR_IP4_DF	     0x4000u
#define UR_IP4_FRAGMENT_MASK 0x3fffu /* more fragments, offset */

#define UR_NET_BUCKETS	    256u /* of neighbours */
#define UR_NET_FLOW_BUCKETS 4096u
#define UR_NET_KNOWN_FLOWS  16u /* that come in, whose headers are kept */

enum ur_net_timer_kind {
	UR_NET_TIMER_NEIGH,
	UR_NET_TIMER_ADDR,
	UR_NET_TIMER_GROUP,
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

struct ur_neigh {
	struct ur_net_timer timer;
	struct ur_list node; /* of all, those we use behind the others */
	struct ur_neigh *hash_next;
	uint8_t addr[16];
	uint8_t mac[UR_MAC_LEN];
	uint8_t own; /* index of the address with which we ask */
	uint8_t state;
	uint8_t tries;	/* questions without an answer in this state */
	bool has_mac;	/* mac is, or was, its address */
	bool used;	/* we send to it */
	bool confirmed; /* mac was told in answer to our question */
	bool doubted;	/* somebody else claims to be it */
	bool contested; /* mac is another than before, and nobody was asked */
	uint32_t parked_bytes;
	struct ur_list parked;
	struct ur_list dests; /* that are reached through it */
};

/* An address that we send to. */
struct ur_dest {
	struct ur_list node; /* of its neighbour */
	struct ur_dest *hash_next;
	struct ur_list flows;
	uint8_t addr[16];
	struct ur_neigh *neigh; /* NULL: a group, or ourselves; or evicted */
	uint16_t pmtu;		/* 0: that of the port … */
	uint64_t pmtu_until_ns; /* … or again from then on */
	bool local;
	bool group;
};

struct ur_flow_entry {
	struct ur_net_flow flow;
	struct ur_net_key key;
	struct ur_flow_entry *hash_next;
	struct ur_list node; /* of its destination */
	struct ur_list lru;
	struct ur_dest *dest;
};

enum ur_own_state {
	UR_OWN_TENTATIVE, /* being probed */
	UR_OWN_READY,
	UR_OWN_TAKEN, /* somebody had it before */
};

struct ur_own {
	struct ur_net_addr a;
	bool v4;
	uint8_t mask[16];
	struct ur_net_timer timer;
	enum ur_own_state state;
	uint32_t probed;
	uint32_t early;	   /* questions still to be sent while it is used */
	uint32_t announce; /* still to be sent */
	uint64_t defended_ns;
	bool defended;
};

struct ur_net_group {
	struct ur_net_timer timer;
	uint8_t addr[16];
	uint32_t refs; /* 0: this place is free */
	uint32_t reports;
};

/* At most so many per second (RFC 4443 2.4 f). */
struct ur_net_bucket {
	uint64_t last_ns;
	uint32_t tokens;
	uint32_t burst;
	uint64_t per_ns;
};

/* The headers of a packet that was RoCE's, without length, identification and
 * checksum of IPv4, their sum, and what was told of it. */
struct ur_net_known {
	uint32_t sum; /* 0: there is none here */
	uint8_t hdr[UR_NET_HDR_MAX];
	struct ur_rx rx;
};

struct ur_net {
	struct ur_net_config cfg;
	uint8_t l2; /* bytes of Ethernet and tag in what we send */
	struct ur_timers timers;
	struct ur_rng rng;
	struct ur_net_counters count;
	uint32_t nown;
	struct ur_own own[UR_NET_ADDRS];
	struct ur_net_group groups[UR_NET_GROUPS];
	struct ur_net_bucket errors; /* ICMP errors that we send */
	struct ur_net_bucket echoes;

	uint32_t nneigh;
	uint32_t parked_bytes; /* of all */
	struct ur_list neighs;
	struct ur_neigh *neigh_hash[UR_NET_BUCKETS];

	uint32_t nflows;
	struct ur_list flows; /* the one used last is the last */
	struct ur_flow_entry *flow_hash[UR_NET_FLOW_BUCKETS];
	struct ur_dest *dest_hash[UR_NET_FLOW_BUCKETS];
	struct ur_flow_entry *last; /* asked for; NULL: it is gone */

	struct ur_net_known known[UR_NET_KNOWN_FLOWS];

	uint32_t noutbox;
	struct ur_list outbox;
};

/* A received packet on its way through the checks. */
struct ur_net_pkt {
	const uint8_t *frame;
	uint32_t flags; /* UR_NET_RX_ */
	uint16_t l3;	/* offset of what is behind Ethernet and tag */
	bool l2_group;	/* it was sent to more than us */
	bool v4;
	bool extended; /* options or extension headers */
	bool to_group; /* IP says so too */
	uint8_t proto;
	uint8_t tclass;
	uint8_t hops;
	uint16_t id;
	const uint8_t *ip; /* header, and how much of it there is */
	uint32_t ip_len;   /* with the payload, without padding */
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

/* One that a station may have. */
static inline bool ur_mac_is_station(const uint8_t mac[UR_MAC_LEN])
{
	static const uint8_t zero[UR_MAC_LEN];

	return !ur_mac_is_group(mac) && memcmp(mac, zero, UR_MAC_LEN) != 0;
}

uint32_t ur_net_hash(const void *data, uint32_t len);

static inline void ur_net_tell(const struct ur_net *net,
			       const struct ur_net_event *ev)
{
	if (net->cfg.event)
		net->cfg.event(net->cfg.arg, ev);
}

/* May one more be sent now? */
bool ur_net_bucket_take(struct ur_net_bucket *b, uint64_t now_ns);

/* What the stack does not know is the host's, or counted in *drop. */
enum ur_net_verdict ur_net_not_ours(struct ur_net *net, struct ur_net_in *out,
				    const struct ur_net_pkt *p, uint64_t *drop);

/* ---- Outbox ---- */

/*
 * Begin a frame to `mac`: Ethernet and tag are written, room for len bytes
 * follows.  NULL: none is left; counted.  ur_outbox_push() takes it over.
 */
struct ur_net_frame *ur_outbox_new(struct ur_net *net, uint32_t len,
				   const uint8_t mac[UR_MAC_LEN], uint16_t type,
				   uint8_t **body);
void ur_outbox_push(struct ur_net *net, struct ur_net_frame *f);
void ur_outbox_drop_all(struct ur_net *net);

/* Ethernet and tag of what we send; returns what is behind them. */
uint8_t *ur_net_put_l2(const struct ur_net *net, uint8_t *frame,
		       const uint8_t mac[UR_MAC_LEN], uint16_t type);

/* Headers of IP packets of our own, without extras; all sums in them. */
void ur_net_put_ip4(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16],
		    uint8_t proto, uint8_t ttl, uint32_t payload);
void ur_net_put_ip6(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16],
		    uint8_t proto, uint8_t hops, uint32_t payload);

/* The sum of an ICMPv6 message behind an IPv6 header, entered. */
void ur_net_sum_icmp6(const uint8_t src[16], const uint8_t dst[16],
		      uint8_t *icmp, uint32_t len);
/* … and is it right? */
bool ur_net_check_icmp6(const struct ur_net_pkt *p);

/* ---- In ---- */

/* Is it as one before, and passes? */
bool ur_known_input(struct ur_net *net, const struct ur_net_rx *rx,
		    struct ur_rx *out);
/* It has passed, and was told as rx. */
void ur_known_learn(struct ur_net *net, const struct ur_net_pkt *p,
		    const struct ur_rx *rx);

enum ur_net_verdict ur_arp_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out);
enum ur_net_verdict ur_ip4_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out);
enum ur_net_verdict ur_ip6_input(struct ur_net *net, struct ur_net_pkt *p,
				 uint32_t len, struct ur_net_in *out);
/* What both do once the headers are checked. */
enum ur_net_verdict ur_udp_input(struct ur_net *net, struct ur_net_pkt *p,
				 struct ur_net_in *out);
enum ur_net_verdict ur_icmp4_input(struct ur_net *net, struct ur_net_pkt *p,
				   struct ur_net_in *out);
enum ur_net_verdict ur_icmp6_input(struct ur_net *net, struct ur_net_pkt *p,
				   struct ur_net_in *out);
enum ur_net_verdict ur_nd_input(struct ur_net *net, struct ur_net_pkt *p,
				struct ur_net_in *out);
/* Nobody listens: say so, if that is allowed. */
enum ur_net_verdict ur_icmp_refuse(struct ur_net *net,
				   const struct ur_net_pkt *p);

/* ---- Questions and answers ---- */

/* Ask who has addr: all, or only `mac`.  From one of our addresses; NULL: a
 * probe, from none. */
void ur_arp_ask(struct ur_net *net, const uint8_t *src, const uint8_t addr[16],
		const uint8_t *mac);
void ur_nd_ask(struct ur_net *net, const uint8_t *src, const uint8_t addr[16],
	       const uint8_t *mac);
/* Tell all that an address is ours. */
void ur_arp_announce(struct ur_net *net, const uint8_t addr[16]);
void ur_nd_announce(struct ur_net *net, const uint8_t addr[16]);
void ur_nd_solicited_node(const uint8_t addr[16], uint8_t group[16]);

/* ---- Neighbours ---- */

struct ur_neigh *ur_neigh_find(const struct ur_net *net,
			       const uint8_t addr[16]);
/* The one of that address, made and asked if there is none; NULL: no memory. */
struct ur_neigh *ur_neigh_get(struct ur_net *net, const uint8_t addr[16],
			      uint8_t own, uint64_t now_ns);
/* We send to it now. */
void ur_neigh_use(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns);
static inline bool ur_neigh_ready(const struct ur_neigh *n)
{
	return n->state != UR_NEIGH_INCOMPLETE && n->state != UR_NEIGH_FAILED;
}
/* It answered a question of ours.  `override`: what it says replaces what we
 * know (RFC 4861 4.4). */
void ur_neigh_answered(struct ur_net *net, struct ur_neigh *n,
		       const uint8_t mac[UR_MAC_LEN], bool override,
		       uint64_t now_ns);
/* Somebody says that addr is mac, and we had not asked.  `meet`: it talks to
 * us, so we shall need it. */
void ur_neigh_claimed(struct ur_net *net, const uint8_t addr[16],
		      const uint8_t mac[UR_MAC_LEN], bool meet,
		      uint64_t now_ns);
void ur_neigh_expire(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns);
/* Keep a frame, whose Ethernet header is completed later; takes it over. */
void ur_neigh_park(struct ur_net *net, struct ur_neigh *n,
		   struct ur_net_frame *f);
void ur_neigh_doubt_all(struct ur_net *net, uint64_t now_ns);
void ur_neigh_fini(struct ur_net *net);

/* ---- Own addresses, groups ---- */

int ur_own_init(struct ur_net *net);
struct ur_own *ur_own_find(struct ur_net *net, const uint8_t addr[16]);
void ur_own_expire(struct ur_net *net, struct ur_own *o, uint64_t now_ns);
/* Another station has it, or (probing) wants it too. */
void ur_own_conflict(struct ur_net *net, struct ur_own *o,
		     const uint8_t mac[UR_MAC_LEN], uint64_t now_ns);
void ur_own_announce(struct ur_net *net, struct ur_own *o, uint64_t now_ns);
/* Is addr within the network of o? */
bool ur_own_on_link(const struct ur_own *o, const uint8_t addr[16]);

/* Is it one that we receive: joined, or of all nodes, or solicited-node? */
bool ur_group_is_ours(const struct ur_net *net, const uint8_t addr[16]);
bool ur_group_joined(const struct ur_net *net, const uint8_t addr[16]);
void ur_group_expire(struct ur_net *net, struct ur_net_group *g,
		     uint64_t now_ns);
/* Tell routers of all groups, as when they were joined. */
void ur_group_report_all(struct ur_net *net, bool v4, uint64_t now_ns);
/* A router asks who is in a group (zeros: in any); answers spread over max. */
void ur_group_query(struct ur_net *net, const uint8_t addr[16], bool v4,
		    uint64_t max_ns, uint64_t now_ns);

/* ---- Destinations ---- */

/* The next hop to dst and the address of ours to ask with; 0 or -errno as
 * ur_net_flow(). */
int ur_route(struct ur_net *net, const uint8_t dst[16], uint8_t hop[16],
	     uint8_t *own);
/* The neighbour became known, another, or unknown: its flows' headers. */
void ur_flow_neigh_changed(struct ur_net *net, struct ur_neigh *n);
/* The neighbour goes; its destinations find another. */
void ur_flow_neigh_gone(struct ur_neigh *n);
struct ur_dest *ur_dest_find(const struct ur_net *net, const uint8_t addr[16]);
/* Do we send there from that address and port? */
bool ur_dest_has_flow(const struct ur_dest *d, const uint8_t src[16],
		      uint16_t sport);
/* A router says that the path takes no more than mtu. */
void ur_dest_too_big(struct ur_net *net, struct ur_dest *d, uint32_t mtu,
		     uint64_t now_ns);
void ur_flow_groups_changed(struct ur_net *net);
void ur_flow_fini(struct ur_net *net);

#endif
