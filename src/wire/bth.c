/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/bth.h"

#include <assert.h>
#include <errno.h>

#include "base/bytes.h"

/* IBTA 9.2, figure 98: bytes 0 to 11. */
static void get_bth(struct ur_rd *r, struct ur_bth *b)
{
	uint8_t flags;

	b->opcode = ur_rd_u8(r);
	flags = ur_rd_u8(r);
	b->solicited = flags & 0x80;
	b->migreq = flags & 0x40;
	b->pad = (flags >> 4) & 3;
	b->tver = flags & 0xf;
	b->pkey = ur_rd_be16(r);
	flags = ur_rd_u8(r);
	b->fecn = flags & 0x80;
	b->becn = flags & 0x40;
	b->dqpn = ur_rd_be24(r);
	flags = ur_rd_u8(r);
	b->ackreq = flags & 0x80;
	b->urnic = flags & 0x40;
	b->rides = flags & 0x20;
	b->psn = ur_rd_be24(r);
}

static void put_bth(struct ur_wr *w, const struct ur_bth *b)
{
	ur_wr_u8(w, b->opcode);
	ur_wr_u8(w, (uint8_t)(b->solicited << 7 | b->migreq << 6 |
			      (b->pad & 3) << 4 | (b->tver & 0xf)));
	ur_wr_be16(w, b->pkey);
	ur_wr_u8(w, (uint8_t)(b->fecn << 7 | b->becn << 6));
	ur_wr_be24(w, b->dqpn);
	ur_wr_u8(w, (uint8_t)(b->ackreq << 7 | b->urnic << 6 | b->rides << 5));
	ur_wr_be24(w, b->psn);
}

static uint32_t get_raw32(struct ur_rd *r)
{
	const uint8_t *p = ur_rd_bytes(r, 4);
	uint32_t v = 0;

	if (p)
		memcpy(&v, p, sizeof(v));
	return v;
}

static void put_raw32(struct ur_wr *w, uint32_t v)
{
	uint8_t *p = ur_wr_bytes(w, 4);

	if (p)
		memcpy(p, &v, sizeof(v));
}

/* IBTA 9.3: each header of the set, in the order in which they stand. */
static void get_extended(struct ur_rd *r, struct ur_hdr *h, unsigned int set)
{
	if (set & UR_HDR_XRCETH) {
		ur_rd_u8(r);
		h->srqn = ur_rd_be24(r);
	}
	if (set & UR_HDR_FETH) {
		uint32_t bits = ur_rd_be32(r);

		h->placement = bits & 0xf;
		h->level = bits >> 4 & 0x3;
	}
	if (set & UR_HDR_DETH) {
		h->qkey = ur_rd_be32(r);
		ur_rd_u8(r);
		h->sqpn = ur_rd_be24(r);
	}
	if (set & (UR_HDR_RETH | UR_HDR_ATOMIC)) {
		h->va = ur_rd_be64(r);
		h->rkey = ur_rd_be32(r);
	}
	if (set & UR_HDR_RETH)
		h->dma_len = ur_rd_be32(r);
	if (set & UR_HDR_ATOMIC) {
		h->swap_add = ur_rd_be64(r);
		h->compare = ur_rd_be64(r);
	}
	if (set & UR_HDR_AETH) {
		h->syndrome = ur_rd_u8(r);
		h->msn = ur_rd_be24(r);
	}
	if (set & UR_HDR_ATOMICACK)
		h->orig = ur_rd_be64(r);
	if (set & UR_HDR_IMM)
		h->imm_be = get_raw32(r);
	if (set & UR_HDR_IETH)
		h->inv_rkey = ur_rd_be32(r);
}

