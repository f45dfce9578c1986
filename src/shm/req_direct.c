/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that the requester does by direct access (direct.h) instead of
 * sending them through the ring.
 */
#include <errno.h>

#include "core/masked.h"
#include "shm/direct.h"
#include "shm/internal.h"

#define CMA_MIN	    16384u /* bytes that are always worth a system call */
#define CMA_RUN	    4u
#define DIRECT_COST 1024u /* bytes that a request counts for, besides its own */

static int direct_message(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct iovec iov[UR_DIRECT_PIECES];
	int n;

	if (w->flags & UR_SEND_INLINE) {
		iov[0].iov_base = (void *)(uintptr_t)w->data.inline_data;
		iov[0].iov_len = w->length;
		n = 1;
	} else if (ur_swqe_is_read(w)) {
		n = ur_sge_locate(q->qp->mrs, q->qp->pd, w->data.sge,
				  w->num_sge, 0, w->length, iov,
				  UR_DIRECT_PIECES);
	} else {
		n = ur_sge_gather(q->qp->mrs, q->qp->pd, w->data.sge,
				  w->num_sge, 0, w->length, iov,
				  UR_DIRECT_PIECES);
	}
	if (n < 0)
		return n;
	return (ur_swqe_is_read(w) ? ur_direct_read : ur_direct_write)(
		q->shm->peer->direct, q->qp->attr.dest_qpn, q->qp->qpn,
		w->wr.rdma.rkey, w->wr.rdma.remote_addr, iov, n, w->length);
}

static int direct_masked(struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_op op = {
		.dqpn = q->qp->attr.dest_qpn,
		.sqpn = q->qp->qpn,
		.rkey = w->wr.atomic.rkey,
		.access = UR_ACCESS_REMOTE_ATOMIC,
		.va = w->wr.atomic.remote_addr,
		.len = w->length,
	};
	struct iovec iov[UR_MAX_SGE];
	uint8_t bytes[UR_MASKED_MAX];
	uint64_t old[2];
	int n = ur_sge_locate(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge, 0,
			      w->length, iov, UR_MAX_SGE);

	if (n < 0)
		return n;
	n = ur_direct_masked(q->shm->peer->direct, &op, ur_swqe_is_cas(w),
			     ur_swqe_masked(&q->qp->sq, w), old);
	if (n)
		return n;
	ur_masked_store(bytes, w->length, old);
	if (ur_sge_scatter(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge, 0,
			   bytes, w->length))
		ur_req_fail(q, UR_WC_LOC_PROT_ERR);
	return 0;
}

/*
 * An atomic cannot be undone, so the place for the old value is checked first.
 */
static int direct_atomic(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct iovec iov[UR_MAX_SGE];
	uint64_t old;
	int n;

	if (ur_swqe_is_masked(w))
		return direct_masked(q, w);
	n = ur_sge_locate(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge, 0, 8,
			  iov, UR_MAX_SGE);
	if (n < 0)
		return n;
	n = ur_direct_atomic(q->shm->peer->direct, q->qp->attr.dest_qpn,
			     q->qp->qpn, w->wr.atomic.rkey,
			     w->wr.atomic.remote_addr,
			     w->opcode == UR_WR_CMP_SWP,
			     w->wr.atomic.compare_add, w->wr.atomic.swap, &old);
	if (n)
		return n;
	if (ur_sge_scatter(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge, 0,
			   &old, sizeof(old)))
		ur_req_fail(q, UR_WC_LOC_PROT_ERR);
	return 0;
}

/* The common case: one piece of memory on both sides, not large. */
static inline int direct_piece(struct ur_rqp *q, const struct ur_swqe *w)
{
	bool read = ur_swqe_is_read(w);
	const struct ur_op op = {
		.dqpn = q->qp->attr.dest_qpn,
		.sqpn = q->qp->qpn,
		.rkey = w->wr.rdma.rkey,
		.access = read ? UR_ACCESS_REMOTE_READ : UR_ACCESS_REMOTE_WRITE,
		.va = w->wr.rdma.remote_addr,
		.len = w->length,
	};
	void *here;

	if ((!read && w->opcode != UR_WR_RDMA_WRITE) ||
	    w->length > UR_DIRECT_CHUNK)
		return -EAGAIN;
	if (w->flags & UR_SEND_INLINE)
		here = (void *)(uintptr_t)w->data.inline_data;
	else if (w->num_sge == 1)
		here = ur_shm_piece(q, w->data.sge, w->length,
				    read ? UR_ACCESS_LOCAL_WRITE : 0,
				    &q->shm->out);
	else
		here = NULL;
	return here ? ur_direct_piece(q->shm->peer->direct, &op, here)
		    : -EAGAIN;
}

/*
 * CMA (process_vm_writev) completes a request without the peer, but takes a
 * microsecond.  A program that posts many small requests and takes no
 * completion in between is served better by the ring.
 */
static bool by_kernel(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_shm_qp *n = q->shm;
	uint32_t head = atomic_load_explicit(&q->qp->send_cq->head,
					     memory_order_relaxed);

	if (head != n->cq_head)
		n->run = 0;
	n->cq_head = head;
	return w->length >= CMA_MIN || ++n->run <= CMA_RUN;
}

/*
 * A stream that began in the ring checks for a mapping once in so many bytes,
 * counting a kilobyte more per request: a check is cheap compared with a large
 * request, which the ring copies twice.
 */
#define LOOK_EVERY 65536u

static bool is_time_to_look(struct ur_shm_qp *n, uint32_t len)
{
	uint32_t was = n->passed;

	n->passed += DIRECT_COST + len;
	return was / LOOK_EVERY != n->passed / LOOK_EVERY;
}

