/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections between processes of one host, through urnicd. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"
#include "conn_peer.h"
#include "world.h"

#define PORT	     7174
/* That a process has: of its lane, and for connections. */
#define SLOTS_OF_ONE 2u
/* A message that comes before a process is back is repeated after 5 s (cm/send.c). */
#define MS	     12000
#define ALICE	     61001
#define BOB	     61002

static struct cevent expect(struct cpeer *p, enum ur_conn_event_type type)
{
	struct cevent e = cpeer_event(p, MS);

	assert_int_equal(e.type, type);
	return e;
}

static void expect_nothing(struct cpeer *p, int ms)
{
	assert_int_equal(cpeer_event(p, ms).type, -1);
}

/* From connect to established; the numbers of both sides' connections. */
static void connect_both(struct cpeer *server, struct cpeer *client,
			 const char *to, uint16_t port, int *s, int *c)
{
	uint32_t theirs, ours = cpeer_qpn(0x52);
	struct cevent e;

	*c = cpeer_connect(client, UR_PS_TCP, to, port, 0x41);
	assert_true(*c >= 0);
	e = expect(server, UR_CONN_REQUEST);
	*s = e.conn;
	assert_int_equal(e.first, 0x41);
	theirs = e.qpn;
	assert_int_equal(theirs & 0xff, 0x41);
	assert_int_equal(cpeer_do(server, CDO_ACCEPT, *s, ours), 0);
	e = expect(client, UR_CONN_RESPONSE);
	assert_int_equal(e.conn, *c);
	assert_int_equal(e.first, 0x52);
	assert_int_equal(e.qpn, ours);
	assert_int_equal(cpeer_rtr(client, *c), ours);
	assert_int_equal(cpeer_rtr(server, *s), theirs);
	assert_int_equal(cpeer_do(client, CDO_ESTABLISH, *c, 0), 0);
	assert_int_equal(expect(server, UR_CONN_ESTABLISHED).conn, *s);
}

static void connect_and_disconnect(void **state)
{
	static const char *const to[] = { "127.0.0.1", "::1" };
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	for (int i = 0; i < 2; i++) {
		connect_both(&server, &client, to[i], PORT, &s, &c);
		assert_int_equal(cpeer_do(i ? &server : &client, CDO_DISCONNECT,
					  i ? s : c, 0),
				 0);
		expect(i ? &client : &server, UR_CONN_DISCONNECTED);
		if (i)
			cpeer_do(&client, CDO_DISCONNECT, c, 0);
		else
			cpeer_do(&server, CDO_DISCONNECT, s, 0);
		expect(i ? &server : &client, UR_CONN_DISCONNECTED);
		expect(&client, UR_CONN_TIMEWAIT_EXIT);
		expect(&server, UR_CONN_TIMEWAIT_EXIT);
		cpeer_do(&client, CDO_DESTROY, c, 0);
		cpeer_do(&server, CDO_DESTROY, s, 0);
	}
	cpeer_end(&client);
	cpeer_end(&server);
}

static void addresses_of_a_request(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct sockaddr_in *a;
	struct cevent e;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "0.0.0.0", PORT), 0);
	assert_int_equal(
		cpeer_connect(&client, UR_PS_TCP, "127.0.0.1", PORT, 1), 0);
	e = expect(&server, UR_CONN_REQUEST);
	a = (struct sockaddr_in *)&e.src;
	assert_int_equal(a->sin_family, AF_INET);
	assert_int_equal(ntohs(a->sin_port), PORT);
	assert_int_equal(ntohl(a->sin_addr.s_addr), INADDR_LOOPBACK);
	a = (struct sockaddr_in *)&e.dst;
	assert_int_equal(ntohl(a->sin_addr.s_addr), INADDR_LOOPBACK);
	assert_in_range(ntohs(a->sin_port), 32768, 60999);
	cpeer_end(&client);
	cpeer_end(&server);
}

static void rejected_by_the_consumer(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct cevent e;
	int c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	c = cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 1);
	e = expect(&server, UR_CONN_REQUEST);
	assert_int_equal(cpeer_do(&server, CDO_REJECT, e.conn, 0x33), 0);
	e = expect(&client, UR_CONN_REJECTED);
	assert_int_equal(e.conn, c);
	assert_int_equal(e.status, 28);
	assert_int_equal(e.first, 0x33);
	cpeer_end(&client);
	cpeer_end(&server);
}

