/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/port_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "ports/port_group.h"
#include "sockets/udp.h"

/* Polls that find nothing until the host's side is looked at: it costs two
 * system calls. */
#define PART_ROUNDS    32
/* What a neighbour's answer is waited for at the end, and how often. */
#define PART_WAITS     100
#define PART_WAIT_NS   1000000
#define CALLS_PER_TIME 16u
#define HOST_NS	       500000u

struct port_link {
	struct ur_link link;
	struct ur_port_seat seat;
	struct ur_port *port; /* the seat's */
	uint32_t slot;
	pid_t pid; /* the owner of the port: not a child of fork() */
	int epfd;
	uint64_t now_ns;  /* the time as it was read last */
	uint64_t host_ns; /* when the host's side was polled … */
	uint32_t looks;	  /* … and how often the port since */
	uint32_t calls;	  /* since the time was read */
	bool slept;	  /* a thread waits, and needs every wakeup */
	/* Of the recv() under way. */
	void (*rx)(void *arg, const struct ur_rx *rx);
	void *arg;
	int handed; /* packets from the inbox */
};

static struct port_link *of(struct ur_link *link)
{
	return (struct port_link *)link;
}

static uint64_t now(struct port_link *l)
{
	l->calls = 0;
	l->now_ns = ur_clock_ns();
	return l->now_ns;
}

/*
 * The stack counts milliseconds, and reading the clock costs as much as polling
 * the port: some calls in a row share a reading.  After a sleep it is read.
 */
static uint64_t coarse_now(struct port_link *l)
{
	return l->slept || ++l->calls >= CALLS_PER_TIME ? now(l) : l->now_ns;
}

/* Other slots' packets go to their lanes, or to the host. */
static bool deliver(void *arg, const struct ur_rx *rx)
{
	struct port_link *l = arg;
	uint32_t slot = ((uint32_t)rx->data[5] << 16 |
			 (uint32_t)rx->data[6] << 8 | rx->data[7]) >>
			UR_SLOT_SHIFT;

	if (slot != l->slot)
		return ur_port_seat_hand(&l->seat, slot, rx);
	if (!l->rx)
		return false;
	ur_port_belongs(l->port, (uint16_t)l->seat.index);
	l->rx(l->arg, rx);
	return true;
}

static bool take_handed(void *arg)
{
	struct port_link *l = arg;
	uint32_t n;
	bool all;

	if (!l->rx)
		return true;
	all = ur_port_seat_recv(&l->seat, l->rx, l->arg, &n);
	l->handed += (int)n;
	return all;
}

static int port_send(struct ur_link *link, struct ur_burst *t)
{
	struct port_link *l = of(link);
	int err;

	if (ur_port_has(l->port, t->src, t->dst))
		err = ur_port_send(l->port, t, coarse_now(l));
	else
		err = l->link.udp->ops->send(l->link.udp, t);
	if (err && err != -EAGAIN)
		link->tx_errors++;
	return err;
}

static int recv_host(struct port_link *l, uint64_t now_ns)
{
	int n = 0;

	if (ur_port_serves_host(l->port))
		n = (int)ur_port_host(l->port, now_ns);
	l->looks = 0;
	l->host_ns = now_ns;
	l->slept = false;
	n += l->link.udp->ops->recv(l->link.udp, l->rx, l->arg);
	l->link.rx_overflow =
		l->link.udp->rx_overflow + ur_port_seat_lost(&l->seat);
	return n;
}

static int port_recv(struct ur_link *link,
		     void (*rx)(void *arg, const struct ur_rx *rx), void *arg)
{
	struct port_link *l = of(link);
	uint64_t now_ns = coarse_now(l);
	int n;

	l->rx = rx;
	l->arg = arg;
	l->handed = 0;
	n = (int)ur_port_poll(l->port, now_ns);
	/* Also while another thread polls our queue. */
	if (!l->handed)
		(void)take_handed(l);
	n += l->handed;
	if (l->slept || ++l->looks >= UR_PORT_HOST_EVERY ||
	    now_ns - l->host_ns > HOST_NS)
		n += recv_host(l, now_ns);
	l->rx = NULL;
	return n;
}

/*
 * A packet that is unsent changes the time to wait for.  Only the waiting
 * thread drains the wakeup fd: another thread that polls meanwhile may take the
 * packet that it was signalled for, and the next packet does not signal it
 * again, so it must stay readable to wake the waiter.
 */
