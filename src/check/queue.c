/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is posted. Requests of a send queue complete in order, and a completion
 * stands for the unsignaled ones before it (ibv_post_send(3)). Receives complete
 * in any order where several queue pairs share a queue.
 */
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check/internal.h"

/* Of longer buffers, pieces are summed: the first, the last, and some between. */
#define PIECE  4096u
#define PIECES 16u

static size_t bytes(const struct urk_queue *q)
{
	return sizeof(*q) + ((size_t)q->mask + 1) * sizeof(q->ring[0]);
}

struct urk_queue *urk_queue_new(uint32_t max_wr)
{
	uint32_t slots = 1;
	struct urk_queue *q;

	while (slots < max_wr)
		slots *= 2;
	q = urk_alloc(sizeof(*q) + (size_t)slots * sizeof(q->ring[0]));
	if (q)
		q->mask = slots - 1;
	return q;
}

void urk_queue_free(struct urk_queue *q)
{
	if (q)
		urk_free(q, bytes(q));
}

void urk_queue_clear(struct urk_queue *q, uint32_t expected)
{
	q->head = q->tail;
	q->expected = expected;
	q->lost = false;
}

static struct urk_request *at(const struct urk_queue *q, uint32_t i)
{
	return (struct urk_request *)(uintptr_t)&q->ring[i & q->mask];
}

/* The current thread's stack, from where it is now. */
static bool is_on_stack(uint64_t addr, uintptr_t here)
{
	return addr >= here && addr < urk_thread_stack_end(here);
}

struct urk_request *urk_queue_add(struct urk_queue *q, uint64_t wr_id,
				  const struct ibv_sge *sge, int nsge,
				  const struct urk_stack *posted)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	struct urk_request *r;

	if (q->lost)
		return NULL;
	if (q->tail - q->head > q->mask) {
		q->lost = true;
		return NULL;
	}
	r = at(q, q->tail++);
	*r = (struct urk_request){ .wr_id = wr_id,
				   .live = true,
				   .posted = posted,
				   .thread = urk_thread() };
	for (int i = 0; i < nsge; i++) {
		if (!sge[i].length)
			continue;
		if (is_on_stack(sge[i].addr, here) &&
		    (!r->on_stack || sge[i].addr < r->on_stack))
			r->on_stack = sge[i].addr;
		if (r->nsge < URK_SGES)
			r->sge[r->nsge++] = sge[i];
	}
	return r;
}

/* False: it cannot be read. The kernel copies, since memory may be unmapped. */
static bool add_piece(uint64_t addr, size_t n, uint64_t *sum)
{
	uint64_t word, data[PIECE / sizeof(word)];
	struct iovec to = { data, n };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	struct iovec from = { (void *)(uintptr_t)addr, n };

	data[(n - 1) / sizeof(word)] = 0;
	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)n)
		return false;
	for (size_t i = 0; i < (n + sizeof(word) - 1) / sizeof(word); i++) {
		word = data[i] * 0x9e3779b97f4a7c15u;
		*sum = (*sum ^ word ^ word >> 32) * 0xff51afd7ed558ccdu + 1;
	}
	return true;
}

static bool sum_of(const struct urk_request *r, uint64_t *sum)
{
	*sum = 0;
	for (int i = 0; i < r->nsge; i++) {
		const struct ibv_sge *s = &r->sge[i];
		uint64_t step = (uint64_t)(s->length - 1) / PIECES;

		if (step < PIECE)
			step = PIECE;
		for (uint64_t off = 0; off < s->length; off += step) {
			uint64_t left = s->length - off;

			if (!add_piece(s->addr + off,
				       left < PIECE ? left : PIECE, sum))
				return false;
		}
	}
	return true;
}

void urk_send_posted(struct urk_request *r, bool signaled, bool data, bool sum,
		     uint64_t received)
{
	r->signaled = signaled;
	r->received = received;
	r->summed = sum && r->nsge && sum_of(r, &r->sum);
	if (!data)
		r->on_stack = 0;
}

void urk_queue_undo(struct urk_queue *q, uint32_t n)
{
	if (!q->lost)
		q->tail -= n;
}

bool urk_queue_none_signaled(const struct urk_queue *q, uint32_t max_wr)
{
	if (q->lost || q->tail - q->head < max_wr)
		return false;
	for (uint32_t i = q->head; i != q->tail; i++)
		if (at(q, i)->signaled)
			return false;
	return true;
}

/* Has the function with the buffer on its stack returned since the post? */
static bool check_stack(const struct urk_object *of,
			const struct urk_request *r, const char *what)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (!r->on_stack || r->thread != urk_thread() || r->on_stack >= here ||
	    !urk_thread_stack_end(here))
		return true;
	urk_find(
		URK_STACK_BUFFER, of, r->posted, "completed at",
		urk_stack_here(),
		"the buffer of a %s, at 0x%llx, was on the stack of the thread, "
		"which has returned from there before the completion",
		what, (unsigned long long)r->on_stack);
	return false;
}

