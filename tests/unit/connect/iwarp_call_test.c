/* SPDX-License-Identifier: BSD-2-Clause */
/* How iWARP connections are called where the kernel, or a stream, does what it
 * rarely does. */
#include "../engine/side.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../own_net.h"
#include "ports/stream.h"

/* What the functions below do. */
static atomic_bool no_late_port; /* as kernels before 4.2 */
static atomic_int second_error;	 /* of connect(); 0: as the kernel's */
static atomic_bool in_progress;	 /* it was called once */
static atomic_bool streams;	 /* ports lead to all peers */
static atomic_int open_streams;
static atomic_int read_result;

struct ur_stream {
	int fd;
	int hold;
};

/* NOLINTBEGIN(readability-identifier-naming): the linker's */
int __real_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __real_setsockopt(int fd, int level, int name, const void *v,
		      socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *v,
		      socklen_t len);
bool __wrap_ur_streams_are_there(void);
bool __wrap_ur_streams_carry(const uint8_t src[16], const uint8_t dst[16]);
int __wrap_ur_stream_connect(const struct ur_stack_end *from,
			     const struct ur_stack_end *to, int hold,
			     uint32_t lease, struct ur_stream **out);
int __wrap_ur_stream_fd(struct ur_stream *s);
void __wrap_ur_stream_heard(struct ur_stream *s);
int __wrap_ur_stream_state(struct ur_stream *s);
ssize_t __wrap_ur_stream_read(struct ur_stream *s, const struct iovec *iov,
			      uint32_t n, bool *more);
ssize_t __wrap_ur_stream_write(struct ur_stream *s, const struct iovec *iov,
			       uint32_t n);
void __wrap_ur_stream_ends(struct ur_stream *s, struct ur_stack_end *local,
			   struct ur_stack_end *peer);
void __wrap_ur_stream_close(struct ur_stream *s, bool reset);

static bool is_tcp(int fd)
{
	int type = 0;
	socklen_t len = sizeof(type);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) &&
	       type == SOCK_STREAM;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	int err = atomic_load(&second_error);

	if (!err || !is_tcp(fd))
		return __real_connect(fd, to, len);
	errno = atomic_exchange(&in_progress, true) ? err : EINPROGRESS;
	return -1;
}

int __wrap_setsockopt(int fd, int level, int name, const void *v, socklen_t len)
{
	if (atomic_load(&no_late_port) && level == IPPROTO_IP &&
	    name == IP_BIND_ADDRESS_NO_PORT) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return __real_setsockopt(fd, level, name, v, len);
}

bool __wrap_ur_streams_are_there(void)
{
	return atomic_load(&streams);
}

bool __wrap_ur_streams_carry(const uint8_t src[16], const uint8_t dst[16])
{
	return atomic_load(&streams);
}

/* Connected, and ended by the peer, before the first look. */
int __wrap_ur_stream_connect(const struct ur_stack_end *from,
			     const struct ur_stack_end *to, int hold,
			     uint32_t lease, struct ur_stream **out)
{
	struct ur_stream *s = malloc(sizeof(*s));

	s->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	s->hold = hold;
	atomic_fetch_add(&open_streams, 1);
	*out = s;
	return 0;
}

int __wrap_ur_stream_fd(struct ur_stream *s)
{
	return s->fd;
}

void __wrap_ur_stream_heard(struct ur_stream *s)
{
	uint64_t n;

	(void)!read(s->fd, &n, sizeof(n));
}

int __wrap_ur_stream_state(struct ur_stream *s)
{
	return 0;
}

ssize_t __wrap_ur_stream_read(struct ur_stream *s, const struct iovec *iov,
			      uint32_t n, bool *more)
{
	*more = false;
	return atomic_load(&read_result);
}

ssize_t __wrap_ur_stream_write(struct ur_stream *s, const struct iovec *iov,
			       uint32_t n)
{
	return (ssize_t)iov->iov_len;
}

void __wrap_ur_stream_ends(struct ur_stream *s, struct ur_stack_end *local,
			   struct ur_stack_end *peer)
{
	static const struct ur_stack_end end = {
		.addr = { [10] = 0xff, 0xff, 127, [15] = 1 },
		.port = 4000,
	};

	*local = end;
	*peer = end;
}

void __wrap_ur_stream_close(struct ur_stream *s, bool reset)
{
	close(s->fd);
	close(s->hold);
	free(s);
	atomic_fetch_sub(&open_streams, 1);
}
/* NOLINTEND(readability-identifier-naming) */

static int open_both(void **state)
{
	struct side *s = calloc(2, sizeof(*s));

	side_open(&s[0]);
	side_open(&s[1]);
	*state = s;
	return 0;
}

