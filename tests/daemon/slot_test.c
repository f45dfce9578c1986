/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots: starting on demand, steering, giving back, limits, no daemon. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"
#include "client/ipc_io.h"
#include "sockets/udp.h"
#include "world.h"

#define PACKETS 100

static void starts_on_demand_unnoticed(void **state)
{
	struct peer p;
	uint32_t slot;

	assert_int_equal(daemon_pid(), 0);
	p = peer_start(0, NULL);
	assert_int_not_equal(daemon_pid(), 0);
	assert_int_equal(peer_slot(&p, &slot), 0);
	assert_in_range(slot, 1, 1023);
	/* No SIGCHLD and nothing to wait for in the application. */
	assert_int_equal(peer_children(&p), 0);
	peer_end(&p);
}

static void daemon_has_no_descriptor_of_the_application(void **state)
{
	char path[64], target[64] = "";
	struct peer p;
	int fd = dup2(1, 77);

	p = peer_start(0, NULL);
	snprintf(path, sizeof(path), "/proc/%d/fd/77", (int)daemon_pid());
	assert_int_equal(readlink(path, target, sizeof(target) - 1), -1);
	snprintf(path, sizeof(path), "/proc/%d/fd/1", (int)daemon_pid());
	assert_true(readlink(path, target, sizeof(target) - 1) > 0);
	if (!getenv("URNIC_DAEMON_LOG"))
		assert_string_equal(target, "/dev/null");
	close(fd);
	peer_end(&p);
}

static void check_steering(struct peer *p, const uint32_t *slot, int n,
			   const char *to)
{
	for (uint32_t k = 0; k < PACKETS; k++) {
		int i = (int)(k * 2654435761u >> 16) % n;
		uint32_t qpn = qpn_of(slot[i], k * 2654435761u >> 7);

		send_qpn(to, qpn);
		assert_int_equal(peer_recv(&p[i], slot[i]), qpn);
	}
}

static void steers_by_slot(void **state)
{
	struct peer p[4];
	uint32_t slot[4];

	for (int i = 0; i < 4; i++) {
		p[i] = peer_start(0, NULL);
		assert_int_equal(peer_slot(&p[i], &slot[i]), 0);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(slot[i], slot[j]);
	}
	check_steering(p, slot, 4, "127.0.0.1");
	check_steering(p, slot, 4, "::1");
	for (int i = 0; i < 4; i++)
		peer_end(&p[i]);
}

static void killed_client_is_reclaimed(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL);
	uint32_t s, t, u;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&b, &t), 0);
	peer_kill(&a);
	assert_true(daemon_wait_used(1, WAIT_MS));
	/* Quarantined: the next one gets another slot. */
	a = peer_start(0, NULL);
	assert_int_equal(peer_slot(&a, &u), 0);
	assert_int_not_equal(u, s);
	assert_int_not_equal(u, t);
	send_qpn("::1", qpn_of(t, 5));
	assert_int_equal(peer_recv(&b, t), qpn_of(t, 5));
	peer_end(&a);
	peer_end(&b);
}

/* Every slot that is free rests: there are more. */
static void killed_with_a_whole_batch(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL);
	uint32_t s;

	for (int i = 0; i < 15; i++)
		assert_int_equal(peer_slot(&a, &s), 0);
	peer_kill(&a);
	assert_true(daemon_wait_used(0, WAIT_MS));
	assert_int_equal(peer_slot(&b, &s), 0);
	assert_in_range(s, 16, 31);
	peer_end(&b);
}

static void fork_child_keeps_no_slot(void **state)
{
	struct peer a = peer_start(0, NULL);
	pid_t child;
	uint32_t s;

	assert_int_equal(peer_slot(&a, &s), 0);
	child = peer_fork(&a);
	peer_kill(&a);
	assert_true(daemon_wait_used(0, WAIT_MS));
	kill(child, SIGKILL);
}

static void put_slot_is_free(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&a, &t), 0);
	assert_int_equal(daemon_used(), 2);
	peer_put(&a, s);
	assert_true(daemon_wait_used(1, WAIT_MS));
	peer_end(&a);
}

