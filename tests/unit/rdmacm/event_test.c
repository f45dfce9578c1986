/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels, events and their acknowledgement; ids over fake connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../own_net.h"
#include "fake_conn.h"

#define EVENT_USER ((enum rdma_cm_event_type)18)

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event,
			int status, uint64_t arg);

static struct rdma_event_channel *channel;

static int setup(void **state)
{
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	assert_int_equal(fake_count, 0);
	return 0;
}

static int teardown(void **state)
{
	rdma_destroy_event_channel(channel);
	assert_int_equal(fake_count, 0);
	return 0;
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
	return id;
}

static bool readable(const struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static struct rdma_cm_event *expect(struct rdma_event_channel *ch,
				    enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	assert_true(readable(ch));
	assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
	assert_string_equal(rdma_event_str(ev->event), rdma_event_str(type));
	return ev;
}

static void expect_ack(struct rdma_event_channel *ch,
		       enum rdma_cm_event_type type)
{
	assert_int_equal(rdma_ack_cm_event(expect(ch, type)), 0);
}

static void make_nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK),
			 0);
}

static struct sockaddr *loopback(uint16_t port)
{
	static struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	return (struct sockaddr *)&in;
}

static void test_level(void **state)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_event *ev;

	assert_false(readable(channel));
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(rdma_write_cm_event(id, EVENT_USER, (int)i, i),
				 0);
	for (unsigned int i = 0; i < 3; i++) {
		ev = expect(channel, EVENT_USER);
		assert_ptr_equal(ev->id, id);
		assert_int_equal(ev->status, i);
		assert_int_equal(*(uint64_t *)&ev->param, i);
		rdma_ack_cm_event(ev);
	}
	assert_false(readable(channel));
	rdma_destroy_id(id);
}

static void test_nonblocking(void **state)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_event *ev;

	make_nonblocking(channel->fd);
	assert_int_equal(rdma_get_cm_event(channel, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rdma_write_cm_event(id, EVENT_USER, 0, 0), 0);
	expect_ack(channel, EVENT_USER);
	assert_int_equal(rdma_get_cm_event(channel, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	rdma_destroy_id(id);
}

/* Each event is an edge of its own, though the last was not taken. */
static void test_edges(void **state)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, channel->fd, &e), 0);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(rdma_write_cm_event(id, EVENT_USER, 0, 0), 0);
		assert_int_equal(epoll_wait(ep, &e, 1, 0), 1);
		assert_int_equal(epoll_wait(ep, &e, 1, 0), 0);
	}
	close(ep);
	rdma_destroy_id(id);
}

static void test_forgotten(void **state)
{
	struct rdma_cm_id *a = new_id(RDMA_PS_TCP), *b = new_id(RDMA_PS_TCP);

	rdma_write_cm_event(a, EVENT_USER, 0, 0);
	rdma_write_cm_event(b, EVENT_USER, 0, 0);
	rdma_write_cm_event(a, EVENT_USER, 0, 0);
	rdma_destroy_id(a);
	expect_ack(channel, EVENT_USER);
	assert_false(readable(channel));
	rdma_write_cm_event(b, EVENT_USER, 0, 0);
	rdma_destroy_id(b);
	assert_false(readable(channel));
}

struct destroyer {
	struct rdma_cm_id *id;
	atomic_bool done;
};

static void *destroy(void *arg)
{
	struct destroyer *d = arg;

	rdma_destroy_id(d->id);
	d->done = true;
	return NULL;
}

static void short_sleep(void)
{
	struct timespec t = { .tv_nsec = 20000000 };

	nanosleep(&t, NULL);
}

static void test_destroy_waits(void **state)
{
	struct destroyer d = { .id = new_id(RDMA_PS_TCP) };
	struct rdma_cm_event *a, *b;
	pthread_t t;

	rdma_write_cm_event(d.id, EVENT_USER, 0, 0);
	rdma_write_cm_event(d.id, EVENT_USER, 0, 0);
	a = expect(channel, EVENT_USER);
	b = expect(channel, EVENT_USER);
	pthread_create(&t, NULL, destroy, &d);
	short_sleep();
	assert_false(d.done);
	rdma_ack_cm_event(b);
	short_sleep();
	assert_false(d.done);
	rdma_ack_cm_event(a);
	pthread_join(t, NULL);
	assert_true(d.done);
}

