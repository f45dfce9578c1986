/* SPDX-License-Identifier: BSD-2-Clause */
/* TERMINATE (RFC 5040, 4.8 and 7): ours, and the peer's. */
#include "base/log.h"
#include "iwarp/internal.h"

/* The last message of the stream: only the first error is reported. */
void ur_iw_terminate(struct ur_iwqp *q, enum ur_iw_fault f,
		     const struct ur_iw_in *in)
{
	const struct ur_iw_fault_row *row = &ur_iw_fault_rows[f];
	struct ur_terminate t = { .layer = row->layer,
				  .etype = row->etype,
				  .code = row->code };

	if (row->headers && in && in->seg) {
		uint32_t hdr = ur_ddp_hdr_len(in->h.tagged);

		t.has_word = UR_TERM_HAS_LENGTH | UR_TERM_HAS_DDP;
		t.segment_len = (uint16_t)(hdr + in->len);
		t.ddp = in->seg;
		t.ddp_len = (uint16_t)hdr;
		/* Of RDMAP headers, only that of a READ or atomic request is
		 * included. */
		if (row->layer == UR_TERM_RDMAP && in->payload && in->op &&
		    in->op->qn == UR_QN_READ && !in->op->tagged &&
		    in->len == in->op->fixed) {
			t.has_word |= UR_TERM_HAS_RDMAP;
			t.rdmap = in->payload;
			t.rdmap_len = (uint16_t)in->len;
		}
	}
	q->tx.term_len = ur_terminate_encode(&t, q->tx.term);
}

static enum ur_wc_status status_of(const struct ur_terminate *t)
{
	if (t->layer == UR_TERM_RDMAP) {
		if (t->etype == UR_TERM_PROTECTION)
			return UR_WC_REM_ACCESS_ERR;
		if (t->etype == UR_TERM_OPERATION &&
		    (t->code == UR_TERM_OPCODE ||
		     t->code == UR_TERM_RDMAP_VERSION ||
		     t->code == UR_TERM_CANNOT_INVALIDATE ||
		     t->code == UR_TERM_UNSPECIFIED))
			return UR_WC_REM_INV_REQ_ERR;
		return UR_WC_REM_OP_ERR;
	}
	if (t->layer == UR_TERM_DDP) {
		if (t->etype == UR_TERM_DDP_TAGGED)
			return t->code == UR_TERM_T_VERSION
				       ? UR_WC_REM_INV_REQ_ERR
				       : UR_WC_REM_ACCESS_ERR;
		/* No receive was posted: verbs have a status for that. */
		if (t->etype == UR_TERM_DDP_UNTAGGED)
			return t->code == UR_TERM_U_NO_BUFFER
				       ? UR_WC_RNR_RETRY_EXC_ERR
				       : UR_WC_REM_INV_REQ_ERR;
		return UR_WC_REM_OP_ERR;
	}
	return UR_WC_REM_ABORT_ERR;
}

/* Is that the segment of request w? */
static bool matches(const struct ur_swqe *w, const struct ur_ddp_hdr *h)
{
	if (h->tagged)
		return ur_swqe_is_write(w) && h->stag == w->wr.rdma.rkey &&
		       h->to - w->wr.rdma.remote_addr <= w->length;
	if (h->qn == UR_QN_READ)
		return ur_swqe_is_answered(w) && h->msn == w->first_psn;
	return h->qn == UR_QN_SEND && !ur_swqe_is_answered(w) &&
	       w->opcode != UR_WR_RDMA_WRITE && h->msn == w->first_psn;
}

/*
 * The request that the TERMINATE is about, if it is not complete. A SEND or
 * WRITE is complete when TCP has accepted it, so mostly only READs and atomics
 * are found.
 */
static bool find(struct ur_iwqp *q, const struct ur_terminate *t, uint32_t *at)
{
	struct ur_sq *sq = &q->qp->sq;
	uint32_t end = q->tx.cur + (q->tx.in_message ? 1 : 0);
	struct ur_ddp_hdr h;

	if (!t->ddp || !ur_ddp_decode(&h, t->ddp, t->ddp_len))
		return false;
	for (uint32_t i = ur_sq_head(sq); i != end; i++) {
		if (!matches(ur_sq_slot(sq, i), &h))
			continue;
		*at = i;
		return true;
	}
	return false;
}

/* For the flight recorder: only urnic's peers have a record of their own. */
static void record(struct ur_iwqp *q, const struct ur_terminate *t)
{
	struct ur_record e = { .type = UR_REC_TERMINATED,
			       .code = t->code,
			       .side = (uint8_t)(t->layer << 4 | t->etype) };
	struct ur_ddp_hdr h;

	if (t->ddp && ur_ddp_decode(&h, t->ddp, t->ddp_len)) {
		e.arg[0] = h.tagged ? UR_REC_SEG_TAGGED : UR_REC_SEG_UNTAGGED;
		e.arg[1] = h.tagged ? h.stag : h.qn;
		e.arg[2] = h.tagged ? h.to : h.msn;
	}
	ur_record_add(q->qp, &e);
}

void ur_iw_terminated(struct ur_iwqp *q, const struct ur_iw_in *in)
{
	struct ur_terminate t;
	uint32_t at;
	bool found;

	q->w->cnt.rcvd_terminate++;
	if (!ur_terminate_decode(&t, in->payload, in->len))
		t = (struct ur_terminate){ .layer = UR_TERM_RDMAP,
					   .etype = UR_TERM_LOCAL };
	ur_debug("qp %06x: terminated: layer %u type %u code %u", q->qp->qpn,
		 t.layer, t.etype, t.code);
	record(q, &t);
	found = find(q, &t, &at);
	if (found)
		ur_iw_request_fail(q, at, status_of(&t));
	else
		ur_record_failed(q->qp);
	/* Without a completion the event is the only notice. */
	ur_iwqp_fail(q, found ? -1 : UR_EVENT_QP_FATAL);
}
