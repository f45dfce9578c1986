/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ddp.h"

#include <string.h>

#include "unit.h"

static const uint8_t tagged[] = { 0xc1, 0x40, 0x00, 0xde, 0xad, 0x01, 0x11,
				  0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18 };
static const uint8_t untagged[] = { 0x41, 0x43, 0x21, 0x22, 0x23, 0x24,
				    0x00, 0x00, 0x00, 0x02, 0x31, 0x32,
				    0x33, 0x34, 0x41, 0x42, 0x43, 0x44 };

static void tagged_header(void **state)
{
	uint8_t buf[UR_DDP_HDR_MAX];
	struct ur_ddp_hdr h;

	assert_true(ur_ddp_decode(&h, tagged, sizeof(tagged)));
	assert_true(h.tagged);
	assert_true(h.last);
	assert_int_equal(h.version, 1);
	assert_int_equal(h.rsvd, 0);
	assert_int_equal(h.ulp, 0x40);
	assert_int_equal(h.stag, 0x00dead01);
	assert_true(h.to == 0x1112131415161718u);
	assert_int_equal(ur_ddp_encode(&h, buf), sizeof(tagged));
	assert_memory_equal(buf, tagged, sizeof(tagged));
}

static void untagged_header(void **state)
{
	uint8_t buf[UR_DDP_HDR_MAX];
	struct ur_ddp_hdr h;

	assert_true(ur_ddp_decode(&h, untagged, sizeof(untagged)));
	assert_false(h.tagged);
	assert_int_equal(h.ulp, 0x43);
	assert_int_equal(h.ulp_word, 0x21222324);
	assert_int_equal(h.qn, 2);
	assert_int_equal(h.msn, 0x31323334);
	assert_int_equal(h.mo, 0x41424344);
	assert_int_equal(ur_ddp_encode(&h, buf), sizeof(untagged));
	assert_memory_equal(buf, untagged, sizeof(untagged));
}

static void every_first_octet_survives(void **state)
{
	uint8_t in[UR_DDP_HDR_MAX], out[UR_DDP_HDR_MAX];
	struct ur_ddp_hdr h;

	memcpy(in, untagged, sizeof(in));
	for (unsigned int i = 0; i < 256; i++) {
		in[0] = (uint8_t)i;
		assert_true(ur_ddp_decode(&h, in, sizeof(in)));
		assert_int_equal(h.tagged, i >> 7);
		assert_int_equal(ur_ddp_encode(&h, out), i >> 7 ? 14 : 18);
		assert_memory_equal(in, out, i >> 7 ? 14 : 18);
	}
}

static void too_short(void **state)
{
	struct ur_ddp_hdr h;

	for (size_t len = 0; len < sizeof(tagged); len++)
		assert_false(ur_ddp_decode(&h, tagged, len));
	for (size_t len = 0; len < sizeof(untagged); len++)
		assert_false(ur_ddp_decode(&h, untagged, len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tagged_header),
		cmocka_unit_test(untagged_header),
		cmocka_unit_test(every_first_octet_survives),
		cmocka_unit_test(too_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
