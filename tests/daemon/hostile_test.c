/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that no correct client sends: urnicd ends the connection, goes on, and
 * gives no process what belongs to another. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "client/binds.h"
#include "client/exit_file.h"
#include "client/ipc_io.h"
#include "sockets/udp.h"
#include "world.h"

static struct peer honest;
static uint32_t honest_slot;

static int setup(void **state)
{
	if (world_setup(state))
		return -1;
	honest = peer_start(0, NULL);
	return peer_slot(&honest, &honest_slot);
}

/* After every test the honest client is served as before. */
static int teardown(void **state)
{
	uint32_t s;

	send_qpn("::1", qpn_of(honest_slot, 3));
	assert_int_equal(peer_recv(&honest, honest_slot),
			 qpn_of(honest_slot, 3));
	assert_int_equal(peer_slot(&honest, &s), 0);
	assert_true(daemon_wait_used(2, WAIT_MS));
	peer_end(&honest);
	return world_teardown(state);
}

/* Waits for the next message: its type, or 0: the connection was ended. */
static int next_type(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS];
	struct ur_ipc_msg m;
	unsigned int n;
	int err;

	assert_int_equal(poll(&p, 1, 3000), 1);
	err = ur_ipc_recv(fd, &m, fds, &n);
	if (err)
		return 0;
	ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return (int)m.type;
}

static int hello_as(uint8_t role)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_HELLO,
		.version = UR_IPC_VERSION,
		.role = role,
	};
	int fd = ur_ipc_connect();

	assert_true(fd >= 0);
	assert_int_equal(ur_ipc_send(fd, &m, NULL, 0), 0);
	assert_int_equal(next_type(fd), UR_IPC_WELCOME);
	return fd;
}

static void expect_ended(int fd)
{
	assert_int_equal(next_type(fd), 0);
	close(fd);
}

static void random_bytes(void **state)
{
	uint8_t buf[4096];
	struct ur_rng r;

	ur_rng_seed(&r, 20240607);
	for (int i = 0; i < 300; i++) {
		int fd = i & 1 ? ur_ipc_connect() : hello_as(i & 2 ? 2 : 1);
		size_t len = 1 + ur_rng_below(&r, 200);

		for (size_t k = 0; k < sizeof(buf); k++)
			buf[k] = (uint8_t)ur_rng_next(&r);
		/* Often a known type, so that its fields are garbage. */
		if (i % 3) {
			buf[0] = 0;
			buf[1] = (uint8_t)ur_rng_below(&r, UR_IPC_TYPES + 1);
			buf[2] = 0;
			buf[3] = 0;
		}
		send(fd, buf, i % 50 ? len : sizeof(buf), MSG_NOSIGNAL);
		if (i % 7 == 0)
			send(fd, buf, 0, MSG_NOSIGNAL);
		close(fd);
	}
}

static void oversized_and_empty(void **state)
{
	static uint8_t big[UR_IPC_MAX + 1];
	int fd = hello_as(UR_IPC_ROLE_CLIENT);

	assert_int_equal(send(fd, big, sizeof(big), 0), sizeof(big));
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	send(fd, big, 0, 0);
	expect_ended(fd);
}

static void send_msg(int fd, enum ur_ipc_type type, unsigned int slot, int with)
{
	struct ur_ipc_msg m = { .type = type, .slot = (uint16_t)slot };

	m.role = UR_IPC_ROLE_CLIENT;
	m.version = UR_IPC_VERSION;
	assert_int_equal(ur_ipc_send(fd, &m, &with, with >= 0 ? 1 : 0), 0);
}

static void wrong_order_and_role(void **state)
{
	int fd = ur_ipc_connect();

	send_msg(fd, UR_IPC_SLOT_GET, 0, -1); /* before HELLO */
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_TOOL);
	send_msg(fd, UR_IPC_SLOT_GET, 0, -1);
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	send_msg(fd, UR_IPC_SHOW, 0, -1);
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	send_msg(fd, UR_IPC_HELLO, 0, -1); /* again */
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	send_msg(fd, UR_IPC_WELCOME, 0, -1); /* the daemon's */
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	send_msg(fd, UR_IPC_REPORT, 0, -1); /* not asked for */
	expect_ended(fd);
}

static void other_version(void **state)
{
	struct ur_ipc_msg m = { .type = UR_IPC_HELLO,
				.version = 77,
				.role = 1 };
	int fd = ur_ipc_connect();

	assert_int_equal(ur_ipc_send(fd, &m, NULL, 0), 0);
	assert_int_equal(next_type(fd), UR_IPC_ERROR);
	expect_ended(fd);
}

static void slots_of_others(void **state)
{
	int fd = hello_as(UR_IPC_ROLE_CLIENT);

	send_msg(fd, UR_IPC_SLOT_PUT, honest_slot, -1);
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	send_msg(fd, UR_IPC_SLOT_PUT, 1023, -1); /* not there yet */
	expect_ended(fd);
}

