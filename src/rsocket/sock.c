/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/sys.h"
#include "rsocket/config.h"
#include "rsocket/option.h"

enum {
	EVENTS = 8, /* descriptors of an rsocket that bring news */
};

static _Atomic unsigned int generation;

static void after_fork(void)
{
	atomic_fetch_add(&generation, 1);
	urs_fds_after_fork();
	urs_service_after_fork(&urs_cm_service);
	urs_service_after_fork(&urs_udp_service);
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

/* In the child of a fork() the rsockets of the parent are dead. */
static unsigned int fork_generation(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork);
	return atomic_load(&generation);
}

static void release(struct urs_ref *r)
{
	struct urs_sock *s = ur_container_of(r, struct urs_sock, ref);

	s->ops->free(s);
}

static void default_opts(struct urs_opts *o)
{
	const struct urs_config *c = urs_config();

	*o = (struct urs_opts){
		.sbuf_size = c->wmem,
		.rbuf_size = c->mem,
		.sbuf_fixed = c->wmem_fixed,
		.rbuf_fixed = c->mem_fixed,
		.sq_size = (uint16_t)c->sq_size,
		.rq_size = (uint16_t)c->rq_size,
		.inline_max = c->inline_max,
		.iomap_size = (uint16_t)c->iomap_size,
	};
	urs_kept_init(o);
}

int urs_sock_init(struct urs_sock *s, const struct urs_ops *ops, int domain,
		  int type)
{
	int rc;

	s->ref = (struct urs_ref){ .kind = URS_KIND_SOCK,
				   .count = 1,
				   .release = release };
	s->ops = ops;
	s->domain = domain;
	s->type = type;
	s->generation = fork_generation();
	s->in_news = 1;
	s->out_news = 1;
	s->flags = O_RDWR;
	s->fd = epoll_create1(0);
	if (s->fd < 0)
		return -errno;
	s->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->kick < 0) {
		rc = -errno;
		goto close_epoll;
	}
	rc = urs_sock_attach(s, s->kick);
	if (rc)
		goto close_kick;
	default_opts(&s->opts);
	ur_list_init(&s->watchers);
	ur_lock_init(&s->snd);
	ur_lock_init(&s->rcv);
	ur_lock_init(&s->lock);
	return 0;

close_kick:
	close(s->kick);
close_epoll:
	close(s->fd);
	return rc;
}

void urs_sock_fini(struct urs_sock *s)
{
	close(s->kick);
	close(s->fd);
	ur_lock_fini(&s->lock);
	ur_lock_fini(&s->rcv);
	ur_lock_fini(&s->snd);
}

struct urs_sock *urs_sock_get(int fd)
{
	struct urs_ref *r = urs_fds_get(fd, URS_KIND_SOCK);
	struct urs_sock *s;

	if (!r)
		return NULL;
	s = ur_container_of(r, struct urs_sock, ref);
	if (s->generation == fork_generation())
		return s;
	urs_fds_put(r);
	return NULL;
}

void urs_sock_put(struct urs_sock *s)
{
	urs_fds_put(&s->ref);
}

