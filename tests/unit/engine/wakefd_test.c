/* SPDX-License-Identifier: BSD-2-Clause */
/* Bells of a lane: heard once, and no peer keeps us waiting or breaks others'. */
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
	return l;
}

static void done(struct ur_lane *l)
{
	close(l->peer_wakefds);
	free(l);
}

/* Would a helper that waits for the lane's bells wake? */
static bool wakes(const struct ur_lane *l)
{
	struct pollfd p = { .fd = l->peer_wakefds, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void test_ring(void **state)
{
	struct ur_lane *l = lane();
	int theirs, ours = ur_wakefd_make(l, &theirs);

	assert_true(ours >= 0);
	assert_true(ur_wakefd_is_one(theirs));
	assert_false(wakes(l));
	for (int i = 0; i < 3; i++) {
		ur_wakefd_ring(theirs);
		ur_wakefd_ring(theirs);
		assert_true(wakes(l));
		ur_wakefd_hush(l);
		assert_false(wakes(l));
	}
	ur_wakefd_drop(l, ours);
	close(theirs);
	done(l);
}

/* One peer drains and closes its own; the other one's works. */
static void test_hostile(void **state)
{
	struct ur_lane *l = lane();
	int bad, good,
		ours[2] = { ur_wakefd_make(l, &bad), ur_wakefd_make(l, &good) };
	uint8_t byte;

	ur_wakefd_ring(good);
	assert_int_equal(recv(bad, &byte, 1, MSG_DONTWAIT), -1);
	assert_true(wakes(l));
	ur_wakefd_hush(l);
	close(bad);
	ur_wakefd_hush(l);
	assert_false(wakes(l));
	ur_wakefd_ring(good);
	assert_true(wakes(l));
	ur_wakefd_hush(l);
	ur_wakefd_drop(l, ours[0]);
	ur_wakefd_ring(good);
	assert_true(wakes(l));
	ur_wakefd_drop(l, ours[1]);
	assert_false(wakes(l));
	close(good);
	done(l);
}

/* Full: ringing returns, and it is heard, and again afterwards. */
static void test_full(void **state)
{
	struct ur_lane *l = lane();
	int theirs, ours = ur_wakefd_make(l, &theirs);
	uint8_t bytes[65536] = { 0 };

	/* The peer may have its end wait. */
	fcntl(theirs, F_SETFL, 0);
	while (send(theirs, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	ur_wakefd_ring(theirs);
	ur_wakefd_hush(l);
	assert_false(wakes(l));
	ur_wakefd_ring(theirs);
	assert_true(wakes(l));
	ur_wakefd_drop(l, ours);
	/* Nobody hears it: no signal ends us. */
	ur_wakefd_ring(theirs);
	close(theirs);
	done(l);
}

/* More of them rung at a time than are heard in one go. */
static void test_many(void **state)
{
	struct ur_lane *l = lane();
	int theirs[40], ours[40];

	for (int i = 0; i < 40; i++) {
		ours[i] = ur_wakefd_make(l, &theirs[i]);
		ur_wakefd_ring(theirs[i]);
	}
	ur_wakefd_hush(l);
	assert_false(wakes(l));
	for (int i = 0; i < 40; i++) {
		ur_wakefd_drop(l, ours[i]);
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
		assert_false(ur_wakefd_is_one(fds[i]));
		close(fds[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),   cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_full),   cmocka_unit_test(test_many),
		cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
