/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/timewait.h"

#include <stdlib.h>

#include "base/addr.h"
#include "roce/dc.h"

#define ACK_LEN (UR_BTH_LEN + 4u + UR_ICRC_LEN)

struct ur_timewait_entry {
	struct ur_timewait l;
	uint64_t until_ns;
	bool asked; /* an acknowledgement is to be sent */
};

struct ur_timewaits {
	struct ur_timewait_entry one[UR_TIMEWAIT_MAX]; /* a ring */
	uint32_t count; /* entered since the start */
	uint32_t asked; /* entries with `asked` */
};

static bool icrc_ok(const struct ur_timewait *l, const struct ur_rx *rx)
{
	struct ur_icrc_flow flow = { .sport = rx->sport,
				     .dport = UR_ROCE_PORT };
	struct ur_icrc_cache cache = { 0 };

	if (rx->icrc_checked)
		return true;
	memcpy(flow.src, rx->src, 16);
	memcpy(flow.dst, l->src, 16);
	return ur_icrc_check(&flow, ur_icrc_prefix(&flow, rx->len), &cache,
			     rx->data, rx->len, rx->index, NULL);
}

/* Of the session that was acknowledged, if it is of DC */
static bool is_of_session(const struct ur_timewait *l, const struct ur_hdr *h)
{
	if (!l->session)
		return h->op->transport == UR_TP_RC;
	return h->op->transport == UR_TP_DC && h->dc_version == UR_DC_VERSION &&
	       h->dc_session == l->session;
}

bool ur_timewait_match(const struct ur_timewait *l, const struct ur_rx *rx)
{
	const uint8_t *payload;
	struct ur_hdr h;
	size_t len;

	if (ur_hdr_decode(&h, rx->data, rx->len, &payload, &len) ||
	    h.bth.tver != 0 || h.bth.dqpn != l->qpn)
		return false;
	if (!is_of_session(l, &h) ||
	    (h.op->kind != UR_OP_SEND && h.op->kind != UR_OP_WRITE) ||
	    !h.bth.ackreq || (h.bth.pkey & 0x7fffu) != 0x7fffu)
		return false;
	return ur_psn_diff(h.bth.psn, l->epsn) < 0 &&
	       memcmp(rx->src, l->dst, 16) == 0 &&
	       (rx->dst_unknown || memcmp(rx->dst, l->src, 16) == 0) &&
	       icrc_ok(l, rx);
}

static void put_icrc(const struct ur_burst *t, uint8_t *pkt)
{
	struct ur_icrc_flow flow = { .sport = t->sport, .dport = UR_ROCE_PORT };

	memcpy(flow.src, t->src, 16);
	memcpy(flow.dst, t->dst, 16);
	ur_icrc_write(&flow, pkt, ACK_LEN);
}

void ur_timewait_ack(const struct ur_timewait *l,
		     const struct ur_sports *sports, struct ur_burst *t)
{
	struct ur_hdr h = {
		.bth = { .opcode = l->session ? UR_DC_ACK : UR_RC_ACK,
			 .migreq = l->migreq != 0,
			 .pkey = 0xffff,
			 .dqpn = l->dqpn & UR_QPN_MASK,
			 .urnic = l->urnic != 0,
			 .masked = l->urnic != 0,
			 .psn = ur_psn_add(l->epsn, UR_PSN_MASK) },
		.syndrome = UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
		.msn = l->msn,
	};

	memcpy(t->src, l->src, 16);
	memcpy(t->dst, l->dst, 16);
	t->scope_id = l->scope_id;
	t->dqpn = h.bth.dqpn;
	t->tclass = l->tclass;
	t->hop_limit = l->hop_limit;
	t->sport =
		(ur_addr_is_v4(l->dst) ? sports->v4
				       : sports->v6)[ur_sport_of(h.bth.dqpn)];
	t->npkts = 1;
	t->pkt_len = t->bytes = t->linear_len = ACK_LEN;
	t->niov = 1;
	t->sent = 0;
	t->iov[0] = (struct iovec){ t->linear, ACK_LEN };
	(void)ur_hdr_encode(&h, t->linear);
	put_icrc(t, t->linear);
}

/* A connection of DC that is idle for longer has no initiator that waits: that
 * repeats its request more often. */
