/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turn itself: copy the pages to a memfd, map that over them.  What must
 * not happen in between is a write to the old pages.  So while we are here
 *
 *   - the application's only thread is ours, with all signals blocked;
 *   - every lane is held by the caller;
 *   - peers are shut out of the export, and have left;
 *   - nothing of the kernel writes to this process (share_check.c).
 */
#include "reach/share.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "reach/internal.h"
#include "reach/share_internal.h"

/* Room for mremap() to grow a mapping into fresh pages, as it could before. */
#define FILE_BYTES (1LL << 40)

static bool switched_on(void)
{
	static _Atomic int on = -1;

	if (on < 0) {
		const char *env = getenv("URNIC_SHARE");

		on = !env || strcmp(env, "0") != 0;
	}
	return on;
}

bool ur_share_allowed(uint64_t length)
{
	return length > 0 && length <= UR_SHARE_MAX && switched_on();
}

bool ur_share_wished(const struct ur_export *e)
{
	return e && atomic_load_explicit(&e->nwishes, memory_order_relaxed);
}

void ur_share_wish(struct ur_export *own, uint32_t key, uint64_t seq)
{
	uint32_t n = atomic_load(&own->nwishes);

	if (n < UR_SHARE_WISHES) {
		own->wish[n] = (struct ur_wish){ key, seq };
		atomic_store(&own->nwishes, n + 1);
	}
}

static bool write_all(int fd, uint64_t from, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, (void *)(uintptr_t)(from + done),
				   len - done, (off_t)done);

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/*
 * The kernel may have taken the old pages away before it failed, so they are
 * put back; if that fails too, the application's memory is lost.
 */
static void put_back(int fd, uint64_t at, size_t len)
{
	void *p = mmap((void *)(uintptr_t)at, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (p == MAP_FAILED || pread(fd, p, len, 0) != (ssize_t)len) {
		ur_err("memory at %p is lost: %s", (void *)(uintptr_t)at,
		       strerror(errno));
		abort();
	}
}

static bool convert(uint64_t at, uint64_t end)
{
	size_t len = (size_t)(end - at);
	int fd = memfd_create(UR_SHARE_NAME, MFD_CLOEXEC);

	if (fd < 0)
		return false;
	if (!ur_reach_file_limit(FILE_BYTES) || ftruncate(fd, FILE_BYTES) ||
	    !write_all(fd, at, len) || !ur_share_keep(fd, len)) {
		close(fd);
		return false;
	}
	if (mmap((void *)(uintptr_t)at, len, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED) {
		put_back(fd, at, len);
		return false;
	}
	return true;
}

/* A new registration, which peers ask about anew; own->lock. */
static void renew(struct ur_export *e, struct ur_seg_entry *at,
		  struct ur_seg_entry *is)
{
	is->mr.served = 0;
	ur_seg_drop(at);
	ur_seg_put(&e->seg->mrs, is);
}

static void grant(struct ur_export *e, const struct ur_wish *w)
{
	const uint64_t page = UR_SHARE_PAGE;
	struct ur_seg_entry is;
	const struct ur_seg_entry *found =
		ur_seg_find(&e->seg->mrs, w->key, &is);
	uint64_t at, end;

	if (!found || is.seq != w->seq || !ur_share_allowed(is.mr.length) ||
	    is.access & UR_ACCESS_ON_DEMAND)
		return;
	at = is.mr.addr;
	end = at + is.mr.length;
	/* Whole pages only: what else stood there might be ours, and a thread
	 * of ours that waits for a lane writes to its memory even so. */
	if (at % page || end % page)
		return;
	if (ur_share_bytes() + (end - at) > UR_SHARE_TOTAL ||
	    !ur_share_range_ok(at, end) || !convert(at, end))
		return;
	renew(e, &e->seg->mrs.slot[found - e->seg->mrs.slot], &is);
	ur_debug("%llu bytes at %#llx are shared memory now",
		 (unsigned long long)(end - at), (unsigned long long)at);
}

static void grant_all(struct ur_export *e)
{
	uint32_t n = atomic_load(&e->nwishes);

	if (ur_reach_shut_all(e))
		for (uint32_t i = 0; i < n; i++)
			grant(e, &e->wish[i]);
	ur_reach_open_all(e);
}

void ur_share_do(struct ur_export *e)
{
	sigset_t all, old;

	if (!e || e->forks != ur_reach_forks())
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ur_share_lock();
	ur_lock(&e->lock);
	if (ur_share_process_ok())
		grant_all(e);
	atomic_store(&e->nwishes, 0);
	ur_unlock(&e->lock);
	ur_share_unlock();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
