/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that are memory and have no name. */
#ifndef UR_BASE_MEMFILE_H
#define UR_BASE_MEMFILE_H

#include <stdbool.h>
#include <sys/types.h>

/* One that can be sealed: its descriptor, or -errno, also noted as refused. */
int ur_memfd(const char *name);

/* Where that is refused, a file of /dev/shm, which cannot be sealed: another
 * process that has it may change its length. */
int ur_memfile(const char *name);

/* Is it memory, so that read(2) does not wait for anything? */
bool ur_memfile_is(int fd);

#endif
