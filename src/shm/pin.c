/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/pin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/direct_internal.h"
#include "shm/maps.h"
#include "shm/share_internal.h"

struct own_pin {
	struct ur_pin pin;
	uint8_t *base; /* of the whole pages */
	size_t bytes;
	unsigned int forks; /* ur_direct_forks() of the process that made it */
	_Atomic uintptr_t *slot;
};

/*
 * Addresses of the mappings; 0: unused.  Lock-free, since the last reference
 * may be dropped under any lock.
 */
static _Atomic uintptr_t slots[UR_PINS];

bool ur_share_is_pin(const struct ur_map *m)
{
	if (strcmp(m->prot, "r--s") != 0)
		return false;
	for (uint32_t i = 0; i < UR_PINS; i++) {
		uintptr_t at = atomic_load(&slots[i]);

		if (at >= m->start && at < m->end)
			return true;
	}
	return false;
}

static _Atomic uintptr_t *take_slot(void)
{
	for (uint32_t i = 0; i < UR_PINS; i++) {
		uintptr_t unused = 0;

		if (atomic_compare_exchange_strong(&slots[i], &unused, 1))
			return &slots[i];
	}
	return NULL;
}

/* A child inherits the list, but not the mappings. */
static void pin_end(struct ur_pin *pin)
{
	struct own_pin *p = ur_container_of(pin, struct own_pin, pin);

	if (p->forks == ur_direct_forks()) {
		munmap(p->base, p->bytes);
		atomic_store(p->slot, 0);
	}
	free(p);
}

/*
 * The file behind [at, end) and the offset of `at` in it; -1: not one of ours,
 * or several pieces.
 */
static int file_of(uint64_t at, uint64_t end, uint64_t *offset)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	const uint64_t begin = at;
	char *line = NULL;
	size_t capacity = 0;
	struct ur_map m;
	int fd = -1;

	while (maps && at < end && getline(&line, &capacity, maps) > 0) {
		int its;

		if (!ur_map_parse(line, &m) || m.end <= at)
			continue;
		its = m.start <= at && m.prot[3] == 's' ? ur_share_fd(&m) : -1;
		if (at == begin) {
			fd = its;
			*offset = m.offset + (at - m.start);
		}
		if (its < 0 || its != fd ||
		    m.offset + (at - m.start) != *offset + (at - begin))
			break;
		at = m.end;
	}
	free(line);
	if (maps)
		fclose(maps);
	return at >= end ? fd : -1;
}

static bool cannot_shrink(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK);
}

static uint8_t *map_file(uint64_t at, uint64_t end)
{
	uint64_t offset = 0;
	uint8_t *base;
	int fd = file_of(at, end, &offset);

	if (fd < 0 || !cannot_shrink(fd))
		return NULL;
	ur_share_fix(fd);
	base = mmap(NULL, end - at, PROT_READ, MAP_SHARED, fd, (off_t)offset);
	if (base == MAP_FAILED)
		return NULL;
	/* A child has a copy of the memory, so it must not have the mapping. */
	if (madvise(base, end - at, MADV_DONTFORK)) {
		munmap(base, end - at);
		return NULL;
	}
	(void)madvise(base, end - at, MADV_DONTDUMP);
	return base;
}

static bool pin_map(struct own_pin *p, uint64_t at, uint64_t end)
{
	p->slot = take_slot();
	if (!p->slot)
		return false;
	ur_share_lock();
	p->base = map_file(at, end);
	/* fork() reads it under the lock. */
	atomic_store(p->slot, (uintptr_t)p->base);
	ur_share_unlock();
	return p->base != NULL;
}

struct ur_pin *ur_pin_make(const void *addr, uint64_t length)
{
	uint64_t first = (uintptr_t)addr / UR_SHARE_PAGE * UR_SHARE_PAGE;
	uint64_t end = ((uintptr_t)addr + length + UR_SHARE_PAGE - 1) /
		       UR_SHARE_PAGE * UR_SHARE_PAGE;
	struct own_pin *p;

	if (length == 0 || !ur_share_allowed(length))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p || !pin_map(p, first, end)) {
		free(p);
		return NULL;
	}
	p->bytes = end - first;
	p->forks = ur_direct_forks();
	p->pin = (struct ur_pin){ .refs = 1,
				  .map = p->base + ((uintptr_t)addr - first),
				  .length = length,
				  .addr = (uintptr_t)addr,
				  .end = pin_end };
	return &p->pin;
}