static void nobody_listens(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	uint16_t port = PORT;

	assert_true(cpeer_connect(&client, UR_PS_TCP, "127.0.0.1", PORT, 1) >=
		    0);
	assert_int_equal(expect(&client, UR_CONN_REJECTED).status, 8);
	/* Bound is not listening; nor is another port space. */
	assert_int_equal(cpeer_bind(&server, UR_PS_TCP, "0.0.0.0", &port, 0),
			 0);
	assert_int_equal(cpeer_serve(&server, UR_PS_UDP, "0.0.0.0", PORT), 1);
	cpeer_connect(&client, UR_PS_TCP, "127.0.0.1", PORT, 1);
	assert_int_equal(expect(&client, UR_CONN_REJECTED).status, 8);
	cpeer_end(&client);
	cpeer_end(&server);
}

static void listener_dies(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 1);
	expect(&server, UR_CONN_REQUEST);
	cpeer_kill(&server);
	/* A client that waits for an answer, and one that comes later. */
	assert_int_equal(expect(&client, UR_CONN_REJECTED).status, 28);
	cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 2);
	assert_int_equal(expect(&client, UR_CONN_REJECTED).status, 8);
	server = cpeer_start(0);
	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 3);
	assert_int_equal(expect(&server, UR_CONN_REQUEST).first, 3);
	cpeer_end(&client);
	cpeer_end(&server);
}

/* Its requests are refused, also those not taken yet. */
static void listener_is_destroyed(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "::1", PORT, &s, &c);
	assert_int_equal(cpeer_do(&server, CDO_DESTROY, 0, 0), 0);
	cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 2);
	assert_int_equal(expect(&client, UR_CONN_REJECTED).status, 8);
	/* What was connected stays so. */
	assert_int_equal(cpeer_do(&client, CDO_DISCONNECT, c, 0), 0);
	assert_int_equal(expect(&server, UR_CONN_DISCONNECTED).conn, s);
	cpeer_end(&client);
	cpeer_end(&server);
}

/* Between two listeners of a port a request waits for the second, which must
 * not be long in coming: on a busy machine it may take some tries. */
static bool handed_on(struct cpeer *server, struct cpeer *client, int *listener,
		      int pause_ms)
{
	struct cevent e = { .type = -1 };
	int c;

	assert_int_equal(cpeer_do(server, CDO_DESTROY, *listener, 0), 0);
	sleep_ms(pause_ms);
	c = cpeer_connect(client, UR_PS_TCP, "::1", PORT, 0x21);
	sleep_ms(50);
	*listener = cpeer_serve(server, UR_PS_TCP, "::", PORT);
	assert_true(*listener >= 0);
	for (int ms = 0; ms < MS; ms += 40) {
		e = cpeer_event(server, 20);
		if (e.type == UR_CONN_REQUEST)
			break;
		if (cpeer_event(client, 20).type == UR_CONN_REJECTED)
			return false;
	}
	assert_int_equal(e.type, UR_CONN_REQUEST);
	assert_int_equal(e.first, 0x21);
	expect_nothing(client, 1);
	assert_int_equal(cpeer_do(client, CDO_DESTROY, c, 0), 0);
	return true;
}

static void next_listener_gets_the_request(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	int l = cpeer_serve(&server, UR_PS_TCP, "::", PORT), tries = 0;

	assert_true(l >= 0);
	while (!handed_on(&server, &client, &l, 0))
		assert_in_range(++tries, 1, 30);
	/* perftest's sides sleep for a second before they meet again. */
	while (!handed_on(&server, &client, &l, 1000))
		assert_in_range(++tries, 1, 30);
	cpeer_end(&client);
	cpeer_end(&server);
}

static void exit_hangs_up(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	cpeer_end(&server);
	assert_int_equal(expect(&client, UR_CONN_DISCONNECTED).conn, c);
	cpeer_end(&client);
}

