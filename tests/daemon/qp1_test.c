/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes to QP1: a peer that this test plays with cm/ib_cm.h by hand, so
 * that it can lose and repeat messages, and one that sends rubbish.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "client/client.h"
#include "client/ipc_io.h"
#include "client/qp1.h"
#include "conn_peer.h"
#include "urnicd/server.h"
#include "wire/cm_msg.h"
#include "world.h"

#define PORT   7174
#define MS     5000
#define QUEUE  4096
#define FLOOD  20000
#define LOCAL6 ((const uint8_t[16]){ [15] = 1 })

/* This test's own CM. */
static struct ur_client *client;
static struct ur_cm *cm;
static struct ur_qp1 *qp1; /* of our slot */
static int slot_fd;
static struct ur_cm_dgram came[QUEUE];
static unsigned int ncame;
static struct cpeer server;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void on_mad(void *arg, const struct ur_cm_dgram *d)
{
	came[ncame++ % QUEUE] = *d;
}

/* The next message that comes; its attribute, or 0 after ms. */
static int next_mad(int ms, struct ur_cm_dgram *out)
{
	uint64_t end = now() + (uint64_t)ms * 1000000u;
	unsigned int seen = ncame;
	struct ur_cm_msg m;

	while (ncame == seen && now() < end) {
		struct pollfd p[2] = { { ur_client_fd(client), POLLIN, 0 },
				       { slot_fd, POLLIN, 0 } };

		(void)poll(p, 2, 10);
		if (p[0].revents)
			ur_client_service(client);
		if (ncame == seen && p[1].revents)
			(void)ur_qp1_recv(qp1, on_mad, NULL);
	}
	if (ncame == seen || ur_cm_msg_decode(&m, came[seen % QUEUE].mad))
		return 0;
	*out = came[seen % QUEUE];
	ncame = seen + 1;
	return (int)m.attr;
}

/* A REQ or SIDR_REQ of a new id. */
static struct ur_cm_dgram request(uint16_t ps, uint16_t port)
{
	struct ur_cm_path path = { .remote_port = port,
				   .local_port = 40000,
				   .mtu = 3 };
	struct ur_cm_param p = { .qpn = cpeer_qpn(9) };
	struct ur_cm_dgram d;
	struct ur_cm_id *id;

	p.qp_type = ps == UR_PS_TCP ? UR_QPT_RC : UR_QPT_UD;
	memcpy(path.local, LOCAL6, 16);
	memcpy(path.remote, LOCAL6, 16);
	assert_int_equal(ur_cm_id_create(cm, ps, NULL, &id), 0);
	assert_int_equal(ur_cm_connect(id, &path, &p, now()), 0);
	assert_true(ur_cm_output(cm, &d));
	return d;
}

static int setup(void **state)
{
	struct ur_cm_config cfg = { .ca_guid = 77, .seed = 5 };

	if (world_setup(state))
		return -1;
	server = cpeer_start(0);
	if (cpeer_serve(&server, UR_PS_TCP, "::", PORT))
		return -1;
	ncame = 0;
	if (ur_client_open(&client, NULL, NULL) ||
	    ur_client_slot(client, &cfg.slot, &slot_fd) ||
	    ur_qp1_open(slot_fd, &qp1) || ur_cm_create(&cfg, &cm))
		return -1;
	ur_client_on_mad(client, on_mad, NULL);
	return 0;
}

/* After everything the server is as before. */
static int teardown(void **state)
{
	struct cpeer p = cpeer_start(0);
	struct cevent e;

	assert_true(cpeer_connect(&p, UR_PS_TCP, "::1", PORT, 0xee) >= 0);
	do
		e = cpeer_event(&server, MS);
	while (e.type == UR_CONN_REQUEST && e.first != 0xee);
	assert_int_equal(e.type, UR_CONN_REQUEST);
	cpeer_end(&p);
	cpeer_end(&server);
	ur_cm_destroy(cm);
	ur_qp1_close(qp1);
	ur_client_close(client);
	return world_teardown(state);
}