static int port_wait_fd(const struct ur_link *link)
{
	struct port_link *l = (struct port_link *)(uintptr_t)link;

	l->slept = true;
	ur_port_seat_wake(&l->seat);
	ur_port_seat_sleep(&l->seat);
	(void)ur_port_wait_fd(l->port, now(l));
	return l->epfd;
}

static const struct ur_net_counters *port_counters(const struct ur_link *link)
{
	return ur_port_counters(
		((const struct port_link *)(const void *)link)->port);
}

static void port_facts(const struct ur_link *link, struct ur_port_facts *out)
{
	ur_port_facts(((const struct port_link *)(const void *)link)->port,
		      out);
}

static void host_out(struct port_link *l)
{
	for (int i = 0; i < PART_ROUNDS; i++)
		if (!ur_port_host(l->port, ur_clock_ns()))
			return;
}

/* The last packets of the program's TCP connections wait in the TAP, which ends
 * with us, or in the stack until their neighbour is resolved. */
static void port_part(struct ur_link *link)
{
	const struct timespec pause = { .tv_nsec = PART_WAIT_NS };
	struct port_link *l = of(link);

	if (!ur_port_serves_host(l->port))
		return;
	host_out(l);
	for (int i = 0; i < PART_WAITS && ur_port_host_asks(l->port); i++) {
		(void)nanosleep(&pause, NULL);
		(void)ur_port_poll(l->port, ur_clock_ns());
		host_out(l);
	}
}

static void port_destroy(struct ur_link *link)
{
	struct port_link *l = of(link);

	if (l->pid == getpid())
		ur_port_seat_leave(&l->seat);
	else
		ur_port_seat_abandon(&l->seat);
	l->link.udp->ops->destroy(l->link.udp);
	close(l->epfd);
	free(l);
}

static const struct ur_link_ops port_ops = {
	.name = "dpdk",
	.send = port_send,
	.recv = port_recv,
	.wait_fd = port_wait_fd,
	.counters = port_counters,
	.facts = port_facts,
	.part = port_part,
	.destroy = port_destroy,
};

typedef int sit_fn(const struct ur_port_config *cfg, uint32_t slot,
		   struct ur_port_seat *seat);

static int open_port(struct port_link *l, sit_fn *sit,
		     const struct ur_port_config *cfg)
{
	struct ur_port_config own = *cfg;
	struct ur_port_stats stats;
	int err;

	own.deliver = deliver;
	own.before = take_handed;
	own.arg = l;
	err = sit(&own, l->slot, &l->seat);
	if (err)
		return err;
	l->port = l->seat.port;
	err = ur_watch_fd(l->epfd, ur_port_wait_fd(l->port, now(l)));
	if (!err && ur_port_seat_fd(&l->seat) >= 0)
		err = ur_watch_fd(l->epfd, ur_port_seat_fd(&l->seat));
	if (err) {
		ur_port_seat_leave(&l->seat);
		return err;
	}
	ur_port_stats(l->port, &stats);
	l->link.rx_bytes = stats.rx_bytes;
	return 0;
}

/* The sockets come last: they take rx_fd over. */
static int setup(struct port_link *l, sit_fn *sit,
		 const struct ur_port_config *cfg, int rx_fd)
{
	int err = open_port(l, sit, cfg);

	if (err)
		return err;
	err = ur_watch_fd(l->epfd, rx_fd);
	if (!err)
		err = ur_udp_link_create(rx_fd, &l->link.udp);
	if (err) {
		ur_port_seat_leave(&l->seat);
		return err;
	}
	l->link.sports = l->link.udp->sports;
	if (l->link.udp->rx_bytes < l->link.rx_bytes)
		l->link.rx_bytes = l->link.udp->rx_bytes;
	return 0;
}

static int create(sit_fn *sit, const struct ur_port_config *cfg, uint32_t slot,
		  int rx_fd, struct ur_link **out)
{
	struct port_link *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->link.ops = &port_ops;
	l->slot = slot;
	l->pid = getpid();
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	err = l->epfd < 0 ? -errno : setup(l, sit, cfg, rx_fd);
	if (err) {
		if (l->epfd >= 0)
			close(l->epfd);
		free(l);
		return err;
	}
	*out = &l->link;
	return 0;
}

int ur_port_link_create(const struct ur_port_config *cfg, uint32_t slot,
			int rx_fd, struct ur_link **out)
{
	return create(ur_port_seat_open, cfg, slot, rx_fd, out);
}

int ur_port_link_join(const struct ur_port_config *cfg, uint32_t slot,
		      int rx_fd, struct ur_link **out)
{
	return create(ur_port_seat_join, cfg, slot, rx_fd, out);
}