/* The error of CLAIMED, or -1: ended. */
static int claim(unsigned int slot, int with)
{
	int fd = hello_as(UR_IPC_ROLE_CLIENT), fds[UR_IPC_MAX_FDS];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct ur_ipc_msg m;
	unsigned int n;
	int err;

	send_msg(fd, UR_IPC_CLAIM, slot, with);
	assert_int_equal(poll(&p, 1, 3000), 1);
	err = ur_ipc_recv(fd, &m, fds, &n);
	close(fd);
	return err ? -1 : m.error;
}

static void false_claims(void **state)
{
	int pipes[2], tcp, udp, mine;

	assert_int_equal(pipe(pipes), 0);
	tcp = socket(AF_INET6, SOCK_STREAM, 0);
	udp = socket(AF_INET6, SOCK_DGRAM, 0);
	mine = ur_udp_slot_socket(ROCE_PORT, 0);
	assert_true(mine >= 0);
	assert_int_equal(claim(honest_slot, pipes[0]), -1);
	assert_int_equal(claim(honest_slot, tcp), -1);
	assert_int_equal(claim(honest_slot, udp), -1); /* not our port */
	/* A socket of the port's group that is not the slot's. */
	assert_int_equal(claim(honest_slot, mine), ENOENT);
	assert_int_equal(claim(900, mine), ENOENT);
	close(pipes[0]);
	close(pipes[1]);
	close(tcp);
	close(udp);
	close(mine);
}

static void too_many_descriptors(void **state)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(200 * sizeof(int))];
	} space;
	uint8_t byte[16] = { 0, UR_IPC_CLAIM, 0, 0, 0, 0, 0, 0, 0, 1 };
	struct iovec iov = { byte, 10 };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = space.buf,
			     .msg_controllen = sizeof(space.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
	int fd = hello_as(UR_IPC_ROLE_CLIENT);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(200 * sizeof(int));
	memset(CMSG_DATA(c), 0, 200 * sizeof(int)); /* stdin, 200 times */
	assert_int_equal(sendmsg(fd, &mh, 0), 10);
	expect_ended(fd);
}

/* To read it, the tool would wait. */
static void report_of_a_pipe(void **state)
{
	int fd = hello_as(UR_IPC_ROLE_CLIENT), tool, pipes[2];

	assert_int_equal(pipe(pipes), 0);
	tool = hello_as(UR_IPC_ROLE_TOOL);
	send_msg(tool, UR_IPC_SHOW, 0, -1);
	assert_int_equal(next_type(fd), UR_IPC_REPORT_GET);
	send_msg(fd, UR_IPC_REPORT, 0, pipes[0]);
	expect_ended(fd);
	assert_int_equal(next_type(tool), UR_IPC_SUMMARY);
	close(tool);
	close(pipes[0]);
	close(pipes[1]);
}

static void exit_file_that_may_change(void **state)
{
	int fd = hello_as(UR_IPC_ROLE_CLIENT), pipes[2];
	int memory = memfd_create("w", MFD_ALLOW_SEALING);

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ftruncate(memory, sizeof(struct ur_exit_layout)), 0);
	send_msg(fd, UR_IPC_EXIT_FILE, 0, memory); /* unsealed */
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	send_msg(fd, UR_IPC_EXIT_FILE, 0, pipes[0]);
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	assert_int_equal(ftruncate(memory, 100), 0);
	assert_int_equal(
		fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	send_msg(fd, UR_IPC_EXIT_FILE, 0, memory); /* too short */
	expect_ended(fd);
	close(memory);
	close(pipes[0]);
	close(pipes[1]);
}

/* It must neither wait for us nor keep what we do not read. */
static void flood_without_reading(void **state)
{
	int fd = hello_as(UR_IPC_ROLE_TOOL);
	struct ur_ipc_msg m = { .type = UR_IPC_NEXT };
	struct pollfd p = { .fd = fd };
	int i;

	for (i = 0; i < 100000; i++) {
		int err = ur_ipc_send(fd, &m, NULL, 0);

		if (err == -EAGAIN)
			sleep_ms(1);
		else if (err)
			break;
	}
	assert_in_range(i, 100, 99999);
	assert_int_equal(poll(&p, 1, 1000), 1);
	assert_true(p.revents & POLLHUP);
	close(fd);
}

static void silent_connections(void **state)
{
	struct pollfd p[200];

	for (int i = 0; i < 200; i++) {
		p[i].fd = ur_ipc_connect();
		p[i].events = POLLIN;
		/* The queue of connections may be full. */
		for (int k = 0; p[i].fd == -EAGAIN && k < 100; k++) {
			sleep_ms(1);
			p[i].fd = ur_ipc_connect();
		}
		assert_true(p[i].fd >= 0);
	}
	sleep_ms(5500);
	assert_int_equal(poll(p, 200, 1000), 200);
	for (int i = 0; i < 200; i++)
		close(p[i].fd);
}

