/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of iWARP connections: two sides in this process, over loopback. */
#include "../engine/side.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../own_net.h"
#include "connect/conn_iwarp.h"
#include "engine/lane_iwarp.h"

static int open_both(void **state)
{
	struct side *s = calloc(2, sizeof(*s));

	side_open(&s[0]);
	side_open(&s[1]);
	*state = s;
	return 0;
}

/* Every descriptor and claim is gone, whatever the test did. */
static int close_both(void **state)
{
	struct side *s = *state;
	struct ur_lane *l = s[0].qp.lane;

	side_close(&s[0]);
	side_close(&s[1]);
	assert_true(ur_list_empty(&l->iw->claimed));
	assert_true(ur_list_empty(&l->iw->open));
	free(s);
	return 0;
}

static enum ur_qp_state state_of(struct side *s)
{
	struct ur_qp_attr attr;

	ur_adapter_qp_query(&s->qp, &attr);
	return attr.state;
}

static bool reaches(struct side *s, enum ur_qp_state state)
{
	uint64_t end = ur_adapter_now() + 5 * SECOND;

	while (state_of(s) != state)
		if (ur_adapter_now() > end)
			return false;
	return true;
}

static void both_learn_of_each_other(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;
	struct side_event *e;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	assert_int_not_equal(a->port, 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, "hello"), 0);
	e = side_wait(a, UR_CONN_REQUEST);
	assert_string_equal(e->text, "hello");
	/* b serves 4 and asks 3 */
	assert_int_equal(e->ev.param.responder_resources, 3);
	assert_int_equal(e->ev.param.initiator_depth, 4);
	assert_int_equal(((struct sockaddr_in *)&e->ev.src)->sin_port,
			 htons(a->port));
	assert_int_equal(e->ev.dst.ss_family, AF_INET);
	assert_int_equal(state_of(a), UR_QPS_INIT);
	assert_int_equal(side_accept(a, "welcome"), 0);
	e = side_wait(a, UR_CONN_ESTABLISHED);
	assert_string_equal(e->text, "");
	e = side_wait(b, UR_CONN_ESTABLISHED);
	assert_string_equal(e->text, "welcome");
	assert_int_equal(e->ev.param.initiator_depth, 3);
	assert_int_equal(state_of(a), UR_QPS_RTS);
	assert_int_equal(state_of(b), UR_QPS_RTS);
}

static void disconnect_ends_both(void **state)
{
	struct side *a = *state, *b = a + 1;

	side_connect(a, b);
	side_recv(a, 1, 0, 64);
	side_recv(b, 2, 0, 64);
	assert_int_equal(ur_conn_disconnect(b->conn), 0);
	side_wait(b, UR_CONN_DISCONNECTED);
	side_wait(a, UR_CONN_DISCONNECTED);
	side_expect(a, 1, UR_WC_WR_FLUSH_ERR);
	side_expect(b, 2, UR_WC_WR_FLUSH_ERR);
	assert_true(reaches(a, UR_QPS_ERR));
	assert_true(reaches(b, UR_QPS_ERR));
	/* Once more is no mistake. */
	assert_int_equal(ur_conn_disconnect(b->conn), 0);
	assert_int_equal(ur_conn_disconnect(a->conn), 0);
	side_quiet(a);
	side_quiet(b);
}

static void what_was_sent_arrives_before_the_end(void **state)
{
	struct side *a = *state, *b = a + 1;

	side_connect(a, b);
	side_recv(a, 1, 0, 65536);
	memset(b->buf, 7, 65536);
	side_send(b, 2, 0, 65536);
	/* Before that it may wait for the peer's first message. */
	side_expect(b, 2, UR_WC_SUCCESS);
	assert_int_equal(ur_conn_disconnect(b->conn), 0);
	side_expect(a, 1, UR_WC_SUCCESS);
	assert_int_equal(a->buf[65535], 7);
	side_wait(a, UR_CONN_DISCONNECTED);
}

