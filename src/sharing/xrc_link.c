/* SPDX-License-Identifier: BSD-2-Clause */
#include "sharing/xrc_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "engine/hooks.h"
#include "engine/internal.h"

#define EVENTS	    16
#define BURST	    16
#define RECORDS_MAX 1024u
#define BUSY_MS	    20
#define ABSENT_NS   1000000000ull /* so long it is not asked again */

/* A record that waits for room. */
struct record {
	struct ur_list node;
	size_t len;
	uint8_t data[];
};

struct want {
	struct ur_list node;
	struct ur_xrc_file file;
	uint32_t slot;
	struct ur_adapter *adapter;
	bool absent;
	uint64_t at_ns;
};

struct ur_xrc_state ur_xrc = {
	.lock = { PTHREAD_MUTEX_INITIALIZER },
	.domains = { &ur_xrc.domains, &ur_xrc.domains },
	.links = { &ur_xrc.links, &ur_xrc.links },
	.wants = { &ur_xrc.wants, &ur_xrc.wants },
	.calls = { &ur_xrc.calls, &ur_xrc.calls },
	.epfd = -1,
	.wake_fd = -1,
};

static uint8_t inbox[UR_XRC_MAX]; /* the thread's */

static void wake(void)
{
	ur_event_signal(ur_xrc.wake_fd);
}

struct ur_xrc_domain *ur_xrc_domain_find(const struct ur_xrc_file *file)
{
	ur_list_each(struct ur_xrc_domain, d, &ur_xrc.domains, node)
		if (ur_xrc_file_equal(&d->file, file))
			return d;
	return NULL;
}

struct ur_xrc_link *ur_xrc_link_to(const struct ur_xrc_file *file,
				   uint32_t slot)
{
	ur_list_each(struct ur_xrc_link, l, &ur_xrc.links, node)
		if (!l->doomed && l->slot == slot &&
		    ur_xrc_file_equal(&l->file, file))
			return l;
	return NULL;
}

struct ur_xrc_link *ur_xrc_link_get(uint32_t via)
{
	ur_list_each(struct ur_xrc_link, l, &ur_xrc.links, node)
		if (l->via == via)
			return l;
	return NULL;
}

void ur_xrc_doom(struct ur_xrc_link *l)
{
	l->doomed = true;
	wake();
}

static void watch(const struct ur_xrc_link *l, int op)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = l->via };

	if (!ur_list_empty(&l->records))
		ev.events |= EPOLLOUT;
	(void)epoll_ctl(ur_xrc.epfd, op, l->fd, &ev);
}

static int keep(struct ur_xrc_link *l, const uint8_t *head, const void *body,
		size_t len)
{
	struct record *n = l->nrecords < RECORDS_MAX
				   ? malloc(sizeof(*n) + UR_XRC_HEAD + len)
				   : NULL;

	if (!n) {
		ur_xrc_doom(l);
		return -EIO;
	}
	n->len = UR_XRC_HEAD + len;
	memcpy(n->data, head, UR_XRC_HEAD);
	if (len)
		memcpy(n->data + UR_XRC_HEAD, body, len);
	ur_list_add_tail(&l->records, &n->node);
	if (l->nrecords++ == 0)
		watch(l, EPOLL_CTL_MOD);
	return 0;
}

static bool is_full(int err)
{
	return err == EAGAIN || err == ENOBUFS || err == ENOMEM || err == EINTR;
}

int ur_xrc_send(struct ur_xrc_link *l, const struct ur_xrc_head *h,
		const void *body, size_t len, bool must)
{
	uint8_t head[UR_XRC_HEAD];
	struct ur_wr w = ur_wr_init(head, sizeof(head));
	struct iovec iov[2] = {
		{ .iov_base = head, .iov_len = sizeof(head) },
		{ .iov_base = (void *)(uintptr_t)body, .iov_len = len },
	};
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = len ? 2 : 1 };

	if (!l || l->doomed)
		return -EIO;
	ur_xrc_put_head(&w, h);
	if (ur_list_empty(&l->records)) {
		if (ur_sys_sendmsg(l->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) >=
		    0)
			return 0;
		/* The thread notices as well that it has ended. */
		if (!is_full(errno))
			return -EIO;
	}
	return must ? keep(l, head, body, len) : -EAGAIN;
}

