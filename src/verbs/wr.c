/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The builders of ibv_qp_ex. From wr_start to wr_complete or wr_abort the send
 * queue's lock is held. The first error is kept, later calls are ignored, and
 * wr_complete returns it after discarding everything.
 */
#include <errno.h>
#include <string.h>

#include "core/xrc.h"
#include "fault/state.h"
#include "verbs/mw.h"
#include "verbs/ops.h"
#include "verbs/send.h"

/* From the newest header: the flag, and the offset of its builder. */
#define QP_EX_WITH_FLUSH   (UINT64_C(1) << 11)
#define QP_EX_FLUSH_OFFSET (URV_SIZEOF_QP_EX - sizeof(void *))

static struct urv_qp *of(struct ibv_qp_ex *ex)
{
	return urv_qp(&ex->qp_base);
}

static void fail(struct urv_qp *qp, int rc)
{
	if (rc && !qp->wr_error)
		qp->wr_error = rc;
}

/* A request is complete as soon as the next one begins. */
static inline void finish(struct urv_qp *qp)
{
	if (!qp->wqe || qp->wr_error || qp->wqe_kind == URV_OP_RDMA ||
	    (qp->wqe_kind == URV_OP_SEND && qp->core.type != UR_QPT_UD))
		return;
	fail(qp, urv_wqe_check(qp, qp->wqe));
}

/* Each builder passes its kind of operation as a constant, so code for others
 * is removed; it equals urv_ops[opcode]. */
static inline __attribute__((always_inline)) struct ur_swqe *
begin(struct urv_qp *qp, enum ur_wr_opcode opcode, enum urv_op_kind kind)
{
	struct ur_swqe *w;

	finish(qp);
	if (__builtin_expect(qp->wr_error, 0))
		return NULL;
	qp->wqe_kind = (uint8_t)kind;
	if (__builtin_expect(!(urv_ops[opcode].types & 1u << qp->op_type), 0)) {
		fail(qp, EINVAL);
		return NULL;
	}
	w = ur_sq_stage(&qp->core.sq);
	if (__builtin_expect(!w, 0)) {
		fail(qp, ENOMEM);
		return NULL;
	}
	w->wr_id = qp->ex.wr_id;
	w->opcode = (uint8_t)opcode;
	w->flags = (uint8_t)(qp->ex.wr_flags & urv_send_flags(qp) &
			     ~(uint32_t)UR_SEND_INLINE);
	w->num_sge = 0;
	w->length = 0;
	w->imm_be = 0;
	/* An address is long, and mostly unused. */
	if (kind > URV_OP_RDMA ||
	    (kind == URV_OP_SEND && qp->core.type == UR_QPT_UD))
		memset(&w->wr, 0, sizeof(w->wr));
	else
		memset(&w->wr.rdma, 0, sizeof(w->wr.rdma));
	qp->wqe = w;
	return w;
}

static inline void begin_rdma(struct ibv_qp_ex *ex, enum ur_wr_opcode opcode,
			      uint32_t rkey, uint64_t remote_addr,
			      uint32_t imm_be)
{
	struct ur_swqe *w = begin(of(ex), opcode, URV_OP_RDMA);

	if (!w)
		return;
	w->imm_be = imm_be;
	w->wr.rdma.remote_addr = remote_addr;
	w->wr.rdma.rkey = rkey;
}

static inline void begin_send(struct ibv_qp_ex *ex, enum ur_wr_opcode opcode,
			      enum urv_op_kind kind, uint32_t imm_be)
{
	struct ur_swqe *w = begin(of(ex), opcode, kind);

	if (w)
		w->imm_be = imm_be;
}

