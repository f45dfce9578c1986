/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls that fail in the target. */
#ifndef UNIT_SHM_SHARE_FAULTS_H
#define UNIT_SHM_SHARE_FAULTS_H

#include <stddef.h>

/* NOLINTBEGIN(readability-identifier-naming): the linker's */

/* What is to fail in the target, from now on. */
enum fault {
	NOTHING,
	MMAP_PRIVATE, /* of a file */
	MMAP_ANONYMOUS,
	MMAP_ALL,
	MREMAP,
	READ_SHORT, /* half of it, then the end */
	READ_ERROR,
	READ_PARTS, /* a page at a time, each interrupted once */
	READ_MEMORY,
	SMAPS_PARTS, /* some bytes at a time, each interrupted once */
	SMAPS_CUT,   /* it ends in the midst of a line */
	SMAPS_ERROR,
	MPROTECT,
	MADVISE,
	MEMFD,
	TRUNCATE,
	OPEN,
	WRITE_SHORT,
	MMAP_SHARED,
	SEAL,
};

extern enum fault fault;
/* Errors that were logged, in the child too; in shared memory. */
extern _Atomic unsigned int *errors;

/* Never fails. */
int __real_mprotect(void *addr, size_t len, int prot);

/* NOLINTEND(readability-identifier-naming) */

#endif