static void flush(struct ur_xrc_link *l)
{
	ur_list_each_safe(struct record, n, &l->records, node) {
		if (ur_sys_send(l->fd, n->data, n->len,
				MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		    is_full(errno))
			return;
		ur_list_del(&n->node);
		l->nrecords--;
		free(n);
	}
	watch(l, EPOLL_CTL_MOD);
}

int ur_xrc_link_add(const struct ur_xrc_file *file, uint32_t slot, int fd)
{
	struct ur_xrc_link *l = calloc(1, sizeof(*l));
	const struct ur_xrc_domain *d;

	ur_lock(&ur_xrc.lock);
	d = ur_xrc_domain_find(file);
	if (!l || !d) {
		ur_unlock(&ur_xrc.lock);
		free(l);
		close(fd);
		return d ? -ENOMEM : -ENOENT;
	}
	l->via = ++ur_xrc.last_via;
	l->fd = fd;
	l->file = *file;
	l->slot = slot;
	l->adapter = d->adapter;
	ur_list_init(&l->records);
	ur_list_add_tail(&ur_xrc.links, &l->node);
	watch(l, EPOLL_CTL_ADD);
	ur_unlock(&ur_xrc.lock);
	return 0;
}

static void fail_calls(uint32_t via)
{
	ur_list_each(struct ur_xrc_call, c, &ur_xrc.calls, node) {
		if (c->via != via || c->done)
			continue;
		c->err = -EIO;
		c->done = true;
	}
	pthread_cond_broadcast(&ur_xrc.replied);
}

/* Delegations use a link and end with it. */
static void tell_lanes(struct ur_adapter *a, uint32_t via)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);
		uint64_t now = ur_clock_ns();

		if (!l->roce)
			continue;
		ur_lane_lock(l);
		ur_roce_link_gone(l->roce, via, now);
		ur_lane_send(l, now);
		ur_lane_unlock(l);
	}
}

static void link_close(uint32_t via)
{
	struct ur_xrc_link *l;

	ur_lock(&ur_xrc.lock);
	l = ur_xrc_link_get(via);
	if (l) {
		ur_list_del(&l->node);
		fail_calls(via);
	}
	ur_unlock(&ur_xrc.lock);
	if (!l)
		return;
	close(l->fd); /* leaves epfd by itself */
	ur_list_each_safe(struct record, r, &l->records, node)
		free(r);
	tell_lanes(l->adapter, via);
	ur_xrc.hooks->gone(via);
	free(l);
}

