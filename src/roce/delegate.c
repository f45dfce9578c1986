/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The delegate's side of delegation.h. A delegate is a responder for the time
 * of a delegation, and for as long as a message uses a receive of ours. It is
 * not among the lane's queue pairs: it gets packets with delegations only.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "roce/delegation.h"

#define DELEGATES_MAX 4096u /* per lane */
#define END_MAX	      8192u

static struct ur_delegate *delegate_of(struct ur_qp *qp)
{
	return ur_container_of(qp, struct ur_delegate, qp);
}

/* Saves the reason of the failure; the owner raises LAST_WQE_REACHED. */
static void on_event(struct ur_qp *qp, enum ur_event_type type)
{
	if (type != UR_EVENT_QP_LAST_WQE_REACHED)
		delegate_of(qp)->event = (int)type;
}

static struct ur_delegate *find(const struct ur_roce *r, uint32_t via,
				uint32_t qpn)
{
	ur_list_each(struct ur_delegate, g, &r->delegates, node)
		if (g->via == via && g->qpn == qpn)
			return g;
	return NULL;
}

static struct ur_delegate *delegate_new(struct ur_roce *r, uint32_t via,
					uint32_t qpn)
{
	struct ur_delegate *g = r->delegate_count < DELEGATES_MAX
					? calloc(1, sizeof(*g))
					: NULL;

	if (!g)
		return NULL;
	g->qp.type = UR_QPT_XRC_RECV;
	g->qp.on_event = on_event;
	g->qp.qpn = qpn;
	g->qp.mrs = r->mrs;
	ur_list_init(&g->qp.windows);
	g->qp.proto = ur_rqp_new(r, &g->qp);
	if (!g->qp.proto) {
		free(g);
		return NULL;
	}
	g->qp.record.late = true;
	ur_record_attach(&g->qp);
	atomic_store_explicit(&g->qp.state, UR_QPS_RTR, memory_order_relaxed);
	g->via = via;
	g->qpn = qpn;
	ur_list_init(&g->done);
	ur_list_add_tail(&r->delegates, &g->node);
	r->delegate_count++;
	return g;
}

/* A receive in use is flushed, as by a queue pair in error. */
static void delegate_free(struct ur_roce *r, struct ur_delegate *g)
{
	struct ur_rqp *q = ur_rqp_of(&g->qp);

	ur_recv_fail(q, UR_WC_WR_FLUSH_ERR);
	ur_record_close(&g->qp);
	ur_list_del(&g->node);
	ur_list_del(&g->done);
	r->delegate_count--;
	ur_rqp_free(q);
	free(g);
}

static int take_terms(struct ur_delegate *g,
		      const struct ur_delegation_terms *t)
{
	struct ur_rqp *q = ur_rqp_of(&g->qp);
	struct ur_av av = { .scope_id = t->path.scope_id,
			    .tclass = t->path.tclass,
			    .hop_limit = t->path.hop_limit };

	memcpy(av.sgid, t->path.src, sizeof(av.sgid));
	memcpy(av.dgid, t->path.dst, sizeof(av.dgid));
	g->seq = t->seq;
	g->qp.attr.dest_qpn = t->dest_qpn;
	g->qp.attr.access = t->access;
	g->qp.attr.path_mtu = t->mtu;
	g->qp.attr.min_rnr_timer = t->min_rnr_timer;
	q->mtu = ur_mtu_bytes(t->mtu);
	return ur_rqp_retarget(q, &av, t->dest_qpn, t->resources);
}

static void return_state(struct ur_roce *r, struct ur_delegate *g)
{
	struct ur_rqp *q = ur_rqp_of(&g->qp);
	struct ur_delegation_end e = { .seq = g->seq,
				       .failed = ur_rqp_state(q) == UR_QPS_ERR,
				       .event = g->event,
				       .under_way = q->rsp.rwqe != NULL };
	uint8_t buf[END_MAX];
	struct ur_wr w = ur_wr_init(buf, sizeof(buf));

	ur_delegation_put_end(&w, &e);
	ur_delegation_put_state(&w, &q->rsp);
	r->xrc->return_state(r->xrc_arg, g->via, g->qpn, buf,
			     (size_t)(w.p - buf));
	ur_list_del(&g->done);
	if (!e.under_way)
		delegate_free(r, g);
}

void ur_delegates_return(struct ur_roce *r)
{
	ur_list_each_safe(struct ur_delegate, g, &r->finished, done)
		if (ur_delegation_is_settled(ur_rqp_of(&g->qp)))
			return_state(r, g);
}

static void execute_all(struct ur_delegate *g, struct ur_rd *rd,
			uint64_t now_ns)
{
	struct ur_rqp *q = ur_rqp_of(&g->qp);

	while (ur_rd_left(rd) && ur_rqp_state(q) != UR_QPS_ERR) {
		uint32_t len = ur_rd_be16(rd);
		const uint8_t *pkt = ur_rd_bytes(rd, len);

		if (!pkt)
			return;
		ur_delegation_execute(q, pkt, len, now_ns);
	}
}

/* Refuses a second delegation of the target before the first is returned. */
static struct ur_delegate *admit(struct ur_roce *r,
				 const struct ur_delegated *b)
{
	struct ur_delegate *g = find(r, b->via, b->qpn);

	if (g && !ur_list_empty(&g->done))
		return NULL;
	return g ? g : delegate_new(r, b->via, b->qpn);
}

int ur_roce_accept_delegation(struct ur_roce *r, const struct ur_delegated *b,
			      uint64_t now_ns)
{
	struct ur_rd rd = ur_rd_init(b->msg, b->len);
	struct ur_delegation_terms terms;
	struct ur_delegate *g;

	r->now_ns = now_ns;
	if (!ur_delegation_get_terms(&rd, &terms))
		return -EPROTO;
	g = admit(r, b);
	if (!g)
		return -EBUSY;
	g->qp.xrcd = b->xrcd;
	g->event = -1;
	if (take_terms(g, &terms) ||
	    !ur_delegation_get_state(&rd, ur_rqp_of(&g->qp))) {
		delegate_free(r, g);
		return -EPROTO;
	}
	ur_list_add_tail(&r->finished, &g->done);
	execute_all(g, &rd, now_ns);
	return 0;
}

void ur_roce_dismiss(struct ur_roce *r, uint32_t via, uint32_t qpn,
		     uint64_t now_ns)
{
	struct ur_delegate *g = find(r, via, qpn);

	r->now_ns = now_ns;
	if (g)
		delegate_free(r, g);
}

void ur_delegates_gone(struct ur_roce *r, uint32_t via)
{
	ur_list_each_safe(struct ur_delegate, g, &r->delegates, node)
		if (g->via == via)
			delegate_free(r, g);
}
