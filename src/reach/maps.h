/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of /proc/self/maps and the heads in /proc/self/smaps. */
#ifndef UR_REACH_MAPS_H
#define UR_REACH_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ur_map {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	char prot[5]; /* as "rw-p" */
	dev_t dev;
	ino_t ino;
	const char *path; /* within the line; "" if there is none */
};

/* Cuts the newline off; false: not such a line. */
bool ur_map_parse(char *line, struct ur_map *out);

#endif
