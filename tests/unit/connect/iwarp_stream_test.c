/* SPDX-License-Identifier: BSD-2-Clause */
/* What iWARP connections do where TCP is not the kernel's. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/socket.h"
#include "client/client.h"
#include "connect/conn_iwarp.h"
#include "engine/internal.h"

#define BYTES	    ((struct ur_stream *)1) /* those there are */
#define LISTENER    ((struct ur_stream_listener *)2)
#define LISTENER_FD 77

/* ---- In the place of the streams ---- */

static bool there, carried;
static int result; /* of what is called next */
static int closed, waiting, accepts;
static struct ur_stack_end used_from, used_to;
static uint32_t used_lease;
static const uint8_t *listen_addr;
static uint32_t listen_families;
static uint16_t listen_port;

bool ur_streams_are_there(void)
{
	return there;
}

bool ur_streams_carry(const uint8_t src[16], const uint8_t dst[16])
{
	return carried;
}

int ur_stream_connect(const struct ur_stack_end *from,
		      const struct ur_stack_end *to, int hold, uint32_t lease,
		      struct ur_stream **out)
{
	used_from = *from;
	used_to = *to;
	used_lease = lease;
	if (!result)
		*out = BYTES;
	return result;
}

int ur_stream_listen(const uint8_t *addr, uint32_t families, uint16_t port,
		     uint32_t backlog, struct ur_stream_listener **out)
{
	listen_addr = addr;
	listen_families = families;
	listen_port = port;
	if (!result)
		*out = LISTENER;
	return result;
}

void ur_stream_listener_close(struct ur_stream_listener *l)
{
	assert_ptr_equal(l, LISTENER);
	closed++;
}

int ur_stream_listener_fd(const struct ur_stream_listener *l)
{
	return LISTENER_FD;
}

int ur_stream_accept(struct ur_stream_listener *l, struct ur_stream **out)
{
	accepts++;
	if (result)
		return result;
	if (!waiting)
		return -EAGAIN;
	waiting--;
	*out = BYTES;
	return 0;
}

int ur_stream_state(struct ur_stream *s)
{
	return result;
}

ssize_t ur_stream_read(struct ur_stream *s, const struct iovec *iov, uint32_t n,
		       bool *more)
{
	return result;
}

ssize_t ur_stream_write(struct ur_stream *s, const struct iovec *iov,
			uint32_t n)
{
	return result ? result : (ssize_t)iov->iov_len / 8 * 8;
}

void ur_stream_ends(struct ur_stream *s, struct ur_stack_end *local,
		    struct ur_stack_end *peer)
{
	*local = (struct ur_stack_end){ .addr = { 0xfe, 0x80, [15] = 1 },
					.port = 1000,
					.scope = 3 };
	*peer = (struct ur_stack_end){ .addr = { 0xfd, [15] = 2 },
				       .port = 2000 };
}

void ur_stream_close(struct ur_stream *s, bool reset)
{
	assert_false(reset);
	closed++;
}

/* ---- In the place of urnicd ---- */

static bool needs_lease;
static int lease_result, leases_out;

bool ur_streams_need_lease(const uint8_t *addr)
{
	return needs_lease;
}

struct ur_client *ur_process_client(void)
{
	return needs_lease ? (struct ur_client *)3 : NULL;
}

int ur_client_tcp_lease(struct ur_client *c, int fd, uint32_t *handle)
{
	assert_true(fd >= 0);
	if (lease_result)
		return lease_result;
	*handle = 42;
	leases_out++;
	return 0;
}

void ur_client_tcp_put(struct ur_client *c, uint32_t handle)
{
	assert_int_equal(handle, 42);
	leases_out--;
}

/* ---- In the place of the other files of the engine ---- */

static int routes, route_result, port_result, watch_result;
static int watched, taken, paused, deleted;
static bool room, deny; /* after so much; see iw_take_in() */

int ur_conn_route(const struct sockaddr_storage *dst,
		  struct sockaddr_storage *src)
{
	struct sockaddr_in *a = (struct sockaddr_in *)src;

	routes++;
	if (route_result)
		return route_result;
	memset(src, 0, sizeof(*src));
	a->sin_family = AF_INET;
	inet_pton(AF_INET, "10.0.1.1", &a->sin_addr);
	return 0;
}

int iw_take_port(struct iw_conn *i)
{
	i->port = 4444;
	return port_result;
}

