/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/export.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/memfile.h"
#include "base/rng.h"
#include "base/sys.h"
#include "shm/direct_internal.h"
#include "shm/share_internal.h"

/* Rights that a peer can use without the target. */
#define REMOTE                                                                 \
	(UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ |                      \
	 UR_ACCESS_REMOTE_ATOMIC)

_Atomic unsigned int ur_direct_forked;

static void forked_child(void)
{
	atomic_fetch_add(&ur_direct_forked, 1);
}

UR_FORK_CHILD(forked_child)

bool ur_direct_file_limit(uint64_t bytes)
{
	struct rlimit r;

	return getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur >= bytes;
}

/*
 * Sealed against resizing, so that readers never fault, and against writing by
 * any but the existing mapping.
 */
static struct ur_seg *segment_make(int fd)
{
	struct ur_seg *seg;

	if (!ur_direct_file_limit(sizeof(*seg)) || ftruncate(fd, sizeof(*seg)))
		return NULL;
	seg = mmap(NULL, sizeof(*seg), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (seg == MAP_FAILED)
		return NULL;
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE |
			  F_SEAL_SEAL)) {
		munmap(seg, sizeof(*seg));
		return NULL;
	}
	madvise(seg, sizeof(*seg), MADV_DONTDUMP);
	return seg;
}

/* Of this process and, in a child, of its parent; ur_share_lock(). */
static struct ur_list exports = { &exports, &exports };

struct ur_export *ur_export_create(void)
{
	struct ur_export *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->fd = ur_memfd("urnic-export");
	if (e->fd < 0)
		goto free_export;
	e->seg = segment_make(e->fd);
	if (!e->seg)
		goto close_fd;
	e->forks = ur_direct_forks();
	ur_list_init(&e->peers);
	ur_lock_init(&e->lock);
	ur_rng_secret(e->nonce, sizeof(e->nonce));
	e->seg->nonce[0] = e->nonce[0];
	e->seg->nonce[1] = e->nonce[1];
	e->seg->nonce_addr = (uintptr_t)e->nonce;
	e->seg->magic = UR_SEG_MAGIC;
	ur_share_lock();
	ur_list_add_tail(&exports, &e->node);
	e->seg->whole = ur_guard_is_whole();
	ur_share_unlock();
	return e;

close_fd:
	close(e->fd);
free_export:
	free(e);
	return NULL;
}

void ur_export_free(struct ur_export *e)
{
	if (!e)
		return;
	ur_share_lock();
	ur_list_del(&e->node);
	ur_share_unlock();
	munmap(e->seg, sizeof(*e->seg));
	close(e->fd);
	ur_lock_fini(&e->lock);
	free(e);
}

int ur_export_fd(const struct ur_export *e)
{
	return e ? e->fd : -1;
}

/* False in a child of fork(): the parent's exports are not its own. */
static bool is_ours(const struct ur_export *e)
{
	return e && e->forks == ur_direct_forks();
}

void ur_export_set_whole(void)
{
	if (ur_guard_is_whole())
		return;
	ur_share_lock();
	ur_guard_set_whole();
	ur_list_each(struct ur_export, e, &exports, node)
		if (is_ours(e))
			e->seg->whole = 1;
	ur_share_unlock();
}

static uint64_t peer_word(const struct ur_direct *r)
{
	return atomic_load(&r->shared->inside[!r->side].value);
}

/* Checks of a peer that is inside before it is waited for: microseconds. */
#define LOOKS 100u

/*
 * Is the peer in our memory for longer than a small piece takes?  Its word need
 * not become even: a change is enough, since a later operation finds the entry
 * removed.
 */
static bool is_inside(const struct ur_direct *r, uint64_t *was)
{
	*was = peer_word(r);
	if (!(*was & 1) || r->expelled)
		return false;
	for (unsigned int i = 0; i < LOOKS; i++) {
		if (peer_word(r) != *was)
			return false;
	}
	return true;
}

/*
 * The peer may need this processor, so yield at first; after that it is one
 * that does not run.  Sleeps: not under a lane's lock.
 */
static bool has_left(const struct ur_direct *r, uint64_t was)
{
	const struct timespec nap = { .tv_nsec = 100000 };
	uint64_t until = 0;

	for (unsigned int i = 0; peer_word(r) == was; i++) {
		if (i < 1000) {
			sched_yield();
			continue;
		}
		if (ur_direct_is_gone(r))
			return true;
		if (until == 0)
			until = ur_clock_ns() + UR_EXPORT_PATIENCE_NS;
		else if (ur_clock_ns() > until)
			return false;
		ur_sys_nanosleep(&nap);
	}
	return true;
}

static void expel(struct ur_direct *r)
{
	if (r->expelled)
		return;
	r->expelled = true;
	atomic_store(&r->shared->shut[r->side].value, 1);
	ur_warn("process %d is stuck in our memory: no longer waited for",
		(int)r->pid);
}

void ur_direct_wait_out(struct ur_direct *r)
{
	uint64_t was;
	bool left;

	if (!is_inside(r, &was))
		return;
	/* Lanes take the lock: they must not wait for that peer as well. */
	r->waiters++;
	ur_unlock(&r->own->lock);
	left = has_left(r, was);
	ur_lock(&r->own->lock);
	r->waiters--;
	if (!left)
		expel(r);
}

static void wait_out_locked(struct ur_export *e)
{
	ur_list_each(struct ur_direct, r, &e->peers, node)
		ur_direct_wait_out(r);
}

static bool any_inside_locked(struct ur_export *e)
{
	uint64_t was;

	ur_list_each(struct ur_direct, r, &e->peers, node)
		if (is_inside(r, &was))
			return true;
	return false;
}

