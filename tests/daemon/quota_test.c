/* SPDX-License-Identifier: BSD-2-Clause */
/* What one user may have of urnicd's tables.  Needs real root rights. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"
#include "client/binds.h"
#include "client/ipc_io.h"
#include "world.h"

#define ALICE	    61001
#define BOB	    61002
#define SLOTS	    255	  /* a quarter of 1023 */
#define PORTS	    16384 /* … of 65536 */
#define XRCDS	    256	  /* … of 1024 */
#define CONNECTIONS 1024  /* … of 4096 */

static struct peer root;

static int setup(void **state)
{
	if (world_setup(state))
		return -1;
	root = peer_start(0, NULL); /* so urnicd is root's */
	return 0;
}

static int teardown(void **state)
{
	peer_end(&root);
	return world_teardown(state);
}

/* fn's result, of a process of that user. */
static int run_as(uid_t uid, int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct rlimit l;

		getrlimit(RLIMIT_NOFILE, &l);
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
		_exit(setresuid(uid, uid, uid) ? 99 : fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int ask(int fd, struct ur_ipc_msg *m, int with)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS];
	unsigned int n;

	if (ur_ipc_send(fd, m, &with, with >= 0 ? 1 : 0) ||
	    poll(&p, 1, WAIT_MS) != 1 || ur_ipc_recv(fd, m, fds, &n))
		return -1;
	ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return 0;
}

/* A connection; -1: refused.  The queue of new ones may be full. */
static int hello(void)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_HELLO,
		.version = UR_IPC_VERSION,
		.role = UR_IPC_ROLE_CLIENT,
	};
	int fd = ur_ipc_connect();

	for (int i = 0; fd == -EAGAIN && i < WAIT_MS; i++) {
		sleep_ms(1);
		fd = ur_ipc_connect();
	}
	if (fd < 0 || ask(fd, &m, -1) || m.type != UR_IPC_WELCOME)
		return -1;
	return fd;
}

static int bind_any(int fd, uint32_t handle)
{
	struct ur_ipc_msg m = { .type = UR_IPC_BIND,
				.handle = handle,
				.port_space = 0x0106 };

	return ask(fd, &m, -1) || m.type != UR_IPC_BOUND ? -1 : m.error;
}

static void slots(void **state)
{
	struct peer bob = peer_start(BOB, NULL), other = peer_start(BOB, NULL);
	struct peer alice = peer_start(ALICE, NULL);
	uint32_t s;

	for (int i = 0; i < SLOTS; i++)
		assert_int_equal(peer_slot(i % 2 ? &bob : &other, &s), 0);
	assert_int_equal(peer_slot(&bob, &s), -ENOSPC);
	assert_int_equal(peer_slot(&other, &s), -ENOSPC);
	assert_true(
		file_has(world_log, "this user has its share of the slots"));
	assert_int_equal(peer_slot(&alice, &s), 0);
	for (int i = 0; i <= SLOTS; i++)
		assert_int_equal(peer_slot(&root, &s), 0);
	/* What one gives back, the other may have. */
	peer_end(&bob);
	assert_true(daemon_wait_used(SLOTS + 2 + SLOTS - SLOTS / 2, WAIT_MS));
	assert_int_equal(peer_slot(&other, &s), 0);
	peer_end(&other);
	peer_end(&alice);
}

/* Damaged sockets do not use the slots up. */
static void damaged_slots(void **state)
{
	struct peer bob = peer_start(BOB, NULL), alice;
	uint32_t s;

	for (int i = 0; i < SLOTS; i++) {
		assert_int_equal(peer_slot(&bob, &s), 0);
		peer_damage(&bob, s);
	}
	peer_end(&bob);
	assert_true(daemon_wait_used(0, WAIT_MS));
	for (int i = 0; i < 1023; i++)
		assert_int_equal(peer_slot(&root, &s), 0);
	assert_int_equal(peer_slot(&root, &s), -ENOSPC);
	peer_end(&root);
	root = peer_start(0, NULL);
	alice = peer_start(ALICE, NULL);
	assert_int_equal(peer_slot(&alice, &s), 0);
	send_qpn("::1", qpn_of(s, 3));
	assert_int_equal(peer_recv(&alice, s), qpn_of(s, 3));
	peer_end(&alice);
}

