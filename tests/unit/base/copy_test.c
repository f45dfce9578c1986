/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <string.h>

#include "base/copy.h"

#define ROOM 5000

static uint8_t from[ROOM], to[ROOM];

/* All of it arrives, and the bytes around it are unchanged. */
static void expect_copy(size_t src_at, size_t dst_at, size_t len)
{
	memset(to, 0xee, sizeof(to));
	ur_copy(to + dst_at, from + src_at, len);
	assert_memory_equal(to + dst_at, from + src_at, len);
	assert_int_equal(to[dst_at - 1], 0xee);
	assert_int_equal(to[dst_at + len], 0xee);
}

static void every_way(bool words)
{
	bool was = ur_copy_by_words(words);

	for (size_t len = 0; len < 70; len++)
		expect_copy(1, 1 + len % 8, len);
	for (size_t len = 2000; len < 2150; len++)
		for (size_t at = 0; at < 9; at++)
			expect_copy(at, 9 - at, len);
	expect_copy(3, 5, 4900);
	ur_copy_by_words(was);
}

static void as_the_library_does(void **state)
{
	every_way(false);
}

static void by_words(void **state)
{
	every_way(true);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_library_does),
		cmocka_unit_test(by_words),
	};

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