/* In any state: the peer of a killed process gets an event. */
static void kill_hangs_up(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct cpeer third;
	struct cevent e;
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	cpeer_kill(&client);
	assert_int_equal(expect(&server, UR_CONN_DISCONNECTED).conn, s);
	client = cpeer_start(0);
	connect_both(&server, &client, "::1", PORT, &s, &c);
	/* The exit file is handed to the next daemon as well. */
	daemon_kill();
	assert_true(daemon_wait_used(2 * SLOTS_OF_ONE, WAIT_MS));
	sleep_ms(50);
	third = cpeer_start(0);
	assert_int_equal(cpeer_connect(&third, UR_PS_TCP, "::1", PORT, 0x41),
			 0);
	e = expect(&server, UR_CONN_REQUEST);
	assert_int_equal(cpeer_do(&server, CDO_ACCEPT, e.conn, cpeer_qpn(1)),
			 0);
	expect(&third, UR_CONN_RESPONSE);
	cpeer_kill(&server);
	assert_int_equal(expect(&client, UR_CONN_DISCONNECTED).conn, c);
	e = cpeer_event(&third, MS);
	assert_true(e.type == UR_CONN_DISCONNECTED ||
		    e.type == UR_CONN_REJECTED);
	cpeer_end(&third);
	cpeer_end(&client);
}

/* A process that loses urnicd and comes back has not died. */
static void lost_daemon_is_no_death(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	assert_int_equal(cpeer_do(&server, CDO_LOSE, 0, 0), 0);
	daemon_kill();
	assert_true(daemon_wait_used(2 * SLOTS_OF_ONE, WAIT_MS));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cpeer_do(&server, CDO_LOSE, 0, 0), 0);
		sleep_ms(100);
		assert_true(daemon_wait_used(2 * SLOTS_OF_ONE, WAIT_MS));
	}
	expect_nothing(&client, 2500);
	expect_nothing(&server, 1);
	/* It still has its port, and its exit file. */
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	cpeer_kill(&server);
	expect(&client, UR_CONN_DISCONNECTED);
	expect(&client, UR_CONN_DISCONNECTED);
	cpeer_end(&client);
}

/* Nor one that takes its time to come back. */
static void late_comeback_is_no_death(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct cevent e;
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	assert_int_equal(cpeer_do(&server, CDO_LOSE, 0, 0), 0);
	kill(server.pid, SIGSTOP);
	e = cpeer_event(&client, 3000);
	kill(server.pid, SIGCONT);
	assert_int_equal(e.type, -1);
	assert_true(daemon_wait_used(2 * SLOTS_OF_ONE, WAIT_MS));
	expect_nothing(&client, 100);
	/* It dies before it has come back: that is one. */
	assert_int_equal(cpeer_do(&server, CDO_LOSE, 0, 0), 0);
	cpeer_kill(&server);
	expect(&client, UR_CONN_DISCONNECTED);
	cpeer_end(&client);
}

/* Nor does urnicd end, idle, before it knows. */
static void urnicd_waits_for_a_comeback(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	pid_t daemon;
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	daemon = daemon_pid();
	assert_int_equal(cpeer_do(&server, CDO_LOSE, 0, 0), 0);
	kill(server.pid, SIGSTOP);
	assert_int_equal(cpeer_do(&client, CDO_LOSE, 0, 0), 0);
	kill(client.pid, SIGSTOP);
	sleep_ms(4000);
	assert_int_equal(daemon_pid(), daemon);
	kill(server.pid, SIGKILL);
	kill(client.pid, SIGCONT);
	expect(&client, UR_CONN_DISCONNECTED);
	cpeer_kill(&server);
	cpeer_end(&client);
}

/* The peer of a killed process gets an answer when it hangs up. */
static void disconnect_from_the_dead(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	assert_int_equal(cpeer_do(&client, CDO_DISCONNECT, c, 0), 0);
	cpeer_kill(&server);
	assert_int_equal(expect(&client, UR_CONN_DISCONNECTED).conn, c);
	cpeer_end(&client);
}

static void comm_est_is_as_good_as_rtu(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct cevent e;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 1);
	e = expect(&server, UR_CONN_REQUEST);
	assert_int_equal(cpeer_do(&server, CDO_ACCEPT, e.conn, 0x52), 0);
	expect(&client, UR_CONN_RESPONSE);
	expect_nothing(&server, 20);
	cpeer_do(&server, CDO_COMM_EST, 0, 0x53);
	expect_nothing(&server, 20);
	cpeer_do(&server, CDO_COMM_EST, 0, 0x52);
	assert_int_equal(expect(&server, UR_CONN_ESTABLISHED).conn, e.conn);
	cpeer_end(&client);
	cpeer_end(&server);
}

