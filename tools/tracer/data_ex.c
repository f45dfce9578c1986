/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended queue pairs and completion queues.  A request is complete when the next
 * one begins, or with wr_complete.
 */
#include <string.h>

#include "tracer.h"

static struct ibv_qp_ex real;
static struct ibv_cq_ex real_cq;

/* --- builders --- */

static struct tr_qp *state(const struct ibv_qp_ex *qp)
{
	return tr_qp_find(tr_context_id(qp->qp_base.context),
			  qp->qp_base.qp_num);
}

/* Records the request that was begun last. */
static void finish(struct tr_thread *t)
{
	struct tr_qp *q = t->built_qp;

	if (!t->built.kind)
		return;
	if (tr_post(t, q, &t->built) && q)
		q->batch++;
	t->built.kind = 0;
}

static void begin(const struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct tr_thread *t = tr_self();

	finish(t);
	t->built = (struct ur_trace_rec){
		.ns = t->batch_ns,
		.kind = UR_TRACE_POST,
		.context = tr_context_id(qp->qp_base.context),
		.wr_qpn = qp->qp_base.qp_num,
		.wr_id = qp->wr_id,
		.opcode = (uint8_t)opcode,
		.flags = qp->wr_flags & IBV_SEND_SIGNALED ? 0
							  : UR_TRACE_UNSIGNALED,
	};
	t->built_qp = tr_qp_find(t->built.context, t->built.wr_qpn);
}

