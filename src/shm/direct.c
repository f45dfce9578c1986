/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  The initiator makes its word in the channel's page odd,
 * with a full barrier, and only then reads the entries of queue pair and region
 * in the peer's segment.  The peer removes an entry, with a full barrier, and
 * only then reads the word.  So either the initiator finds the entry removed,
 * or the peer finds the initiator inside and waits until the word changes.
 * Between our own threads `in` and `busy` do the same; the same barrier serves
 * both.
 *
 * Nothing here decides that a request is wrong.  Whatever is not permitted, not
 * possible or unknown gives -EAGAIN, and the target decides.
 */
#include "shm/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/sys.h"
#include "shm/direct_internal.h"

static const struct ur_seg *segment_map(int fd)
{
	struct stat st;
	void *map;
	int seals = fcntl(fd, F_GET_SEALS);

	/* Without the seal the file could shrink, and reading it fault. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    st.st_size < (off_t)sizeof(struct ur_seg))
		return NULL;
	map = mmap(NULL, sizeof(struct ur_seg), PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return NULL;
	madvise(map, sizeof(struct ur_seg), MADV_DONTDUMP);
	return map;
}

static void segment_unmap(const struct ur_seg *seg)
{
	munmap((void *)(uintptr_t)seg, sizeof(*seg));
}

static void join_own(struct ur_direct *r)
{
	if (!r->own)
		return;
	ur_lock(&r->own->lock);
	ur_list_add_tail(&r->own->peers, &r->node);
	ur_unlock(&r->own->lock);
}

/* Nothing watches the peer afterwards, so it is excluded for good. */
static void leave_own(struct ur_direct *r)
{
	const struct timespec nap = { .tv_nsec = 100000 };

	if (!r->own)
		return;
	atomic_exchange(&r->shared->shut[r->side].value, 1);
	ur_lock(&r->own->lock);
	ur_direct_wait_out(r);
	while (r->waiters) {
		ur_unlock(&r->own->lock);
		ur_sys_nanosleep(&nap);
		ur_lock(&r->own->lock);
	}
	ur_list_del(&r->node);
	ur_unlock(&r->own->lock);
}

struct ur_direct *ur_direct_open(int export_fd, pid_t pid, int sock,
				 void *shared, unsigned int side,
				 struct ur_export *own)
{
	struct ur_direct *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->seg = segment_map(export_fd);
	if (!r->seg || r->seg->magic != UR_SEG_MAGIC)
		goto free_direct;
	r->shared = shared;
	r->side = side;
	r->inside = &r->shared->inside[side].value;
	r->shut = &r->shared->shut[!side].value;
	r->sock = sock;
	r->pid = pid;
	r->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	r->forks = ur_direct_forks();
	r->own = own;
	r->turn = 1;
	r->cma_allowed = true;
	r->cma_works = ur_cma_check(r);
	ur_list_init(&r->objects);
	join_own(r);
	return r;

free_direct:
	if (r->seg)
		segment_unmap(r->seg);
	free(r);
	return NULL;
}

void ur_direct_refuse(void *shared, unsigned int side)
{
	struct ur_direct_shared *s = shared;

	atomic_exchange(&s->shut[side].value, 1);
}

void ur_direct_close(struct ur_direct *r)
{
	if (!r)
		return;
	leave_own(r);
	ur_list_each_safe(struct ur_object, o, &r->objects, node) {
		o->refs = 1;
		ur_object_put(o);
	}
	if (r->pidfd >= 0)
		close(r->pidfd);
	segment_unmap(r->seg);
	free(r);
}

bool ur_direct_is_gone(const struct ur_direct *r)
{
	struct pollfd p[2] = { { .fd = r->sock, .events = POLLRDHUP },
			       { .fd = r->pidfd, .events = POLLIN } };

	if (ur_sys_poll(p, 2, 0) <= 0)
		return false;
	return p[0].revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL) ||
	       p[1].revents;
}

void ur_direct_allow_cma(struct ur_direct *r, bool yes)
{
	r->cma_allowed = yes;
}

const struct ur_direct_stats *ur_direct_stats(const struct ur_direct *r)
{
	return &r->stats;
}

void ur_direct_block(struct ur_direct *r)
{
	atomic_exchange(&r->busy, 1);
	while (atomic_load_explicit(&r->in, memory_order_acquire))
		sched_yield();
	r->turn++;
}

void ur_direct_unblock(struct ur_direct *r)
{
	atomic_store_explicit(&r->busy, 0, memory_order_release);
}

/* A position in a list of pieces. */
struct cursor {
	const struct iovec *iov;
	int n;
	size_t off; /* in *iov */
};

/* The next piece of at most `max` bytes; 0 at the end. */
static size_t cursor_take(struct cursor *c, size_t max, uint8_t **at)
{
	size_t size;

	while (c->n > 0 && c->off == c->iov->iov_len) {
		c->iov++;
		c->n--;
		c->off = 0;
	}
	if (c->n == 0)
		return 0;
	size = c->iov->iov_len - c->off;
	size = size < max ? size : max;
	*at = (uint8_t *)c->iov->iov_base + c->off;
	c->off += size;
	return size;
}

static int copy_mapped(const struct ur_direct *r, uint8_t *there,
		       struct cursor *c, size_t len, bool write)
{
	int (*copy)(void *, const void *, size_t) =
		ur_direct_is_whole(r) ? ur_guard_copy_whole : ur_guard_copy;

