/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers that cmocka requires before it. */
#ifndef UR_TESTS_UNIT_WIRE_UNIT_H
#define UR_TESTS_UNIT_WIRE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
