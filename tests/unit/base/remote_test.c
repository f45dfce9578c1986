/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses that stand for memory of another process (base/remote.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/guard.h"
#include "base/remote.h"

#define SIZE 20000u

struct store {
	struct ur_remote remote;
	uint8_t bytes[SIZE];
	unsigned int moves;
	int error;
};

static int move(const struct ur_remote *r, uint64_t off, void *buf, size_t len,
		bool write)
{
	struct store *s = (struct store *)(uintptr_t)r;

	s->moves++;
	if (s->error)
		return s->error;
	if (write)
		memcpy(s->bytes + off, buf, len);
	else
		memcpy(buf, s->bytes + off, len);
	return 0;
}

static struct store one, two;

static int set_up(void **state)
{
	memset(&one, 0, sizeof(one));
	memset(&two, 0, sizeof(two));
	one.remote.move = move;
	two.remote.move = move;
	assert_int_equal(ur_remote_add(&one.remote, SIZE, 0x12345678), 0);
	assert_int_equal(ur_remote_add(&two.remote, SIZE, 3), 0);
	for (uint32_t i = 0; i < SIZE; i++)
		one.bytes[i] = (uint8_t)(i * 7 + i / 256);
	return 0;
}

static int tear_down(void **state)
{
	ur_remote_remove(&one.remote);
	ur_remote_remove(&two.remote);
	assert_int_equal(ur_remote_count, 0);
	return 0;
}

/* The framework has put up handlers of its own. */
static void faults_are_ours(void)
{
	assert_int_equal(ur_guard_install(), 0);
}

static void they_have_the_same_offset_in_their_page(void **state)
{
	assert_int_equal((uintptr_t)one.remote.base % 4096, 0x678);
	assert_int_equal((uintptr_t)two.remote.base % 4096, 3);
}

static void a_guarded_copy_goes_either_way(void **state)
{
	uint8_t buf[100];

	assert_int_equal(ur_guard_copy(buf, one.remote.base + 50, 100), 0);
	assert_memory_equal(buf, one.bytes + 50, 100);
	assert_int_equal(ur_guard_copy(two.remote.base + SIZE - 100, buf, 100),
			 0);
	assert_memory_equal(two.bytes + SIZE - 100, buf, 100);
	assert_int_equal(one.moves, 1);
	assert_int_equal(ur_guard_copy(two.remote.base, one.remote.base, SIZE),
			 0);
	assert_memory_equal(two.bytes, one.bytes, SIZE);
}

static void sums_are_those_of_the_bytes(void **state)
{
	uint32_t a = 5, b = 5;

	assert_int_equal(ur_guard_crc32(&a, one.remote.base + 1, SIZE - 1), 0);
	assert_int_equal(a, ur_crc32(5, one.bytes + 1, SIZE - 1));
	assert_int_equal(ur_guard_crc32c(&b, one.remote.base + 1, SIZE - 1), 0);
	assert_int_equal(b, ur_crc32c(5, one.bytes + 1, SIZE - 1));
}

static void behind_the_end_nothing_is_moved(void **state)
{
	uint32_t crc = 1;
	uint8_t buf[8];

	faults_are_ours();
	assert_int_equal(ur_guard_copy(buf, one.remote.base + SIZE - 4, 8),
			 -EFAULT);
	assert_int_equal(ur_guard_copy(buf, one.remote.base + SIZE, 1),
			 -EFAULT);
	assert_int_equal(ur_guard_copy(one.remote.base + SIZE - 4, buf, 8),
			 -EFAULT);
	one.error = -EFAULT;
	assert_int_equal(ur_guard_copy(buf, one.remote.base, 8), -EFAULT);
	assert_int_equal(ur_guard_crc32(&crc, one.remote.base, 8), -EFAULT);
	assert_int_equal(crc, 1);
}

static void there_are_no_atomics(void **state)
{
	uint64_t old = 7;

	faults_are_ours();
	assert_int_equal(ur_guard_fetch_add64(two.remote.base + 5, 1, &old),
			 -EFAULT);
	assert_int_equal(old, 7);
}

static void a_list_of_pieces_is_searched(void **state)
{
	uint8_t here[8];
	const struct iovec local[] = { { here, 8 },
				       { one.remote.base - 1, 1 } };
	const struct iovec mixed[] = { { here, 8 },
				       { two.remote.base + 9, 1 } };

	assert_false(ur_remote_any(local, 2));
	assert_true(ur_remote_any(mixed, 2));
	assert_int_equal(ur_remote_copy(here, local, 4), -ENOENT);
}

static void removed_addresses_fault(void **state)
{
	struct store third = { .remote.move = move };
	uint8_t buf[8];

	faults_are_ours();
	assert_int_equal(ur_remote_add(&third.remote, 0, 0), 0);
	ur_remote_remove(&third.remote);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ur_remote_add(&third.remote, SIZE, 0), 0);
		assert_int_equal(ur_guard_copy(buf, third.remote.base, 8), 0);
		assert_int_equal(ur_guard_copy(buf, one.remote.base, 8), 0);
		ur_remote_remove(&third.remote);
	}
	assert_int_equal(ur_guard_copy(buf, third.remote.base, 8), -EFAULT);
	assert_int_equal(ur_remote_add(&third.remote, SIZE_MAX, 0), -ENOMEM);
}

