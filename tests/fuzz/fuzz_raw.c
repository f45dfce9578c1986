/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packets: the input is some flows and a frame with its offloads. Checked:
 * parsing, steering, cutting and RSS stay within the frame; a flow made of the
 * packet's own fields takes it; and every packet that a flow takes passes each
 * step with a valid length.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "raw/csum.h"
#include "raw/gso.h"
#include "raw/prefilter.h"
#include "raw/toeplitz.h"

#define FLOWS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void read_flow(struct ur_flow *f, struct ur_rd *r)
{
	memset(f, 0, sizeof(*f));
	ur_list_init(&f->node);
	f->type = ur_rd_u8(r) % (UR_FLOW_TYPES * 4);
	if (f->type >= UR_FLOW_TYPES)
		f->type = UR_FLOW_NORMAL;
	f->priority = ur_rd_u8(r) % 3;
	f->dont_trap = ur_rd_u8(r) & 1;
	f->nspecs = ur_rd_u8(r) % 4;
	for (uint32_t i = 0; i < f->nspecs; i++) {
		struct ur_flow_spec *s = &f->specs[i];
		uint8_t kind = ur_rd_u8(r), at = ur_rd_u8(r);
		uint32_t n;

		s->layer = (enum ur_flow_layer)(kind % UR_LAYERS);
		s->inner = kind & 0x80;
		n = at % ur_flow_layer_len(s->layer);
		s->mask[n] = ur_rd_u8(r);
		s->val[n] = ur_rd_u8(r);
	}
}

static void deliver(void *arg, const struct ur_flow *f)
{
	uint32_t *n = arg;

	assert(!f->drop);
	(*n)++;
}

static void use_headers(const struct ur_pkt *p)
{
	struct ur_rss rss = { .fields = UR_RSS_FIELDS };

	(void)ur_csum_verify(&p->outer);
	memset(rss.key, 0x5a, sizeof(rss.key));
	(void)ur_rss_hash(&rss, p);
	rss.fields &= ~(uint64_t)UR_RSS_INNER;
	(void)ur_rss_hash(&rss, p);
}

static void cut(const struct ur_pkt *p, uint16_t size)
{
	static uint8_t buf[4096];
	uint32_t len, total = 0, n = 0;
	struct ur_pkt piece;
	struct ur_cut c;

	if (!ur_cut_init(&c, p, size) || c.hdr_len + size > sizeof(buf))
		return;
	while ((len = ur_cut_next(&c, buf, sizeof(buf)))) {
		assert(len > c.hdr_len && len <= c.hdr_len + size);
		assert(ur_pkt_parse(&piece, buf, len, 0, 0));
		total += len - c.hdr_len;
		n++;
	}
	assert(n == c.count && total == c.payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct sock_filter code[UR_PREFILTER_MAX];
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 0x0b };
	struct ur_rd r = ur_rd_init(data, len);
	struct ur_flow f[FLOWS];
	struct ur_flow_table t;
	uint16_t tpid, tci, size;
	uint32_t delivered = 0, n, left;
	struct ur_pkt p;
	uint8_t *frame;

	ur_flow_table_init(&t);
	for (int i = 0; i < FLOWS; i++) {
		read_flow(&f[i], &r);
		(void)ur_flow_add(&t, &f[i]);
	}
	tpid = ur_rd_u8(&r) & 1 ? 0x8100 : 0;
	tci = ur_rd_be16(&r);
	size = ur_rd_be16(&r);
	if (r.bad)
		return 0;
	left = (uint32_t)ur_rd_left(&r);
	/* In a buffer of exactly that size, so that an overrun is found. */
	frame = malloc(left ? left : 1);
	assert(frame);
	memcpy(frame, r.p, left);
	n = ur_prefilter(&t, mac, tci & 1, code);
	assert(n > 0 && n <= UR_PREFILTER_MAX);
	(void)ur_csum_complete(frame, left, tci, size);
	if (ur_pkt_parse(&p, frame, left, tpid, tci)) {
		use_headers(&p);
		n = ur_flow_steer(&t, &p, deliver, &delivered);
		assert(n == delivered);
		cut(&p, size);
	}
	free(frame);
	return 0;
}
