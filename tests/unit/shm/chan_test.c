/* SPDX-License-Identifier: BSD-2-Clause */
/* The rings of a channel: order, room, laps, sleep, and what a liar writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "shm/chan.h"

struct pair {
	void *mem;
	struct ur_chan a;
	struct ur_chan b;
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	p->mem = aligned_alloc(4096, (ur_chan_bytes() + 4095) & ~4095ul);
	memset(p->mem, 0, ur_chan_bytes());
	ur_chan_format(p->mem);
	assert_int_equal(ur_chan_attach(&p->a, p->mem, 0), 0);
	assert_int_equal(ur_chan_attach(&p->b, p->mem, 1), 0);
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

static void put(struct ur_chan *c, uint32_t imm)
{
	ur_chan_desc(c)->imm_be = imm;
	ur_chan_desc(c)->len = 0;
	ur_spsc_publish(&c->tx);
}

static uint32_t get(struct ur_chan *c)
{
	struct ur_desc d;

	ur_spsc_copy(&c->rx, &d);
	ur_spsc_consume(&c->rx);
	return d.imm_be;
}

static void descriptors_come_in_order_over_many_laps(void **state)
{
	struct pair *p = *state;
	uint32_t in = 0, out = 0;

	for (int round = 0; round < 5000; round++) {
		for (int i = 0; i < round % 97 && ur_spsc_has_room(&p->a.tx, 0);
		     i++)
			put(&p->a, in++);
		while (!ur_spsc_is_empty(&p->b.rx))
			assert_int_equal(get(&p->b), out++);
		assert_int_equal(in, out);
		(void)ur_spsc_release(&p->b.rx, &p->b.tx);
	}
	assert_true(in > 20 * UR_CHAN_DESCS);
}

/* Positions have 32 bits, and go on from 0. */
static void positions_wrap(void **state)
{
	const uint32_t from = 0u - 2 * UR_CHAN_DESCS;
	struct pair *p = *state;

	p->a.tx.head = p->a.tx.tail = from;
	p->b.rx.tail = p->b.rx.released = p->b.rx.fetched = from;
	for (uint32_t i = 0; i < 5 * UR_CHAN_DESCS; i++) {
		assert_true(ur_spsc_is_empty(&p->b.rx));
		assert_true(ur_spsc_has_room(&p->a.tx, 0));
		put(&p->a, i);
		assert_false(ur_spsc_is_empty(&p->b.rx));
		assert_int_equal(get(&p->b), i);
		(void)ur_spsc_release(&p->b.rx, &p->b.tx);
	}
	assert_int_equal(p->a.tx.head, 3 * UR_CHAN_DESCS);
}

static void a_full_ring_takes_no_more(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < UR_CHAN_DESCS; i++) {
		assert_true(ur_spsc_has_room(&p->a.tx, 0));
		put(&p->a, i);
	}
	assert_false(ur_spsc_has_room(&p->a.tx, 0));
	assert_int_equal(get(&p->b), 0);
	assert_false(ur_spsc_has_room(&p->a.tx, 0)); /* not released yet */
	ur_spsc_release(&p->b.rx, &p->b.tx);
	assert_true(ur_spsc_has_room(&p->a.tx, 0));
	put(&p->a, UR_CHAN_DESCS);
	for (uint32_t i = 1; i <= UR_CHAN_DESCS; i++)
		assert_int_equal(get(&p->b), i);
	assert_true(ur_spsc_is_empty(&p->b.rx));
}

/* In the middle of many descriptors, and not for each. */
static void room_is_told_early(void **state)
{
	struct pair *p = *state;
	const uint32_t len = UR_CHAN_DATA / UR_CHAN_DESCS;
	uint32_t at, shown = 0;

	for (uint32_t i = 0; i < UR_CHAN_DESCS; i++) {
		assert_non_null(ur_spsc_data(&p->a.tx, len, &at));
		ur_spsc_data_used(&p->a.tx, at, len);
		put(&p->a, i);
	}
	assert_null(ur_spsc_data(&p->a.tx, len, &at));
	for (uint32_t i = 0; i < UR_CHAN_DESCS; i++) {
		uint32_t was = p->a.tx.tail;

		assert_int_equal(get(&p->b), i);
		ur_spsc_data_done(&p->b.rx, i * len, len);
		ur_spsc_release_early(&p->b.rx);
		ur_spsc_refresh(&p->a.tx);
		shown += p->a.tx.tail != was;
	}
	assert_true(shown > 4 && shown < UR_CHAN_DESCS / 4);
	/* A producer that waits is signalled at the end. */
	ur_spsc_want_room(&p->a.tx);
	assert_true(ur_spsc_release(&p->b.rx, &p->b.tx));
	assert_int_equal(p->a.tx.tail, UR_CHAN_DESCS);
}