static int teardown_dead(void **state)
{
	cpeer_kill(&server);
	server = cpeer_start(0);
	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	return teardown(state);
}

static struct cevent expect(enum ur_conn_event_type type)
{
	struct cevent e = cpeer_event(&server, MS);

	assert_int_equal(e.type, type);
	return e;
}

/*
 * The REP is lost and the listener ends: the repeated REQ must reach the
 * process that has accepted, and not be refused as one for a closed port.
 */
static void repeated_request_finds_its_process(void **state)
{
	struct ur_cm_dgram req = request(UR_PS_TCP, PORT), rep, again;
	struct cevent e;

	assert_int_equal(ur_qp1_send(qp1, &req), 0);
	e = expect(UR_CONN_REQUEST);
	assert_int_equal(cpeer_do(&server, CDO_ACCEPT, e.conn, cpeer_qpn(1)),
			 0);
	assert_int_equal(next_mad(MS, &rep), UR_CM_REP);
	assert_int_equal(cpeer_do(&server, CDO_DESTROY, 0, 0), 0);
	sleep_ms(20);
	assert_int_equal(ur_qp1_send(qp1, &req), 0);
	assert_int_equal(next_mad(MS, &again), UR_CM_REP);
	assert_memory_equal(again.mad, rep.mad, sizeof(rep.mad));
	/* Another request is refused. */
	req = request(UR_PS_TCP, PORT);
	assert_int_equal(ur_qp1_send(qp1, &req), 0);
	assert_int_equal(next_mad(MS, &again), UR_CM_REJ);
	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 2);
}

/*
 * A listener is closed and another one opened on its port: a request between the
 * two waits for it, but not for long.
 */
static void request_between_listeners(void **state)
{
	struct ur_cm_dgram req = request(UR_PS_TCP, PORT), answer;

	assert_int_equal(cpeer_do(&server, CDO_DESTROY, 0, 0), 0);
	sleep_ms(20);
	assert_int_equal(ur_qp1_send(qp1, &req), 0);
	assert_int_equal(next_mad(50, &answer), 0);
	assert_true(cpeer_serve(&server, UR_PS_TCP, "::", PORT) >= 0);
	(void)expect(UR_CONN_REQUEST);
	assert_int_equal(ncame, 0);
}

static void no_listener_comes_again(void **state)
{
	struct ur_cm_dgram req = request(UR_PS_TCP, PORT), answer;
	uint64_t before = now();

	assert_int_equal(cpeer_do(&server, CDO_DESTROY, 0, 0), 0);
	sleep_ms(20);
	assert_int_equal(ur_qp1_send(qp1, &req), 0);
	assert_int_equal(next_mad(MS, &answer), UR_CM_REJ);
	assert_true(now() - before < 2000000000u);
	assert_true(cpeer_serve(&server, UR_PS_TCP, "::", PORT) >= 0);
}

/* The sender gives up before it knows our communication ID. */
static void giving_up_finds_the_request(void **state)
{
	struct ur_cm_dgram req = request(UR_PS_TCP, PORT), rej = req;
	struct ur_cm_msg m, r;
	struct cevent e;

	assert_int_equal(ur_qp1_send(qp1, &req), 0);
	e = expect(UR_CONN_REQUEST);
	assert_int_equal(ur_cm_msg_decode(&m, req.mad), 0);
	r = (struct ur_cm_msg){ .attr = UR_CM_REJ,
				.tid = m.tid,
				.local_id = m.local_id };
	r.u.rej.reason = UR_CM_REJ_TIMEOUT;
	r.u.rej.ari_len = 8;
	r.u.rej.ari[7] = 77;
	ur_cm_msg_encode(&r, rej.mad);
	assert_int_equal(ur_qp1_send(qp1, &rej), 0);
	assert_int_equal(expect(UR_CONN_REJECTED).conn, e.conn);
}

