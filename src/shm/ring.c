/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/ring.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/shared.h"

#define KIND_PACKET 1u
#define KIND_SKIP   2u /* nothing: the next record is at the beginning */

struct ur_ring_mem {
	_Alignas(UR_RING_LINE) _Atomic uint32_t head; /* the producer's count */
	_Atomic uint64_t lost;
	_Alignas(UR_RING_LINE) _Atomic uint32_t tail; /* the consumer's */
	_Atomic uint32_t sleeps; /* set by the consumer, taken by either */
};

static uint32_t step_of(uint32_t len)
{
	return (uint32_t)sizeof(struct ur_ring_rec) +
	       ((len + UR_RING_LINE - 1) & ~(UR_RING_LINE - 1));
}

size_t ur_ring_bytes(uint32_t size)
{
	return sizeof(struct ur_ring_mem) + size;
}

void ur_ring_init(struct ur_ring *r, void *mem, uint32_t size)
{
	*r = (struct ur_ring){ .mem = mem, .size = size };
	r->data = (uint8_t *)mem + sizeof(struct ur_ring_mem);
}

static uint8_t *at(const struct ur_ring *r, uint32_t count)
{
	return r->data + (count & (r->size - 1));
}

/* The tail is the other side's word: more than a ring is nonsense, and means
 * that there is no room. */
static bool has_room(struct ur_ring *r, uint32_t bytes)
{
	if (r->own - r->seen + bytes <= r->size)
		return true;
	r->seen = atomic_load_explicit(&r->mem->tail, memory_order_acquire);
	return r->own - r->seen <= r->size &&
	       r->own - r->seen + bytes <= r->size;
}

uint8_t *ur_ring_reserve(struct ur_ring *r, uint32_t len)
{
	uint32_t step = step_of(len), to_end;

	if (len > r->size / 4)
		return NULL;
	to_end = r->size - (r->own & (r->size - 1));
	if (step <= to_end) {
		if (!has_room(r, step))
			return NULL;
	} else {
		struct ur_ring_rec skip = { .kind = KIND_SKIP };

		if (!has_room(r, to_end + step))
			return NULL;
		memcpy(at(r, r->own), &skip, sizeof(skip));
		r->own += to_end;
	}
	return at(r, r->own) + sizeof(struct ur_ring_rec);
}

/* The head is written before the consumer's wish to sleep is read, and the
 * other way round in ur_ring_sleep(): one of the two sees the other. */
bool ur_ring_publish(struct ur_ring *r, const struct ur_ring_rec *rec,
		     uint32_t len)
{
	struct ur_ring_rec own = *rec;

	own.kind = KIND_PACKET;
	own.len = len;
	memcpy(at(r, r->own), &own, sizeof(own));
	r->own += step_of(len);
	atomic_store_explicit(&r->mem->head, r->own, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&r->mem->sleeps, memory_order_relaxed) &&
	       atomic_exchange(&r->mem->sleeps, 0) != 0;
}

static bool is_empty(struct ur_ring *r)
{
	if (r->own != r->seen)
		return false;
	r->seen = atomic_load_explicit(&r->mem->head, memory_order_acquire);
	return r->own == r->seen;
}

int ur_ring_peek(struct ur_ring *r, struct ur_ring_rec *rec,
		 const uint8_t **payload)
{
	uint32_t to_end;

	if (is_empty(r))
		return 0;
	to_end = r->size - (r->own & (r->size - 1));
	ur_shared_copy(rec, at(r, r->own), sizeof(*rec));
	if (rec->kind == KIND_SKIP) {
		if (r->seen - r->own <= to_end)
			return -EPROTO;
		r->own += to_end;
		to_end = r->size;
		ur_shared_copy(rec, r->data, sizeof(*rec));
	}
	if (rec->kind != KIND_PACKET || rec->len > r->size / 4)
		return -EPROTO;
	r->step = step_of(rec->len);
	if (r->step > to_end || r->step > r->seen - r->own ||
	    r->seen - r->own > r->size)
		return -EPROTO;
	*payload = at(r, r->own) + sizeof(*rec);
	return 1;
}

void ur_ring_pop(struct ur_ring *r)
{
	r->own += r->step;
	r->step = 0;
	atomic_store_explicit(&r->mem->tail, r->own, memory_order_release);
}

bool ur_ring_sleep(struct ur_ring *r, bool on)
{
	atomic_store_explicit(&r->mem->sleeps, on, memory_order_relaxed);
	if (!on)
		return true;
	atomic_thread_fence(memory_order_seq_cst);
	if (is_empty(r))
		return true;
	atomic_store_explicit(&r->mem->sleeps, 0, memory_order_relaxed);
	return false;
}

void ur_ring_count_lost(struct ur_ring *r)
{
	atomic_fetch_add_explicit(&r->mem->lost, 1, memory_order_relaxed);
}

uint64_t ur_ring_lost(const struct ur_ring *r)
{
	return atomic_load_explicit(&r->mem->lost, memory_order_relaxed);
}
