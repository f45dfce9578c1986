/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers that cmocka requires before it, and the active sanitizer. */
#ifndef UR_TESTS_UNIT_BASE_UNIT_H
#define UR_TESTS_UNIT_BASE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(__has_feature)
#define UNDER_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

#endif
