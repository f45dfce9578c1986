/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache of neighbours, common to ARP and ND: the states of RFC 4861 7.3.2.
 *
 *   INCOMPLETE --reply--> REACHABLE --30 s--> STALE --used--> DELAY --5 s-->
 *   PROBE --reply--> REACHABLE
 *   PROBE --no reply to three unicasts--> INCOMPLETE
 *   INCOMPLETE --no reply to three multicasts--> FAILED
 *   FAILED --used, a second later--> INCOMPLETE
 *
 * A neighbour that we send to keeps its MAC address as long as it replies: an
 * unsolicited claim to its address is counted and reported, and the old MAC
 * address is probed at once, without the delay.  Only if it is silent is the
 * request multicast, and the station that replies then is the neighbour.  So a
 * takeover takes UR_CLAIM_PROBE_NS * 3, and a forged claim changes nothing.
 *
 * A neighbour that we do not send to has the last claimed address.  If that has
 * changed, the first use resolves it by multicast, as an unknown one: DELAY and
 * PROBE take longer than a connection lives.
 */
#include <stdlib.h>

#include "net/internal.h"

/* RFC 4861 10 */
#define RETRANS_NS	  (1 * UR_S)
#define REACHABLE_MS	  30000u
#define DELAY_NS	  (5 * UR_S)
#define MAX_TRIES	  3u
/* Interval of probes after a claim by another station. */
#define UR_CLAIM_PROBE_NS (200 * UR_MS)
/* How long packets to a neighbour that did not reply fail without a new
 * request. */
#define FAILED_NS	  (1 * UR_S)

static uint32_t bucket_of(const uint8_t addr[16])
{
	return ur_net_hash(addr, 16) % UR_NET_BUCKETS;
}

struct ur_neigh *ur_neigh_find(const struct ur_net *net, const uint8_t addr[16])
{
	struct ur_neigh *n = net->neigh_hash[bucket_of(addr)];

	while (n && memcmp(n->addr, addr, 16) != 0)
		n = n->hash_next;
	return n;
}

static void arm(struct ur_net *net, struct ur_neigh *n, uint64_t at_ns)
{
	ur_timer_arm(&net->timers, &n->timer.timer, at_ns);
}

static uint32_t parked_size(const struct ur_net_frame *f)
{
	return (uint32_t)sizeof(*f) + f->len;
}

static void unpark(struct ur_net *net, struct ur_neigh *n,
		   struct ur_net_frame *f)
{
	ur_list_del(&f->node);
	n->parked_bytes -= parked_size(f);
	net->parked_bytes -= parked_size(f);
}

/* It has no MAC address to send them to. */
static void drop_parked(struct ur_net *net, struct ur_neigh *n, uint64_t *count)
{
	ur_list_each_safe(struct ur_net_frame, f, &n->parked, node) {
		unpark(net, n, f);
		free(f);
		(*count)++;
	}
}

static void release_parked(struct ur_net *net, struct ur_neigh *n)
{
	ur_list_each_safe(struct ur_net_frame, f, &n->parked, node) {
		unpark(net, n, f);
		memcpy(f->data, n->mac, UR_MAC_LEN);
		ur_outbox_push(net, f);
	}
}

void ur_neigh_park(struct ur_net *net, struct ur_neigh *n,
		   struct ur_net_frame *f)
{
	uint32_t size = parked_size(f);

	ur_list_each_safe(struct ur_net_frame, old, &n->parked, node) {
		if (n->parked_bytes + size <= UR_NET_PARKED)
			break;
		unpark(net, n, old);
		free(old);
		net->count.drop_parked_full++;
	}
	if (net->parked_bytes + size > UR_NET_PARKED_ALL) {
		free(f);
		net->count.drop_parked_full++;
		return;
	}
	ur_list_add_tail(&n->parked, &f->node);
	n->parked_bytes += size;
	net->parked_bytes += size;
	net->count.tx_parked++;
}

static void ask(struct ur_net *net, struct ur_neigh *n, bool all)
{
	const uint8_t *src = net->own[n->own].a.ip;

	if (ur_addr_is_v4(n->addr))
		ur_arp_request(net, src, n->addr, all ? NULL : n->mac);
	else
		ur_nd_solicit(net, src, n->addr, all ? NULL : n->mac);
}

/* The one place where a state changes. */
static void set_state(struct ur_net *net, struct ur_neigh *n, uint8_t state,
		      uint64_t now_ns)
{
	uint64_t reachable_ms =
		REACHABLE_MS / 2 + ur_rng_below(&net->rng, REACHABLE_MS + 1);

	n->state = state;
	n->tries = 0;
	switch ((enum ur_net_neigh_state)state) {
	case UR_NEIGH_REACHABLE:
		n->confirmed = true;
		n->disputed = n->contested = false;
		arm(net, n, now_ns + reachable_ms * UR_MS);
		break;
	case UR_NEIGH_STALE:
		arm(net, n, UR_NEVER);
		break;
	case UR_NEIGH_DELAY:
		arm(net, n, now_ns + DELAY_NS);
		break;
	case UR_NEIGH_INCOMPLETE:
	case UR_NEIGH_PROBE:
		arm(net, n, now_ns);
		break;
	case UR_NEIGH_FAILED:
		n->confirmed = false;
		n->disputed = false;
		arm(net, n, UR_NEVER);
		break;
	}
	ur_flow_neigh_changed(net, n);
}