int urs_sock_attach(struct urs_sock *s, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(s->fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

void urs_sock_detach(struct urs_sock *s, int fd)
{
	epoll_ctl(s->fd, EPOLL_CTL_DEL, fd, NULL);
}

/* This thread may wake the rsocket while it sleeps on it (ur_wait_poll()). */
static bool others_sleep(const struct urs_sock *s)
{
	bool self =
		s->sleeper_known && pthread_equal(s->sleeper, pthread_self());

	return s->sleepers > self;
}

void urs_sock_wake(struct urs_sock *s)
{
	uint64_t one = 1;

	if (others_sleep(s)) {
		s->wakes++;
		s->unheard = s->sleepers;
		/* Can only fail for being raised 2^64 times already. */
		if (ur_sys_write(s->kick, &one, sizeof(one)) < 0)
			return;
	}
	ur_list_each(struct urs_watcher, w, &s->watchers, node)
		w->touched(w);
}

uint64_t urs_sock_sleep_begin(struct urs_sock *s)
{
	s->sleepers++;
	s->sleeper = pthread_self();
	s->sleeper_known = true;
	return s->wakes;
}

/*
 * The kick stays raised until all threads have left that slept when it was.  A
 * thread that falls asleep in between wakes at once, but only until then.
 */
void urs_sock_sleep_end(struct urs_sock *s, uint64_t token, bool readable)
{
	uint64_t n;

	s->sleepers--;
	s->sleeper_known = false;
	if (token != s->wakes && --s->unheard == 0 &&
	    read(s->kick, &n, sizeof(n)) < 0)
		n = 0;
	if (readable)
		urs_sock_take_news(s);
}

void urs_sock_take_news(struct urs_sock *s)
{
	struct epoll_event ev[EVENTS];
	int n = epoll_wait(s->fd, ev, EVENTS, 0);
	bool any = false;

	for (int i = 0; i < n; i++)
		if (ev[i].data.fd != s->kick)
			any |= s->ops->consume(s, ev[i].data.fd);
	if (any)
		urs_sock_wake(s);
}

int64_t urs_spin_ns(void)
{
	const struct urs_config *c = urs_config();

	return c->polling_fixed ? (int64_t)c->polling_us * 1000
				: UR_WAIT_ADAPTIVE;
}

/* Sleeps until there is news or `end` has come. */
static int sleep_once(struct urs_sock *s, int64_t end)
{
	int64_t slice = (int64_t)urs_config()->wake_up_ms * 1000000;
	int64_t left = end == URS_NEVER ? slice : end - urs_now_ns();
	struct pollfd fds[1 + UR_WAIT_FDS] = { { .fd = s->fd,
						 .events = POLLIN } };
	struct ur_wait_lanes lanes = s->lanes;
	uint64_t token;
	int n;

	if (left <= 0)
		return -EAGAIN;
	if (left > slice)
		left = slice;
	token = urs_sock_sleep_begin(s);
	ur_unlock_open(&s->lock);
	n = ur_wait_poll(&lanes, fds, 1, ur_clock_ns() + (uint64_t)left,
			 urs_spin_ns());
	ur_lock_open(&s->lock);
	urs_sock_sleep_end(s, token, n > 0);
	if (n == -EINTR && ur_signals_restart())
		return 0;
	return n < 0 ? n : 0;
}

static bool over(struct urs_sock *s, urs_test test, int *rc)
{
	s->ops->progress(s, true);
	*rc = 0;
	if (test(s))
		return true;
	*rc = -EBADF;
	return s->closed;
}

int urs_sock_wait(struct urs_sock *s, urs_test test, bool nonblock,
		  int64_t timeout_ns)
{
	int64_t end = URS_NEVER;
	int rc;

	if (over(s, test, &rc))
		return rc;
	if (nonblock)
		return -EAGAIN;
	if (timeout_ns)
		end = urs_now_ns() + timeout_ns;
	for (;;) {
		s->ops->arm(s);
		if (over(s, test, &rc))
			return rc;
		rc = sleep_once(s, end);
		if (rc)
			return rc;
		if (over(s, test, &rc))
			return rc;
	}
}

bool urs_sock_nonblock(const struct urs_sock *s, int flags)
{
	return (s->flags & O_NONBLOCK) || (flags & MSG_DONTWAIT);
}

/* The next piece of at most n bytes; *skip counts from the i-th on. */
static size_t next_piece(const struct urs_iov *iov, int *i, size_t *skip,
			 size_t n, char **p)
{
	size_t len;

	while (*skip >= iov->v[*i].iov_len)
		*skip -= iov->v[(*i)++].iov_len;
	len = iov->v[*i].iov_len - *skip;
	*p = (char *)iov->v[*i].iov_base + *skip;
	if (len > n)
		len = n;
	*skip += len;
	return len;
}

void urs_iov_gather(const struct urs_iov *iov, size_t skip, void *to, size_t n)
{
	char *dst = to;
	char *p;
	int i = 0;

	while (n) {
		size_t len = next_piece(iov, &i, &skip, n, &p);

		memcpy(dst, p, len);
		dst += len;
		n -= len;
	}
}

void urs_iov_scatter(const struct urs_iov *iov, size_t skip, const void *from,
		     size_t n)
{
	const char *src = from;
	char *p;
	int i = 0;

	while (n) {
		size_t len = next_piece(iov, &i, &skip, n, &p);

		memcpy(p, src, len);
		src += len;
		n -= len;
	}
}

const void *urs_iov_piece(const struct urs_iov *iov, size_t skip, size_t n)
{
	for (int i = 0; i < iov->count; i++) {
		size_t len = iov->v[i].iov_len;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		return len - skip >= n ? (char *)iov->v[i].iov_base + skip
				       : NULL;
	}
	return NULL;
}
