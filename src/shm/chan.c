/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleep and bell: the consumer stores "asleep", then looks into the ring; the
 * producer publishes, then looks at "asleep"; a full barrier on either side
 * between the two, so one of them sees the other.  Room and "wants room" are
 * the same the other way round.
 *
 * A full barrier waits until the cell's line has come over from the consumer,
 * for each message; so there is none towards a consumer that is polled.  Then
 * the producer may see "polled" in a moment when its cell is not yet seen by
 * the consumer, who has just stopped and sleeps.  That moment is as long as a
 * store takes, and such a consumer looks again after a millisecond.
 */
#include "shm/chan.h"

#include <errno.h>
#include <string.h>

#define MAGIC	   0x636e7275u /* "urnc" */
#define LINE	   64u
/* Bytes that are worth a line that crosses over: some pieces of a message. */
#define EARLY	   65536u
/* Who waits for each answer stays where the memory is there and warm; a stream
 * that finds no room takes more of it. */
#define SPAN_FIRST (256u << 10)

enum {
	AWAKE, /* but may be about to sleep */
	ASLEEP,
	POLLED,
};

/* What the consumer of a ring writes, and the producer's wish. */
struct ring_ctl {
	_Alignas(LINE) _Atomic uint32_t tail;
	_Atomic uint32_t data_tail;
	_Alignas(LINE) _Atomic uint32_t rest; /* AWAKE … */
	_Alignas(LINE) _Atomic uint32_t wants_room;
};

struct ring {
	struct ur_desc cells[UR_CHAN_DESCS];
	uint8_t data[UR_CHAN_DATA];
};

struct ur_chan_mem {
	uint32_t magic;
	uint32_t version;
	struct ring_ctl ctl[2];
	_Alignas(4096) uint8_t extra[UR_CHAN_EXTRA];
	_Alignas(4096) struct ring ring[2]; /* i: side i produces */
};

size_t ur_chan_bytes(void)
{
	return sizeof(struct ur_chan_mem);
}

void ur_chan_format(void *mem)
{
	struct ur_chan_mem *m = mem;

	m->magic = MAGIC;
	m->version = UR_CHAN_VERSION;
}

int ur_chan_attach(struct ur_chan *c, void *mem, unsigned int side)
{
	struct ur_chan_mem *m = mem;

	if (m->magic != MAGIC || m->version != UR_CHAN_VERSION)
		return -EPROTO;
	*c = (struct ur_chan){
		.mem = m,
		.side = side,
		.tx = m->ring[side].cells,
		.tx_data = m->ring[side].data,
		.tx_span = SPAN_FIRST,
		.tx_most = UR_CHAN_DATA,
		.rx = m->ring[!side].cells,
		.rx_data = m->ring[!side].data,
	};
	return 0;
}

void *ur_chan_extra(const struct ur_chan *c)
{
	return c->mem->extra;
}

static struct ring_ctl *tx_ctl(const struct ur_chan *c)
{
	return &c->mem->ctl[c->side];
}

static struct ring_ctl *rx_ctl(const struct ur_chan *c)
{
	return &c->mem->ctl[!c->side];
}

/* A tail beyond what was produced is a lie, and is not followed. */
void ur_chan_refresh(struct ur_chan *c)
{
	const struct ring_ctl *ctl = tx_ctl(c);
	uint32_t tail = atomic_load_explicit(&ctl->tail, memory_order_acquire);
	uint32_t data =
		atomic_load_explicit(&ctl->data_tail, memory_order_relaxed);

	if (c->tx_head - tail <= c->tx_head - c->tx_tail)
		c->tx_tail = tail;
	if (c->tx_data_head - data <= c->tx_data_head - c->tx_data_tail)
		c->tx_data_tail = data;
}

/* Payload stands in one piece: what is left at the end is skipped. */
static bool place(const struct ur_chan *c, uint32_t len, uint32_t *at)
{
	uint32_t head = c->tx_data_head;
	uint32_t off = head % UR_CHAN_DATA;

	if (off + len > c->tx_span)
		head += UR_CHAN_DATA - off;
	*at = head;
	return head + len - c->tx_data_tail <= UR_CHAN_DATA;
}

uint8_t *ur_chan_data(struct ur_chan *c, uint32_t len, uint32_t *at)
{
	if (!place(c, len, at))
		ur_chan_refresh(c);
	while (!place(c, len, at)) {
		if (c->tx_span >= c->tx_most)
			return NULL;
		c->tx_span *= 2;
	}
	return c->tx_data + *at % UR_CHAN_DATA;
}

bool ur_chan_must_signal(struct ur_chan *c)
{
	struct ring_ctl *ctl = tx_ctl(c);
	uint32_t asleep = ASLEEP;

	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&ctl->rest, memory_order_relaxed) == POLLED)
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&ctl->rest, memory_order_relaxed) ==
		       ASLEEP &&
	       atomic_compare_exchange_strong_explicit(&ctl->rest, &asleep,
						       AWAKE,
						       memory_order_relaxed,
						       memory_order_relaxed);
}

void ur_chan_want_room(struct ur_chan *c)
{
	atomic_store_explicit(&tx_ctl(c)->wants_room, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

const uint8_t *ur_chan_payload(const struct ur_chan *c, uint32_t at,
			       uint32_t len)
{
	uint32_t off = at % UR_CHAN_DATA;

	if (at % LINE || len > UR_CHAN_DATA - off)
		return NULL;
	return c->rx_data + off;
}

static void show_tails(struct ur_chan *c)
{
	struct ring_ctl *ctl = rx_ctl(c);

	c->rx_data_early = c->rx_data_tail;
	atomic_store_explicit(&ctl->data_tail, c->rx_data_tail,
			      memory_order_relaxed);
	atomic_store_explicit(&ctl->tail, c->rx_tail, memory_order_release);
}

void ur_chan_release_early(struct ur_chan *c)
{
	if (c->rx_data_tail - c->rx_data_early >= EARLY)
		show_tails(c);
}

bool ur_chan_release(struct ur_chan *c)
{
	struct ring_ctl *ctl = rx_ctl(c);

	if (c->rx_released == c->rx_tail)
		return false;
	c->rx_released = c->rx_tail;
	show_tails(c);
	atomic_signal_fence(memory_order_seq_cst);
	/* Who polls looks for room himself. */
	if (atomic_load_explicit(&tx_ctl(c)->rest, memory_order_relaxed) ==
	    POLLED)
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&ctl->wants_room, memory_order_relaxed) &&
	       atomic_exchange_explicit(&ctl->wants_room, 0,
					memory_order_relaxed);
}

void ur_chan_sleeps(struct ur_chan *c, bool asleep)
{
	atomic_store_explicit(&rx_ctl(c)->rest, asleep ? ASLEEP : AWAKE,
			      memory_order_relaxed);
	if (asleep)
		atomic_thread_fence(memory_order_seq_cst);
}

void ur_chan_polled(struct ur_chan *c)
{
	atomic_store_explicit(&rx_ctl(c)->rest, POLLED, memory_order_relaxed);
}
