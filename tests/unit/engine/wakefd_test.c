/* SPDX-License-Identifier: BSD-2-Clause */
/* Wakeup descriptors: one call drains them, and no peer disturbs another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/internal.h"
#include "engine/wakefd.h"

static struct ur_lane *lane(void)
{
	struct ur_lane *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->peer_wakefds = -1;
	l->sole_wakefd = -1;
	return l;
}

static void done(struct ur_lane *l)
{
	close(l->peer_wakefds);
	free(l);
}

/* Would a thread that polls the lane's descriptors wake? */
static bool wakes(const struct ur_lane *l)
{
	struct pollfd p = { .fd = ur_wakefd_polled(l), .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void test_signal(void **state)
{
	struct ur_lane *l = lane();
	int theirs, ours = ur_wakefd_create(l, &theirs);

	assert_true(ours >= 0);
	assert_true(ur_wakefd_is_valid(theirs));
	assert_false(wakes(l));
	for (int i = 0; i < 3; i++) {
		ur_wakefd_signal(theirs);
		ur_wakefd_signal(theirs);
		assert_true(wakes(l));
		ur_wakefd_drain(l);
		assert_false(wakes(l));
	}
	ur_wakefd_destroy(l, ours);
	close(theirs);
	done(l);
}

/* One peer reads from and closes its descriptor; the other's still works. */
static void test_hostile(void **state)
{
	struct ur_lane *l = lane();
	int bad, good,
		ours[2] = { ur_wakefd_create(l, &bad),
			    ur_wakefd_create(l, &good) };
	uint8_t byte;

	ur_wakefd_signal(good);
	assert_int_equal(recv(bad, &byte, 1, MSG_DONTWAIT), -1);
	assert_true(wakes(l));
	ur_wakefd_drain(l);
	close(bad);
	ur_wakefd_drain(l);
	assert_false(wakes(l));
	ur_wakefd_signal(good);
	assert_true(wakes(l));
	ur_wakefd_drain(l);
	ur_wakefd_destroy(l, ours[0]);
	ur_wakefd_signal(good);
	assert_true(wakes(l));
	ur_wakefd_destroy(l, ours[1]);
	assert_false(wakes(l));
	close(good);
	done(l);
}

/* A full socket: signalling returns, and works again once it is drained. */
static void test_full(void **state)
{
	struct ur_lane *l = lane();
	int theirs, ours = ur_wakefd_create(l, &theirs);
	uint8_t bytes[65536] = { 0 };

	/* The peer may make its end blocking. */
	fcntl(theirs, F_SETFL, 0);
	while (send(theirs, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	ur_wakefd_signal(theirs);
	ur_wakefd_drain(l);
	assert_false(wakes(l));
	ur_wakefd_signal(theirs);
	assert_true(wakes(l));
	ur_wakefd_destroy(l, ours);
	/* The other end is closed: no SIGPIPE. */
	ur_wakefd_signal(theirs);
	close(theirs);
	done(l);
}

/* A peer that has died does not keep the thread awake. */
static void test_closed(void **state)
{
	struct ur_lane *l = lane();
	int theirs, ours = ur_wakefd_create(l, &theirs);

	close(theirs);
	assert_true(wakes(l));
	ur_wakefd_drain(l);
	assert_false(wakes(l));
	ur_wakefd_destroy(l, ours);
	done(l);
}

/* More signals than one epoll_wait() returns. */
static void test_many(void **state)
{
	struct ur_lane *l = lane();
	int theirs[40], ours[40];

	for (int i = 0; i < 40; i++) {
		ours[i] = ur_wakefd_create(l, &theirs[i]);
		ur_wakefd_signal(theirs[i]);
	}
	ur_wakefd_drain(l);
	assert_false(wakes(l));
	for (int i = 0; i < 40; i++) {
		ur_wakefd_destroy(l, ours[i]);
		close(theirs[i]);
	}
	done(l);
}

static void test_others(void **state)
{
	int fds[] = { eventfd(0, 0), open("/dev/null", O_RDWR),
		      socket(AF_UNIX, SOCK_DGRAM, 0),
		      socket(AF_INET, SOCK_STREAM, 0) };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		assert_true(fds[i] >= 0);
		assert_false(ur_wakefd_is_valid(fds[i]));
		close(fds[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signal), cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_full),   cmocka_unit_test(test_closed),
		cmocka_unit_test(test_many),   cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