static void add_bytes(size_t n, bool is_inline)
{
	struct tr_thread *t = tr_self();

	t->built.wr_bytes += (uint32_t)n;
	if (is_inline)
		t->built.flags |= UR_TRACE_INLINE;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin(qp, IBV_WR_RDMA_WRITE);
	real.wr_rdma_write(qp, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey,
			      uint64_t addr, __be32 imm)
{
	begin(qp, IBV_WR_RDMA_WRITE_WITH_IMM);
	real.wr_rdma_write_imm(qp, rkey, addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	begin(qp, IBV_WR_RDMA_READ);
	real.wr_rdma_read(qp, rkey, addr);
}

static void wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, IBV_WR_SEND);
	real.wr_send(qp);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	begin(qp, IBV_WR_SEND_WITH_IMM);
	real.wr_send_imm(qp, imm);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin(qp, IBV_WR_SEND_WITH_INV);
	real.wr_send_inv(qp, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin(qp, IBV_WR_LOCAL_INV);
	real.wr_local_inv(qp, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	begin(qp, IBV_WR_BIND_MW);
	real.wr_bind_mw(qp, mw, rkey, info);
}

static void wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz,
			uint16_t mss)
{
	begin(qp, IBV_WR_TSO);
	real.wr_send_tso(qp, hdr, hdr_sz, mss);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey,
			      uint64_t addr, uint64_t compare, uint64_t swap)
{
	begin(qp, IBV_WR_ATOMIC_CMP_AND_SWP);
	real.wr_atomic_cmp_swp(qp, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
				uint64_t addr, uint64_t by)
{
	begin(qp, IBV_WR_ATOMIC_FETCH_AND_ADD);
	real.wr_atomic_fetch_add(qp, rkey, addr, by);
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr,
			    const void *value)
{
	begin(qp, IBV_WR_ATOMIC_WRITE);
	add_bytes(8, false);
	real.wr_atomic_write(qp, rkey, addr, value);
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	add_bytes(length, false);
	real.wr_set_sge(qp, lkey, addr, length);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t n,
			    const struct ibv_sge *list)
{
	for (size_t i = 0; i < n; i++)
		add_bytes(list[i].length, false);
	real.wr_set_sge_list(qp, n, list);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	add_bytes(length, true);
	real.wr_set_inline_data(qp, addr, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t n,
				    const struct ibv_data_buf *list)
{
	for (size_t i = 0; i < n; i++)
		add_bytes(list[i].length, true);
	real.wr_set_inline_data_list(qp, n, list);
}

static void wr_start(struct ibv_qp_ex *qp)
{
	struct tr_thread *t = tr_self();
	struct tr_qp *q;

	real.wr_start(qp);
	/* Of another queue pair. */
	finish(t);
	t->batch_ns = tr_now(t);
	tr_empty_end(t, t->batch_ns);
	q = state(qp);
	if (!q)
		return;
	q->batch = 0;
	q->was_messages =
		atomic_load_explicit(&q->messages, memory_order_relaxed);
	q->was_signaled =
		atomic_load_explicit(&q->signaled, memory_order_relaxed);
}

/* The requests since wr_start were not posted. */
static void cancel(struct tr_thread *t, const struct ibv_qp_ex *qp)
{
	struct tr_qp *q = state(qp);
	struct ur_trace_rec r = { .ns = tr_clock(t),
				  .kind = UR_TRACE_CANCEL,
				  .units = UR_TRACE_REC,
				  .context = tr_context_id(qp->qp_base.context),
				  .wr_qpn = qp->qp_base.qp_num };

	if (q) {
		r.count = q->batch;
		atomic_store(&q->messages, q->was_messages);
		atomic_store(&q->signaled, q->was_signaled);
		if (r.count)
			atomic_store(&q->sample, 0);
	}
	if (r.count)
		tr_put(t, &r, true);
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	struct tr_thread *t = tr_self();
	bool call = tr_wants_call(t);
	/* Not a copy of the whole, which would wait for what was just written. */
	const struct ur_trace_rec about = { .count = 1,
					    .wr_qpn = qp->qp_base.qp_num,
					    .wr_id = t->built.wr_id,
					    .wr_bytes = t->built.wr_bytes,
					    .opcode = t->built.opcode };
	uint64_t now;
	int rc;

	finish(t);
	rc = real.wr_complete(qp);
	if (__builtin_expect(rc, 0))
		cancel(t, qp);
	if (call) {
		/* 0: the trace began after wr_start. */
		now = tr_clock(t);
		tr_data(t, UR_TRACE_CALL_ibv_wr_complete,
			t->batch_ns ? t->batch_ns : now, now, rc, &about);
	}
	return rc;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	struct tr_thread *t = tr_self();

	finish(t);
	real.wr_abort(qp);
	cancel(t, qp);
}

static bool is_foreign(const void *is, const void *mine)
{
	return is && is != mine;
}

/* Any queue pair has the same builders, or lacks one. */
#define BUILDERS(DO)                                                           \
	DO(wr_atomic_cmp_swp)                                                  \
	DO(wr_atomic_fetch_add)                                                \
	DO(wr_bind_mw)                                                         \
	DO(wr_local_inv)                                                       \
	DO(wr_rdma_read)                                                       \
	DO(wr_rdma_write)                                                      \
	DO(wr_rdma_write_imm)                                                  \
	DO(wr_send)                                                            \
	DO(wr_send_imm)                                                        \
	DO(wr_send_inv)                                                        \
	DO(wr_send_tso)                                                        \
	DO(wr_set_inline_data)                                                 \
	DO(wr_set_inline_data_list)                                            \
	DO(wr_set_sge)                                                         \
	DO(wr_set_sge_list)                                                    \
	DO(wr_start)                                                           \
	DO(wr_complete)                                                        \
	DO(wr_abort)                                                           \
	DO(wr_atomic_write)

#define WRAP(member)                                                           \
	((void)(is_foreign((void *)qp->member, (void *)(member))               \
			? (real.member = qp->member, qp->member = (member),    \
			   true)                                               \
			: false));
#define UNWRAP(member)                                                         \
	if (qp->member == (member))                                            \
		qp->member = real.member;

void tr_wrap_builders(struct ibv_qp_ex *qp)
{
	if (!(tr_classes & (UR_TRACE_data | UR_TRACE_wr)))
		return;
	BUILDERS(WRAP)
}

void tr_unwrap_builders(struct ibv_qp_ex *qp)
{
	BUILDERS(UNWRAP)
}

/* --- completion queues --- */

static void done(struct tr_thread *t, struct ibv_cq_ex *cq)
{
	struct ibv_cq *base = ibv_cq_ex_to_cq(cq);
	struct ur_trace_rec r = {
		.ns = tr_now(t),
		.context = tr_context_id(base->context),
		.wr_id = cq->wr_id,
		.status = (uint8_t)cq->status,
		.opcode = (uint8_t)cq->read_opcode(cq),
		.wr_qpn = cq->read_qp_num ? cq->read_qp_num(cq) : 0,
		.wr_bytes = cq->read_byte_len ? cq->read_byte_len(cq) : 0,
		.vendor = cq->status ? cq->read_vendor_err(cq) : 0,
	};

	tr_done(t, &r);
}

static int poll(struct ibv_cq_ex *cq, int rc, uint64_t from,
		enum ur_trace_call call)
{
	struct tr_thread *t = tr_self();
	struct ur_trace_rec about = { .count = 1 };

	if (rc) {
		if (call == UR_TRACE_CALL_ibv_start_poll)
			tr_empty(t, ibv_cq_ex_to_cq(cq));
		return rc;
	}
	tr_empty_end(t, from);
	done(t, cq);
	if (tr_wants_call(t)) {
		about.wr_id = cq->wr_id;
		about.wr_qpn = cq->read_qp_num ? cq->read_qp_num(cq) : 0;
		tr_data(t, call, from, tr_clock(t), rc, &about);
	}
	return rc;
}

static uint64_t poll_begins(void)
{
	return tr_classes & UR_TRACE_data ? tr_clock(tr_self()) : 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	uint64_t from = poll_begins();

	return poll(cq, real_cq.start_poll(cq, attr), from,
		    UR_TRACE_CALL_ibv_start_poll);
}

static int next_poll(struct ibv_cq_ex *cq)
{
	uint64_t from = poll_begins();

	return poll(cq, real_cq.next_poll(cq), from,
		    UR_TRACE_CALL_ibv_next_poll);
}

void tr_wrap_readers(struct ibv_cq_ex *cq)
{
	if (!(tr_classes & (UR_TRACE_data | UR_TRACE_wr)) ||
	    cq->start_poll == start_poll)
		return;
	real_cq.start_poll = cq->start_poll;
	real_cq.next_poll = cq->next_poll;
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
}

void tr_unwrap_readers(struct ibv_cq_ex *cq)
{
	if (cq->start_poll != start_poll)
		return;
	cq->start_poll = real_cq.start_poll;
	cq->next_poll = real_cq.next_poll;
}
