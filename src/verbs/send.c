/* SPDX-License-Identifier: BSD-2-Clause */
/* Send requests: from the application's list directly into the queue. */
#include "verbs/send.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "core/xrc.h"
#include "fault/state.h"
#include "verbs/mw.h"
#include "verbs/ops.h"

#define RC  (1u << UR_QPT_RC)
#define UC  (1u << UR_QPT_UC)
#define UD  (1u << UR_QPT_UD)
#define IW  (1u << URV_OPS_IWARP)
#define XS  (1u << UR_QPT_XRC_SEND)
#define RAW (1u << UR_QPT_RAW_PACKET)
#define DI  (1u << UR_QPT_DC_INI)

/* IBTA table 70 (operations per transport), as far as the device has them. */
const struct urv_op urv_ops[URV_OPCODES] = {
	[UR_WR_RDMA_WRITE] = { RC | XS | DI | UC | IW, URV_OP_RDMA, true },
	[UR_WR_RDMA_WRITE_IMM] = { RC | XS | DI | UC | IW, URV_OP_RDMA, true },
	[UR_WR_SEND] = { RC | XS | DI | UC | UD | IW | RAW, URV_OP_SEND, true },
	[UR_WR_SEND_IMM] = { RC | XS | DI | UC | UD, URV_OP_SEND, true },
	[UR_WR_RDMA_READ] = { RC | XS | DI | IW, URV_OP_RDMA, false },
	[UR_WR_CMP_SWP] = { RC | XS | DI | IW, URV_OP_ATOMIC, false },
	[UR_WR_FETCH_ADD] = { RC | XS | DI | IW, URV_OP_ATOMIC, false },
	[UR_WR_LOCAL_INV] = { RC | UC | IW, URV_OP_INV, false },
	[UR_WR_BIND_MW] = { RC | UC | IW, URV_OP_BIND, false },
	[UR_WR_TSO] = { RAW, URV_OP_TSO, false },
	[UR_WR_SEND_INV] = { RC | XS | IW, URV_OP_SEND, true },
	[UR_WR_FLUSH] = { RC, URV_OP_FLUSH, false },
	[UR_WR_ATOMIC_WRITE] = { RC, URV_OP_PUT, true },
	[UR_WR_NOP] = { RC | XS | DI | IW, URV_OP_NOP, false },
	[UR_WR_MASKED_CMP_SWP] = { RC | IW, URV_OP_MASKED, false },
	[UR_WR_MASKED_FETCH_ADD] = { RC | IW, URV_OP_MASKED, false },
	[UR_WR_UMR_FILL] = { RC | XS | IW, URV_OP_UMR, false },
	[UR_WR_UMR_INVALIDATE] = { RC | XS | IW, URV_OP_UMR, false },
};

_Atomic bool urv_inline_whole;

int urv_wqe_add_inline(const struct urv_qp *qp, struct ur_swqe *w,
		       const void *data, size_t len)
{
	if (len > qp->core.sq.max_inline - w->length)
		return EINVAL;
	if (__builtin_expect(atomic_load_explicit(&urv_inline_whole,
						  memory_order_relaxed),
			     0)) {
		if (ur_guard_copy_whole(w->data.inline_data + w->length, data,
					len))
			return EFAULT;
	} else if (len) {
		memcpy(w->data.inline_data + w->length, data, len);
	}
	w->length += (uint32_t)len;
	return 0;
}

int urv_tso_fill(const struct urv_qp *qp, struct ur_swqe *w, const void *hdr,
		 uint16_t hdr_len, uint16_t mss)
{
	if (!hdr || !hdr_len || hdr_len > qp->core.raw.max_tso_header || !mss)
		return EINVAL;
	w->wr.tso.mss = mss;
	w->wr.tso.hdr_len = hdr_len;
	memcpy(ur_swqe_tso_hdr(&qp->core.sq, w), hdr, hdr_len);
	return 0;
}

static inline int check(const struct urv_qp *qp, const struct ur_swqe *w,
			enum urv_op_kind kind)
{
	switch (kind) {
	case URV_OP_ATOMIC:
	case URV_OP_PUT:
		/* The responder checks the alignment of the address (IBTA
		 * 9.4.5; RFC 7306, 5.1). */
		return w->length == URV_ATOMIC_LEN ? 0 : EINVAL;
	case URV_OP_SEND:
		/* Ports count from 1: no address was set. */
		if (qp->core.type == UR_QPT_UD && !w->wr.ud.av.port_num)
			return EINVAL;
		return 0;
	case URV_OP_RDMA:
		return 0;
	case URV_OP_FLUSH:
		return w->num_sge ? EINVAL : 0;
	case URV_OP_BIND:
	case URV_OP_INV:
	case URV_OP_NOP:
	case URV_OP_UMR:
		return w->length ? EINVAL : 0;
	case URV_OP_TSO:
		return w->length > UR_MAX_TSO ? EINVAL : 0;
	case URV_OP_MASKED: /* checked where it is staged */
	case URV_OP_NONE:
		break;
	}
	return EINVAL;
}

int urv_wqe_check(const struct urv_qp *qp, const struct ur_swqe *w)
{
	return check(qp, w, urv_op_kind(qp->op_type, w->opcode));
}

/* Called rather than inlined, this and fill_target() took 4 of the 42 ns of a WRITE
 * (bench/verbs_alone -m write). */
