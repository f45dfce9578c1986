/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP (RFC 5041), receiving: validates a segment and locates its payload. A
 * segment passes a list of checks, those of DDP first, then those of RDMAP; the
 * first that fails ends the stream (fault.c).
 *
 * A tagged segment carries its destination: a WRITE a region of ours, a
 * READ_RESPONSE the sink STag of the READ that waits for it, which is only
 * compared with that request. An untagged one goes to the buffer of its queue:
 * a receive, or a header that rdmap.c parses.
 */
#include <errno.h>

#include "base/guard.h"
#include "iwarp/internal.h"

typedef enum ur_iw_fault (*check_fn)(struct ur_iwqp *q, struct ur_iw_in *in);

/* The longest TERMINATE, with all optional parts. */
#define TERMINATE_MAX 256u

static enum ur_iw_fault check_ddp(struct ur_iwqp *q, struct ur_iw_in *in)
{
	if (in->h.version != UR_DDP_VERSION)
		return in->h.tagged ? UR_IWF_T_VERSION : UR_IWF_U_VERSION;
	if (!in->h.tagged && in->h.qn >= UR_QN_COUNT)
		return UR_IWF_U_QN;
	return UR_IWF_NONE;
}

static enum ur_iw_fault check_opcode(struct ur_iwqp *q, struct ur_iw_in *in)
{
	if (ur_rdmap_control_version(in->h.ulp) != UR_RDMAP_VERSION)
		return UR_IWF_RDMAP_VERSION;
	in->opcode = ur_rdmap_control_opcode(in->h.ulp);
	in->op = ur_rdmap_op(in->opcode);
	if (!in->op->known || in->op->tagged != in->h.tagged)
		return UR_IWF_OPCODE;
	if (!in->h.tagged && in->h.qn != in->op->qn)
		return UR_IWF_U_QN;
	return UR_IWF_NONE;
}

static bool is_send(const struct ur_iw_in *in)
{
	return !in->op->tagged && in->op->qn == UR_QN_SEND && !in->op->fixed;
}

/* RFC 5041, 5.3: messages of a queue in order, segments contiguous. */
static enum ur_iw_fault check_untagged(struct ur_iwqp *q, struct ur_iw_in *in)
{
	const struct ur_iw_rx *rx = &q->rx;

	if (in->h.tagged)
		return UR_IWF_NONE;
	if (in->h.msn != rx->msn[in->h.qn])
		return UR_IWF_U_MSN;
	if (in->h.qn == UR_QN_SEND && rx->in_send &&
	    in->opcode != rx->send_opcode)
		return UR_IWF_OPCODE;
	if (in->h.mo != (is_send(in) && rx->in_send ? rx->received : 0))
		return UR_IWF_U_MO;
	if (in->op->fixed && (in->len != in->op->fixed || !in->h.last))
		return UR_IWF_U_TOO_LONG;
	if (in->opcode == UR_RDMAP_TERMINATE &&
	    (in->len > TERMINATE_MAX || !in->h.last))
		return UR_IWF_U_TOO_LONG;
	return UR_IWF_NONE;
}

/* A receive for a SEND or an immediate, long enough for the bytes so far. */
static enum ur_iw_fault check_receive(struct ur_iwqp *q, struct ur_iw_in *in)
{
	uint32_t had = q->rx.in_send ? q->rx.received : 0;

	if (in->h.tagged || in->h.qn != UR_QN_SEND)
		return UR_IWF_NONE;
	if (!ur_iw_recv_take(q))
		return UR_IWF_U_NO_BUFFER;
	if (is_send(in) && (uint64_t)had + in->len > q->rx.rwqe->length)
		return UR_IWF_U_TOO_LONG;
	return UR_IWF_NONE;
}

