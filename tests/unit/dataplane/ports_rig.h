/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands below the ports of urnicd in their tests: a port that is a toy,
 * of one queue or several, and lanes upon it that are the test's.  It has
 * interrupts, so nothing wakes a thread but what is to.  Of one file only: it
 * defines the functions that are replaced.
 */
#ifndef UR_TESTS_PORTS_RIG_H
#define UR_TESTS_PORTS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/ports.h"
#include "ports/port.h"
#include "ports/ring.h"
#include "ports/ring_port.h"

#define WAIT_S 20
#define SLOT   7u
#define TOYS   4u

struct ur_port {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool (*deliver)(void *arg, const struct ur_rx *rx);
	void *arg;
	int fd;		/* its interrupt */
	uint32_t waits; /* how often it was waited for */
	uint32_t sent;	/* bursts */
	uint32_t row;	/* of them, since it was polled last */
	uint32_t longest;
	struct ur_burst last;
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	const uint8_t *segment; /* to be received */
	uint32_t segments;	/* that have left */
	uint8_t left[128];	/* the last one … */
	uint32_t left_len;	/* … and its length */
	const struct ur_rx *in; /* to be received */
	uint32_t received;
	bool taken;	   /* the last one, by a lane */
	uint32_t flood;	   /* so many are to be received, … */
	uint32_t flooded;  /* … so many were */
	unsigned int slot; /* … for this one */
	uint16_t queue;
	uint64_t elsewhere;
	uint32_t steered; /* rules */
	uint32_t qpn;	  /* … and the last one's */
	uint32_t mask;
};

/* Its first queue, and the others. */
static struct ur_port toy = { .lock = PTHREAD_MUTEX_INITIALIZER,
			      .changed = PTHREAD_COND_INITIALIZER };