static void datagram_lookup(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct cevent e;
	int c;

	assert_int_equal(cpeer_serve(&server, UR_PS_UDP, "::", PORT), 0);
	c = cpeer_connect(&client, UR_PS_UDP, "127.0.0.1", PORT, 0x11);
	e = expect(&server, UR_CONN_REQUEST);
	assert_int_equal(e.first, 0x11);
	assert_int_equal(cpeer_do(&server, CDO_ACCEPT, e.conn, 0x77), 0);
	e = expect(&client, UR_CONN_ESTABLISHED);
	assert_int_equal(e.conn, c);
	assert_int_equal(e.qpn, 0x77);
	assert_int_equal(e.qkey, 0x01234567);
	assert_int_equal(e.dgid[15], 1);
	assert_int_equal(e.dgid[12], 127);
	/* No listener: refused at once. */
	cpeer_connect(&client, UR_PS_UDP, "127.0.0.1", PORT + 1, 0x11);
	assert_true(expect(&client, UR_CONN_UNREACHABLE).status > 0);
	cpeer_end(&client);
	cpeer_end(&server);
}

/* Ports, listeners and connections outlive urnicd. */
static void daemon_is_killed(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0), thief;
	uint16_t port = PORT;
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	connect_both(&server, &client, "127.0.0.1", PORT, &s, &c);
	for (int i = 0; i < 3; i++) {
		pid_t old = daemon_pid();
		int s2, c2;

		daemon_kill();
		if (i == 1)
			assert_int_not_equal(daemon_wait(old, WAIT_MS), 0);
		if (i == 2)
			assert_true(
				daemon_wait_used(2 * SLOTS_OF_ONE, WAIT_MS));
		thief = cpeer_start(0);
		assert_true(cpeer_bind(&thief, UR_PS_TCP, "::", &port, 0) < 0);
		cpeer_kill(&thief);
		connect_both(&server, &client, i & 1 ? "::1" : "127.0.0.1",
			     PORT, &s2, &c2);
	}
	daemon_kill();
	assert_int_equal(cpeer_do(&client, CDO_DISCONNECT, c, 0), 0);
	assert_true(daemon_wait_used(2 * SLOTS_OF_ONE, WAIT_MS));
	assert_int_equal(expect(&server, UR_CONN_DISCONNECTED).conn, s);
	cpeer_end(&client);
	cpeer_end(&server);
}

static void ports_are_given_back(void **state)
{
	struct cpeer a = cpeer_start(0), b = cpeer_start(0);
	uint16_t port = PORT, other = 0;

	assert_int_equal(cpeer_bind(&a, UR_PS_TCP, "127.0.0.1", &port, 0), 0);
	assert_int_equal(cpeer_bind(&b, UR_PS_TCP, "127.0.0.1", &port, 0),
			 -EADDRINUSE);
	assert_int_equal(cpeer_bind(&b, UR_PS_TCP, "0.0.0.0", &port, 0),
			 -EADDRNOTAVAIL);
	assert_int_equal(cpeer_bind(&b, UR_PS_TCP, "10.9.8.7", &port, 0),
			 -EADDRNOTAVAIL);
	assert_true(cpeer_bind(&b, UR_PS_TCP, "127.0.0.1", &other, 0) >= 0);
	assert_int_not_equal(other, 0);
	assert_int_equal(cpeer_do(&a, CDO_DESTROY, 0, 0), 0);
	sleep_ms(20);
	assert_true(cpeer_bind(&b, UR_PS_TCP, "127.0.0.1", &port, 0) >= 0);
	cpeer_kill(&b);
	sleep_ms(50);
	assert_true(cpeer_bind(&a, UR_PS_TCP, "::", &port, 0) >= 0);
	cpeer_end(&a);
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
	return ntohs(((const struct sockaddr_in *)a)->sin_port);
}

/* One connection after the other; the client's port of the last. */
static uint16_t call_some(struct cpeer *server, struct cpeer *client, int n)
{
	struct cevent e = { .type = -1 };

	for (int i = 0; i < n; i++) {
		int c = cpeer_connect(client, UR_PS_TCP, "127.0.0.1", PORT, 1);

		assert_true(c >= 0);
		e = expect(server, UR_CONN_REQUEST);
		assert_int_equal(cpeer_do(server, CDO_REJECT, e.conn, 0), 0);
		expect(client, UR_CONN_REJECTED);
		assert_int_equal(cpeer_do(client, CDO_DESTROY, c, 0), 0);
		assert_int_equal(cpeer_do(server, CDO_DESTROY, e.conn, 0), 0);
	}
	return port_of(&e.dst);
}