/* As a program that exits right after its last completion. */
static void destroying_the_qp_loses_nothing(void **state)
{
	struct side *a = *state, *b = a + 1;

	side_connect(a, b);
	side_recv(a, 1, 0, 65536);
	memset(b->buf, 9, 65536);
	side_send(b, 2, 0, 65536);
	/* Unread by b, or almost: close() would reset the connection. */
	side_rdma(a, 3, UR_WR_RDMA_WRITE, 0, 64, b, 100000);
	side_expect(b, 2, UR_WC_SUCCESS);
	side_destroy_qp(b);
	side_wait(b, UR_CONN_DISCONNECTED);
	/* The write may have found the peer gone. */
	for (int i = 0; i < 2; i++) {
		struct ur_cqe cqe;

		side_poll(a, &cqe);
		if (cqe.wr_id == 1)
			assert_int_equal(cqe.status, UR_WC_SUCCESS);
	}
	assert_int_equal(a->buf[65535], 9);
	side_wait(a, UR_CONN_DISCONNECTED);
}

static void moving_to_err_closes(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct ur_qp_attr attr = { .state = UR_QPS_ERR };

	side_connect(a, b);
	side_recv(b, 5, 0, 64);
	assert_int_equal(ur_adapter_qp_modify(b->a, &b->qp, &attr, UR_QP_STATE),
			 0);
	side_expect(b, 5, UR_WC_WR_FLUSH_ERR);
	side_wait(b, UR_CONN_DISCONNECTED);
	side_wait(a, UR_CONN_DISCONNECTED);
	assert_true(reaches(a, UR_QPS_ERR));
}

static void rts_comes_by_a_connection_alone(void **state)
{
	struct side *a = *state;
	struct ur_qp_attr attr = { .state = UR_QPS_RTR };
	uint32_t mask;

	assert_int_equal(ur_conn_create(a->a, UR_PS_TCP, NULL, NULL, &a->conn),
			 0);
	assert_int_equal(ur_conn_qp_attr(a->conn, UR_QPS_RTR, &attr, &mask), 0);
	assert_int_equal(ur_adapter_qp_modify(a->a, &a->qp, &attr, mask), 0);
	assert_int_equal(ur_conn_qp_attr(a->conn, UR_QPS_RTS, &attr, &mask), 0);
	assert_int_equal(mask, 0);
	assert_int_equal(ur_adapter_qp_modify(a->a, &a->qp, &attr, mask), 0);
	attr.state = UR_QPS_RTS;
	assert_int_equal(ur_adapter_qp_modify(a->a, &a->qp, &attr, UR_QP_STATE),
			 -EINVAL);
}

static void other_types_are_not_supported(void **state)
{
	struct side *a = *state;
	struct ur_qp_init init = a->init;
	struct ur_conn *c;
	struct ur_qp qp;

	init.type = UR_QPT_UD;
	init.pd = &a->pd;
	init.send_cq = init.recv_cq = &a->cq;
	assert_int_equal(ur_adapter_qp_create(a->a, &qp, &init), -EOPNOTSUPP);
	assert_int_equal(ur_conn_create(a->a, UR_PS_UDP, NULL, NULL, &c),
			 -EOPNOTSUPP);
}

static void nobody_listens(void **state)
{
	struct side *b = *state;
	struct sockaddr_storage to = side_addr("127.0.0.1", 9);
	struct side_event *e;

	assert_int_equal(side_call(b, &to, NULL), 0);
	e = side_wait(b, UR_CONN_REJECTED);
	assert_int_equal(e->ev.status, -ECONNREFUSED);
	assert_int_equal(state_of(b), UR_QPS_INIT);
	assert_int_equal(ur_conn_disconnect(b->conn), -EINVAL);
}

/* The QP is free for another try. */
static void a_rejected_one_may_try_again(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;
	struct side_event *e;
	struct ur_conn *first;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(a, UR_CONN_REQUEST);
	assert_int_equal(ur_conn_reject(a->conn, 0, "no", 2), 0);
	e = side_wait(b, UR_CONN_REJECTED);
	assert_string_equal(e->text, "no");
	assert_int_equal(e->ev.status, -ECONNRESET);
	assert_int_equal(ur_conn_accept(a->conn, &e->ev.param), -EINVAL);
	ur_conn_destroy(a->conn);
	first = b->conn;
	assert_int_equal(side_call(b, &to, "again"), 0);
	ur_conn_destroy(first);
	assert_string_equal(side_wait(a, UR_CONN_REQUEST)->text, "again");
	assert_int_equal(side_accept(a, NULL), 0);
	side_wait(b, UR_CONN_ESTABLISHED);
}

static void a_request_that_is_destroyed_is_refused(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(a, UR_CONN_REQUEST);
	ur_conn_destroy(a->conn);
	a->conn = NULL;
	side_wait(b, UR_CONN_REJECTED);
}

