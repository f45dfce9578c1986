/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that accesses our memory by process_vm_writev(2) waits for our page
 * faults while it holds its lane.  Faults of anonymous memory are resolved by
 * the kernel; those of a file may wait for a server or for FUSE, and others for
 * a program (userfaultfd).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/backing.h"
#include "shm/direct_internal.h"
#include "shm/maps.h"

/* Anonymous memory, private or shared, of any kind. */
static bool is_memory(const struct ur_map *m)
{
	static const char *const shared[] = {
		"/memfd:",	  "/dev/shm/",	     "/SYSV",	    "/dev/zero",
		"/anon_hugepage", "/dev/hugepages/", "[anon_shmem:"
	};

	/* Before the inode is looked at: SysV segment 0 has inode 0. */
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (ur_map_begins(m->path, shared[i]))
			return true;
	if (m->ino == 0 || ur_map_begins(m->path, "[anon:"))
		return m->path[0] == 0 || ur_map_begins(m->path, "[anon:") ||
		       ur_map_begins(m->path, "[heap]") ||
		       ur_map_begins(m->path, "[stack]");
	return false;
}

/* Not registered with userfaultfd(2). */
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
	struct ur_map m;    /* without its path */
	struct ur_map code; /* the last executable mapping */
};

/* Data of an executable whose code was seen, which is at lower addresses. */
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

/* Reads the mapping's attributes to the end. */
static bool faults_ok(struct reader *r)
{
	while (getline(&r->line, &r->capacity, r->smaps) > 0)
		if (ur_map_begins(r->line, "VmFlags:"))
			return flags_ok(r->line);
	return false;
}

/* bounded: ur_faults_are_bounded(), else ur_faults_are_prompt(). */
static bool check(uint64_t at, uint64_t end, bool bounded)
{
	struct reader r = { .smaps = fopen("/proc/self/smaps", "re") };
	bool ok = r.smaps != NULL, memory, data;

	while (ok && at < end) {
		if (!next_map(&r, at, &memory, &data) || r.m.start >= end) {
			ok = bounded;
			break;
		}
		ok = (bounded || r.m.start <= at) &&
		     (memory || (bounded && data)) && faults_ok(&r);
		at = r.m.end;
	}
	free(r.line);
	if (r.smaps)
		fclose(r.smaps);
	return ok;
}

bool ur_faults_are_prompt(uint64_t at, uint64_t end)
{
	return check(at, end, false);
}

bool ur_faults_are_bounded(uint64_t at, uint64_t end)
{
	return check(at, end, true);
}
