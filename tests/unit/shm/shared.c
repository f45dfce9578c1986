/* SPDX-License-Identifier: BSD-2-Clause */
#include "shared.h"

#include "shm/share.h"

void shared_fill(struct target *t, struct call *c)
{
	for (size_t i = 0; i < t->size; i++)
		t->mem[i] = (uint8_t)(i * 13 + 5);
}

void shared_check_fill(struct target *t, struct call *c)
{
	for (size_t i = 8; i < t->size; i++)
		c->out[0] += t->mem[i] != (uint8_t)(i * 13 + 5);
}

/* What the application's next call does; out: was there a request? */
static void enter_adapter(struct target *t, struct call *c)
{
	c->out[0] = ur_share_requested(t->own);
	ur_share_do(t->own);
}

bool shared_use_much(struct rig *r, struct region m)
{
	uint64_t w;

	ur_direct_allow_cma(r->direct, false);
	rig_warm(r, m.key, m.va);
	for (int i = 0; i < 300; i++)
		rig_read(r, m, 0, &w, 8);
	for (int i = 0; i < 100; i++)
		if (rig_call(r, enter_adapter, 0, 0, 0))
			return true;
	return false;
}

bool shared_is_mapped(struct rig *r, struct region m)
{
	uint64_t w;

	if (rig_read(r, m, 0, &w, 8) == 0)
		return true;
	rig_warm(r, m.key, m.va);
	return rig_read(r, m, 0, &w, 8) == 0;
}

struct region shared_region(struct rig *r, enum kind kind, size_t size)
{
	struct region m = rig_region(r, kind, size, RIG_REMOTE);

	rig_call(r, shared_fill, 0, 0, 0);
	assert_true(shared_use_much(r, m));
	assert_true(shared_is_mapped(r, m));
	assert_int_equal(rig_call(r, shared_check_fill, 0, 0, 0), 0);
	return m;
}

void shared_check_both_ways(struct rig *r, struct region m)
{
	uint64_t w = 0x1234, back = 0;

	assert_int_equal(rig_write(r, m, 0, &w, 8), 0);
	assert_int_equal(rig_peek(r, 0), 0x1234);
	rig_poke(r, 0, 0x5678);
	assert_int_equal(rig_read(r, m, 0, &back, 8), 0);
	assert_int_equal(back, 0x5678);
	assert_int_equal(rig_call(r, shared_check_fill, 0, 0, 0), 0);
}
