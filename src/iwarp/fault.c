/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"
#include "iwarp/internal.h"

#define COUNT(name) offsetof(struct ur_iwarp_counters, name)

#define MPA(name)	 UR_TERM_MPA, UR_TERM_MPA_ERROR, UR_TERM_MPA_##name, false
#define TAGGED(name)	 UR_TERM_DDP, UR_TERM_DDP_TAGGED, UR_TERM_T_##name, true
#define UNTAGGED(name)	 UR_TERM_DDP, UR_TERM_DDP_UNTAGGED, UR_TERM_U_##name, true
#define PROTECTION(name) UR_TERM_RDMAP, UR_TERM_PROTECTION, UR_TERM_##name, true
#define OPERATION(name)	 UR_TERM_RDMAP, UR_TERM_OPERATION, UR_TERM_##name, true
#define OWN		 UR_TERM_RDMAP, UR_TERM_LOCAL, 0, false

/*
 * RFC 5040, section 7 and figure "RDMAP errors"; RFC 5041, 7; RFC 5044, 8. For
 * each fault: the TERMINATE, the status of the current receive and of the READ
 * or atomic that waits for this response, the asynchronous event.
 */
const struct ur_iw_fault_row ur_iw_fault_rows[UR_IWF_COUNT] = {
	[UR_IWF_CRC] = { MPA(CRC), UR_WC_WR_FLUSH_ERR, 0, UR_EVENT_QP_FATAL,
			 COUNT(crc_errors) },
	[UR_IWF_MARKER] = { MPA(MARKER), UR_WC_WR_FLUSH_ERR, 0,
			    UR_EVENT_QP_FATAL, COUNT(marker_errors) },
	[UR_IWF_FRAME] = { MPA(MARKER), UR_WC_WR_FLUSH_ERR, 0,
			   UR_EVENT_QP_FATAL, COUNT(framing_errors) },
	[UR_IWF_T_STAG] = { TAGGED(INVALID_STAG), UR_WC_WR_FLUSH_ERR, 0,
			    UR_EVENT_QP_ACCESS_ERR, COUNT(ddp_tagged_errors) },
	[UR_IWF_T_BOUNDS] = { TAGGED(BOUNDS), UR_WC_WR_FLUSH_ERR, 0,
			      UR_EVENT_QP_ACCESS_ERR,
			      COUNT(ddp_tagged_errors) },
	[UR_IWF_T_NOT_ASSOCIATED] = { TAGGED(NOT_ASSOCIATED),
				      UR_WC_WR_FLUSH_ERR, 0,
				      UR_EVENT_QP_ACCESS_ERR,
				      COUNT(ddp_tagged_errors) },
	[UR_IWF_T_WRAP] = { TAGGED(TO_WRAP), UR_WC_WR_FLUSH_ERR, 0,
			    UR_EVENT_QP_ACCESS_ERR, COUNT(ddp_tagged_errors) },
	[UR_IWF_T_VERSION] = { TAGGED(VERSION), UR_WC_WR_FLUSH_ERR, 0,
			       UR_EVENT_QP_REQ_ERR, COUNT(ddp_tagged_errors) },
	[UR_IWF_U_QN] = { UNTAGGED(QN), UR_WC_WR_FLUSH_ERR, 0,
			  UR_EVENT_QP_REQ_ERR, COUNT(ddp_untagged_errors) },
	[UR_IWF_U_NO_BUFFER] = { UNTAGGED(NO_BUFFER), UR_WC_WR_FLUSH_ERR, 0,
				 UR_EVENT_QP_REQ_ERR,
				 COUNT(no_receive_posted) },
	[UR_IWF_U_IRD] = { UNTAGGED(NO_BUFFER), UR_WC_WR_FLUSH_ERR, 0,
			   UR_EVENT_QP_REQ_ERR, COUNT(ddp_untagged_errors) },
	[UR_IWF_U_MSN] = { UNTAGGED(MSN), UR_WC_WR_FLUSH_ERR, 0,
			   UR_EVENT_QP_REQ_ERR, COUNT(ddp_untagged_errors) },
	[UR_IWF_U_MO] = { UNTAGGED(MO), UR_WC_WR_FLUSH_ERR, 0,
			  UR_EVENT_QP_REQ_ERR, COUNT(ddp_untagged_errors) },
	[UR_IWF_U_TOO_LONG] = { UNTAGGED(TOO_LONG), UR_WC_LOC_LEN_ERR, 0, -1,
				COUNT(ddp_untagged_errors) },
	[UR_IWF_U_VERSION] = { UNTAGGED(VERSION), UR_WC_WR_FLUSH_ERR, 0,
			       UR_EVENT_QP_REQ_ERR,
			       COUNT(ddp_untagged_errors) },
	[UR_IWF_STAG] = { PROTECTION(INVALID_STAG), UR_WC_WR_FLUSH_ERR, 0,
			  UR_EVENT_QP_ACCESS_ERR,
			  COUNT(rdmap_protection_errors) },
	[UR_IWF_BOUNDS] = { PROTECTION(BOUNDS), UR_WC_WR_FLUSH_ERR, 0,
			    UR_EVENT_QP_ACCESS_ERR,
			    COUNT(rdmap_protection_errors) },
	[UR_IWF_ACCESS] = { PROTECTION(ACCESS), UR_WC_WR_FLUSH_ERR, 0,
			    UR_EVENT_QP_ACCESS_ERR,
			    COUNT(rdmap_protection_errors) },
	[UR_IWF_NOT_ASSOCIATED] = { PROTECTION(NOT_ASSOCIATED),
				    UR_WC_WR_FLUSH_ERR, 0,
				    UR_EVENT_QP_ACCESS_ERR,
				    COUNT(rdmap_protection_errors) },
	[UR_IWF_WRAP] = { PROTECTION(TO_WRAP), UR_WC_WR_FLUSH_ERR, 0,
			  UR_EVENT_QP_ACCESS_ERR,
			  COUNT(rdmap_protection_errors) },
	[UR_IWF_RDMAP_VERSION] = { OPERATION(RDMAP_VERSION), UR_WC_WR_FLUSH_ERR,
				   0, UR_EVENT_QP_REQ_ERR,
				   COUNT(rdmap_operation_errors) },
	[UR_IWF_OPCODE] = { OPERATION(OPCODE), UR_WC_WR_FLUSH_ERR, 0,
			    UR_EVENT_QP_REQ_ERR,
			    COUNT(rdmap_operation_errors) },
	[UR_IWF_CANNOT_INVALIDATE] = { OPERATION(CANNOT_INVALIDATE),
				       UR_WC_WR_FLUSH_ERR, 0,
				       UR_EVENT_QP_ACCESS_ERR,
				       COUNT(rdmap_operation_errors) },
	[UR_IWF_UNALIGNED] = { OPERATION(UNSPECIFIED), UR_WC_WR_FLUSH_ERR, 0,
			       UR_EVENT_QP_REQ_ERR,
			       COUNT(rdmap_operation_errors) },
	[UR_IWF_LOCAL_RECV] = { OWN, UR_WC_LOC_PROT_ERR, 0, -1,
				COUNT(local_errors) },
	[UR_IWF_LOCAL_READ] = { OWN, UR_WC_WR_FLUSH_ERR, UR_WC_LOC_PROT_ERR, -1,
				COUNT(local_errors) },
	[UR_IWF_LOCAL_LEN] = { OWN, UR_WC_WR_FLUSH_ERR, UR_WC_LOC_LEN_ERR, -1,
			       COUNT(local_errors) },
	[UR_IWF_LOCAL_SEND] = { OWN, UR_WC_WR_FLUSH_ERR, 0, -1,
				COUNT(local_errors) },
};