/* False: the link has ended, or ought to. */
static bool read_link(const struct ur_xrc_link *l)
{
	for (int i = 0; i < BURST; i++) {
		ssize_t n = ur_sys_recv(l->fd, inbox, sizeof(inbox),
					MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (n == 0 || (size_t)n > sizeof(inbox) ||
		    !ur_xrc_message(l, inbox, (size_t)n))
			return false;
	}
	return true;
}

static void link_ready(uint32_t via, uint32_t events)
{
	struct ur_xrc_link *l, copy;

	ur_lock(&ur_xrc.lock);
	l = ur_xrc_link_get(via);
	if (l && (events & EPOLLOUT))
		flush(l);
	if (l)
		copy = *l;
	ur_unlock(&ur_xrc.lock);
	if (l && !read_link(&copy))
		link_close(via);
}

static void close_doomed(void)
{
	for (;;) {
		uint32_t via = 0;

		ur_lock(&ur_xrc.lock);
		ur_list_each(const struct ur_xrc_link, l, &ur_xrc.links, node)
			if (l->doomed)
				via = l->via;
		ur_unlock(&ur_xrc.lock);
		if (!via)
			return;
		link_close(via);
	}
}

int ur_xrc_want(struct ur_adapter *a, const struct ur_xrc_file *file,
		uint32_t slot)
{
	uint64_t now = ur_clock_ns();
	struct want *w;

	ur_list_each_safe(struct want, old, &ur_xrc.wants, node) {
		if (old->slot != slot || !ur_xrc_file_equal(&old->file, file))
			continue;
		if (!old->absent)
			return -EAGAIN;
		if (now - old->at_ns < ABSENT_NS)
			return -ENOENT;
		ur_list_del(&old->node);
		free(old);
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return -EAGAIN;
	w->file = *file;
	w->slot = slot;
	w->adapter = a;
	ur_list_add_tail(&ur_xrc.wants, &w->node);
	wake();
	return -EAGAIN;
}

/* One that is not answered yet, taken out; those of long ago are forgotten. */
static struct want *next_want(void)
{
	uint64_t now = ur_clock_ns();
	struct want *found = NULL;

	ur_lock(&ur_xrc.lock);
	ur_list_each_safe(struct want, w, &ur_xrc.wants, node) {
		if (w->absent && now - w->at_ns >= ABSENT_NS) {
			ur_list_del(&w->node);
			free(w);
		} else if (!w->absent && !found) {
			found = w;
		}
	}
	ur_unlock(&ur_xrc.lock);
	return found;
}

/* The thread alone removes wants that are not absent. */
static void settle_want(struct want *w, int err)
{
	ur_lock(&ur_xrc.lock);
	if (err) {
		w->absent = true;
		w->at_ns = ur_clock_ns();
	} else {
		ur_list_del(&w->node);
		free(w);
	}
	ur_unlock(&ur_xrc.lock);
}

/* How long to sleep: urnicd was not ready for some, or for ever. */
static int serve_wants(void)
{
	struct want *w;

	while ((w = next_want())) {
		int fd, err = ur_client_xrc_link(w->adapter->client, &w->file,
						 w->slot, &fd);

		if (err == -EBUSY)
			return BUSY_MS;
		if (!err)
			err = ur_xrc_link_add(&w->file, w->slot, fd);
		settle_want(w, err);
	}
	return -1;
}

static void *thread_main(void *arg)
{
	struct epoll_event ev[EVENTS];
	uint64_t count;
	int ms = -1;

	for (;;) {
		int n = epoll_wait(ur_xrc.epfd, ev, EVENTS, ms);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.u32)
				link_ready(ev[i].data.u32, ev[i].events);
			else
				(void)!read(ur_xrc.wake_fd, &count,
					    sizeof(count));
		}
		close_doomed();
		ms = serve_wants();
	}
	return NULL;
}

static int open_fds(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int err;

	ur_xrc.epfd = epoll_create1(EPOLL_CLOEXEC);
	ur_xrc.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ur_xrc.epfd >= 0 && ur_xrc.wake_fd >= 0 &&
	    !epoll_ctl(ur_xrc.epfd, EPOLL_CTL_ADD, ur_xrc.wake_fd, &ev))
		return 0;
	err = -errno;
	if (ur_xrc.epfd >= 0)
		close(ur_xrc.epfd);
	if (ur_xrc.wake_fd >= 0)
		close(ur_xrc.wake_fd);
	return err;
}

static void init_cond(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&ur_xrc.replied, &attr);
	pthread_condattr_destroy(&attr);
}

int ur_xrc_start(const struct ur_xrc_hooks *hooks)
{
	pthread_t thread;
	int err = 0;

	ur_lock(&ur_xrc.lock);
	if (!ur_xrc.running) {
		ur_xrc.hooks = hooks;
		init_cond();
		err = open_fds();
		if (!err)
			err = ur_thread_start(&thread, "urnic-xrc", thread_main,
					      NULL);
		ur_xrc.running = !err;
	}
	ur_unlock(&ur_xrc.lock);
	return err;
}

void ur_xrc_before_fork(void)
{
	ur_lock(&ur_xrc.lock);
}

void ur_xrc_after_fork(void)
{
	ur_unlock(&ur_xrc.lock);
}

/* Or the others would not see the parent end. */
void ur_xrc_child(void)
{
	ur_list_each(struct ur_xrc_link, l, &ur_xrc.links, node)
		close(l->fd);
	if (ur_xrc.running) {
		close(ur_xrc.epfd);
		close(ur_xrc.wake_fd);
	}
	ur_xrc.running = false;
	ur_list_init(&ur_xrc.domains);
	ur_list_init(&ur_xrc.links);
	ur_list_init(&ur_xrc.wants);
	ur_list_init(&ur_xrc.calls);
	ur_lock_init(&ur_xrc.lock);
}