/* A message of the peer may be in the buffer, not yet known by its completion: a
 * receive there is posted, or it is not known which are. */
static bool may_be_overwritten(struct urk_object *qp,
			       const struct urk_request *r)
{
	struct urk_object *of =
		qp->srq ? urk_object_find(URK_SRQ, qp->srq) : qp;
	const struct urk_queue *q;
	bool may;

	if (!of)
		return true;
	if (of != qp)
		pthread_mutex_lock(&of->lock);
	q = of->receives;
	may = !q || q->lost || urk_queue_overlap(q, r);
	if (of != qp)
		pthread_mutex_unlock(&of->lock);
	return may;
}

static void check_sum(struct urk_object *qp, const struct urk_request *r)
{
	uint64_t sum;

	if (!r->summed || !sum_of(r, &sum) || sum == r->sum)
		return;
	if (!urk_options.all && may_be_overwritten(qp, r))
		return;
	urk_find(URK_SEND_CHANGED, qp, r->posted, "completed at",
		 urk_stack_here(),
		 "the buffer of a request, 0x%llx (%u bytes%s), has other "
		 "contents at its completion than when it was posted",
		 (unsigned long long)r->sge[0].addr, r->sge[0].length,
		 r->nsge > 1 ? " and more" : "");
}

/* The position of the request that a completion is about, or of the tail. */
static uint32_t find_send(const struct urk_queue *q, const struct ibv_wc *wc)
{
	bool failed = wc->status != IBV_WC_SUCCESS;

	for (uint32_t i = q->head; i != q->tail; i++) {
		const struct urk_request *r = at(q, i);

		if ((failed || r->signaled) && r->wr_id == wc->wr_id)
			return i;
		if (!failed && r->signaled)
			break;
	}
	return q->tail;
}

/* A message of the peer may have told that the request has arrived. */
static bool may_be_known(const struct urk_object *qp,
			 const struct urk_request *r)
{
	return qp->received != r->received && !urk_options.all;
}

void urk_send_done(struct urk_object *qp, const struct ibv_wc *wc,
		   bool in_order)
{
	struct urk_queue *q = qp->sends;
	uint32_t i;

	if (!q || q->lost)
		return;
	i = find_send(q, wc);
	if (i == q->tail) {
		q->lost = true;
		return;
	}
	if (wc->status == IBV_WC_LOC_PROT_ERR)
		urk_check_unmapped(qp, at(q, i));
	for (; q->head != i + 1; q->head++) {
		const struct urk_request *r = at(q, q->head);

		if (wc->status != IBV_WC_SUCCESS || may_be_known(qp, r))
			continue;
		if (check_stack(qp, r, "send request") && in_order)
			check_sum(qp, r);
	}
}

void urk_recv_done(struct urk_object *of, const struct ibv_wc *wc)
{
	struct urk_queue *q = of->receives;

	if (!q || q->lost)
		return;
	for (uint32_t i = q->head; i != q->tail; i++) {
		struct urk_request *r = at(q, i);

		if (!r->live || r->wr_id != wc->wr_id)
			continue;
		r->live = false;
		if (wc->status == IBV_WC_LOC_PROT_ERR)
			urk_check_unmapped(of, r);
		if (wc->status == IBV_WC_SUCCESS && wc->byte_len)
			(void)check_stack(of, r, "receive");
		break;
	}
	while (q->head != q->tail && !at(q, q->head)->live)
		q->head++;
}

static bool overlaps(const struct ibv_sge *a, const struct ibv_sge *b)
{
	return a->addr < b->addr + b->length && b->addr < a->addr + a->length;
}

const struct urk_request *urk_queue_overlap(const struct urk_queue *q,
					    const struct urk_request *r)
{
	for (uint32_t i = q->head; i != q->tail; i++) {
		const struct urk_request *o = at(q, i);

		for (int k = 0; o != r && o->live && k < o->nsge; k++)
			for (int j = 0; j < r->nsge; j++)
				if (overlaps(&o->sge[k], &r->sge[j]))
					return o;
	}
	return NULL;
}

const struct urk_request *urk_queue_uses(const struct urk_queue *q,
					 uint32_t lkey)
{
	for (uint32_t i = q->head; !q->lost && i != q->tail; i++) {
		const struct urk_request *r = at(q, i);

		for (int k = 0; r->live && k < r->nsge; k++)
			if (r->sge[k].lkey == lkey)
				return r;
	}
	return NULL;
}