static inline void begin_atomic(struct ibv_qp_ex *ex, enum ur_wr_opcode opcode,
				uint32_t rkey, uint64_t remote_addr,
				uint64_t compare_add, uint64_t swap)
{
	struct ur_swqe *w = begin(of(ex), opcode, URV_OP_ATOMIC);

	if (!w)
		return;
	w->wr.atomic.remote_addr = remote_addr;
	w->wr.atomic.compare_add = compare_add;
	w->wr.atomic.swap = swap;
	w->wr.atomic.rkey = rkey;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_rdma(ex, UR_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey,
			      uint64_t addr, __be32 imm_data)
{
	begin_rdma(ex, UR_WR_RDMA_WRITE_IMM, rkey, addr, imm_data);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	begin_rdma(ex, UR_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin_send(ex, UR_WR_SEND, URV_OP_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	begin_send(ex, UR_WR_SEND_IMM, URV_OP_SEND, imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin_send(ex, UR_WR_SEND_INV, URV_OP_SEND, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin_send(ex, UR_WR_LOCAL_INV, URV_OP_INV, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct urv_qp *qp = of(ex);
	struct ur_swqe *w = begin(qp, UR_WR_BIND_MW, URV_OP_BIND);

	if (!w)
		return;
	fail(qp, urv_bind_fill(qp, &w->wr.bind, mw, rkey, info));
	qp->wr_binds = true;
}

/* The binds in the batch about to be posted. */
static void binds_posted(struct urv_qp *qp)
{
	struct ur_sq *sq = &qp->core.sq;
	uint32_t from = ur_sq_posted(sq);

	for (uint32_t i = from; i != sq->staged; i++) {
		const struct ur_swqe *w = ur_sq_slot(sq, i);

		if (w->opcode == UR_WR_BIND_MW)
			urv_bind_posted(&w->wr.bind);
	}
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			    const void *value)
{
	struct ur_swqe *w = begin(of(ex), UR_WR_ATOMIC_WRITE, URV_OP_PUT);

	if (!w)
		return;
	w->wr.atomic_write.remote_addr = addr;
	w->wr.atomic_write.rkey = rkey;
	memcpy(&w->wr.atomic_write.value, value, URV_ATOMIC_LEN);
	w->length = URV_ATOMIC_LEN;
}

/* ibv_wr_flush(), newer than some headers: destination and mode. */
static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
		     size_t len, uint8_t type, uint8_t level)
{
	struct urv_qp *qp = of(ex);
	struct ur_swqe *w = begin(qp, UR_WR_FLUSH, URV_OP_FLUSH);

	if (!w)
		return;
	if (type == 0 || type > (UR_FLUSH_GLOBAL | UR_FLUSH_PERSISTENT) ||
	    level > UR_FLUSH_MR || len > UR_MAX_MSG_SIZE) {
		fail(qp, EINVAL);
		return;
	}
	w->wr.flush.remote_addr = addr;
	w->wr.flush.rkey = rkey;
	w->wr.flush.placement = type;
	w->wr.flush.level = level;
	w->length = (uint32_t)len;
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz,
			uint16_t mss)
{
	struct urv_qp *qp = of(ex);
	struct ur_swqe *w = begin(qp, UR_WR_TSO, URV_OP_TSO);

	if (w)
		fail(qp, urv_tso_fill(qp, w, hdr, hdr_sz, mss));
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey,
			      uint64_t addr, uint64_t compare, uint64_t swap)
{
	begin_atomic(ex, UR_WR_CMP_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey,
				uint64_t addr, uint64_t add)
{
	begin_atomic(ex, UR_WR_FETCH_ADD, rkey, addr, add, 0);
}

/* The request that setters apply to; NULL: none, or it has failed already. */
static struct ur_swqe *current(struct urv_qp *qp)
{
	if (qp->wr_error)
		return NULL;
	if (!qp->wqe)
		fail(qp, EINVAL);
	return qp->wqe;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah,
			   uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct urv_qp *qp = of(ex);
	struct ur_swqe *w = current(qp);

	if (!w)
		return;
	if (!ah) {
		fail(qp, EINVAL);
		return;
	}
	w->wr.ud.av = urv_ah(ah)->av;
	w->wr.ud.dqpn = remote_qpn;
	w->wr.ud.qkey = remote_qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct ur_swqe *w = current(of(ex));

	if (w)
		w->wr.rdma.srqn = remote_srqn & UR_SRQN_MASK;
}

static inline void set_sges(struct urv_qp *qp, const struct ur_sge *sge,
			    size_t n)
{
	struct ur_swqe *w = current(qp);

	if (!w)
		return;
	if (w->flags & UR_SEND_INLINE)
		fail(qp, EINVAL);
	else
		fail(qp, urv_wqe_add_sges(qp, w, sge, n));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	const struct ur_sge sge = { .addr = addr,
				    .length = length,
				    .lkey = lkey };
	struct urv_qp *qp = of(ex);
	struct ur_swqe *w = current(qp);

	/*
	 * The first, and mostly the only one. Fields that begin() has stored
	 * one by one are loaded one by one: a single wide load, which the
	 * compiler would otherwise emit, stalls until the stores have left the
	 * store buffer.
	 */
	if (__builtin_expect(
		    w && !__atomic_load_n(&w->num_sge, __ATOMIC_RELAXED) &&
			    !__atomic_load_n(&w->length, __ATOMIC_RELAXED) &&
			    !(w->flags & UR_SEND_INLINE) &&
			    qp->core.sq.max_sge && length <= UR_MAX_MSG_SIZE,
		    1)) {
		w->data.sge[0] = sge;
		w->num_sge = 1;
		w->length = length;
		return;
	}
	set_sges(qp, &sge, 1);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge,
			    const struct ibv_sge *sg_list)
{
	set_sges(of(ex), (const struct ur_sge *)(const void *)sg_list, num_sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct urv_qp *qp = of(ex);
	struct ur_swqe *w = current(qp);

	if (!w)
		return;
	if (!urv_op_inline(w->opcode) || w->num_sge) {
		fail(qp, EINVAL);
		return;
	}
	w->flags |= UR_SEND_INLINE;
	for (size_t i = 0; i < num_buf; i++)
		fail(qp, urv_wqe_add_inline(qp, w, buf_list[i].addr,
					    buf_list[i].length));
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct urv_qp *qp = of(ex);

	ur_latch_lock(&qp->core.sq.lock);
	qp->wqe = NULL;
	qp->wr_binds = false;
	qp->wr_error = urv_send_state(qp);
	if (!qp->wr_error)
		qp->wr_error = -ur_fault_call(UR_FAULT_post_send);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct urv_qp *qp = of(ex);
	int rc;

	finish(qp);
	rc = qp->wr_error;
	if (__builtin_expect(!rc && qp->wr_binds, 0))
		binds_posted(qp);
	if (rc)
		ur_sq_abort(&qp->core.sq);
	else
		ur_sq_commit(&qp->core.sq);
	ur_latch_unlock(&qp->core.sq.lock);
	if (!rc || qp->core.sq.max_own)
		urv_send_kick(qp);
	if (__builtin_expect(rc, 0))
		ur_record_post(&qp->core, false, rc);
	return rc;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct urv_qp *qp = of(ex);

	ur_sq_abort(&qp->core.sq);
	ur_latch_unlock(&qp->core.sq.lock);
	/* A rendezvous may wait for the queue (roce/tm.c). */
	if (qp->core.sq.max_own)
		urv_send_kick(qp);
}

/* Flag of ibv_qp_init_attr_ex.send_ops_flags → opcode */
static const struct {
	uint64_t flag;
	uint32_t opcode;
} builders[] = {
	{ IBV_QP_EX_WITH_RDMA_WRITE, UR_WR_RDMA_WRITE },
	{ IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, UR_WR_RDMA_WRITE_IMM },
	{ IBV_QP_EX_WITH_SEND, UR_WR_SEND },
	{ IBV_QP_EX_WITH_SEND_WITH_IMM, UR_WR_SEND_IMM },
	{ IBV_QP_EX_WITH_RDMA_READ, UR_WR_RDMA_READ },
	{ IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, UR_WR_CMP_SWP },
	{ IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, UR_WR_FETCH_ADD },
	{ IBV_QP_EX_WITH_LOCAL_INV, UR_WR_LOCAL_INV },
	{ IBV_QP_EX_WITH_BIND_MW, UR_WR_BIND_MW },
	{ IBV_QP_EX_WITH_SEND_WITH_INV, UR_WR_SEND_INV },
	{ IBV_QP_EX_WITH_TSO, UR_WR_TSO },
	{ QP_EX_WITH_FLUSH, UR_WR_FLUSH },
	{ IBV_QP_EX_WITH_ATOMIC_WRITE, UR_WR_ATOMIC_WRITE },
};

static int check_flags(uint32_t op_type, uint64_t flags)
{
	for (size_t i = 0; i < sizeof(builders) / sizeof(builders[0]); i++) {
		if (!(flags & builders[i].flag))
			continue;
		if (urv_op_kind(op_type, builders[i].opcode) == URV_OP_NONE)
			return -EOPNOTSUPP;
		flags &= ~builders[i].flag;
	}
	return flags ? -EOPNOTSUPP : 0;
}

/* Builders that were not requested are set all the same: an operation that the
 * type of queue pair lacks fails in begin(), instead of a NULL call. */
int urv_wr_init(struct urv_qp *qp, uint64_t send_ops_flags)
{
	void (*flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t,
		      uint8_t) = wr_flush;
	struct ibv_qp_ex *ex = &qp->ex;
	int rc = check_flags(qp->op_type, send_ops_flags);

	if (rc)
		return rc;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_atomic_write = wr_atomic_write;
	memcpy(qp->newest + QP_EX_FLUSH_OFFSET, &flush, sizeof(flush));
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (qp->core.type == UR_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (qp->core.type == UR_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	qp->has_builders = true;
	return 0;
}