static void put_extended(struct ur_wr *w, const struct ur_hdr *h,
			 unsigned int set)
{
	if (set & UR_HDR_XRCETH) {
		ur_wr_u8(w, 0);
		ur_wr_be24(w, h->srqn);
	}
	if (set & UR_HDR_FETH)
		ur_wr_be32(w, (h->placement & 0xfu) | (h->level & 0x3u) << 4);
	if (set & UR_HDR_DETH) {
		ur_wr_be32(w, h->qkey);
		ur_wr_u8(w, 0);
		ur_wr_be24(w, h->sqpn);
	}
	if (set & (UR_HDR_RETH | UR_HDR_ATOMIC)) {
		ur_wr_be64(w, h->va);
		ur_wr_be32(w, h->rkey);
	}
	if (set & UR_HDR_RETH)
		ur_wr_be32(w, h->dma_len);
	if (set & UR_HDR_ATOMIC) {
		ur_wr_be64(w, h->swap_add);
		ur_wr_be64(w, h->compare);
	}
	if (set & UR_HDR_AETH) {
		ur_wr_u8(w, h->syndrome);
		ur_wr_be24(w, h->msn);
	}
	if (set & UR_HDR_ATOMICACK)
		ur_wr_be64(w, h->orig);
	if (set & UR_HDR_IMM)
		put_raw32(w, h->imm_be);
	if (set & UR_HDR_IETH)
		ur_wr_be32(w, h->inv_rkey);
}

/* docs/wire/roce.md: an AETH and the PSN it is for. */
static void get_ride(struct ur_rd *r, struct ur_hdr *h)
{
	h->syndrome = ur_rd_u8(r);
	h->msn = ur_rd_be24(r);
	ur_rd_u8(r);
	h->ack_psn = ur_rd_be24(r);
}

static void put_ride(struct ur_wr *w, const struct ur_hdr *h)
{
	ur_wr_u8(w, h->syndrome);
	ur_wr_be24(w, h->msn);
	ur_wr_u8(w, 0);
	ur_wr_be24(w, h->ack_psn);
}

int ur_hdr_decode(struct ur_hdr *h, const uint8_t *pkt, size_t len,
		  const uint8_t **payload, size_t *payload_len)
{
	struct ur_rd r = ur_rd_init(pkt, len);
	const struct ur_opcode *op;
	struct ur_bth bth;
	size_t hdr_len, trailer;

	get_bth(&r, &bth);
	if (r.bad)
		return -EBADMSG;
	op = ur_opcode_get(bth.opcode);
	if (!op)
		return -EPROTONOSUPPORT;
	bth.rides = bth.urnic && bth.rides && ur_may_carry(op);
	hdr_len = op->hdr_len + (bth.rides ? UR_RIDE_LEN : 0);
	trailer = bth.pad + UR_ICRC_LEN;
	if (len < hdr_len + trailer)
		return -EBADMSG;
	if (!op->payload && len != op->hdr_len + UR_ICRC_LEN)
		return -EBADMSG;
	h->op = op;
	h->bth = bth;
	get_extended(&r, h, op->headers);
	if (bth.rides)
		get_ride(&r, h);
	assert(!r.bad);
	*payload = r.p;
	*payload_len = len - hdr_len - trailer;
	return 0;
}

size_t ur_hdr_encode(const struct ur_hdr *h, uint8_t *buf)
{
	const struct ur_opcode *op = ur_opcode_get(h->bth.opcode);
	struct ur_wr w = ur_wr_init(buf, UR_HDR_MAX);

	assert(op);
	put_bth(&w, &h->bth);
	put_extended(&w, h, op->headers);
	if (h->bth.rides)
		put_ride(&w, h);
	assert(!w.bad);
	return op->hdr_len + (h->bth.rides ? UR_RIDE_LEN : 0);
}

/* IBTA 9.7.5.2.8, table 45, in units of 10 us; code 0 is the longest. */
static const uint32_t rnr_timer[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t ur_rnr_timer_ns(uint8_t code)
{
	return rnr_timer[code & 0x1f] * UINT64_C(10000);
}