static void *take_one(void *arg)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(arg, &ev) == 0)
		rdma_ack_cm_event(ev);
	return NULL;
}

/* Sleepers that share a channel: each event wakes one. */
static void test_sleepers(void **state)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	pthread_t t[4];

	for (unsigned int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, take_one, channel);
	short_sleep();
	for (unsigned int i = 0; i < 4; i++)
		rdma_write_cm_event(id, EVENT_USER, 0, 0);
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_false(readable(channel));
	rdma_destroy_id(id);
}

/* No thread takes the events: they are neither lost nor reported as errors. */
static void test_post_after_end(void **state)
{
	struct rdma_event_channel *ended = rdma_create_event_channel();
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP), *gone;
	int log = memfd_create("log", MFD_CLOEXEC);
	int old = dup(STDERR_FILENO);

	assert_int_equal(rdma_create_id(ended, &gone, NULL, RDMA_PS_TCP), 0);
	rdma_write_cm_event(gone, EVENT_USER, 0, 0);
	rdma_destroy_event_channel(ended);
	dup2(log, STDERR_FILENO);
	rdma_write_cm_event(gone, EVENT_USER, 0, 0);
	rdma_destroy_id(gone);
	rdma_write_cm_event(id, EVENT_USER, 0, 0);
	rdma_migrate_id(id, ended);
	rdma_write_cm_event(id, EVENT_USER, 0, 0);
	dup2(old, STDERR_FILENO);
	close(old);
	assert_int_equal(lseek(log, 0, SEEK_END), 0);
	close(log);
	assert_false(readable(channel));
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	expect_ack(channel, EVENT_USER);
	expect_ack(channel, EVENT_USER);
	assert_false(readable(channel));
	rdma_destroy_id(id);
}

