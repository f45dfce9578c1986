/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands below a port of several queues in its test, a controller that is
 * the test's, and the lanes upon it.  Of one file only: it defines the
 * functions that are replaced.
 */
#ifndef UR_TESTS_QUEUES_RIG_H
#define UR_TESTS_QUEUES_RIG_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ports/nic.h"
#include "ports/port_group.h"
#include "ports/tap.h"

#define QUEUES 3u
#define DEPTH  128u
#define FRAME  200u
#define ETHER  14u
#define IP     20u
#define UDP    8u
#define S      1000000000ull
#define SLOT   7u /* of the first lane; the others' follow */

struct toy_queue {
	pthread_mutex_t lock; /* between the controller and its driver */
	uint32_t n;
	uint8_t in[DEPTH][FRAME];
	uint32_t len;
	uint8_t writing[FRAME];
	uint32_t sent;
	uint32_t armed;
	int fd;
	uint32_t steered; /* rules of this queue, … */
	uint32_t qpn;	  /* … and the last one */
	uint32_t mask;
	_Atomic bool looking; /* a thread polls; set before it has the lock */
};

static struct toy_queue toy[QUEUES];
static bool interrupts;
static uint32_t asked_queues;
static uint32_t has_queues = QUEUES;
static bool steers; /* the controller takes rules */
static int closed;
static int host = -1;
static uint64_t now; /* later than it is: no timer is due by itself */
static void (*while_busy)(void); /* in the midst of a burst */
static _Atomic uint32_t crowds;	 /* two have looked into one queue */

static const uint8_t mac[2][6] = { { 2, 0, 0, 0, 0, 1 }, { 2, 0, 0, 0, 0, 2 } };

/* ---- The controller ---- */

static int n_open(const struct ur_eal_args *eal,
		  const struct ur_port_spec *spec, struct ur_nic **nic)
{
	asked_queues = spec->queues;
	memset(toy, 0, sizeof(toy));
	for (uint32_t q = 0; q < QUEUES; q++) {
		pthread_mutex_init(&toy[q].lock, NULL);
		toy[q].fd = eventfd(0, EFD_NONBLOCK);
	}
	*nic = (struct ur_nic *)(void *)toy;
	return 0;
}

static void n_close(struct ur_nic *nic)
{
	for (uint32_t q = 0; q < QUEUES; q++)
		close(toy[q].fd);
	closed++;
}

static void n_info(const struct ur_nic *nic, struct ur_nic_info *info)
{
	memset(info, 0, sizeof(*info));
	memcpy(info->mac, mac[0], 6);
	memcpy(info->driver, "toy", 4);
	info->mtu = 1500;
	info->rx_depth = 16;
	info->interrupts = interrupts;
	info->queues = (uint16_t)(asked_queues < has_queues ? asked_queues
							    : has_queues);
}

static uint32_t n_rx(struct ur_nic *nic, uint16_t q,
		     void (*fn)(void *arg, const struct ur_nic_rx *rx),
		     void *arg)
{
	uint32_t n;

	crowds += atomic_exchange(&toy[q].looking, true);
	pthread_mutex_lock(&toy[q].lock);
	n = toy[q].n;
	for (uint32_t i = 0; i < n; i++) {
		struct ur_nic_rx rx = { toy[q].in[i], toy[q].len, 0 };

		fn(arg, &rx);
		if (while_busy)
			while_busy();
	}
	toy[q].n = 0;
	pthread_mutex_unlock(&toy[q].lock);
	toy[q].looking = false;
	return n;
}

static uint8_t *n_room(struct ur_nic *nic, uint16_t q, uint32_t len)
{
	return len > FRAME ? NULL : toy[q].writing;
}

static void n_tx(struct ur_nic *nic, uint16_t q, const struct ur_nic_tx *tx)
{
	toy[q].sent++;
}

static uint32_t n_flush(struct ur_nic *nic, uint16_t q)
{
	return 0;
}

static bool n_arm(struct ur_nic *nic, uint16_t q)
{
	toy[q].armed++;
	return toy[q].n == 0;
}

static int n_wait_fd(const struct ur_nic *nic, uint16_t q)
{
	return toy[q].fd;
}

static bool n_link(const struct ur_nic *nic)
{
	return true;
}

static void n_stats(const struct ur_nic *nic, struct ur_nic_stats *s)
{
	memset(s, 0, sizeof(*s));
}

static int n_steer(struct ur_nic *nic, uint16_t q, uint32_t qpn, uint32_t mask)
{
	if (!steers)
		return -EOPNOTSUPP;
	toy[q].steered++;
	toy[q].qpn = qpn;
	toy[q].mask = mask;
	return 0;
}

static bool n_unsteer(struct ur_nic *nic, uint32_t qpn, uint32_t mask)
{
	for (uint32_t q = 0; q < QUEUES; q++) {
		if (!toy[q].steered || toy[q].qpn != qpn || toy[q].mask != mask)
			continue;
		toy[q].steered--;
		return true;
	}
	return false;
}

int ur_nic_load(const struct ur_nic_plugin **ops)
{
	static const struct ur_nic_plugin p = {
		.open = n_open,
		.close = n_close,
		.info = n_info,
		.rx = n_rx,
		.room = n_room,
		.tx = n_tx,
		.flush = n_flush,
		.arm = n_arm,
		.wait_fd = n_wait_fd,
		.link = n_link,
		.stats = n_stats,
		.steer = n_steer,
		.unsteer = n_unsteer,
	};

	*ops = &p;
	return 0;
}

