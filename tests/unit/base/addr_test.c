/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <string.h>

#include "base/addr.h"

static void expect(const char *text, const uint8_t want[16], const char *shown)
{
	char back[UR_ADDR_TEXT];
	uint8_t addr[16];

	assert_true(ur_addr_parse(addr, text));
	assert_memory_equal(addr, want, sizeof(addr));
	ur_addr_text(addr, back);
	assert_string_equal(back, shown);
}

static void test_texts(void **state)
{
	const uint8_t v4[16] = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 };
	const uint8_t v6[16] = { 0xfe, 0x80, [15] = 1 };
	const uint8_t any[16] = { 0 };

	expect("192.0.2.1", v4, "192.0.2.1");
	expect("::ffff:192.0.2.1", v4, "192.0.2.1");
	expect("fe80::1", v6, "fe80::1");
	expect("::", any, "::");
}

static void test_no_addresses(void **state)
{
	const char *const wrong[] = { "",	    "192.0.2",	  "192.0.2.256",
				      "192.0.2.1 ", "fe80::1%lo", "host",
				      ":::" };
	uint8_t addr[16];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(ur_addr_parse(addr, wrong[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_no_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
