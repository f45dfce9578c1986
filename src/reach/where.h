/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_REACH_WHERE_H
#define UR_REACH_WHERE_H

#include <stdint.h>

/* Where memory of this process comes from. */
struct ur_where {
	int fd;	   /* the caller's to close; -1: SysV */
	int shmid; /* -1: a file */
	uint64_t offset;
};

/* 0; -ENOENT: it is not shared memory that others could map. */
int ur_where_find(const void *addr, uint64_t length, struct ur_where *out);

#endif