static int close_both(void **state)
{
	struct side *s = *state;

	atomic_store(&no_late_port, false);
	atomic_store(&second_error, 0);
	atomic_store(&in_progress, false);
	atomic_store(&streams, false);
	side_close(&s[0]);
	side_close(&s[1]);
	free(s);
	return atomic_load(&open_streams);
}

/* The descriptor has been cleared when the end is still to be read. */
static void a_stream_ends_before_the_first_look(void **state)
{
	struct sockaddr_storage to = side_addr("127.0.0.1", 7);
	struct side *a = *state;

	atomic_store(&streams, true);
	atomic_store(&read_result, 0);
	assert_int_equal(side_call(a, &to, "hello"), 0);
	side_wait(a, UR_CONN_REJECTED);
	assert_int_equal(atomic_load(&open_streams), 0);
}

static void a_stream_breaks_before_the_first_look(void **state)
{
	struct sockaddr_storage to = side_addr("127.0.0.1", 7);
	struct side *a = *state;

	atomic_store(&streams, true);
	atomic_store(&read_result, -ETIMEDOUT);
	assert_int_equal(side_call(a, &to, "hello"), 0);
	side_wait(a, UR_CONN_UNREACHABLE);
	assert_int_equal(atomic_load(&open_streams), 0);
}

static void fails_later(struct side *s, int err, enum ur_conn_event_type type)
{
	struct sockaddr_storage to = side_addr("127.0.0.1", 7);
	const struct side_event *e;

	atomic_store(&second_error, err);
	atomic_store(&in_progress, false);
	assert_int_equal(side_call(s, &to, ""), 0);
	e = side_wait(s, type);
	assert_int_equal(e->ev.status, -err);
	ur_conn_destroy(s->conn);
	s->conn = NULL;
}

/* Once it has begun, a call fails by an event, whatever the reason. */
static void the_second_answer_is_an_event(void **state)
{
	struct side *a = *state;

	fails_later(a, ECONNREFUSED, UR_CONN_REJECTED);
	fails_later(a, ETIMEDOUT, UR_CONN_UNREACHABLE);
	fails_later(a, EHOSTUNREACH, UR_CONN_CONNECT_ERROR);
	fails_later(a, ENETDOWN, UR_CONN_CONNECT_ERROR);
	fails_later(a, EACCES, UR_CONN_CONNECT_ERROR);
}

static uint16_t port_after_bind(struct side *s)
{
	static const struct ur_conn_opts active = { .active = true };
	struct sockaddr_storage from = side_addr("127.0.0.1", 0);
	uint16_t port = 0;

	assert_int_equal(ur_conn_create(s->a, UR_PS_TCP, NULL, s, &s->conn), 0);
	ur_conn_set_opts(s->conn, &active);
	assert_int_equal(ur_conn_bind(s->conn, &from), 0);
	assert_int_equal(ur_conn_port(s->conn, &port), 0);
	assert_int_not_equal(port, 0);
	return ((struct sockaddr_in *)&from)->sin_port;
}

/* The port is the kernel's choice at connect(2), or at bind(2) where it cannot
 * wait. */
static void a_port_that_comes_early_is_known(void **state)
{
	struct side *s = *state;

	assert_int_equal(port_after_bind(&s[0]), 0);
	atomic_store(&no_late_port, true);
	assert_int_not_equal(port_after_bind(&s[1]), 0);
}

static bool is_connected(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       info.tcpi_state == TCP_ESTABLISHED;
}

static bool has_reno(int fd)
{
	char name[16] = "";
	socklen_t len = sizeof(name);

	assert_int_equal(
		getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
	return !strcmp(name, "reno");
}

/* Another than reno; this network namespace is the test's own. */
static bool choose_default(void)
{
	int f = open("/proc/sys/net/ipv4/tcp_congestion_control",
		     O_WRONLY | O_CLOEXEC);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool other;

	(void)!write(f, "cubic", 5);
	close(f);
	other = !has_reno(fd);
	close(fd);
	return other;
}

/* Both ends of a connection within the host have reno, and no other socket. */
static void a_connection_within_the_host_has_reno(void **state)
{
	struct side *s = *state;
	uint32_t connected = 0;

	if (!choose_default())
		skip();
	side_connect(&s[0], &s[1]);
	for (int fd = 3; fd < 1024; fd++) {
		if (!is_connected(fd))
			continue;
		connected++;
		assert_true(has_reno(fd));
	}
	assert_int_equal(connected, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_stream_ends_before_the_first_look),
		TEST(a_stream_breaks_before_the_first_look),
		TEST(the_second_answer_is_an_event),
		TEST(a_port_that_comes_early_is_known),
		TEST(a_connection_within_the_host_has_reno),
	};

	setenv("URNIC_DAEMON", "0", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
