/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory file of the flight recorder (core/record.h).  It has one size and
 * is sealed against another; pages take memory only once they are written.
 */
#ifndef UR_CLIENT_RECORD_FILE_H
#define UR_CLIENT_RECORD_FILE_H

#include <stdbool.h>

#include "core/record.h"

/* Makes a file and maps it, not for children of fork(): its descriptor, or
 * -errno. */
int ur_record_file_make(struct ur_record_file **map);

/* In a child of fork(): the parent's file is not written any more, and what is
 * written instead is of no use. */
void ur_record_file_leave(struct ur_record_file *map);

/* A file that cannot change its size? */
bool ur_record_file_usable(int fd);

#endif
