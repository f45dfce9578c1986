/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rdmap.h"

#include "base/bytes.h"

#define TAGGED(n) .name = n, .known = true, .tagged = true
#define ON(q, n)  .name = n, .known = true, .qn = UR_QN_##q

static const struct ur_rdmap_op ops[UR_RDMAP_OPCODES] = {
	[UR_RDMAP_WRITE] = { TAGGED("WRITE") },
	[UR_RDMAP_READ_REQUEST] = { ON(READ, "READ_REQUEST"),
				    .fixed = UR_READ_REQUEST_LEN },
	[UR_RDMAP_READ_RESPONSE] = { TAGGED("READ_RESPONSE") },
	[UR_RDMAP_SEND] = { ON(SEND, "SEND") },
	[UR_RDMAP_SEND_INV] = { ON(SEND, "SEND_INV"), .invalidate = true },
	[UR_RDMAP_SEND_SE] = { ON(SEND, "SEND_SE"), .solicited = true },
	[UR_RDMAP_SEND_SE_INV] = { ON(SEND, "SEND_SE_INV"), .solicited = true,
				   .invalidate = true },
	[UR_RDMAP_TERMINATE] = { ON(TERMINATE, "TERMINATE") },
	[UR_RDMAP_IMM] = { ON(SEND, "IMM"), .fixed = UR_IMMEDIATE_LEN },
	[UR_RDMAP_IMM_SE] = { ON(SEND, "IMM_SE"), .fixed = UR_IMMEDIATE_LEN,
			      .solicited = true },
	[UR_RDMAP_ATOMIC_REQUEST] = { ON(READ, "ATOMIC_REQUEST"),
				      .fixed = UR_ATOMIC_REQUEST_LEN },
	[UR_RDMAP_ATOMIC_RESPONSE] = { ON(ATOMIC, "ATOMIC_RESPONSE"),
				       .fixed = UR_ATOMIC_RESPONSE_LEN },
};

const struct ur_rdmap_op *ur_rdmap_op(uint8_t opcode)
{
	return &ops[opcode % UR_RDMAP_OPCODES];
}

bool ur_read_request_decode(struct ur_read_request *q, const uint8_t *buf,
			    size_t len)
{
	struct ur_rd r = ur_rd_init(buf, len);
	struct ur_read_request got = { .sink_stag = ur_rd_be32(&r) };

	got.sink_to = ur_rd_be64(&r);
	got.size = ur_rd_be32(&r);
	got.src_stag = ur_rd_be32(&r);
	got.src_to = ur_rd_be64(&r);
	if (r.bad)
		return false;
	*q = got;
	return true;
}

void ur_read_request_encode(const struct ur_read_request *q,
			    uint8_t buf[UR_READ_REQUEST_LEN])
{
	struct ur_wr w = ur_wr_init(buf, UR_READ_REQUEST_LEN);

	ur_wr_be32(&w, q->sink_stag);
	ur_wr_be64(&w, q->sink_to);
	ur_wr_be32(&w, q->size);
	ur_wr_be32(&w, q->src_stag);
	ur_wr_be64(&w, q->src_to);
}

bool ur_atomic_request_decode(struct ur_atomic_request *q, const uint8_t *buf,
			      size_t len)
{
	struct ur_rd r = ur_rd_init(buf, len);
	struct ur_atomic_request got = { .opcode = ur_rd_be32(&r) };

	got.id = ur_rd_be32(&r);
	got.stag = ur_rd_be32(&r);
	got.to = ur_rd_be64(&r);
	got.add_swap = ur_rd_be64(&r);
	got.add_swap_mask = ur_rd_be64(&r);
	got.compare = ur_rd_be64(&r);
	got.compare_mask = ur_rd_be64(&r);
	if (r.bad)
		return false;
	*q = got;
	return true;
}