/* A process that has connected before need not ask urnicd for a port. */
static void ports_to_connect_from_are_kept(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct cevent e;
	int made[4];

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	for (int i = 0; i < 4; i++)
		made[i] = cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(cpeer_do(&client, CDO_DESTROY, made[i], 0), 0);
	kill(daemon_pid(), SIGSTOP);
	for (int i = 0; i < 4; i++)
		assert_true(cpeer_connect(&client, UR_PS_TCP, "::1", PORT, 2) >=
			    0);
	kill(daemon_pid(), SIGCONT);
	do {
		e = cpeer_event(&server, MS);
		assert_int_not_equal(e.type, -1);
	} while (e.type != UR_CONN_REQUEST || e.first != 2);
	cpeer_end(&client);
	cpeer_end(&server);
}

/* A kept port belongs to its owner, which may use it for anything. */
static void kept_ports_are_their_owners(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	struct cpeer thief = cpeer_start(0);
	uint16_t port;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	port = call_some(&server, &client, 1);
	assert_int_equal(cpeer_bind(&thief, UR_PS_TCP, "127.0.0.1", &port, 0),
			 -EADDRNOTAVAIL);
	daemon_kill();
	assert_true(daemon_wait_used(3 * SLOTS_OF_ONE, WAIT_MS));
	assert_int_equal(cpeer_bind(&thief, UR_PS_TCP, "127.0.0.1", &port, 0),
			 -EADDRNOTAVAIL);
	assert_true(cpeer_serve(&client, UR_PS_TCP, "127.0.0.1", port) >= 0);
	assert_true(cpeer_connect(&thief, UR_PS_TCP, "127.0.0.1", port, 7) >=
		    0);
	assert_int_equal(expect(&client, UR_CONN_REQUEST).first, 7);
	/* The process ends, and so do its rights. */
	port = call_some(&server, &client, 20);
	cpeer_kill(&client);
	sleep_ms(50);
	assert_true(cpeer_bind(&thief, UR_PS_TCP, "127.0.0.1", &port, 0) >= 0);
	cpeer_end(&thief);
	cpeer_end(&server);
}

/* Each of the other; a user's daemon is told apart in user_test. */
static void users_connect_but_do_not_steal(void **state)
{
	struct cpeer root = cpeer_start(0), alice, bob;
	uint16_t port = PORT, low = 80;
	int s, c;

	/* A daemon of root's, which serves all. */
	assert_int_equal(cpeer_serve(&root, UR_PS_TCP, "::", 9), 0);
	alice = cpeer_start(ALICE);
	bob = cpeer_start(BOB);
	assert_int_equal(cpeer_serve(&alice, UR_PS_TCP, "::", PORT), 0);
	connect_both(&alice, &bob, "::1", PORT, &s, &c);
	connect_both(&alice, &root, "127.0.0.1", PORT, &s, &c);
	assert_true(cpeer_bind(&bob, UR_PS_TCP, "::", &port, CPEER_REUSE) < 0);
	assert_true(cpeer_bind(&bob, UR_PS_TCP, "127.0.0.1", &port, 0) < 0);
	assert_true(cpeer_bind(&root, UR_PS_TCP, "::1", &port, 0) < 0);
	assert_int_equal(cpeer_bind(&bob, UR_PS_TCP, "::", &low, 0), -EACCES);
	assert_true(cpeer_bind(&root, UR_PS_TCP, "::", &low, 0) >= 0);
	cpeer_kill(&alice);
	sleep_ms(50);
	assert_true(cpeer_serve(&bob, UR_PS_TCP, "::", PORT) >= 0);
	cpeer_end(&bob);
	cpeer_end(&root);
}

static void alone_without_a_daemon(void **state)
{
	struct cpeer p = cpeer_start_alone();
	int s, c;

	assert_int_equal(cpeer_serve(&p, UR_PS_TCP, "::", PORT), 0);
	assert_int_equal(daemon_pid(), 0);
	connect_both(&p, &p, "127.0.0.1", PORT, &s, &c);
	cpeer_do(&p, CDO_DISCONNECT, c, 0);
	expect(&p, UR_CONN_DISCONNECTED);
	cpeer_connect(&p, UR_PS_TCP, "127.0.0.1", PORT + 1, 1);
	assert_int_equal(expect(&p, UR_CONN_REJECTED).status, 8);
	cpeer_end(&p);
}