static void test_migrate(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);
	struct rdma_cm_id *stays = new_id(RDMA_PS_TCP);

	rdma_write_cm_event(id, EVENT_USER, 0, 0);
	rdma_write_cm_event(stays, EVENT_USER, 0, 0);
	assert_int_equal(rdma_migrate_id(id, other), 0);
	assert_ptr_equal(id->channel, other);
	expect_ack(other, EVENT_USER);
	assert_false(readable(other));
	expect_ack(channel, EVENT_USER);
	assert_false(readable(channel));
	assert_int_equal(rdma_migrate_id(id, other), 0);
	/* To an own one, and back from it */
	rdma_write_cm_event(id, EVENT_USER, 0, 0);
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	assert_int_equal(rdma_migrate_id(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	expect_ack(id->channel, EVENT_USER);
	assert_int_equal(rdma_migrate_id(id, channel), 0);
	rdma_write_cm_event(id, EVENT_USER, 0, 0);
	expect_ack(channel, EVENT_USER);
	rdma_destroy_id(id);
	rdma_destroy_id(stays);
	rdma_destroy_event_channel(other);
}

static struct rdma_cm_id *listener(enum rdma_port_space ps,
				   struct ur_conn **conn)
{
	struct rdma_cm_id *id = new_id(ps);

	assert_int_equal(rdma_bind_addr(id, loopback(7471)), 0);
	*conn = fake_last;
	assert_int_equal(rdma_listen(id, 5), 0);
	assert_true((*conn)->listening);
	assert_int_equal((*conn)->backlog, 5);
	return id;
}

static struct ur_conn_event a_request(void)
{
	struct ur_conn_event ev = {
		.param = {
			.private_data = "hello",
			.private_len = 5,
			.responder_resources = 3,
			.initiator_depth = 2,
			.retry_count = 6,
			.rnr_retry_count = 5,
			.qpn = 99,
			.ece_vendor = 7,
		},
	};

	memcpy(&ev.src, loopback(7471), sizeof(struct sockaddr_in));
	memcpy(&ev.dst, loopback(55555), sizeof(struct sockaddr_in));
	return ev;
}

static void test_request(void **state)
{
	struct ur_conn_event req = a_request();
	struct rdma_conn_param param = { .qp_num = 5,
					 .responder_resources = 1,
					 .initiator_depth = 1 };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *l, *id;
	struct ur_conn *lc, *c;
	struct ibv_ece ece;

	l = listener(RDMA_PS_TCP, &lc);
	l->context = &req;
	c = fake_request(lc, &req);
	ev = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = ev->id;
	assert_ptr_equal(ev->listen_id, l);
	assert_ptr_equal(id->context, &req);
	assert_non_null(id->verbs);
	assert_non_null(id->pd);
	assert_int_equal(id->port_num, 1);
	assert_int_equal(id->route.num_paths, 1);
	assert_int_equal(ntohs(rdma_get_src_port(id)), 7471);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 55555);
	assert_int_equal(ev->param.conn.private_data_len, 5);
	assert_memory_equal(ev->param.conn.private_data, "hello", 5);
	assert_int_equal(ev->param.conn.qp_num, 99);
	assert_int_equal(ev->param.conn.retry_count, 6);
	assert_int_equal(rdma_get_remote_ece(id, &ece), 0);
	assert_int_equal(ece.vendor_id, 7);
	rdma_ack_cm_event(ev);
	/* Before accept nothing is told. */
	fake_emit(c, UR_CONN_REJECTED, 4);
	assert_false(readable(channel));
	assert_int_equal(rdma_accept(id, &param), 0);
	assert_true(c->accepted);
	assert_int_equal(c->param.qpn, 5);
	assert_int_equal(rdma_accept(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	fake_emit(c, UR_CONN_ESTABLISHED, 0);
	expect_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	/* Once, however it is said. */
	fake_emit(c, UR_CONN_DISCONNECTED, 0);
	fake_emit(c, UR_CONN_DISCONNECTED, 0);
	expect_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	assert_false(readable(channel));
	assert_int_equal(rdma_disconnect(id), 0);
	assert_true(c->disconnected);
	rdma_destroy_id(id);
	rdma_destroy_id(l);
}

/* A request that was not taken goes with its listener. */
static void test_request_forgotten(void **state)
{
	struct ur_conn_event req = a_request();
	struct ur_conn *lc;
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, &lc);

	fake_request(lc, &req);
	assert_int_equal(fake_count, 2);
	rdma_destroy_id(l);
	assert_false(readable(channel));
}

static void test_reject(void **state)
{
	struct ur_conn_event req = a_request();
	struct rdma_cm_event *ev;
	struct ur_conn *lc, *c;
	struct rdma_cm_id *l = listener(RDMA_PS_TCP, &lc);

	c = fake_request(lc, &req);
	ev = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_reject_ece(ev->id, NULL, 0), 0);
	assert_true(c->rejected);
	assert_int_equal(c->reason, 35);
	assert_int_equal(rdma_destroy_id(ev->id), 0);
	rdma_ack_cm_event(ev);
	rdma_destroy_id(l);
}

static struct rdma_cm_id *resolved(struct ur_conn **conn)
{
	struct rdma_cm_id *id = new_id(RDMA_PS_TCP);

	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(7471), 1000), 0);
	*conn = fake_last;
	expect_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_non_null(id->verbs);
	assert_int_not_equal(rdma_get_src_port(id), 0);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), 7471);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	expect_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static void test_active(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5, .retry_count = 200 };
	struct ur_conn *c;
	struct rdma_cm_id *id = resolved(&c);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	fake_result = -ENETDOWN;
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, ENETDOWN);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(c->param.retry_count, 7);
	assert_int_equal(rdma_connect(id, &param), -1);
	fake_emit(c, UR_CONN_RESPONSE, 0);
	expect_ack(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.dest_qp_num, 77);
	assert_int_equal(rdma_establish(id), 0);
	assert_true(c->established);
	rdma_destroy_id(id);
}

static void test_rejected(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct ur_conn *c;
	struct rdma_cm_id *id = resolved(&c);
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_connect(id, &param), 0);
	fake_emit(c, UR_CONN_REJECTED, 8);
	ev = expect(channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(ev->status, 8);
	rdma_ack_cm_event(ev);
	rdma_destroy_id(id);
}

