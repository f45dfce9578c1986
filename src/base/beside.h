/* SPDX-License-Identifier: BSD-2-Clause */
/* Installed files, found relative to the library or program that uses them. */
#ifndef UR_BASE_BESIDE_H
#define UR_BASE_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Path of the first accessible file (access mode `how`: R_OK, X_OK) among n
 * places. Places are relative to the directory of the library or program that
 * contains the object `here`. The path takes at most cap bytes. False: none.
 */
bool ur_find_beside(const void *here, const char *const *places, size_t n,
		    int how, char *path, size_t cap);

#endif
