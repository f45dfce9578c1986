/* SPDX-License-Identifier: BSD-2-Clause */
/* urnicd as a service: we are the service manager with a descriptor store. */
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
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "world.h"

#define ALICE 61001

static int notify_fd = -1;
static int stored[2] = { -1, -1 }; /* read end, write end */
static bool ready;

static void open_manager(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char name[] = "@urnic-test-manager";

	memcpy(sa.sun_path, name, sizeof(name) - 1);
	sa.sun_path[0] = 0;
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
		bind(notify_fd, (struct sockaddr *)&sa,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				 sizeof(name) - 1)),
		0);
	setenv("NOTIFY_SOCKET", name, 1);
}

static int take_fd(struct msghdr *mh)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(mh);
	int fd = -1;

	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void store(const char *text, int fd)
{
	int i = strstr(text, "FDNAME=urnic-keeper-write") != NULL;

	assert_true(strstr(text, "FDSTORE=1") == text);
	if (stored[i] >= 0)
		close(stored[i]);
	stored[i] = fd;
}

/* Handle what the daemon tells until it is ready. */
static void manage(void)
{
	struct pollfd p = { .fd = notify_fd, .events = POLLIN };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} space;
	char text[512];

	while (!ready) {
		struct iovec iov = { text, sizeof(text) - 1 };
		struct msghdr mh = { .msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = space.buf,
				     .msg_controllen = sizeof(space.buf) };
		ssize_t n;

		assert_int_equal(poll(&p, 1, 3000), 1);
		n = recvmsg(notify_fd, &mh, MSG_CMSG_CLOEXEC);
		assert_true(n > 0);
		text[n] = 0;
		if (!strcmp(text, "READY=1"))
			ready = true;
		else
			store(text, take_fd(&mh));
	}
}

static void exec_service(void)
{
	char pid[16];

	if (stored[0] >= 0) {
		/* The store has its own order: the names tell. */
		dup2(stored[1], 100);
		dup2(stored[0], 101);
		dup2(100, 3);
		dup2(101, 4);
		snprintf(pid, sizeof(pid), "%d", (int)getpid());
		setenv("LISTEN_PID", pid, 1);
		setenv("LISTEN_FDS", "2", 1);
		setenv("LISTEN_FDNAMES", "urnic-keeper-write:urnic-keeper-read",
		       1);
	}
	execl(getenv("URNICD"), "urnicd", "--foreground", NULL);
	_exit(127);
}

static pid_t start_service(void)
{
	pid_t pid = fork();

	if (pid == 0)
		exec_service();
	ready = false;
	manage();
	assert_int_equal(daemon_pid(), pid);
	return pid;
}

static void stop_service(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* No client of root lives: only the store keeps the sockets. */
static void restart_keeps_the_slots_of_users(void **state)
{
	uid_t uid = geteuid() == 0 && access("/root", R_OK) == 0 ? ALICE : 0;
	struct peer a, b;
	uint32_t s, t, u;
	pid_t pid;

	open_manager();
	pid = start_service();
	assert_true(stored[0] >= 0 && stored[1] >= 0);
	a = peer_start(uid, NULL);
	b = peer_start(uid, NULL);
	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&b, &t), 0);
	peer_signal(&a, SIGSTOP);
	peer_signal(&b, SIGSTOP);
	stop_service(pid);
	pid = start_service();
	peer_signal(&a, SIGCONT);
	peer_signal(&b, SIGCONT);
	assert_true(daemon_wait_used(2, WAIT_MS));
	peer_end(&a);
	send_qpn("::1", qpn_of(t, 5));
	assert_int_equal(peer_recv(&b, t), qpn_of(t, 5));
	assert_int_equal(peer_slot(&b, &u), 0);
	send_qpn("127.0.0.1", qpn_of(u, 6));
	assert_int_equal(peer_recv(&b, u), qpn_of(u, 6));
	peer_end(&b);
	stop_service(pid);
	close(notify_fd);
	close(stored[0]);
	close(stored[1]);
	unsetenv("NOTIFY_SOCKET");
}

static pid_t begin_service(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl(getenv("URNICD"), "urnicd", "--foreground", NULL);
		_exit(127);
	}
	return pid;
}

static void service_does_not_end_when_idle(void **state)
{
	pid_t pid = begin_service();

	assert_int_equal(daemon_wait(0, WAIT_MS), pid);
	sleep_ms(4000);
	assert_int_equal(daemon_pid(), pid);
	stop_service(pid);
}

static void second_daemon_is_told(void **state)
{
	pid_t first = begin_service(), second;
	int status;

	assert_int_equal(daemon_wait(0, WAIT_MS), first);
	second = begin_service();
	waitpid(second, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(daemon_pid(), first);
	stop_service(first);
}

/*
 * From a urnicd that a program started, with all slots: also those of users that
 * have no slot store, when no process of its own user is left.
 */
static void service_takes_over(void **state)
{
	uid_t uid = geteuid() == 0 && access("/root", R_OK) == 0 ? ALICE : 0;
	struct peer own = peer_start(0, NULL);
	pid_t begun, pid;
	struct peer b;
	uint32_t s, t;

	assert_int_equal(peer_slot(&own, &s), 0);
	begun = daemon_pid();
	b = peer_start(uid, NULL);
	assert_int_equal(peer_slot(&b, &t), 0);
	peer_end(&own);
	assert_true(daemon_wait_used(1, WAIT_MS));
	pid = begin_service();
	assert_int_equal(daemon_wait(begun, WAIT_MS), pid);
	assert_true(daemon_wait_used(1, WAIT_MS));
	send_qpn("::1", qpn_of(t, 5));
	assert_int_equal(peer_recv(&b, t), qpn_of(t, 5));
	assert_int_equal(peer_slot(&b, &s), 0);
	send_qpn("127.0.0.1", qpn_of(s, 6));
	assert_int_equal(peer_recv(&b, s), qpn_of(s, 6));
	peer_end(&b);
	stop_service(pid);
}

#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(restart_keeps_the_slots_of_users),
		T(service_does_not_end_when_idle),
		T(second_daemon_is_told),
		T(service_takes_over),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
