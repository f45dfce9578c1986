/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "wire/opcode.h"

/* Typed from IBTA table 38 and the header lengths of 9.3; 0: no such row. */
static const uint8_t hdr_len[256] = {
	/* RC: SEND */
	12,
	12,
	12,
	16,
	12,
	16,
	/* RDMA WRITE */
	28,
	12,
	12,
	16,
	28,
	32,
	/* READ request and responses, ACK, atomic ACK, atomics */
	28,
	16,
	12,
	16,
	16,
	16,
	24,
	40,
	40,
	/* 0x15 is reserved; SEND with invalidate */
	0,
	16,
	16,
	/* FLUSH, ATOMIC WRITE (A19) */
	[0x1c] = 32,
	28,
	/* UC: SEND, RDMA WRITE */
	[0x20] = 12,
	12,
	12,
	16,
	12,
	16,
	28,
	12,
	12,
	16,
	28,
	32,
	/* UD */
	[0x64] = 20,
	24,
	/* CNP */
	[0x81] = 12,
	/* XRC: as RC with 4 bytes more in every request (A14) */
	[0xa0] = 16,
	16,
	16,
	20,
	16,
	20,
	32,
	16,
	16,
	20,
	32,
	36,
	32,
	16,
	12,
	16,
	16,
	16,
	24,
	44,
	44,
	[0xb6] = 20,
	20,
	/* docs/wire/roce.md: AETH, and RETH twice */
	[0xd2] = 16,
	28,
	28,
	/* docs/wire/dc.md: as RC with 24 bytes more in every request */
	[0xe0] = 36,
	36,
	36,
	40,
	36,
	40,
	52,
	36,
	36,
	40,
	52,
	56,
	52,
	16,
	12,
	16,
	16,
	16,
	24,
	64,
	64,
};

static void rows_and_lengths(void **state)
{
	for (unsigned int code = 0; code < 256; code++) {
		const struct ur_opcode *op = ur_opcode_get((uint8_t)code);

		if (!hdr_len[code]) {
			assert_null(op);
			continue;
		}
		assert_non_null(op);
		assert_int_equal(op->code, code);
		assert_int_equal(op->hdr_len, hdr_len[code]);
		assert_true(op->hdr_len <= UR_HDR_MAX);
		assert_int_equal(op->transport, (code & 0xe0) == 0xc0
							? UR_TP_RC
							: code & 0xe0);
	}
}

static bool one_of(unsigned int code, const uint8_t *set, size_t n)
{
	return memchr(set, (int)code, n) != NULL;
}

static void receive_requests(void **state)
{
	static const uint8_t eats[] = {
		0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x09, 0x0b, 0x16, 0x17,
		0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x29, 0x2b, 0x64, 0x65,
		0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa9, 0xab, 0xb6, 0xb7,
		0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe9, 0xeb
	};
	static const uint8_t empty[] = { 0x0c, 0x11, 0x12, 0x13, 0x14, 0x1c,
					 0xac, 0xb1, 0xb2, 0xb3, 0xb4, 0xec,
					 0xf1, 0xf2, 0xf3, 0xf4 };

	for (unsigned int code = 0; code < 256; code++) {
		const struct ur_opcode *op = ur_opcode_get((uint8_t)code);

		if (!op)
			continue;
		assert_int_equal(op->consumes_rwqe,
				 one_of(code, eats, sizeof(eats)));
		assert_int_equal(op->payload,
				 !one_of(code, empty, sizeof(empty)));
	}
}

