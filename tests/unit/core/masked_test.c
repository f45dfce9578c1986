/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics with masks: results typed by hand, a model bit by bit, threads. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/guard.h"
#include "base/rng.h"
#include "core/masked.h"

#define W(low, high)                                                           \
	{                                                                      \
		low, high                                                      \
	}

struct row {
	uint32_t len;
	bool cas;
	uint64_t was[2];
	struct ur_masked m;
	uint64_t is[2];
};

#define TOP UINT64_C(0x8000000000000000)

static const struct row rows[] = {
	/* One sum, at each size, which wraps at its top. */
	{ 4, false, W(0xffffffff, 0), { .value = { 2 } }, W(1, 0) },
	{ 8, false, W(~0ull, 0), { .value = { 2 } }, W(1, 0) },
	{ 16, false, W(~0ull, 7), { .value = { 2 } }, W(1, 8) },
	{ 16, false, W(~0ull, ~0ull), { .value = { 1 } }, W(0, 0) },
	/* Two counters of 8 bytes. */
	{ 16,
	  false,
	  W(~0ull, 7),
	  { .value = W(2, 1), .mask = W(TOP, TOP) },
	  W(1, 8) },
	{ 16,
	  false,
	  W(~0ull, 7),
	  { .value = W(2, 0), .mask = W(TOP, 0) },
	  W(1, 7) },
	/* Fields of a byte, of 16 bits, of a bit. */
	{ 4,
	  false,
	  W(0xff00ff80, 0),
	  { .value = { 0x01010180 }, .mask = { 0x80808080 } },
	  W(0x00010000, 0) },
	{ 8,
	  false,
	  W(0x1fffe0001ffffull, 0),
	  { .value = { 0x0001000100010001 }, .mask = { 0x8000800080008000 } },
	  W(0x0002ffff00020000ull, 0) },
	{ 8,
	  false,
	  W(0xf0, 0),
	  { .value = { 0x3c }, .mask = { ~0ull } },
	  W(0xcc, 0) },
	/* A field over both words, one below it and one above. */
	{ 16,
	  false,
	  W(0xfffffffffffffff0ull, 0x0f),
	  { .value = W(0x1f, 0), .mask = W(0x8, 0x8) },
	  W(0xf, 0) },
	{ 16,
	  false,
	  W(0xffffffffffffff00ull, 0x7),
	  { .value = W(0x100, 0), .mask = W(0x80, 0x8) },
	  W(0, 0x8) },
	/* Bits beyond the operand have no effect. */
	{ 4,
	  false,
	  W(1, 0),
	  { .value = W(0xffffffff00000001, 5), .mask = W(TOP, 1) },
	  W(2, 0) },
	{ 8,
	  true,
	  W(5, 0),
	  { .value = W(6, 9),
	    .compare = W(5, 9),
	    .mask = W(~0ull, ~0ull),
	    .compare_mask = W(~0ull, ~0ull) },
	  W(6, 0) },
	/* Compared under a mask, swapped under another. */
	{ 4,
	  true,
	  W(0x11223344, 0),
	  { .value = { 0xaabbccdd },
	    .compare = { 0x99993399 },
	    .mask = { 0xff0000ff },
	    .compare_mask = { 0x0000ff00 } },
	  W(0xaa2233dd, 0) },
	{ 4,
	  true,
	  W(0x11223344, 0),
	  { .value = { 0xaabbccdd },
	    .compare = { 0x99993499 },
	    .mask = { 0xff0000ff },
	    .compare_mask = { 0x0000ff00 } },
	  W(0x11223344, 0) },
	{ 16,
	  true,
	  W(1, 2),
	  { .value = W(3, 4),
	    .compare = W(1, 2),
	    .mask = W(~0ull, ~0ull),
	    .compare_mask = W(~0ull, ~0ull) },
	  W(3, 4) },
	{ 16,
	  true,
	  W(1, 2), /* only the second word differs */
	  { .value = W(3, 4),
	    .compare = W(1, 3),
	    .mask = W(~0ull, ~0ull),
	    .compare_mask = W(~0ull, ~0ull) },
	  W(1, 2) },
	{ 16,
	  true,
	  W(1, 2), /* no condition, and only one word */
	  { .value = W(3, 4), .mask = W(0, ~0ull) },
	  W(1, 4) },
};

static void results(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		_Alignas(16) uint64_t mem[4] = { 0, 0, 0x77, 0x88 };
		uint64_t old[2] = { 9, 9 };
		uint8_t bytes[16] = { 0 };

		if (!ur_masked_is_size(r->len))
			continue;
		memcpy(mem, r->was, r->len);
		memset((uint8_t *)mem + r->len, 0x5a, 16 - r->len);
		assert_int_equal(ur_masked_run(mem, &r->m, r->cas, r->len, old),
				 0);
		assert_memory_equal(mem, r->is, r->len);
		for (size_t k = r->len; k < 16; k++)
			assert_int_equal(((uint8_t *)mem)[k], 0x5a);
		assert_int_equal(old[0], r->was[0]);
		assert_int_equal(old[1], r->len == 16 ? r->was[1] : 0);
		ur_masked_store(bytes, r->len, old);
		assert_memory_equal(bytes, r->was, r->len);
	}
}

