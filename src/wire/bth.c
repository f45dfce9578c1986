/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/bth.h"

#include <assert.h>
#include <errno.h>

#include "base/bytes.h"

/* docs/wire/roce.md: bits of byte 8, each only with that of a urnic. */
#define HAS_ACK 0x30u
#define FULL	0x14u
#define MASKED	0x12u

/*
 * IBTA 9.2, figure 98: bytes 0 to 11. Every packet has them, so they are read
 * with one bounds check, as are those of a RETH below: a check for each field
 * would cost more than the field.
 */
static void get_bth(const uint8_t *p, struct ur_bth *b)
{
	b->opcode = p[0];
	b->solicited = p[1] & 0x80;
	b->migreq = p[1] & 0x40;
	b->pad = (p[1] >> 4) & 3;
	b->tver = p[1] & 0xf;
	b->pkey = ur_be16_at(p + 2);
	b->fecn = p[4] & 0x80;
	b->becn = p[4] & 0x40;
	b->dqpn = ur_be24_at(p + 5);
	b->ackreq = p[8] & 0x80;
	b->urnic = p[8] & 0x10;
	b->selective = (p[8] & 0x18) == 0x18;
	b->full = (p[8] & FULL) == FULL;
	b->masked = (p[8] & MASKED) == MASKED;
	b->psn = ur_be24_at(p + 9);
}