/*
 * Any host can forge the REJ of a sender that gave up before it knew our ID,
 * which goes to every listener: not without limit, and others connect
 * meanwhile.
 */
static void flood_of_rejections(void **state)
{
	struct ur_bind_want want = { .ps = UR_PS_TCP, .port = PORT + 1 };
	struct ur_cm_dgram d = { .hop_limit = 64 };
	struct ur_cm_msg m = { .attr = UR_CM_REJ };
	struct cpeer p = cpeer_start(0);
	uint64_t begin = now();
	uint32_t handle;
	uint16_t port;

	assert_int_equal(ur_client_bind(client, &want, &handle, &port), 0);
	assert_int_equal(ur_client_listen(client, handle), 0);
	memcpy(d.src, LOCAL6, 16);
	memcpy(d.dst, LOCAL6, 16);
	m.u.rej.reason = UR_CM_REJ_TIMEOUT;
	for (uint32_t i = 0; i < FLOOD; i++) {
		m.tid = i;
		m.local_id = 0xabc00000 + i;
		ur_cm_msg_encode(&m, d.mad);
		assert_int_equal(ur_qp1_send(qp1, &d), 0);
		ur_client_service(client);
		if (i % (FLOOD / 10) == 0) {
			assert_true(cpeer_connect(&p, UR_PS_TCP, "::1", PORT,
						  0x77) >= 0);
			/* It may be lost in the flood, and repeated. */
			assert_int_equal(cpeer_event(&server, WAIT_MS).type,
					 UR_CONN_REQUEST);
		}
	}
	while (next_mad(100, &d))
		;
	/* Two listen. */
	assert_in_range(ncame, 1,
			UR_SPREAD_BURST + UR_SPREAD_PER_S +
				(now() - begin) * UR_SPREAD_PER_S / 1000000000);
	cpeer_end(&p);
}

static void send_to(uint16_t attr, uint32_t local_id, uint32_t remote_id)
{
	struct ur_cm_dgram d = { .hop_limit = 64 };
	struct ur_cm_msg m = { .attr = (enum ur_cm_attr)attr,
			       .tid = 1,
			       .local_id = local_id,
			       .remote_id = remote_id };

	memcpy(d.src, LOCAL6, 16);
	memcpy(d.dst, LOCAL6, 16);
	ur_cm_msg_encode(&m, d.mad);
	assert_int_equal(ur_qp1_send(qp1, &d), 0);
}

/* For a slot without an owner, with a socket or without, urnicd answers. */
static void messages_for_no_process(void **state)
{
	struct ur_cm_dgram req = request(UR_PS_UDP, 99), d;
	struct ur_cm_msg m;
	uint32_t mine;

	assert_int_equal(ur_cm_msg_decode(&m, req.mad), 0);
	mine = m.local_id;
	send_to(UR_CM_DREQ, mine, 1000u << 22 | 5);
	assert_int_equal(next_mad(MS, &d), UR_CM_DREP);
	send_to(UR_CM_DREQ, mine, 15u << 22 | 5);
	assert_int_equal(next_mad(MS, &d), UR_CM_DREP);
	send_to(UR_CM_REP, mine, 1000u << 22 | 5);
	assert_int_equal(next_mad(MS, &d), UR_CM_REJ);
	assert_int_equal(ur_cm_msg_decode(&m, d.mad), 0);
	assert_int_equal(m.u.rej.reason, UR_CM_REJ_INVALID_COMM_ID);
	assert_int_equal(ur_qp1_send(qp1, &req), 0);
	assert_int_equal(next_mad(MS, &d), UR_CM_SIDR_REP);
	/* No answer to an answer, nor to what is for urnicd's own slot. */
	send_to(UR_CM_DREP, mine, 1000u << 22 | 5);
	send_to(UR_CM_RTU, mine, 1000u << 22 | 5);
	send_to(UR_CM_REJ, mine, 5);
	assert_int_equal(next_mad(100, &d), 0);
}