static void the_qp_goes_while_it_is_connecting(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;
	struct side_event *e;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(a, UR_CONN_REQUEST);
	side_destroy_qp(b);
	e = side_wait(b, UR_CONN_CONNECT_ERROR);
	assert_int_equal(e->ev.status, -ECONNABORTED);
	(void)side_accept(a, NULL);
	ur_conn_destroy(a->conn);
	a->conn = NULL;
}

static void a_qp_has_one_connection(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;
	struct ur_cm_param p = { .qp = &b->qp };
	struct ur_conn *c;

	side_connect(a, b);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(ur_conn_create(b->a, UR_PS_TCP, NULL, NULL, &c), 0);
	assert_int_equal(ur_conn_connect(c, NULL, &to, &p), -EINVAL);
	p = (struct ur_cm_param){ .qpn = 0xffffff };
	assert_int_equal(ur_conn_connect(c, NULL, &to, &p), -EINVAL);
	ur_conn_destroy(c);
}

/* Programs without rdma_create_qp() name the QP by its number. */
static void a_qp_is_found_by_its_number(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct ur_cm_param p = { .qpn = a->qp.qpn };
	struct sockaddr_storage to;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(a, UR_CONN_REQUEST);
	assert_int_equal(ur_conn_accept(a->conn, &p), 0);
	side_wait(b, UR_CONN_ESTABLISHED);
	assert_int_equal(state_of(a), UR_QPS_RTS);
}

static void ports_are_the_kernels(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage addr;
	struct ur_conn *c;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	assert_int_equal(side_listen(b, "127.0.0.1", a->port, 0), -EADDRINUSE);
	addr = side_addr("203.0.113.1", 0);
	assert_int_equal(ur_conn_create(a->a, UR_PS_TCP, NULL, NULL, &c), 0);
	assert_int_equal(ur_conn_bind(c, &addr), -EADDRNOTAVAIL);
	assert_int_equal(ur_conn_listen(c, 0), -EINVAL);
	ur_conn_destroy(c);
	/* Free again at once, even with connections just closed. */
	ur_conn_destroy(a->listener);
	a->listener = NULL;
	ur_conn_destroy(b->listener);
	assert_int_equal(side_listen(b, "127.0.0.1", a->port, 0), 0);
}

static void an_ipv6_wildcard_takes_ipv4(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;
	struct side_event *e;

	assert_int_equal(side_listen(a, "::", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	e = side_wait(a, UR_CONN_REQUEST);
	assert_int_equal(e->ev.src.ss_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)&e->ev.dst)->sin_addr.s_addr,
			 htonl(INADDR_LOOPBACK));
	assert_int_equal(side_accept(a, NULL), 0);
	side_wait(b, UR_CONN_ESTABLISHED);
}

static void ipv6_works(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;

	assert_int_equal(side_listen(a, "::1", 0, 0), 0);
	to = side_addr("::1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	assert_int_equal(side_wait(a, UR_CONN_REQUEST)->ev.dst.ss_family,
			 AF_INET6);
	assert_int_equal(side_accept(a, NULL), 0);
	side_wait(b, UR_CONN_ESTABLISHED);
}

static int plain_connect(uint16_t port)
{
	struct sockaddr_storage to = side_addr("127.0.0.1", port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&to,
				 sizeof(struct sockaddr_in)),
			 0);
	return fd;
}

/* The peer's end comes, by FIN or reset, after what it may have said. */
static bool is_hung_up_on(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buf[256];
	ssize_t n;

	do {
		if (poll(&p, 1, 5000) != 1)
			return false;
		n = read(fd, buf, sizeof(buf));
	} while (n > 0);
	return true;
}

static void who_does_not_speak_mpa_is_nobody(void **state)
{
	struct side *a = *state;
	char junk[64];
	int fd;

	memset(junk, 'G', sizeof(junk));
	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	fd = plain_connect(a->port);
	assert_int_equal(write(fd, junk, sizeof(junk)), sizeof(junk));
	assert_true(is_hung_up_on(fd));
	close(fd);
	fd = plain_connect(a->port);
	close(fd);
	side_quiet(a);
}