static enum ur_iw_fault check_write(struct ur_iwqp *q, struct ur_iw_in *in)
{
	/* RFC 5040, 5.2: the STag of a zero-length payload is not checked. */
	if (in->opcode != UR_RDMAP_WRITE || in->len == 0)
		return UR_IWF_NONE;
	return ur_iw_region(q, in->h.stag, in->h.to, in->len,
			    UR_ACCESS_REMOTE_WRITE, true, NULL);
}

/* Sink address of the response, as in the READ request. */
static uint64_t sink_to(const struct ur_swqe *w)
{
	return w->num_sge ? w->data.sge[0].addr : 0;
}

static uint32_t sink_stag(const struct ur_swqe *w)
{
	return w->num_sge ? w->data.sge[0].lkey : 0;
}

/* RFC 5040, 5.2.1: responses come in the order of the requests. */
static enum ur_iw_fault check_response(struct ur_iwqp *q, struct ur_iw_in *in)
{
	const struct ur_swqe *w;
	uint32_t left;

	if (in->opcode != UR_RDMAP_READ_RESPONSE)
		return UR_IWF_NONE;
	if (q->tx.rtr_read)
		return in->len || !in->h.last ? UR_IWF_T_BOUNDS : UR_IWF_NONE;
	w = ur_iw_oldest_read(q);
	if (!w || w->opcode != UR_WR_RDMA_READ)
		return UR_IWF_OPCODE;
	left = w->length - q->rx.rd_received;
	/* The kernel's siw answers an empty READ with an arbitrary STag. */
	if (w->length && in->h.stag != sink_stag(w))
		return UR_IWF_T_STAG;
	if (w->length && in->h.to != sink_to(w) + q->rx.rd_received)
		return UR_IWF_T_BOUNDS;
	if (in->len > left || in->h.last != (in->len == left))
		return UR_IWF_T_BOUNDS;
	return UR_IWF_NONE;
}

static enum ur_iw_fault check_atomic(struct ur_iwqp *q, struct ur_iw_in *in)
{
	const struct ur_swqe *w;

	if (in->opcode != UR_RDMAP_ATOMIC_RESPONSE)
		return UR_IWF_NONE;
	w = ur_iw_oldest_read(q);
	if (!w || w->opcode == UR_WR_RDMA_READ || q->tx.rtr_read)
		return UR_IWF_OPCODE;
	return UR_IWF_NONE;
}

enum ur_iw_fault ur_ddp_admit(struct ur_iwqp *q, struct ur_iw_in *in)
{
	static const check_fn checks[] = {
		check_ddp,   check_opcode,   check_untagged, check_receive,
		check_write, check_response, check_atomic,
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		enum ur_iw_fault f = checks[i](q, in);

		if (f != UR_IWF_NONE)
			return f;
	}
	return UR_IWF_NONE;
}

bool ur_ddp_places(const struct ur_iw_in *in)
{
	return in->op->tagged || is_send(in);
}

enum ur_iw_fault ur_iw_region(const struct ur_iwqp *q, uint32_t stag,
			      uint64_t to, uint32_t len, uint32_t access,
			      bool tagged, uint8_t **at)
{
	uint8_t *p;
	int ret = ur_mr_reach(q->qp->mrs, q->qp->pd, q->qp, stag, to, len,
			      access, &p);

	if (ret)
		ur_record_access(q->qp, &(struct ur_record_access){
						.pd = q->qp->pd,
						.key = stag,
						.need = access,
						.va = to,
						.length = len,
						.side = UR_REC_REMOTE });
	if (ret == -ENOENT)
		return tagged ? UR_IWF_T_STAG : UR_IWF_STAG;
	if (ret == -EPERM)
		return tagged ? UR_IWF_T_NOT_ASSOCIATED : UR_IWF_NOT_ASSOCIATED;
	if (ret == -EACCES ||
	    (q->access_set && (q->qp->attr.access & access) != access))
		return UR_IWF_ACCESS;
	if (len > UINT64_MAX - to)
		return tagged ? UR_IWF_T_WRAP : UR_IWF_WRAP;
	if (ret)
		return tagged ? UR_IWF_T_BOUNDS : UR_IWF_BOUNDS;
	if (at)
		*at = p;
	return UR_IWF_NONE;
}

