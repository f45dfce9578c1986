/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains: their members, and sockets between members. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/ipc_io.h"
#include "world.h"

#define MOST 128u /* domains of a client */

static struct peer starter; /* its library starts the daemon */

static int setup(void **state)
{
	if (world_setup(state))
		return -1;
	starter = peer_start(0, NULL);
	return 0;
}

static int teardown(void **state)
{
	peer_end(&starter);
	return world_teardown(state);
}

static int temp_file(struct ur_xrc_file *file)
{
	char name[] = "/tmp/urnic-xrcd-XXXXXX";
	int fd = mkstemp(name);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(fstat(fd, &st), 0);
	*file = (struct ur_xrc_file){ st.st_dev, st.st_ino, 5 };
	return fd;
}

/* The next message; its first descriptor in *fd, -1: none. */
static struct ur_ipc_msg next(int conn, int *fd)
{
	struct pollfd p = { .fd = conn, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS];
	struct ur_ipc_msg m;
	unsigned int n;

	assert_int_equal(poll(&p, 1, 3000), 1);
	assert_int_equal(ur_ipc_recv(conn, &m, fds, &n), 0);
	if (fd)
		*fd = fds[0];
	else
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return m;
}

static struct ur_ipc_msg ask(int conn, const struct ur_ipc_msg *m, int fd,
			     int *got)
{
	assert_int_equal(ur_ipc_send(conn, m, &fd, fd >= 0 ? 1 : 0), 0);
	return next(conn, got);
}

/* A client with a slot. */
static int client(uint16_t *slot)
{
	struct ur_ipc_msg hello = { .type = UR_IPC_HELLO,
				    .version = UR_IPC_VERSION,
				    .role = UR_IPC_ROLE_CLIENT };
	struct ur_ipc_msg get = { .type = UR_IPC_SLOT_GET };
	int conn = ur_ipc_connect();
	struct ur_ipc_msg m;

	assert_true(conn >= 0);
	m = ask(conn, &hello, -1, NULL);
	assert_int_equal(m.type, UR_IPC_WELCOME);
	m = ask(conn, &get, -1, NULL);
	assert_int_equal(m.type, UR_IPC_SLOT);
	*slot = m.slot;
	return conn;
}

static int join(int conn, const struct ur_xrc_file *file, int fd,
		unsigned int flags)
{
	struct ur_ipc_msg m = { .type = UR_IPC_XRCD_OPEN,
				.file = *file,
				.flags = (uint8_t)flags };

	m = ask(conn, &m, fd, NULL);
	assert_int_equal(m.type, UR_IPC_XRCD);
	return m.error;
}

static void leave(int conn, const struct ur_xrc_file *file)
{
	struct ur_ipc_msg m = { .type = UR_IPC_XRCD_CLOSE, .file = *file };

	assert_int_equal(ur_ipc_send(conn, &m, NULL, 0), 0);
}

static int get_link(int conn, const struct ur_xrc_file *file, uint16_t slot,
		    int *end)
{
	struct ur_ipc_msg m = { .type = UR_IPC_XRC_GET,
				.file = *file,
				.slot = slot };

	m = ask(conn, &m, -1, end);
	assert_int_equal(m.type, UR_IPC_XRC_LINK);
	return m.error;
}

static void a_domain_is_of_all_who_open_it(void **state)
{
	struct ur_xrc_file file;
	int fd = temp_file(&file);
	uint16_t slot;
	int a = client(&slot), b = client(&slot);

	assert_int_equal(join(a, &file, fd, 0), EAGAIN);
	assert_int_equal(join(a, &file, fd, UR_XRCD_CREATE | UR_XRCD_EXCLUSIVE),
			 0);
	assert_int_equal(join(b, &file, fd, UR_XRCD_CREATE | UR_XRCD_EXCLUSIVE),
			 EINVAL);
	assert_int_equal(join(b, &file, fd, 0), 0);
	leave(a, &file);
	assert_int_equal(join(a, &file, fd, UR_XRCD_CREATE | UR_XRCD_EXCLUSIVE),
			 EINVAL);
	/* a process that ends leaves it */
	close(b);
	for (int i = 0; i < 300 && join(a, &file, fd, 0) == 0; i++) {
		leave(a, &file);
		usleep(10000);
	}
	assert_int_equal(join(a, &file, fd, 0), EAGAIN);
	close(a);
	close(fd);
}