static void set_mac(struct ur_net *net, struct ur_neigh *n,
		    const uint8_t mac[UR_MAC_LEN])
{
	struct ur_net_event ev = { .kind = UR_NET_NEIGH_MOVED };

	if (n->has_mac && memcmp(n->mac, mac, UR_MAC_LEN) != 0) {
		net->count.neigh_moved++;
		n->contested = true;
		memcpy(ev.addr, n->addr, 16);
		memcpy(ev.mac_old, n->mac, UR_MAC_LEN);
		memcpy(ev.mac_new, mac, UR_MAC_LEN);
		memcpy(n->mac, mac, UR_MAC_LEN);
		ur_net_report(net, &ev);
	}
	memcpy(n->mac, mac, UR_MAC_LEN);
	n->has_mac = true;
}

static void unlink_neigh(struct ur_net *net, struct ur_neigh *n)
{
	struct ur_neigh **pp = &net->neigh_hash[bucket_of(n->addr)];

	while (*pp != n)
		pp = &(*pp)->hash_next;
	*pp = n->hash_next;
	ur_list_del(&n->node);
	ur_timer_cancel(&net->timers, &n->timer.timer);
	net->nneigh--;
}

static void forget(struct ur_net *net, struct ur_neigh *n)
{
	drop_parked(net, n, &net->count.drop_parked_failed);
	ur_flow_neigh_freed(n);
	unlink_neigh(net, n);
	free(n);
}

/* Evicts those that we never send to first, then the least recently used. */
static bool make_room(struct ur_net *net, bool for_use)
{
	struct ur_neigh *oldest;

	if (net->nneigh < UR_NET_NEIGHS)
		return true;
	oldest = ur_container_of(net->neighs.next, struct ur_neigh, node);
	if (oldest->used && !for_use)
		return false;
	net->count.neigh_evicted++;
	forget(net, oldest);
	return true;
}

static struct ur_neigh *neigh_new(struct ur_net *net, const uint8_t addr[16],
				  bool for_use)
{
	struct ur_neigh *n;
	uint32_t b = bucket_of(addr);

	if (!make_room(net, for_use))
		return NULL;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	ur_timer_init(&n->timer.timer);
	n->timer.kind = UR_NET_TIMER_NEIGH;
	ur_list_init(&n->parked);
	ur_list_init(&n->dests);
	memcpy(n->addr, addr, 16);
	n->hash_next = net->neigh_hash[b];
	net->neigh_hash[b] = n;
	if (for_use)
		ur_list_add_tail(&net->neighs, &n->node);
	else
		ur_list_add_head(&net->neighs, &n->node);
	net->nneigh++;
	net->count.neigh_created++;
	return n;
}

struct ur_neigh *ur_neigh_get(struct ur_net *net, const uint8_t addr[16],
			      uint8_t own, uint64_t now_ns)
{
	struct ur_neigh *n = ur_neigh_find(net, addr);

	if (!n) {
		n = neigh_new(net, addr, true);
		if (!n)
			return NULL;
		n->own = own;
		n->state = UR_NEIGH_FAILED;
	}
	ur_neigh_use(net, n, now_ns);
	return n;
}

static void retry(struct ur_net *net, struct ur_neigh *n, bool all,
		  uint64_t now_ns)
{
	n->tries++;
	ask(net, n, all);
	arm(net, n, now_ns + (n->disputed ? UR_CLAIM_PROBE_NS : RETRANS_NS));
}

/* The request is sent at once, not when the timer runs. */
static void resolve(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns)
{
	set_state(net, n, UR_NEIGH_INCOMPLETE, now_ns);
	retry(net, n, true, now_ns);
}

void ur_neigh_use(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns)
{
	if (!n->used || n->node.next != &net->neighs) {
		ur_list_del(&n->node);
		ur_list_add_tail(&net->neighs, &n->node);
	}
	n->used = true;
	if ((n->state == UR_NEIGH_STALE && n->contested) ||
	    (n->state == UR_NEIGH_FAILED && n->timer.timer.at_ns == UR_NEVER))
		resolve(net, n, now_ns);
	else if (n->state == UR_NEIGH_STALE)
		set_state(net, n, UR_NEIGH_DELAY, now_ns);
}

static void failed(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns)
{
	struct ur_net_event ev = { .kind = UR_NET_UNREACHABLE };

	net->count.neigh_failed++;
	drop_parked(net, n, &net->count.drop_parked_failed);
	set_state(net, n, UR_NEIGH_FAILED, now_ns);
	arm(net, n, now_ns + FAILED_NS);
	memcpy(ev.addr, n->addr, 16);
	ur_net_report(net, &ev);
}

