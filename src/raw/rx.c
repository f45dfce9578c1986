/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: a frame is cut into the packets that the wire would have carried,
 * its headers are parsed, the flows select the queue pairs, and each gets a
 * copy.
 */
#include <errno.h>

#include "core/sge.h"
#include "raw/csum.h"
#include "raw/gso.h"
#include "raw/internal.h"
#include "raw/toeplitz.h"

/* The queue that consumes a packet: a queue pair's receive queue, or one of the
 * work queues of its table. */
struct sink {
	struct ur_rq *rq;
	struct ur_cq *cq;
	const struct ur_pd *pd;
	const void *owner;
	uint32_t num;
	bool strip_vlan;
};

struct delivery {
	struct ur_raw *r;
	struct ur_pkt pkt;
	bool sums_known; /* computed once for all destinations */
	bool sums_good;
	uint64_t now_ns;
};

/* Pieces of the packet in the order of placement. */
struct piece {
	const uint8_t *p;
	uint32_t len;
};

static const struct ur_rwqe *next_receive(const struct ur_rq *rq)
{
	return rq->ring ? ur_rq_first(rq) : NULL;
}

static bool push(struct ur_rq *rq, struct ur_cq *cq, const void *owner,
		 struct ur_cqe *c)
{
	c->wr_id = next_receive(rq)->wr_id;
	c->opcode = UR_WC_RECV;
	c->qp = owner;
	c->owner = UR_CQE_RAW;
	ur_rq_pop(rq);
	return ur_cq_push(cq, c, c->status != UR_WC_SUCCESS);
}

bool ur_raw_flush_rq(struct ur_rq *rq, struct ur_cq *cq, const void *owner,
		     uint32_t num, uint64_t now_ns)
{
	bool room = true;

	while (next_receive(rq)) {
		struct ur_cqe c = { .status = UR_WC_WR_FLUSH_ERR,
				    .qpn = num,
				    .ts_ns = now_ns };

		room &= push(rq, cq, owner, &c);
	}
	return room;
}

/* The packet without its first tag, or with it, whether the tag is in the frame
 * or was stripped by the network device (then `tag` gets it). */
static uint32_t pieces(const struct ur_pkt *p, bool strip, uint8_t tag[4],
		       struct piece out[3])
{
	bool in_place = p->l2 > UR_MACS_LEN;
	uint32_t n = 0;

	if (!p->tpid || (in_place && !strip)) {
		out[n++] = (struct piece){ p->frame, p->len };
		return n;
	}
	out[n++] = (struct piece){ p->frame, UR_MACS_LEN };
	if (!strip) {
		ur_put_be16(tag, p->tpid);
		ur_put_be16(tag + 2, p->outer.tci);
		out[n++] = (struct piece){ tag, UR_VLAN_LEN };
	}
	out[n++] = (struct piece){ p->frame + p->l2, p->len - p->l2 };
	return n;
}

static int place(const struct delivery *d, const struct sink *s,
		 const struct ur_rwqe *w, const struct piece *piece, uint32_t n)
{
	uint32_t off = 0;

	for (uint32_t i = 0; i < n; i++) {
		int err = ur_sge_scatter(d->r->mrs, s->pd, w->sge, w->num_sge,
					 off, piece[i].p, piece[i].len);

		if (err)
			return err;
		off += piece[i].len;
	}
	return 0;
}

static bool sums_good(struct delivery *d)
{
	if (!d->sums_known) {
		d->sums_known = true;
		d->sums_good = ur_csum_verify(&d->pkt.outer);
	}
	return d->sums_good;
}

/* 0; -EACCES and the like: the receive is invalid; -ENOSPC: the CQ is full. */
static int put(struct delivery *d, const struct sink *s,
	       const struct ur_flow *f)
{
	const struct ur_rwqe *w = next_receive(s->rq);
	struct ur_cqe c = { .qpn = s->num,
			    .ts_ns = d->now_ns,
			    .flow_tag = f->tag };
	struct piece piece[3];
	uint8_t tag[UR_VLAN_LEN];
	uint32_t n;
	int err;

	if (!w) {
		d->r->cnt.drop_no_recv++;
		return 0;
	}
	n = pieces(&d->pkt, s->strip_vlan, tag, piece);
	for (uint32_t i = 0; i < n; i++)
		c.byte_len += piece[i].len;
	/* As for datagrams: a packet that does not fit is dropped, the receive
	 * stays. Otherwise any peer could stop the queue. */
	if (c.byte_len > w->length) {
		d->r->cnt.drop_length++;
		return 0;
	}
	err = place(d, s, w, piece, n);
	if (err)
		c.status = UR_WC_LOC_PROT_ERR;
	if (s->strip_vlan && d->pkt.tpid)
		c.cvlan = d->pkt.outer.tci;
	if (sums_good(d))
		c.flags |= UR_WC_IP_CSUM_OK;
	d->r->cnt.rx_delivered += !err;
	if (!push(s->rq, s->cq, s->owner, &c))
		return -ENOSPC;
	return err;
}