static void reclaimed_slot_leaves_its_groups(void **state)
{
	struct peer a = peer_start(0, NULL), b = peer_start(0, NULL);
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&b, &t), 0);
	peer_join(&a, s);
	assert_true(file_has("/proc/self/net/igmp", "030201EF"));
	assert_true(file_has("/proc/self/net/igmp6",
			     "ff150000000000000000000000000123"));
	/* Only the slot that joined gets a copy. */
	send_qpn("239.1.2.3", 0xffffff);
	assert_int_equal(peer_recv(&a, s), 0xffffff);
	assert_int_equal(peer_recv(&b, t), -1);
	peer_kill(&a);
	assert_true(daemon_wait_used(1, WAIT_MS));
	assert_false(file_has("/proc/self/net/igmp", "030201EF"));
	assert_false(file_has("/proc/self/net/igmp6",
			      "ff150000000000000000000000000123"));
	peer_end(&b);
}

static void steering_cannot_be_replaced(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t s;

	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_steal(&a, s), EPERM);
	peer_end(&a);
}

static void damaged_slot_is_given_up(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	peer_damage(&a, s);
	peer_put(&a, s);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(peer_slot(&a, &t), 0);
		assert_int_not_equal(t, s);
	}
	peer_end(&a);
}

static void idle_daemon_ends(void **state)
{
	struct peer a = peer_start(0, NULL);
	uint32_t s;
	int fd;

	assert_int_equal(peer_slot(&a, &s), 0);
	sleep_ms(1500);
	assert_int_not_equal(daemon_pid(), 0);
	peer_end(&a);
	assert_true(daemon_wait_gone(4000));
	/* And nothing of the group is left. */
	fd = ur_udp_sole_socket(ROCE_PORT);
	assert_true(fd >= 0);
	close(fd);
}

static void clients_come_as_it_ends(void **state)
{
	world_idle("0");
	for (int i = 0; i < 60; i++) {
		struct peer a = peer_start(0, NULL);
		uint32_t s;

		assert_int_equal(peer_slot(&a, &s), 0);
		peer_end(&a);
	}
}

/* The limit, and one more. */
static void every_slot_and_one_more(void **state)
{
	struct peer a = peer_start(0, NULL);
	static bool seen[1024];
	struct rlimit l;
	uint32_t s;

	getrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max < 3000) {
		peer_end(&a);
		SKIP_BECAUSE("needs 3,000 descriptors");
	}
	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < 1023; i++) {
		assert_int_equal(peer_slot(&a, &s), 0);
		assert_in_range(s, 1, 1023);
		assert_false(seen[s]);
		seen[s] = true;
	}
	assert_int_equal(peer_slot(&a, &s), -ENOSPC);
	send_qpn("127.0.0.1", qpn_of(1023, 7));
	assert_int_equal(peer_recv(&a, 1023), qpn_of(1023, 7));
	peer_put(&a, 500);
	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(s, 500);
	peer_end(&a);
}

/* "Another program" is one that works without urnicd. */
static void port_of_another_program(void **state)
{
	struct peer a, other;
	uint32_t s;

	setenv("URNIC_DAEMON", "0", 1);
	other = peer_start(0, NULL);
	assert_int_equal(peer_slot(&other, &s), 0);
	unsetenv("URNIC_DAEMON");
	a = peer_start(0, NULL);
	assert_int_equal(peer_slot(&a, &s), -EADDRINUSE);
	peer_end(&other);
	assert_int_equal(peer_slot(&a, &s), 0);
	peer_end(&a);
}

static void alone_has_the_whole_port(void **state)
{
	struct peer a, b;
	uint32_t s;

	setenv("URNIC_DAEMON", "0", 1);
	a = peer_start(0, NULL);
	b = peer_start(0, NULL);
	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(s, 1);
	assert_int_equal(peer_slot(&a, &s), -ENOSPC);
	assert_int_equal(peer_slot(&b, &s), -EADDRINUSE);
	for (uint32_t slot = 0; slot < 1024; slot += 93) {
		send_qpn("127.0.0.1", qpn_of(slot, 9));
		assert_int_equal(peer_recv(&a, 1), qpn_of(slot, 9));
	}
	assert_int_equal(daemon_pid(), 0);
	peer_end(&a);
	peer_end(&b);
}

