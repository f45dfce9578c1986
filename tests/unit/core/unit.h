/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers of every unit test of core/; cmocka requires the others before it. */
#ifndef UR_TEST_CORE_UNIT_H
#define UR_TEST_CORE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdbool.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline bool unit_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

#endif
