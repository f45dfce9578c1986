/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_SHM_WHERE_H
#define UR_SHM_WHERE_H

#include <stdbool.h>
#include <stdint.h>

/* Where memory of this process comes from. */
struct ur_where {
	int fd;	   /* the caller's to close; -1: SysV */
	int shmid; /* -1: a file */
	uint64_t offset;
};

/* 0; -ENOENT: it is not shared memory that others could map. */
int ur_where_find(const void *addr, uint64_t length, struct ur_where *out);

/*
 * The same for a process that maps the memory as long as it likes: what was
 * made shareable stays so, and a fork() copies it (share_fork.c).
 */
int ur_where_lend(const void *addr, uint64_t length, struct ur_where *out);

/*
 * Does who moves bytes of [at, end) for us (process_vm_writev(2)) wait for
 * nobody to answer a fault?  Besides memory of the kernel's own, a program's
 * data will do: it waits no longer than its code.  Holes fault at once.  True
 * of what is mapped now: what is mapped there later is not looked at.
 */
bool ur_is_soon(uint64_t at, uint64_t end);

#endif