static void alone_if_no_daemon_can_be_started(void **state)
{
	char *saved = strdup(getenv("URNICD"));
	struct peer a;
	uint32_t s;

	setenv("URNICD", "/nonexistent/urnicd", 1);
	a = peer_start(0, NULL);
	setenv("URNICD", saved, 1);
	free(saved);
	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(s, 1);
	peer_end(&a);
}

/* The n-th number, from 0, that the process has no descriptor of. */
static rlim_t free_number(pid_t pid, unsigned int n)
{
	char path[64];
	rlim_t fd = 0;

	for (;; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%lu", (int)pid,
			 (unsigned long)fd);
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) &&
		    n-- == 0)
			return fd;
	}
}

/* The process may open n more files.  Returns the old limit. */
static struct rlimit limit_files(pid_t pid, unsigned int n)
{
	struct rlimit old, low;

	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &old), 0);
	low = old;
	do { /* it may still close what it had to start */
		low.rlim_cur = free_number(pid, n);
		sleep_ms(20);
	} while (free_number(pid, n) != low.rlim_cur);
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &low, NULL), 0);
	return old;
}

static struct ur_ipc_msg next_message(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS];
	struct ur_ipc_msg m = { 0 };
	unsigned int n;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(ur_ipc_recv(fd, &m, fds, &n), 0);
	ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	return m;
}

static void expect_refused(int fd)
{
	struct ur_ipc_msg m = next_message(fd);

	assert_int_equal(m.type, UR_IPC_ERROR);
	assert_int_equal(m.seq, 0);
	assert_int_equal(m.error, EMFILE);
	assert_non_null(strstr(m.text, "limit of open files"));
}

static void daemon_is_out_of_files(void **state)
{
	struct ur_ipc_msg hello = { .type = UR_IPC_HELLO,
				    .version = UR_IPC_VERSION,
				    .role = UR_IPC_ROLE_CLIENT };
	struct ur_ipc_msg file = { .type = UR_IPC_EXIT_FILE };
	struct peer p = peer_start(0, NULL), other;
	struct rlimit old;
	uint32_t slot;
	int fd, err = 0;

	/* A message with a descriptor, and others behind it. */
	fd = ur_ipc_connect();
	assert_int_equal(ur_ipc_send(fd, &hello, NULL, 0), 0);
	assert_int_equal(next_message(fd).type, UR_IPC_WELCOME);
	old = limit_files(daemon_pid(), 0);
	kill(daemon_pid(), SIGSTOP);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ur_ipc_send(fd, &file, &fd, 1), 0);
	kill(daemon_pid(), SIGCONT);
	expect_refused(fd);
	close(fd);
	/* No connection at all, once it has closed that one's descriptors. */
	for (int i = 0; !err && i < 100; i++) {
		limit_files(daemon_pid(), 0);
		other = peer_start(0, &err);
		peer_end(&other);
	}
	assert_int_equal(err, -EMFILE);
	assert_int_equal(prlimit(daemon_pid(), RLIMIT_NOFILE, &old, NULL), 0);
	assert_int_equal(peer_slot(&p, &slot), 0);
	peer_end(&p);
}

static void client_is_out_of_files(void **state)
{
	struct peer p = peer_start(0, NULL);
	struct rlimit old = limit_files(p.pid, 0);
	uint32_t slot;

	assert_int_equal(peer_slot(&p, &slot), -EMFILE);
	assert_int_equal(prlimit(p.pid, RLIMIT_NOFILE, &old, NULL), 0);
	assert_int_equal(peer_slot(&p, &slot), 0);
	peer_end(&p);
}

#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(starts_on_demand_unnoticed),
		T(daemon_has_no_descriptor_of_the_application),
		T(steers_by_slot),
		T(killed_client_is_reclaimed),
		T(killed_with_a_whole_batch),
		T(fork_child_keeps_no_slot),
		T(put_slot_is_free),
		T(reclaimed_slot_leaves_its_groups),
		T(steering_cannot_be_replaced),
		T(damaged_slot_is_given_up),
		T(idle_daemon_ends),
		T(clients_come_as_it_ends),
		T(every_slot_and_one_more),
		T(daemon_is_out_of_files),
		T(client_is_out_of_files),
		T(port_of_another_program),
		T(alone_has_the_whole_port),
		T(alone_if_no_daemon_can_be_started),
	};

	world_require();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