void ur_atomic_request_encode(const struct ur_atomic_request *q,
			      uint8_t buf[UR_ATOMIC_REQUEST_LEN])
{
	struct ur_wr w = ur_wr_init(buf, UR_ATOMIC_REQUEST_LEN);

	ur_wr_be32(&w, q->opcode);
	ur_wr_be32(&w, q->id);
	ur_wr_be32(&w, q->stag);
	ur_wr_be64(&w, q->to);
	ur_wr_be64(&w, q->add_swap);
	ur_wr_be64(&w, q->add_swap_mask);
	ur_wr_be64(&w, q->compare);
	ur_wr_be64(&w, q->compare_mask);
}

bool ur_atomic_response_decode(struct ur_atomic_response *q, const uint8_t *buf,
			       size_t len)
{
	struct ur_rd r = ur_rd_init(buf, len);
	struct ur_atomic_response got = { .id = ur_rd_be32(&r) };

	got.orig = ur_rd_be64(&r);
	if (r.bad)
		return false;
	*q = got;
	return true;
}

void ur_atomic_response_encode(const struct ur_atomic_response *q,
			       uint8_t buf[UR_ATOMIC_RESPONSE_LEN])
{
	struct ur_wr w = ur_wr_init(buf, UR_ATOMIC_RESPONSE_LEN);

	ur_wr_be32(&w, q->id);
	ur_wr_be64(&w, q->orig);
}

/* The kernel's siw has the three bits in reverse order (0x0300 for length and
 * DDP header); bits that only siw sets are read in its order. */
static uint16_t terminate_has(uint16_t has_word)
{
	uint16_t has = has_word & (UR_TERM_HAS_LENGTH | UR_TERM_HAS_DDP |
				   UR_TERM_HAS_RDMAP);

	if (has)
		return has;
	if (has_word & 0x0100u)
		has |= UR_TERM_HAS_LENGTH;
	if (has_word & 0x0200u)
		has |= UR_TERM_HAS_DDP;
	if (has_word & 0x0400u)
		has |= UR_TERM_HAS_RDMAP;
	return has;
}

bool ur_terminate_decode(struct ur_terminate *t, const uint8_t *buf, size_t len)
{
	struct ur_rd r = ur_rd_init(buf, len);
	uint8_t kind = ur_rd_u8(&r);
	struct ur_terminate got = { .layer = kind >> 4, .etype = kind & 0x0f };
	uint16_t has;

	got.code = ur_rd_u8(&r);
	got.has_word = ur_rd_be16(&r);
	has = terminate_has(got.has_word);
	if (has & UR_TERM_HAS_LENGTH)
		got.segment_len = ur_rd_be16(&r);
	/* The header gives the kind and so the length. */
	if ((has & UR_TERM_HAS_DDP) && ur_rd_left(&r)) {
		got.ddp_len = (uint16_t)ur_ddp_hdr_len(r.p[0] & 0x80u);
		got.ddp = ur_rd_bytes(&r, got.ddp_len);
	}
	if ((has & UR_TERM_HAS_RDMAP) && !r.bad) {
		got.rdmap_len = (uint16_t)ur_rd_left(&r);
		got.rdmap = r.p;
	}
	if (r.bad || got.rdmap_len > UR_ATOMIC_REQUEST_LEN)
		return false;
	*t = got;
	return true;
}

uint32_t ur_terminate_encode(const struct ur_terminate *t,
			     uint8_t buf[UR_TERM_MAX])
{
	struct ur_wr w = ur_wr_init(buf, UR_TERM_MAX);

	ur_wr_u8(&w, (uint8_t)(t->layer << 4 | t->etype));
	ur_wr_u8(&w, t->code);
	ur_wr_be16(&w, t->has_word);
	if (terminate_has(t->has_word) & UR_TERM_HAS_LENGTH)
		ur_wr_be16(&w, t->segment_len);
	if (t->ddp)
		ur_wr_copy(&w, t->ddp, t->ddp_len);
	if (t->rdmap)
		ur_wr_copy(&w, t->rdmap, t->rdmap_len);
	return (uint32_t)(w.p - buf);
}
