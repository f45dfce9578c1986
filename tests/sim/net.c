/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network: every burst is split, and each packet travels on its own, with
 * the faults of the world. A corrupted packet whose ICRC still matches (that of
 * IPv4 tolerates 2^16 identifications: decision 0004) is dropped here and
 * counted, so that the oracles stay exact.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "wire/icrc.h"

/* Overhead per packet in a socket buffer. */
#define PKT_OVERHEAD 128u
#define BURST_NS     10000000u /* a burst of losses lasts no longer */

static struct sim_pkt *pkt_new(struct sim_world *w)
{
	struct sim_pkt *p = w->free_pkts;

	if (p)
		w->free_pkts = p->next;
	else
		p = malloc(sizeof(*p));
	RIG_CHECK(p != NULL);
	return p;
}

void sim_net_recycle(struct sim_world *w, struct sim_pkt *p)
{
	p->next = w->free_pkts;
	w->free_pkts = p;
}

static uint32_t pkt_dqpn(const uint8_t *bth)
{
	return (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];
}

struct sim_lane *sim_lane_at(struct sim_world *w, const uint8_t addr[16],
			     uint32_t dqpn)
{
	for (uint32_t i = 0; i < w->nlanes; i++) {
		struct sim_lane *l = &w->lanes[i];

		if (l->rig.slot == dqpn >> 14 && sim_host_has(w, l->host, addr))
			return l;
	}
	return NULL;
}

static uint32_t host_of(const struct sim_world *w, const uint8_t addr[16])
{
	for (uint32_t i = 0; i < w->p.hosts; i++) {
		if (sim_host_has(w, i, addr))
			return i;
	}
	return 0;
}

/* Would this pass for a good packet? */
static bool icrc_collides(const struct sim_pkt *p)
{
	struct ur_icrc_flow flow = { .sport = p->sport, .dport = UR_ROCE_PORT };
	struct ur_icrc_cache cache = { 0 };

	if (p->len < UR_BTH_LEN + UR_ICRC_LEN)
		return false;
	memcpy(flow.src, p->src, 16);
	memcpy(flow.dst, p->dst, 16);
	return ur_icrc_check(&flow, ur_icrc_prefix(&flow, p->len), &cache,
			     p->data, p->len, p->index, NULL);
}

/* Flip random bits; the ICRC does not cover byte 4 of the BTH. */
static void flip_bits(struct sim_world *w, struct sim_pkt *p)
{
	uint32_t flips = 1 + sim_below(w, 6);
	uint32_t at = sim_below(w, p->len);

	do {
		if (at != 4)
			p->data[at] ^= (uint8_t)(1u << sim_below(w, 8));
		else
			flips++;
		at += 1 + sim_below(w, 16);
	} while (--flips && at < p->len);
}

static bool corrupt(struct sim_world *w, struct sim_pkt *p)
{
	p->corrupt = true;
	w->wire.corrupted++;
	if (sim_chance(w, SIM_PROB / 8))
		p->len = sim_below(w, p->len);
	else
		flip_bits(w, p);
	if (!icrc_collides(p))
		return true;
	w->wire.collisions++;
	return false;
}

static void launch(struct sim_world *w, struct sim_pkt *p, uint64_t at_ns)
{
	const struct sim_net_params *n = &w->p.net;

	if (n->jitter_prob && sim_chance(w, n->jitter_prob)) {
		at_ns += sim_below(w, (uint32_t)n->jitter_ns);
		w->wire.reordered++;
	}
	p->ce = n->ce_prob && sim_chance(w, n->ce_prob) && p->ect;
	w->wire.marked += p->ce;
	if (n->guess_index && sim_chance(w, SIM_PROB / 4))
		p->index = (uint16_t)sim_below(w, 65536);
	if (n->corrupt_prob && sim_chance(w, n->corrupt_prob) &&
	    !corrupt(w, p)) {
		sim_net_recycle(w, p);
		return;
	}
	sim_event_add(w, at_ns, SIM_EV_PACKET, p);
}

static bool lose(struct sim_world *w)
{
	const struct sim_net_params *n = &w->p.net;

	if (w->burst_left == 0 && n->loss_prob && sim_chance(w, n->loss_prob)) {
		w->burst_left = 1 + sim_below(w, n->burst);
		w->burst_ends_ns = w->now_ns + BURST_NS;
	}
	/* Otherwise it would use up all retries of the last connection. */
	if (w->now_ns > w->burst_ends_ns)
		w->burst_left = 0;
	if (w->burst_left == 0)
		return false;
	w->burst_left--;
	w->wire.lost++;
	return true;
}

static void send_packet(struct sim_world *w, struct sim_pkt *p)
{
	const struct sim_net_params *n = &w->p.net;
	uint64_t *link =
		&w->link_free_ns[host_of(w, p->src)][host_of(w, p->dst)];
	uint64_t at;

	if (*link < w->now_ns)
		*link = w->now_ns;
	*link += (uint64_t)p->len * n->byte_ps / 1000;
	at = *link + n->latency_ns;
	sim_sniff(w, p);
	if (sim_migrate_swallows(w, p)) {
		w->wire.lost++;
		sim_net_recycle(w, p);
		return;
	}
	if (lose(w)) {
		SIM_TRACEF(w, "  lost qpn %x psn %02x%02x%02x",
			   pkt_dqpn(p->data), p->data[9], p->data[10],
			   p->data[11]);
		sim_net_recycle(w, p);
		return;
	}
	if (n->dup_prob && sim_chance(w, n->dup_prob)) {
		struct sim_pkt *twin = pkt_new(w);

		memcpy(twin, p, offsetof(struct sim_pkt, data) + p->len);
		w->wire.duplicated++;
		launch(w, twin,
		       at + sim_below(w, (uint32_t)(2 * n->latency_ns + 1)));
	}
	launch(w, p, at);
}