static bool may_be_asked(const struct ur_rqp *q)
{
	return q->connection
		       ? q->r->now_ns - q->connection->used_ns < UR_TIMEWAIT_NS
		       : q->qp->type == UR_QPT_RC;
}

/* False: q has executed nothing for its peer. */
static bool record_of(const struct ur_rqp *q, struct ur_timewait *l)
{
	const struct ur_path *p = q->path;

	if (!p || !may_be_asked(q) || q->rsp.epsn == q->qp->attr.rq_psn)
		return false;
	*l = (struct ur_timewait){
		.qpn = q->qp->qpn,
		.dqpn = q->qp->attr.dest_qpn,
		.epsn = q->rsp.epsn,
		.msn = q->rsp.msn,
		.scope_id = p->key.scope_id,
		.tclass = p->key.tclass,
		.hop_limit = p->key.hop_limit,
		.urnic = q->peer != UR_PEER_OTHER,
		.migreq = ur_mig_bit(q),
		.session = q->connection ? q->connection->session : 0,
	};
	memcpy(l->src, p->key.src, 16);
	memcpy(l->dst, p->key.dst, 16);
	return true;
}

/* Without memory there is no TIME-WAIT. */
void ur_timewait_enter(struct ur_rqp *q)
{
	struct ur_roce *r = q->r;
	struct ur_timewait_entry one = { .until_ns =
						 r->now_ns + UR_TIMEWAIT_NS };
	struct ur_timewait_entry *to;

	if (!record_of(q, &one.l))
		return;
	if (!r->timewait)
		r->timewait = calloc(1, sizeof(*r->timewait));
	if (!r->timewait)
		return;
	to = &r->timewait->one[r->timewait->count++ % UR_TIMEWAIT_MAX];
	r->timewait->asked -= to->asked;
	*to = one;
}

void ur_timewait_input(struct ur_roce *r, const struct ur_rx *rx, uint32_t dqpn)
{
	struct ur_timewaits *all = r->timewait;

	/* The newest first: a number may have had several peers. */
	for (uint32_t i = 1; i <= UR_TIMEWAIT_MAX && i <= all->count; i++) {
		struct ur_timewait_entry *o =
			&all->one[(all->count - i) % UR_TIMEWAIT_MAX];

		if (o->until_ns < r->now_ns)
			return;
		if (o->l.qpn != dqpn || !ur_timewait_match(&o->l, rx))
			continue;
		all->asked += !o->asked;
		o->asked = true;
		return;
	}
}

bool ur_timewait_output(struct ur_roce *r, struct ur_burst *t)
{
	struct ur_timewaits *all = r->timewait;

	for (uint32_t i = 0; all->asked && i < UR_TIMEWAIT_MAX; i++) {
		if (!all->one[i].asked)
			continue;
		all->one[i].asked = false;
		all->asked--;
		r->cnt.timewait_acks_sent++;
		ur_timewait_ack(&all->one[i].l, &r->sports, t);
		return true;
	}
	return false;
}

bool ur_timewait_is_due(const struct ur_roce *r)
{
	return r->timewait && r->timewait->asked;
}

void ur_timewait_fini(struct ur_roce *r)
{
	free(r->timewait);
}

static uint32_t records_of_dc(const struct ur_roce *r, struct ur_timewait *out,
			      uint32_t cap)
{
	uint32_t n = 0;

	if (!r->dc)
		return 0;
	ur_list_each(struct ur_dc_connection, c, &r->dc->used, node) {
		if (n == cap)
			break;
		n += record_of(ur_rqp_of(&c->qp), &out[n]);
	}
	return n;
}

uint32_t ur_roce_timewait(const struct ur_roce *r, uint64_t now_ns,
			  struct ur_timewait *out, uint32_t cap)
{
	const struct ur_timewaits *all = r->timewait;
	uint32_t n = 0;

	for (uint32_t i = 0; i < 1u << UR_SLOT_SHIFT && n < cap; i++)
		n += r->qps[i] && record_of(r->qps[i], &out[n]);
	n += records_of_dc(r, &out[n], cap - n);
	for (uint32_t i = 0; all && i < UR_TIMEWAIT_MAX && n < cap; i++) {
		if (all->one[i].until_ns >= now_ns)
			out[n++] = all->one[i].l;
	}
	return n;
}
