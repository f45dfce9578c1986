/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "core/srq.h"

struct fixture {
	struct ur_evq async;
	struct ur_pd pd;
	struct ur_srq srq;
	struct ur_rwqe *out;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->out = malloc(sizeof(*f->out) + UR_MAX_SGE * sizeof(struct ur_sge));
	assert_int_equal(ur_evq_init(&f->async), 0);
	assert_int_equal(ur_srq_init(&f->srq, &f->pd, 5, 2, 0, &f->async, f),
			 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->pd.users, 1);
	assert_int_equal(ur_srq_fini(&f->srq), 0);
	assert_int_equal(f->pd.users, 0);
	ur_evq_fini(&f->async);
	free(f->out);
	free(f);
	return 0;
}

static bool post(struct ur_srq *srq, uint64_t wr_id)
{
	struct ur_rwqe *w;

	ur_latch_lock(&srq->rq.lock);
	w = ur_rq_stage(&srq->rq);
	if (w) {
		w->wr_id = wr_id;
		w->num_sge = 2;
		w->length = 30;
		w->sge[0] = (struct ur_sge){ wr_id, 10, 1 };
		w->sge[1] = (struct ur_sge){ wr_id, 20, 2 };
		ur_rq_commit(&srq->rq);
	}
	ur_latch_unlock(&srq->rq.lock);
	return w != NULL;
}

static void expect_take(struct fixture *f, uint64_t wr_id)
{
	assert_true(ur_srq_take(&f->srq, f->out));
	assert_int_equal(f->out->wr_id, wr_id);
	assert_int_equal(f->out->num_sge, 2);
	assert_int_equal(f->out->length, 30);
	assert_int_equal(f->out->sge[0].length, 10);
	assert_int_equal(f->out->sge[1].addr, wr_id);
	assert_int_equal(f->out->sge[1].lkey, 2);
}

static void expect_limit_event(struct fixture *f)
{
	struct ur_ev ev;

	assert_true(unit_readable(f->async.fd));
	assert_int_equal(ur_evq_take(&f->async, &ev), 0);
	assert_int_equal(ev.type, UR_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.object, f);
	ur_evq_ack(&f->async, ev.source, 1);
	assert_false(unit_readable(f->async.fd));
}

static void test_limits_of_size(void **state)
{
	struct fixture *f = *state;
	struct ur_srq s;

	assert_int_equal(ur_srq_init(&s, &f->pd, 0, 1, 0, NULL, NULL), -EINVAL);
	assert_int_equal(ur_srq_init(&s, &f->pd, UR_MAX_SRQ_WR + 1, 1, 0, NULL,
				     NULL),
			 -EINVAL);
	assert_int_equal(ur_srq_init(&s, &f->pd, 1, UR_MAX_SGE + 1, 0, NULL,
				     NULL),
			 -EINVAL);
	assert_int_equal(ur_srq_init(&s, &f->pd, 1, 1, 2, NULL, NULL), -EINVAL);
	assert_int_equal(ur_srq_init(&s, &f->pd, UR_MAX_SRQ_WR, UR_MAX_SGE, 0,
				     NULL, NULL),
			 0);
	for (uint32_t i = 0; i < UR_MAX_SRQ_WR; i++)
		assert_true(post(&s, i));
	assert_false(post(&s, 0));
	assert_int_equal(ur_srq_fini(&s), 0);
}

static void test_receives_in_order_over_the_wrap(void **state)
{
	struct fixture *f = *state;
	uint64_t in = 0, got = 0;

	for (int round = 0; round < 50; round++) {
		while (post(&f->srq, in))
			in++;
		assert_int_equal(in - got, 5);
		for (int i = 0; i < 3; i++)
			expect_take(f, got++);
	}
	while (got < in)
		expect_take(f, got++);
	assert_false(ur_srq_take(&f->srq, f->out));
}

static void test_limit_event_is_one_shot(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 0; i < 5; i++)
		post(&f->srq, i);
	assert_int_equal(ur_srq_set_limit(&f->srq, 6), -EINVAL);
	assert_int_equal(ur_srq_set_limit(&f->srq, 3), 0);
	expect_take(f, 0);
	expect_take(f, 1); /* three left: not below the limit */
	assert_false(unit_readable(f->async.fd));
	expect_take(f, 2);
	expect_limit_event(f);
	assert_int_equal(f->srq.limit, 0);
	expect_take(f, 3);
	expect_take(f, 4);
	assert_false(unit_readable(f->async.fd));
}

static void test_limit_above_what_is_posted(void **state)
{
	struct fixture *f = *state;

	post(&f->srq, 0);
	assert_int_equal(ur_srq_set_limit(&f->srq, 1), 0);
	assert_false(unit_readable(f->async.fd));
	assert_int_equal(ur_srq_set_limit(&f->srq, 2), 0);
	expect_limit_event(f);
	assert_int_equal(ur_srq_set_limit(&f->srq, 1), 0);
	assert_int_equal(ur_srq_set_limit(&f->srq, 0), 0); /* off */
	expect_take(f, 0);
	assert_false(unit_readable(f->async.fd));
}

static void test_resize_keeps_receives(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 0; i < 3; i++) {
		post(&f->srq, i);
		expect_take(f, i);
	}
	for (uint64_t i = 0; i < 5; i++)
		post(&f->srq, i);
	assert_int_equal(ur_srq_resize(&f->srq, 4), -EINVAL);
	assert_int_equal(ur_srq_resize(&f->srq, UR_MAX_SRQ_WR + 1), -EINVAL);
	assert_int_equal(ur_srq_resize(&f->srq, 20), 0);
	for (uint64_t i = 5; i < 20; i++)
		assert_true(post(&f->srq, i));
	assert_false(post(&f->srq, 20));
	for (uint64_t i = 0; i < 20; i++)
		expect_take(f, i);
	assert_int_equal(ur_srq_set_limit(&f->srq, 9), 0);
	expect_limit_event(f);
	assert_int_equal(ur_srq_resize(&f->srq, 0), -EINVAL);
	assert_int_equal(ur_srq_resize(&f->srq, 1), 0);
	assert_true(post(&f->srq, 0));
	assert_false(post(&f->srq, 1));
	assert_int_equal(ur_srq_set_limit(&f->srq, 1), 0);
	assert_int_equal(ur_srq_resize(&f->srq, UR_MAX_SRQ_WR), 0);
	assert_int_equal(ur_srq_set_limit(&f->srq, 0), 0);
}

static void test_fini_refuses_while_in_use(void **state)
{
	struct fixture *f = *state;

	f->srq.users = 1;
	assert_int_equal(ur_srq_fini(&f->srq), -EBUSY);
	f->srq.users = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_limits_of_size),
		T(test_receives_in_order_over_the_wrap),
		T(test_limit_event_is_one_shot),
		T(test_limit_above_what_is_posted),
		T(test_resize_keeps_receives),
		T(test_fini_refuses_while_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
