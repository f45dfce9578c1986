/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "core/ringmem.h"
#include "core/wqe.h"

static void test_powers_of_two(void **state)
{
	assert_int_equal(ur_pow2(1), 1);
	assert_int_equal(ur_pow2(2), 2);
	assert_int_equal(ur_pow2(3), 4);
	assert_int_equal(ur_pow2(64), 64);
	assert_int_equal(ur_pow2(65), 128);
	assert_int_equal(ur_pow2(1u << 31), 1u << 31);
}

static void test_send_queue_beyond_its_limits(void **state)
{
	struct ur_sq sq;

	assert_int_equal(ur_sq_init(&sq, UR_MAX_WR + 1, 1, 0, 0), -EINVAL);
	assert_int_equal(ur_sq_init(&sq, 1, UR_MAX_SGE + 1, 0, 0), -EINVAL);
	assert_int_equal(ur_sq_init(&sq, 1, 1, UR_MAX_INLINE + 1, 0), -EINVAL);
}

static void test_receive_queue_beyond_its_limits(void **state)
{
	struct ur_rq rq;

	assert_int_equal(ur_rq_init(&rq, UR_MAX_WR + 1, 1, UR_MAX_WR), -EINVAL);
	assert_int_equal(ur_rq_init(&rq, UR_MAX_SRQ_WR + 1, 1, UR_MAX_SRQ_WR),
			 -EINVAL);
	assert_int_equal(ur_rq_init(&rq, 1, UR_MAX_SGE + 1, UR_MAX_WR),
			 -EINVAL);
}

/* The bytes of each slot are disjoint. */
static void fill_sq(uint32_t max_wr, uint32_t max_sge, uint32_t max_inline)
{
	uint32_t room = max_sge * (uint32_t)sizeof(struct ur_sge);
	struct ur_sq sq;

	if (room < max_inline)
		room = max_inline;
	assert_int_equal(ur_sq_init(&sq, max_wr, max_sge, max_inline, 0), 0);
	assert_int_equal(sq.stride % 64, 0);
	for (uint32_t i = 0; i < max_wr; i++) {
		struct ur_swqe *w = ur_sq_stage(&sq);

		assert_non_null(w);
		w->wr_id = i;
		w->wr.ud.qkey = i; /* the last field before the data */
		memset(w->data.inline_data, (int)i, room);
	}
	assert_null(ur_sq_stage(&sq)); /* one more */
	assert_int_equal(sq.tail, 0);  /* nothing is visible yet */
	ur_sq_commit(&sq);
	assert_int_equal(sq.tail, max_wr);
	for (uint32_t i = 0; i < max_wr; i++) {
		const struct ur_swqe *w = ur_sq_slot(&sq, i);

		assert_int_equal(w->wr_id, i);
		assert_int_equal(w->wr.ud.qkey, i);
		if (room > 0) {
			assert_int_equal(w->data.inline_data[0], (uint8_t)i);
			assert_int_equal(w->data.inline_data[room - 1],
					 (uint8_t)i);
		}
	}
	sq.head = 1;
	assert_ptr_equal(ur_sq_stage(&sq), ur_sq_slot(&sq, max_wr));
	assert_null(ur_sq_stage(&sq));
	ur_sq_fini(&sq);
}

static void test_send_queue_filled_and_one_more(void **state)
{
	fill_sq(1, 0, 0);
	fill_sq(1, 1, 0);
	fill_sq(5, 3, 100);
	fill_sq(100, UR_MAX_SGE, 0);
	fill_sq(100, 0, UR_MAX_INLINE);
	fill_sq(UR_MAX_WR, UR_MAX_SGE, UR_MAX_INLINE);
}

static void test_abort_forgets_what_was_staged(void **state)
{
	struct ur_sq sq;

	assert_int_equal(ur_sq_init(&sq, 2, 1, 0, 0), 0);
	ur_sq_stage(&sq)->wr_id = 1;
	ur_sq_commit(&sq);
	ur_sq_stage(&sq)->wr_id = 2;
	ur_sq_abort(&sq);
	assert_int_equal(sq.tail, 1);
	assert_non_null(ur_sq_stage(&sq));
	assert_null(ur_sq_stage(&sq));
	ur_sq_fini(&sq);
}

static void fill_rq(uint32_t max_wr, uint32_t max_sge, uint32_t limit)
{
	struct ur_rq rq;

	assert_int_equal(ur_rq_init(&rq, max_wr, max_sge, limit), 0);
	for (uint32_t i = 0; i < max_wr; i++) {
		struct ur_rwqe *w = ur_rq_stage(&rq);

		assert_non_null(w);
		w->wr_id = i;
		for (uint32_t s = 0; s < max_sge; s++)
			w->sge[s].lkey = i + s;
		ur_rq_commit(&rq);
	}
	assert_null(ur_rq_stage(&rq));
	for (uint32_t i = 0; i < max_wr; i++) {
		const struct ur_rwqe *w = ur_rq_slot(&rq, i);

		assert_int_equal(w->wr_id, i);
		for (uint32_t s = 0; s < max_sge; s++)
			assert_int_equal(w->sge[s].lkey, i + s);
	}
	ur_rq_fini(&rq);
}

static void test_receive_queue_filled_and_one_more(void **state)
{
	fill_rq(1, 0, UR_MAX_WR);
	fill_rq(3, 1, UR_MAX_WR);
	fill_rq(UR_MAX_WR, UR_MAX_SGE, UR_MAX_WR);
	fill_rq(UR_MAX_SRQ_WR, UR_MAX_SGE, UR_MAX_SRQ_WR);
}

static void test_queues_without_room(void **state)
{
	struct ur_sq sq;
	struct ur_rq rq;

	assert_int_equal(ur_sq_init(&sq, 0, 1, 0, 0), 0);
	assert_null(ur_sq_stage(&sq));
	ur_sq_fini(&sq);
	assert_int_equal(ur_rq_init(&rq, 0, 0, UR_MAX_WR), 0);
	assert_null(ur_rq_stage(&rq));
	ur_rq_fini(&rq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_powers_of_two),
		cmocka_unit_test(test_send_queue_beyond_its_limits),
		cmocka_unit_test(test_receive_queue_beyond_its_limits),
		cmocka_unit_test(test_send_queue_filled_and_one_more),
		cmocka_unit_test(test_abort_forgets_what_was_staged),
		cmocka_unit_test(test_receive_queue_filled_and_one_more),
		cmocka_unit_test(test_queues_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
