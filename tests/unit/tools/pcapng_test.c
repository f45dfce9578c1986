/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks of pcapng, byte by byte, as the draft has them. */
#include "pcapng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint8_t buf[4096];

static void section(void **state)
{
	static const uint8_t want[] = {
		0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0,    0,	   0x4d, 0x3c,
		0x2b, 0x1a, 1,	  0,	0,  0, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 4,  0, 3,    0,	   'a',	 'b',
		'c',  0,    0,	  0,	0,  0, 40,   0,	   0,	 0,
	};

	assert_int_equal(ur_pcapng_section(buf, "abc"), sizeof(want));
	assert_memory_equal(buf, want, sizeof(want));
}

static void interface(void **state)
{
	static const uint8_t want[] = {
		1, 0, 0, 0, 48,	 0,   0,   0,	1, 0, 0, 0, 0,	 0, 0, 0,
		2, 0, 4, 0, 'd', 'e', 'v', '0', 3, 0, 1, 0, 'x', 0, 0, 0,
		9, 0, 1, 0, 9,	 0,   0,   0,	0, 0, 0, 0, 48,	 0, 0, 0,
	};

	assert_int_equal(ur_pcapng_interface(buf, "dev0", "x"), sizeof(want));
	assert_memory_equal(buf, want, sizeof(want));
}

static void packet(void **state)
{
	static const uint8_t want[] = {
		6,   0,	  0,   0, 56, 0, 0, 0, 2,   0,	 0,   0,   1, 0,
		0,   0,	  5,   0, 0,  0, 3, 0, 0,   0,	 3,   0,   0, 0,
		'x', 'y', 'z', 0, 1,  0, 4, 0, 'l', 'o', 's', 't', 2, 0,
		4,   0,	  2,   0, 0,  0, 0, 0, 0,   0,	 56,  0,   0, 0,
	};
	const struct ur_pcapng_packet p = { .interface = 2,
					    .ns = (1ull << 32) + 5,
					    .sent = true,
					    .data = (const uint8_t *)"xyz",
					    .len = 3,
					    .comment = "lost" };

	assert_int_equal(ur_pcapng_packet(buf, &p), sizeof(want));
	assert_memory_equal(buf, want, sizeof(want));
}

static void statistics(void **state)
{
	size_t len = ur_pcapng_statistics(buf, 1, 0, 7, 3);
	static const uint8_t want[] = { 4, 0, 8, 0, 7, 0, 0, 0, 0, 0,
					0, 0, 5, 0, 8, 0, 3, 0, 0, 0,
					0, 0, 0, 0, 0, 0, 0, 0 };

	assert_int_equal(len, 20 + sizeof(want) + 4);
	assert_int_equal(buf[0], 5);
	assert_memory_equal(buf + 20, want, sizeof(want));
}

/* Room for every comment and description is what UR_PCAPNG_ROOM says. */
static void long_texts(void **state)
{
	char text[2000];
	struct ur_pcapng_packet p = { .data = (const uint8_t *)"",
				      .comment = text };

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_true(ur_pcapng_packet(buf, &p) <= UR_PCAPNG_ROOM);
	assert_true(ur_pcapng_interface(buf, text, text) <= UR_PCAPNG_ROOM);
	assert_true(ur_pcapng_section(buf, text) <= UR_PCAPNG_ROOM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(section),    cmocka_unit_test(interface),
		cmocka_unit_test(packet),     cmocka_unit_test(statistics),
		cmocka_unit_test(long_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
