/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/ring.h"

#include <errno.h>
#include <string.h>

#define SEQ_BYTES sizeof(((struct ur_ring_rec *)NULL)->seq)

static uint32_t records_of(uint32_t size)
{
	return size / UR_RING_PER_RECORD;
}

size_t ur_ring_bytes(uint32_t size)
{
	return sizeof(struct ur_spsc_ctl) +
	       records_of(size) * sizeof(struct ur_slot) + size;
}

void ur_ring_init(struct ur_ring *r, void *mem, uint32_t size)
{
	struct ur_spsc_ctl *ctl = mem;
	struct ur_spsc_place p = { .ctl = ctl,
				   .slots = (void *)(ctl + 1),
				   .nslots = records_of(size),
				   .data_size = size };

	p.data = (uint8_t *)(p.slots + p.nslots);
	*r = (struct ur_ring){ .at = 0 };
	ur_spsc_tx_init(&r->tx, &p, size);
	ur_spsc_rx_init(&r->rx, &p);
}

static bool is_allowed(uint32_t data_mask, uint32_t len)
{
	return len <= data_mask / 4 + 1;
}

uint8_t *ur_ring_reserve(struct ur_ring *r, uint32_t len)
{
	if (!is_allowed(r->tx.data_mask, len) || !ur_spsc_has_room(&r->tx, 0))
		return NULL;
	return len ? ur_spsc_data(&r->tx, len, &r->at) : r->tx.data;
}

bool ur_ring_publish(struct ur_ring *r, const struct ur_ring_rec *rec,
		     uint32_t len)
{
	struct ur_ring_rec own = *rec;

	own.len = len;
	own.at = r->at;
	memcpy(ur_spsc_slot(&r->tx)->bytes, (const uint8_t *)&own + SEQ_BYTES,
	       sizeof(own) - SEQ_BYTES);
	ur_spsc_publish(&r->tx);
	if (len)
		ur_spsc_data_used(&r->tx, r->at, len);
	return ur_spsc_must_signal(&r->tx);
}

int ur_ring_peek(struct ur_ring *r, struct ur_ring_rec *rec,
		 const uint8_t **payload)
{
	if (ur_spsc_is_empty(&r->rx)) {
		ur_spsc_row_ended(&r->rx);
		return 0;
	}
	ur_spsc_prefetch(&r->rx);
	ur_spsc_copy(&r->rx, rec);
	if (!is_allowed(r->rx.data_mask, rec->len))
		return -EPROTO;
	*payload = rec->len ? ur_spsc_payload(&r->rx, rec->at, rec->len)
			    : r->rx.data;
	r->at = rec->at;
	r->len = rec->len;
	return *payload ? 1 : -EPROTO;
}

void ur_ring_pop(struct ur_ring *r)
{
	if (r->len)
		ur_spsc_data_done(&r->rx, r->at, r->len);
	ur_spsc_consume(&r->rx);
	ur_spsc_show_room(&r->rx);
}

bool ur_ring_sleep(struct ur_ring *r, bool on)
{
	ur_spsc_sleeps(&r->rx, on);
	if (!on || ur_spsc_is_empty(&r->rx))
		return true;
	ur_spsc_sleeps(&r->rx, false);
	return false;
}

void ur_ring_count_lost(struct ur_ring *r)
{
	atomic_fetch_add_explicit(&r->tx.ctl->lost, 1, memory_order_relaxed);
}

uint64_t ur_ring_lost(const struct ur_ring *r)
{
	return atomic_load_explicit(&r->tx.ctl->lost, memory_order_relaxed);
}
