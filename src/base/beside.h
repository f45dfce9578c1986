/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of ours, by where they are from what they belong to. */
#ifndef UR_BASE_BESIDE_H
#define UR_BASE_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The first of n places, which are relative to the directory of the library or
 * program that holds the object `here`, where a file can be accessed so (R_OK,
 * X_OK): its path, at most cap bytes.  False: there is none.
 */
bool ur_find_beside(const void *here, const char *const *places, size_t n,
		    int how, char *path, size_t cap);

#endif