static void the_file_must_be_shown(void **state)
{
	struct ur_xrc_file file, other;
	int fd = temp_file(&file), wrong = temp_file(&other);
	int path = open("/tmp", O_PATH | O_DIRECTORY), null, sv[2];
	struct stat st;
	uint16_t slot;
	int a = client(&slot);

	assert_int_equal(join(a, &file, wrong, UR_XRCD_CREATE), EBADF);
	assert_int_equal(fstat(path, &st), 0);
	other = (struct ur_xrc_file){ st.st_dev, st.st_ino, 5 };
	assert_int_equal(join(a, &other, path, UR_XRCD_CREATE), EBADF);
	null = open("/dev/null", O_RDWR);
	assert_int_equal(fstat(null, &st), 0);
	other = (struct ur_xrc_file){ st.st_dev, st.st_ino, 5 };
	assert_int_equal(join(a, &other, null, UR_XRCD_CREATE), EOPNOTSUPP);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	assert_int_equal(join(a, &file, sv[0], UR_XRCD_CREATE), EOPNOTSUPP);
	assert_int_equal(join(a, &file, fd, UR_XRCD_CREATE), 0);
	close(sv[0]);
	close(sv[1]);
	close(null);
	close(path);
	close(wrong);
	close(fd);
	close(a);
}

static void members_get_sockets_to_each_other(void **state)
{
	struct ur_xrc_file file, other;
	int fd = temp_file(&file), fd2 = temp_file(&other), mine, theirs;
	uint16_t sa, sb, sc;
	int a = client(&sa), b = client(&sb), c = client(&sc);
	struct ur_ipc_msg m;
	char byte;

	assert_int_equal(join(a, &file, fd, UR_XRCD_CREATE), 0);
	assert_int_equal(join(c, &other, fd2, UR_XRCD_CREATE), 0);
	assert_int_equal(get_link(a, &file, sb, &mine), ENOENT);
	assert_int_equal(join(b, &file, fd, 0), 0);
	assert_int_equal(get_link(a, &file, sb, &mine), 0);
	m = next(b, &theirs);
	assert_int_equal(m.type, UR_IPC_XRC_PEER);
	assert_int_equal(m.slot, sa);
	assert_true(ur_xrc_file_equal(&m.file, &file));
	assert_int_equal(send(mine, "x", 1, 0), 1);
	assert_int_equal(recv(theirs, &byte, 1, 0), 1);
	close(mine);
	/* It ends when urnicd has closed its own copy as well. */
	assert_int_equal(poll(&(struct pollfd){ theirs, POLLIN, 0 }, 1, 10000),
			 1);
	assert_int_equal(recv(theirs, &byte, 1, 0), 0);
	close(theirs);
	/* not to itself, to a process outside, to a free slot, by another domain */
	assert_int_equal(get_link(a, &file, sa, &mine), ENOENT);
	assert_int_equal(get_link(a, &file, sc, &mine), ENOENT);
	assert_int_equal(get_link(a, &file, UR_SLOTS - 1, &mine), ENOENT);
	assert_int_equal(get_link(a, &other, sc, &mine), ENOENT);
	leave(b, &file);
	usleep(100000);
	assert_int_equal(get_link(a, &file, sb, &mine), ENOENT);
	close(a);
	close(b);
	close(c);
	close(fd);
	close(fd2);
}

static void a_client_has_so_many_domains(void **state)
{
	struct ur_xrc_file file[MOST + 1];
	int fd[MOST + 1];
	uint16_t slot;
	int a = client(&slot);

	for (unsigned int i = 0; i <= MOST; i++) {
		fd[i] = temp_file(&file[i]);
		assert_int_equal(join(a, &file[i], fd[i], UR_XRCD_CREATE),
				 i < MOST ? 0 : ENOMEM);
	}
	leave(a, &file[0]);
	assert_int_equal(join(a, &file[MOST], fd[MOST], UR_XRCD_CREATE), 0);
	for (unsigned int i = 0; i <= MOST; i++)
		close(fd[i]);
	close(a);
}

/* After a restart its members make it again. */
static void a_claim_is_believed(void **state)
{
	struct ur_xrc_file file;
	int fd = temp_file(&file);
	pid_t old = daemon_pid();
	uint16_t slot;
	int a = client(&slot), b;

	assert_int_equal(join(a, &file, fd, UR_XRCD_CREATE), 0);
	daemon_kill();
	assert_true(daemon_wait(old, WAIT_MS) > 0);
	close(a);
	a = client(&slot);
	assert_int_equal(join(a, &file, fd, UR_XRCD_CLAIM), 0);
	b = client(&slot);
	assert_int_equal(join(b, &file, fd, UR_XRCD_CREATE | UR_XRCD_EXCLUSIVE),
			 EINVAL);
	assert_int_equal(join(b, &file, fd, 0), 0);
	close(a);
	close(b);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_domain_is_of_all_who_open_it),
		TEST(the_file_must_be_shown),
		TEST(members_get_sockets_to_each_other),
		TEST(a_client_has_so_many_domains),
		TEST(a_claim_is_believed),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