static inline __attribute__((always_inline)) int
fill_data(const struct urv_qp *qp, struct ur_swqe *w,
	  const struct ibv_send_wr *wr)
{
	int rc = 0;

	if (wr->num_sge < 0)
		return EINVAL;
	/* ibv_sge and ur_sge have the same layout (abi_check.c). */
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return urv_wqe_add_sges(
			qp, w, (const struct ur_sge *)(void *)wr->sg_list,
			(size_t)wr->num_sge);
	if (!urv_op_inline(wr->opcode))
		return EINVAL;
	for (int i = 0; i < wr->num_sge && !rc; i++)
		rc = urv_wqe_add_inline(
			qp, w, (const void *)(uintptr_t)wr->sg_list[i].addr,
			wr->sg_list[i].length);
	return rc;
}

static inline __attribute__((always_inline)) int
fill_target(const struct urv_qp *qp, struct ur_swqe *w,
	    const struct ibv_send_wr *wr, enum urv_op_kind kind)
{
	switch (kind) {
	case URV_OP_PUT:
	case URV_OP_RDMA:
		w->wr.rdma.remote_addr = wr->wr.rdma.remote_addr;
		w->wr.rdma.rkey = wr->wr.rdma.rkey;
		return 0;
	case URV_OP_ATOMIC:
		w->wr.atomic.remote_addr = wr->wr.atomic.remote_addr;
		w->wr.atomic.compare_add = wr->wr.atomic.compare_add;
		w->wr.atomic.swap = wr->wr.atomic.swap;
		w->wr.atomic.rkey = wr->wr.atomic.rkey;
		return 0;
	case URV_OP_SEND:
		if (qp->core.type != UR_QPT_UD)
			return 0;
		if (!wr->wr.ud.ah)
			return EINVAL;
		w->wr.ud.av = urv_ah(wr->wr.ud.ah)->av;
		w->wr.ud.dqpn = wr->wr.ud.remote_qpn;
		w->wr.ud.qkey = wr->wr.ud.remote_qkey;
		return 0;
	case URV_OP_BIND:
		return urv_bind_fill(qp, &w->wr.bind, wr->bind_mw.mw,
				     wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	case URV_OP_INV:
		return 0;
	case URV_OP_TSO:
		return urv_tso_fill(qp, w, wr->tso.hdr, wr->tso.hdr_sz,
				    wr->tso.mss);
	case URV_OP_FLUSH: /* ibv_send_wr has no field for it */
	case URV_OP_NOP:   /* nor an opcode */
	case URV_OP_MASKED:
	case URV_OP_UMR:
	case URV_OP_NONE:
		break;
	}
	return EINVAL;
}

/* Does it move data described by its list? */
static bool has_data(enum urv_op_kind kind)
{
	return kind != URV_OP_BIND && kind != URV_OP_INV &&
	       kind != URV_OP_FLUSH && kind != URV_OP_NOP && kind != URV_OP_UMR;
}

static inline __attribute__((always_inline)) int
post_one(struct urv_qp *qp, const struct ibv_send_wr *wr)
{
	enum urv_op_kind kind = urv_op_kind(qp->op_type, wr->opcode);
	struct ur_sq *sq = &qp->core.sq;
	struct ur_swqe *w;
	int rc;

	if (kind == URV_OP_NONE || wr->send_flags & ~urv_send_flags(qp))
		return EINVAL;
	w = ur_sq_stage(sq);
	if (!w)
		return ENOMEM;
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)wr->opcode;
	w->flags = (uint8_t)wr->send_flags;
	w->imm_be = wr->imm_data; /* or the key to invalidate */
	w->num_sge = 0;
	w->length = 0;
	rc = has_data(kind) ? fill_data(qp, w, wr) : 0;
	if (!rc)
		rc = fill_target(qp, w, wr, kind);
	if (qp->core.type == UR_QPT_XRC_SEND)
		w->wr.rdma.srqn = wr->qp_type.xrc.remote_srqn & UR_SRQN_MASK;
	if (!rc)
		rc = check(qp, w, kind);
	if (rc)
		sq->staged--;
	else if (kind == URV_OP_BIND)
		urv_bind_posted(&w->wr.bind);
	return rc;
}

int urv_send_stage(struct urv_qp *qp, const struct ibv_send_wr *wr)
{
	return post_one(qp, wr);
}

int urv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr)
{
	struct urv_qp *qp = urv_qp(ibqp);
	int rc = urv_send_state(qp);
	bool posted = false;

	/* Such a request cannot name a target. */
	if (qp->core.type == UR_QPT_DC_INI)
		rc = EINVAL;
	if (!rc)
		rc = -ur_fault_call(UR_FAULT_post_send);
	if (!rc) {
		ur_latch_lock(&qp->core.sq.lock);
		while (wr && !(rc = post_one(qp, wr))) {
			posted = true;
			wr = wr->next;
		}
		ur_sq_commit(&qp->core.sq);
		ur_latch_unlock(&qp->core.sq.lock);
	}
	/* A rendezvous may wait for the queue (roce/tm.c). */
	if (posted || qp->core.sq.max_own)
		urv_send_kick(qp);
	if (__builtin_expect(rc, 0)) {
		ur_record_post(&qp->core, false, rc);
		*bad_wr = wr;
	}
	return rc;
}
