/* SPDX-License-Identifier: BSD-2-Clause */
/* Several users of one machine.  Needs real root rights. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"
#include "sockets/udp.h"
#include "world.h"

#define ALICE 61001
#define BOB   61002

static void second_user_is_told(void **state)
{
	struct peer a = peer_start(ALICE, NULL), b;
	uint32_t s;
	int err;

	assert_int_equal(peer_slot(&a, &s), 0);
	b = peer_start(BOB, &err);
	assert_int_equal(err, -EPERM);
	assert_true(file_has(world_log, "uid 61001"));
	assert_true(file_has(world_log, "systemctl start urnicd"));
	assert_true(file_has(world_log, "URNIC_USERS"));
	peer_kill(&b);
	/* Neither does root trust a user's daemon. */
	b = peer_start(0, &err);
	assert_int_equal(err, -EPERM);
	peer_kill(&b);
	peer_end(&a);
}

static void root_serves_everybody(void **state)
{
	struct peer root = peer_start(0, NULL);
	struct peer a = peer_start(ALICE, NULL), b = peer_start(BOB, NULL);
	uint32_t s, t, u;

	assert_int_equal(peer_slot(&root, &s), 0);
	assert_int_equal(peer_slot(&a, &t), 0);
	assert_int_equal(peer_slot(&b, &u), 0);
	send_qpn("127.0.0.1", qpn_of(t, 1));
	assert_int_equal(peer_recv(&a, t), qpn_of(t, 1));
	send_qpn("::1", qpn_of(u, 2));
	assert_int_equal(peer_recv(&b, u), qpn_of(u, 2));
	/* With root's client alive the others' slots survive a restart, and
	 * whichever process notices first, root's daemon comes again. */
	for (int i = 0; i < 8; i++) {
		peer_signal(&root, SIGSTOP);
		daemon_kill();
		sleep_ms(50);
		peer_signal(&root, SIGCONT);
		assert_true(daemon_wait_used(3, WAIT_MS));
		send_qpn("::1", qpn_of(u, 3));
		assert_int_equal(peer_recv(&b, u), qpn_of(u, 3));
	}
	peer_end(&a);
	peer_end(&b);
	peer_end(&root);
}

/* A user's slots that cannot be restored keep others out, with a reason. */
static void orphans_of_a_user_block_the_port(void **state)
{
	struct peer root = peer_start(0, NULL), a = peer_start(ALICE, NULL);
	struct peer b;
	uint32_t s, t;

	assert_int_equal(peer_slot(&a, &s), 0);
	peer_signal(&a, SIGSTOP);
	peer_signal(&root, SIGSTOP);
	daemon_kill();
	peer_kill(&root);
	b = peer_start(0, NULL);
	assert_int_equal(peer_slot(&b, &t), -EADDRINUSE);
	peer_kill(&a);
	assert_int_equal(peer_slot(&b, &t), 0);
	peer_end(&b);
}

static void check_both(struct peer *a, uint32_t s, struct peer *b, uint32_t t)
{
	send_qpn("127.0.0.1", qpn_of(s, 1));
	send_qpn("127.0.0.1", qpn_of(t, 2));
	assert_int_equal(peer_recv(a, s), qpn_of(s, 1));
	assert_int_equal(peer_recv(b, t), qpn_of(t, 2));
	assert_int_equal(peer_peek(a, s), -1);
	assert_int_equal(peer_peek(b, t), -1);
}

/* Without root, where they say that they trust each other.  No slot of one
 * gets to the other, as this urnicd cannot cut off what has been handed out. */
