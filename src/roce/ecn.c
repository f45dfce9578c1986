/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explicit congestion notification (IBTA A17.9): packets of reliable queue pairs
 * leave with ECT(0) (path.c), a marked one is answered by a CNP, and a CNP reduces
 * the path's window.  The ICRC does not cover the marks.
 *
 * A host that can send packets with the peer's address can forge CNPs and marks, as
 * it can forge any other packet of the connection.  CNPs reduce the window to its
 * minimum at most, and change neither timers nor the queue pair's state; marks cause
 * one short packet in CNP_INTERVAL_NS.
 */
#include "roce/ecn.h"
#include "roce/congestion.h"

/* As adapters do: one CNP per queue pair in this time.  A window is reduced at most
 * once per window of data, which takes a round trip. */
#define CNP_INTERVAL_NS 50000u
#define CNP_PAYLOAD	16u

void ur_ecn_received(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;

	q->r->cnt.np_ecn_marked_roce_packets++;
	if (!q->path || ur_qp_type_dc(q->qp->type) || p->cnp_due ||
	    (p->cnp_ns && in->now_ns - p->cnp_ns < CNP_INTERVAL_NS))
		return;
	p->cnp_ns = in->now_ns;
	p->cnp_pkey = in->hdr.bth.pkey;
	p->cnp_due = true;
	ur_rqp_want_ack(q);
}

/*
 * Nothing reduces the rate of CNPs, so they leave as Not-ECT (RFC 3168 6.1.4 has the
 * same for acknowledgements).  A burst has one traffic class, so other packets in
 * a CNP's burst leave without ECT too.
 */
enum ur_emit ur_ecn_emit_cnp(struct ur_rqp *q, struct ur_burst *t)
{
	static uint8_t zeros[CNP_PAYLOAD];
	struct iovec iov = { .iov_base = zeros, .iov_len = sizeof(zeros) };
	struct ur_hdr h = { .bth = { .opcode = UR_CNP,
				     .becn = true,
				     .pkey = q->rsp.cnp_pkey,
				     .dqpn = q->qp->attr.dest_qpn } };
	uint32_t len = ur_pkt_len(ur_opcode_get(UR_CNP), CNP_PAYLOAD);

	if (t->npkts && (t->tclass & UR_ECN_MASK))
		return UR_EMIT_FULL;
	if (ur_burst_fits(t, len) != UR_FIT_OK)
		return UR_EMIT_FULL;
	t->tclass = (uint8_t)(t->tclass & ~UR_ECN_MASK);
	ur_burst_add(t, q->path, &h, &iov, 1, CNP_PAYLOAD, false);
	q->rsp.cnp_due = false;
	q->r->cnt.np_cnp_sent++;
	return UR_EMIT_OK;
}

/* The QP's own path, or the alternate one; NULL: the packet came by neither. */
static struct ur_path *marked_path(const struct ur_rqp *q,
				   const struct ur_in *in,
				   const uint8_t dst[16])
{
	if (q->path && ur_path_joins(q->path, in->rx->src, dst))
		return q->path;
	if (q->alt && ur_path_joins(q->alt, in->rx->src, dst))
		return q->alt;
	return NULL;
}

bool ur_ecn_notified(struct ur_rqp *q, const struct ur_in *in,
		     const uint8_t dst[16])
{
	struct ur_path *p = marked_path(q, in, dst);

	if (!p) {
		q->r->cnt.drop_peer++;
		return false;
	}
	q->r->cnt.rp_cnp_handled++;
	ur_cong_marked(p, in->now_ns);
	return true;
}
