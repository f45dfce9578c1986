/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rdmap.h"

#include "unit.h"

static void counting(uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(i + 1);
}

/* RFC 5040, 4.3 and RFC 7306, 4: header and queue of each opcode. */
static void opcode_table(void **state)
{
	static const struct {
		bool tagged;
		uint8_t qn, fixed;
	} want[] = {
		{ true, 0, 0 },	 { false, 1, 28 }, { true, 0, 0 },
		{ false, 0, 0 }, { false, 0, 0 },  { false, 0, 0 },
		{ false, 0, 0 }, { false, 2, 0 },  { false, 0, 8 },
		{ false, 0, 8 }, { false, 1, 52 }, { false, 3, 12 },
	};

	for (uint8_t i = 0; i < 16; i++) {
		const struct ur_rdmap_op *op = ur_rdmap_op(i);

		assert_int_equal(op->known, i < 12);
		if (i >= 12)
			continue;
		assert_int_equal(op->tagged, want[i].tagged);
		assert_int_equal(op->qn, want[i].qn);
		assert_int_equal(op->fixed, want[i].fixed);
		assert_int_equal(op->solicited, i == 5 || i == 6 || i == 9);
		assert_int_equal(op->invalidate, i == 4 || i == 6);
	}
	assert_int_equal(ur_rdmap_control(UR_RDMAP_SEND_SE_INV), 0x46);
	assert_int_equal(ur_rdmap_control_version(0x46), 1);
	assert_int_equal(ur_rdmap_control_opcode(0x7b), 11);
}

static void read_request(void **state)
{
	uint8_t in[UR_READ_REQUEST_LEN], out[UR_READ_REQUEST_LEN];
	struct ur_read_request r;

	counting(in, sizeof(in));
	assert_true(ur_read_request_decode(&r, in, sizeof(in)));
	assert_int_equal(r.sink_stag, 0x01020304);
	assert_true(r.sink_to == 0x05060708090a0b0cu);
	assert_int_equal(r.size, 0x0d0e0f10);
	assert_int_equal(r.src_stag, 0x11121314);
	assert_true(r.src_to == 0x15161718191a1b1cu);
	ur_read_request_encode(&r, out);
	assert_memory_equal(in, out, sizeof(in));
	assert_false(ur_read_request_decode(&r, in, sizeof(in) - 1));
}

static void atomic_request(void **state)
{
	uint8_t in[UR_ATOMIC_REQUEST_LEN], out[UR_ATOMIC_REQUEST_LEN];
	struct ur_atomic_request r;

	counting(in, sizeof(in));
	assert_true(ur_atomic_request_decode(&r, in, sizeof(in)));
	assert_int_equal(r.opcode, 0x01020304);
	assert_int_equal(r.id, 0x05060708);
	assert_int_equal(r.stag, 0x090a0b0c);
	assert_true(r.to == 0x0d0e0f1011121314u);
	assert_true(r.add_swap == 0x15161718191a1b1cu);
	assert_true(r.add_swap_mask == 0x1d1e1f2021222324u);
	assert_true(r.compare == 0x25262728292a2b2cu);
	assert_true(r.compare_mask == 0x2d2e2f3031323334u);
	ur_atomic_request_encode(&r, out);
	assert_memory_equal(in, out, sizeof(in));
	assert_false(ur_atomic_request_decode(&r, in, sizeof(in) - 1));
}

static void atomic_response(void **state)
{
	uint8_t in[UR_ATOMIC_RESPONSE_LEN], out[UR_ATOMIC_RESPONSE_LEN];
	struct ur_atomic_response r;

	counting(in, sizeof(in));
	assert_true(ur_atomic_response_decode(&r, in, sizeof(in)));
	assert_int_equal(r.id, 0x01020304);
	assert_true(r.orig == 0x05060708090a0b0cu);
	ur_atomic_response_encode(&r, out);
	assert_memory_equal(in, out, sizeof(in));
	assert_false(ur_atomic_response_decode(&r, in, sizeof(in) - 1));
}

/* As the kernel's siw sent it (siw_cm_bad_rkey), its bits reversed. */
static const uint8_t siw_term[] = { 0x11, 0x00, 0x03, 0x00, 0x00, 0x40, 0xc1,
				    0x40, 0x00, 0xde, 0xad, 0x00, 0x00, 0x00,
				    0x00, 0x00, 0x00, 0x01, 0x1b, 0x30 };

static void terminate_of_siw(void **state)
{
	uint8_t out[UR_TERM_MAX];
	struct ur_terminate t;

	assert_true(ur_terminate_decode(&t, siw_term, sizeof(siw_term)));
	assert_int_equal(t.layer, UR_TERM_DDP);
	assert_int_equal(t.etype, UR_TERM_DDP_TAGGED);
	assert_int_equal(t.code, UR_TERM_T_INVALID_STAG);
	assert_int_equal(t.segment_len, 64);
	assert_ptr_equal(t.ddp, siw_term + 6);
	assert_int_equal(t.ddp_len, 14);
	assert_null(t.rdmap);
	assert_int_equal(ur_terminate_encode(&t, out), sizeof(siw_term));
	assert_memory_equal(out, siw_term, sizeof(siw_term));
}

static void terminate_of_the_rfc(void **state)
{
	uint8_t buf[UR_TERM_LEN + 2 + 18 + 28] = { 0x02, 0x06, 0xe0, 0x00,
						   0x00, 0x2e, 0x41, 0x41 };
	uint8_t out[UR_TERM_MAX];
	struct ur_terminate t;

	assert_true(ur_terminate_decode(&t, buf, sizeof(buf)));
	assert_int_equal(t.layer, UR_TERM_RDMAP);
	assert_int_equal(t.etype, UR_TERM_OPERATION);
	assert_int_equal(t.code, UR_TERM_OPCODE);
	assert_int_equal(t.segment_len, 46);
	assert_int_equal(t.ddp_len, 18);
	assert_int_equal(t.rdmap_len, 28);
	assert_int_equal(ur_terminate_encode(&t, out), sizeof(buf));
	assert_memory_equal(out, buf, sizeof(buf));
}

static void short_terminates(void **state)
{
	const uint8_t plain[] = { 0x20, 0x02, 0x00, 0x00 };
	struct ur_terminate t;

	assert_true(ur_terminate_decode(&t, plain, sizeof(plain)));
	assert_int_equal(t.layer, UR_TERM_MPA);
	assert_null(t.ddp);
	for (size_t len = 0; len < sizeof(plain); len++)
		assert_false(ur_terminate_decode(&t, plain, len));
	/* The length is present, the DDP header truncated. */
	for (size_t len = 7; len < sizeof(siw_term); len++)
		assert_false(ur_terminate_decode(&t, siw_term, len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcode_table),
		cmocka_unit_test(read_request),
		cmocka_unit_test(atomic_request),
		cmocka_unit_test(atomic_response),
		cmocka_unit_test(terminate_of_siw),
		cmocka_unit_test(terminate_of_the_rfc),
		cmocka_unit_test(short_terminates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
