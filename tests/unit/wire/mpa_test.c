/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mpa.h"

#include <string.h>

#include "base/crc.h"
#include "unit.h"

/* As the kernel's siw sent it: revision 2, CRC, IRD and ORD 128. */
static const uint8_t request[] = "MPA ID Req Frame\x50\x02\x00\x04\x00\x80\x00"
				 "\x80";
#define REQUEST_LEN (sizeof(request) - 1)

static void request_decodes(void **state)
{
	struct ur_mpa_frame f;

	assert_true(ur_mpa_frame_decode(&f, request, UR_MPA_HDR_LEN));
	assert_int_equal(f.kind, UR_MPA_REQUEST);
	assert_int_equal(f.flags, UR_MPA_CRC | UR_MPA_ENHANCED);
	assert_int_equal(f.rev, 2);
	assert_int_equal(f.pd_len, 4);
	assert_true(ur_mpa_frame_decode_v2(&f, request + UR_MPA_HDR_LEN, 4));
	assert_int_equal(f.ird_word, 0x80);
	assert_int_equal(f.ord_word, 0x80);
}

static void frames_encode(void **state)
{
	struct ur_mpa_frame f = { .kind = UR_MPA_REQUEST,
				  .flags = UR_MPA_CRC | UR_MPA_ENHANCED,
				  .rev = 2,
				  .pd_len = 4,
				  .ird_word = 0x80,
				  .ord_word = 0x80 };
	uint8_t buf[UR_MPA_HDR_LEN + UR_MPA_V2_LEN];

	assert_int_equal(ur_mpa_frame_encode(&f, buf), REQUEST_LEN);
	assert_memory_equal(buf, request, REQUEST_LEN);
	f.kind = UR_MPA_REPLY_FRAME;
	f.flags = UR_MPA_REJECT;
	f.rev = 1;
	f.pd_len = 0x123;
	assert_int_equal(ur_mpa_frame_encode(&f, buf), UR_MPA_HDR_LEN);
	assert_memory_equal(buf, "MPA ID Rep Frame\x20\x01\x01\x23", 20);
}

static void bad_frames_are_refused(void **state)
{
	struct ur_mpa_frame f;
	uint8_t buf[UR_MPA_HDR_LEN];

	for (size_t len = 0; len < UR_MPA_HDR_LEN; len++)
		assert_false(ur_mpa_frame_decode(&f, request, len));
	for (size_t i = 0; i < 16; i++) {
		memcpy(buf, request, sizeof(buf));
		buf[i] ^= 0x20;
		assert_false(ur_mpa_frame_decode(&f, buf, sizeof(buf)));
	}
	memcpy(buf, request, sizeof(buf));
	buf[18] = UR_MPA_PD_MAX >> 8;
	buf[19] = 0;
	assert_true(ur_mpa_frame_decode(&f, buf, sizeof(buf)));
	buf[19] = 1; /* above the maximum */
	assert_false(ur_mpa_frame_decode(&f, buf, sizeof(buf)));
	for (size_t len = 0; len < UR_MPA_V2_LEN; len++)
		assert_false(ur_mpa_frame_decode_v2(&f, request + 20, len));
}

static void lengths(void **state)
{
	static const struct {
		uint32_t ulpdu, pad, total;
	} table[] = { { 0, 2, 8 },	  { 1, 1, 8 },	 { 2, 0, 8 },
		      { 3, 3, 12 },	  { 14, 0, 20 }, { 18, 0, 24 },
		      { 1442, 0, 1448 },  { 46, 0, 52 }, { 0x2a, 0, 48 },
		      { 65535, 3, 65544 } };

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(ur_fpdu_pad(table[i].ulpdu), table[i].pad);
		assert_int_equal(ur_fpdu_len(table[i].ulpdu), table[i].total);
	}
}

/* RFC 3720, B.4, and the well-known check value. */
static void crc32c(void **state)
{
	uint8_t buf[48] = { 0 };

	assert_int_equal(ur_crc32c(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(ur_crc32c(0, "", 0), 0);
	assert_int_equal(ur_crc32c(0, buf, 32), 0x8a9136aau);
	memset(buf, 0xff, 32);
	assert_int_equal(ur_crc32c(0, buf, 32), 0x62a8ab43u);
	for (uint8_t i = 0; i < 32; i++)
		buf[i] = i;
	assert_int_equal(ur_crc32c(0, buf, 32), 0x46dd794eu);
	for (size_t cut = 0; cut <= 32; cut++)
		assert_int_equal(ur_crc32c(ur_crc32c(0, buf, cut), buf + cut,
					   32 - cut),
				 0x46dd794eu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_decodes),
		cmocka_unit_test(frames_encode),
		cmocka_unit_test(bad_frames_are_refused),
		cmocka_unit_test(lengths),
		cmocka_unit_test(crc32c),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