static void users_who_trust_each_other(void **state)
{
	struct peer a, b, c;
	uint32_t s, t, u;

	setenv("URNIC_USERS", "61001,61002", 1);
	a = peer_start(ALICE, NULL);
	assert_int_equal(peer_slot(&a, &s), 0);
	b = peer_start(BOB, NULL);
	assert_int_equal(peer_slot(&b, &t), 0);
	check_both(&a, s, &b, t);
	setenv("URNIC_USERS", "all", 1);
	c = peer_start(BOB, NULL);
	unsetenv("URNIC_USERS");
	assert_int_equal(peer_slot(&c, &u), 0);
	check_both(&b, t, &c, u);
	peer_end(&c);
	peer_leave(&b);
	assert_true(daemon_wait_used(1, WAIT_MS));
	sleep_ms(3200);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(peer_slot(&a, &s), 0);
		assert_int_not_equal(s, t);
		assert_int_not_equal(s, u);
	}
	peer_grab(&b, t, "127.0.0.1");
	send_qpn("127.0.0.1", qpn_of(s, 1));
	assert_int_equal(peer_peek(&b, t), -1);
	peer_end(&b);
	peer_end(&a);
}

/* Root's urnicd has the overflow uid there, and proves that it is trusted. */
static void user_namespace_of_its_own(void **state)
{
	struct peer root, a, b;
	uint32_t s, t;

#ifdef __SANITIZE_THREAD__
	SKIP_BECAUSE("a process with ThreadSanitizer has two threads and gets "
		     "no user namespace");
#endif
	root = peer_start(0, NULL);
	b = peer_start_apart(BOB, NULL);
	a = peer_start(ALICE, NULL);
	assert_int_equal(peer_slot(&a, &s), 0);
	assert_int_equal(peer_slot(&b, &t), 0);
	check_both(&a, s, &b, t);
	/* And again, with what it has. */
	daemon_kill();
	assert_true(daemon_wait_used(2, WAIT_MS));
	check_both(&a, s, &b, t);
	peer_end(&a);
	peer_end(&b);
	peer_end(&root);
}

/* Another user's has the overflow uid too, and cannot prove it. */
static void user_namespace_trusts_no_user(void **state)
{
	struct peer a, b;
	uint32_t s;
	int err;

#ifdef __SANITIZE_THREAD__
	SKIP_BECAUSE("a process with ThreadSanitizer has two threads and gets "
		     "no user namespace");
#endif
	setenv("URNIC_USERS", "all", 1);
	a = peer_start(ALICE, NULL);
	unsetenv("URNIC_USERS");
	b = peer_start_apart(BOB, &err);
	assert_int_equal(err, -EPERM);
	assert_true(file_has(world_log, "URNIC_USERS=65534"));
	peer_kill(&b);
	setenv("URNIC_USERS", "65534", 1);
	b = peer_start_apart(BOB, &err);
	unsetenv("URNIC_USERS");
	assert_int_equal(err, 0);
	assert_int_equal(peer_slot(&b, &s), 0);
	peer_end(&b);
	peer_end(&a);
}

#define ALL_OF_BATCH 15

/* Root, so that urnicd is root's, and bob, which has a whole batch of slots and
 * keeps their sockets when it ends; then alice gets the slots. */
static void pass_on(struct peer *root, struct peer *bob, struct peer *alice)
{
	uint32_t s;

	*root = peer_start(0, NULL);
	*bob = peer_start(BOB, NULL);
	for (uint32_t i = 1; i <= ALL_OF_BATCH; i++) {
		assert_int_equal(peer_slot(bob, &s), 0);
		assert_int_equal(s, i);
	}
	peer_leave(bob);
	assert_true(daemon_wait_used(0, WAIT_MS));
	sleep_ms(3200); /* the slots rest */
	*alice = peer_start(ALICE, NULL);
	for (uint32_t i = 1; i <= ALL_OF_BATCH; i++) {
		assert_int_equal(peer_slot(alice, &s), 0);
		assert_int_equal(s, i);
	}
}

static void check_private(struct peer *bob, struct peer *alice, bool reaches)
{
	static const char *const to[] = { "127.0.0.1", "::1" };

	for (uint32_t i = 0; i < 2 * ALL_OF_BATCH; i++) {
		uint32_t s = 1 + i / 2;

		send_qpn(to[i % 2], qpn_of(s, 7 + i));
		assert_int_equal(peer_peek(bob, s), -1);
		if (reaches)
			assert_int_equal(peer_recv(alice, s), qpn_of(s, 7 + i));
		assert_int_equal(peer_peek(bob, s), -1);
	}
}