static void slots_go_when_the_client_goes(void **state)
{
	int fd = hello_as(UR_IPC_ROLE_CLIENT);

	for (int i = 0; i < 20; i++) {
		send_msg(fd, UR_IPC_SLOT_GET, 0, -1);
		assert_int_equal(next_type(fd), UR_IPC_SLOT);
	}
	assert_int_equal(daemon_used(), 21);
	close(fd);
	assert_true(daemon_wait_used(1, WAIT_MS));
}

static struct ur_ipc_msg binding(enum ur_ipc_type type, uint32_t handle,
				 uint16_t port, uint8_t flags)
{
	struct ur_ipc_msg m = { .type = type,
				.handle = handle,
				.port_space = 0x0106,
				.port = port,
				.flags = flags };

	m.addr[10] = 0xff;
	m.addr[11] = 0xff;
	return m;
}

/* The error of BOUND, -1: something else or the end. */
static int bind_port(int fd, uint32_t handle, uint16_t port, uint8_t flags)
{
	struct ur_ipc_msg m = binding(UR_IPC_BIND, handle, port, flags);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS];
	unsigned int n;

	assert_int_equal(ur_ipc_send(fd, &m, NULL, 0), 0);
	assert_int_equal(poll(&p, 1, 3000), 1);
	if (ur_ipc_recv(fd, &m, fds, &n) || m.type != UR_IPC_BOUND)
		return -1;
	assert_int_equal(m.handle, handle);
	return m.error;
}

static void ports_of_others(void **state)
{
	int a = hello_as(UR_IPC_ROLE_CLIENT), b = hello_as(UR_IPC_ROLE_CLIENT);
	struct ur_ipc_msg m = binding(UR_IPC_UNBIND, 7, 0, 0);

	assert_int_equal(bind_port(a, 7, 7174, UR_BIND_REUSE), 0);
	assert_int_equal(bind_port(a, 7, 7175, 0), EEXIST);
	assert_int_equal(bind_port(b, 7, 7174, UR_BIND_CLAIM), EADDRNOTAVAIL);
	assert_int_equal(bind_port(b, 7, 7174, UR_BIND_CLAIM | UR_BIND_LISTEN),
			 EADDRNOTAVAIL);
	/* A handle is valid for its owner only. */
	assert_int_equal(ur_ipc_send(b, &m, NULL, 0), 0);
	assert_int_equal(bind_port(b, 8, 7174, 0), EADDRNOTAVAIL);
	close(a);
	sleep_ms(50);
	assert_int_equal(bind_port(b, 9, 7174, 0), 0);
	close(b);
}

static void wrong_bindings(void **state)
{
	struct ur_ipc_msg m = binding(UR_IPC_MAD_IN, 0, 0, 0);
	int fd = hello_as(UR_IPC_ROLE_CLIENT);

	/* To listen is asked for apart. */
	assert_int_equal(bind_port(fd, 1, 7174, UR_BIND_LISTEN), -1);
	close(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	assert_int_equal(ur_ipc_send(fd, &m, NULL, 0), 0); /* the daemon's */
	expect_ended(fd);
	fd = hello_as(UR_IPC_ROLE_TOOL);
	assert_int_equal(bind_port(fd, 1, 7174, 0), -1);
	close(fd);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	m = binding(UR_IPC_BIND, 1, 7174, 0);
	m.port_space = 0x0107;
	assert_int_equal(ur_ipc_send(fd, &m, NULL, 0), 0);
	assert_int_equal(next_type(fd), UR_IPC_BOUND);
	m = binding(UR_IPC_LISTEN, 1, 0, 0);
	assert_int_equal(ur_ipc_send(fd, &m, NULL, 0), 0);
	assert_int_equal(next_type(fd), UR_IPC_BOUND);
	close(fd);
}

/* All free ports, and one more; all are given back with the process. */
static void all_ports(void **state)
{
	int fd = hello_as(UR_IPC_ROLE_CLIENT), err = 0;
	uint32_t n = 0;

	while (!err && n < 70000)
		err = bind_port(fd, ++n, 0, 0);
	assert_int_equal(err, EADDRNOTAVAIL);
	assert_in_range(n, 1000, 65000);
	close(fd);
	sleep_ms(100);
	fd = hello_as(UR_IPC_ROLE_CLIENT);
	assert_int_equal(bind_port(fd, 1, 0, 0), 0);
	close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(random_bytes),
		T(oversized_and_empty),
		T(wrong_order_and_role),
		T(other_version),
		T(slots_of_others),
		T(false_claims),
		T(too_many_descriptors),
		T(report_of_a_pipe),
		T(exit_file_that_may_change),
		T(flood_without_reading),
		T(silent_connections),
		T(slots_go_when_the_client_goes),
		T(ports_of_others),
		T(wrong_bindings),
		T(all_ports),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