void iw_fd_del(struct iw_conn *i)
{
	deleted++;
}

bool iw_make_room(struct iw_conn *l)
{
	return room;
}

void iw_pause_listener(struct iw_conn *l)
{
	paused++;
	l->paused = true;
}

void iw_take_in(struct iw_conn *l, int fd, struct ur_stream *stream)
{
	assert_int_equal(fd, -1);
	assert_ptr_equal(stream, BYTES);
	taken++;
	l->paused = deny;
}

int ur_cmt_watch(struct ur_cmt *t, struct ur_cmt_source *src, uint32_t events)
{
	assert_int_equal(src->fd, LISTENER_FD);
	assert_int_equal(events, EPOLLIN);
	watched += !watch_result;
	return watch_result;
}

void ur_cmt_unwatch(struct ur_cmt *t, struct ur_cmt_source *src)
{
	watched--;
	src->fd = -1;
}

static bool is_v4(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET;
}

bool ur_conn_addr_any(const struct sockaddr_storage *addr)
{
	static const uint8_t none[16], mapped[16] = { [10] = 0xff, 0xff };
	uint8_t gid[16];

	ur_addr_from_sockaddr(gid, addr);
	return !memcmp(gid, is_v4(addr) ? mapped : none, 16);
}

/* ---- Cases ---- */

static int setup(void **state)
{
	there = carried = room = true;
	deny = false;
	result = closed = waiting = accepts = 0;
	routes = route_result = port_result = watch_result = 0;
	watched = taken = paused = deleted = 0;
	needs_lease = false;
	lease_result = leases_out = 0;
	return 0;
}

static int bound(int family, const char *text, uint16_t port)
{
	struct sockaddr_storage a = { .ss_family = (sa_family_t)family };
	bool v4 = family == AF_INET;
	void *at = v4 ? (void *)&((struct sockaddr_in *)&a)->sin_addr
		      : (void *)&((struct sockaddr_in6 *)&a)->sin6_addr;
	int fd = socket(family, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(family, text, at), 1);
	ur_sockaddr_set_port(&a, port);
	assert_int_equal(bind(fd, (struct sockaddr *)&a,
			      v4 ? sizeof(struct sockaddr_in)
				 : sizeof(struct sockaddr_in6)),
			 0);
	return fd;
}

static struct iw_conn conn_to(int fd)
{
	struct iw_conn i = { .fd = fd, .stream_source = { .fd = -1 } };
	struct sockaddr_in *to = (struct sockaddr_in *)&i.to;

	to->sin_family = AF_INET;
	to->sin_port = htons(80);
	inet_pton(AF_INET, "10.0.9.1", &to->sin_addr);
	return i;
}

/* Of a socket as the kernel tells it, of a stream with its scope. */
static void test_ends(void **state)
{
	struct iw_conn i = conn_to(bound(AF_INET, "127.0.0.1", 0));
	struct sockaddr_storage local, peer;
	const struct sockaddr_in6 *a = (struct sockaddr_in6 *)&local;

	iw_ends(&i, &local, &peer);
	assert_int_equal(local.ss_family, AF_INET);
	assert_int_not_equal(ur_sockaddr_port(&local), 0);
	assert_int_equal(peer.ss_family, AF_UNSPEC);
	close(i.fd);
	i.fd = -1;
	iw_ends(&i, &local, &peer);
	assert_int_equal(local.ss_family, AF_UNSPEC);
	i.stream = BYTES;
	iw_ends(&i, &local, &peer);
	assert_int_equal(a->sin6_scope_id, 3);
	assert_int_equal(ur_sockaddr_port(&local), 1000);
	assert_int_equal(ur_sockaddr_port(&peer), 2000);
}

static void test_bytes_of_socket(void **state)
{
	char buf[16] = "";
	struct iw_conn i;
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	i = conn_to(sv[0]);
	assert_int_equal(iw_recv_bytes(&i, buf, 16), -EAGAIN);
	assert_int_equal(iw_send_bytes(&i, "abc", 3), 3);
	assert_int_equal(read(sv[1], buf, 16), 3);
	assert_int_equal(write(sv[1], "de", 2), 2);
	assert_int_equal(iw_recv_bytes(&i, buf, 16), 2);
	assert_memory_equal(buf, "dec", 3);
	assert_int_equal(iw_connect_result(&i), 0);
	close(sv[1]);
	assert_int_equal(iw_recv_bytes(&i, buf, 16), 0);
	assert_int_equal(iw_send_bytes(&i, "abc", 3), -EPIPE);
	iw_stream_drop(&i); /* has none */
	assert_int_equal(closed, 0);
	close(sv[0]);
	assert_int_equal(iw_connect_result(&i), -EBADF);
}

