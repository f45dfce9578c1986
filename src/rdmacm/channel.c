/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels.  The descriptor counts (EFD_SEMAPHORE).  A thread that queues
 * an event then adds a count; a taker first gets a count, so that O_NONBLOCK
 * works as the application wants, and then the oldest event.  So it is readable only while there is an event for each reader.
 *
 * On a shared core a thread that is woken often preempts the one that woke it.
 * So the count is added after urc_lock was released, or the taker would block
 * on it.  Until then the channel is `posting`, and no event may be taken
 * away.
 *
 * rdma_destroy_event_channel(3) promises nothing to a thread that takes events
 * at that time.  Over a kernel such a thread stays in its system call.  It is
 * the same for a thread that begins its call too late, as rping's does between
 * two events: it waits as if it had come in time.  Only the thread that
 * destroyed the channel, and a call that would not have blocked, get EBADF.
 * None of this may depend on what became of the channel's memory, so the last
 * channels are kept after their end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "rdmacm/id.h"
#include "verbs/convert.h"

/* Both of urc_lock. */
static pthread_cond_t acked_cond = PTHREAD_COND_INITIALIZER;
static pthread_cond_t posted_cond = PTHREAD_COND_INITIALIZER;

enum { ENDED_KEPT = 64 };

/* The last ones that were destroyed, oldest at `next`; of urc_lock. */
static struct {
	struct urc_channel *channel[ENDED_KEPT];
	uint32_t next;
} ended;

static struct urc_channel *urc_channel(const struct rdma_event_channel *ch)
{
	return (struct urc_channel *)(uintptr_t)ch;
}

/* Never readable: where takers wait that came after their channel's end. */
static int never_fd = -1;
static pthread_once_t never_once = PTHREAD_ONCE_INIT;

/* Takers of events read it without urc_lock; -1: `end` is set. */
static int fd_of(const struct urc_channel *c)
{
	return __atomic_load_n(&c->ch.fd, __ATOMIC_ACQUIRE);
}

static void add_counts(const struct urc_channel *c, uint64_t n)
{
	int fd = fd_of(c);

	if (n && ur_sys_write(fd, &n, sizeof(n)) != sizeof(n))
		ur_err("rdma_cm: cannot signal descriptor %d: errno %d", fd,
		       errno);
}

/* Take up to n counts off, without blocking whatever the descriptor's mode. */
static uint32_t take_counts(const struct urc_channel *c, uint32_t n)
{
	uint64_t count;
	struct iovec iov = { .iov_base = &count, .iov_len = sizeof(count) };
	uint32_t i;

	for (i = 0; i < n; i++)
		if (ur_sys_read_now(fd_of(c), &iov) < 0)
			break;
	return i;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct urc_channel *c;

	if (!urc_device(0))
		return urv_null(-ENODEV);
	c = calloc(1, sizeof(*c));
	if (!c)
		return urv_null(-ENOMEM);
	c->ch.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (c->ch.fd < 0) {
		free(c);
		return NULL;
	}
	c->generation = urc_generation;
	ur_list_init(&c->queue);
	return &c->ch;
}

/* Returns the one that has been kept for long enough, or NULL. */
static struct urc_channel *keep_locked(struct urc_channel *c)
{
	struct urc_channel **slot = &ended.channel[ended.next];
	struct urc_channel *oldest = *slot;

	*slot = c;
	ended.next = (ended.next + 1) % ENDED_KEPT;
	return oldest;
}

static void wait_posted_locked(const struct urc_channel *c)
{
	/* In a child of fork() they are the parent's, and never done. */
	while (c->posting && c->generation == urc_generation)
		pthread_cond_wait(&posted_cond, &urc_lock.m);
}

/*
 * There may be threads in read(2) of it, which stay there.  A function of its
 * own for scripts/tsan.supp.
 */
static __attribute__((noinline)) void close_under_readers(int fd)
{
	close(fd);
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct urc_channel *c = urc_channel(channel);
	struct urc_channel *oldest;
	int fd;

	ur_lock(&urc_lock);
	wait_posted_locked(c);
	if (c->end) {
		ur_unlock(&urc_lock);
		ur_err("rdma_cm: an event channel is destroyed twice");
		return;
	}
	fd = fd_of(c);
	c->end = true;
	c->destroyer = pthread_self();
	c->would_block = !(fcntl(fd, F_GETFL) & O_NONBLOCK);
	__atomic_store_n(&channel->fd, -1, __ATOMIC_RELEASE);
	oldest = keep_locked(c);
	ur_unlock(&urc_lock);
	close_under_readers(fd);
	/* Else it is lost: a thread still waits there. */
	if (oldest && !atomic_load(&oldest->takers))
		free(oldest);
}

void urc_channel_free(struct rdma_event_channel *channel)
{
	struct urc_channel *c = urc_channel(channel);

	ur_lock(&urc_lock);
	wait_posted_locked(c);
	ur_unlock(&urc_lock);
	close_under_readers(fd_of(c));
	free(c);
}

struct urc_event *urc_event_new(struct urc_id *owner, unsigned int type,
				int status)
{
	struct urc_event *e = calloc(1, sizeof(*e));

	if (!e) {
		ur_err("rdma_cm: no memory, event %u lost", type);
		return NULL;
	}
	e->ev.id = &owner->id;
	e->ev.event = (enum rdma_cm_event_type)type;
	e->ev.status = status;
	e->owner = owner;
	ur_list_init(&e->node);
	return e;
}