/*
 * What the ring may carry while the answer about a region is awaited: direct
 * access can begin only when that is done.
 */
#define HELD_BACK 1048576u

/* Waiting for the answer pays while requests are outstanding. */
static bool waits_answer(const struct ur_rqp *q, uint32_t rkey, uint32_t len)
{
	const struct ur_shm_qp *n = q->shm;

	return (uint64_t)(n->sent - n->completed) * len >= HELD_BACK &&
	       ur_direct_is_asked(n->peer->direct, rkey);
}

static uint32_t rkey_of(const struct ur_swqe *w)
{
	return ur_swqe_is_atomic(w) ? w->wr.atomic.rkey : w->wr.rdma.rkey;
}

/* Of the first element; 0: none, which is no key. */
static uint32_t lkey_of(const struct ur_swqe *w)
{
	return w->num_sge && !(w->flags & UR_SEND_INLINE) ? w->data.sge[0].lkey
							  : 0;
}

/*
 * A mapped region may be unusable all the same: not for this queue pair, or not
 * at that address.  Each attempt drains the ring, so after a failure the next
 * one comes so many bytes later.
 */
#define USELESS_FOR (256u * LOOK_EVERY)

static bool is_useless(const struct ur_shm_qp *n, const struct ur_swqe *w)
{
	return n->is_useless &&
	       (n->useless_key == rkey_of(w) || n->useless_key == lkey_of(w)) &&
	       n->passed - n->useless_at < USELESS_FOR;
}

/* The ring was drained for this request: did direct access do it? -E2BIG: the
 * local list has too many pieces, whatever the remote region is. */
static void note_use(struct ur_shm_qp *n, const struct ur_swqe *w, int err)
{
	n->is_useless = err;
	n->useless_key = err == -E2BIG ? lkey_of(w) : rkey_of(w);
	n->useless_at = n->passed;
}

bool ur_shm_waits_direct(struct ur_rqp *q, const struct ur_swqe *w)
{
	struct ur_shm_qp *n = q->shm;
	uint32_t rkey = rkey_of(w);

	if (n->draining)
		return true;
	if (!is_time_to_look(n, w->length) || w->length == 0 ||
	    !(ur_swqe_is_atomic(w) || ur_swqe_is_read(w) ||
	      w->opcode == UR_WR_RDMA_WRITE) ||
	    is_useless(n, w))
		return false;
	n->draining = ur_direct_has_mapped(n->peer->direct, rkey);
	return n->draining || waits_answer(q, rkey, w->length);
}

/* By any mechanism and for any size; else -EAGAIN, or another error. */
static int direct_any(struct ur_rqp *q, const struct ur_swqe *w)
{
	ur_direct_allow_cma(q->shm->peer->direct, by_kernel(q, w));
	if (ur_swqe_is_atomic(w))
		return direct_atomic(q, w);
	if (ur_swqe_is_read(w) || ur_swqe_is_write(w))
		return direct_message(q, w);
	return -EAGAIN;
}

static inline void done(struct ur_rqp *q, struct ur_shm_qp *n,
			const struct ur_swqe *w)
{
	q->r->cnt.shm_direct++;
	n->direct += w->length + DIRECT_COST;
	if (!q->qp->on_shm)
		return; /* it failed */
	if (__builtin_expect(q->r->tap != NULL, 0))
		ur_shm_tap_direct(q, w);
	q->req.cur++;
	q->req.fresh++;
	if (ur_shm_ack_late(q, w))
		ur_shm_complete_silently(q);
	else
		ur_req_complete(q, w, UR_WC_SUCCESS);
}

/* None is outstanding, so neither order nor a fence makes it wait. */
static bool may_kick(const struct ur_rqp *q)
{
	const struct ur_shm_qp *n = q->shm;
	const struct ur_qp *qp = q->qp;

	return qp->type == UR_QPT_RC && n->peer && n->peer->direct &&
	       !ur_shm_outstanding(n) && !q->wire_only &&
	       !qp->attr.rate_limit && ur_rqp_state(q) == UR_QPS_RTS;
}

/* Errors are left to the slow path. */
bool ur_shm_kick_direct(struct ur_qp *qp)
{
	struct ur_rqp *q = ur_rqp_of(qp);
	struct ur_shm_qp *n = q->shm;
	uint32_t tail = ur_sq_tail(&qp->sq);

	if (!may_kick(q))
		return false;
	n->direct = 0;
	while (q->req.cur != tail) {
		const struct ur_swqe *w = ur_sq_slot(&qp->sq, q->req.cur);

		if (n->direct >= UR_SHM_DIRECT_BYTES || w->length == 0 ||
		    (ur_swqe_is_read(w) && !qp->attr.max_rd_atomic))
			return false;
		n->no_piece = direct_piece(q, w);
		if (n->no_piece)
			return false;
		done(q, n, w);
	}
	n->draining = false;
	if (__builtin_expect(q->overrun, 0))
		ur_rqp_check_overrun(q);
	return true;
}

bool ur_shm_do_directly(struct ur_rqp *q, const struct ur_swqe *w)
{
	bool drained = q->shm->draining;
	int err;

	q->shm->draining = false;
	if (w->length == 0 || w->opcode == UR_WR_RDMA_WRITE_IMM)
		return false;
	err = q->shm->no_piece || direct_piece(q, w) ? direct_any(q, w) : 0;
	q->shm->no_piece = false;
	if (drained)
		note_use(q->shm, w, err);
	if (err)
		return false;
	done(q, q->shm, w);
	return true;
}