static void count(struct ur_iwqp *q, const struct ur_iw_fault_row *row)
{
	void *counters = &q->w->cnt;

	++*(uint64_t *)(void *)((uint8_t *)counters + row->counter);
}

/* 0: the key or the receive is recorded where it is checked, or nothing is. */
static uint8_t reason_of(enum ur_iw_fault f)
{
	switch ((unsigned int)f) {
	case UR_IWF_CRC:
		return UR_REC_R_FPDU_CRC;
	case UR_IWF_U_NO_BUFFER:
		return UR_REC_R_UNBUFFERED;
	case UR_IWF_U_IRD:
		return UR_REC_R_RESOURCES;
	case UR_IWF_MARKER:
	case UR_IWF_FRAME:
	case UR_IWF_T_VERSION:
	case UR_IWF_U_VERSION:
	case UR_IWF_U_QN:
	case UR_IWF_U_MSN:
	case UR_IWF_U_MO:
	case UR_IWF_RDMAP_VERSION:
	case UR_IWF_OPCODE:
		return UR_REC_R_FPDU;
	default:
		return 0;
	}
}

/* For the flight recorder. */
static void record(struct ur_iwqp *q, enum ur_iw_fault f)
{
	const struct ur_record e = { .type = UR_REC_REFUSED,
				     .code = reason_of(f),
				     .arg = { [2] = q->params.ird } };

	if (e.code)
		ur_record_add(q->qp, &e);
}

void ur_iw_fault(struct ur_iwqp *q, enum ur_iw_fault f,
		 const struct ur_iw_in *in)
{
	const struct ur_iw_fault_row *row = &ur_iw_fault_rows[f];

	if (!ur_iwqp_open(q))
		return;
	ur_debug("qp %06x: TERMINATE layer %u type %u code %u", q->qp->qpn,
		 row->layer, row->etype, row->code);
	count(q, row);
	record(q, f);
	ur_iw_terminate(q, f, in);
	if (row->request && q->tx.rd_count)
		ur_iw_request_fail(q, q->tx.rd[q->tx.rd_head],
				   (enum ur_wc_status)row->request);
	ur_iw_recv_fail(q, (enum ur_wc_status)row->status);
	if (row->event >= 0)
		ur_record_failed(q->qp);
	ur_iwqp_fail(q, row->event);
}
