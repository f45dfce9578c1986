/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload that a port may send without a copy, and so later than the send call.
 * Only that of RC requests, whose memory the application does not touch until
 * they are acknowledged, and only of regions with a pinned mapping of ours. A
 * duplicate that leaves after the acknowledgement has the new bytes and the old
 * ICRC: the receiver drops it.
 *
 * The target of a READ may change at any time, which would invalidate the ICRC;
 * UC and UD complete when they are sent.
 */
#include "roce/internal.h"

/* Below this a copy costs less than chained buffers (decision 0015). */
#define EXTBUF_MIN 2048u

/* A pin is requested after this many packets of a region, then each time after
 * ten times as many: an attempt costs a millisecond. */
static bool is_time_to_request_pin(uint32_t packets)
{
	return packets == 2 || packets == 256 || packets == 65536;
}

/*
 * The region that contains [off, off + len) of the list in one element; NULL.
 */
static struct ur_mr *region_of(const struct ur_rqp *q, const struct ur_swqe *w,
			       uint32_t off, uint32_t len)
{
	const struct ur_sge *sge = w->data.sge;
	uint32_t n = w->num_sge;

	for (; n && off >= sge->length; n--)
		off -= (sge++)->length;
	if (!n || sge->length - off < len)
		return NULL;
	return ur_mr_lookup(q->qp->mrs, sge->lkey);
}

struct ur_pin *ur_extbuf_piece(const struct ur_rqp *q, const struct ur_swqe *w,
			       uint32_t off, uint32_t len, struct iovec *iov)
{
	const struct ur_roce *r = q->r;
	struct ur_mr *mr;
	struct ur_pin *pin;
	uint8_t *at;

	if (len < EXTBUF_MIN || (w->flags & UR_SEND_INLINE))
		return NULL;
	mr = region_of(q, w, off, len);
	if (!mr || mr->kind != UR_MR_MEMORY)
		return NULL;
	pin = atomic_load_explicit(&mr->pin, memory_order_acquire);
	if (!pin) {
		if (is_time_to_request_pin(atomic_fetch_add(&mr->large, 1) + 1))
			r->want_pin(r->want_pin_arg, mr->key);
		return NULL;
	}
	at = ur_pin_at(pin, iov->iov_base, len);
	if (!at)
		return NULL;
	iov->iov_base = at;
	return pin;
}

void ur_burst_add_extbuf(struct ur_burst *t, struct ur_pin *pin)
{
	if (t->pin && t->pin != pin)
		return;
	t->pin = pin;
	t->pinned |= 1ull << (t->npkts - 1);
}
