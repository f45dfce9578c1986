/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "urnicd/slots.h"

#define SECOND 1000000000ull
#define UID    1000

static struct ur_slots s;
static const int alice, bob;

static void add(unsigned int n, enum ur_slot_state state, uint64_t now)
{
	while (n--)
		ur_slots_add(&s, (int)s.count + 100, s.count + 5000, state,
			     now);
}

static unsigned int take(uint64_t now)
{
	unsigned int slot = 0;

	assert_int_equal(ur_slots_take(&s, &alice, UID, now, &slot), 0);
	return slot;
}

static int setup(void **state)
{
	ur_slots_init(&s);
	return 0;
}

static void slot_zero_is_never_given(void **state)
{
	unsigned int slot;

	add(16, UR_SLOT_FREE, 0);
	for (unsigned int i = 1; i < 16; i++)
		assert_int_equal(take(0), i);
	assert_int_equal(ur_slots_take(&s, &alice, UID, 0, &slot), -EAGAIN);
	assert_int_equal(s.used, 15);
}

static void empty_asks_for_a_batch(void **state)
{
	unsigned int slot;

	assert_int_equal(ur_slots_take(&s, &alice, UID, 0, &slot), -EAGAIN);
}

static void longest_unused_first_after_quarantine(void **state)
{
	uint64_t q = UR_SLOT_QUARANTINE_NS;
	unsigned int slot;

	add(4, UR_SLOT_FREE, 0);
	for (int i = 0; i < 3; i++)
		take(0);
	assert_int_equal(ur_slots_put(&s, &alice, 2, 0, 1 * SECOND), 0);
	assert_int_equal(ur_slots_put(&s, &alice, 1, 0, 2 * SECOND), 0);
	assert_int_equal(ur_slots_take(&s, &bob, UID, SECOND + q - 1, &slot),
			 -EAGAIN);
	assert_int_equal(take(2 * SECOND + q), 2);
	assert_int_equal(take(2 * SECOND + q), 1);
}

/* All that is free rests: a new batch must be usable nevertheless. */
static void new_batch_passes_the_quarantined(void **state)
{
	unsigned int slot;

	add(4, UR_SLOT_FREE, 0);
	for (int i = 0; i < 3; i++)
		take(0);
	for (unsigned int i = 1; i < 4; i++)
		assert_int_equal(ur_slots_put(&s, &alice, i, 0, SECOND), 0);
	assert_int_equal(ur_slots_take(&s, &alice, UID, SECOND, &slot),
			 -EAGAIN);
	add(3, UR_SLOT_FREE, SECOND);
	assert_int_equal(take(SECOND), 4);
	assert_int_equal(take(SECOND), 5);
	assert_int_equal(take(SECOND), 6);
	assert_int_equal(take(SECOND + UR_SLOT_QUARANTINE_NS), 1);
}

static void quarantine_ends_early_only_when_full(void **state)
{
	unsigned int slot;

	add(UR_SLOTS, UR_SLOT_FREE, 0);
	for (unsigned int i = 1; i < UR_SLOTS; i++)
		take(0);
	assert_int_equal(ur_slots_take(&s, &bob, UID, 0, &slot), -ENOSPC);
	assert_int_equal(ur_slots_put(&s, &alice, 77, 0, SECOND), 0);
	assert_int_equal(take(SECOND), 77);
	assert_int_equal(ur_slots_take(&s, &bob, UID, SECOND, &slot), -ENOSPC);
}

static void only_the_owner_gives_back(void **state)
{
	add(4, UR_SLOT_FREE, 0);
	assert_int_equal(take(0), 1);
	assert_int_equal(ur_slots_put(&s, &bob, 1, 0, 0), -ENOENT);
	assert_int_equal(ur_slots_put(&s, &alice, 2, 0, 0), -ENOENT);
	assert_int_equal(ur_slots_put(&s, &alice, 0, 0, 0), -ENOENT);
	assert_int_equal(ur_slots_put(&s, &alice, 900, 0, 0), -ENOENT);
	assert_int_equal(ur_slots_put(&s, &alice, 1, 0, 0), 0);
	assert_int_equal(ur_slots_put(&s, &alice, 1, 0, 0), -ENOENT);
	assert_int_equal(s.used, 0);
}

static void claim_needs_the_socket(void **state)
{
	add(8, UR_SLOT_ORPHAN, 0);
	assert_int_equal(ur_slots_claim(&s, &alice, 3, 5003), 0);
	assert_int_equal(ur_slots_claim(&s, &alice, 3, 5003), 0); /* again */
	assert_int_equal(ur_slots_claim(&s, &bob, 3, 5003), -EBUSY);
	assert_int_equal(ur_slots_claim(&s, &bob, 4, 5003), -ENOENT);
	assert_int_equal(ur_slots_claim(&s, &bob, 0, 5000), -ENOENT);
	assert_int_equal(ur_slots_claim(&s, &bob, 8, 5008), -ENOENT);
	assert_int_equal(ur_slots_claim(&s, &bob, 5000, 0), -ENOENT);
	assert_int_equal(s.used, 1);
}

/* Even when every other slot is taken it waits out its time. */
static void orphan_is_the_last_resort(void **state)
{
	unsigned int slot;

	add(2, UR_SLOT_ORPHAN, 0);
	add(UR_SLOTS - 2, UR_SLOT_FREE, 0);
	for (unsigned int i = 2; i < UR_SLOTS; i++)
		assert_int_equal(take(0), i);
	assert_int_equal(ur_slots_take(&s, &bob, UID, UR_SLOT_ORPHAN_NS - 1,
				       &slot),
			 -ENOSPC);
	assert_int_equal(take(UR_SLOT_ORPHAN_NS), 1);
}

static void broken_is_never_given_again(void **state)
{
	unsigned int slot;

	add(2, UR_SLOT_FREE, 0);
	assert_int_equal(take(0), 1);
	assert_int_equal(ur_slots_put(&s, &alice, 1, 1, 0), 0);
	assert_int_equal(ur_slots_take(&s, &bob, UID, 99 * SECOND, &slot),
			 -EAGAIN);
	assert_int_equal(ur_slots_claim(&s, &alice, 1, 5001), -ENOENT);
}

static void slots_of_an_owner(void **state)
{
	add(16, UR_SLOT_FREE, 0);
	for (int i = 0; i < 5; i++)
		take(0);
	ur_slots_put(&s, &alice, 2, 0, 0);
	ur_slots_claim(&s, &bob, 2, 5002);
	assert_int_equal(ur_slots_next(&s, &alice, 1), 1);
	assert_int_equal(ur_slots_next(&s, &alice, 2), 3);
	assert_int_equal(ur_slots_next(&s, &bob, 0), 2);
	assert_int_equal(ur_slots_next(&s, &bob, 3), UR_SLOTS);
}

#define T(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(slot_zero_is_never_given),
		T(empty_asks_for_a_batch),
		T(longest_unused_first_after_quarantine),
		T(new_batch_passes_the_quarantined),
		T(quarantine_ends_early_only_when_full),
		T(only_the_owner_gives_back),
		T(claim_needs_the_socket),
		T(orphan_is_the_last_resort),
		T(broken_is_never_given_again),
		T(slots_of_an_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
