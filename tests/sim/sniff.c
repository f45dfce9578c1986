/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts packets on the wire from their bytes, independently of all counters.
 * Used by the bounds: a clean network must see no request twice. */
#include <string.h>

#include "base/addr.h"
#include "sim/sim.h"
#include "wire/icrc.h"

struct sim_end *sim_end_by_qpn(struct sim_lane *l, uint32_t qpn)
{
	struct sim_world *w = l->w;

	for (uint32_t i = 0; i < w->nconns; i++) {
		for (uint32_t k = 0; k < 2; k++) {
			struct sim_end *e = &w->conns[i]->end[k];

			if (e->lane == l && e->qp.qpn == qpn)
				return e;
		}
	}
	return NULL;
}

/* A request of e: record its PSNs. */
static void sniff_request(struct sim_world *w, struct sim_end *e,
			  const struct ur_hdr *h)
{
	uint32_t mtu = h->bth.full ? h->full_size : ur_mtu_bytes(e->conn->mtu);
	uint32_t last = h->bth.psn;

	w->wire.requests++;
	if (e->sent_any && ur_psn_diff(h->bth.psn, e->sent_psn) <= 0)
		w->wire.repeated++;
	if (h->op->kind == UR_OP_READ_REQUEST && h->dma_len)
		last = ur_psn_add(last, (h->dma_len - 1) / mtu);
	if (!e->sent_any || ur_psn_diff(last, e->sent_psn) > 0)
		e->sent_psn = last;
	e->sent_any = true;
}

static void sniff_ack(struct sim_world *w, uint8_t syndrome, bool selective)
{
	/* Each packet that arrives behind a gap may cause one. */
	if (selective)
		w->wire.range_acks++;
	else if (UR_AETH_CLASS(syndrome) == UR_AETH_ACK)
		w->wire.acks++;
	else if (UR_AETH_CLASS(syndrome) == UR_AETH_RNR)
		w->wire.rnr_naks++;
	else if (UR_AETH_VALUE(syndrome) == UR_NAK_PSN_SEQ)
		w->wire.seq_naks++;
	else
		w->wire.fatal_naks++;
}

/* Longer than the path MTU only if the interfaces of both ends have room. */
static void check_size(struct sim_world *w, const struct sim_pkt *p,
		       const struct sim_end *to, size_t payload_len)
{
	const struct sim_conn *c = to->conn;
	uint32_t i = to == &c->end[1], around = ur_addr_is_v4(p->dst) ? 28 : 48;

	if (payload_len <= ur_mtu_bytes(c->mtu) || w->p.scenario == SIM_HOSTILE)
		return;
	if (p->len + around > c->interface_mtu[!i])
		sim_fail(w, "a packet of %u bytes exceeds its interface",
			 p->len);
	if (p->len + around > c->interface_mtu[i] &&
	    !(p->data[0] == UR_RC_ACK && (p->data[8] & 4)))
		sim_fail(w, "a packet of %u bytes exceeds its peer's interface",
			 p->len);
}

static void sniff_kind(struct sim_world *w, const struct sim_pkt *p,
		       const struct ur_hdr *h, size_t payload_len)
{
	struct sim_lane *to = sim_lane_at(w, p->dst, h->bth.dqpn);
	struct sim_end *e = to ? sim_end_by_qpn(to, h->bth.dqpn) : NULL;

	if (e)
		check_size(w, p, e, payload_len);
	switch ((enum ur_op_kind)h->op->kind) {
	case UR_OP_SEND:
	case UR_OP_WRITE:
	case UR_OP_READ_REQUEST:
	case UR_OP_CMP_SWAP:
	case UR_OP_FETCH_ADD:
	case UR_OP_FLUSH:
	case UR_OP_ATOMIC_WRITE:
		if (h->op->headers & UR_HDR_DCETH)
			e = sim_dc_initiator(w, p->src, h);
		else if (e)
			e = e->in->from;
		if (e)
			sniff_request(w, e, h);
		else if (w->tags && h->op->transport == UR_TP_RC)
			w->wire.requests++;
		break;
	case UR_OP_READ_RESPONSE:
	case UR_OP_ATOMIC_ACK:
		w->wire.responses++;
		break;
	case UR_OP_ACK:
		if (!h->bth.full)
			sniff_ack(w, h->syndrome, h->bth.selective);
		break;
	case UR_OP_CNP:
		w->wire.cnps++;
		break;
	}
}

/* The kernel gives segment i of a burst the identification i, and a receiver
 * that sees it (rxe) accepts only the exact ICRC. */
static bool icrc_exact(const struct sim_pkt *p)
{
	struct ur_icrc_flow flow = { .sport = p->sport, .dport = UR_ROCE_PORT };
	struct ur_icrc_cache cache = { 0 };
	bool exact = false;

	memcpy(flow.src, p->src, 16);
	memcpy(flow.dst, p->dst, 16);
	return ur_icrc_check(&flow, ur_icrc_prefix(&flow, p->len), &cache,
			     p->data, p->len, p->index, &exact) &&
	       exact;
}

/* All hosts are urnics, and each packet has its bit (docs/wire/roce.md). */
static void check_urnic(struct sim_world *w, const struct ur_hdr *h)
{
	bool rc = h->op->transport == UR_TP_RC && h->op->kind != UR_OP_CNP;

	if (rc && !h->bth.urnic && w->p.scenario != SIM_HOSTILE)
		sim_fail(w, "%s does not tell what sends it", h->op->name);
}

/* Only what CNPs reduce may be marked, and not the CNPs themselves. */
static void check_ect(struct sim_world *w, const struct ur_hdr *h, bool ect)
{
	bool never = h->op->kind == UR_OP_CNP || h->op->transport == UR_TP_UC ||
		     h->op->transport == UR_TP_UD;

	if (ect && never)
		sim_fail(w, "%s may be marked", h->op->name);
}

void sim_sniff(struct sim_world *w, const struct sim_pkt *p)
{
	const uint8_t *payload;
	size_t len;
	struct ur_hdr h;

	w->wire.pkts++;
	if (ur_hdr_decode(&h, p->data, p->len, &payload, &len)) {
		sim_fail(w, "a host sent a malformed packet, opcode %02x",
			 p->data[0]);
		return;
	}
	if (!icrc_exact(p))
		sim_fail(w, "packet %u of a burst has a wrong ICRC", p->index);
	SIM_TRACEF(w, "  %s qpn %x psn %06x len %zu aeth %02x", h.op->name,
		   h.bth.dqpn, h.bth.psn, len,
		   h.op->headers & UR_HDR_AETH ? h.syndrome : 0);
	check_urnic(w, &h);
	check_ect(w, &h, p->ect);
	sniff_kind(w, p, &h, len);
}
