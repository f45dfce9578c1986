/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that reaches memory of ours by process_vm_writev(2) waits for our
 * page faults, with its lane in its hands.  Memory of the kernel's own is there
 * in no time; a file's may be on a server that is gone, or be FUSE's, and a
 * fault may be somebody's to answer (userfaultfd).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reach/internal.h"
#include "reach/maps.h"

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Anonymous memory, private or shared, in all its shapes. */
static bool is_memory(const struct ur_map *m)
{
	static const char *const shared[] = { "/memfd:", "/dev/shm/", "/SYSV",
					      "/dev/zero", "[anon_shmem:" };

	if (m->ino == 0 || begins(m->path, "[anon:"))
		return m->path[0] == 0 || begins(m->path, "[anon:") ||
		       begins(m->path, "[heap]") || begins(m->path, "[stack]");
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (begins(m->path, shared[i]))
			return true;
	return false;
}

/* Nobody else answers its faults: those of userfaultfd(2). */
static bool flags_ok(const char *line)
{
	return !strstr(line, " um") && !strstr(line, " uw") &&
	       !strstr(line, " ui");
}

bool ur_is_plain(uint64_t at, uint64_t end)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	struct ur_map m = { .end = 0 }, next;
	char *line = NULL;
	size_t capacity = 0;
	bool ok = smaps != NULL;

	while (ok && at < end && getline(&line, &capacity, smaps) > 0) {
		if (ur_map_parse(line, &next)) {
			m = next;
			ok = m.end <= at || (m.start <= at && is_memory(&m));
		} else if (m.end > at && begins(line, "VmFlags:")) {
			ok = flags_ok(line);
			at = m.end;
		}
	}
	free(line);
	if (smaps)
		fclose(smaps);
	return ok && at >= end;
}
