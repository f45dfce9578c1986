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

#include "shm/direct_internal.h"
#include "shm/maps.h"
#include "shm/where.h"

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Anonymous memory, private or shared, in all its shapes. */
static bool is_memory(const struct ur_map *m)
{
	static const char *const shared[] = {
		"/memfd:",	  "/dev/shm/",	     "/SYSV",	    "/dev/zero",
		"/anon_hugepage", "/dev/hugepages/", "[anon_shmem:"
	};

	/* Before the inode is looked at: SysV segment 0 has inode 0. */
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (begins(m->path, shared[i]))
			return true;
	if (m->ino == 0 || begins(m->path, "[anon:"))
		return m->path[0] == 0 || begins(m->path, "[anon:") ||
		       begins(m->path, "[heap]") || begins(m->path, "[stack]");
	return false;
}

/* Nobody else answers its faults: those of userfaultfd(2). */
static bool flags_ok(const char *line)
{
	return !strstr(line, " um") && !strstr(line, " uw") &&
	       !strstr(line, " ui");
}

/* Reads smaps from the lowest address on. */
struct reader {
	FILE *smaps;
	char *line;
	size_t capacity;
	struct ur_map m;    /* its path is not kept */
	struct ur_map code; /* the last one seen */
};

/* An executable's, whose code was seen: it lies below its data. */
static bool is_data(const struct reader *r, const struct ur_map *m)
{
	return m->prot[3] == 'p' && m->ino != 0 && m->ino == r->code.ino &&
	       m->dev == r->code.dev;
}

/* The next mapping that ends behind `at`. */
static bool next_map(struct reader *r, uint64_t at, bool *memory, bool *data)
{
	struct ur_map m;

	while (getline(&r->line, &r->capacity, r->smaps) > 0) {
		if (!ur_map_parse(r->line, &m))
			continue;
		if (m.prot[2] == 'x' && m.ino != 0)
			r->code = m;
		if (m.end <= at)
			continue;
		*memory = is_memory(&m);
		*data = is_data(r, &m);
		r->m = m;
		return true;
	}
	return false;
}

/* To the end of what is said about the mapping. */
static bool faults_ok(struct reader *r)
{
	while (getline(&r->line, &r->capacity, r->smaps) > 0)
		if (begins(r->line, "VmFlags:"))
			return flags_ok(r->line);
	return false;
}

/* loose: as ur_is_soon(), else as ur_is_plain(). */
static bool check(uint64_t at, uint64_t end, bool loose)
{
	struct reader r = { .smaps = fopen("/proc/self/smaps", "re") };
	bool ok = r.smaps != NULL, memory, data;

	while (ok && at < end) {
		if (!next_map(&r, at, &memory, &data) || r.m.start >= end) {
			ok = loose;
			break;
		}
		ok = (loose || r.m.start <= at) &&
		     (memory || (loose && data)) && faults_ok(&r);
		at = r.m.end;
	}
	free(r.line);
	if (r.smaps)
		fclose(r.smaps);
	return ok;
}

bool ur_is_plain(uint64_t at, uint64_t end)
{
	return check(at, end, false);
}

bool ur_is_soon(uint64_t at, uint64_t end)
{
	return check(at, end, true);
}
