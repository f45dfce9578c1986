/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../skip.h"
#include "base/crc.h"
#include "base/guard.h"
#include "base/guard_word.h"

#define PAGE 4096u

/* Three pages: writable, read-only, none; behind them nothing. */
static uint8_t *pages;

static int set_up(void **state)
{
	pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return -1;
	memset(pages, 0x5a, 4 * PAGE);
	mprotect(pages + PAGE, PAGE, PROT_READ);
	mprotect(pages + 2 * PAGE, PAGE, PROT_NONE);
	munmap(pages + 3 * PAGE, PAGE);
	return 0;
}

static int tear_down(void **state)
{
	return munmap(pages, 3 * PAGE);
}

static void copies_of_every_length(void **state)
{
	uint8_t src[80];
	uint8_t want[96];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i + 1);
	for (size_t len = 0; len <= sizeof(src) - 8; len++) {
		for (size_t at = 0; at < 8; at++) {
			memset(want, 0x5a, sizeof(want));
			memset(pages, 0x5a, sizeof(want));
			memcpy(want + at, src + at / 2, len);
			assert_int_equal(ur_guard_copy(pages + at, src + at / 2,
						       len),
					 0);
			assert_memory_equal(pages, want, sizeof(want));
		}
	}
}

static void copies_of_words(void **state)
{
	uint8_t src[80];
	uint8_t want[96];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i + 1);
	for (size_t len = 0; len <= 64; len++) {
		memset(want, 0x5a, sizeof(want));
		memset(pages, 0x5a, sizeof(want));
		memcpy(want + 8, src + len % 8, len);
		assert_int_equal(
			ur_guard_copy_words(pages + 8, src + len % 8, len), 0);
		assert_memory_equal(pages, want, sizeof(want));
	}
}

/* Longer than its buffer, at every alignment of both sides; nothing beside. */
static void copies_of_whole_operands(void **state)
{
	uint8_t src[2600], want[PAGE];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < 256; i++) {
		size_t from = i / 16, to = 16 + i % 16;

		for (size_t len = i % 8; len < 2500; len += 1 + len / 2) {
			memset(want, 0x5a, sizeof(want));
			memset(pages, 0x5a, sizeof(want));
			memcpy(want + to, src + from, len);
			assert_int_equal(ur_guard_copy_whole(pages + to,
							     src + from, len),
					 0);
			assert_memory_equal(pages, want, sizeof(want));
		}
	}
	assert_int_equal(ur_guard_copy_whole(src, pages + 2 * PAGE - 90, 100),
			 -EFAULT);
	assert_int_equal(ur_guard_copy_whole(pages + PAGE - 90, src, 100),
			 -EFAULT);
}

/* The tests after it are repeated with that. */
static void all_copies_are_whole(void **state)
{
	assert_false(ur_guard_is_whole());
	ur_guard_set_whole();
	assert_true(ur_guard_is_whole());
}

/* Each of its accesses may be the one that faults. */
static void words_fault(void **state)
{
	uint8_t own[16] = { 0 };

	for (size_t len = 1; len <= 15; len++) {
		uint8_t *beyond = pages + 2 * PAGE;

		assert_int_equal(ur_guard_copy_words(own, beyond, len),
				 -EFAULT);
		assert_int_equal(ur_guard_copy_words(own, beyond - 1, len),
				 len > 1 ? -EFAULT : 0);
		assert_int_equal(ur_guard_copy_words(pages + PAGE, own, len),
				 -EFAULT);
		assert_int_equal(ur_guard_copy_words(pages + PAGE - 8, own,
						     len),
				 len > 8 ? -EFAULT : 0);
	}
}

static void copy_faults(void **state)
{
	uint8_t buf[PAGE];

	assert_int_equal(ur_guard_copy(buf, pages + PAGE, PAGE), 0);
	assert_int_equal(ur_guard_copy(pages + PAGE, buf, 1), -EFAULT);
	assert_int_equal(ur_guard_copy(pages + PAGE - 8, buf, 9), -EFAULT);
	assert_int_equal(ur_guard_copy(buf, pages + 2 * PAGE, 1), -EFAULT);
	assert_int_equal(ur_guard_copy(buf, pages + 2 * PAGE - 1, 2), -EFAULT);
	assert_int_equal(ur_guard_copy(buf, pages + 3 * PAGE, 64), -EFAULT);
	assert_int_equal(ur_guard_copy(pages + 3 * PAGE, buf, 64), -EFAULT);
	assert_int_equal(ur_guard_copy(buf, NULL, 8), -EFAULT);
	/* not canonical: the kernel reports it with a code of its own */
	assert_int_equal(ur_guard_copy(buf, (void *)0x8000000000000000u, 8),
			 -EFAULT);
	assert_int_equal(ur_guard_copy(buf, pages + 3 * PAGE, 0), 0);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(ur_guard_copy(buf, pages + 2 * PAGE, 100),
				 -EFAULT);
	assert_int_equal(ur_guard_copy(buf, pages, PAGE), 0);
}

