/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that two processes share: a memfd that cannot be resized, so neither
 * can make the other's accesses fault.  A child of fork() has no mapping.
 */
#ifndef UR_SHM_SEALED_H
#define UR_SHM_SEALED_H

#include <stddef.h>

/* A new one, zeroed and mapped at *mem: its file descriptor, or -errno. */
int ur_sealed_make(const char *name, size_t bytes, void **mem);

/* Map one of another process; fd is the caller's.  0; -EPROTO: not such a file,
 * or of another size; -errno. */
int ur_sealed_map(int fd, size_t bytes, void **mem);

#endif
