/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What connect/conn.h promises about threads, ends and forks, on connections
 * of this process with itself (tests/daemon has two processes).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../own_net.h"
#include "connect/conn.h"
#include "engine/engine.h"

#define PORT  7174
#define MS    1000000u
#define ROUND 200

static struct ur_adapter *adapter;

/* One side; `ev` is the last event of each type. */
struct side {
	struct ur_conn *conn;
	_Atomic uint32_t events;
	_Atomic uint32_t seen[UR_CONN_ALT_PATH + 1];
	_Atomic bool ended; /* nothing may come any more */
	_Atomic bool violated;
	_Atomic bool busy;   /* in the handler */
	uint32_t handler_ms; /* how long it takes */
	bool accept;
	bool destroy_self;
	struct ur_conn *_Atomic child[2 * ROUND];
	_Atomic uint32_t children;
	struct side *child_side;
};

static void sleep_ms(uint32_t ms)
{
	struct timespec ts = { ms / 1000, (long)(ms % 1000 * MS) };

	nanosleep(&ts, NULL);
}

static bool wait_for(const struct side *s, enum ur_conn_event_type type,
		     uint32_t n)
{
	for (int i = 0; i < 5000 && s->seen[type] < n; i++)
		sleep_ms(1);
	return s->seen[type] >= n;
}

static uint32_t next_qpn(void)
{
	static _Atomic uint32_t qpn = 0x100;

	return qpn++;
}

static struct ur_cm_param param(void)
{
	return (struct ur_cm_param){ .responder_resources = 1,
				     .initiator_depth = 1,
				     .retry_count = 7,
				     .qpn = next_qpn() };
}

static void on_event(void *user, const struct ur_conn_event *ev)
{
	struct side *s = user;
	struct ur_cm_param p = param();

	s->busy = true;
	if (s->ended)
		s->violated = true;
	if (s->handler_ms)
		sleep_ms(s->handler_ms);
	if (ev->type == UR_CONN_REQUEST) {
		s->child[s->children++] = ev->conn;
		if (s->child_side)
			ur_conn_set_user(ev->conn, on_event, s->child_side);
		if (s->accept)
			ur_conn_accept(ev->conn, &p);
	} else if (ev->type == UR_CONN_RESPONSE) {
		ur_conn_establish(ev->conn);
	}
	s->seen[ev->type]++;
	s->events++;
	if (s->destroy_self) {
		s->ended = true;
		ur_conn_destroy(ev->conn);
	}
	s->busy = false;
}

static struct sockaddr_storage address(uint16_t port)
{
	struct sockaddr_storage a = { .ss_family = AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&a;

