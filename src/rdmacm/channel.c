/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels.  The descriptor is an eventfd that is readable exactly while
 * events are queued: who queues one adds to its counter, which is a new edge
 * for epoll too; who takes the last one clears the counter.  A taker that
 * finds nothing reads the descriptor, so that O_NONBLOCK and signals work as
 * the application wants; that clears the counter, and if events are left
 * behind the one it takes it sets it again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "rdmacm/id.h"
#include "verbs/convert.h"

static pthread_cond_t acked_cond = PTHREAD_COND_INITIALIZER; /* urc_lock */

static struct urc_channel *urc_channel(const struct rdma_event_channel *ch)
{
	return (struct urc_channel *)(uintptr_t)ch;
}

/* Not write(3), which is a cancellation point. */
static void signal_fd(const struct urc_channel *c)
{
	uint64_t one = 1;

	if (syscall(SYS_write, c->ch.fd, &one, sizeof(one)) != sizeof(one))
		ur_err("rdma_cm: cannot signal descriptor %d: errno %d",
		       c->ch.fd, errno);
}

/* Without blocking, whatever the descriptor's mode is. */
static void clear_fd(const struct urc_channel *c)
{
	uint64_t count;
	struct iovec iov = { .iov_base = &count, .iov_len = sizeof(count) };

	(void)!preadv2(c->ch.fd, &iov, 1, -1, RWF_NOWAIT);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct urc_channel *c;

	if (!urc_device(0))
		return urv_null(-ENODEV);
	c = calloc(1, sizeof(*c));
	if (!c)
		return urv_null(-ENOMEM);
	c->ch.fd = eventfd(0, EFD_CLOEXEC);
	if (c->ch.fd < 0) {
		free(c);
		return NULL;
	}
	c->generation = urc_generation;
	ur_list_init(&c->queue);
	return &c->ch;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(urc_channel(channel));
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

	pthread_mutex_lock(&urc_lock);
	c = urc_channel(e->owner->id.channel);
	ur_list_add_tail(&c->queue, &e->node);
	signal_fd(c);
	pthread_mutex_unlock(&urc_lock);
}

int urc_tell(struct urc_id *id, unsigned int type, int status)
{
	struct urc_event *e = urc_event_new(id, type, status);

	if (!e)
		return -ENOMEM;
	urc_event_post(e);
	return 0;
}

/* The oldest event, or NULL; `cleared`: the descriptor has been read. */
static struct urc_event *take_locked(struct urc_channel *c, bool cleared)
{
	struct urc_event *e;

	if (ur_list_empty(&c->queue))
		return NULL;
	e = ur_container_of(c->queue.next, struct urc_event, node);
	ur_list_del(&e->node);
	e->owner->delivered++;
	if (e->mc)
		e->mc->delivered++;
	if (ur_list_empty(&c->queue))
		clear_fd(c);
	else if (cleared)
		signal_fd(c);
	return e;
}

int urc_event_take(struct rdma_event_channel *channel, struct urc_event **out)
{
	struct urc_channel *c = urc_channel(channel);
	struct urc_event *e;
	bool cleared = false;
	uint64_t count;

	if (c->generation != urc_generation)
		return -ENODEV;
	for (;;) {
		pthread_mutex_lock(&urc_lock);
		e = take_locked(c, cleared);
		pthread_mutex_unlock(&urc_lock);
		if (e)
			break;
		if (read(c->ch.fd, &count, sizeof(count)) < 0)
			return -errno;
		cleared = true;
	}
	*out = e;
	return 0;
}

void urc_event_done(struct urc_event *e)
{
	pthread_mutex_lock(&urc_lock);
	e->owner->acked++;
	if (e->mc)
		e->mc->acked++;
	pthread_cond_broadcast(&acked_cond);
	pthread_mutex_unlock(&urc_lock);
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
	pthread_mutex_lock(&urc_lock);
	while (*delivered != *acked)
		pthread_cond_wait(&acked_cond, &urc_lock);
	pthread_mutex_unlock(&urc_lock);
}

/* The id's (or group's) events of a channel's queue become those of `to`. */
static void move_locked(struct urc_channel *c, struct urc_id *id,
			const struct urc_mc *mc, struct ur_list *to)
{
	ur_list_for_each_safe(n, tmp, &c->queue) {
		struct urc_event *e =
			ur_container_of(n, struct urc_event, node);

		if (e->owner != id || (mc && e->mc != mc))
			continue;
		ur_list_del(n);
		ur_list_add_tail(to, n);
	}
	if (ur_list_empty(&c->queue))
		clear_fd(c);
}

void urc_event_forget(struct urc_id *id, const struct urc_mc *mc)
{
	struct ur_list list;

	ur_list_init(&list);
	pthread_mutex_lock(&urc_lock);
	move_locked(urc_channel(id->id.channel), id, mc, &list);
	pthread_mutex_unlock(&urc_lock);
	ur_list_for_each_safe(n, tmp, &list) {
		struct urc_event *e =
			ur_container_of(n, struct urc_event, node);

		ur_list_del(n);
		if (e->ev.id != &id->id)
			urc_id_abandon(urc_id(e->ev.id));
		free(e);
	}
}

void urc_event_migrate(struct urc_id *id, struct rdma_event_channel *to)
{
	struct urc_channel *old = urc_channel(id->id.channel);
	struct urc_channel *c = urc_channel(to);
	bool was_empty;

	if (c == old)
		return;
	pthread_mutex_lock(&urc_lock);
	was_empty = ur_list_empty(&c->queue);
	move_locked(old, id, NULL, &c->queue);
	id->id.channel = to;
	if (was_empty && !ur_list_empty(&c->queue))
		signal_fd(c);
	pthread_mutex_unlock(&urc_lock);
}