void ur_neigh_expire(struct ur_net *net, struct ur_neigh *n, uint64_t now_ns)
{
	switch ((enum ur_net_neigh_state)n->state) {
	case UR_NEIGH_REACHABLE:
		set_state(net, n, UR_NEIGH_STALE, now_ns);
		break;
	case UR_NEIGH_DELAY:
		set_state(net, n, UR_NEIGH_PROBE, now_ns);
		break;
	case UR_NEIGH_PROBE:
		if (n->tries < MAX_TRIES)
			retry(net, n, false, now_ns);
		else
			resolve(net, n, now_ns);
		break;
	case UR_NEIGH_INCOMPLETE:
		if (n->tries < MAX_TRIES)
			retry(net, n, true, now_ns);
		else
			failed(net, n, now_ns);
		break;
	case UR_NEIGH_STALE:
	case UR_NEIGH_FAILED: /* may be resolved again, if it is used */
		break;
	}
}

/* Another station claims the address of a neighbour in use or confirmed. */
static void dispute(struct ur_net *net, struct ur_neigh *n,
		    const uint8_t mac[UR_MAC_LEN], uint64_t now_ns)
{
	struct ur_net_event ev = { .kind = UR_NET_NEIGH_CLAIM };

	net->count.neigh_conflict++;
	if (n->disputed)
		return; /* is being probed */
	n->disputed = true;
	memcpy(ev.addr, n->addr, 16);
	memcpy(ev.mac_old, n->mac, UR_MAC_LEN);
	memcpy(ev.mac_new, mac, UR_MAC_LEN);
	ur_net_report(net, &ev);
	set_state(net, n, UR_NEIGH_PROBE, now_ns);
}

void ur_neigh_reply(struct ur_net *net, struct ur_neigh *n,
		    const uint8_t mac[UR_MAC_LEN], bool override,
		    uint64_t now_ns)
{
	bool same = n->has_mac && !memcmp(n->mac, mac, UR_MAC_LEN);

	if (n->state == UR_NEIGH_INCOMPLETE) {
		set_mac(net, n, mac);
		set_state(net, n, UR_NEIGH_REACHABLE, now_ns);
		release_parked(net, n);
	} else if (n->state == UR_NEIGH_PROBE && same) {
		set_state(net, n, UR_NEIGH_REACHABLE, now_ns);
	} else if (!same && override) {
		/* The request was sent to another station, or none was sent. */
		ur_neigh_claim(net, n->addr, mac, false, now_ns);
	}
}

/* RFC 4861 7.2.3, RFC 826: a station that asks for us will need a reply. */
static void add_new(struct ur_net *net, const uint8_t addr[16],
		    const uint8_t mac[UR_MAC_LEN], uint64_t now_ns)
{
	struct ur_neigh *n;
	uint8_t hop[16], own;

	if (ur_route(net, addr, hop, &own) || memcmp(hop, addr, 16) != 0)
		return; /* not on a network of ours */
	n = neigh_new(net, addr, false);
	if (!n)
		return;
	n->own = own;
	set_mac(net, n, mac);
	set_state(net, n, UR_NEIGH_STALE, now_ns);
}

void ur_neigh_claim(struct ur_net *net, const uint8_t addr[16],
		    const uint8_t mac[UR_MAC_LEN], bool meet, uint64_t now_ns)
{
	struct ur_neigh *n = ur_neigh_find(net, addr);

	if (!n) {
		if (meet)
			add_new(net, addr, mac, now_ns);
		return;
	}
	if (n->state == UR_NEIGH_INCOMPLETE && n->has_mac)
		return; /* multicast request pending: the reply will tell */
	if (n->state == UR_NEIGH_INCOMPLETE || n->state == UR_NEIGH_FAILED) {
		if (!meet)
			return;
		n->disputed = false;
		set_mac(net, n, mac);
		set_state(net, n, UR_NEIGH_STALE, now_ns);
		release_parked(net, n);
		return;
	}
	if (!memcmp(n->mac, mac, UR_MAC_LEN))
		return;
	/* With contested there is no known owner to probe. */
	if ((n->used || n->confirmed) && !n->contested) {
		dispute(net, n, mac, now_ns);
	} else {
		set_mac(net, n, mac);
		set_state(net, n, UR_NEIGH_STALE, now_ns);
	}
}

void ur_neigh_probe_all(struct ur_net *net, uint64_t now_ns)
{
	ur_list_each(struct ur_neigh, n, &net->neighs, node) {
		if (n->state == UR_NEIGH_REACHABLE)
			set_state(net, n, UR_NEIGH_STALE, now_ns);
		else if (n->state == UR_NEIGH_FAILED)
			arm(net, n, UR_NEVER);
	}
}

void ur_neigh_fini(struct ur_net *net)
{
	ur_list_each_safe(struct ur_neigh, n, &net->neighs, node)
		forget(net, n);
}