static void test_bytes_of_stream(void **state)
{
	struct iw_conn i = conn_to(-1);
	char buf[16];

	i.stream = BYTES;
	assert_int_equal(iw_send_bytes(&i, "0123456789", 10), 8);
	/* No room is not the end. */
	assert_int_equal(iw_send_bytes(&i, "0123", 4), -EAGAIN);
	assert_int_equal(iw_recv_bytes(&i, buf, 16), 0);
	result = -ECONNRESET;
	assert_int_equal(iw_send_bytes(&i, "0123", 4), -ECONNRESET);
	assert_int_equal(iw_recv_bytes(&i, buf, 16), -ECONNRESET);
	assert_int_equal(iw_connect_result(&i), -ECONNRESET);
	iw_stream_drop(&i);
	iw_stream_drop(&i);
	assert_int_equal(closed, 1);
	assert_null(i.stream);
}

static void refuses(struct iw_conn *i, int err)
{
	bool done = false;
	int fd = i->fd;

	assert_int_equal(iw_stream_call(i, &done), err);
	assert_false(done);
	assert_int_equal(i->fd, fd);
	assert_null(i->stream);
	assert_int_equal(deleted, 0);
}

/* The kernel calls where no port of ours leads to the peer. */
static void test_not_carried(void **state)
{
	struct iw_conn i = conn_to(bound(AF_INET, "0.0.0.0", 0));

	there = false;
	refuses(&i, 0);
	assert_int_equal(routes, 0);
	there = true;
	carried = false;
	refuses(&i, 0);
	assert_int_equal(routes, 1);
	carried = true;
	route_result = -ENETUNREACH;
	refuses(&i, 0);
	close(i.fd);
	i.fd = -1;
	refuses(&i, 0);
}

static void test_call_fails(void **state)
{
	struct iw_conn i = conn_to(socket(AF_INET, SOCK_STREAM, 0));

	port_result = -EADDRINUSE;
	refuses(&i, -EADDRINUSE);
	port_result = 0;
	result = -ENOMEM;
	refuses(&i, -ENOMEM);
	close(i.fd);
}

/* On a port that urnicd runs: it gives the number, or the kernel's TCP calls. */
static void test_call_with_lease(void **state)
{
	struct iw_conn i = conn_to(bound(AF_INET, "0.0.0.0", 0));
	bool done = false;
	int fd = i.fd;

	needs_lease = true;
	lease_result = -EOPNOTSUPP;
	refuses(&i, 0);
	lease_result = 0;
	result = -ENOMEM;
	refuses(&i, -ENOMEM);
	assert_int_equal(leases_out, 0);
	result = 0;
	assert_int_equal(iw_stream_call(&i, &done), 0);
	assert_true(done);
	assert_int_equal(used_lease, 42);
	assert_int_equal(leases_out, 1);
	close(fd);
}

/* With the port number that the socket has … */
static void test_call_from_port(void **state)
{
	struct iw_conn i = conn_to(bound(AF_INET, "0.0.0.0", 0));
	struct sockaddr_storage local, peer;
	bool done = false;
	int fd = i.fd;

	iw_ends(&i, &local, &peer);
	assert_int_equal(iw_stream_call(&i, &done), 0);
	assert_true(done);
	assert_int_equal(i.port, 0);
	assert_int_equal(used_from.port, ur_sockaddr_port(&local));
	assert_int_equal(used_from.addr[14], 1);
	assert_int_equal(used_to.port, 80);
	assert_int_equal(used_to.addr[14], 9);
	assert_ptr_equal(i.stream, BYTES);
	assert_int_equal(i.fd, -1);
	assert_int_equal(deleted, 1);
	close(fd);
}

/* … and the address, which needs no route; … */
static void test_call_from_address(void **state)
{
	struct iw_conn i = conn_to(bound(AF_INET, "127.0.0.1", 0));
	bool done = false;
	int fd = i.fd;

	assert_int_equal(iw_stream_call(&i, &done), 0);
	assert_true(done);
	assert_int_equal(routes, 0);
	assert_int_equal(used_from.addr[12], 127);
	close(fd);
}