static uint64_t dropped(void)
{
	struct ur_ipc_msg m = { .type = UR_IPC_HELLO,
				.version = UR_IPC_VERSION,
				.role = UR_IPC_ROLE_TOOL };
	int fd = ur_ipc_connect(), fds[UR_IPC_MAX_FDS];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	unsigned int n;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(ur_ipc_send(fd, &m, NULL, 0), 0);
		assert_int_equal(poll(&p, 1, MS), 1);
		assert_int_equal(ur_ipc_recv(fd, &m, fds, &n), 0);
		m.type = i ? m.type : UR_IPC_SHOW;
	}
	assert_int_equal(m.type, UR_IPC_SUMMARY);
	close(fd);
	return m.dropped;
}

/* Bytes of a good packet (BTH, DETH, MAD, ICRC) as `tx` would send it, one
 * spoilt; the ICRC is then wrong as well, but other checks come first. */
static void send_spoilt(int fd, unsigned int at, uint8_t bits, size_t len)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6,
				   .sin6_port = htons(ROCE_PORT),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	uint8_t b[300] = { 0x64, 0, 0xff, 0xff, 0, 0, 0, 1, 0x80, 0,
			   0,	 0, 0x80, 1,	0, 0, 0, 0, 0,	  1 };

	b[at] ^= bits;
	assert_int_equal(sendto(fd, b, len, 0, (struct sockaddr *)&to,
				sizeof(to)),
			 (ssize_t)len);
}

static void malformed_packets_are_counted(void **state)
{
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	uint64_t before = dropped();

	send_spoilt(fd, 0, 0, 280);	/* wrong ICRC */
	send_spoilt(fd, 0, 0x60, 280);	/* an RC SEND */
	send_spoilt(fd, 1, 0x01, 280);	/* a newer transport */
	send_spoilt(fd, 2, 0xff, 280);	/* partition */
	send_spoilt(fd, 7, 0x01, 280);	/* QP0 */
	send_spoilt(fd, 12, 0x80, 280); /* Q_Key */
	send_spoilt(fd, 0, 0, 276);	/* no whole MAD */
	send_spoilt(fd, 0, 0, 284);	/* and more */
	send_spoilt(fd, 0, 0, 11);
	send_spoilt(fd, 0, 0, 1);
	sleep_ms(50);
	assert_int_equal(dropped() - before, 10);
	close(fd);
}

/* Random contents and damaged requests, all with a good ICRC. */
static void random_mads(void **state)
{
	struct ur_cm_dgram good = request(UR_PS_TCP, PORT), d;
	struct ur_rng r;

	ur_rng_seed(&r, 20241121);
	for (int i = 0; i < 4000; i++) {
		d = good;
		if (i & 1) {
			for (unsigned int k = 24; k < sizeof(d.mad); k++)
				d.mad[k] = (uint8_t)ur_rng_next(&r);
			d.mad[17] = (uint8_t)(0x10 + ur_rng_below(&r, 12));
		}
		for (unsigned int k = ur_rng_below(&r, 4); k > 0; k--)
			d.mad[ur_rng_below(&r, 256)] ^=
				(uint8_t)(1u << ur_rng_below(&r, 8));
		assert_int_equal(ur_qp1_send(qp1, &d), 0);
		if (i % 64 == 0)
			sleep_ms(1);
	}
	sleep_ms(100);
}

#define T(name)	     cmocka_unit_test_setup_teardown(name, setup, teardown)
/* The backlog is full of requests that are never confirmed. */
#define T_FULL(name) cmocka_unit_test_setup_teardown(name, setup, teardown_dead)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(repeated_request_finds_its_process),
		T(request_between_listeners),
		T(no_listener_comes_again),
		T(giving_up_finds_the_request),
		T(flood_of_rejections),
		T(messages_for_no_process),
		T(malformed_packets_are_counted),
		T_FULL(random_mads),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
