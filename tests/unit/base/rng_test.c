/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"

/* The published generators' first outputs. */
static void known_sequences(void **state)
{
	static const uint64_t seeded[4] = {
		0xe220a8397b1dcdafu,
		0x6e789e6aa1b965f4u,
		0x06c45d188009454fu,
		0xf88bb8a8724c81ecu,
	};
	struct ur_rng r = { { 1, 2, 3, 4 } };

	assert_true(ur_rng_next(&r) == 11520);
	assert_true(ur_rng_next(&r) == 0);
	assert_true(ur_rng_next(&r) == 1509978240);
	assert_true(ur_rng_next(&r) == 1215971899390074240);
	ur_rng_seed(&r, 0);
	assert_memory_equal(r.s, seeded, sizeof(seeded));
}

static void below_is_uniform(void **state)
{
	unsigned int count[7] = { 0 };
	struct ur_rng r;

	ur_rng_seed(&r, 5);
	for (int i = 0; i < 70000; i++) {
		uint32_t v = ur_rng_below(&r, 7);

		assert_true(v < 7);
		count[v]++;
	}
	for (int i = 0; i < 7; i++)
		assert_in_range(count[i], 9500, 10500);
	assert_int_equal(ur_rng_below(&r, 1), 0);
}

/* 2^32 values do not fall evenly into 3 * 2^30: without rejection, every
 * third result would be drawn twice as often as its neighbours. */
static void below_rejects_what_would_bias(void **state)
{
	unsigned int thirds = 0;
	struct ur_rng r;

	ur_rng_seed(&r, 6);
	for (int i = 0; i < 30000; i++)
		thirds += ur_rng_below(&r, 0xc0000000u) % 3 == 0;
	assert_in_range(thirds, 9500, 10500);
}

static void secrets_differ(void **state)
{
	uint64_t seen[2000];
	uint8_t big[5000];
	unsigned int ones = 0;

	for (int i = 0; i < 2000; i++) {
		ur_rng_secret(&seen[i], sizeof(seen[i]));
		for (int k = 0; k < i; k++)
			assert_true(seen[k] != seen[i]);
	}
	memset(big, 0, sizeof(big));
	ur_rng_secret(big, sizeof(big)); /* more than the pool holds */
	for (size_t i = 0; i < sizeof(big); i++)
		ones += (unsigned int)__builtin_popcount(big[i]);
	assert_in_range(ones, 19400, 20600);
	ur_rng_secret(big, 0);
}

/* Parent and child must not share a pool. */
static void a_fork_starts_a_new_pool(void **state)
{
	uint8_t mine[64];
	uint8_t childs[64];
	int fd[2];
	pid_t pid;

	ur_rng_secret(mine, 1); /* the pool is filled and partly used */
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		ur_rng_secret(childs, sizeof(childs));
		_exit(write(fd[1], childs, sizeof(childs)) != sizeof(childs));
	}
	assert_int_equal(read(fd[0], childs, sizeof(childs)), sizeof(childs));
	waitpid(pid, NULL, 0);
	ur_rng_secret(mine, sizeof(mine));
	assert_memory_not_equal(mine, childs, sizeof(mine));
	close(fd[0]);
	close(fd[1]);
}

#define PER_THREAD 5000

static void *draw(void *out)
{
	uint64_t *v = out;

	for (int i = 0; i < PER_THREAD; i++)
		ur_rng_secret(&v[i], sizeof(v[i]));
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void threads_draw_different_bytes(void **state)
{
	static uint64_t v[2 * PER_THREAD];
	pthread_t other;

	assert_int_equal(pthread_create(&other, NULL, draw, v + PER_THREAD), 0);
	draw(v);
	pthread_join(other, NULL);
	qsort(v, 2 * PER_THREAD, sizeof(v[0]), by_value);
	for (int i = 1; i < 2 * PER_THREAD; i++)
		assert_true(v[i] != v[i - 1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_sequences),
		cmocka_unit_test(below_is_uniform),
		cmocka_unit_test(below_rejects_what_would_bias),
		cmocka_unit_test(secrets_differ),
		cmocka_unit_test(a_fork_starts_a_new_pool),
		cmocka_unit_test(threads_draw_different_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
