/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile peer of an rsocket: it sends any hello and any message at any time,
 * and writes into the lists that we have exposed. The application reads and
 * writes meanwhile. Checked: no offset or length leaves our own buffers, and we
 * never have more to read than the peer has written.
 *
 * The first byte selects: the state of a stream, or the decoders of hellos and
 * datagram headers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "rsocket/flow.h"

enum { INLINE = 64, IN_FLIGHT = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

struct posted {
	uint32_t requests;
	uint32_t copied;
	bool ctrl;
};

struct world {
	struct urs_flow f;
	struct urs_flow_conf conf;
	struct urs_sge target[URS_SGL_LEN];
	uint32_t *msgs;
	struct posted flying[IN_FLIGHT];
	unsigned int posted, completed;
	uint64_t told; /* bytes that the peer claims to have written */
	uint64_t read;
	bool dead;
};

static void fly(struct world *w, uint32_t requests, uint32_t copied, bool ctrl)
{
	check(w->posted - w->completed < IN_FLIGHT);
	w->flying[w->posted++ % IN_FLIGHT] =
		(struct posted){ requests, copied, ctrl };
}

static void check_chunk(const struct world *w, const struct urs_chunk *c,
			uint32_t want)
{
	check(c->length <= want);
	if (!c->copied) {
		check(c->length <= INLINE);
		return;
	}
	check(c->copied == c->length);
	check((uint64_t)c->len[0] + c->len[1] == c->copied);
	for (unsigned int i = 0; i < 2; i++)
		check((uint64_t)c->at[i] + c->len[i] <=
		      (uint64_t)w->f.sbuf_base + w->f.sbuf_size);
}

static void app_writes(struct world *w, struct ur_rd *r)
{
	uint32_t want = ur_rd_be24(r) % 200000 + 1;
	uint32_t size = urs_flow_send_growth(&w->f, want);
	struct urs_chunk c;

	if (size)
		urs_flow_grow_send(&w->f, size);
	if (!urs_flow_send(&w->f, want, INLINE, &c))
		return;
	check(c.length > 0);
	check_chunk(w, &c, want);
	fly(w, w->conf.paired ? 2 : 1, c.copied, false);
}

/* riowrite(), and an announced mapping. */
static void app_writes_direct(struct world *w, struct ur_rd *r)
{
	uint32_t want = ur_rd_be24(r) % 200000 + 1;
	struct urs_chunk c;

	if (!urs_flow_can_write(&w->f))
		return;
	if (want & 1) {
		c = urs_flow_write(&w->f, want, INLINE);
		fly(w, 1, c.copied, false);
	} else {
		c = urs_flow_send_note(&w->f, sizeof(struct urs_iomap), INLINE);
		fly(w, w->conf.paired ? 2 : 1, c.copied, false);
	}
	check_chunk(w, &c, want & 1 ? want : sizeof(struct urs_iomap));
}

static void app_reads(struct world *w, struct ur_rd *r)
{
	uint32_t want = ur_rd_be24(r), got = 0, at, n;

	if (want > w->f.unread)
		want = w->f.unread;
	while (got < want) {
		n = urs_flow_peek(&w->f, got, &at);
		check(n > 0);
		check((uint64_t)at + n <=
		      (uint64_t)w->f.rbuf_base + 2 * w->f.half);
		got += n < want - got ? n : want - got;
	}
	urs_flow_consume(&w->f, got);
	w->read += got;
}

static void grants(struct world *w)
{
	struct urs_grant g;

	while (urs_flow_grant_due(&w->f)) {
		uint32_t size = urs_flow_recv_growth(&w->f);

		if (size)
			urs_flow_grow_recv(&w->f, size);
		g = urs_flow_grant(&w->f);
		if (g.with_sge)
			check(g.sge.addr >= w->f.rbuf_base &&
			      g.sge.addr + g.sge.length <=
				      w->f.rbuf_base + 2 * w->f.half);
		fly(w, w->conf.paired && g.with_sge ? 2 : 1, 0, true);
	}
}

static void completes(struct world *w)
{
	const struct posted *p;

	if (w->completed == w->posted)
		return;
	p = &w->flying[w->completed++ % IN_FLIGHT];
	if (p->ctrl)
		urs_flow_ctrl_sent(&w->f, p->requests);
	else
		urs_flow_sent(&w->f, p->requests, p->copied);
}

static void peer_says(struct world *w, struct ur_rd *r)
{
	uint32_t msg = ur_rd_be32(r);

	if (w->dead)
		return;
	switch (urs_flow_message(&w->f, msg)) {
	case URS_NEWS_DATA:
		w->told += urs_msg_arg(msg);
		break;
	case URS_NEWS_BAD:
		w->dead = true;
		break;
	case URS_NEWS_NONE:
	case URS_NEWS_SHUTDOWN:
	case URS_NEWS_DISCONNECT:
		break;
	}
}

static void peer_writes(struct world *w, struct ur_rd *r)
{
	const uint8_t *p = ur_rd_bytes(r, sizeof(struct urs_sge));

	if (p)
		memcpy(&w->target[*p % URS_SGL_LEN], p, sizeof(struct urs_sge));
}

static void balance(const struct world *w)
{
	check(w->told - w->read == w->f.unread);
	check((uint64_t)w->f.granted + w->f.unread + w->f.rbuf_free ==
	      2ull * w->f.half + w->f.rbuf_old);
	check(w->f.msgs_count <= w->conf.rq_size);
}

static void step(struct world *w, struct ur_rd *r)
{
	switch (ur_rd_u8(r) % 7) {
	case 0:
		app_writes(w, r);
		break;
	case 1:
		app_writes_direct(w, r);
		break;
	case 2:
		app_reads(w, r);
		break;
	case 3:
		grants(w);
		break;
	case 4:
		completes(w);
		break;
	case 5:
		peer_says(w, r);
		break;
	default:
		peer_writes(w, r);
		break;
	}
	balance(w);
}

static void stream(struct ur_rd *r)
{
	static struct world w;
	struct urs_hello peer;
	const uint8_t *hello;

	memset(&w, 0, sizeof(w));
	w.conf = (struct urs_flow_conf){
		.sq_size = (uint16_t)(16 + ur_rd_u8(r)),
		.rq_size = (uint16_t)(16 + ur_rd_u8(r)),
		.sbuf_size = 1 + ur_rd_be24(r) % 300000,
		.rbuf_size = 2 + ur_rd_be24(r) % 150000 * 2,
		.sbuf_most = ur_rd_be24(r) / 4,
		.rbuf_most = ur_rd_be24(r) / 8 * 2,
		.paired = ur_rd_u8(r) & 1,
	};
	hello = ur_rd_bytes(r, URS_HELLO_LEN);
	if (r->bad || urs_hello_decode(hello, URS_HELLO_LEN, &peer))
		return;
	w.msgs = calloc(w.conf.rq_size, sizeof(*w.msgs));
	check(w.msgs != NULL);
	urs_flow_init(&w.f, &w.conf, w.target, w.msgs);
	urs_flow_connect(&w.f, &peer);
	while (!r->bad && w.posted - w.completed < IN_FLIGHT - 64)
		step(&w, r);
	while (w.completed != w.posted)
		completes(&w);
	check(urs_flow_all_sent(&w.f));
	free(w.msgs);
}

static void decoders(const uint8_t *p, size_t n)
{
	uint8_t again[URS_UDP_HDR_MAX];
	struct urs_udp_hdr udp;
	struct urs_hello hello;
	union urs_addr addr;
	int len;

	urs_hello_decode(p, n, &hello);
	len = urs_dgram_hdr_decode(p, n, &addr);
	if (len >= 0) {
		check((size_t)len <= n);
		check((int)urs_dgram_hdr_encode(&addr, again) == len);
		check(!memcmp(again, p, (size_t)len));
	}
	len = urs_udp_hdr_decode(p, n, &udp);
	if (len >= 0) {
		check((size_t)len <= n);
		check((int)urs_udp_hdr_encode(&udp, again) == len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ur_rd r = ur_rd_init(data, size);

	if (ur_rd_u8(&r) & 1)
		decoders(data + 1, size ? size - 1 : 0);
	else
		stream(&r);
	return 0;
}
