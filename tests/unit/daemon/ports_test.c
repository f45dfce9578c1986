/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread of a port that urnicd runs, and its lanes, over a port that is a
 * toy: it has interrupts, so nothing wakes the thread but what is to.  The
 * lanes are the test's.
 */
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
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/ports.h"
#include "link/port.h"
#include "link/ring.h"
#include "link/ring_port.h"

#define WAIT_S 20
#define SLOT   7u

struct ur_port {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool (*deliver)(void *arg, const struct ur_rx *rx);
	void *arg;
	int fd;		/* its interrupt */
	uint32_t waits; /* how often it was waited for */
	uint32_t sent;	/* trains */
	uint32_t row;	/* of them, since it was polled last */
	uint32_t longest;
	struct ur_train last;
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	const uint8_t *segment; /* to be received */
	uint32_t segments;	/* that have left */
	uint8_t left[128];	/* the last one … */
	uint32_t left_len;	/* … and its length */
	const struct ur_rx *in; /* to be received */
	uint32_t received;
	bool taken; /* the last one, by a lane */
};

static struct ur_port toy = { .lock = PTHREAD_MUTEX_INITIALIZER,
			      .changed = PTHREAD_COND_INITIALIZER };
static const struct ur_server_ports *ports;
static const uint8_t ours[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
static const uint8_t peer[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };

/* ---- The toy ---- */

int ur_port_open(const struct ur_port_config *cfg, struct ur_port **out)
{
	toy.deliver = cfg->deliver;
	toy.tcp = cfg->tcp;
	toy.arg = cfg->arg;
	toy.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	*out = &toy;
	return 0;
}

int ur_port_send(struct ur_port *p, const struct ur_train *t, uint64_t now_ns)
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

uint32_t ur_port_poll(struct ur_port *p, uint64_t now_ns)
{
	uint64_t count;
	uint32_t n = 0;

	(void)!read(p->fd, &count, sizeof(count));
	pthread_mutex_lock(&p->lock);
	p->row = 0;
	if (p->segment) {
		p->taken = p->tcp(p->arg, p->segment, 40);
		p->segment = NULL;
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
	pthread_mutex_unlock(&p->lock);
	return n;
}

uint32_t ur_port_host(struct ur_port *p, uint64_t now_ns)
{
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
	*out = (struct ur_port_facts){ .driver = "net_toy", .queues = 1 };
}

void ur_port_stats(const struct ur_port *p, struct ur_port_stats *out)
{
	*out = (struct ur_port_stats){ .rx_missed = 13,
				       .tx_lost = 14,
				       .host_lost = 15 };
}

/* ---- The test ---- */

/* Until *n is at least `least`; how much it is. */
static uint32_t await(const uint32_t *n, uint32_t least)
{
	struct timespec end;
	uint32_t is;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WAIT_S;
	pthread_mutex_lock(&toy.lock);
	while (*n < least && !err)
		err = pthread_cond_timedwait(&toy.changed, &toy.lock, &end);
	is = *n;
	pthread_mutex_unlock(&toy.lock);
	assert_int_equal(err, 0);
	return is;
}

/* Let the thread go once around, and fall asleep. */
static void settle(void)
{
	uint64_t one = 1;
	uint32_t waits = await(&toy.waits, 0);

	assert_int_equal(write(toy.fd, &one, sizeof(one)), sizeof(one));
	await(&toy.waits, waits + 1);
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

static struct ur_ring_rec train(void)
{
	struct ur_ring_rec rec = { .pkt_len = 32, .sport = 49152 };

	memcpy(rec.src, ours, 16);
	memcpy(rec.dst, peer, 16);
	return rec;
}

/* As link/ring_link does it. */
static void write_train(struct ur_rings *r, const struct ur_ring_rec *rec,
			uint32_t len)
{
	uint8_t *at = ur_ring_reserve(&r->tx, len);

	assert_non_null(at);
	memset(at, 0x55, len);
	if (ur_ring_publish(&r->tx, rec, len))
		ur_rings_bell(r);
}

/* A packet to a queue pair of that slot; did a lane take it? */
static bool receive(unsigned int slot)
{
	const uint8_t bth[16] = {
		0, 0, 0, 0, 0, (uint8_t)(slot >> 2), (uint8_t)(slot << 6), 1
	};
	const struct ur_rx rx = { .data = bth, .len = sizeof(bth) };
	uint32_t before = await(&toy.received, 0);
	uint64_t one = 1;

	pthread_mutex_lock(&toy.lock);
	toy.in = &rx;
	pthread_mutex_unlock(&toy.lock);
	assert_int_equal(write(toy.fd, &one, sizeof(one)), sizeof(one));
	await(&toy.received, before + 1);
	return toy.taken;
}

/* Nobody rings but the lane, and it came while the thread slept. */
static void the_first_train_of_a_lane_wakes_the_port(void **state)
{
	struct ur_ring_rec rec = train();
	uint32_t before = await(&toy.sent, 0);
	struct ur_rings r;

	settle();
	attach(&r, SLOT);
	write_train(&r, &rec, 80);
	assert_int_equal(await(&toy.sent, before + 1), before + 1);
	assert_int_equal(toy.last.npkts, 3);
	assert_int_equal(toy.last.pkt_len, 32);
	assert_int_equal(toy.last.bytes, 80);
	detach(&r, SLOT);
}

static void a_packet_goes_to_the_lane_of_its_slot(void **state)
{
	const uint8_t *payload;
	struct ur_ring_rec rec;
	struct ur_rings r;

	assert_false(receive(SLOT));
	attach(&r, SLOT);
	assert_true(receive(SLOT));
	assert_int_equal(ur_ring_peek(&r.rx, &rec, &payload), 1);
	assert_int_equal(rec.len, 16);
	ur_ring_pop(&r.rx);
	assert_false(receive(SLOT + 1));
	detach(&r, SLOT);
	assert_false(receive(SLOT));
}

/* What no lane would write; the other lane is heard all the same. */
static void who_writes_nonsense_is_not_heard_any_more(void **state)
{
	const struct ur_ring_rec good = train();
	struct ur_ring_rec bad[4] = { good, good, good, good };
	struct ur_rings liar, other;

	bad[0].pkt_len = 0; /* packets of nothing */
	bad[1].pkt_len = 1; /* more than a train has */
	bad[2].sport = 0;   /* ports that are not for everybody */
	bad[3].sport = 1023;
	attach(&other, SLOT + 1);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t before = await(&toy.sent, 0);

		attach(&liar, SLOT);
		write_train(&liar, &bad[i], 80);
		write_train(&liar, &good, 80);
		settle();
		write_train(&other, &good, 33);
		assert_int_equal(await(&toy.sent, before + 1), before + 1);
		assert_int_equal(toy.last.bytes, 33);
		assert_false(receive(SLOT));
		detach(&liar, SLOT);
	}
	detach(&other, SLOT + 1);
}

/* Whom a lane may not speak for, or speak to by the port, it does not. */
static void only_the_ports_own_paths_are_served(void **state)
{
	uint32_t before = await(&toy.sent, 0);
	struct ur_ring_rec rec = train();
	struct ur_rings r;

	attach(&r, SLOT);
	memcpy(rec.src, peer, 16);
	write_train(&r, &rec, 80);
	rec = train();
	memcpy(rec.dst, ours, 16);
	write_train(&r, &rec, 80);
	rec = train();
	write_train(&r, &rec, 40);
	assert_int_equal(await(&toy.sent, before + 1), before + 1);
	assert_int_equal(toy.last.bytes, 40);
	detach(&r, SLOT);
}

/* However many lanes have something to send. */
static void what_comes_in_does_not_wait_for_all_lanes(void **state)
{
	const struct ur_ring_rec rec = train();
	uint32_t before = await(&toy.sent, 0);
	struct ur_rings r[3];

	for (unsigned int i = 0; i < 3; i++)
		attach(&r[i], SLOT + i);
	/* The thread gets no further than to the toy meanwhile. */
	pthread_mutex_lock(&toy.lock);
	for (unsigned int n = 0; n < 200; n++)
		for (unsigned int i = 0; i < 3; i++)
			write_train(&r[i], &rec, 80);
	pthread_mutex_unlock(&toy.lock);
	await(&toy.sent, before + 600);
	pthread_mutex_lock(&toy.lock);
	assert_in_range(toy.longest, 1, 16);
	pthread_mutex_unlock(&toy.lock);
	for (unsigned int i = 0; i < 3; i++)
		detach(&r[i], SLOT + i);
}

/* Nobody would read its packets: the host's socket gets them. */
static void who_hangs_up_gets_nothing(void **state)
{
	struct ur_rings r;

	attach(&r, SLOT);
	assert_true(receive(SLOT));
	ur_rings_drop(&r);
	settle();
	assert_false(receive(SLOT));
	detach(&r, SLOT);
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

static void what_a_port_counts_is_told(void **state)
{
	struct ur_ring_rec rec = train();
	struct ur_rings r;

	assert_told("\"interface\":\"lo\",\"driver\":\"net_toy\","
		    "\"queues\":1,\"zero_copy\":\"off: memory is not pinned\","
		    "\"lanes\":0,");
	assert_told("\"rx_missed\":13,\"tx_lost\":14,\"host_lost\":15,"
		    "\"counters\":{\"rx_frames\":11,");
	assert_told(",\"drop_mac\":12,");
	attach(&r, SLOT);
	assert_told("\"lanes\":1,\"broken_lanes\":0,\"lanes_lost\":0,");
	ur_ring_count_lost(&r.rx);
	rec.pkt_len = 0;
	write_train(&r, &rec, 80);
	settle();
	assert_told("\"lanes\":1,\"broken_lanes\":1,\"lanes_lost\":1,");
	detach(&r, SLOT);
}

/* ---- Processes that have a TCP of their own ---- */

#define SESSION 77u
#define SYN	2u
#define RST	4u
#define ACK	16u

static void attach_tcp(struct ur_rings *r, uint32_t session)
{
	int sock = ports->attach_tcp(session, if_nametoindex("lo"));

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
		ur_rings_bell(r);
}

static void write_segment(struct ur_rings *r, uint16_t number, uint8_t flags)
{
	uint8_t p[40];

	make_segment(p, false, number, flags);
	write_record(r, UR_RING_TCP_SEGMENT, 0, p, sizeof(p));
}

static bool receive_segment(uint16_t number, uint8_t flags)
{
	uint32_t before = await(&toy.received, 0);
	uint64_t one = 1;
	uint8_t p[40];

	make_segment(p, true, number, flags);
	pthread_mutex_lock(&toy.lock);
	toy.segment = p;
	pthread_mutex_unlock(&toy.lock);
	assert_int_equal(write(toy.fd, &one, sizeof(one)), sizeof(one));
	await(&toy.received, before + 1);
	return toy.taken;
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

static void segments_go_to_the_process_that_called(void **state)
{
	uint32_t before = await(&toy.segments, 0);
	const uint8_t *payload;
	struct ur_ring_rec rec;
	struct ur_rings r;
	uint16_t number;

	attach_tcp(&r, SESSION);
	assert_int_equal(ports->attach_tcp(SESSION, if_nametoindex("lo")),
			 -EEXIST);
	number = lease(SESSION, 5);
	assert_false(receive_segment(number, SYN | ACK));
	settle();
	/* It wakes the thread. */
	write_segment(&r, number, SYN);
	assert_int_equal(await(&toy.segments, before + 1), before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	assert_int_equal(ur_ring_peek(&r.rx, &rec, &payload), 1);
	assert_int_equal(rec.len, 40);
	assert_int_equal(payload[33], SYN | ACK);
	ur_ring_pop(&r.rx);
	assert_told("\"tcp\":{\"processes\":1,\"flows\":1,\"leases\":1,");
	/* What it says of itself: no such connection; not needed any more. */
	{
		struct ur_ring_tcp_ends e = { .peer_port = { 0, 0 } };

		memcpy(e.local, ours, 16);
		memcpy(e.peer, peer, 16);
		e.local_port[0] = (uint8_t)(number >> 8);
		e.local_port[1] = (uint8_t)number;
		write_record(&r, UR_RING_TCP_UNKNOWN, 0, &e, sizeof(e));
	}
	settle();
	assert_false(receive_segment(number, ACK));
	write_segment(&r, number, SYN);
	await(&toy.segments, before + 2);
	assert_true(receive_segment(number, ACK));
	write_record(&r, UR_RING_TCP_PUT, 5, "", 0);
	settle();
	assert_false(receive_segment(number, ACK));
	assert_told("\"flows\":0,\"leases\":0,");
	detach_tcp(&r, SESSION);
	ports->put_tcp(SESSION, 5);
}

/* It is dropped and counted, and the other's go on. */
static void nobody_speaks_for_another(void **state)
{
	struct ur_rings r, liar;
	uint16_t number;
	uint32_t before;
	uint8_t p[40];

	attach_tcp(&r, SESSION);
	attach_tcp(&liar, SESSION + 1);
	number = lease(SESSION, 1);
	before = await(&toy.segments, 0);
	write_segment(&r, number, SYN);
	before = await(&toy.segments, before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	write_segment(&liar, number, SYN);
	write_segment(&liar, number, RST);
	write_segment(&liar, number, ACK);
	make_segment(p, true, number, ACK); /* from the peer's address */
	write_record(&liar, UR_RING_TCP_SEGMENT, 0, p, sizeof(p));
	write_record(&liar, UR_RING_TCP_PUT, 1, "", 0);
	settle();
	assert_told("\"tcp_foreign\":4,");
	write_segment(&r, number, ACK);
	assert_int_equal(await(&toy.segments, before + 1), before + 1);
	detach_tcp(&liar, SESSION + 1);
	assert_true(receive_segment(number, ACK));
	detach_tcp(&r, SESSION);
}

static void nonsense_on_a_tcp_ring(void **state)
{
	static const struct {
		uint16_t kind;
		uint32_t len;
	} bad[] = { { 3, 40 },
		    { 0xffff, 0 },
		    { UR_RING_TCP_UNKNOWN, 35 },
		    { UR_RING_TCP_SEGMENT, 60000 } };
	static const uint8_t zeros[60000];

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t before = await(&toy.segments, 0);
		struct ur_rings r;
		uint16_t number;

		attach_tcp(&r, SESSION);
		number = lease(SESSION, 1);
		write_record(&r, bad[i].kind, 0, zeros, bad[i].len);
		write_segment(&r, number, SYN);
		settle();
		settle();
		assert_false(receive_segment(number, SYN | ACK));
		assert_int_equal(await(&toy.segments, 0), before);
		detach_tcp(&r, SESSION);
	}
}

/* What it wrote last leaves, and then a reset. */
static void a_process_that_ends_is_spoken_for(void **state)
{
	uint32_t before = await(&toy.segments, 0);
	struct ur_rings r;
	uint16_t number;

	attach_tcp(&r, SESSION);
	number = lease(SESSION, 1);
	write_segment(&r, number, SYN);
	await(&toy.segments, before + 1);
	assert_true(receive_segment(number, SYN | ACK));
	write_segment(&r, number, ACK);
	ur_rings_drop(&r);
	ports->detach_tcp(SESSION);
	assert_int_equal(await(&toy.segments, 0), before + 3);
	assert_int_equal(toy.left_len, 40);
	assert_int_equal(toy.left[33], RST);
	assert_told("\"tcp_resets\":");
	assert_told("\"processes\":0,\"flows\":0,\"leases\":0,");
	assert_false(receive_segment(number, ACK));
}

static void leases_of_nobody(void **state)
{
	struct ur_tcp_proof other = { .port = 4000, .addr = { 1, 2, 3 } };
	struct ur_rings r;

	assert_int_equal(ports->attach_tcp(SESSION, 0), -ENOENT);
	other.families = UR_TCP_IPV4;
	assert_int_equal(ports->lease_tcp(SESSION, 1, &other, -1), -ENOENT);
	attach_tcp(&r, SESSION);
	other.families = 0;
	assert_int_equal(ports->lease_tcp(SESSION, 1, &other, -1), -ENOENT);
	other.families = UR_TCP_IPV4;
	assert_int_equal(ports->lease_tcp(SESSION, 1, &other, -1), -EBADF);
	detach_tcp(&r, SESSION);
	ports->detach_tcp(SESSION);
}

static int setup(void **state)
{
	static const char text[] = "{ \"ports\": { \"name\": \"lo\", "
				   "\"addresses\": \"10.0.0.1/24\" } }";
	char path[] = "/tmp/urnic-ports-XXXXXX";
	int fd = mkstemp(path), err;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -1;
	close(fd);
	setenv("URNIC_CONFIG", path, 1);
	err = ur_ports_start(&ports);
	unlink(path);
	return err;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_train_of_a_lane_wakes_the_port),
		cmocka_unit_test(a_packet_goes_to_the_lane_of_its_slot),
		cmocka_unit_test(who_writes_nonsense_is_not_heard_any_more),
		cmocka_unit_test(only_the_ports_own_paths_are_served),
		cmocka_unit_test(what_comes_in_does_not_wait_for_all_lanes),
		cmocka_unit_test(who_hangs_up_gets_nothing),
		cmocka_unit_test(what_a_port_counts_is_told),
		cmocka_unit_test(segments_go_to_the_process_that_called),
		cmocka_unit_test(nobody_speaks_for_another),
		cmocka_unit_test(nonsense_on_a_tcp_ring),
		cmocka_unit_test(a_process_that_ends_is_spoken_for),
		cmocka_unit_test(leases_of_nobody),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