static uint32_t bit(const uint64_t words[2], uint32_t i)
{
	return words[i / 64] >> i % 64 & 1;
}

static void any_fields(void **state)
{
	struct ur_rng rng;

	ur_rng_seed(&rng, 1);
	for (uint32_t n = 0; n < 20000; n++) {
		uint32_t len = 4u << n % (ur_masked_max() == 16 ? 3 : 2);
		_Alignas(16) uint64_t mem[2] = { ur_rng_next(&rng),
						 ur_rng_next(&rng) };
		struct ur_masked m = { .value = { ur_rng_next(&rng),
						  ur_rng_next(&rng) } };
		uint64_t want[2] = { 0 }, was[2], old[2];
		uint32_t carry = 0;

		memcpy(was, mem, sizeof(was));
		for (int i = 0; i < 2; i++)
			m.mask[i] = ur_rng_next(&rng);
		for (int i = 0; i < 4; i++)
			m.mask[i % 2] &= ur_rng_next(&rng);
		for (uint32_t i = 0; i < 8 * len; i++) {
			uint32_t s = bit(was, i) + bit(m.value, i) + carry;

			want[i / 64] |= (uint64_t)(s & 1) << i % 64;
			carry = bit(m.mask, i) ? 0 : s >> 1;
		}
		assert_int_equal(ur_masked_run(mem, &m, false, len, old), 0);
		assert_memory_equal(mem, want, len);
	}
}

static void where_it_cannot_be(void **state)
{
	static const uint32_t bad[] = {
		0, 1, 2, 3, 5, 6, 12, 24, 32, 1u << 31
	};
	const struct ur_masked m = { .value = { 1 } };
	_Alignas(16) uint8_t mem[64] = { 0 };
	uint64_t old[2] = { 5, 5 };
	void *page =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(ur_guard_install(), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(ur_masked_is_size(bad[i]));
	assert_int_equal(ur_masked_run(mem + 2, &m, false, 4, old), -EINVAL);
	assert_int_equal(ur_masked_run(mem + 4, &m, false, 8, old), -EINVAL);
	assert_int_equal(ur_masked_run(mem + 8, &m, true, 16, old), -EINVAL);
	for (uint32_t len = 4; len <= ur_masked_max(); len *= 2)
		assert_int_equal(ur_masked_run(page, &m, false, len, old),
				 -EFAULT); /* read-only */
	assert_int_equal(munmap(page, 4096), 0);
	assert_int_equal(ur_masked_run(page, &m, true, 4, old), -EFAULT);
	assert_int_equal(old[0], 5);
}

/* Two threads add to one operand, in two fields each; a third one swaps what it
 * has seen for the same.  All or nothing: no addition is missing. */
#define ADDS 20000

struct job {
	_Alignas(16) uint64_t mem[2];
	uint32_t len;
	bool torn; /* the swapper has seen one half of an addition */
};

static void *adder(void *arg)
{
	struct job *j = arg;
	/* The upper half of the operand, and the lower half. */
	struct ur_masked m = { .value = W(1, 1), .mask = W(TOP, TOP) };
	uint64_t old[2];

	if (j->len < 16) {
		m.value[0] = 1 | UINT64_C(1) << 4 * j->len;
		m.mask[0] = UINT64_C(1) << (4 * j->len - 1);
	}
	for (int i = 0; i < ADDS; i++)
		(void)ur_masked_run(j->mem, &m, false, j->len, old);
	return NULL;
}

static void *swapper(void *arg)
{
	struct job *j = arg;
	uint64_t old[2] = { 0 };

	for (int i = 0; i < ADDS; i++) {
		struct ur_masked m = { .value = W(old[0], old[1]),
				       .compare = W(old[0], old[1]),
				       .mask = W(~0ull, ~0ull),
				       .compare_mask = W(~0ull, ~0ull) };
		uint64_t half, low;

		(void)ur_masked_run(j->mem, &m, true, j->len, old);
		half = j->len == 16 ? old[1] : old[0] >> 4 * j->len;
		low = old[0];
		if (j->len < 16)
			low &= (UINT64_C(1) << 4 * j->len) - 1;
		j->torn |= half != low;
	}
	return NULL;
}

static void all_or_nothing(void **state)
{
	for (uint32_t len = 4; len <= ur_masked_max(); len *= 2) {
		struct job j = { .len = len };
		pthread_t t[3];
		uint64_t want[2] = { 2 * ADDS, 2 * ADDS };

		if (len < 16)
			want[0] |= (uint64_t)(2 * ADDS) << 4 * len;
		assert_int_equal(pthread_create(&t[0], NULL, adder, &j), 0);
		assert_int_equal(pthread_create(&t[1], NULL, adder, &j), 0);
		assert_int_equal(pthread_create(&t[2], NULL, swapper, &j), 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(pthread_join(t[i], NULL), 0);
		assert_false(j.torn);
		assert_memory_equal(j.mem, want, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results),
		cmocka_unit_test(any_fields),
		cmocka_unit_test(where_it_cannot_be),
		cmocka_unit_test(all_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
