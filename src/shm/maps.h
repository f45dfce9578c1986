/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of /proc/self/maps and the heads in /proc/self/smaps. */
#ifndef UR_SHM_MAPS_H
#define UR_SHM_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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

static inline bool ur_map_begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

/* The lines of an open file, without allocating memory: for fork() handlers. */
struct ur_lines {
	int fd;
	bool bad; /* a read failed, or a line was too long */
	size_t at;
	size_t used;
	char buf[32768]; /* a path of PATH_MAX, every character escaped */
};

/* From the file's beginning. */
void ur_lines_begin(struct ur_lines *l, int fd);

/* Without its newline, valid until the next call; NULL: the end, or bad. */
char *ur_lines_next(struct ur_lines *l);

#endif
