/* SPDX-License-Identifier: BSD-2-Clause */
/* IDs and their limits, and the choice of the listener for a request. */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint32_t number(const struct ur_cm_id *id)
{
	struct ur_cm_info info;

	ur_cm_id_info(id, &info);
	return info.local_id;
}

/* Far more than are in use at once: none repeats, all are of our slot. */
static void no_number_comes_again_soon(void **state)
{
	enum { N = 300000 };
	uint32_t *seen = malloc(N * sizeof(*seen)), steps = 0;
	struct fix *f = *state;

	assert_non_null(seen);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(
			ur_cm_id_create(f->a.cm, PS_TCP, NULL, &f->a.id), 0);
		seen[i] = number(f->a.id);
		assert_int_equal(UR_CM_SLOT(seen[i]), A_SLOT);
		steps += i && seen[i] == seen[i - 1] + 1;
		ur_cm_id_destroy(f->a.id, f->now_ns);
	}
	assert_true(steps < 10); /* no counting */
	qsort(seen, N, sizeof(*seen), by_value);
	for (uint32_t i = 1; i < N; i++)
		assert_int_not_equal(seen[i], seen[i - 1]);
	free(seen);
}

static void slot_out_of_range(void **state)
{
	struct ur_cm_config cfg = { .slot = 1024 };
	struct ur_cm *cm;

	assert_int_equal(ur_cm_create(&cfg, &cm), -EINVAL);
}

static void as_many_ids_as_there_may_be(void **state)
{
	struct fix *f = *state;
	struct ur_cm_id *id, *last = NULL;

	for (uint32_t i = 0; i < UR_CM_MAX_IDS; i++)
		assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &last),
				 0);
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &id), -ENOSPC);
	ur_cm_id_destroy(last, f->now_ns);
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &id), 0);
}

/* A request beyond the limit is dropped; the oldest lingering id makes room. */
static void requests_beyond_the_limit(void **state)
{
	struct fix *f = *state;
	struct ur_cm_id *id;

	fix_request(f);
	for (uint32_t i = 2; i < UR_CM_MAX_IDS; i++)
		assert_int_equal(ur_cm_id_create(f->b.cm, PS_TCP, NULL, &id),
				 0);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	no_event(f, &f->b);
	assert_int_equal(ur_cm_counters(f->b.cm)->drop_resources, 1);
	ur_cm_id_destroy(f->b.id, f->now_ns); /* to REJ_SENT */
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
}

static struct ur_cm_id *listen_at(struct fix *f, const uint8_t addr[16],
				  bool v6_only)
{
	struct ur_cm_id *id;

	assert_int_equal(ur_cm_id_create(f->b.cm, PS_TCP, NULL, &id), 0);
	ur_cm_id_set_user(id, id);
	assert_int_equal(ur_cm_listen(id, addr, PORT, v6_only, 0), 0);
	return id;
}

/* The listener that gets a request from A for addr; NULL: none. */
static struct ur_cm_id *who_gets(struct fix *f, const uint8_t from[16],
				 const uint8_t addr[16])
{
	memcpy(f->a.addr, from, 16);
	memcpy(f->b.addr, addr, 16);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	give(f, &f->b);
	take(f, &f->a, UR_CM_REJ);
	if (!ur_cm_take_event(f->b.cm, &f->ev)) {
		take(f, &f->b, UR_CM_REJ);
		return NULL;
	}
	assert_int_equal(f->ev.type, UR_CM_REQUEST);
	ur_cm_id_destroy(f->ev.id, f->now_ns);
	take(f, &f->b, UR_CM_REJ);
	return f->ev.user;
}

static void the_most_exact_listener(void **state)
{
	static const uint8_t any6[16], any4[16] = { [10] = 0xff, [11] = 0xff };
	const uint8_t c6[16] = { 0xfd, [15] = 1 }, s6[16] = { 0xfd, [15] = 2 };
	struct ur_cm_id *dual, *exact, *four, *six;
	struct fix *f = *state;
	uint8_t c4[16], s4[16], t4[16];

	addr4(c4, 1);
	addr4(s4, 2);
	addr4(t4, 3);
	assert_null(who_gets(f, c4, s4));
	dual = listen_at(f, any6, false);
	assert_ptr_equal(who_gets(f, c4, s4), dual);
	assert_ptr_equal(who_gets(f, c6, s6), dual);
	four = listen_at(f, any4, false);
	assert_ptr_equal(who_gets(f, c4, s4), four);
	assert_ptr_equal(who_gets(f, c6, s6), dual);
	exact = listen_at(f, s4, false);
	assert_ptr_equal(who_gets(f, c4, s4), exact);
	assert_ptr_equal(who_gets(f, c4, t4), four);
	ur_cm_id_destroy(four, f->now_ns);
	ur_cm_id_destroy(dual, f->now_ns);
	assert_null(who_gets(f, c4, t4));
	six = listen_at(f, any6, true);
	assert_null(who_gets(f, c4, t4));
	assert_ptr_equal(who_gets(f, c6, s6), six);
}

/* Changing the owner of a listener also moves its untaken events. */
static void owner_of_the_listener_changes(void **state)
{
	struct fix *f = *state;
	char other;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	ur_cm_id_set_user(f->listener, &other);
	assert_true(ur_cm_take_event(f->b.cm, &f->ev));
	assert_int_equal(f->ev.type, UR_CM_REQUEST);
	assert_ptr_equal(f->ev.user, &other);
}

static void the_same_listener_twice(void **state)
{
	struct fix *f = *state;
	struct ur_cm_id *id;
	uint8_t addr[16];

	addr4(addr, 2);
	listen_at(f, addr, false);
	assert_int_equal(ur_cm_id_create(f->b.cm, PS_TCP, NULL, &id), 0);
	assert_int_equal(ur_cm_listen(id, addr, PORT, false, 0), -EADDRINUSE);
	assert_int_equal(ur_cm_listen(id, addr, PORT + 1, false, 0), 0);
	assert_int_equal(ur_cm_id_create(f->b.cm, PS_UDP, NULL, &id), 0);
	assert_int_equal(ur_cm_listen(id, addr, PORT, false, 0), 0);
}

static void count(void *arg, const struct ur_cm_id *id)
{
	unsigned int *n = arg;

	++*n;
}

/* 20,000 ids without an owner: the number of remembered ones is limited. */
static void lingering_is_limited(void **state)
{
	struct fix *f = *state;
	unsigned int n = 0;

	fix_listen(f, PS_UDP);
	for (unsigned int i = 0; i < 20000; i++) {
		fix_connect(f, PS_UDP);
		pass(f, &f->a, UR_CM_SIDR_REQ);
		event(f, &f->b, UR_CM_REQUEST);
		ur_cm_id_destroy(f->b.id, f->now_ns);
		pass(f, &f->b, UR_CM_SIDR_REP);
		event(f, &f->a, UR_CM_UNREACHABLE);
		ur_cm_id_destroy(f->a.id, f->now_ns);
	}
	ur_cm_for_each(f->b.cm, count, &n);
	assert_int_equal(n, 1024 + 1);
	wait_ns(f, 20 * S);
	n = 0;
	ur_cm_for_each(f->b.cm, count, &n);
	assert_int_equal(n, 1);
	assert_quiet(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(no_number_comes_again_soon),
		FIX_TEST(slot_out_of_range),
		FIX_TEST(as_many_ids_as_there_may_be),
		FIX_TEST(requests_beyond_the_limit),
		FIX_TEST(the_most_exact_listener),
		FIX_TEST(owner_of_the_listener_changes),
		FIX_TEST(the_same_listener_twice),
		FIX_TEST(lingering_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
