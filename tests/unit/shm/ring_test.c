/* SPDX-License-Identifier: BSD-2-Clause */
/* Records in a ring: order, room, the end of the area, sleep, a hostile side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "base/rng.h"
#include "shm/ring.h"

#define SIZE 4096u

struct pair {
	void *mem;
	struct ur_ring tx;
	struct ur_ring rx;
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	p->mem = aligned_alloc(64, ur_ring_bytes(SIZE));
	memset(p->mem, 0, ur_ring_bytes(SIZE));
	ur_ring_init(&p->tx, p->mem, SIZE);
	ur_ring_init(&p->rx, p->mem, SIZE);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	free(p->mem);
	free(p);
	return 0;
}

/* Bytes that tell which record they are of. */
static bool put(struct pair *p, uint32_t number, uint32_t len)
{
	struct ur_ring_rec rec = { .scope_id = number };
	uint8_t *at = ur_ring_reserve(&p->tx, len);

	if (!at)
		return false;
	memset(at, (int)(number & 0xff), len);
	(void)ur_ring_publish(&p->tx, &rec, len);
	return true;
}

static void get(struct pair *p, uint32_t number, uint32_t len)
{
	struct ur_ring_rec rec;
	const uint8_t *at;

	assert_int_equal(ur_ring_peek(&p->rx, &rec, &at), 1);
	assert_int_equal(rec.scope_id, number);
	assert_int_equal(rec.len, len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(at[i], number & 0xff);
	ur_ring_pop(&p->rx);
}

static void test_order(void **state)
{
	struct pair *p = *state;
	struct ur_rng rng;
	uint32_t in = 0, out = 0;
	static uint32_t lens[100000];

	ur_rng_seed(&rng, 4);
	while (in < 20000) {
		uint32_t len = (uint32_t)(ur_rng_next(&rng) % (SIZE / 4 + 1));

		lens[in] = len;
		if (ur_rng_next(&rng) % 2 && put(p, in, len))
			in++;
		else if (out < in) {
			get(p, out, lens[out]);
			out++;
		}
	}
	for (; out < in; out++)
		get(p, out, lens[out]);
	assert_int_equal(p->rx.rx.tail, p->tx.tx.head);
}

/* Records without payload: as many as there are slots. */
static void test_room(void **state)
{
	struct pair *p = *state;
	uint32_t n = 0;

	while (put(p, n, 0))
		n++;
	assert_int_equal(n, SIZE / UR_RING_PER_RECORD);
	get(p, 0, 0);
	assert_true(put(p, n, 0));
	assert_false(put(p, n, 0));
	assert_null(ur_ring_reserve(&p->tx, SIZE / 4 + 1));
}

static void test_sleep(void **state)
{
	struct ur_ring_rec rec = { 0 };
	struct pair *p = *state;

	assert_true(ur_ring_sleep(&p->rx, true));
	assert_non_null(ur_ring_reserve(&p->tx, 1));
	assert_true(ur_ring_publish(&p->tx, &rec, 1));
	assert_non_null(ur_ring_reserve(&p->tx, 1));
	assert_false(ur_ring_publish(&p->tx, &rec, 1));
	assert_false(ur_ring_sleep(&p->rx, true));
	assert_non_null(ur_ring_reserve(&p->tx, 1));
	assert_false(ur_ring_publish(&p->tx, &rec, 1));
}

/* Payload alone fills the ring, too. */
static void test_bytes(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < 4; i++)
		assert_true(put(p, i, SIZE / 4));
	assert_false(put(p, 4, 1));
	assert_true(put(p, 4, 0));
	get(p, 0, SIZE / 4);
	assert_true(put(p, 5, SIZE / 4));
	assert_false(put(p, 6, 1));
}

/* Whatever the producer leaves in the memory, nothing is read beyond it. */
static void test_liar(void **state)
{
	struct pair *p = *state;
	uint32_t bytes = (uint32_t)ur_ring_bytes(SIZE);
	uint8_t *mem = p->mem;
	struct ur_rng rng;
	int bad = 0, good = 0;

	ur_rng_seed(&rng, 5);
	for (int round = 0; round < 20000; round++) {
		struct ur_slot *slots = p->tx.tx.slots;
		struct ur_ring_rec rec;
		const uint8_t *at = NULL;
		int got = 1;

		for (uint32_t i = 0; i < 16; i++) {
			uint32_t word = (uint32_t)(ur_rng_next(&rng) % 15);
			uint32_t v =
				(uint32_t)(ur_rng_next(&rng) %
					   (round % 2 ? 5000 : UINT32_MAX));

			memcpy(slots[i].bytes + word * 4, &v, 4);
			slots[i].seq = ur_spsc_lap(i, p->rx.rx.mask);
		}
		p->rx.rx.tail = 0;
		for (int i = 0; i < 16 && got == 1; i++) {
			got = ur_ring_peek(&p->rx, &rec, &at);
			if (got != 1)
				break;
			assert_true(at >= mem && at + rec.len <= mem + bytes);
			ur_ring_pop(&p->rx);
			good++;
		}
		bad += got < 0;
	}
	assert_true(bad > 100);
	assert_true(good > 100);
}

/* A tail that is ahead of all that was written gives no room. */
static void test_lying_tail(void **state)
{
	struct pair *p = *state;
	uint32_t n = 0;

	while (put(p, n, 0))
		n++;
	p->tx.tx.ctl->tail = p->tx.tx.head + 1;
	assert_null(ur_ring_reserve(&p->tx, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(test_liar, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lying_tail, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