/* Silent connections keep no other out, and are bounded. */
static void the_silent_make_way(void **state)
{
	struct side *a = *state, *b = a + 1;
	int *fds = calloc(IW_HALF_MAX + 8, sizeof(int));
	struct sockaddr_storage to;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 8), 0);
	for (uint32_t i = 0; i < IW_HALF_MAX + 8; i++)
		fds[i] = plain_connect(a->port);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(a, UR_CONN_REQUEST);
	assert_true(is_hung_up_on(fds[0]));
	assert_int_equal(side_accept(a, NULL), 0);
	side_wait(b, UR_CONN_ESTABLISHED);
	for (uint32_t i = 0; i < IW_HALF_MAX + 8; i++)
		close(fds[i]);
	free(fds);
}

/* Further requests wait in the kernel until one is answered. */
static void the_backlog_is_a_limit(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct side more;
	struct sockaddr_storage to;
	struct ur_conn *first;

	side_open(&more);
	assert_int_equal(side_listen(a, "127.0.0.1", 0, 1), 0);
	to = side_addr("127.0.0.1", a->port);
	assert_int_equal(side_call(b, &to, "one"), 0);
	assert_string_equal(side_wait(a, UR_CONN_REQUEST)->text, "one");
	first = a->conn;
	assert_int_equal(side_call(&more, &to, "two"), 0);
	side_quiet(a);
	assert_int_equal(ur_conn_reject(first, 0, NULL, 0), 0);
	assert_string_equal(side_wait(a, UR_CONN_REQUEST)->text, "two");
	assert_int_equal(side_accept(a, NULL), 0);
	side_wait(&more, UR_CONN_ESTABLISHED);
	ur_conn_destroy(first);
	side_close(&more);
	side_wait(b, UR_CONN_REJECTED);
}

static void listeners_end_with_who_waits(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;
	int fd;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	fd = plain_connect(a->port);
	assert_int_equal(side_call(b, &to, NULL), 0);
	side_wait(a, UR_CONN_REQUEST);
	ur_conn_destroy(a->listener);
	a->listener = NULL;
	assert_true(is_hung_up_on(fd));
	close(fd);
	/* A connection that was reported lives on. */
	assert_int_equal(side_accept(a, NULL), 0);
	side_wait(b, UR_CONN_ESTABLISHED);
}

/* Cycles leave nothing behind: descriptors are counted. */
static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void cycles_leave_nothing_behind(void **state)
{
	struct side *a = *state, *b = a + 1;
	struct sockaddr_storage to;
	int fds = 0;

	assert_int_equal(side_listen(a, "127.0.0.1", 0, 0), 0);
	to = side_addr("127.0.0.1", a->port);
	for (int i = 0; i < 200; i++) {
		if (i == 20)
			fds = count_fds();
		assert_int_equal(side_call(b, &to, NULL), 0);
		side_wait(a, UR_CONN_REQUEST);
		assert_int_equal(side_accept(a, NULL), 0);
		side_wait(a, UR_CONN_ESTABLISHED);
		side_wait(b, UR_CONN_ESTABLISHED);
		assert_int_equal(ur_conn_disconnect(b->conn), 0);
		side_wait(b, UR_CONN_DISCONNECTED);
		side_wait(a, UR_CONN_DISCONNECTED);
		ur_conn_destroy(a->conn);
		ur_conn_destroy(b->conn);
		a->conn = b->conn = NULL;
		side_destroy_qp(a);
		side_destroy_qp(b);
		side_new_qp(a);
		side_new_qp(b);
	}
	/* The last ones may still be closing. */
	for (int i = 0; i < 100 && count_fds() > fds + 2; i++)
		usleep(20000);
	assert_true(count_fds() <= fds + 2);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_both, close_both)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(both_learn_of_each_other),
		TEST(disconnect_ends_both),
		TEST(what_was_sent_arrives_before_the_end),
		TEST(destroying_the_qp_loses_nothing),
		TEST(moving_to_err_closes),
		TEST(rts_comes_by_a_connection_alone),
		TEST(other_types_are_not_supported),
		TEST(nobody_listens),
		TEST(a_rejected_one_may_try_again),
		TEST(a_request_that_is_destroyed_is_refused),
		TEST(the_qp_goes_while_it_is_connecting),
		TEST(a_qp_has_one_connection),
		TEST(a_qp_is_found_by_its_number),
		TEST(ports_are_the_kernels),
		TEST(an_ipv6_wildcard_takes_ipv4),
		TEST(ipv6_works),
		TEST(who_does_not_speak_mpa_is_nobody),
		TEST(the_silent_make_way),
		TEST(the_backlog_is_a_limit),
		TEST(listeners_end_with_who_waits),
		TEST(cycles_leave_nothing_behind),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
