/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When memory is converted. While pages are copied and replaced (share_copy.c),
 * nothing may write to the old ones. Therefore
 *
 *   - the application has only this thread, and its signals are blocked;
 *   - the caller holds every lane;
 *   - peers are excluded from the export, and have left;
 *   - the kernel does not write to this process (share_check.c).
 */
#include "shm/share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memfile.h"
#include "shm/direct_internal.h"
#include "shm/share_internal.h"

/*
 * Room for mremap() to grow a mapping into new pages, as with private memory.
 */
#define FILE_BYTES (1LL << 40)

/* "0", "65536", "256M"; false: something else. */
static bool parse_bytes(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *unit;
	uint64_t n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || *text < '0' || *text > '9')
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	if (*end && (!unit || end[1]))
		return false;
	for (; unit && unit >= units; unit--) {
		if (n > UINT64_MAX / 1024)
			return false;
		n *= 1024;
	}
	*out = n;
	return true;
}

/* The limit of URNIC_SHARE; 0: off. */
static uint64_t total(void)
{
	static _Atomic uint64_t bytes = UINT64_MAX;
	uint64_t n = atomic_load_explicit(&bytes, memory_order_relaxed);
	const char *env;

	if (n != UINT64_MAX)
		return n;
	n = UR_SHARE_TOTAL;
	env = getenv("URNIC_SHARE");
	if (env && !parse_bytes(env, &n))
		ur_warn("URNIC_SHARE=%s is no number of bytes: 1G it is", env);
	n = n < UINT64_MAX ? n : UINT64_MAX - 1;
	atomic_store(&bytes, n);
	return n;
}

bool ur_share_allowed(uint64_t length)
{
	return length > 0 && length <= total();
}

bool ur_share_requested(const struct ur_export *e)
{
	return e && atomic_load_explicit(&e->nrequests, memory_order_relaxed);
}

void ur_share_request(struct ur_export *own, uint32_t key, uint64_t seq)
{
	uint32_t n = atomic_load(&own->nrequests);

	if (n < UR_SHARE_REQUESTS) {
		own->requests[n] = (struct ur_share_req){ key, seq };
		atomic_store(&own->nrequests, n + 1);
	}
}

/* Sealed, since other processes map it, too. */
static bool convert(uint64_t at, uint64_t end, bool holes)
{
	int fd = ur_memfd(UR_SHARE_NAME);
	uint64_t done;

	if (fd < 0)
		return false;
	if (!ur_direct_file_limit(FILE_BYTES) || ftruncate(fd, FILE_BYTES) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    !ur_share_keep(fd, end - at)) {
		close(fd);
		return false;
	}
	done = ur_share_convert(fd, at, at, end, holes);
	if (done < end)
		ur_share_keep_less(fd, done - at);
	return done == end;
}

/* A new sequence number, so that peers ask again; own->lock. */
static void renew(struct ur_export *e, struct ur_seg_entry *at,
		  struct ur_seg_entry *is)
{
	is->mr.served = 0;
	ur_seg_drop(at);
	ur_seg_put(&e->seg->mrs, is);
}

static void grant(struct ur_export *e, const struct ur_share_req *w)
{
	const uint64_t page = UR_SHARE_PAGE;
	struct ur_seg_entry is;
	const struct ur_seg_entry *found =
		ur_seg_find(&e->seg->mrs, w->key, &is);
	uint64_t at, end;
	bool again;

	if (!found || is.seq != w->seq || !ur_share_allowed(is.mr.length) ||
	    is.access & UR_ACCESS_ON_DEMAND)
		return;
	at = is.mr.addr;
	end = at + is.mr.length;
	/*
	 * Whole pages only: the rest of a page may be memory of ours, and a
	 * thread of ours that waits for a lane may write to it.
	 */
	if (at % page || end % page)
		return;
	if (end - at > total() - ur_share_bytes() ||
	    !ur_share_range_ok(at, end, &again) ||
	    (again && ur_share_reverted > UR_SHARE_FORKS) ||
	    !convert(at, end, !again))
		return;
	renew(e, &e->seg->mrs.slot[found - e->seg->mrs.slot], &is);
	ur_debug("%llu bytes at %#llx are shared memory now",
		 (unsigned long long)(end - at), (unsigned long long)at);
}

static bool grant_all(struct ur_export *e, const struct ur_share_req *list,
		      uint32_t n)
{
	bool alone;

	if (!ur_share_process_ok())
		return false;
	alone = ur_direct_shut_all(e, false);
	for (uint32_t i = 0; alone && i < n; i++)
		grant(e, &list[i]);
	ur_direct_open_all(e);
	return true;
}

static void begin(struct ur_export *e, sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, old);
	ur_share_lock();
	ur_lock(&e->lock);
}

static void end(struct ur_export *e, const sigset_t *old)
{
	ur_unlock(&e->lock);
	ur_share_unlock();
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

void ur_share_do(struct ur_export *e)
{
	sigset_t old;

	if (!e || e->forks != ur_direct_forks())
		return;
	begin(e, &old);
	(void)grant_all(e, e->requests, atomic_load(&e->nrequests));
	atomic_store(&e->nrequests, 0);
	end(e, &old);
}

/* Drops the oldest: peers request it if they use it much. */
void ur_share_note(struct ur_export *own, const struct ur_seg_entry *mr)
{
	uint32_t n = atomic_load(&own->nfresh);

	if (!ur_share_allowed(mr->mr.length) ||
	    mr->access & UR_ACCESS_ON_DEMAND)
		return;
	if (n == UR_SHARE_FRESH)
		memmove(own->fresh, own->fresh + 1,
			--n * sizeof(own->fresh[0]));
	own->fresh[n] = (struct ur_share_req){ mr->key, mr->seq, mr->pd };
	atomic_store(&own->nfresh, n + 1);
}

bool ur_share_has_fresh(const struct ur_export *e)
{
	return e && atomic_load_explicit(&e->nfresh, memory_order_relaxed);
}

/* Remove the domain's regions from the list; how many. */
static uint32_t take_fresh(struct ur_export *e, const struct ur_pd *pd,
			   struct ur_share_req *out)
{
	uint32_t n = atomic_load(&e->nfresh), taken = 0, left = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (e->fresh[i].pd == (uintptr_t)pd)
			out[taken++] = e->fresh[i];
		else
			e->fresh[left++] = e->fresh[i];
	}
	atomic_store(&e->nfresh, left);
	return taken;
}

bool ur_share_offer(struct ur_export *e, const struct ur_pd *pd)
{
	struct ur_share_req list[UR_SHARE_FRESH];
	sigset_t old;
	uint32_t n;
	bool ok;

	if (!e || e->forks != ur_direct_forks())
		return true;
	begin(e, &old);
	n = take_fresh(e, pd, list);
	ok = n == 0 || grant_all(e, list, n);
	for (uint32_t i = 0; !ok && i < n; i++)
		e->fresh[atomic_fetch_add(&e->nfresh, 1)] = list[i];
	end(e, &old);
	return ok;
}

void ur_share_pass_over(struct ur_export *e, const struct ur_pd *pd)
{
	struct ur_share_req list[UR_SHARE_FRESH];

	if (!e || e->forks != ur_direct_forks())
		return;
	ur_lock(&e->lock);
	(void)take_fresh(e, pd, list);
	ur_unlock(&e->lock);
}
