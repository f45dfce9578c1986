/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses behind which somebody else moves the bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/guard.h"
#include "base/remote.h"

#define SIZE 20000u

struct store {
	struct ur_remote far;
	uint8_t bytes[SIZE];
	unsigned int moves;
	int error;
};

static int move(const struct ur_remote *f, uint64_t off, void *buf, size_t len,
		bool write)
{
	struct store *s = (struct store *)(uintptr_t)f;

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
	one.far.move = move;
	two.far.move = move;
	assert_int_equal(ur_remote_add(&one.far, SIZE, 0x12345678), 0);
	assert_int_equal(ur_remote_add(&two.far, SIZE, 3), 0);
	for (uint32_t i = 0; i < SIZE; i++)
		one.bytes[i] = (uint8_t)(i * 7 + i / 256);
	return 0;
}

static int tear_down(void **state)
{
	ur_remote_remove(&one.far);
	ur_remote_remove(&two.far);
	assert_int_equal(ur_remote_count, 0);
	return 0;
}

/* The framework has put up handlers of its own. */
static void faults_are_ours(void)
{
	assert_int_equal(ur_guard_install(), 0);
}

static void they_lie_in_their_pages_as_the_others_do(void **state)
{
	assert_int_equal((uintptr_t)one.far.base % 4096, 0x678);
	assert_int_equal((uintptr_t)two.far.base % 4096, 3);
}

static void a_guarded_copy_goes_either_way(void **state)
{
	uint8_t buf[100];

	assert_int_equal(ur_guard_copy(buf, one.far.base + 50, 100), 0);
	assert_memory_equal(buf, one.bytes + 50, 100);
	assert_int_equal(ur_guard_copy(two.far.base + SIZE - 100, buf, 100), 0);
	assert_memory_equal(two.bytes + SIZE - 100, buf, 100);
	assert_int_equal(one.moves, 1);
	assert_int_equal(ur_guard_copy(two.far.base, one.far.base, SIZE), 0);
	assert_memory_equal(two.bytes, one.bytes, SIZE);
}

static void sums_are_those_of_the_bytes(void **state)
{
	uint32_t a = 5, b = 5, c = 5;
	uint8_t copy[SIZE];

	assert_int_equal(ur_guard_crc32(&a, one.far.base + 1, SIZE - 1), 0);
	assert_int_equal(a, ur_crc32(5, one.bytes + 1, SIZE - 1));
	assert_int_equal(ur_guard_crc32c(&b, one.far.base + 1, SIZE - 1), 0);
	assert_int_equal(b, ur_crc32c(5, one.bytes + 1, SIZE - 1));
	assert_int_equal(ur_guard_copy_crc32(copy, one.far.base, SIZE, &c), 0);
	assert_int_equal(c, ur_crc32(5, one.bytes, SIZE));
	assert_memory_equal(copy, one.bytes, SIZE);
}

static void behind_the_end_nothing_is_moved(void **state)
{
	uint32_t crc = 1;
	uint8_t buf[8];

	faults_are_ours();
	assert_int_equal(ur_guard_copy(buf, one.far.base + SIZE - 4, 8),
			 -EFAULT);
	assert_int_equal(ur_guard_copy(buf, one.far.base + SIZE, 1), -EFAULT);
	assert_int_equal(ur_guard_copy(one.far.base + SIZE - 4, buf, 8),
			 -EFAULT);
	one.error = -EFAULT;
	assert_int_equal(ur_guard_copy(buf, one.far.base, 8), -EFAULT);
	assert_int_equal(ur_guard_crc32(&crc, one.far.base, 8), -EFAULT);
	assert_int_equal(crc, 1);
}

static void there_are_no_atomics(void **state)
{
	uint64_t old = 7;

	faults_are_ours();
	assert_int_equal(ur_guard_fetch_add64(two.far.base + 5, 1, &old),
			 -EFAULT);
	assert_int_equal(old, 7);
}

static void who_asks_is_told(void **state)
{
	uint8_t here[8];
	const struct iovec near[] = { { here, 8 }, { one.far.base - 1, 1 } };
	const struct iovec mixed[] = { { here, 8 }, { two.far.base + 9, 1 } };

	assert_false(ur_remote_any(near, 2));
	assert_true(ur_remote_any(mixed, 2));
	assert_int_equal(ur_remote_copy(here, near, 4), -ENOENT);
}

static void what_is_removed_is_memory_of_nobody(void **state)
{
	struct store third = { .far.move = move };
	uint8_t buf[8];

	faults_are_ours();
	assert_int_equal(ur_remote_add(&third.far, 0, 0), 0);
	ur_remote_remove(&third.far);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ur_remote_add(&third.far, SIZE, 0), 0);
		assert_int_equal(ur_guard_copy(buf, third.far.base, 8), 0);
		assert_int_equal(ur_guard_copy(buf, one.far.base, 8), 0);
		ur_remote_remove(&third.far);
	}
	assert_int_equal(ur_guard_copy(buf, third.far.base, 8), -EFAULT);
	assert_int_equal(ur_remote_add(&third.far, SIZE_MAX, 0), -ENOMEM);
}

static void a_child_has_none(void **state)
{
	uint8_t buf[8];
	int status;
	pid_t pid;

	faults_are_ours();
	pid = fork();
	if (pid == 0)
		_exit(ur_remote_count == 0 && ur_guard_copy(buf, one.far.base,
							    8) == -EFAULT
			      ? 0
			      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(they_lie_in_their_pages_as_the_others_do),
		TEST(a_guarded_copy_goes_either_way),
		TEST(sums_are_those_of_the_bytes),
		TEST(behind_the_end_nothing_is_moved),
		TEST(there_are_no_atomics),
		TEST(who_asks_is_told),
		TEST(what_is_removed_is_memory_of_nobody),
		TEST(a_child_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
