/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_SHM_WHERE_H
#define UR_SHM_WHERE_H

#include <stdbool.h>
#include <stdint.h>

/* The object that memory of this process is mapped from. */
struct ur_backing {
	int fd;	   /* the caller's to close; -1: SysV */
	int shmid; /* -1: a file */
	uint64_t offset;
};

/* 0; -ENOENT: it is not shared memory that another process could map. */
int ur_backing_find(const void *addr, uint64_t length, struct ur_backing *out);

/*
 * The same for a process that keeps the mapping: memory that was made shareable
 * then stays so, and fork() copies it (share_fork.c).
 */
int ur_backing_export(const void *addr, uint64_t length,
		      struct ur_backing *out);

/*
 * Do page faults in [at, end) wait for the kernel or local storage only?
 * Besides anonymous memory, a program's data will do: its code could wait as
 * long.  Holes fault at once.  Refers to the present mappings.
 */
bool ur_faults_are_bounded(uint64_t at, uint64_t end);

#endif