/* … or with one that is taken, and asked for again by the next call. */
static void test_call_from_nowhere(void **state)
{
	struct iw_conn i = conn_to(socket(AF_INET, SOCK_STREAM, 0));
	bool done = false;
	int fd = i.fd;

	assert_int_equal(iw_stream_call(&i, &done), 0);
	assert_true(done);
	assert_int_equal(used_from.port, 4444);
	assert_int_equal(ur_sockaddr_port(&i.from), 0);
	assert_int_equal(is_v4(&i.from), 1);
	close(fd);
}

static void listens(int family, const char *text, bool afonly,
		    uint32_t families)
{
	struct iw_conn l = conn_to(bound(family, text, 0));
	struct sockaddr_storage local, peer;
	bool any = text[0] == '0' || text[2] == 0;

	iw_ends(&l, &local, &peer);
	l.c.opts.afonly = afonly;
	assert_int_equal(iw_stream_listen(&l), 0);
	assert_int_equal(listen_families, families);
	assert_int_equal(listen_port, ur_sockaddr_port(&local));
	assert_int_equal(listen_addr == NULL, any);
	assert_int_equal(watched, 1);
	assert_int_equal(iw_stream_watch(&l), 0); /* it is already */
	assert_int_equal(watched, 1);
	iw_stream_listen_end(&l);
	iw_stream_listen_end(&l);
	assert_int_equal(watched, 0);
	assert_int_equal(closed, 1);
	closed = 0;
	close(l.fd);
}

static void test_listen(void **state)
{
	listens(AF_INET, "0.0.0.0", false, 1);
	listens(AF_INET, "127.0.0.1", false, 1);
	listens(AF_INET6, "::", false, 3);
	listens(AF_INET6, "::", true, 2);
}

/* No port has such addresses: the kernel's listener is all. */
static void test_listen_fails(void **state)
{
	struct iw_conn l = conn_to(bound(AF_INET, "127.0.0.1", 0));

	result = -ENOENT;
	assert_int_equal(iw_stream_listen(&l), 0);
	assert_null(l.streams);
	assert_int_equal(watched, 0);
	assert_int_equal(iw_stream_watch(&l), 0);
	result = -EMFILE;
	assert_int_equal(iw_stream_listen(&l), -EMFILE);
	result = 0;
	watch_result = -ENOMEM;
	assert_int_equal(iw_stream_listen(&l), -ENOMEM);
	assert_int_equal(l.stream_source.fd, -1);
	iw_stream_listen_end(&l);
	assert_int_equal(closed, 1);
	close(l.fd);
}

static void test_accept(void **state)
{
	struct iw_conn l = conn_to(bound(AF_INET, "127.0.0.1", 0));
	struct ur_cmt_source *src = &l.stream_source;

	assert_int_equal(iw_stream_listen(&l), 0);
	/* All there are, but not for ever. */
	waiting = 5;
	src->ready(src, EPOLLIN);
	assert_int_equal(taken, 5);
	waiting = 1000;
	taken = 0;
	src->ready(src, EPOLLIN);
	assert_in_range(taken, 1, 999);
	/* One that is paused by what it took takes no more, … */
	taken = 0;
	deny = true;
	src->ready(src, EPOLLIN);
	assert_int_equal(taken, 1);
	l.paused = false;
	deny = false;
	/* … nor where there is no room, and a waiting connection is not touched; … */
	room = false;
	taken = accepts = 0;
	src->ready(src, EPOLLIN);
	assert_int_equal(taken, 0);
	assert_int_equal(accepts, 0);
	assert_int_equal(paused, 1);
	room = true;
	l.paused = false;
	/* … nor without a descriptor for it. */
	result = -EMFILE;
	src->ready(src, EPOLLIN);
	assert_int_equal(taken, 0);
	assert_int_equal(paused, 2);
	result = 0;
	iw_stream_listen_end(&l);
	close(l.fd);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(test_ends),
		T(test_bytes_of_socket),
		T(test_bytes_of_stream),
		T(test_not_carried),
		T(test_call_fails),
		T(test_call_with_lease),
		T(test_call_from_port),
		T(test_call_from_address),
		T(test_call_from_nowhere),
		T(test_listen),
		T(test_listen_fails),
		T(test_accept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
