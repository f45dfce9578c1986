/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for a port, and which thread a queue wakes. */
#include <errno.h>
#include <sys/timerfd.h>

#include "base/sys.h"
#include "base/timer.h"
#include "ports/port_internal.h"

/* The share of the time without packets that may pass until the next look,
 * and its bounds. */
#define IDLE_SHARE  16
#define IDLE_MIN_NS 20000u
#define IDLE_MAX_NS 10000000u

static void move(const struct ur_port *p, int from, int to)
{
	const struct ur_port_core *c = p->core;
	struct epoll_event ev = { .events = EPOLLIN };
	int fd;

	if (!c->info.interrupts)
		return;
	fd = c->ops->wait_fd(c->nic, p->queue);
	(void)epoll_ctl(from, EPOLL_CTL_DEL, fd, NULL);
	(void)epoll_ctl(to, EPOLL_CTL_ADD, fd, &ev);
}

void ur_port_own(const struct ur_port *p)
{
	move(p, p->core->free_fd, p->epfd);
}

void ur_port_disown(const struct ur_port *p)
{
	move(p, p->epfd, p->core->free_fd);
}

/* False: there is something already, or another thread polls it at present and
 * may stop before the next packet comes. */
static bool arm_queue(struct ur_port_core *c, uint16_t q, bool *taken)
{
	bool armed;

	if (!ur_port_borrow(c, q)) {
		*taken = true;
		return false;
	}
	armed = c->ops->arm(c->nic, q);
	ur_port_unborrow(c, q);
	return armed;
}

static bool arm(const struct ur_port *p, bool *taken)
{
	struct ur_port_core *c = p->core;
	bool armed = arm_queue(c, p->queue, taken);

	if (!c->many || p->queue != 0)
		return armed;
	for (uint16_t q = 1; q < c->info.queues; q++)
		if (!ur_port_is_given(c, q))
			armed &= arm_queue(c, q, taken);
	return armed;
}

static uint64_t deadline(struct ur_port_core *c)
{
	uint64_t at_ns;

	ur_port_hold(c);
	at_ns = ur_net_deadline(c->net);
	ur_port_drop(c);
	return at_ns;
}

/*
 * How long to sleep where nothing can wake us: a share of the time since the
 * last packet.  So the first packet after a pause is late by that share of it
 * at most, and a port without traffic costs a hundred polls a second.
 */
static uint64_t nap_ns(const struct ur_port *p, uint64_t now_ns)
{
	/* Something may have left since that was read. */
	uint64_t silence = now_ns > p->busy_ns ? now_ns - p->busy_ns : 0;
	uint64_t nap = silence / IDLE_SHARE;
	uint64_t due = deadline(p->core);
	bool taken = false;

	if (p->core->info.interrupts && arm(p, &taken))
		nap = UR_NEVER;
	else if (nap < IDLE_MIN_NS || taken)
		nap = IDLE_MIN_NS;
	else if (nap > IDLE_MAX_NS)
		nap = IDLE_MAX_NS;
	if (p->queue == 0 && p->link_at_ns < due)
		due = p->link_at_ns;
	due = due > now_ns ? due - now_ns : 1;
	return due < nap ? due : nap;
}

/* One that is early costs less than to set it at every sleep. */
static void set_timer(struct ur_port *p, uint64_t at_ns, uint64_t now_ns)
{
	struct itimerspec t = { 0 };

	if (p->timer_ns > now_ns && p->timer_ns <= at_ns)
		return;
	p->timer_ns = at_ns;
	t.it_value.tv_sec = (time_t)(at_ns / 1000000000u);
	t.it_value.tv_nsec = (long)(at_ns % 1000000000u);
	(void)timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

int ur_port_wait_fd(struct ur_port *p, uint64_t now_ns)
{
	set_timer(p, now_ns + nap_ns(p, now_ns), now_ns);
	return p->epfd;
}

/* The first queue is its from the beginning, and with it the free queues. */
static int watch_first(const struct ur_port *p)
{
	const struct ur_port_core *c = p->core;
	int err = ur_watch_fd(p->epfd, c->tap);

	if (!err && c->info.interrupts && c->many)
		err = ur_watch_fd(p->epfd, c->free_fd);
	return err;
}

int ur_port_wait_open(struct ur_port *p)
{
	int err;

	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (p->epfd < 0 || p->timer < 0)
		return -errno;
	err = ur_watch_fd(p->epfd, p->timer);
	return err || p->queue ? err : watch_first(p);
}

int ur_port_wait_init(struct ur_port_core *c)
{
	int err = 0;

	if (!c->info.interrupts)
		return 0;
	c->free_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->free_fd < 0)
		return -errno;
	for (uint16_t q = 0; q < c->info.queues && !err; q++)
		err = ur_watch_fd(c->free_fd, c->ops->wait_fd(c->nic, q));
	return err;
}
