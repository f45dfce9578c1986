/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "core/qp.h"

struct fixture {
	struct ur_evq async;
	struct ur_pd pd;
	struct ur_cq scq, rcq;
	struct ur_srq srq;
	struct ur_qp qp;
	struct ur_qp_init init;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(ur_evq_init(&f->async), 0);
	assert_int_equal(ur_cq_init(&f->scq, 10, NULL, NULL, NULL), 0);
	assert_int_equal(ur_cq_init(&f->rcq, 10, NULL, NULL, NULL), 0);
	assert_int_equal(ur_srq_init(&f->srq, &f->pd, 1, 1, 0, NULL, NULL), 0);
	f->init = (struct ur_qp_init){
		.type = UR_QPT_RC,
		.pd = &f->pd,
		.send_cq = &f->scq,
		.recv_cq = &f->rcq,
		.cap = { 10, 20, 2, 3, 100 },
		.sq_sig_all = true,
		.async = &f->async,
		.object = f,
	};
	*state = f;
	return 0;
}

/* Every test releases its references. */
static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(ur_srq_fini(&f->srq), 0);
	assert_int_equal(ur_cq_fini(&f->scq), 0);
	assert_int_equal(ur_cq_fini(&f->rcq), 0);
	assert_int_equal(f->pd.users, 0);
	ur_evq_fini(&f->async);
	free(f);
	return 0;
}

static void test_grants_what_was_asked(void **state)
{
	struct fixture *f = *state;
	const struct ur_qp_cap *cap = &f->init.cap;

	f->qp.qpn = 77; /* init clears what the memory held */
	assert_int_equal(ur_qp_init(&f->qp, &f->init), 0);
	assert_int_equal(f->qp.qpn, 0);
	assert_int_equal(f->qp.state, UR_QPS_RESET);
	assert_true(f->qp.sq_sig_all);
	assert_int_equal(cap->max_send_wr, 10);
	assert_int_equal(cap->max_recv_wr, 20);
	assert_int_equal(cap->max_send_sge, 2);
	assert_int_equal(cap->max_recv_sge, 3);
	assert_int_equal(cap->max_inline, 100);
	assert_memory_equal(cap, &f->qp.attr.cap, sizeof(*cap));
	assert_int_equal(f->qp.sq.max_wr, 10);
	assert_int_equal(f->qp.rq.max_wr, 20);
	ur_qp_fini(&f->qp);
}

static void test_objects_in_use_cannot_go(void **state)
{
	struct fixture *f = *state;

	f->init.srq = &f->srq;
	assert_int_equal(ur_qp_init(&f->qp, &f->init), 0);
	assert_int_equal(ur_cq_fini(&f->scq), -EBUSY);
	assert_int_equal(ur_cq_fini(&f->rcq), -EBUSY);
	assert_int_equal(ur_srq_fini(&f->srq), -EBUSY);
	assert_int_equal(f->pd.users, 2); /* the QP and the SRQ */
	ur_qp_fini(&f->qp);
}

static void test_with_an_srq_there_is_no_receive_queue(void **state)
{
	struct fixture *f = *state;

	f->init.srq = &f->srq;
	f->init.cap.max_recv_wr = UR_MAX_WR + 1; /* ignored */
	assert_int_equal(ur_qp_init(&f->qp, &f->init), 0);
	assert_int_equal(f->init.cap.max_recv_wr, 0);
	assert_int_equal(f->init.cap.max_recv_sge, 0);
	assert_null(ur_rq_stage(&f->qp.rq));
	ur_qp_fini(&f->qp);
}

static void refused(struct fixture *f, struct ur_qp_init init)
{
	assert_int_equal(ur_qp_init(&f->qp, &init), -EINVAL);
	assert_int_equal(f->pd.users, 1); /* the SRQ: no reference was left */
	assert_int_equal(f->scq.users, 0);
}

static void test_beyond_each_limit(void **state)
{
	const struct ur_qp_cap most = { UR_MAX_WR, UR_MAX_WR, UR_MAX_SGE,
					UR_MAX_SGE, UR_MAX_INLINE };
	struct fixture *f = *state;
	struct ur_qp_init init = f->init;

	init.cap = most;
	assert_int_equal(ur_qp_init(&f->qp, &init), 0);
	ur_qp_fini(&f->qp);
	for (int i = 0; i < 5; i++) {
		init.cap = most;
		init.cap.max_send_wr += i == 0;
		init.cap.max_recv_wr += i == 1;
		init.cap.max_send_sge += i == 2;
		init.cap.max_recv_sge += i == 3;
		init.cap.max_inline += i == 4;
		refused(f, init);
	}
}

static void test_missing_or_unknown_objects(void **state)
{
	struct fixture *f = *state;
	struct ur_qp_init init = f->init;

	init.type = (enum ur_qp_type)(UR_QPT_UD + 1);
	refused(f, init);
	init = f->init;
	init.pd = NULL;
	refused(f, init);
	init = f->init;
	init.send_cq = NULL;
	refused(f, init);
	init = f->init;
	init.recv_cq = NULL;
	refused(f, init);
}

static void test_fini_removes_completions_and_events(void **state)
{
	struct fixture *f = *state;
	struct ur_cqe mine = { .qp = &f->qp }, other = { .wr_id = 5 };

	assert_int_equal(ur_qp_init(&f->qp, &f->init), 0);
	ur_cq_push(&f->scq, &mine, false);
	ur_cq_push(&f->scq, &other, false);
	ur_cq_push(&f->rcq, &mine, false);
	ur_qp_event(&f->qp, UR_EVENT_QP_FATAL);
	assert_true(unit_readable(f->async.fd));
	ur_qp_fini(&f->qp);
	assert_false(unit_readable(f->async.fd));
	assert_true(ur_cq_is_empty(&f->rcq));
	assert_int_equal(ur_cq_poll(&f->scq, &mine, 1), 1);
	assert_int_equal(mine.wr_id, 5);
	assert_true(ur_cq_is_empty(&f->scq));
}

static void test_event_names_the_qp(void **state)
{
	struct fixture *f = *state;
	struct ur_ev ev;

	assert_int_equal(ur_qp_init(&f->qp, &f->init), 0);
	ur_qp_event(&f->qp, UR_EVENT_COMM_EST);
	assert_int_equal(ur_evq_take(&f->async, &ev), 0);
	assert_int_equal(ev.type, UR_EVENT_COMM_EST);
	assert_ptr_equal(ev.object, f);
	ur_evq_ack(&f->async, ev.source, 1);
	ur_qp_fini(&f->qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_grants_what_was_asked),
		T(test_objects_in_use_cannot_go),
		T(test_with_an_srq_there_is_no_receive_queue),
		T(test_beyond_each_limit),
		T(test_missing_or_unknown_objects),
		T(test_fini_removes_completions_and_events),
		T(test_event_names_the_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