/* How far beyond the oldest descriptor the consumer has prefetched. */
static uint32_t look_ahead(struct ur_chan *c)
{
	ur_spsc_prefetch(&c->rx);
	return c->rx.fetched - 1 - c->rx.tail;
}

/* Prefetching reaches further with each full descriptor of a row, and begins again
 * after its end: one that is not full would be taken from the producer. */
static void a_row_is_seen_coming(void **state)
{
	struct pair *p = *state;
	uint32_t ahead = 0;

	for (uint32_t i = 0; i < 3 * UR_CHAN_DESCS; i++) {
		uint32_t was = ahead;

		put(&p->a, i);
		ahead = look_ahead(&p->b);
		assert_true(ahead >= was && ahead <= UR_SPSC_AHEAD);
		assert_int_equal(get(&p->b), i);
		(void)ur_spsc_release(&p->b.rx, &p->b.tx);
		ur_spsc_refresh(&p->a.tx);
	}
	assert_int_equal(ahead, UR_SPSC_AHEAD);
	for (uint32_t i = 0; i < 2 * UR_CHAN_DESCS; i++) {
		ur_spsc_row_ended(&p->b.rx);
		put(&p->a, i);
		ahead = look_ahead(&p->b);
		assert_int_equal(get(&p->b), i);
		(void)ur_spsc_release(&p->b.rx, &p->b.tx);
		ur_spsc_refresh(&p->a.tx);
	}
	assert_int_equal(ahead, 0);
}

static void the_directions_are_apart(void **state)
{
	struct pair *p = *state;

	put(&p->a, 1);
	put(&p->b, 2);
	assert_int_equal(get(&p->a), 2);
	assert_int_equal(get(&p->b), 1);
	assert_true(ur_spsc_is_empty(&p->a.rx) && ur_spsc_is_empty(&p->b.rx));
}

/* Every byte that was not consumed stays what it was. */
static void payload_is_not_overwritten(void **state)
{
	struct pair *p = *state;
	struct {
		uint32_t at, len;
		uint8_t fill;
	} q[UR_CHAN_DESCS];
	uint32_t head = 0, tail = 0;
	struct ur_rng rng;
	uint8_t fill = 0;

	p->a.tx.most = 256u << 10;
	ur_rng_seed(&rng, 7);
	for (int i = 0; i < 20000; i++) {
		uint32_t len = 1 + ur_rng_below(&rng, 9000), at;
		uint8_t *to = ur_spsc_has_room(&p->a.tx, 0)
				      ? ur_spsc_data(&p->a.tx, len, &at)
				      : NULL;

		if (to && ur_rng_below(&rng, 4)) {
			memset(to, ++fill, len);
			ur_spsc_data_used(&p->a.tx, at, len);
			ur_spsc_publish(&p->a.tx);
			q[head % UR_CHAN_DESCS].at = at;
			q[head % UR_CHAN_DESCS].len = len;
			q[head++ % UR_CHAN_DESCS].fill = fill;
			continue;
		}
		if (head == tail)
			continue;
		at = q[tail % UR_CHAN_DESCS].at;
		len = q[tail % UR_CHAN_DESCS].len;
		const uint8_t *from = ur_spsc_payload(&p->b.rx, at, len);

		assert_non_null(from);
		for (uint32_t k = 0; k < len; k += 61)
			assert_int_equal(from[k], q[tail % UR_CHAN_DESCS].fill);
		assert_int_equal(from[len - 1], q[tail % UR_CHAN_DESCS].fill);
		tail++;
		ur_spsc_data_done(&p->b.rx, at, len);
		ur_spsc_consume(&p->b.rx);
		ur_spsc_release(&p->b.rx, &p->b.tx);
	}
	assert_true(tail > 5000);
}

/* The end of what is used, after n messages of which each waits for its room
 * or not. */
static uint32_t used(struct pair *p, uint32_t n, bool waits)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at;
		uint8_t *to = ur_spsc_data(&p->a.tx, 8192, &at);

		if (!to)
			break;
		end = at % UR_CHAN_DATA + 8192 > end ? at % UR_CHAN_DATA + 8192
						     : end;
		ur_spsc_data_used(&p->a.tx, at, 8192);
		put(&p->a, 1);
		if (!waits)
			continue;
		ur_spsc_data_done(&p->b.rx, at, 8192);
		get(&p->b);
		ur_spsc_release(&p->b.rx, &p->b.tx);
	}
	return end;
}

