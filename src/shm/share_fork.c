/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child of fork() must have a copy of what was private memory.
 *
 * Shared memory has MADV_DONTFORK from its conversion on.  So if
 * anything below fails, or the child comes from a bare system call, it has no
 * memory there, and using it raises a signal: a child never shares memory with
 * its parent and never sees zeros.
 *
 * Before a fork the memory is made private again: peers are excluded and the
 * file is mapped in its own place by MAP_PRIVATE.  Nothing writes to the file
 * any more, so it is the state with which parent and child begin, and the kernel
 * copies the pages that either of them writes to.  This needs neither memory nor
 * address space, and the descriptors are open.  Afterwards peers reach the
 * memory by CMA until it is shared again (share.c).
 *
 * In these cases the pages are copied to private memory before the fork, and the
 * child moves the copies to where the originals were:
 *
 *   - the file has another mapping, of a process that has imported the region
 *     (backing.h);
 *   - a device, io_uring or AIO may hold the pages: such a transfer goes to the
 *     file's page, not to a copy of it;
 *   - a peer did not leave the memory (export.c) and may write to it later;
 *   - the application has locked or advised the memory meanwhile;
 *   - it has closed our descriptor.
 *
 * /proc/self/smaps tells what is ours, so that the application may have
 * unmapped, moved, grown or protected it since.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "shm/direct_internal.h"
#include "shm/maps.h"
#include "shm/share_internal.h"

#define PIECES_MAX 1024u

/* A mapping of one of our files. */
struct piece {
	uint8_t *at;
	size_t len;
	uint64_t offset;
	const struct ur_share_file *k;
	void *copy; /* for the child; or NULL */
	int protection;
	bool plain;    /* it has no flags that a new mapping would not have */
	bool is_taken; /* private again */
};

/* All of these belong to the thread that forks; ur_share_lock(). */
static struct piece pieces[PIECES_MAX];
static uint32_t npieces;
static struct ur_lines lines;
static sigset_t signals;

unsigned int ur_share_reverted;

static int protection(const char *text)
{
	return (text[0] == 'r' ? PROT_READ : 0) |
	       (text[1] == 'w' ? PROT_WRITE : 0) |
	       (text[2] == 'x' ? PROT_EXEC : 0);
}

/* The piece for this line of smaps; NULL: it is not ours. */
static struct piece *add_piece(const struct ur_map *m, bool *all)
{
	struct ur_share_file *k;

	if (m->prot[3] != 's')
		return NULL;
	k = ur_share_file_of(m);
	if (!k)
		return NULL;
	if (npieces == PIECES_MAX) {
		*all = false;
		k->mapped = true;
		return NULL;
	}
	pieces[npieces] = (struct piece){
		.at = (uint8_t *)(uintptr_t)m->start,
		.len = m->end - m->start,
		.offset = m->offset,
		.protection = protection(m->prot),
		.k = k,
	};
	return &pieces[npieces++];
}

/*
 * Find all pieces.  *calm: nothing but this process writes to its memory.
 * False: some were not found.
 */
static bool find_pieces(bool *calm)
{
	static const char flags[] = " rd wr ex sh mr mw me ms ac sd nr dc ";
	int fd = ur_share_smaps();
	struct piece *p = NULL;
	bool all = true;
	char *line;

	if (fd < 0)
		return false;
	ur_lines_begin(&lines, fd);
	while ((line = ur_lines_next(&lines))) {
		struct ur_map m;

		if (ur_map_parse(line, &m)) {
			*calm = *calm && ur_share_map_ok(&m);
			p = add_piece(&m, &all);
		} else if (p && strncmp(line, "VmFlags:", 8) == 0) {
			p->plain = ur_share_flags_ok(line + 8, flags);
		}
	}
	return all && !lines.bad;
}

static bool is_mapped(const struct piece *p)
{
	unsigned char in_core;

	return mincore(p->at, UR_SHARE_PAGE, &in_core) == 0 || errno != ENOMEM;
}

static void take(struct piece *p)
{
	int fd = p->k->fd, flags = MAP_FIXED;

	p->is_taken = mmap(p->at, p->len, p->protection, MAP_PRIVATE | flags,
			   fd, (off_t)p->offset) == p->at;
	/* Older kernels may have unmapped it before they failed. */
	if (p->is_taken || is_mapped(p))
		return;
	if (mmap(p->at, p->len, p->protection, MAP_SHARED | flags, fd,
		 (off_t)p->offset) != p->at ||
	    madvise(p->at, p->len, MADV_DONTFORK))
		ur_err("memory at %p is lost: %s", (void *)p->at,
		       strerror(errno));
}

