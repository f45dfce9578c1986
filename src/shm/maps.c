/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/sys.h"

/* A number and the character behind it; false: something else. */
static bool number(const char **at, int base, char behind, uint64_t *out)
{
	char *end;

	*out = strtoul(*at, &end, base);
	if (end == *at || *end != behind)
		return false;
	*at = end + 1;
	return true;
}

bool ur_map_parse(char *line, struct ur_map *out)
{
	const char *at = line;
	uint64_t major, minor, ino;

	line[strcspn(line, "\n")] = 0;
	memset(out, 0, sizeof(*out));
	if (!number(&at, 16, '-', &out->start) ||
	    !number(&at, 16, ' ', &out->end) || strlen(at) < 5 || at[4] != ' ')
		return false;
	memcpy(out->prot, at, 4);
	at += 5;
	if (!number(&at, 16, ' ', &out->offset) ||
	    !number(&at, 16, ':', &major) || !number(&at, 16, ' ', &minor))
		return false;
	/* Without a path the inode may be the last of the line. */
	ino = strtoul(at, NULL, 10);
	at += strspn(at, "0123456789");
	out->dev = makedev((unsigned int)major, (unsigned int)minor);
	out->ino = ino;
	out->path = at + strspn(at, " ");
	return true;
}

void ur_lines_begin(struct ur_lines *l, int fd)
{
	l->fd = fd;
	l->at = 0;
	l->used = 0;
	l->bad = lseek(fd, 0, SEEK_SET) != 0;
}

/* More behind what is left; false: the end, or bad. */
static bool fill(struct ur_lines *l)
{
	ssize_t n;

	memmove(l->buf, l->buf + l->at, l->used - l->at);
	l->used -= l->at;
	l->at = 0;
	do
		n = ur_sys_read(l->fd, l->buf + l->used,
				sizeof(l->buf) - l->used);
	while (n < 0 && errno == EINTR);
	/* A line that ends without a newline was cut off. */
	l->bad = n < 0 || (n == 0 && l->used > 0);
	if (n > 0)
		l->used += (size_t)n;
	return n > 0;
}

char *ur_lines_next(struct ur_lines *l)
{
	for (;;) {
		char *line = l->buf + l->at;
		char *end = l->bad ? NULL : memchr(line, '\n', l->used - l->at);

		if (end) {
			*end = 0;
			l->at = (size_t)(end - l->buf) + 1;
			return line;
		}
		if (l->bad || !fill(l))
			return NULL;
	}
}
