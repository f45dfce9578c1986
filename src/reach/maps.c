/* SPDX-License-Identifier: BSD-2-Clause */
#include "reach/maps.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

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
