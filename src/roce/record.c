/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol's events for the flight recorder (core/record.h), with the counters
 * of the same faults.  Nothing here is on the path of a packet that is accepted.
 */
#include "core/record.h"

#include "roce/dc.h"

/* An initiator's peer is the target of its session. */
static void fill_session(const struct ur_dci *d, struct ur_record_qp *to)
{
	to->sq_psn = d->first_psn;
	memcpy(to->sgid, d->target.av.sgid, sizeof(to->sgid));
	memcpy(to->dgid, d->target.av.dgid, sizeof(to->dgid));
}

/* The protocol's part of ur_record_qp. */
static void fill(const struct ur_qp *qp, struct ur_record_qp *to)
{
	const struct ur_rqp *q = ur_rqp_of(qp);

	if (!q)
		return;
	to->una = q->req.una;
	to->end = q->req.end;
	to->epsn = q->rsp.epsn;
	to->rnr_wait = q->req.rnr_wait;
	to->progress_ns = q->req.retry_ns;
	if (q->dci && q->dci->session)
		fill_session(q->dci, to);
}

void ur_record_attach(struct ur_qp *qp)
{
	qp->record.fill = fill;
}

void ur_record_drop(struct ur_qp *qp, enum ur_record_reason reason,
		    uint64_t found, uint64_t expected)
{
	const struct ur_record e = { .type = UR_REC_DROP,
				     .code = (uint8_t)reason,
				     .arg = { found, expected } };

	if (qp->record.ring)
		ur_record_add(qp, &e);
}

void ur_record_req_fail(struct ur_rqp *q, const struct ur_swqe *w,
			enum ur_wc_status status)
{
	bool fills = ur_swqe_is_read(w) || ur_swqe_is_atomic(w);

	if (status == UR_WC_LOC_PROT_ERR && !(w->flags & UR_SEND_INLINE))
		ur_record_list(q->qp, q->qp->pd, w->data.sge, w->num_sge,
			       fills ? UR_ACCESS_LOCAL_WRITE : 0, UR_REC_SEND);
}

void ur_record_recv_fail(struct ur_rqp *q, enum ur_wc_status status)
{
	const struct ur_srq *srq = ur_resp_srq(q, q->rsp.srqn);
	const struct ur_rwqe *w = q->rsp.rwqe;

	if (status == UR_WC_LOC_PROT_ERR)
		ur_record_list(q->qp, srq ? srq->pd : q->qp->pd, w->sge,
			       w->num_sge, UR_ACCESS_LOCAL_WRITE, UR_REC_RECV);
	ur_record_recv_wc(q->qp, w->wr_id, w->length, q->rsp.received, status);
}

/* The right of the QP that an operation requires. */
static uint32_t right_of(enum ur_op_kind kind)
{
	switch (kind) {
	case UR_OP_WRITE:
	case UR_OP_ATOMIC_WRITE:
		return UR_ACCESS_REMOTE_WRITE;
	case UR_OP_READ_REQUEST:
		return UR_ACCESS_REMOTE_READ;
	case UR_OP_CMP_SWAP:
	case UR_OP_FETCH_ADD:
		return UR_ACCESS_REMOTE_ATOMIC;
	case UR_OP_FLUSH:
		return UR_ACCESS_FLUSH_GLOBAL;
	case UR_OP_SEND:
	case UR_OP_READ_RESPONSE:
	case UR_OP_ACK:
	case UR_OP_ATOMIC_ACK:
	case UR_OP_CNP:
		break;
	}
	return 0;
}

static void refused(struct ur_rqp *q, const struct ur_in *in,
		    enum ur_record_reason reason, uint64_t expected,
		    uint64_t found)
{
	const struct ur_record e = { .type = UR_REC_REFUSED,
				     .code = (uint8_t)reason,
				     .arg = { in->hdr.op->kind,
					      q->qp->attr.access, expected,
					      found, in->hdr.bth.psn } };

	ur_record_add(q->qp, &e);
}

void ur_record_dct_refused(struct ur_rqp *q, const struct ur_in *in,
			   enum ur_record_reason reason, uint64_t expected,
			   uint64_t found)
{
	struct ur_record e = { .type = UR_REC_REFUSED,
			       .code = (uint8_t)reason,
			       .arg = { in->hdr.op->kind, q->qp->attr.access,
					expected, found, in->hdr.bth.psn } };

	if (!q->qp->record.ring)
		return;
	e.arg[UR_RECORD_FROM] = ur_record_from(in->rx->src, in->hdr.sqpn);
	ur_record_add(q->qp, &e);
	ur_record_failed(q->qp);
}