int ur_iw_shorten(const struct iovec *iov, uint32_t *len)
{
	*len = 0;
	for (uint32_t i = 0; i < UR_MAX_SGE; i++)
		*len += (uint32_t)iov[i].iov_len;
	return UR_MAX_SGE;
}

int ur_iw_pieces(const struct ur_iwqp *q, uint32_t stag, uint64_t to,
		 uint32_t len, uint32_t access, struct iovec *iov, uint32_t max)
{
	const struct ur_mr_ref m = { .t = q->qp->mrs,
				     .pd = q->qp->pd,
				     .qp = q->qp,
				     .key = stag,
				     .va = to };

	return ur_mr_pieces(&m, len, access, iov, max);
}

static int locate_write(struct ur_iwqp *q, const struct ur_iw_in *in,
			uint32_t off, uint32_t len, struct iovec *iov,
			uint32_t max, enum ur_iw_fault *fault)
{
	uint8_t *at = NULL;
	int n;

	*fault = ur_iw_region(q, in->h.stag, in->h.to + off, len,
			      UR_ACCESS_REMOTE_WRITE, true, &at);
	if (*fault != UR_IWF_NONE)
		return -EACCES;
	if (at) {
		iov[0] = (struct iovec){ .iov_base = at, .iov_len = len };
		return 1;
	}
	n = ur_iw_pieces(q, in->h.stag, in->h.to + off, len,
			 UR_ACCESS_REMOTE_WRITE, iov, max);
	if (n < 0 && n != -E2BIG)
		*fault = UR_IWF_ACCESS;
	return n;
}

int ur_ddp_locate(struct ur_iwqp *q, const struct ur_iw_in *in, uint32_t off,
		  uint32_t len, struct iovec *iov, uint32_t max,
		  enum ur_iw_fault *fault)
{
	const struct ur_swqe *w;
	int n;

	if (in->opcode == UR_RDMAP_WRITE) {
		n = locate_write(q, in, off, len, iov, max, fault);
	} else if (in->opcode == UR_RDMAP_READ_RESPONSE) {
		*fault = UR_IWF_LOCAL_READ;
		w = ur_iw_oldest_read(q);
		n = ur_sge_locate(q->qp->mrs, q->qp->pd, w->data.sge,
				  w->num_sge, q->rx.rd_received + off, len, iov,
				  max);
	} else {
		/* Keys of a shared receive belong to its queue's PD. */
		*fault = UR_IWF_LOCAL_RECV;
		n = ur_sge_locate(q->qp->mrs,
				  q->qp->srq ? q->qp->srq->pd : q->qp->pd,
				  q->rx.rwqe->sge, q->rx.rwqe->num_sge,
				  in->h.mo + off, len, iov, max);
	}
	/* More pieces than there is room for: place these first. */
	return n == -E2BIG ? (int)max : n;
}

enum ur_iw_fault ur_ddp_place(struct ur_iwqp *q, const struct ur_iw_in *in,
			      uint32_t off, const void *data, uint32_t len)
{
	struct iovec iov[UR_MAX_SGE];
	enum ur_iw_fault fault;
	const uint8_t *from = data;
	int n;

	while (len > 0) {
		n = ur_ddp_locate(q, in, off, len, iov, UR_MAX_SGE, &fault);
		if (n < 0)
			return fault;
		for (int i = 0; i < n; i++) {
			uint32_t size = (uint32_t)iov[i].iov_len;

			if (ur_guard_copy(iov[i].iov_base, from, size))
				return in->opcode == UR_RDMAP_WRITE
					       ? UR_IWF_T_BOUNDS
					       : fault;
			from += size;
			off += size;
			len -= size;
		}
	}
	return UR_IWF_NONE;
}