	while (len > 0) {
		uint8_t *here;
		size_t n = cursor_take(c, len, &here);

		if (n == 0 ||
		    (write ? copy(there, here, n) : copy(here, there, n)))
			return -EAGAIN;
		there += n;
		len -= n;
	}
	return 0;
}

static int copy_cma(struct ur_direct *r, uint64_t there, struct cursor *c,
		    size_t len, bool write)
{
	struct iovec iov[UR_DIRECT_PIECES];
	size_t sum = 0;
	int n = 0;

	while (sum < len && n < (int)UR_DIRECT_PIECES) {
		uint8_t *here;
		size_t size = cursor_take(c, len - sum, &here);

		if (size == 0)
			return -EAGAIN;
		iov[n++] = (struct iovec){ here, size };
		sum += size;
	}
	if (sum < len)
		return -EAGAIN;
	return write ? ur_cma_write(r, there, iov, n, len)
		     : ur_cma_read(r, there, iov, n, len);
}

/* May we load or store the bytes of the region? */
static bool can_map(const struct ur_view *v, bool write)
{
	return v->state == UR_VIEW_MAPPED && (!write || v->object->writable);
}

/* Move the first `size` bytes of what is left of the request. */
static int move_piece(struct ur_direct *r, const struct ur_op *op,
		      struct cursor *c, size_t size)
{
	bool write = op->access & UR_ACCESS_REMOTE_WRITE;
	const struct ur_view *v = ur_view_admit(r, op);
	uint64_t off;
	int rc;

	if (!v)
		return -EAGAIN;
	off = op->va - v->is.mr.iova;
	if (can_map(v, write)) {
		rc = copy_mapped(r, v->base + off, c, size, write);
		if (!write && !ur_view_still(r, op, v))
			rc = -EAGAIN;
		r->stats.mapped += rc == 0;
		return rc;
	}
	/* The kernel may copy half of an operand. */
	if (!v->plain || !r->cma_allowed || !r->cma_works ||
	    ur_direct_is_whole(r))
		return -EAGAIN;
	rc = copy_cma(r, v->is.mr.addr + off, c, size, write);
	if (!write && !ur_view_still(r, op, v))
		rc = -EAGAIN;
	r->stats.kernel += rc == 0;
	return rc;
}

/*
 * In pieces, so that the peer never waits long for us; but before the first one
 * the whole range is checked, as a responder does (IBTA 9.7.4.1.6). A request
 * of no bytes names no memory.
 */
static int move(struct ur_direct *r, struct ur_op op, const struct iovec *iov,
		int niov)
{
	struct cursor c = { .iov = iov, .n = niov };
	int rc = -EAGAIN;

	while (op.len > 0) {
		size_t n = op.len < UR_DIRECT_CHUNK ? op.len : UR_DIRECT_CHUNK;

		rc = -EAGAIN;
		if (!ur_direct_enter(r))
			break;
		rc = move_piece(r, &op, &c, n);
		if (!(op.access & UR_ACCESS_REMOTE_WRITE) &&
		    ur_direct_is_too_late(r))
			rc = -EAGAIN;
		ur_direct_leave(r);
		if (rc)
			break;
		op.va += n;
		op.len -= n;
	}
	if (rc)
		r->stats.again++;
	return rc;
}

int ur_direct_write(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		    uint32_t rkey, uint64_t va, const struct iovec *iov,
		    int niov, uint32_t len)
{
	const struct ur_op op = { dqpn, sqpn, rkey, UR_ACCESS_REMOTE_WRITE,
				  va,	len };

	return move(r, op, iov, niov);
}

int ur_direct_read(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		   uint32_t rkey, uint64_t va, const struct iovec *iov,
		   int niov, uint32_t len)
{
	const struct ur_op op = { dqpn, sqpn, rkey, UR_ACCESS_REMOTE_READ,
				  va,	len };

	return move(r, op, iov, niov);
}

/*
 * The watcher blocks operations only for microseconds, which a continuous
 * sequence of rendezvous is sure to meet, and every other way is more
 * expensive.  If it takes longer, the watcher waits for a processor: sleeping
 * leaves it ours, yielding would not if we have a real-time priority.
 */
#define GET_YIELDS 1000u
#define GET_NAPS   1000u
#define GET_NAP_NS 100000

bool ur_direct_wait(unsigned int turn)
{
	const struct timespec nap = { .tv_nsec = GET_NAP_NS };

	if (turn < GET_YIELDS)
		sched_yield();
	else
		ur_sys_nanosleep(&nap);
	return turn < GET_YIELDS + GET_NAPS;
}

int ur_direct_get(struct ur_direct *r, uint32_t sqpn, uint32_t dqpn,
		  uint32_t key, uint64_t va, const struct iovec *iov, int niov,
		  uint32_t len)
{
	const struct ur_op op = {
		ur_export_rndv_key(sqpn), dqpn, key, 0, va, len
	};

	r->blocked = false;
	if (!move(r, op, iov, niov))
		return 0;
	return r->blocked ? -EBUSY : -EAGAIN;
}

bool ur_direct_has_mapped(struct ur_direct *r, uint32_t rkey)
{
	bool yes;

	if (!ur_direct_enter(r))
		return false;
	yes = ur_view_is_mapped(r, rkey);
	ur_direct_leave(r);
	return yes;
}

bool ur_direct_is_asked(struct ur_direct *r, uint32_t rkey)
{
	bool yes;

	if (!ur_direct_enter(r))
		return false;
	yes = ur_view_is_asked(r, rkey);
	ur_direct_leave(r);
	return yes;
}
