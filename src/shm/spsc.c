/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleep and wake-up: the consumer stores ASLEEP, then checks the ring; the
 * producer publishes, then reads that word; with a full barrier on either side
 * between the two, at least one of them sees the other's store.  Room and
 * wants_room work the same in the other direction.
 *
 * A full barrier takes as long as moving the slot's line from the consumer, for
 * each message, so there is none towards a consumer that polls.  Then the
 * producer may read POLLED although the consumer has just checked the ring
 * without seeing the slot, and goes to sleep.  That window is as long as a store
 * takes to become visible, and such a consumer checks again after a millisecond.
 */
#include "shm/spsc.h"

/* Bytes that are worth moving a cache line: some pieces of a message. */
#define EARLY 65536u

/* ur_spsc_ctl.rest */
enum {
	AWAKE, /* but may be about to sleep */
	ASLEEP,
	POLLED,
};

void ur_spsc_tx_init(struct ur_spsc_tx *t, const struct ur_spsc_place *p,
		     uint32_t span)
{
	*t = (struct ur_spsc_tx){
		.slots = p->slots,
		.data = p->data,
		.ctl = p->ctl,
		.mask = p->nslots - 1,
		.data_mask = p->data_size - 1,
		.span = span,
		.most = p->data_size,
	};
}

void ur_spsc_rx_init(struct ur_spsc_rx *r, const struct ur_spsc_place *p)
{
	*r = (struct ur_spsc_rx){
		.slots = p->slots,
		.data = p->data,
		.ctl = p->ctl,
		.mask = p->nslots - 1,
		.data_mask = p->data_size - 1,
	};
}

/* A tail beyond what was produced violates the protocol, and is ignored. */
void ur_spsc_refresh(struct ur_spsc_tx *t)
{
	uint32_t tail =
		atomic_load_explicit(&t->ctl->tail, memory_order_acquire);
	uint32_t data =
		atomic_load_explicit(&t->ctl->data_tail, memory_order_relaxed);

	if (t->head - tail <= t->head - t->tail)
		t->tail = tail;
	if (t->data_head - data <= t->data_head - t->data_tail)
		t->data_tail = data;
}

/* Payload is in one piece: a rest at the end of the area is skipped. */
static bool place(const struct ur_spsc_tx *t, uint32_t len, uint32_t *at)
{
	uint32_t head = t->data_head;
	uint32_t off = head & t->data_mask;

	if (off + len > t->span)
		head += t->data_mask + 1 - off;
	*at = head;
	return head + len - t->data_tail <= t->data_mask + 1;
}

uint8_t *ur_spsc_data(struct ur_spsc_tx *t, uint32_t len, uint32_t *at)
{
	if (!place(t, len, at))
		ur_spsc_refresh(t);
	while (!place(t, len, at)) {
		if (t->span >= t->most)
			return NULL;
		t->span *= 2;
	}
	return t->data + (*at & t->data_mask);
}

bool ur_spsc_is_polled(const struct ur_spsc_tx *t)
{
	atomic_signal_fence(memory_order_seq_cst);
	return atomic_load_explicit(&t->ctl->rest, memory_order_relaxed) ==
	       POLLED;
}

bool ur_spsc_must_signal(struct ur_spsc_tx *t)
{
	uint32_t asleep = ASLEEP;

	if (ur_spsc_is_polled(t))
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&t->ctl->rest, memory_order_relaxed) ==
		       ASLEEP &&
	       atomic_compare_exchange_strong_explicit(&t->ctl->rest, &asleep,
						       AWAKE,
						       memory_order_relaxed,
						       memory_order_relaxed);
}

void ur_spsc_want_room(struct ur_spsc_tx *t)
{
	atomic_store_explicit(&t->ctl->wants_room, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

void ur_spsc_show_room(struct ur_spsc_rx *r)
{
	r->data_early = r->data_tail;
	atomic_store_explicit(&r->ctl->data_tail, r->data_tail,
			      memory_order_relaxed);
	atomic_store_explicit(&r->ctl->tail, r->tail, memory_order_release);
}

void ur_spsc_release_early(struct ur_spsc_rx *r)
{
	if (r->data_tail - r->data_early >= EARLY)
		ur_spsc_show_room(r);
}

bool ur_spsc_release(struct ur_spsc_rx *r, const struct ur_spsc_tx *back)
{
	if (r->released == r->tail)
		return false;
	r->released = r->tail;
	ur_spsc_show_room(r);
	if (back && ur_spsc_is_polled(back))
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&r->ctl->wants_room,
				    memory_order_relaxed) &&
	       atomic_exchange_explicit(&r->ctl->wants_room, 0,
					memory_order_relaxed);
}

void ur_spsc_sleeps(struct ur_spsc_rx *r, bool asleep)
{
	atomic_store_explicit(&r->ctl->rest, asleep ? ASLEEP : AWAKE,
			      memory_order_relaxed);
	if (asleep)
		atomic_thread_fence(memory_order_seq_cst);
}

void ur_spsc_polled(struct ur_spsc_rx *r)
{
	atomic_store_explicit(&r->ctl->rest, POLLED, memory_order_relaxed);
}
