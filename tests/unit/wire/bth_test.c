/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "wire/bth.h"
#include "wire/masked.h"

struct decoded {
	struct ur_hdr h;
	const uint8_t *payload;
	size_t len;
};

static int decode(struct decoded *d, const uint8_t *pkt, size_t len)
{
	return ur_hdr_decode(&d->h, pkt, len, &d->payload, &d->len);
}

/* Encoding gives the same header bytes again. */
static void assert_back(const struct decoded *d, const uint8_t *pkt)
{
	uint8_t buf[UR_HDR_MAX];

	assert_int_equal(ur_hdr_encode(&d->h, buf), d->h.op->hdr_len);
	assert_memory_equal(buf, pkt, d->h.op->hdr_len);
}

static void write_only_with_immediate(void **state)
{
	static const uint8_t pkt[] = {
		0x0b, 0x93, 0x80, 0x01, 0xc0, 0x12, 0x34, 0x56, /* BTH */
		0x80, 0xab, 0xcd, 0xef,				/* A, PSN */
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, /* VA */
		0xca, 0xfe, 0xba, 0xbe, 0x00, 0x00, 0x00, 0x03, /* key, len */
		0x11, 0x22, 0x33, 0x44,				/* ImmDt */
		'x',  'y',  'z',  0x00, /* payload, pad */
		0xde, 0xad, 0xbe, 0xef, /* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_int_equal(d.h.op->code, UR_RC_WRITE_ONLY_IMM);
	assert_int_equal(d.h.bth.opcode, 0x0b);
	assert_true(d.h.bth.solicited);
	assert_false(d.h.bth.migreq);
	assert_int_equal(d.h.bth.pad, 1);
	assert_int_equal(d.h.bth.tver, 3);
	assert_int_equal(d.h.bth.pkey, 0x8001);
	assert_true(d.h.bth.fecn);
	assert_true(d.h.bth.becn);
	assert_int_equal(d.h.bth.dqpn, 0x123456);
	assert_true(d.h.bth.ackreq);
	assert_int_equal(d.h.bth.psn, 0xabcdef);
	assert_true(d.h.va == 0x0123456789abcdefu);
	assert_int_equal(d.h.rkey, 0xcafebabeu);
	assert_int_equal(d.h.dma_len, 3);
	assert_memory_equal(&d.h.imm_be, pkt + 28, 4);
	assert_int_equal(d.len, 3);
	assert_memory_equal(d.payload, "xyz", 3);
	assert_back(&d, pkt);
}

/* IBTA A19: the FETH precedes the RETH, its bits at the lower end. */
static void flush_of_a_region(void **state)
{
	static const uint8_t pkt[] = {
		0x1c, 0x40, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, /* BTH */
		0x80, 0x00, 0x00, 0x07,				/* A, PSN */
		0x00, 0x00, 0x00, 0x11,				/* FETH */
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, /* VA */
		0xca, 0xfe, 0xba, 0xbe, 0x00, 0x01, 0x00, 0x00, /* key, len */
		0xde, 0xad, 0xbe, 0xef,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_int_equal(d.h.op->kind, UR_OP_FLUSH);
	assert_int_equal(d.h.placement, 1);
	assert_int_equal(d.h.level, 1);
	assert_true(d.h.va == 0x0123456789abcdefu);
	assert_int_equal(d.h.rkey, 0xcafebabeu);
	assert_int_equal(d.h.dma_len, 65536);
	assert_int_equal(d.len, 0);
	assert_back(&d, pkt);
}

static void atomic_write(void **state)
{
	static const uint8_t pkt[] = {
		0x1d, 0x40, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, /* BTH */
		0x80, 0x00, 0x00, 0x07,				/* A, PSN */
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xe8, /* VA */
		0xca, 0xfe, 0xba, 0xbe, 0x00, 0x00, 0x00, 0x08, /* key, len */
		'e',  'i',  'g',  'h',	't',  'b',  'y',  't',	/* payload */
		0xde, 0xad, 0xbe, 0xef,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_int_equal(d.h.op->kind, UR_OP_ATOMIC_WRITE);
	assert_int_equal(d.h.dma_len, 8);
	assert_int_equal(d.len, 8);
	assert_memory_equal(d.payload, "eightbyt", 8);
	assert_back(&d, pkt);
}

static void ud_send_with_immediate(void **state)
{
	static const uint8_t pkt[] = {
		0x65, 0x40, 0xff, 0xff, 0x00, 0xff, 0xff, 0xff, /* BTH */
		0x00, 0x00, 0x00, 0x05,				/* PSN */
		0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, /* DETH */
		0x01, 0x02, 0x03, 0x04,				/* ImmDt */
		0x00, 0x00, 0x00, 0x00,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_true(d.h.bth.migreq);
	assert_int_equal(d.h.bth.dqpn, UR_QPN_MULTICAST);
	assert_int_equal(d.h.qkey, 0x80010000u);
	assert_int_equal(d.h.sqpn, 0x11);
	assert_int_equal(d.len, 0);
	assert_back(&d, pkt);
}

/* IBTA A14: the XRCETH is the first header after the BTH. */
static void xrc_compare_and_swap(void **state)
{
	static const uint8_t pkt[] = {
		0xb3, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x12, /* BTH */
		0x80, 0x00, 0x00, 0x01,				/* PSN */
		0x00, 0xab, 0xcd, 0xef,				/* XRCETH */
		0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x08, /* VA */
		0x00, 0x00, 0x12, 0x34,				/* R_Key */
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* swap */
		0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, /* compare */
		0x00, 0x00, 0x00, 0x00,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_int_equal(d.h.srqn, 0xabcdef);
	assert_true(d.h.va == 0x7f0000001008u);
	assert_int_equal(d.h.rkey, 0x1234);
	assert_true(d.h.swap_add == 0x1112131415161718u);
	assert_back(&d, pkt);
}

/* docs/wire/dc.md: so is the DCETH. */
static void dc_fetch_and_add(void **state)
{
	static const uint8_t pkt[] = {
		0xf4, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x12, /* BTH */
		0x80, 0x00, 0x00, 0x01,				/* PSN */
		0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, /* key */
		0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, /* session */
		0x00, 0xab, 0xcd, 0xef,				/* initiator */
		0x03, 0x00, 0x00, 0x02,				/* MTU, PSN */
		0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x08, /* VA */
		0x00, 0x00, 0x12, 0x34,				/* R_Key */
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* add */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* none */
		0x00, 0x00, 0x00, 0x00,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_true(d.h.dc_key == 0xa1a2a3a4a5a6a7a8u);
	assert_true(d.h.dc_session == 0xb1b2b3b4b5b6b7b8u);
	assert_int_equal(d.h.dc_version, 0);
	assert_int_equal(d.h.sqpn, 0xabcdef);
	assert_int_equal(d.h.dc_mtu, 3);
	assert_int_equal(d.h.dc_first, 2);
	assert_true(d.h.va == 0x7f0000001008u);
	assert_true(d.h.swap_add == 0x1112131415161718u);
	assert_back(&d, pkt);
}

static void compare_and_swap(void **state)
{
	static const uint8_t pkt[] = {
		0x13, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x12, /* BTH */
		0x80, 0x00, 0x00, 0x01,				/* PSN */
		0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x08, /* VA */
		0x00, 0x00, 0x12, 0x34,				/* R_Key */
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* swap */
		0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, /* compare */
		0x00, 0x00, 0x00, 0x00,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_true(d.h.va == 0x7f0000001008u);
	assert_int_equal(d.h.rkey, 0x1234);
	assert_true(d.h.swap_add == 0x1112131415161718u);
	assert_true(d.h.compare == 0x2122232425262728u);
	assert_back(&d, pkt);
}

static void atomic_acknowledge(void **state)
{
	static const uint8_t pkt[] = {
		0x12, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x12, /* BTH */
		0x00, 0x00, 0x00, 0x01,				/* PSN */
		0x1f, 0x00, 0x00, 0x09,				/* AETH */
		0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, /* original */
		0x00, 0x00, 0x00, 0x00,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_int_equal(d.h.syndrome, 0x1f);
	assert_int_equal(d.h.msn, 9);
	assert_true(d.h.orig == 0x3132333435363738u);
	assert_back(&d, pkt);
}

static void send_with_invalidate(void **state)
{
	static const uint8_t pkt[] = {
		0x17, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x12, /* BTH */
		0x80, 0x00, 0x00, 0x01,				/* PSN */
		0xaa, 0xbb, 0xcc, 0x01,				/* IETH */
		0x01, 0x02, 0x03, 0x04,				/* payload */
		0x00, 0x00, 0x00, 0x00,				/* ICRC */
	};
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_int_equal(d.h.inv_rkey, 0xaabbcc01u);
	assert_int_equal(d.len, 4);
	assert_back(&d, pkt);
}

/* The shortest packet of every opcode, and one byte less. */
static void too_short_of_every_opcode(void **state)
{
	for (unsigned int code = 0; code < 256; code++) {
		const struct ur_opcode *op = ur_opcode_get((uint8_t)code);
		uint8_t pkt[64] = { (uint8_t)code };
		struct decoded d;

		if (!op) {
			assert_int_equal(decode(&d, pkt, sizeof(pkt)),
					 -EPROTONOSUPPORT);
			continue;
		}
		assert_int_equal(decode(&d, pkt, op->hdr_len + 4u), 0);
		assert_int_equal(d.len, 0);
		for (size_t len = 0; len < op->hdr_len + 4u; len++)
			assert_int_equal(decode(&d, pkt, len), -EBADMSG);
	}
}

static void payload_only_where_it_may_be(void **state)
{
	for (unsigned int code = 0; code < 256; code++) {
		const struct ur_opcode *op = ur_opcode_get((uint8_t)code);
		uint8_t pkt[64] = { (uint8_t)code };
		struct decoded d;

		if (!op)
			continue;
		assert_int_equal(decode(&d, pkt, op->hdr_len + 8u),
				 op->payload ? 0 : -EBADMSG);
	}
}

static void pad_within_the_payload(void **state)
{
	uint8_t pkt[20] = { UR_RC_SEND_ONLY, 0x30 };
	struct decoded d;

	assert_int_equal(decode(&d, pkt, 20), 0);
	assert_int_equal(d.len, 1);
	assert_int_equal(decode(&d, pkt, 19), 0);
	assert_int_equal(d.len, 0);
	assert_int_equal(decode(&d, pkt, 18), -EBADMSG);
	pkt[0] = UR_RC_ACK; /* which has no payload to pad */
	assert_int_equal(decode(&d, pkt, 20), -EBADMSG);
}

static void failure_leaves_the_outputs(void **state)
{
	const uint8_t pkt[16] = { UR_RC_WRITE_ONLY };
	struct decoded d, before;

	memset(&d, 0x77, sizeof(d));
	memset(&before, 0x77, sizeof(before));
	assert_int_equal(decode(&d, pkt, sizeof(pkt)), -EBADMSG);
	assert_memory_equal(&d, &before, sizeof(d));
}

/* The example of docs/wire/roce.md: fetch and add with masks. */
static void masked_operands_are_payload(void **state)
{
	static const uint8_t pkt[] = {
		0xd4, 0x40, 0xff, 0xff, 0x00, 0x01, 0x23, 0x45, /* BTH */
		0x92, 0x65, 0x43, 0x21, 0x00, 0x00, 0x7f, 0x00,
		0x00, 0x00, 0x10, 0x00, /* RETH */
		0x00, 0x00, 0x12, 0x34, 0x00, 0x00, 0x00, 0x10,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, /* value */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* ends */
		0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x01, 0x02, 0x03, 0x04, /* ICRC */
	};
	uint8_t again[UR_MASKED_LEN_MAX];
	struct ur_masked m;
	struct decoded d;

	assert_int_equal(decode(&d, pkt, sizeof(pkt)), 0);
	assert_int_equal(d.h.op->kind, UR_OP_FETCH_ADD);
	assert_true(ur_op_is_masked(d.h.op));
	assert_true(d.h.bth.urnic && d.h.bth.masked && d.h.bth.ackreq);
	assert_int_equal(d.h.va, 0x7f0000001000);
	assert_int_equal(d.h.rkey, 0x1234);
	assert_int_equal(d.h.dma_len, 16);
	assert_int_equal(d.len, ur_masked_wire_len(false, 16));
	ur_masked_decode(&m, false, 16, d.payload);
	assert_true(m.value[0] == 1 && m.value[1] == 0);
	assert_true(m.mask[0] == 1ull << 63 && m.mask[1] == 1ull << 63);
	assert_true(m.compare[0] == 0 && m.compare_mask[1] == 0);
	ur_masked_encode(&m, false, 16, again);
	assert_memory_equal(again, d.payload, 32);
}

/* Random fields of every opcode survive encode and decode. */
static void encode_and_decode_random(void **state)
{
	uint8_t pkt[UR_HDR_MAX + 4];
	uint8_t again[UR_HDR_MAX];
	struct decoded d;
	struct ur_hdr h;
	struct ur_rng r;

	ur_rng_seed(&r, 6);
	for (unsigned int i = 0; i < 256 * 50; i++) {
		for (size_t k = 0; k < sizeof(h) / 8; k++)
			((uint64_t *)(void *)&h)[k] =
				ur_rng_next(&r) & 0x0101010101010101u;
		h.bth.opcode = (uint8_t)i;
		h.bth.pad = 0;
		if (!ur_opcode_get(h.bth.opcode))
			continue;
		h.bth.selective &= h.bth.urnic;
		h.bth.masked &= h.bth.urnic;
		h.bth.full &=
			h.bth.urnic &&
			ur_opcode_get(h.bth.opcode)->transport == UR_TP_RC;
		h.bth.has_ack &=
			h.bth.urnic &&
			ur_op_may_piggyback(ur_opcode_get(h.bth.opcode));
		h.va = ur_rng_next(&r);
		h.compare = ur_rng_next(&r);
		h.bth.psn = (uint32_t)ur_rng_next(&r) & UR_PSN_MASK;
		h.bth.dqpn = (uint32_t)ur_rng_next(&r) & UR_QPN_MASK;
		size_t len = ur_hdr_encode(&h, pkt);

		assert_int_equal(decode(&d, pkt, len + 4), 0);
		assert_int_equal(d.h.bth.psn, h.bth.psn);
		assert_int_equal(d.h.bth.dqpn, h.bth.dqpn);
		assert_int_equal(ur_hdr_encode(&d.h, again), len);
		assert_memory_equal(again, pkt, len);
	}
}

/* docs/wire/roce.md. */
static void an_acknowledgement_is_piggybacked(void **state)
{
	struct ur_hdr h = { .bth = { .opcode = UR_RC_SEND_ONLY,
				     .urnic = true,
				     .has_ack = true,
				     .ackreq = true,
				     .dqpn = 0x123456,
				     .psn = 0x654321 },
			    .syndrome = 0x1f,
			    .msn = 0xabcdef,
			    .ack_psn = 0xfedcba };
	uint8_t pkt[UR_HDR_MAX + 8] = { 0 };
	static const uint8_t ride[8] = { 0x1f, 0xab, 0xcd, 0xef,
					 0,    0xfe, 0xdc, 0xba };
	struct decoded d;

	assert_int_equal(ur_hdr_encode(&h, pkt), 20);
	assert_int_equal(pkt[8], 0xb0);
	assert_memory_equal(pkt + 12, ride, 8);
	/* With four bytes of payload and the ICRC. */
	assert_int_equal(decode(&d, pkt, 28), 0);
	assert_int_equal(d.len, 4);
	assert_ptr_equal(d.payload, pkt + 20);
	assert_int_equal(d.h.syndrome, 0x1f);
	assert_int_equal(d.h.msn, 0xabcdef);
	assert_int_equal(d.h.ack_psn, 0xfedcba);
	assert_int_equal(decode(&d, pkt, 24), 0);
	assert_int_equal(d.len, 0);
	assert_int_equal(decode(&d, pkt, 23), -EBADMSG);
	/* Without our bit these are reserved bits without meaning. */
	pkt[8] = 0xa0;
	assert_int_equal(decode(&d, pkt, 28), 0);
	assert_int_equal(d.len, 12);
	/* Nor with an opcode that cannot piggyback. */
	pkt[8] = 0xb0;
	pkt[0] = UR_RC_SEND_FIRST;
	assert_int_equal(decode(&d, pkt, 28), 0);
	assert_int_equal(d.len, 12);
}

/* docs/wire/roce.md. */
static void an_acknowledgement_has_ranges(void **state)
{
	struct ur_hdr h = { .bth = { .opcode = UR_RC_ACK,
				     .urnic = true,
				     .selective = true,
				     .psn = 0x654321 },
			    .syndrome = UR_AETH_NAK | UR_NAK_PSN_SEQ };
	uint8_t pkt[UR_HDR_MAX + 8] = { 0 };
	struct decoded d;

	assert_int_equal(ur_hdr_encode(&h, pkt), 16);
	assert_int_equal(pkt[8], 0x18);
	assert_int_equal(decode(&d, pkt, 28), 0);
	assert_true(d.h.bth.selective);
	assert_int_equal(d.len, 8);
	assert_ptr_equal(d.payload, pkt + 16);
	/* Of another adapter, without the bit, or with pad. */
	pkt[8] = 0x08;
	assert_int_equal(decode(&d, pkt, 28), -EBADMSG);
	pkt[8] = 0x10;
	assert_int_equal(decode(&d, pkt, 28), -EBADMSG);
	pkt[8] = 0x18;
	pkt[1] = 0x10;
	assert_int_equal(decode(&d, pkt, 28), -EBADMSG);
	/* No other response has them. */
	pkt[1] = 0;
	pkt[0] = UR_RC_ATOMIC_ACK;
	assert_int_equal(decode(&d, pkt, 36), -EBADMSG);
}

/* docs/wire/roce.md. */
static void a_read_request_has_a_size(void **state)
{
	struct ur_hdr h = { .bth = { .opcode = UR_RC_READ_REQUEST,
				     .urnic = true,
				     .full = true,
				     .ackreq = true,
				     .psn = 0x654321 },
			    .dma_len = 3000,
			    .full_kind = UR_FULL_READ,
			    .full_size = 1436 };
	static const uint8_t size[4] = { 0, 0, 0x05, 0x9c };
	uint8_t pkt[UR_HDR_MAX + 8] = { 0 };
	struct decoded d;

	assert_int_equal(ur_hdr_encode(&h, pkt), 32);
	assert_int_equal(pkt[8], 0x94);
	assert_memory_equal(pkt + 28, size, 4);
	assert_int_equal(decode(&d, pkt, 36), 0);
	assert_true(d.h.bth.full);
	assert_int_equal(d.h.full_size, 1436);
	assert_int_equal(d.len, 0);
	assert_int_equal(decode(&d, pkt, 35), -EBADMSG);
	assert_int_equal(decode(&d, pkt, 40), -EBADMSG);
	pkt[1] = 0x10; /* no pad */
	assert_int_equal(decode(&d, pkt, 36), -EBADMSG);
	assert_int_equal(decode(&d, pkt, 37), -EBADMSG);
	pkt[1] = 0;
	/* Without the bit of a urnic it is a READ request with a payload. */
	pkt[8] = 0x84;
	assert_int_equal(decode(&d, pkt, 36), -EBADMSG);
	assert_int_equal(decode(&d, pkt, 32), 0);
	assert_false(d.h.bth.full);
	/* Nor has one of XRC a size. */
	pkt[8] = 0x94;
	pkt[0] = UR_TP_XRC | UR_RC_READ_REQUEST;
	assert_int_equal(decode(&d, pkt, 40), -EBADMSG);
	assert_int_equal(decode(&d, pkt, 36), 0);
	assert_false(d.h.bth.full);
}

/* docs/wire/roce.md. */
static void a_probe_is_an_acknowledge_packet_with_padding(void **state)
{
	struct ur_hdr h = { .bth = { .opcode = UR_RC_ACK,
				     .urnic = true,
				     .full = true,
				     .psn = 0x654321 },
			    .syndrome = 0x1f,
			    .full_kind = UR_FULL_PROBE,
			    .full_size = 1436 };
	static const uint8_t size[4] = { 1, 0, 0x05, 0x9c };
	uint8_t pkt[UR_HDR_MAX + 8] = { 0 };
	struct decoded d;

	assert_int_equal(ur_hdr_encode(&h, pkt), 20);
	assert_int_equal(pkt[8], 0x14);
	assert_memory_equal(pkt + 16, size, 4);
	assert_int_equal(decode(&d, pkt, 44), 0);
	assert_int_equal(d.h.full_kind, UR_FULL_PROBE);
	assert_int_equal(d.h.full_size, 1436);
	assert_int_equal(d.len, 20);
	assert_ptr_equal(d.payload, pkt + 20);
	assert_int_equal(decode(&d, pkt, 23), -EBADMSG);
	pkt[1] = 0x10;
	assert_int_equal(decode(&d, pkt, 44), -EBADMSG);
	pkt[1] = 0;
	pkt[8] = 0x04;
	assert_int_equal(decode(&d, pkt, 44), -EBADMSG);
	assert_int_equal(decode(&d, pkt, 20), 0);
	/* Nor is one of XRC a probe. */
	pkt[8] = 0x14;
	pkt[0] = UR_TP_XRC | UR_RC_ACK;
	assert_int_equal(decode(&d, pkt, 44), -EBADMSG);
	/* Of other packets the bit says how their message is cut. */
	pkt[0] = UR_RC_SEND_FIRST;
	assert_int_equal(decode(&d, pkt, 44), 0);
	assert_true(d.h.bth.full);
	assert_int_equal(d.len, 28);
}

static void psn_arithmetic(void **state)
{
	assert_int_equal(ur_psn_diff(5, 3), 2);
	assert_int_equal(ur_psn_diff(3, 5), -2);
	assert_int_equal(ur_psn_diff(0, 0xffffff), 1);
	assert_int_equal(ur_psn_diff(0xffffff, 0), -1);
	assert_int_equal(ur_psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(ur_psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(ur_psn_add(0xfffffe, 3), 1);
	assert_int_equal(ur_psn_add(7, 0), 7);
}

/* IBTA table 45 in milliseconds, as the verbs manual prints it. */
static void rnr_timers(void **state)
{
	static const double ms[32] = {
		655.36, 0.01,  0.02,  0.03,   0.04,   0.06,   0.08,   0.12,
		0.16,	0.24,  0.32,  0.48,   0.64,   0.96,   1.28,   1.92,
		2.56,	3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
		40.96,	61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	};

	for (uint8_t code = 0; code < 32; code++)
		assert_int_equal(ur_rnr_timer_ns(code),
				 (uint64_t)(ms[code] * 100 + 0.5) * 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_only_with_immediate),
		cmocka_unit_test(flush_of_a_region),
		cmocka_unit_test(atomic_write),
		cmocka_unit_test(ud_send_with_immediate),
		cmocka_unit_test(compare_and_swap),
		cmocka_unit_test(xrc_compare_and_swap),
		cmocka_unit_test(dc_fetch_and_add),
		cmocka_unit_test(atomic_acknowledge),
		cmocka_unit_test(send_with_invalidate),
		cmocka_unit_test(too_short_of_every_opcode),
		cmocka_unit_test(payload_only_where_it_may_be),
		cmocka_unit_test(pad_within_the_payload),
		cmocka_unit_test(failure_leaves_the_outputs),
		cmocka_unit_test(masked_operands_are_payload),
		cmocka_unit_test(encode_and_decode_random),
		cmocka_unit_test(an_acknowledgement_is_piggybacked),
		cmocka_unit_test(an_acknowledgement_has_ranges),
		cmocka_unit_test(a_read_request_has_a_size),
		cmocka_unit_test(a_probe_is_an_acknowledge_packet_with_padding),
		cmocka_unit_test(psn_arithmetic),
		cmocka_unit_test(rnr_timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
