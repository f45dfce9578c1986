/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/chan.h"

#include <errno.h>

#define MAGIC	   0x636e7275u /* "urnc" */
/* A conversation stays where the memory is allocated and cached; a stream that
 * finds no room uses more. */
#define SPAN_FIRST (256u << 10)

struct ring {
	struct ur_slot slots[UR_CHAN_DESCS];
	uint8_t data[UR_CHAN_DATA];
};

struct ur_chan_mem {
	uint32_t magic;
	uint32_t version;
	struct ur_spsc_ctl ctl[2];
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

static struct ur_spsc_place place_of(struct ur_chan_mem *m, unsigned int i)
{
	return (struct ur_spsc_place){ .ctl = &m->ctl[i],
				       .slots = m->ring[i].slots,
				       .data = m->ring[i].data,
				       .nslots = UR_CHAN_DESCS,
				       .data_size = UR_CHAN_DATA };
}

int ur_chan_attach(struct ur_chan *c, void *mem, unsigned int side)
{
	struct ur_chan_mem *m = mem;
	struct ur_spsc_place tx, rx;

	if (m->magic != MAGIC || m->version != UR_CHAN_VERSION)
		return -EPROTO;
	tx = place_of(m, side);
	rx = place_of(m, !side);
	c->mem = m;
	ur_spsc_tx_init(&c->tx, &tx, SPAN_FIRST);
	ur_spsc_rx_init(&c->rx, &rx);
	return 0;
}

void *ur_chan_extra(const struct ur_chan *c)
{
	return c->mem->extra;
}