	in->sin_port = htons(port);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static void make(struct side *s)
{
	assert_int_equal(
		ur_conn_create(adapter, UR_PS_TCP, on_event, s, &s->conn), 0);
}

static void serve(struct side *s)
{
	struct sockaddr_storage a = address(PORT);

	make(s);
	assert_int_equal(ur_conn_bind(s->conn, &a), 0);
	assert_int_equal(ur_conn_listen(s->conn, 16), 0);
}

static void call(struct side *s)
{
	struct sockaddr_storage a = address(PORT);
	struct ur_cm_param p = param();

	make(s);
	assert_int_equal(ur_conn_connect(s->conn, NULL, &a, &p), 0);
}

/* With the connections that came to it. */
static void end(struct side *s)
{
	ur_conn_destroy(s->conn);
	for (uint32_t i = 0; i < s->children; i++)
		ur_conn_destroy(s->child[i]);
	s->children = 0;
	s->ended = true;
}

static void test_connect(void **state)
{
	struct side far = { 0 },
		    server = { .accept = true, .child_side = &far };
	struct side client = { 0 };

	serve(&server);
	call(&client);
	assert_true(wait_for(&far, UR_CONN_ESTABLISHED, 1));
	assert_int_equal(client.seen[UR_CONN_RESPONSE], 1);
	assert_int_equal(ur_conn_disconnect(client.conn), 0);
	assert_true(wait_for(&far, UR_CONN_DISCONNECTED, 1));
	end(&client);
	end(&server);
}

/* Wrong for the state it is in: refused, and nothing happens. */
static void test_wrong_state(void **state)
{
	struct sockaddr_storage a = address(PORT), b = address(PORT);
	struct ur_cm_param p = param();
	static uint8_t data[255];
	struct ur_qp_attr attr;
	struct side s = { 0 };
	uint32_t mask;

	make(&s);
	assert_int_equal(ur_conn_accept(s.conn, &p), -EINVAL);
	assert_int_equal(ur_conn_establish(s.conn), -EINVAL);
	assert_int_equal(ur_conn_disconnect(s.conn), -EINVAL);
	assert_int_equal(ur_conn_reject(s.conn, 0, NULL, 0), -EINVAL);
	assert_int_equal(ur_conn_notify(s.conn, UR_EVENT_COMM_EST), -EINVAL);
	assert_int_equal(ur_conn_qp_attr(s.conn, UR_QPS_RTR, &attr, &mask),
			 -EINVAL);
	assert_int_equal(ur_conn_bind(s.conn, &a), 0);
	assert_int_equal(ur_conn_bind(s.conn, &b), -EINVAL);
	p.private_data = data;
	p.private_len = 57; /* 56 fit */
	assert_int_equal(ur_conn_connect(s.conn, NULL, &a, &p), -EINVAL);
	a.ss_family = AF_UNIX;
	p.private_len = 0;
	assert_int_equal(ur_conn_connect(s.conn, NULL, &a, &p), -EAFNOSUPPORT);
	assert_int_equal(s.events, 0);
	end(&s);
}

/* Destroy returns only when the handler that is running has. */
static void test_destroy_waits(void **state)
{
	struct side server = { .handler_ms = 150 }, client = { 0 };

	serve(&server);
	call(&client);
	while (!server.busy)
		sleep_ms(1);
	end(&server);
	assert_false(server.busy);
	assert_int_equal(server.seen[UR_CONN_REQUEST], 1);
	assert_true(wait_for(&client, UR_CONN_REJECTED, 1));
	end(&client);
}

/* The handler may end its own connection, though it should not. */
static void test_destroy_in_handler(void **state)
{
	struct side server = { 0 }, client = { .destroy_self = true };

	serve(&server);
	call(&client);
	while (!server.children)
		sleep_ms(1);
	assert_int_equal(ur_conn_reject(server.child[0], 0, NULL, 0), 0);
	assert_true(wait_for(&client, UR_CONN_REJECTED, 1));
	end(&server);
	assert_false(client.violated);
}

/* Requests that the listener was not yet told of are refused with it. */
static void test_untold_requests(void **state)
{
	struct side server = { .handler_ms = 100 };
	static struct side clients[8];

	serve(&server);
	for (int i = 0; i < 8; i++)
		call(&clients[i]);
	while (!server.busy)
		sleep_ms(1);
	end(&server);
	assert_int_equal(server.seen[UR_CONN_REQUEST], 1);
	for (int i = 0; i < 8; i++) {
		assert_true(wait_for(&clients[i], UR_CONN_REJECTED, 1));
		end(&clients[i]);
	}
}

/* Ended at any time by another thread: no event comes afterwards. */
static void test_no_event_after_the_end(void **state)
{
	struct side server = { .accept = true };
	struct side *clients = calloc(ROUND, sizeof(*clients));

	serve(&server);
	for (int i = 0; i < ROUND; i++) {
		struct timespec ts = { 0, i * 2000 };

		call(&clients[i]);
		nanosleep(&ts, NULL);
		end(&clients[i]);
	}
	end(&server);
	sleep_ms(50);
	for (int i = 0; i < ROUND; i++)
		assert_false(clients[i].violated);
	assert_false(server.violated);
	free(clients);
}

static void *caller(void *arg)
{
	for (int i = 0; i < 50; i++) {
		struct sockaddr_storage a = address(PORT);
		struct ur_cm_param p = param();
		struct side s = { 0 };

		if (ur_conn_create(adapter, UR_PS_TCP, on_event, &s, &s.conn))
			abort();
		if (ur_conn_connect(s.conn, NULL, &a, &p))
			abort();
		if (!wait_for(&s, UR_CONN_RESPONSE, 1))
			abort();
		end(&s);
		if (s.violated)
			abort();
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	struct side server = { .accept = true };
	pthread_t t[4];

	serve(&server);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, caller, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(server.seen[UR_CONN_REQUEST], 200);
	end(&server);
}

/* The child has no part in the parent's connections, but may make its own. */
static int child(struct side *parents)
{
	struct sockaddr_storage a = address(0);
	struct ur_cm_param p = param();
	struct ur_adapter *own;
	struct side s = { 0 };
	int err;

	if (ur_conn_disconnect(parents->conn) != -ENODEV ||
	    ur_conn_connect(parents->conn, NULL, &a, &p) != -ENODEV)
		return 1;
	ur_conn_destroy(parents->conn);
	if (ur_adapter_get_at(0, &own) || own == adapter)
		return 2;
	/* The parent has the port alone. */
	err = ur_conn_create(own, UR_PS_TCP, on_event, &s, &s.conn);
	return err == -EADDRINUSE ? 0 : 3;
}

static void test_fork(void **state)
{
	struct side far = { 0 }, client = { 0 };
	struct side server = { .accept = true, .child_side = &far };
	int status;
	pid_t pid;

	serve(&server);
	call(&client);
	assert_true(wait_for(&far, UR_CONN_ESTABLISHED, 1));
	pid = fork();
	if (pid == 0)
		_exit(child(&client));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sleep_ms(20);
	assert_int_equal(far.seen[UR_CONN_DISCONNECTED], 0);
	end(&client);
	assert_true(wait_for(&far, UR_CONN_DISCONNECTED, 1));
	end(&server);
}

static int setup(void **state)
{
	return ur_adapter_get_at(0, &adapter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_wrong_state),
		cmocka_unit_test(test_destroy_waits),
		cmocka_unit_test(test_destroy_in_handler),
		cmocka_unit_test(test_untold_requests),
		cmocka_unit_test(test_no_event_after_the_end),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_fork),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, setup, NULL);
}