static void take_all(void)
{
	bool any = false;

	if (ur_exports_shut()) {
		for (uint32_t i = 0; i < npieces; i++) {
			struct piece *p = &pieces[i];

			if (!p->plain || p->k->fixed ||
			    !ur_share_file_is_open(p->k))
				continue;
			take(p);
			any = any || p->is_taken;
			if (p->is_taken)
				ur_exports_reverted((uintptr_t)p->at,
						    (uintptr_t)p->at + p->len);
		}
	}
	ur_exports_open();
	ur_share_reverted += any;
}

static ssize_t read_memory(void *to, const uint8_t *at, size_t len)
{
	const struct iovec here = { to, len };
	const struct iovec there = { (void *)(uintptr_t)at, len };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0);
}

/* From the file if possible: the mapping may be protected by now. */
static bool read_piece(const struct piece *p, uint8_t *copy)
{
	bool from_file = ur_share_file_is_open(p->k);
	size_t done = 0;

	while (done < p->len) {
		ssize_t n =
			from_file ? pread(p->k->fd, copy + done, p->len - done,
					  (off_t)(p->offset + done))
				  : read_memory(copy + done, p->at + done,
						p->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = EIO;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool copy_piece(struct piece *p)
{
	uint8_t *copy = mmap(NULL, p->len, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int error;

	if (copy == MAP_FAILED)
		return false;
	if (!read_piece(p, copy) || mprotect(copy, p->len, p->protection)) {
		error = errno;
		munmap(copy, p->len);
		errno = error;
		return false;
	}
	p->copy = copy;
	return true;
}

/* Copy the pieces that are still shared. */
static void copy_rest(void)
{
	size_t missing = 0;
	int error = 0;

	for (uint32_t i = 0; i < npieces; i++) {
		if (pieces[i].is_taken || copy_piece(&pieces[i]))
			continue;
		missing += pieces[i].len;
		error = errno;
	}
	if (missing)
		ur_err("a child of fork() has no copy of %zu bytes of shared memory, and faults if it uses them: %s",
		       missing, strerror(error));
}

/* Files that are no longer mapped, or mapped privately, are dropped. */
static void drop_kept(void)
{
	for (uint32_t i = 0; i < npieces; i++)
		if (!pieces[i].is_taken)
			((struct ur_share_file *)(uintptr_t)pieces[i].k)
				->mapped = true;
	ur_share_drop_unmapped();
}

static void prepare(void)
{
	bool calm = true, found;

	for (struct ur_share_file *k = NULL; (k = ur_share_file_next(k));)
		k->mapped = false;
	found = find_pieces(&calm);
	if (!found) {
		ur_err("a child of fork() may lack memory that is shared, and fault: it was not found");
		for (struct ur_share_file *k = NULL;
		     (k = ur_share_file_next(k));)
			k->mapped = true;
	}
	if (found && npieces && calm && ur_share_descriptors_ok(ur_share_fds()))
		take_all();
	copy_rest();
	drop_kept();
}

/* Signals are blocked: a handler of the application might need our locks. */
static void before_fork(void)
{
	sigset_t all, old;
	int saved = errno;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ur_share_lock();
	signals = old;
	npieces = 0;
	if (ur_share_file_next(NULL))
		prepare();
	errno = saved;
}

static void after_fork(void)
{
	sigset_t old = signals;

	npieces = 0;
	ur_share_unlock();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void in_parent(void)
{
	for (uint32_t i = 0; i < npieces; i++)
		if (pieces[i].copy)
			munmap(pieces[i].copy, pieces[i].len);
	after_fork();
}

/* Only system calls here: another thread may have held any lock. */
static void in_child(void)
{
	size_t missing = 0;
	int error = 0;

	for (uint32_t i = 0; i < npieces; i++) {
		const struct piece *p = &pieces[i];

		/* Inherited after all if the application used MADV_DOFORK. */
		if (!p->is_taken && !p->copy)
			munmap(p->at, p->len);
		if (!p->copy ||
		    mremap(p->copy, p->len, p->len,
			   MREMAP_MAYMOVE | MREMAP_FIXED, p->at) == p->at)
			continue;
		missing += p->len;
		error = errno;
		munmap(p->copy, p->len);
		munmap(p->at, p->len);
	}
	if (missing)
		ur_err("%zu bytes of the parent's shared memory are missing here, to use them faults: %s",
		       missing, strerror(error));
	ur_share_drop_all();
	ur_share_threads_forget(); /* the child has none of them */
	after_fork();
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}