int ur_tap_open(const char *name, const struct ur_port_spec *spec,
		const uint8_t m[6], uint32_t *ifindex)
{
	int fds[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds), 0);
	host = fds[1];
	*ifindex = 5;
	return fds[0];
}

/* ---- Frames ---- */

static void sum_ip(uint8_t *p)
{
	uint32_t sum = 0;

	for (int i = 0; i < (int)IP; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	p[10] = (uint8_t)(~sum >> 8);
	p[11] = (uint8_t)~sum;
}

/* A packet of RoCE for a slot's queue pair; its PSN is `mark`. */
static void come(uint32_t q, uint32_t slot, uint32_t mark)
{
	static const uint8_t ip[] = { 0x45, 0,	0, IP + UDP + 16,
				      0,    0,	0, 0,
				      64,   17, 0, 0,
				      10,   1,	0, 2,
				      10,   1,	0, 1 };
	static const uint8_t udp[] = { 0xc0, 0, 0x12, 0xb7, 0, UDP + 16, 0, 0 };
	uint32_t qpn = slot << 14 | 5;
	uint8_t *f;

	pthread_mutex_lock(&toy[q].lock);
	f = toy[q].in[toy[q].n++];

	memset(f, 0, FRAME);
	memcpy(f, mac[0], 6);
	memcpy(f + 6, mac[1], 6);
	f[12] = 8;
	memcpy(f + ETHER, ip, sizeof(ip));
	sum_ip(f + ETHER);
	memcpy(f + ETHER + IP, udp, sizeof(udp));
	f += ETHER + IP + UDP;
	f[5] = (uint8_t)(qpn >> 16);
	f[6] = (uint8_t)(qpn >> 8);
	f[7] = (uint8_t)qpn;
	f[8] = (uint8_t)(mark >> 24);
	f[9] = (uint8_t)(mark >> 16);
	f[10] = (uint8_t)(mark >> 8);
	f[11] = (uint8_t)mark;
	toy[q].len = ETHER + IP + UDP + 16;
	pthread_mutex_unlock(&toy[q].lock);
}

/* ---- Lanes ---- */

struct lane {
	struct ur_port_seat seat;
	uint32_t slot;
	uint32_t n;
	uint8_t marks[DEPTH];
};

static struct lane lanes[QUEUES + 1];

static void rx(void *arg, const struct ur_rx *p)
{
	struct lane *l = arg;

	assert_int_equal(p->len, 16);
	assert_int_equal(p->sport, 0xc000);
	assert_int_equal(p->src[15], 2);
	assert_int_equal(p->dst[15], 1);
	assert_true(l->n < DEPTH);
	l->marks[l->n++] = p->data[11];
}

/* Is it the lane's own?  Else *taken: by the one that it is for. */
static bool is_own(struct lane *l, const struct ur_rx *p, bool *taken)
{
	uint32_t slot =
		(uint32_t)(p->data[5] << 16 | p->data[6] << 8 | p->data[7]) >>
		14;

	*taken = slot == l->slot || ur_port_seat_hand(&l->seat, slot, p);
	return slot == l->slot;
}

static bool deliver(void *arg, const struct ur_rx *p)
{
	struct lane *l = arg;
	bool taken;

	if (is_own(l, p, &taken)) {
		ur_port_belongs(l->seat.port, (uint16_t)l->seat.index);
		rx(l, p);
	}
	return taken;
}

static bool before(void *arg)
{
	struct lane *l = arg;
	uint32_t n;

	return ur_port_seat_recv(&l->seat, rx, l, &n);
}

static const struct ur_port_spec spec = {
	.naddrs = 1,
	.addrs = { { .ip = { [10] = 0xff, [11] = 0xff, 10, 1, 0, 1 },
		     .prefix = 24 } },
	.mtu = 1500,
	.queues = QUEUES,
};

static int sit(uint32_t i, bool first)
{
	struct ur_port_config cfg = { .spec = &spec,
				      .ifname = "x",
				      .deliver = deliver,
				      .before = before,
				      .arg = &lanes[i] };

	memset(&lanes[i], 0, sizeof(lanes[i]));
	lanes[i].slot = SLOT + i;
	return (first ? ur_port_seat_open
		      : ur_port_seat_join)(&cfg, lanes[i].slot, &lanes[i].seat);
}

/* How many came to the lane. */
static uint32_t poll_lane(uint32_t i)
{
	uint32_t had = lanes[i].n;

	(void)ur_port_poll(lanes[i].seat.port, now);
	return lanes[i].n - had;
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static bool to_host(void)
{
	uint8_t buf[FRAME];

	return recv(host, buf, sizeof(buf), 0) > 0;
}

static void clear_host(void)
{
	while (to_host())
		;
}

/* The first lane's port, and its address ready. */
static void begin(bool with_interrupts)
{
	interrupts = with_interrupts;
	closed = 0;
	assert_int_equal(sit(0, true), 0);
	for (int i = 0; i < 20; i++)
		(void)ur_port_poll(lanes[0].seat.port, now += S / 2);
	clear_host();
}

static void leave(uint32_t i)
{
	ur_port_seat_leave(&lanes[i].seat);
}

#endif
