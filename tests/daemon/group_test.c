/* SPDX-License-Identifier: BSD-2-Clause */
/* The group of sockets, its order and its store, over replacements. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../skip.h"
#include "client/ipc_io.h"
#include "urnicd/group.h"
#include "world.h"

#define MANY   300
#define SECOND 1000000000ull

static struct ur_group g;

static int setup(void **state)
{
	if (world_setup(state))
		return -1;
	ur_group_init(&g, ROCE_PORT);
	return ur_group_create(&g, 0);
}

static int teardown(void **state)
{
	for (unsigned int i = g.slots.count; i-- > 0;)
		close(g.slots.slot[i].fd);
	ur_slot_store_close(&g.store);
	return 0;
}

static unsigned int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int64_t read_qpn(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t b[256];

	if (poll(&p, 1, 1000) != 1 || recv(fd, b, sizeof(b), MSG_DONTWAIT) < 12)
		return -1;
	return b[5] << 16 | b[6] << 8 | b[7];
}

static void check_order(void)
{
	for (unsigned int i = 1; i < g.slots.count; i++) {
		send_qpn("127.0.0.1", qpn_of(i, i));
		assert_int_equal(read_qpn(g.slots.slot[i].fd), qpn_of(i, i));
	}
}

static void check_store(void)
{
	int fds[UR_SLOTS], n = ur_slot_store_read(&g.store, fds);

	assert_int_equal(n, g.slots.count);
	for (int i = 0; i < n; i++)
		assert_true(ur_group_cookie(fds[i], ROCE_PORT) ==
			    g.slots.slot[i].cookie);
	ur_ipc_close_fds(fds, (unsigned int)n);
}

static void replaced_in_its_place(void **state)
{
	uint8_t byte;

	for (unsigned int i = 1; i < 16; i += 2) {
		int old = fcntl(g.slots.slot[i].fd, F_DUPFD_CLOEXEC, 3);

		assert_int_equal(ur_group_replace(&g, i), 0);
		check_order();
		assert_int_equal(recv(old, &byte, 1, MSG_DONTWAIT), -1);
		close(old);
	}
	check_store();
}

/* The store is renewed when needed, and the old one is refused. */
static void store_does_not_grow(void **state)
{
	struct ur_slot_store first = { fcntl(g.store.rd, F_DUPFD_CLOEXEC, 3),
				       fcntl(g.store.wr, F_DUPFD_CLOEXEC, 3) };
	unsigned int before = descriptors();
	static struct ur_group other;

	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(ur_group_replace(&g, 1 + i % 15), 0);
	assert_true(g.stores > 1);
	assert_true(g.replaced < MANY / 2);
	assert_in_range(descriptors(), before, before + 2);
	check_store();
	check_order();
	ur_group_init(&other, ROCE_PORT);
	assert_int_equal(ur_group_restore(&other, &first, 0), -ESTALE);
	assert_int_equal(ur_group_restore(&other, &g.store, 0), 0);
	for (unsigned int i = other.slots.count; i-- > 0;)
		close(other.slots.slot[i].fd);
	ur_slot_store_close(&first);
}

static void sockets_not_needed_are_closed(void **state)
{
	unsigned int before = descriptors(), slot;
	uint64_t late = UR_SLOT_SHRINK_NS + SECOND;
	static const int me;

	for (int i = 0; i < 5; i++)
		assert_int_equal(ur_group_grow(&g, 0), 0);
	assert_int_equal(g.slots.count, 96);
	assert_int_equal(ur_group_shrink(&g, 16, SECOND), 0);
	/* One that is used keeps those before it. */
	for (int i = 0; i < 40; i++)
		assert_int_equal(ur_slots_take(&g.slots, &me, 0, 0, &slot), 0);
	assert_int_equal(ur_group_shrink(&g, 16, late), 55);
	assert_int_equal(g.slots.count, 41);
	check_order();
	check_store();
	for (unsigned int i = 1; i <= 40; i++)
		assert_int_equal(ur_slots_put(&g.slots, &me, i, 0, late), 0);
	assert_int_equal(ur_group_shrink(&g, 16, late + SECOND), 0);
	assert_int_equal(ur_group_shrink(&g, 16, 3 * late), 25);
	assert_int_equal(descriptors(), before);
	/* And opened again. */
	assert_int_equal(ur_group_grow(&g, 3 * late), 0);
	check_order();
	check_store();
}

/* An owner has taken its socket out of the group. */
static void order_is_set_right(void **state)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	static const int me, other;
	unsigned int slot;

	for (int i = 0; i < 3; i++)
		assert_int_equal(ur_slots_take(&g.slots, &me, 0, 0, &slot), 0);
	assert_int_equal(connect(g.slots.slot[2].fd, &none, sizeof(none)), 0);
	if (!ur_group_has_left(&g, 2))
		SKIP_BECAUSE("the kernel does not tell this user that a "
			     "socket has left its group");
	assert_int_equal(ur_group_replace(&g, 2), -EAGAIN);
	assert_int_equal(ur_group_replace(&g, 2), 0);
	check_order();
	check_store();
	/* The last slot has an owner: once that has gone. */
	while (g.slots.used < 15)
		assert_int_equal(ur_slots_take(&g.slots, &other, 0, 0, &slot),
				 0);
	assert_int_equal(connect(g.slots.slot[2].fd, &none, sizeof(none)), 0);
	assert_int_equal(ur_group_replace(&g, 2), -EIO);
	assert_int_equal(ur_slots_put(&g.slots, &me, 2, 1, 0), 0);
	assert_int_equal(ur_slots_put(&g.slots, &other, 15, 0, 0), 0);
	ur_group_settle(&g, 15, 0);
	assert_int_equal(g.slots.slot[2].state, UR_SLOT_FREE);
	check_order();
	check_store();
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(replaced_in_its_place),
		T(store_does_not_grow),
		T(sockets_not_needed_are_closed),
		T(order_is_set_right),
	};
	struct rlimit l;

	world_require();
	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