/* Depths: a device's limit is EINVAL; 255 and none mean what it has. */
static void test_depths(void **state)
{
	struct rdma_conn_param param = { .responder_resources = 129 };
	struct ur_conn *c;
	struct rdma_cm_id *id = resolved(&c);

	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, EINVAL);
	param.responder_resources = RDMA_MAX_RESP_RES;
	param.initiator_depth = 3;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(c->param.responder_resources, 128);
	assert_int_equal(c->param.initiator_depth, 3);
	rdma_destroy_id(id);
}

static void *serve(void *arg)
{
	struct ur_conn *c = arg;
	struct ur_conn_event req = a_request();

	short_sleep();
	fake_request(c, &req);
	return NULL;
}

static void test_sync(void **state)
{
	struct rdma_cm_id *l, *id;
	struct ur_conn *lc;
	pthread_t t;

	assert_int_equal(rdma_create_id(NULL, &l, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(l, loopback(7471)), 0);
	lc = fake_last;
	assert_int_equal(rdma_listen(l, 0), 0);
	assert_int_equal(lc->backlog, 1024);
	pthread_create(&t, NULL, serve, lc);
	assert_int_equal(rdma_get_request(l, &id), 0);
	pthread_join(t, NULL);
	assert_ptr_not_equal(id->channel, l->channel);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	rdma_destroy_id(id);
	rdma_destroy_id(l);

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(1), 100), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	rdma_destroy_id(id);
}

static void *drop(void *arg)
{
	short_sleep();
	fake_emit(arg, UR_CONN_REJECTED, 28);
	return NULL;
}

static void test_sync_refused(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_id *id;
	pthread_t t;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, loopback(1), 100), 0);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	pthread_create(&t, NULL, drop, fake_last);
	assert_int_equal(rdma_connect(id, &param), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(id->event->status, 28);
	pthread_join(t, NULL);
	rdma_destroy_id(id);
}

/* A child has its parent's ids, but no use of them. */
static void test_fork(void **state)
{
	struct rdma_conn_param param = { .qp_num = 5 };
	struct rdma_cm_event *ev;
	struct ur_conn *c;
	struct rdma_cm_id *id = resolved(&c);
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (rdma_connect(id, &param) != -1 || errno != ENODEV)
			_exit(1);
		if (rdma_get_cm_event(channel, &ev) != -1 || errno != ENODEV)
			_exit(2);
		if (rdma_destroy_id(id) != 0)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rdma_connect(id, &param), 0);
	rdma_destroy_id(id);
}

static void test_multicast(void **state)
{
	struct sockaddr_in group = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0xe0010203),
	};
	struct sockaddr_in host = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0xc0a80105),
	};
	static const uint8_t gid[16] = { [10] = 0xff, 0xff, 224, 1, 2, 3 };
	static const uint8_t of_host[16] = {
		[10] = 0xff, 0xff, 224, 168, 1, 5
	};
	struct rdma_cm_id *id = new_id(RDMA_PS_UDP);
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, id),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_bind_addr(id, loopback(0)), 0);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, id),
			 0);
	ev = expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(ev->param.ud.private_data, id);
	assert_int_equal(ev->param.ud.qp_num, 0xffffff);
	assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(ev->param.ud.ah_attr.grh.dgid.raw, gid, 16);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&host, id),
			 0);
	ev = expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_memory_equal(ev->param.ud.ah_attr.grh.dgid.raw, of_host, 16);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group),
			 0);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group),
			 -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	/* Not taken: goes with the group */
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, id),
			 0);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group),
			 0);
	assert_false(readable(channel));
	rdma_destroy_id(id);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_level),
		TEST(test_nonblocking),
		TEST(test_edges),
		TEST(test_forgotten),
		TEST(test_sleepers),
		TEST(test_destroy_waits),
		TEST(test_post_after_end),
		TEST(test_migrate),
		TEST(test_request),
		TEST(test_reject),
		TEST(test_request_forgotten),
		TEST(test_active),
		TEST(test_rejected),
		TEST(test_depths),
		TEST(test_sync),
		TEST(test_multicast),
		TEST(test_sync_refused),
		TEST(test_fork),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
