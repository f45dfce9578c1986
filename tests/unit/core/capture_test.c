/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of a capture: order, wrapping, loss, several writers, a bad writer. */
#include "core/capture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/guard.h"

#define NONCE	0x123456789abcdef1u
#define THREADS 4u
#define EACH	20000u

static struct ur_capture_head *head;
static struct ur_capture capture;
static const struct ur_tap tap = { .capture = &capture, .device = 3 };

static uint64_t now(void)
{
	return 42;
}

static int setup(void **state)
{
	head = mmap(NULL, UR_CAPTURE_FILE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(head != MAP_FAILED);
	capture =
		(struct ur_capture){ .head = head,
				     .ring = (uint8_t *)head + UR_CAPTURE_HEAD,
				     .nonce = NONCE,
				     .now = now };
	return 0;
}

static int teardown(void **state)
{
	return munmap(head, UR_CAPTURE_FILE);
}

static void put(uint32_t qpn, const void *data, size_t len)
{
	struct ur_capture_rec r = { .kind = UR_CAP_ROCE, .qpn = qpn };
	struct iovec v[2] = { { (void *)(uintptr_t)data, len / 2 },
			      { (uint8_t *)(uintptr_t)data + len / 2,
				len - len / 2 } };

	ur_capture_put(&tap, &r, v, 2);
}

static int take(struct ur_capture_rec *r, const uint8_t **p)
{
	int n = ur_capture_peek(head, NONCE, r, p);

	if (n > 0)
		ur_capture_pop(head, r);
	return n;
}

static void a_record_comes_as_it_was(void **state)
{
	struct ur_capture_rec r;
	const uint8_t *p;

	assert_int_equal(take(&r, &p), 0);
	put(7, "abcdefghi", 9);
	put(8, "", 0);
	assert_int_equal(take(&r, &p), 1);
	assert_int_equal(r.qpn, 7);
	assert_int_equal(r.len, 9);
	assert_int_equal(r.device, 3);
	assert_int_equal(r.ns, 42);
	assert_memory_equal(p, "abcdefghi", 9);
	assert_int_equal(take(&r, &p), 1);
	assert_int_equal(r.qpn, 8);
	assert_int_equal(r.len, 0);
	assert_int_equal(take(&r, &p), 0);
}

/* Lengths that leave every remainder at the ring's end. */
static void it_wraps(void **state)
{
	static uint8_t data[70000];
	struct ur_capture_rec r;
	const uint8_t *p;

	for (uint32_t i = 0; i < 4000; i++) {
		uint32_t len = 60000 + i % 9999;

		data[0] = (uint8_t)i;
		data[len - 1] = (uint8_t)(i >> 8);
		put(i, data, len);
		assert_int_equal(take(&r, &p), 1);
		assert_int_equal(r.qpn, i);
		assert_int_equal(r.len, len);
		assert_int_equal(p[0], (uint8_t)i);
		assert_int_equal(p[len - 1], (uint8_t)(i >> 8));
	}
	assert_int_equal(head->lost[3], 0);
}

static void what_has_no_room_is_counted(void **state)
{
	static uint8_t data[65536];
	struct ur_capture_rec r;
	const uint8_t *p;
	uint32_t n = 0, fit = UR_CAPTURE_RING / (65536 + UR_CAPTURE_ALIGN);

	for (uint32_t i = 0; i < fit + 5; i++)
		put(i, data, sizeof(data));
	assert_int_equal(head->lost[3], 5);
	while (take(&r, &p) == 1)
		assert_int_equal(r.qpn, n++);
	assert_int_equal(n, fit);
	put(99, data, sizeof(data));
	assert_int_equal(take(&r, &p), 1);
	assert_int_equal(r.qpn, 99);
}

static void memory_that_is_gone_is_lost(void **state)
{
	struct ur_capture_rec r;
	const uint8_t *p;

	/* After cmocka, which takes the signal as well. */
	assert_int_equal(ur_guard_install(), 0);
	put(1, (void *)8, 100);
	put(2, "ab", 2);
	assert_int_equal(take(&r, &p), 1);
	assert_int_equal(r.qpn, 2);
	assert_int_equal(head->lost[3], 1);
}

static void *write_many(void *arg)
{
	for (uint32_t i = 0; i < EACH; i++)
		put((uint32_t)(uintptr_t)arg << 24 | i, "0123456789", 10);
	return NULL;
}

static void writers_keep_their_order(void **state)
{
	uint32_t next[THREADS] = { 0 }, got = 0;
	struct ur_capture_rec r;
	pthread_t t[THREADS];
	const uint8_t *p;

	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&t[i], NULL, write_many, (void *)i), 0);
	while (got < THREADS * EACH) {
		if (take(&r, &p) != 1)
			continue;
		assert_memory_equal(p, "0123456789", 10);
		assert_int_equal(r.qpn & 0xffffff, next[r.qpn >> 24]++);
		got++;
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(head->lost[3], 0);
}

static void a_bad_length_is_refused(void **state)
{
	struct ur_capture_rec r, *bad;
	const uint8_t *p;

	put(1, "ab", 2);
	bad = (struct ur_capture_rec *)(void *)capture.ring;
	bad->len = UR_CAPTURE_RING;
	assert_int_equal(take(&r, &p), -EPROTO);
	bad->len = UINT32_MAX;
	assert_int_equal(take(&r, &p), -EPROTO);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_record_comes_as_it_was),
		TEST(it_wraps),
		TEST(what_has_no_room_is_counted),
		TEST(memory_that_is_gone_is_lost),
		TEST(writers_keep_their_order),
		TEST(a_bad_length_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