void urc_event_post(struct urc_event *e)
{
	struct urc_channel *c;

	ur_lock(&urc_lock);
	c = urc_channel(e->owner->id.channel);
	ur_list_add_tail(&c->queue, &e->node);
	if (c->end) {
		/* For the id's next channel, or its end. */
		ur_unlock(&urc_lock);
		return;
	}
	c->posting++;
	ur_unlock(&urc_lock);
	add_counts(c, 1);
	ur_lock(&urc_lock);
	if (--c->posting == 0)
		pthread_cond_broadcast(&posted_cond);
	ur_unlock(&urc_lock);
}

int urc_tell(struct urc_id *id, unsigned int type, int status)
{
	struct urc_event *e = urc_event_new(id, type, status);

	if (!e)
		return -ENOMEM;
	urc_event_post(e);
	return 0;
}

/* For a count: the oldest event; NULL: the count's has been taken away. */
static struct urc_event *take_locked(struct urc_channel *c)
{
	struct urc_event *e;

	if (c->stale) {
		c->stale--;
		return NULL;
	}
	if (ur_list_empty(&c->queue))
		return NULL; /* the application wrote to the descriptor */
	e = ur_container_of(c->queue.next, struct urc_event, node);
	ur_list_del(&e->node);
	e->owner->delivered++;
	if (e->mc)
		e->mc->delivered++;
	return e;
}

static void make_never(void)
{
	never_fd = eventfd(0, EFD_CLOEXEC);
}

/* The descriptor that a taker reads. */
static int waited_fd(const struct urc_channel *c)
{
	int fd = fd_of(c);

	if (fd >= 0 || !c->would_block ||
	    pthread_equal(c->destroyer, pthread_self()))
		return fd;
	pthread_once(&never_once, make_never);
	return never_fd;
}

static bool is_empty(const struct urc_channel *c)
{
	bool empty;

	ur_lock(&urc_lock);
	empty = ur_list_empty(&c->queue);
	ur_unlock(&urc_lock);
	return empty;
}

/* One count off, by a blocking read(2) where the CM thread's work is not this
 * thread's to do, or where an event is there already. */
static int wait_count(const struct urc_channel *c)
{
	uint64_t count;

	for (;;) {
		int rc = is_empty(c) ? ur_conn_wait(waited_fd(c)) : 0;
		int fd = waited_fd(c);

		if (rc < 0)
			return rc;
		if (rc && take_counts(c, 1))
			return 0;
		if (rc) /* another thread has taken it, or the channel ended */
			continue;
		if (read(fd, &count, sizeof(count)) >= 0)
			return 0;
		/* The channel ended before the call, which did not sleep. */
		if (errno != EBADF || waited_fd(c) == fd)
			return -errno;
	}
}

/* Also where the thread is cancelled. */
static void taker_leaves(void *channel)
{
	struct urc_channel *c = channel;

	atomic_fetch_sub(&c->takers, 1);
}

int urc_event_take(struct rdma_event_channel *channel, struct urc_event **out)
{
	struct urc_channel *c = urc_channel(channel);
	struct urc_event *e = NULL;
	int rc;

	if (c->generation != urc_generation)
		return -ENODEV;
	atomic_fetch_add(&c->takers, 1);
	pthread_cleanup_push(taker_leaves, c);
	do {
		rc = wait_count(c);
		ur_lock(&urc_lock);
		e = rc ? NULL : take_locked(c);
		ur_unlock(&urc_lock);
	} while (!rc && !e);
	pthread_cleanup_pop(true);
	*out = e;
	return rc;
}

void urc_event_done(struct urc_event *e)
{
	ur_lock(&urc_lock);
	e->owner->acked++;
	if (e->mc)
		e->mc->acked++;
	pthread_cond_broadcast(&acked_cond);
	ur_unlock(&urc_lock);
	free(e);
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event)
		return urv_minus_one(-EINVAL);
	urc_event_done(ur_container_of(event, struct urc_event, ev));
	return 0;
}

void urc_event_drain(const uint32_t *delivered, const uint32_t *acked)
{
	ur_lock(&urc_lock);
	while (*delivered != *acked)
		pthread_cond_wait(&acked_cond, &urc_lock.m);
	ur_unlock(&urc_lock);
}

/*
 * The id's (or group's) events of a channel's queue become those of `to`, and
 * their counts go.  Takers have read some already: for each of these the next
 * taker gets no event, since counts are alike.  Returns how many there were.
 */
static uint32_t move_locked(struct urc_channel *c, struct urc_id *id,
			    const struct urc_mc *mc, struct ur_list *to)
{
	uint32_t n = 0;

	while (c->posting)
		pthread_cond_wait(&posted_cond, &urc_lock.m);
	ur_list_each_safe(struct urc_event, e, &c->queue, node) {
		if (e->owner != id || (mc && e->mc != mc))
			continue;
		ur_list_del(&e->node);
		ur_list_add_tail(to, &e->node);
		n++;
	}
	if (!c->end) /* else counts no longer matter */
		c->stale += n - take_counts(c, n);
	return n;
}

void urc_event_forget(struct urc_id *id, const struct urc_mc *mc)
{
	struct ur_list list;

	ur_list_init(&list);
	ur_lock(&urc_lock);
	(void)move_locked(urc_channel(id->id.channel), id, mc, &list);
	ur_unlock(&urc_lock);
	ur_list_each_safe(struct urc_event, e, &list, node) {
		ur_list_del(&e->node);
		if (e->ev.id != &id->id)
			urc_id_abandon(urc_id(e->ev.id));
		free(e);
	}
}

void urc_event_migrate(struct urc_id *id, struct rdma_event_channel *to)
{
	struct urc_channel *old = urc_channel(id->id.channel);
	struct urc_channel *c = urc_channel(to);
	uint32_t n;

	if (c == old)
		return;
	ur_lock(&urc_lock);
	n = move_locked(old, id, NULL, &c->queue);
	if (!c->end)
		add_counts(c, n);
	id->id.channel = to;
	ur_unlock(&urc_lock);
}