static void a_child_has_none(void **state)
{
	uint8_t buf[8];
	int status;
	pid_t pid;

	faults_are_ours();
	pid = fork();
	if (pid == 0)
		_exit(ur_remote_count == 0 &&
				      ur_guard_copy(buf, one.remote.base, 8) ==
					      -EFAULT
			      ? 0
			      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/*
 * The table's lock is held between these two, as in any change of the table:
 * the library's handlers were added after ours, so its own run inside.
 */
static bool copy_in_fork;
static int copied = 1;

static void in_fork(void)
{
	uint8_t buf[8];

	if (copy_in_fork)
		copied = ur_guard_copy(buf, one.remote.base, 8);
}

__attribute__((constructor(101))) static void watch_forks(void)
{
	pthread_atfork(in_fork, NULL, NULL);
}

static void a_lookup_takes_no_lock(void **state)
{
	pid_t pid;

	copy_in_fork = true;
	pid = fork();
	copy_in_fork = false;
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(copied, 0);
	assert_int_equal(one.moves, 1);
}

#define CHANGES 20000

static _Atomic bool changing;

/* More regions than the first arrays hold, in ever other places. */
static void *change(void *arg)
{
	static struct store more[40];
	unsigned int n = sizeof(more) / sizeof(more[0]);

	for (unsigned int i = 0; i < CHANGES / n; i++) {
		for (unsigned int k = 0; k < n; k++) {
			more[k].remote.move = move;
			if (ur_remote_add(&more[k].remote, 1 + (i + k) % 9000,
					  k))
				*(int *)arg = 1;
		}
		for (unsigned int k = 0; k < n; k++)
			ur_remote_remove(&more[(k * 7 + i) % n].remote);
	}
	changing = false;
	return NULL;
}

static void regions_are_found_while_others_come_and_go(void **state)
{
	uint8_t here[8], buf[8];
	int failed = 0, bad = 0;
	pthread_t writer;

	changing = true;
	assert_int_equal(pthread_create(&writer, NULL, change, &failed), 0);
	while (changing) {
		bad += ur_remote_copy(buf, one.remote.base + 7, 8) != 0;
		bad += ur_remote_copy(two.remote.base, buf, 8) != 0;
		bad += ur_remote_copy(here, buf, 8) != -ENOENT;
	}
	pthread_join(writer, NULL);
	assert_int_equal(failed, 0);
	assert_int_equal(bad, 0);
	assert_int_equal(ur_remote_count, 2);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(they_have_the_same_offset_in_their_page),
		TEST(a_guarded_copy_goes_either_way),
		TEST(sums_are_those_of_the_bytes),
		TEST(behind_the_end_nothing_is_moved),
		TEST(there_are_no_atomics),
		TEST(a_list_of_pieces_is_searched),
		TEST(removed_addresses_fault),
		TEST(a_child_has_none),
		TEST(a_lookup_takes_no_lock),
		TEST(regions_are_found_while_others_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