static bool shown(const char *text)
{
	char cmd[512], line[4096];
	bool found = false;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "%s show", getenv("URNIC"));
	f = popen(cmd, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, text) != NULL;
	assert_int_equal(pclose(f), 0);
	return found;
}

static void connections_are_shown(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	int s, c;

	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT), 0);
	assert_true(shown("LISTEN"));
	assert_false(shown("ESTABLISHED"));
	connect_both(&server, &client, "::1", PORT, &s, &c);
	assert_true(shown("ESTABLISHED"));
	assert_true(shown("0x1061c06"));
	cpeer_end(&client);
	cpeer_end(&server);
}

static void many_at_once(void **state)
{
	struct cpeer server = cpeer_start(0), client = cpeer_start(0);
	enum { N = 300 };
	uint16_t port = PORT;

	assert_int_equal(cpeer_bind(&server, UR_PS_TCP, "::", &port, 0), 0);
	assert_int_equal(cpeer_listen(&server, 0, N), 0);
	for (int i = 0; i < N; i++)
		assert_true(cpeer_connect(&client, UR_PS_TCP, "::1", PORT,
					  (uint8_t)i) >= 0);
	for (int i = 0; i < N; i++) {
		struct cevent e = expect(&server, UR_CONN_REQUEST);

		assert_int_equal(
			cpeer_do(&server, CDO_ACCEPT, e.conn, cpeer_qpn(1)), 0);
	}
	for (int i = 0; i < N; i++) {
		struct cevent e = expect(&client, UR_CONN_RESPONSE);

		assert_int_equal(cpeer_do(&client, CDO_ESTABLISH, e.conn, 1),
				 0);
		expect(&server, UR_CONN_ESTABLISHED);
	}
	cpeer_end(&client);
	cpeer_end(&server);
}

/* Messages for a stopped server wait; other connections do not. */
static void stopped_server_delays_no_other(void **state)
{
	struct cpeer lazy = cpeer_start(0), server = cpeer_start(0);
	struct cpeer client = cpeer_start(0);
	int s, c;

	assert_int_equal(cpeer_serve(&lazy, UR_PS_TCP, "::", PORT), 0);
	assert_int_equal(cpeer_serve(&server, UR_PS_TCP, "::", PORT + 1), 0);
	kill(lazy.pid, SIGSTOP);
	for (int i = 0; i < 400; i++)
		assert_true(cpeer_connect(&client, UR_PS_TCP, "::1", PORT,
					  (uint8_t)i) >= 0);
	connect_both(&server, &client, "::1", PORT + 1, &s, &c);
	kill(lazy.pid, SIGCONT);
	for (int i = 0; i < 64; i++) /* its backlog */
		assert_int_equal(expect(&lazy, UR_CONN_REQUEST).first, i);
	cpeer_kill(&client);
	cpeer_end(&lazy);
	cpeer_end(&server);
}

static void users(void **state)
{
	if (geteuid() != 0 || !world_can_be(ALICE) || !world_can_be(BOB))
		SKIP_BECAUSE("needs root and a daemon that other users may "
			     "execute");
	users_connect_but_do_not_steal(state);
}

#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(connect_and_disconnect),
		T(addresses_of_a_request),
		T(rejected_by_the_consumer),
		T(nobody_listens),
		T(listener_dies),
		T(listener_is_destroyed),
		T(next_listener_gets_the_request),
		T(exit_hangs_up),
		T(kill_hangs_up),
		T(lost_daemon_is_no_death),
		T(late_comeback_is_no_death),
		T(urnicd_waits_for_a_comeback),
		T(disconnect_from_the_dead),
		T(comm_est_is_as_good_as_rtu),
		T(datagram_lookup),
		T(daemon_is_killed),
		T(ports_are_given_back),
		T(ports_to_connect_from_are_kept),
		T(kept_ports_are_their_owners),
		T(users),
		T(alone_without_a_daemon),
		T(connections_are_shown),
		T(many_at_once),
		T(stopped_server_delays_no_other),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