static void put_bth(uint8_t *p, const struct ur_bth *b)
{
	p[0] = b->opcode;
	p[1] = (uint8_t)(b->solicited << 7 | b->migreq << 6 |
			 (b->pad & 3) << 4 | (b->tver & 0xf));
	p[2] = (uint8_t)(b->pkey >> 8);
	p[3] = (uint8_t)b->pkey;
	p[4] = (uint8_t)(b->fecn << 7 | b->becn << 6);
	ur_put_be24(p + 5, b->dqpn);
	p[8] = (uint8_t)(b->ackreq << 7 | b->has_ack << 5 | b->urnic << 4 |
			 b->selective << 3 | b->full << 2 | b->masked << 1);
	ur_put_be24(p + 9, b->psn);
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

static void get_reth(struct ur_rd *r, struct ur_hdr *h)
{
	const uint8_t *p = ur_rd_bytes(r, UR_RETH_LEN);

	if (!p)
		return;
	h->va = ur_be64_at(p);
	h->rkey = ur_be32_at(p + 8);
	h->dma_len = ur_be32_at(p + 12);
}

static void get_dceth(struct ur_rd *r, struct ur_hdr *h)
{
	h->dc_key = ur_rd_be64(r);
	h->dc_session = ur_rd_be64(r);
	h->dc_version = ur_rd_u8(r);
	h->sqpn = ur_rd_be24(r);
	h->dc_mtu = ur_rd_u8(r);
	h->dc_first = ur_rd_be24(r);
}

/* IBTA 9.3: each header of the set, in wire order. */
static void get_extended(struct ur_rd *r, struct ur_hdr *h, unsigned int set)
{
	if (set & UR_HDR_DCETH)
		get_dceth(r, h);
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
	if (set & UR_HDR_RETH)
		get_reth(r, h);
	if (set & UR_HDR_ATOMIC) {
		h->va = ur_rd_be64(r);
		h->rkey = ur_rd_be32(r);
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

static void put_reth(struct ur_wr *w, const struct ur_hdr *h)
{
	uint8_t *p = ur_wr_bytes(w, UR_RETH_LEN);

	if (!p)
		return;
	ur_put_be64(p, h->va);
	ur_put_be32(p + 8, h->rkey);
	ur_put_be32(p + 12, h->dma_len);
}

static void put_dceth(struct ur_wr *w, const struct ur_hdr *h)
{
	ur_wr_be64(w, h->dc_key);
	ur_wr_be64(w, h->dc_session);
	ur_wr_u8(w, h->dc_version);
	ur_wr_be24(w, h->sqpn);
	ur_wr_u8(w, h->dc_mtu);
	ur_wr_be24(w, h->dc_first);
}

static void put_extended(struct ur_wr *w, const struct ur_hdr *h,
			 unsigned int set)
{
	if (set & UR_HDR_DCETH)
		put_dceth(w, h);
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
	if (set & UR_HDR_RETH)
		put_reth(w, h);
	if (set & UR_HDR_ATOMIC) {
		ur_wr_be64(w, h->va);
		ur_wr_be32(w, h->rkey);
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

/* docs/wire/roce.md: an AETH and the PSN that it acknowledges. */
static void get_ack(struct ur_rd *r, struct ur_hdr *h)
{
	h->syndrome = ur_rd_u8(r);
	h->msn = ur_rd_be24(r);
	ur_rd_u8(r);
	h->ack_psn = ur_rd_be24(r);
}

static void put_ack(struct ur_wr *w, const struct ur_hdr *h)
{
	ur_wr_u8(w, h->syndrome);
	ur_wr_be24(w, h->msn);
	ur_wr_u8(w, 0);
	ur_wr_be24(w, h->ack_psn);
}

static void get_size(struct ur_rd *r, struct ur_hdr *h)
{
	h->full_kind = ur_rd_u8(r);
	ur_rd_u8(r);
	h->full_size = ur_rd_be16(r);
}

static void put_size(struct ur_wr *w, const struct ur_hdr *h)
{
	ur_wr_u8(w, h->full_kind);
	ur_wr_u8(w, 0);
	ur_wr_be16(w, h->full_size);
}

/* An acknowledge packet of a urnic that lists what it has received, or that is
 * as long as full packets. */
static bool has_body(const struct ur_opcode *op, const uint8_t *p,
		     bool has_size)
{
	return op->kind == UR_OP_ACK && ((p[8] & 0x18) == 0x18 || has_size) &&
	       !(p[1] >> 4 & 3);
}

int ur_hdr_decode(struct ur_hdr *h, const uint8_t *pkt, size_t len,
		  const uint8_t **payload, size_t *payload_len)
{
	struct ur_rd r = ur_rd_init(pkt, len);
	const uint8_t *p = ur_rd_bytes(&r, UR_BTH_LEN);
	const struct ur_opcode *op;
	size_t hdr_len, trailer;
	bool has_ack, has_size;

	if (!p)
		return -EBADMSG;
	op = ur_opcode_get(p[0]);
	if (!op)
		return -EPROTONOSUPPORT;
	has_ack = (p[8] & HAS_ACK) == HAS_ACK && ur_op_may_piggyback(op);
	has_size = ur_op_has_size(op, (p[8] & FULL) == FULL);
	hdr_len = op->hdr_len + (has_ack ? UR_PIGGYBACK_LEN : 0) +
		  (has_size ? UR_FULL_LEN : 0);
	trailer = (p[1] >> 4 & 3) + UR_ICRC_LEN;
	if (len < hdr_len + trailer)
		return -EBADMSG;
	if (!op->payload && len != hdr_len + UR_ICRC_LEN &&
	    !has_body(op, p, has_size))
		return -EBADMSG;
	h->op = op;
	get_bth(p, &h->bth);
	h->bth.has_ack = has_ack;
	h->bth.full &= op->transport == UR_TP_RC;
	if (op->headers)
		get_extended(&r, h, op->headers);
	if (has_ack)
		get_ack(&r, h);
	if (has_size)
		get_size(&r, h);
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
	put_bth(ur_wr_bytes(&w, UR_BTH_LEN), &h->bth);
	if (op->headers)
		put_extended(&w, h, op->headers);
	if (h->bth.has_ack)
		put_ack(&w, h);
	if (ur_op_has_size(op, h->bth.full))
		put_size(&w, h);
	assert(!w.bad);
	return op->hdr_len + ur_hdr_extra(h);
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