static void slot_of_another_user_is_private(void **state)
{
	struct peer root, bob, alice;

	pass_on(&root, &bob, &alice);
	check_private(&bob, &alice, true);
	peer_end(&alice);
	peer_end(&bob);
	peer_end(&root);
}

/* What bob can still do with its old sockets. */
static void old_socket_hears_nothing(void **state)
{
	struct peer root, bob, alice;

	pass_on(&root, &bob, &alice);
	for (uint32_t i = 1; i <= ALL_OF_BATCH; i++)
		peer_grab(&bob, i, i % 2 ? "127.0.0.1" : "::1");
	check_private(&bob, &alice, false);
	peer_end(&alice);
	peer_end(&bob);
	peer_end(&root);
}

/* Nor can it read packets of other slots on a socket that it has. */
static void own_socket_hears_its_slot_only(void **state)
{
	struct peer root = peer_start(0, NULL), bob = peer_start(BOB, NULL);
	struct peer alice = peer_start(ALICE, NULL);
	uint32_t s, t, u;

	assert_int_equal(peer_slot(&root, &s), 0);
	assert_int_equal(peer_slot(&alice, &t), 0);
	assert_int_equal(peer_slot(&bob, &u), 0);
	peer_grab(&bob, u, "127.0.0.1");
	send_qpn("127.0.0.1", qpn_of(s, 1));
	send_qpn("127.0.0.1", qpn_of(t, 1));
	assert_int_equal(peer_recv(&bob, u), -1);
	peer_end(&alice);
	peer_end(&bob);
	peer_end(&root);
}

/* Bob took its socket out of the group: the last one is in its place.  Once these
 * slots have no owner they are as before. */
static void group_is_set_right(void **state)
{
	struct peer root = peer_start(0, NULL), bob = peer_start(BOB, NULL);
	uint32_t s, t;

	assert_int_equal(peer_slot(&bob, &s), 0);
	peer_grab(&bob, s, "127.0.0.1");
	peer_end(&bob);
	assert_true(daemon_wait_used(0, WAIT_MS));
	sleep_ms(3200);
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(peer_slot(&root, &t), 0);
		send_qpn("127.0.0.1", qpn_of(t, i));
		assert_int_equal(peer_recv(&root, t), qpn_of(t, i));
		send_qpn("::1", qpn_of(t, i));
		assert_int_equal(peer_recv(&root, t), qpn_of(t, i));
	}
	peer_end(&root);
}

static int link_as(uid_t uid, int fd, uint64_t rx_bytes)
{
	struct ur_link *link;

	if (setresuid(uid, uid, uid) || ur_udp_link_create(fd, &link))
		return 1;
	return link->rx_bytes == rx_bytes ? 0 : 2;
}

/* A user may not make a buffer as large as root's; nor make it smaller. */
static void buffer_of_root_stays(void **state)
{
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), bytes = 8 << 20, status;
	pid_t pid;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes,
				    sizeof(bytes)),
			 0);
	pid = fork();
	if (pid == 0)
		_exit(link_as(ALICE, fd, (uint64_t)bytes));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
}

#define T(name)                                                                \
	cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(second_user_is_told),
		T(root_serves_everybody),
		T(orphans_of_a_user_block_the_port),
		T(users_who_trust_each_other),
		T(user_namespace_of_its_own),
		T(user_namespace_trusts_no_user),
		T(slot_of_another_user_is_private),
		T(old_socket_hears_nothing),
		T(own_socket_hears_its_slot_only),
		T(group_is_set_right),
		T(buffer_of_root_stays),
	};

	if (geteuid() != 0 || !world_can_be(ALICE) || !world_can_be(BOB))
		return skip_all("needs root and a daemon that other users may "
				"execute");
	world_require();
	return cmocka_run_group_tests(tests, world_log_open, world_log_close);
}