/* The check that failed, found out again. */
static void bad_opcode(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_opcode *op = in->hdr.op;
	bool begins = op->position & UR_POS_FIRST;
	uint32_t need = right_of((enum ur_op_kind)op->kind);

	if (begins == q->rsp.in_message || (!begins && op->kind != q->rsp.kind))
		refused(q, in, UR_REC_R_SEQUENCE, q->rsp.in_message, begins);
	else if (q->qp->type == UR_QPT_XRC_RECV &&
		 !ur_resp_srq(q, in->hdr.srqn))
		refused(q, in, UR_REC_R_SRQ, 0, in->hdr.srqn);
	else if ((q->qp->attr.access & need) != need)
		refused(q, in, UR_REC_R_QP_ACCESS, need, q->qp->attr.access);
	else
		refused(q, in, UR_REC_R_OPERATION, 0, op->kind);
}

static void bad_access(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_hdr *h = &in->hdr;
	bool begins = h->op->position & UR_POS_FIRST;
	struct ur_record_access a = {
		.pd = ur_resp_pd(q, q->rsp.srqn),
		.key = h->rkey,
		.need = right_of((enum ur_op_kind)h->op->kind),
		.va = h->va,
		.length = ur_op_is_atomic(h->op->kind) ? 8 : h->dma_len,
		.side = UR_REC_REMOTE,
	};

	if (!begins) {
		a.key = q->rsp.rkey;
		a.va = q->rsp.va + q->rsp.received;
		a.length = in->payload_len;
	}
	ur_record_access(q->qp, &a);
}

static void bad_length(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_opcode *op = in->hdr.op;

	if (ur_op_is_atomic(op->kind) || op->kind == UR_OP_ATOMIC_WRITE)
		refused(q, in, UR_REC_R_ALIGNMENT, 8, in->hdr.va);
	else
		refused(q, in, UR_REC_R_LENGTH, q->mtu, in->payload_len);
}

static void detail(struct ur_rqp *q, const struct ur_in *in, enum ur_fault f)
{
	switch (f) {
	case UR_FAULT_BAD_OPCODE:
		bad_opcode(q, in);
		break;
	case UR_FAULT_TOO_LONG:
		refused(q, in, UR_REC_R_TOO_LONG, q->rsp.rwqe->length,
			q->rsp.received + in->payload_len);
		break;
	case UR_FAULT_BAD_LENGTH:
		bad_length(q, in);
		break;
	case UR_FAULT_ACCESS:
		bad_access(q, in);
		break;
	case UR_FAULT_RESOURCES:
		refused(q, in, UR_REC_R_RESOURCES, q->rsp.res_size, 0);
		break;
	case UR_FAULT_INVALIDATE:
		refused(q, in, UR_REC_R_INVALIDATE, 0, in->hdr.inv_rkey);
		break;
	case UR_FAULT_NONE:
	case UR_FAULT_DROP:
	case UR_FAULT_DUPLICATE:
	case UR_FAULT_PSN_SEQ:
	case UR_FAULT_AHEAD:
	case UR_FAULT_RNR:
	case UR_FAULT_LOCAL_PROT: /* with the receive */
	case UR_FAULT_COUNT:
		break;
	}
}

/* A delegate of XRC lives as long as a few packets, so it takes a ring only when
 * its requests fail. */
static void take_late(struct ur_qp *qp)
{
	if (qp->record.late && !qp->record.ring)
		ur_record_open(qp);
}

void ur_record_fault(struct ur_rqp *q, const struct ur_in *in, enum ur_fault f)
{
	struct ur_roce_counters *c = &q->r->cnt;

	c->rcvd_seq_err += f == UR_FAULT_PSN_SEQ;
	c->send_rnr_err += f == UR_FAULT_RNR;
	q->qp->rnr_sent += f == UR_FAULT_RNR;
	c->resp_local_length_error += f == UR_FAULT_TOO_LONG;
	c->resp_remote_access_errors += f == UR_FAULT_ACCESS;
	c->resp_remote_op_errors += f == UR_FAULT_LOCAL_PROT;
	if (ur_fault_rows[f].fatal)
		take_late(q->qp);
	if (!q->qp->record.ring)
		return;
	detail(q, in, f);
	if (UR_AETH_CLASS(ur_fault_rows[f].syndrome) != UR_AETH_ACK)
		ur_record_code(q->qp, UR_REC_NAK_SENT,
			       ur_fault_rows[f].syndrome, in->hdr.bth.psn);
	/* Of a WRITE or READ no completion shows it here. */
	if (ur_fault_rows[f].fatal && !q->rsp.rwqe)
		ur_record_failed(q->qp);
}

void ur_record_read_fault(struct ur_rqp *q, uint32_t rkey, uint64_t va,
			  uint32_t len)
{
	take_late(q->qp);
	if (!q->qp->record.ring)
		return;
	ur_record_access(q->qp, &(struct ur_record_access){
					.pd = ur_resp_pd(q, q->rsp.srqn),
					.key = rkey,
					.need = UR_ACCESS_REMOTE_READ,
					.va = va,
					.length = len,
					.side = UR_REC_REMOTE });
	ur_record_failed(q->qp);
}