static int take_ports(void)
{
	int a = hello(), b = hello();
	uint32_t n = 0;
	int err = 0;

	for (; !err && n <= PORTS; n++)
		err = bind_any(n % 2 ? a : b, n);
	return err == EDQUOT && n == PORTS + 1 ? 0 : 1;
}

static int take_port_while_bob_has_his(void)
{
	int bob = hello(), me;
	uint32_t n = 0;

	while (bind_any(bob, ++n) == 0)
		;
	if (setresuid(0, 0, 0) || setresuid(ALICE, ALICE, ALICE))
		return 2;
	me = hello();
	return bind_any(me, 1);
}

/* As bob, but able to become alice. */
static int bob_then_alice(void)
{
	return seteuid(BOB) ? 2 : take_port_while_bob_has_his();
}

static void ports(void **state)
{
	assert_int_equal(run_as(BOB, take_ports), 0);
	assert_int_equal(run_as(0, bob_then_alice), 0);
}

static int open_xrcd(int fd)
{
	struct ur_ipc_msg m = { .type = UR_IPC_XRCD_OPEN,
				.flags = UR_XRCD_CREATE };
	int file = memfd_create("domain", 0), err;
	struct stat st;

	if (file < 0 || fstat(file, &st))
		return -1;
	m.file = (struct ur_xrc_file){ st.st_dev, st.st_ino, 1 };
	err = ask(fd, &m, file);
	close(file);
	return err || m.type != UR_IPC_XRCD ? -1 : m.error;
}

static int take_xrcds(void)
{
	int fd[3] = { hello(), hello(), hello() }, err = 0, n = 0;

	for (; n <= XRCDS && !err; n++)
		err = open_xrcd(fd[n / 128]);
	return err == EDQUOT && n == XRCDS + 1 ? 0 : 1;
}

static void xrc_domains(void **state)
{
	assert_int_equal(run_as(BOB, take_xrcds), 0);
}

static int take_connections(void)
{
	int n = 0;

	while (n <= CONNECTIONS && hello() >= 0)
		n++;
	if (n != CONNECTIONS)
		return 1;
	/* Alice is served meanwhile. */
	if (setresuid(0, 0, 0) || setresuid(ALICE, ALICE, ALICE))
		return 2;
	return hello() < 0;
}

static int bob_connects(void)
{
	return seteuid(BOB) ? 2 : take_connections();
}

static void connections(void **state)
{
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max < 4 * CONNECTIONS)
		SKIP_BECAUSE("needs 4,096 descriptors");
	assert_int_equal(run_as(0, bob_connects), 0);
}

/* urnicd as a service, told how much. */
static void share_can_be_set(void **state)
{
	const char *urnicd = getenv("URNICD");
	pid_t pid = fork();
	struct peer bob;
	uint32_t s;

	if (pid == 0) {
		execl(urnicd, urnicd, "--foreground", "--user-share", "2",
		      NULL);
		_exit(1);
	}
	for (int i = 0; i < WAIT_MS && daemon_pid() != pid; i++)
		sleep_ms(1);
	assert_int_equal(daemon_pid(), pid);
	bob = peer_start(BOB, NULL);
	for (int i = 0; i < 20; i++)
		assert_int_equal(peer_slot(&bob, &s), 0);
	assert_int_equal(peer_slot(&bob, &s), -ENOSPC);
	peer_end(&bob);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int may_run(void)
{
	return access(getenv("URNICD"), X_OK) ? 1 : 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(slots),
		T(damaged_slots),
		T(ports),
		T(xrc_domains),
		T(connections),
		cmocka_unit_test_setup_teardown(share_can_be_set, world_setup,
						world_teardown),
	};

	if (geteuid() != 0 || run_as(ALICE, may_run) || run_as(BOB, may_run)) {
		fprintf(stderr, "skipped: needs root and a daemon that other "
				"users may execute\n");
		return 77;
	}
	world_require();
	return cmocka_run_group_tests(tests, world_log_open, world_log_close);
}
