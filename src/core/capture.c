/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/capture.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"

#define MASK (UR_CAPTURE_RING - 1)

_Static_assert((UR_CAPTURE_RING & MASK) == 0, "a power of two");

static uint32_t size_of(uint32_t len)
{
	return (UR_CAPTURE_ALIGN + len + UR_CAPTURE_ALIGN - 1) &
	       ~(UR_CAPTURE_ALIGN - 1);
}

/* Bytes to the end of the ring, if a record of that size would cross it. */
static uint32_t pad_at(uint64_t at, uint32_t size)
{
	uint32_t left = UR_CAPTURE_RING - (uint32_t)(at & MASK);

	return left < size ? left : 0;
}

static struct ur_capture_rec *rec_at(uint8_t *ring, uint64_t at)
{
	uint64_t off = at & MASK & ~(uint64_t)(UR_CAPTURE_ALIGN - 1);

	return (struct ur_capture_rec *)(void *)(ring + off);
}

static void publish(struct ur_capture_rec *r, uint64_t mark)
{
	atomic_store_explicit(&r->mark, mark, memory_order_release);
}

/* The position of the record's memory; false: no room. */
static bool reserve(const struct ur_capture *c, uint32_t size, uint64_t *pos)
{
	struct ur_capture_head *h = c->head;
	uint64_t at = atomic_load_explicit(&h->head, memory_order_relaxed);
	uint32_t pad;

	do {
		uint64_t tail =
			atomic_load_explicit(&h->tail, memory_order_acquire);

		pad = pad_at(at, size);
		/* Negative: the reader has passed `at`, which is old. */
		if ((int64_t)(at + pad + size - tail) > UR_CAPTURE_RING)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&h->head, &at, at + pad + size, memory_order_relaxed,
		memory_order_relaxed));
	if (pad) {
		struct ur_capture_rec *r = rec_at(c->ring, at);

		r->kind = UR_CAP_PAD;
		r->len = pad - UR_CAPTURE_ALIGN;
		publish(r, at ^ c->nonce);
	}
	*pos = at + pad;
	return true;
}

/* False: a piece is not mapped; the rest of the record is zero. */
static bool copy(uint8_t *to, const struct iovec *iov, uint32_t n)
{
	bool ok = true;

	for (uint32_t i = 0; i < n; i++) {
		if (ok)
			ok = !ur_guard_copy(to, iov[i].iov_base,
					    iov[i].iov_len);
		if (!ok)
			memset(to, 0, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	return ok;
}

static void count_lost(const struct ur_tap *tap)
{
	atomic_fetch_add_explicit(
		&tap->capture->head->lost[tap->device % UR_MAX_DEVICES], 1,
		memory_order_relaxed);
}

void ur_capture_put(const struct ur_tap *tap, const struct ur_capture_rec *rec,
		    const struct iovec *iov, uint32_t n)
{
	const struct ur_capture *c = tap->capture;
	struct ur_capture_rec *r;
	size_t len = 0;
	uint64_t at;

	for (uint32_t i = 0; i < n; i++)
		len += iov[i].iov_len;
	if (len > UR_CAPTURE_MAX || !reserve(c, size_of((uint32_t)len), &at)) {
		count_lost(tap);
		return;
	}
	r = rec_at(c->ring, at);
	memcpy((uint8_t *)r + sizeof(r->mark),
	       (const uint8_t *)rec + sizeof(r->mark),
	       sizeof(*r) - sizeof(r->mark));
	r->ns = c->now();
	r->len = (uint32_t)len;
	r->device = tap->device;
	if (!copy((uint8_t *)r + UR_CAPTURE_ALIGN, iov, n)) {
		r->kind = UR_CAP_PAD;
		count_lost(tap);
	}
	publish(r, at ^ c->nonce);
}

/* --- reader --- */

static int look(struct ur_capture_head *h, uint64_t nonce,
		struct ur_capture_rec *rec, const uint8_t **payload)
{
	uint64_t tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
	uint8_t *ring = (uint8_t *)h + UR_CAPTURE_HEAD;
	struct ur_capture_rec *r = rec_at(ring, tail);

	if (atomic_load_explicit(&r->mark, memory_order_acquire) !=
	    (tail ^ nonce))
		return 0;
	memcpy(rec, r, sizeof(*rec));
	if (rec->len > UR_CAPTURE_RING - UR_CAPTURE_ALIGN ||
	    pad_at(tail, size_of(rec->len)))
		return -EPROTO;
	*payload = (const uint8_t *)r + UR_CAPTURE_ALIGN;
	return 1;
}

int ur_capture_peek(struct ur_capture_head *h, uint64_t nonce,
		    struct ur_capture_rec *rec, const uint8_t **payload)
{
	int n;

	while ((n = look(h, nonce, rec, payload)) == 1 &&
	       rec->kind == UR_CAP_PAD)
		ur_capture_pop(h, rec);
	return n;
}

void ur_capture_pop(struct ur_capture_head *h, const struct ur_capture_rec *rec)
{
	uint64_t tail = atomic_load_explicit(&h->tail, memory_order_relaxed);

	atomic_store_explicit(&h->tail, tail + size_of(rec->len),
			      memory_order_release);
}