bool ur_direct_shut_all(struct ur_export *own, bool patient)
{
	bool all = true;

	ur_list_each(struct ur_direct, r, &own->peers, node) {
		uint64_t was;

		atomic_exchange(&r->shared->shut[r->side].value, 1);
		if (is_inside(r, &was) && !(patient && has_left(r, was))) {
			all = false;
			if (patient)
				expel(r);
		}
		all = all && !r->expelled;
	}
	return all;
}

void ur_direct_open_all(struct ur_export *own)
{
	ur_list_each(struct ur_direct, r, &own->peers, node)
		if (!r->expelled)
			atomic_store(&r->shared->shut[r->side].value, 0);
}

static void forget_locked(struct ur_export *e, const struct ur_seg_entry *is)
{
	ur_list_each(struct ur_direct, r, &e->peers, node)
		if (r->forget_lost || !ur_msg_forget(r, is))
			r->forget_lost = !ur_msg_forget(r, NULL);
}

/* Only this process writes the segment, so its contents are trusted. */
static struct ur_seg_entry *find_own(struct ur_seg_table *t, uint32_t key,
				     struct ur_seg_entry *copy)
{
	const struct ur_seg_entry *e = ur_seg_find(t, key, copy);

	return e ? &t->slot[e - t->slot] : NULL;
}

void ur_export_mr_add(struct ur_export *e, const struct ur_mr *mr)
{
	struct ur_seg_entry entry = {
		.key = mr->key,
		.access = mr->access,
		.pd = (uintptr_t)mr->pd,
		.mr = { .iova = mr->iova,
			.length = mr->length,
			.addr = (uintptr_t)mr->addr },
	};
	const struct ur_seg_entry *at;

	if (!is_ours(e) || mr->kind == UR_MR_NULL || mr->kind == UR_MR_REMOTE ||
	    mr->kind == UR_MR_INDIRECT || mr->window)
		return;
	ur_lock(&e->lock);
	at = ur_seg_put(&e->seg->mrs, &entry);
	if (at && mr->kind == UR_MR_MEMORY && (mr->access & REMOTE))
		ur_share_note(e, at);
	ur_unlock(&e->lock);
}

void ur_export_mr_remove(struct ur_export *e, const struct ur_mr *mr)
{
	struct ur_seg_entry copy, *at;

	if (!is_ours(e))
		return;
	ur_lock(&e->lock);
	at = find_own(&e->seg->mrs, mr->key, &copy);
	if (at) {
		ur_seg_drop(at);
		wait_out_locked(e);
		if (copy.mr.served)
			forget_locked(e, &copy);
	}
	ur_unlock(&e->lock);
}

bool ur_exports_shut(void)
{
	bool all = true;

	ur_list_each(struct ur_export, e, &exports, node) {
		if (!is_ours(e))
			continue;
		ur_lock(&e->lock);
		all = ur_direct_shut_all(e, true) && all;
	}
	return all;
}

void ur_exports_open(void)
{
	ur_list_each(struct ur_export, e, &exports, node) {
		if (!is_ours(e))
			continue;
		ur_direct_open_all(e);
		ur_unlock(&e->lock);
	}
}

/* The same region under a new sequence number. */
static void renew_served(struct ur_export *e, struct ur_seg_entry *at)
{
	struct ur_seg_entry is;

	if (!ur_seg_find(&e->seg->mrs, at->key, &is))
		return;
	ur_seg_drop(at);
	forget_locked(e, &is);
	is.mr.served = 0;
	ur_seg_put(&e->seg->mrs, &is);
}

void ur_exports_reverted(uint64_t at, uint64_t end)
{
	ur_list_each(struct ur_export, e, &exports, node) {
		uint32_t n = is_ours(e) ? ur_seg_used(&e->seg->mrs) : 0;

		for (uint32_t i = 0; i < n; i++) {
			struct ur_seg_entry *is = &e->seg->mrs.slot[i];

			if (is->key != 0 && is->mr.served &&
			    is->mr.addr < end &&
			    is->mr.addr + is->mr.length > at)
				renew_served(e, is);
		}
	}
}

void ur_export_mr_replace(struct ur_export *e, const struct ur_mr *old,
			  const struct ur_mr *mr)
{
	ur_export_mr_remove(e, old);
	ur_export_mr_add(e, mr);
}

/* An entry that says the same already is left alone. */
static bool qp_is(const struct ur_seg_entry *a, const struct ur_seg_entry *b)
{
	return a->access == b->access && a->pd == b->pd &&
	       a->qp.dest_qpn == b->qp.dest_qpn;
}

void ur_export_qp_set(struct ur_export *e, uint32_t qpn, const struct ur_pd *pd,
		      uint32_t access, uint32_t dest_qpn, bool open)
{
	struct ur_seg_entry entry = {
		.key = qpn,
		.access = access & REMOTE,
		.pd = (uintptr_t)pd,
		.qp = { .dest_qpn = dest_qpn },
	};
	struct ur_seg_entry copy, *at;

	if (!is_ours(e))
		return;
	ur_lock(&e->lock);
	at = find_own(&e->seg->qps, qpn, &copy);
	if (at && open && qp_is(&copy, &entry))
		goto unlock;
	if (at) {
		ur_seg_drop(at);
		if (any_inside_locked(e))
			e->gone++;
	}
	if (open)
		ur_seg_put(&e->seg->qps, &entry);
unlock:
	ur_unlock(&e->lock);
}

void ur_export_settle(struct ur_export *e)
{
	uint64_t gone;

	if (!is_ours(e))
		return;
	ur_lock(&e->lock);
	gone = e->gone;
	if (e->settled < gone) {
		wait_out_locked(e);
		e->settled = e->settled < gone ? gone : e->settled;
	}
	ur_unlock(&e->lock);
}