static void positions(void **state)
{
	static const uint8_t first[] = { 0x00, 0x06, 0x0d, 0x20, 0x26, 0xa0,
					 0xa6, 0xad, 0xe0, 0xe6, 0xed };
	static const uint8_t middle[] = { 0x01, 0x07, 0x0e, 0x21, 0x27, 0xa1,
					  0xa7, 0xae, 0xe1, 0xe7, 0xee };
	static const uint8_t last[] = { 0x02, 0x03, 0x08, 0x09, 0x0f, 0x16,
					0x22, 0x23, 0x28, 0x29, 0xa2, 0xa3,
					0xa8, 0xa9, 0xaf, 0xb6, 0xe2, 0xe3,
					0xe8, 0xe9, 0xef };

	for (unsigned int code = 0; code < 256; code++) {
		const struct ur_opcode *op = ur_opcode_get((uint8_t)code);
		unsigned int want = UR_POS_ONLY;

		if (!op)
			continue;
		if (one_of(code, first, sizeof(first)))
			want = UR_POS_FIRST;
		else if (one_of(code, middle, sizeof(middle)))
			want = UR_POS_MIDDLE;
		else if (one_of(code, last, sizeof(last)))
			want = UR_POS_LAST;
		assert_int_equal(op->position, want);
	}
}

static void names_are_unique(void **state)
{
	for (unsigned int a = 0; a < 256; a++)
		for (unsigned int b = 0; b < a; b++) {
			const struct ur_opcode *x = ur_opcode_get((uint8_t)a);
			const struct ur_opcode *y = ur_opcode_get((uint8_t)b);

			if (x && y)
				assert_string_not_equal(x->name, y->name);
		}
	assert_string_equal(ur_opcode_get(0x0b)->name,
			    "RC RDMA WRITE Only with Immediate");
}

static void pick(void **state)
{
	const enum ur_op_kind send = UR_OP_SEND;
	const enum ur_op_kind write = UR_OP_WRITE;

	assert_int_equal(ur_opcode_pick(UR_TP_RC, send, UR_POS_FIRST, 0), 0x00);
	assert_int_equal(ur_opcode_pick(UR_TP_RC, send, UR_POS_MIDDLE, 0), 1);
	assert_int_equal(ur_opcode_pick(UR_TP_RC, send, UR_POS_LAST, 0), 0x02);
	assert_int_equal(
		ur_opcode_pick(UR_TP_RC, send, UR_POS_LAST, UR_HDR_IMM), 0x03);
	assert_int_equal(
		ur_opcode_pick(UR_TP_RC, send, UR_POS_LAST, UR_HDR_IETH), 0x16);
	assert_int_equal(
		ur_opcode_pick(UR_TP_RC, send, UR_POS_ONLY, UR_HDR_IETH), 0x17);
	/* the last packet's header is ignored for earlier positions */
	assert_int_equal(ur_opcode_pick(UR_TP_RC, send, UR_POS_FIRST,
					UR_HDR_IETH),
			 0x00);
	assert_int_equal(ur_opcode_pick(UR_TP_UC, send, UR_POS_MIDDLE,
					UR_HDR_IMM),
			 0x21);
	assert_int_equal(
		ur_opcode_pick(UR_TP_UC, write, UR_POS_ONLY, UR_HDR_IMM), 0x2b);
	assert_int_equal(ur_opcode_pick(UR_TP_RC, write, UR_POS_FIRST, 0),
			 0x06);
	assert_int_equal(ur_opcode_pick(UR_TP_UC, write, UR_POS_LAST, 0), 0x28);
	assert_int_equal(ur_opcode_pick(UR_TP_UD, send, UR_POS_ONLY, 0), 0x64);
	assert_int_equal(
		ur_opcode_pick(UR_TP_UD, send, UR_POS_ONLY, UR_HDR_IMM), 0x65);
}

/* Every SEND and WRITE row is found by its own attributes. */
static void pick_inverts_the_table(void **state)
{
	for (unsigned int code = 0; code < 256; code++) {
		const struct ur_opcode *op = ur_opcode_get((uint8_t)code);

		if (!op || (op->kind != UR_OP_SEND && op->kind != UR_OP_WRITE))
			continue;
		assert_int_equal(ur_opcode_pick(op->transport, op->kind,
						op->position,
						op->headers & (UR_HDR_IMM |
							       UR_HDR_IETH)),
				 code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_and_lengths),
		cmocka_unit_test(receive_requests),
		cmocka_unit_test(positions),
		cmocka_unit_test(names_are_unique),
		cmocka_unit_test(pick),
		cmocka_unit_test(pick_inverts_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
