/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mappings of a peer's memory.  Only registered memory is mapped, rounded to
 * pages; regions within each other share a mapping.
 *
 * The peer names the file, so it must be memory, of a file system whose page
 * faults wait for no other process or host (no FUSE, no network).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "shm/direct_internal.h"
#include "shm/imported.h"

#define FS_TMPFS   0x01021994
#define FS_HUGETLB 0x958458f6
#define FS_EXT	   0xef53
#define FS_XFS	   0x58465342
#define FS_BTRFS   0x9123683e

#define SMALL_PAGE  4096u
#define MAX_OBJECTS 1024u /* a process has some 65,000 mappings */

/* Page size of a file that may be mapped; 0: it may not. */
static uint64_t page_size_of(int fd)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || fstatfs(fd, &fs))
		return 0;
	switch ((uint32_t)fs.f_type) {
	case FS_HUGETLB:
		return (uint64_t)fs.f_bsize;
	case FS_TMPFS:
	case FS_EXT:
	case FS_XFS:
	case FS_BTRFS:
		return SMALL_PAGE;
	default:
		return 0;
	}
}

static struct ur_object *find(struct ur_direct *r, const struct ur_object *want)
{
	ur_list_each(struct ur_object, o, &r->objects, node) {
		if (o->dev == want->dev && o->ino == want->ino &&
		    o->sysv == want->sysv && o->writable == want->writable &&
		    o->offset <= want->offset &&
		    want->offset + want->length <= o->offset + o->length) {
			o->refs++;
			return o;
		}
	}
	return NULL;
}

static struct ur_object *keep(struct ur_direct *r, const struct ur_object *want)
{
	struct ur_object *o = malloc(sizeof(*o));

	if (!o)
		return NULL;
	*o = *want;
	o->refs = 1;
	ur_list_add_head(&r->objects, &o->node);
	return o;
}

static bool may_have_more(const struct ur_direct *r)
{
	uint32_t n = 0;

	ur_list_each(struct ur_object, o, &r->objects, node)
		n++;
	return n < MAX_OBJECTS;
}

/* The range of the file to map, rounded to its pages; false: not this file. */
static bool want_file(int fd, uint64_t offset, uint64_t length,
		      struct ur_object *want)
{
	uint64_t page = page_size_of(fd), end;
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (page == 0 || flags < 0 || fstat(fd, &st) || length == 0 ||
	    offset > INT64_MAX - page || length > INT64_MAX - page - offset)
		return false;
	end = (offset + length + page - 1) / page * page;
	*want = (struct ur_object){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.offset = offset / page * page,
		.length = end - offset / page * page,
		.writable = (flags & O_ACCMODE) == O_RDWR,
	};
	return true;
}

static bool map_file(int fd, struct ur_object *want)
{
	void *map = mmap(NULL, want->length,
			 PROT_READ | (want->writable ? PROT_WRITE : 0),
			 MAP_SHARED, fd, (off_t)want->offset);

	if (map == MAP_FAILED)
		return false;
	/* Not part of our core dumps. */
	madvise(map, want->length, MADV_DONTDUMP);
	want->base = map;
	return true;
}

void *ur_map_imported(int fd, uint64_t offset, uint64_t length, bool write,
		      struct iovec *map)
{
	struct ur_object o;

	if (!want_file(fd, offset, length, &o) || (write && !o.writable) ||
	    !map_file(fd, &o))
		return NULL;
	*map = (struct iovec){ o.base, o.length };
	return o.base + (offset - o.offset);
}

struct ur_object *ur_object_file(struct ur_direct *r, int fd, uint64_t offset,
				 uint64_t length)
{
	struct ur_object want, *o;

	if (!want_file(fd, offset, length, &want))
		return NULL;
	o = find(r, &want);
	if (o || !may_have_more(r) || !map_file(fd, &want))
		return o;
	o = keep(r, &want);
	if (!o)
		munmap(want.base, want.length);
	return o;
}

/* A segment can only be attached as a whole. */
struct ur_object *ur_object_sysv(struct ur_direct *r, int shmid,
				 uint64_t offset, uint64_t length)
{
	struct ur_object want, *o;
	struct shmid_ds ds;
	void *map;

	if (shmctl(shmid, IPC_STAT, &ds) || length == 0 ||
	    offset > ds.shm_segsz || length > ds.shm_segsz - offset)
		return NULL;
	want = (struct ur_object){
		.ino = (uint64_t)shmid,
		.length = ds.shm_segsz,
		.sysv = true,
		.writable = true,
	};
	o = find(r, &want);
	if (o || !may_have_more(r))
		return o;
	map = shmat(shmid, NULL, 0);
	/* -1: as mmap's failure */
	if (map == MAP_FAILED)
		return NULL;
	madvise(map, ds.shm_segsz, MADV_DONTDUMP);
	want.base = map;
	o = keep(r, &want);
	if (!o)
		shmdt(map);
	return o;
}

void ur_object_put(struct ur_object *o)
{
	if (--o->refs > 0)
		return;
	ur_list_del(&o->node);
	if (o->sysv)
		shmdt(o->base);
	else
		munmap(o->base, o->length);
	free(o);
}
