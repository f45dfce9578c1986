/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test that this machine or this user does not allow is skipped with its
 * reason; scripts/run_tests takes a skip without one for a failure.
 */
#ifndef UR_TESTS_SKIP_H
#define UR_TESTS_SKIP_H

#include <stdio.h>

/* What meson takes for "skipped": the result of main(). */
#define EXIT_SKIPPED 77

static inline int skip_all(const char *why)
{
	printf("skipped: %s\n", why);
	return EXIT_SKIPPED;
}

/* One test of cmocka's. */
#define SKIP_BECAUSE(why)                                                      \
	do {                                                                   \
		print_message("skipped: %s\n", why);                           \
		skip();                                                        \
	} while (0)

#endif