static uint64_t mix(bool with_faults)
{
	uint64_t a = 3, b = 5, c = 7, d = 11, e = 13, f = 17;
	uint8_t buf[8];

	for (int i = 0; i < 100; i++) {
		if (with_faults)
			ur_guard_copy(buf, pages + 2 * PAGE, 8);
		a += 1;
		b += a;
		c += b;
		d += c;
		e ^= d;
		f += e;
	}
	return a ^ b ^ c ^ d ^ e ^ f;
}

/* What the caller keeps in registers survives the way back. */
static void registers_survive(void **state)
{
	assert_true(mix(true) == mix(false));
}

static void a_truncated_file_is_a_fault(void **state)
{
	int fd = memfd_create("guard", MFD_CLOEXEC);
	uint8_t buf[8];
	uint8_t *map;

	assert_int_equal(ftruncate(fd, PAGE), 0);
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(ur_guard_copy(buf, map, 8), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ur_guard_copy(buf, map, 8), -EFAULT);
	munmap(map, PAGE);
	close(fd);
}

static void crc_of_what_can_be_read(void **state)
{
	uint32_t crc = 17;

	assert_int_equal(ur_guard_crc32(&crc, pages, 2 * PAGE), 0);
	assert_int_equal(crc, ur_crc32(17, pages, 2 * PAGE));
	assert_int_equal(ur_guard_crc32(&crc, pages, 2 * PAGE + 1), -EFAULT);
	assert_int_equal(crc, ur_crc32(17, pages, 2 * PAGE));
	assert_int_equal(ur_guard_crc32(&crc, pages + 2 * PAGE, 3), -EFAULT);
}

static void atomics(void **state)
{
	uint64_t *word = (void *)(pages + 64);
	uint64_t old = 0;

	*word = 40;
	assert_int_equal(ur_guard_fetch_add64(word, 2, &old), 0);
	assert_true(old == 40 && *word == 42);
	assert_int_equal(ur_guard_cmp_swap64(word, 41, 7, &old), 0);
	assert_true(old == 42 && *word == 42);
	assert_int_equal(ur_guard_cmp_swap64(word, 42, 7, &old), 0);
	assert_true(old == 42 && *word == 7);
	old = 5;
	assert_int_equal(ur_guard_fetch_add64(pages + PAGE, 1, &old), -EFAULT);
	assert_int_equal(ur_guard_cmp_swap64(pages + PAGE, 1, 2, &old),
			 -EFAULT);
	assert_int_equal(ur_guard_cmp_swap64(pages + 2 * PAGE, 1, 2, &old),
			 -EFAULT);
	assert_true(old == 5);
}

static void *fault_often(void *page)
{
	uint8_t buf[64];
	int wrong = 0;

	for (int i = 0; i < 3000; i++) {
		wrong += ur_guard_copy(buf, page, 64) != -EFAULT;
		wrong += ur_guard_copy(buf, pages, 64) != 0;
	}
	return (void *)(intptr_t)wrong;
}

static void threads_fault_each_for_itself(void **state)
{
	pthread_t thread[3];
	void *wrong;

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, fault_often,
						pages + 2 * PAGE),
				 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
}

static volatile sig_atomic_t from_signal;

static void guarded_from_signal(int sig)
{
	uint8_t buf[8];

	from_signal = ur_guard_copy(buf, pages + 2 * PAGE, 8) == -EFAULT &&
		      ur_guard_copy(buf, pages, 8) == 0;
}

/* A guarded call inside a guarded call: the outer one is still guarded. */
static void nested_by_a_signal(void **state)
{
	struct sigaction act = { .sa_handler = guarded_from_signal };
	uint8_t buf[64];

	if (UNDER_TSAN)
		SKIP_BECAUSE("TSan runs handlers with every signal blocked");
	sigaction(SIGALRM, &act, NULL);
	for (int i = 0; i < 20; i++) {
		from_signal = 0;
		ualarm(500, 0);
		while (!from_signal)
			assert_int_equal(ur_guard_copy(buf, pages + 2 * PAGE,
						       64),
					 -EFAULT);
	}
}

/* cmocka has handlers of its own, which it puts back for every test. */
#define GUARDED(f)                                                             \
	static void f##_guarded(void **state)                                  \
	{                                                                      \
		assert_int_equal(ur_guard_install(), 0);                       \
		f(state);                                                      \
	}

GUARDED(copies_of_every_length)
GUARDED(copies_of_words)
GUARDED(copies_of_whole_operands)
GUARDED(all_copies_are_whole)
GUARDED(words_fault)
GUARDED(copy_faults)
GUARDED(registers_survive)
GUARDED(a_truncated_file_is_a_fault)
GUARDED(crc_of_what_can_be_read)
GUARDED(atomics)
GUARDED(threads_fault_each_for_itself)
GUARDED(nested_by_a_signal)

#define TEST(f) cmocka_unit_test_setup_teardown(f##_guarded, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copies_of_every_length),
		TEST(copies_of_words),
		TEST(copies_of_whole_operands),
		TEST(words_fault),
		TEST(copy_faults),
		TEST(registers_survive),
		TEST(a_truncated_file_is_a_fault),
		TEST(crc_of_what_can_be_read),
		TEST(atomics),
		TEST(threads_fault_each_for_itself),
		TEST(nested_by_a_signal),
		TEST(all_copies_are_whole),
		TEST(copies_of_every_length),
		TEST(copies_of_words),
		TEST(words_fault),
		TEST(copy_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