/* Take the next n bytes of the burst's pieces. */
static void pull(const struct ur_burst *t, uint32_t *piece, size_t *off,
		 uint8_t *to, uint32_t n)
{
	while (n) {
		const struct iovec *v = &t->iov[*piece];
		size_t part = v->iov_len - *off;

		RIG_CHECK(*piece < t->niov);
		if (part > n)
			part = n;
		memcpy(to, (uint8_t *)v->iov_base + *off, part);
		to += part;
		n -= (uint32_t)part;
		*off += part;
		if (*off == v->iov_len) {
			++*piece;
			*off = 0;
		}
	}
}

void sim_net_burst(struct sim_lane *from, const struct ur_burst *t)
{
	struct sim_world *w = from->w;
	uint32_t piece = 0, left = t->bytes;
	size_t off = 0;

	RIG_CHECK(t->npkts >= 1 && t->npkts <= UR_BURST_PKTS);
	RIG_CHECK(t->bytes <= UR_BURST_BYTES && t->niov <= UR_BURST_IOV);
	RIG_CHECK(sim_host_has(w, from->host, t->src));
	for (uint32_t i = 0; i < t->npkts; i++) {
		struct sim_pkt *p = pkt_new(w);

		p->len = i + 1 < t->npkts ? t->pkt_len : left;
		RIG_CHECK(p->len <= t->pkt_len && p->len <= RIG_PKT_MAX);
		pull(t, &piece, &off, p->data, p->len);
		left -= p->len;
		memcpy(p->src, t->src, 16);
		memcpy(p->dst, t->dst, 16);
		p->sport = t->sport;
		p->index = (uint16_t)i;
		p->ect = t->tclass & 2;
		p->ce = false;
		p->corrupt = false;
		if (pkt_dqpn(p->data) >> 14 != t->dqpn >> 14)
			sim_fail(w, "a burst is for more than one slot");
		send_packet(w, p);
	}
	RIG_CHECK(left == 0);
}

void sim_net_packet(struct sim_world *w, const struct rig_pkt *from,
		    uint64_t delay_ns)
{
	struct sim_pkt *p = pkt_new(w);

	memcpy(p->src, from->src, 16);
	memcpy(p->dst, from->dst, 16);
	p->sport = from->sport;
	p->index = from->index;
	p->len = from->len;
	p->ect = true;
	p->ce = false;
	p->corrupt = false;
	memcpy(p->data, from->data, from->len);
	sim_event_add(w, w->now_ns + w->p.net.latency_ns + delay_ns,
		      SIM_EV_PACKET, p);
}

/* A packet arrives: into the receive buffer of its lane, if it fits. */
void sim_net_arrive(struct sim_world *w, struct sim_pkt *p)
{
	struct sim_lane *l = sim_lane_at(w, p->dst, pkt_dqpn(p->data));
	uint32_t price = p->len + PKT_OVERHEAD;

	/* A corrupted QPN may name another slot: any lane of the host. */
	if (!l)
		l = &w->lanes[host_of(w, p->dst) * w->p.lanes_per_host];
	p->to = l;
	if (l->dead) {
		sim_hostile_packet(w, p);
		sim_net_recycle(w, p);
		return;
	}
	if (l->rx_used + price > w->p.net.rx_bytes) {
		w->wire.overflowed++;
		SIM_TRACEF(w, "  overflow of lane %u",
			   (uint32_t)(l - w->lanes));
		sim_net_recycle(w, p);
		return;
	}
	l->rx_used += price;
	p->next = NULL;
	*l->rx_tail = p;
	l->rx_tail = &p->next;
	sim_lane_wake(l, w->p.poll_delay_ns
				 ? sim_below(w, (uint32_t)w->p.poll_delay_ns)
				 : 0);
}

struct sim_pkt *sim_net_take(struct sim_lane *l)
{
	struct sim_pkt *p = l->rx_head;

	if (!p)
		return NULL;
	l->rx_head = p->next;
	if (!l->rx_head)
		l->rx_tail = &l->rx_head;
	l->rx_used -= p->len + PKT_OVERHEAD;
	return p;
}

bool sim_net_is_dry(const struct sim_lane *l)
{
	const struct sim_world *w = l->w;

	for (uint32_t i = 0; i < w->heap_count; i++) {
		const struct sim_pkt *p = w->heap[i].arg;

		if (w->heap[i].kind == SIM_EV_PACKET && p->len >= 8 &&
		    pkt_dqpn(p->data) >> 14 == l->rig.slot)
			return false;
	}
	return !l->rx_head;
}

void sim_net_fini(struct sim_world *w)
{
	struct sim_pkt *p;

	for (uint32_t i = 0; i < w->nlanes; i++) {
		while ((p = sim_net_take(&w->lanes[i])))
			sim_net_recycle(w, p);
	}
	for (uint32_t i = 0; i < w->heap_count; i++) {
		if (w->heap[i].kind == SIM_EV_PACKET)
			sim_net_recycle(w, w->heap[i].arg);
	}
	while ((p = w->free_pkts)) {
		w->free_pkts = p->next;
		free(p);
	}
	free(w->heap);
	w->heap = NULL;
	w->heap_count = w->heap_cap = 0;
}