static struct ur_port more[TOYS - 1];
static uint16_t toy_queues = 1;
static uint16_t toy_attached;
static const struct ur_server_ports *ports;
static const uint8_t ours[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
static const uint8_t peer[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };

/* ---- The toy ---- */

static int open_toy(struct ur_port *p, const struct ur_port_config *cfg,
		    struct ur_port **out)
{
	p->deliver = cfg->deliver;
	p->tcp = cfg->tcp;
	p->arg = cfg->arg;
	p->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	*out = p;
	return 0;
}

int ur_port_open(const struct ur_port_config *cfg, struct ur_port **out)
{
	assert_true(cfg->several);
	return open_toy(&toy, cfg, out);
}

int ur_port_attach(const struct ur_port *other,
		   const struct ur_port_config *cfg, struct ur_port **out)
{
	struct ur_port *p;

	assert_ptr_equal(other, &toy);
	assert_true(toy_attached + 1 < toy_queues);
	p = &more[toy_attached++];
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	p->queue = toy_attached;
	return open_toy(p, cfg, out);
}

void ur_port_steer(struct ur_port *p, uint32_t qpn, uint32_t mask)
{
	p->steered++;
	p->qpn = qpn;
	p->mask = mask;
}

void ur_port_unsteer(struct ur_port *p, uint32_t qpn, uint32_t mask)
{
	assert_int_equal(mask, p->mask);
	p->steered--;
}

void ur_port_belongs(struct ur_port *p, uint16_t queue)
{
	p->elsewhere += queue != p->queue;
}

int ur_port_add(struct ur_port *p, const struct ur_burst *t, uint64_t now_ns)
{
	pthread_mutex_lock(&p->lock);
	p->last = *t;
	p->sent++;
	if (++p->row > p->longest)
		p->longest = p->row;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

int ur_port_send_ip(struct ur_port *p, const uint8_t *packet, uint32_t len,
		    uint64_t now_ns)
{
	pthread_mutex_lock(&p->lock);
	assert_true(len <= sizeof(p->left));
	memcpy(p->left, packet, len);
	p->left_len = len;
	p->segments++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void ur_port_flush(struct ur_port *p)
{
}

/* A packet to a queue pair of that slot. */
static void make_bth(uint8_t bth[16], unsigned int slot)
{
	memset(bth, 0, 16);
	bth[5] = (uint8_t)(slot >> 2);
	bth[6] = (uint8_t)(slot << 6);
	bth[7] = 1;
}

/* One of many, which say by which queue they came, and the how many-th. */
static void flood_one(struct ur_port *p)
{
	uint8_t bth[16];
	struct ur_rx rx = { .data = bth,
			    .len = sizeof(bth),
			    .index = p->queue };

	make_bth(bth, p->slot);
	p->flood--;
	p->flooded++;
	memcpy(bth + 8, &p->flooded, sizeof(p->flooded));
	(void)p->deliver(p->arg, &rx);
	pthread_cond_broadcast(&p->changed);
}

uint32_t ur_port_poll(struct ur_port *p, uint64_t now_ns)
{
	uint64_t count;
	uint32_t n = 0;

	(void)!read(p->fd, &count, sizeof(count));
	pthread_mutex_lock(&p->lock);
	p->row = 0;
	if (p->segment) {
		const uint8_t *segment = p->segment;
		bool was_taken;

		/* As a port does, which holds nothing of its own then. */
		p->segment = NULL;
		pthread_mutex_unlock(&p->lock);
		was_taken = p->tcp(p->arg, segment, 40);
		pthread_mutex_lock(&p->lock);
		p->taken = was_taken;
		p->received++;
		n = 1;
		pthread_cond_broadcast(&p->changed);
	}
	if (p->in) {
		p->taken = p->deliver(p->arg, p->in);
		p->in = NULL;
		p->received++;
		n = 1;
		pthread_cond_broadcast(&p->changed);
	}
	if (p->flood) {
		flood_one(p);
		n = 1;
	}
	pthread_mutex_unlock(&p->lock);
	return n;
}

uint32_t ur_port_host(struct ur_port *p, uint64_t now_ns)
{
	/* The first one's. */
	assert_ptr_equal(p, &toy);
	return 0;
}

int ur_port_wait_fd(struct ur_port *p, uint64_t now_ns)
{
	pthread_mutex_lock(&p->lock);
	p->waits++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return p->fd;
}

bool ur_port_has(const struct ur_port *p, const uint8_t src[16],
		 const uint8_t dst[16])
{
	return !memcmp(src, ours, 16) && memcmp(dst, ours, 16) != 0;
}

const struct ur_net_counters *ur_port_counters(struct ur_port *p)
{
	static const struct ur_net_counters c = { .rx_frames = 11,
						  .drop_mac = 12 };

	return &c;
}

void ur_port_facts(const struct ur_port *p, struct ur_port_facts *out)
{
	*out = (struct ur_port_facts){ .driver = "net_toy",
				       .queues = toy_queues };
}

void ur_port_stats(const struct ur_port *p, struct ur_port_stats *out)
{
	*out = (struct ur_port_stats){ .rx_missed = 13,
				       .tx_lost = 14,
				       .host_lost = 15,
				       .elsewhere = p->elsewhere };
}

/* ---- The test ---- */

/* Until *n of that queue is at least `least`; how much it is. */
static uint32_t await_of(struct ur_port *p, const uint32_t *n, uint32_t least)
{
	struct timespec end;
	uint32_t is;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WAIT_S;
	pthread_mutex_lock(&p->lock);
	while (*n < least && !err)
		err = pthread_cond_timedwait(&p->changed, &p->lock, &end);
	is = *n;
	pthread_mutex_unlock(&p->lock);
	assert_int_equal(err, 0);
	return is;
}

static uint32_t await(const uint32_t *n, uint32_t least)
{
	return await_of(&toy, n, least);
}

static void ring_toy(const struct ur_port *p)
{
	uint64_t one = 1;

	assert_int_equal(write(p->fd, &one, sizeof(one)), sizeof(one));
}

/* Let the thread go once around, and fall asleep. */
static void settle_of(struct ur_port *p)
{
	uint32_t waits = await_of(p, &p->waits, 0);

	ring_toy(p);
	await_of(p, &p->waits, waits + 1);
}

static void settle(void)
{
	settle_of(&toy);
}

static void attach(struct ur_rings *r, unsigned int slot)
{
	int sock = ports->attach(ports->arg, slot, if_nametoindex("lo"));

	assert_true(sock >= 0);
	assert_int_equal(ur_rings_take(r, sock), 0);
}

static void detach(struct ur_rings *r, unsigned int slot)
{
	ports->detach(ports->arg, slot);
	ur_rings_drop(r);
}

static struct ur_ring_rec burst(void)
{
	struct ur_ring_rec rec = { .pkt_len = 32, .sport = 49152 };

	memcpy(rec.src, ours, 16);
	memcpy(rec.dst, peer, 16);
	return rec;
}

/* As ports/ring_link does it. */
static void write_burst(struct ur_rings *r, const struct ur_ring_rec *rec,
			uint32_t len)
{
	uint8_t *at = ur_ring_reserve(&r->tx, len);

	assert_non_null(at);
	memset(at, 0x55, len);
	if (ur_ring_publish(&r->tx, rec, len))
		ur_rings_wake(r);
}

/* Such a packet comes by that queue; did a lane take it? */
static bool receive_by(struct ur_port *p, unsigned int slot)
{
	uint8_t bth[16];
	const struct ur_rx rx = { .data = bth, .len = sizeof(bth) };
	uint32_t before = await_of(p, &p->received, 0);

	make_bth(bth, slot);
	pthread_mutex_lock(&p->lock);
	p->in = &rx;
	pthread_mutex_unlock(&p->lock);
	ring_toy(p);
	await_of(p, &p->received, before + 1);
	return p->taken;
}

static void assert_told(const char *part)
{
	char text[8192] = "";
	int fd = ports->report(ports->arg);

	assert_true(fd >= 0);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	assert_int_equal(fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE, F_SEAL_WRITE);
	close(fd);
	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

/* ---- Processes that have a TCP of their own ---- */

#define SESSION 77u
#define SYN	2u
#define RST	4u
#define ACK	16u

static void attach_tcp(struct ur_rings *r, uint32_t session)
{
	int sock = ports->attach_tcp(session, 0, 100, if_nametoindex("lo"));

	assert_true(sock >= 0);
	assert_int_equal(ur_rings_take(r, sock), 0);
}

static void detach_tcp(struct ur_rings *r, uint32_t session)
{
	ports->detach_tcp(session);
	ur_rings_drop(r);
}

static void make_segment(uint8_t p[40], bool in, uint16_t number, uint8_t flags)
{
	const uint8_t head[20] = { 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6 };
	uint8_t *at = p + (in ? 22 : 20);

	memset(p, 0, 40);
	memcpy(p, head, sizeof(head));
	memcpy(p + (in ? 16 : 12), ours + 12, 4);
	memcpy(p + (in ? 12 : 16), peer + 12, 4);
	at[0] = (uint8_t)(number >> 8);
	at[1] = (uint8_t)number;
	p[32] = 0x50;
	p[33] = flags;
}

static void write_record(struct ur_rings *r, uint16_t kind, uint32_t scope_id,
			 const void *data, uint32_t len)
{
	const struct ur_ring_rec rec = { .index = kind, .scope_id = scope_id };
	uint8_t *at = ur_ring_reserve(&r->tx, len);

	assert_non_null(at);
	memcpy(at, data, len);
	if (ur_ring_publish(&r->tx, &rec, len))
		ur_rings_wake(r);
}

static void write_segment(struct ur_rings *r, uint16_t number, uint8_t flags)
{
	uint8_t p[40];

	make_segment(p, false, number, flags);
	write_record(r, UR_RING_TCP_SEGMENT, 0, p, sizeof(p));
}

static bool receive_segment_by(struct ur_port *by, uint16_t number,
			       uint8_t flags)
{
	uint32_t before = await_of(by, &by->received, 0);
	uint8_t p[40];

	make_segment(p, true, number, flags);
	pthread_mutex_lock(&by->lock);
	by->segment = p;
	pthread_mutex_unlock(&by->lock);
	ring_toy(by);
	await_of(by, &by->received, before + 1);
	return by->taken;
}

static bool receive_segment(uint16_t number, uint8_t flags)
{
	return receive_segment_by(&toy, number, flags);
}

/* The number is the kernel's choice. */
static uint16_t lease(uint32_t session, uint32_t handle)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	struct ur_tcp_proof proof;

	assert_true(fd >= 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(ur_tcp_proof_read(fd, &proof), 0);
	assert_int_equal(ports->lease_tcp(session, handle, &proof, fd), 0);
	close(fd);
	return proof.port;
}

/* A port of so many queues, in a file. */
static int begin(unsigned int queues)
{
	char path[] = "/tmp/urnic-ports-XXXXXX";
	int fd = mkstemp(path), err;

	if (fd < 0 || dprintf(fd,
			      "{ \"ports\": { \"name\": \"lo\", "
			      "\"queues\": %u, "
			      "\"addresses\": \"10.0.0.1/24\" } }",
			      queues) < 0)
		return -1;
	close(fd);
	setenv("URNIC_CONFIG", path, 1);
	err = ur_ports_start(&ports);
	unlink(path);
	return err;
}

#endif
