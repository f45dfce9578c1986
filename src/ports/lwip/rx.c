/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive memory.  A segment keeps its packet until it is read, and a window
 * holds many tiny segments: payload of less than TINY is copied together.  The
 * unread bytes of all connections are bounded, and so are the segments behind a
 * gap.
 */
#include <stdlib.h>
#include <string.h>

#include <lwip/priv/tcp_priv.h>

#include "ports/lwip/internal.h"

#define TINY	   512u
#define GATHER	   1024u
#define MEMORY_MAX (256u << 20)
/* A segment without data is freed at once, and the connection needs it. */
#define BARE_MAX   128u
#define BARE_EXTRA (16u << 20)
/* Payload of a segment, put together from fragments. */
#define LONGEST	   (UINT16_MAX - 40u)
#define OOSEQ_MAX  512u

struct rx_buf {
	struct pbuf_custom pbuf; /* first: lwIP gives it back */
	uint32_t size;
	uint8_t data[];
};

static void rx_free(struct pbuf *p)
{
	struct rx_buf *b = (struct rx_buf *)(void *)p;

	lwip_count.rx_memory -= b->size;
	free(b);
}

struct pbuf *rx_alloc(uint32_t len)
{
	uint32_t size = (uint32_t)sizeof(struct rx_buf) + len;
	uint32_t most = len <= BARE_MAX ? MEMORY_MAX + BARE_EXTRA : MEMORY_MAX;
	struct rx_buf *b =
		lwip_count.rx_memory + size <= most ? malloc(size) : NULL;

	if (!b || len > UINT16_MAX) {
		free(b);
		lwip_count.drop_memory++;
		return NULL;
	}
	b->size = size;
	b->pbuf.custom_free_function = rx_free;
	lwip_count.rx_memory += size;
	return pbuf_alloced_custom(PBUF_RAW, (u16_t)len, PBUF_REF, &b->pbuf,
				   b->data, (u16_t)len);
}

static void append(struct ur_stack_conn *c, struct pbuf *p)
{
	if (c->tail)
		c->tail->next = p;
	else
		c->head = p;
	c->tail = p;
}

static bool gather(struct ur_stack_conn *c, const struct pbuf *p)
{
	struct pbuf *g = c->gather;

	if (!g || g != c->tail || g->len + p->len > GATHER) {
		g = rx_alloc(GATHER);
		if (!g)
			return false;
		g->len = 0;
		g->tot_len = 0;
		append(c, g);
		c->gather = g;
	}
	memcpy((uint8_t *)g->payload + g->len, p->payload, p->len);
	g->len = (u16_t)(g->len + p->len);
	g->tot_len = g->len;
	return true;
}

void rx_keep(struct ur_stack_conn *c, struct pbuf *p)
{
	while (p) {
		struct pbuf *next = p->next;

		p->next = NULL;
		p->tot_len = p->len;
		if (!p->len || (p->len < TINY && c->tail && gather(c, p)))
			(void)pbuf_free(p);
		else
			append(c, p);
		p = next;
	}
}

void rx_drop_head(struct ur_stack_conn *c)
{
	struct pbuf *p = c->head;

	c->head = p->next;
	if (!c->head)
		c->tail = NULL;
	if (c->gather == p)
		c->gather = NULL;
	c->off = 0;
	p->next = NULL;
	p->tot_len = p->len;
	(void)pbuf_free(p);
}

/*
 * lwIP assumes that no segment behind a gap reaches beyond the window or into
 * the next one.  A peer can construct such segments (a FIN within other
 * segments), and lwIP would then abort the program.
 */
static bool is_sound(const struct tcp_pcb *pcb, const struct tcp_seg *s)
{
	u32_t end = s->tcphdr->seqno + TCP_TCPLEN(s);

	/* A segment that fills the window would take this end with it. */
	if ((TCPH_FLAGS(s->tcphdr) & TCP_FIN) && pcb->rcv_wnd <= LONGEST)
		return false;
	return !TCP_SEQ_GT(end, pcb->rcv_nxt + pcb->rcv_wnd) &&
	       !(s->next && TCP_SEQ_GT(end, s->next->tcphdr->seqno));
}

void rx_check_ooseq(struct tcp_pcb *pcb)
{
	bool sound = true;
	uint32_t n = 0;

	for (const struct tcp_seg *s = pcb->ooseq; s; s = s->next) {
		sound &= is_sound(pcb, s);
		n++;
	}
	if (sound && n <= OOSEQ_MAX)
		return;
	/* The peer sends them again. */
	lwip_count.drop_out_of_order += n;
	tcp_free_ooseq(pcb);
}