static void who_waits_stays_where_it_is_warm(void **state)
{
	struct pair *p = *state;

	assert_in_range(used(p, 1000, true), 8192, 256u << 10);
	/* It may have to wait once more, and then takes all. */
	(void)used(p, 100, false);
	assert_int_equal(p->a.tx.span, UR_CHAN_DATA);
}

static void who_streams_takes_what_there_is(void **state)
{
	struct pair *p = *state;

	assert_in_range(used(p, 400, false), 3u << 20, UR_CHAN_DATA);
}

static void who_sleeps_is_rung_once(void **state)
{
	struct pair *p = *state;

	put(&p->a, 1);
	assert_false(ur_spsc_must_signal(&p->a.tx));
	ur_spsc_sleeps(&p->b.rx, true);
	put(&p->a, 2);
	assert_true(ur_spsc_must_signal(&p->a.tx));
	put(&p->a, 3);
	assert_false(ur_spsc_must_signal(&p->a.tx));
	ur_spsc_sleeps(&p->b.rx, true);
	ur_spsc_sleeps(&p->b.rx, false);
	assert_false(ur_spsc_must_signal(&p->a.tx));
}

static void who_polls_is_not_rung(void **state)
{
	struct pair *p = *state;

	ur_spsc_sleeps(&p->b.rx, true);
	ur_spsc_polled(&p->b.rx);
	put(&p->a, 1);
	assert_false(ur_spsc_must_signal(&p->a.tx));
	ur_spsc_sleeps(&p->b.rx, false);
	assert_false(ur_spsc_must_signal(&p->a.tx));
	ur_spsc_sleeps(&p->b.rx, true);
	assert_true(ur_spsc_must_signal(&p->a.tx));
	/* Nor told of room. */
	ur_spsc_want_room(&p->a.tx);
	ur_spsc_polled(&p->a.rx);
	get(&p->b);
	assert_false(ur_spsc_release(&p->b.rx, &p->b.tx));
	ur_spsc_sleeps(&p->a.rx, false);
	put(&p->a, 2);
	get(&p->b);
	assert_true(ur_spsc_release(&p->b.rx, &p->b.tx));
}

static void who_waits_for_room_is_told_once(void **state)
{
	struct pair *p = *state;

	put(&p->a, 1);
	ur_spsc_want_room(&p->a.tx);
	assert_false(ur_spsc_release(&p->b.rx,
				     &p->b.tx)); /* nothing has become free */
	get(&p->b);
	assert_true(ur_spsc_release(&p->b.rx, &p->b.tx));
	put(&p->a, 1);
	get(&p->b);
	assert_false(ur_spsc_release(&p->b.rx, &p->b.tx));
}

static void numbers_of_a_liar_are_not_followed(void **state)
{
	struct pair *p = *state;

	assert_null(ur_spsc_payload(&p->b.rx, 1, 8));
	assert_null(ur_spsc_payload(&p->b.rx, UR_CHAN_DATA - 64, 65));
	assert_non_null(ur_spsc_payload(&p->b.rx, UR_CHAN_DATA - 64, 64));
	assert_non_null(
		ur_spsc_payload(&p->b.rx, 5 * UR_CHAN_DATA, UR_CHAN_DATA));
	assert_null(ur_spsc_payload(&p->b.rx, 0, UINT32_MAX));
	/* It claims to have consumed more than was produced. */
	for (uint32_t i = 0; i < UR_CHAN_DESCS; i++)
		put(&p->a, i);
	p->b.rx.tail = UR_CHAN_DESCS * 3;
	p->b.rx.data_tail = 1 << 20;
	ur_spsc_release(&p->b.rx, &p->b.tx);
	assert_false(ur_spsc_has_room(&p->a.tx, 0));
}

static void only_a_channel_is_one(void **state)
{
	struct pair *p = *state;
	struct ur_chan c;

	memset(p->mem, 0, 16);
	assert_int_equal(ur_chan_attach(&c, p->mem, 0), -71 /* EPROTO */);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(descriptors_come_in_order_over_many_laps),
		TEST(positions_wrap),
		TEST(a_full_ring_takes_no_more),
		TEST(room_is_told_early),
		TEST(a_row_is_seen_coming),
		TEST(the_directions_are_apart),
		TEST(payload_is_not_overwritten),
		TEST(who_sleeps_is_rung_once),
		TEST(who_polls_is_not_rung),
		TEST(who_waits_stays_where_it_is_warm),
		TEST(who_streams_takes_what_there_is),
		TEST(who_waits_for_room_is_told_once),
		TEST(numbers_of_a_liar_are_not_followed),
		TEST(only_a_channel_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