static void put_wq(struct delivery *d, struct ur_wq *wq,
		   const struct ur_flow *f)
{
	struct sink s = { .rq = &wq->rq,
			  .cq = wq->cq,
			  .pd = wq->pd,
			  .owner = wq,
			  .num = wq->num,
			  .strip_vlan = wq->strip_vlan };

	if (atomic_load_explicit(&wq->state, memory_order_relaxed) !=
	    UR_WQS_RDY)
		d->r->cnt.drop_qp_state++;
	else if (put(d, &s, f))
		ur_raw_wq_fail(wq, d->now_ns);
}

static bool receives(const struct ur_qp *qp)
{
	enum ur_qp_state s = ur_rawqp_state(qp);

	return s == UR_QPS_RTR || s == UR_QPS_RTS || s == UR_QPS_SQD ||
	       s == UR_QPS_SQE;
}

static void put_qp(struct delivery *d, struct ur_qp *qp,
		   const struct ur_flow *f)
{
	struct sink s = { .rq = &qp->rq,
			  .cq = qp->recv_cq,
			  .pd = qp->pd,
			  .owner = qp,
			  .num = qp->qpn,
			  .strip_vlan = qp->raw.strip_vlan };
	int err;

	if (!receives(qp)) {
		d->r->cnt.drop_qp_state++;
		return;
	}
	err = put(d, &s, f);
	if (err == -ENOSPC)
		ur_record_code(qp, UR_REC_EVENT, UR_EVENT_CQ_ERR, 0);
	if (err)
		ur_rawqp_fail(ur_rawqp(qp),
			      err == -ENOSPC ? UR_EVENT_QP_FATAL
					     : UR_EVENT_QP_ACCESS_ERR,
			      d->now_ns);
}

static void deliver(void *arg, const struct ur_flow *f)
{
	const struct ur_rss *rss = &f->qp->raw.rss;
	struct delivery *d = arg;
	uint32_t i;

	if (!rss->table) {
		put_qp(d, f->qp, f);
		return;
	}
	i = ur_rss_hash(rss, &d->pkt) & rss->table->mask;
	put_wq(d, rss->table->wqs[i], f);
}

static void input_one(struct delivery *d, const uint8_t *data, uint32_t len,
		      const struct ur_frame_rx *f)
{
	struct ur_raw *r = d->r;

	if (!ur_pkt_parse(&d->pkt, data, len, f->tpid, f->tci)) {
		r->cnt.drop_malformed++;
		return;
	}
	/* The host's verdict is about existing checksums only. */
	d->sums_known = f->csum_valid;
	d->sums_good = f->csum_valid && d->pkt.outer.ipv4 && d->pkt.outer.l4 &&
		       ur_csum_offset(d->pkt.outer.proto);
	r->cnt.rcvd_pkts++;
	r->cnt.rcvd_bytes += len;
	if (!ur_flow_steer(&r->flows, &d->pkt, deliver, d))
		r->cnt.drop_no_flow++;
}

static void input_many(struct delivery *d, const struct ur_frame_rx *f)
{
	struct ur_pkt whole;
	struct ur_cut cut;
	uint32_t len;

	if (!ur_pkt_parse(&whole, f->data, f->len, f->tpid, f->tci) ||
	    !ur_cut_init(&cut, &whole, f->gso_size)) {
		d->r->cnt.drop_malformed++;
		return;
	}
	while ((len = ur_cut_next(&cut, d->r->cut, sizeof(d->r->cut))))
		input_one(d, d->r->cut, len, f);
}

static uint32_t posted(const struct ur_rq *rq)
{
	return atomic_load_explicit(&rq->tail, memory_order_acquire) -
	       atomic_load_explicit(&rq->head, memory_order_relaxed);
}

static uint32_t table_room(const struct ur_wq_table *t, uint32_t max)
{
	uint32_t room = 0;

	for (uint32_t i = 0; i <= t->mask; i++) {
		const struct ur_wq *wq = t->wqs[i];
		uint32_t n = max;

		if (atomic_load_explicit(&wq->state, memory_order_relaxed) ==
		    UR_WQS_RDY)
			n = posted(&wq->rq);
		room = n > room ? n : room;
	}
	return room;
}

static uint32_t flow_room(const struct ur_flow *f, uint32_t max)
{
	if (f->drop)
		return max;
	if (f->qp->raw.rss.table)
		return table_room(f->qp->raw.rss.table, max);
	return receives(f->qp) ? posted(&f->qp->rq) : max;
}

uint32_t ur_raw_room(const struct ur_raw *r, uint32_t max)
{
	uint32_t room = 0;

	for (unsigned int i = 0; i < UR_FLOW_TYPES; i++)
		ur_list_each(struct ur_flow, f, &r->flows.flows[i], node) {
			uint32_t more = flow_room(f, max);

			room = more > room ? more : room;
			if (room >= max)
				return max;
		}
	return room;
}

void ur_raw_input(struct ur_raw *r, const struct ur_frame_rx *f,
		  uint64_t now_ns)
{
	struct delivery d = { .r = r, .now_ns = now_ns };

	if (f->gso) {
		input_many(&d, f);
		return;
	}
	if (f->csum_partial &&
	    !ur_csum_complete(f->data, f->len, f->csum_start, f->csum_offset)) {
		r->cnt.drop_malformed++;
		return;
	}
	input_one(&d, f->data, f->len, f);
}
