/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"
#include <setjmp.h>

#include <stdlib.h>
#include <string.h>

#include "core/qp.h"

static uint64_t clock_ns;

static uint64_t now(void)
{
	return clock_ns;
}

static int setup(void **state)
{
	struct ur_qp *qp = calloc(1, sizeof(*qp));

	assert_non_null(qp);
	assert_int_equal(ur_sq_init(&qp->sq, 64, 1, 0, 0), 0);
	clock_ns = 1000;
	*state = qp;
	return 0;
}

static int teardown(void **state)
{
	struct ur_qp *qp = *state;

	ur_sq_fini(&qp->sq);
	free(qp->watch);
	free(qp);
	return 0;
}

static void post(struct ur_qp *qp, uint32_t length)
{
	struct ur_swqe *w = ur_sq_stage(&qp->sq);

	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	w->length = length;
	ur_sq_commit(&qp->sq);
	if (ur_qp_is_aside(qp))
		ur_watch_posted(qp);
}

static void complete(struct ur_qp *qp)
{
	if (ur_qp_is_aside(qp))
		ur_watch_completes(qp,
				   ur_sq_slot(&qp->sq, ur_sq_head(&qp->sq)));
	ur_sq_pop(&qp->sq);
}

static void unwatched_counts_nothing(void **state)
{
	struct ur_qp *qp = *state;

	post(qp, 64);
	complete(qp);
	assert_false(ur_qp_is_aside(qp));
	assert_null(qp->watch);
	assert_int_equal(ur_watch_start(qp, now), 0);
	assert_true(ur_qp_is_aside(qp));
	ur_watch_stop(qp);
	assert_false(ur_qp_is_aside(qp));
	post(qp, 64);
	complete(qp);
	ur_watch_received(qp, 9);
	assert_int_equal(qp->watch->sent_bytes, 0);
	assert_int_equal(qp->watch->rcvd_bytes, 0);
	assert_int_equal(qp->watch->latency.samples, 0);
}

static void counts_and_times(void **state)
{
	struct ur_qp *qp = *state;

	assert_int_equal(ur_watch_start(qp, now), 0);
	for (int i = 0; i < 640; i++) {
		post(qp, 64);
		clock_ns += 1000;
		complete(qp);
	}
	assert_int_equal(qp->watch->sent_bytes, 640 * 64);
	assert_in_range(qp->watch->latency.samples, 8, 12);
	assert_int_equal(qp->watch->latency.max_ns, 1000);
	assert_int_equal(ur_latency_at(&qp->watch->latency, 500), 1000);
	/* Few requests in a period: each one is timed in the next. */
	assert_int_equal(ur_watch_start(qp, now), 0);
	assert_int_equal(qp->watch->latency.samples, 0);
	for (int i = 0; i < 10; i++) {
		post(qp, 64);
		complete(qp);
	}
	assert_in_range(qp->watch->latency.samples, 4, 10);
}

/* The timed request is the newest of those posted at once; requests that were
 * complete before it was timed do not confuse it. */
static void batches(void **state)
{
	struct ur_qp *qp = *state;

	post(qp, 1);
	assert_int_equal(ur_watch_start(qp, now), 0);
	post(qp, 1);
	clock_ns += 500;
	complete(qp);
	assert_int_equal(qp->watch->latency.samples, 0);
	clock_ns += 500;
	complete(qp);
	assert_int_equal(qp->watch->latency.samples, 1);
	assert_int_equal(qp->watch->latency.max_ns, 1000);
}

static void percentiles(void **state)
{
	struct ur_latency l = { 0 }, sum = { 0 };

	assert_int_equal(ur_latency_at(&l, 500), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		ur_latency_add(&l, i * 100);
	ur_latency_merge(&sum, &l);
	ur_latency_merge(&sum, &l);
	assert_int_equal(sum.samples, 2000);
	assert_in_range(ur_latency_at(&sum, 500), 50000, 62500);
	assert_in_range(ur_latency_at(&sum, 990), 99000, 100000);
	assert_int_equal(ur_latency_at(&sum, 1000), 100000);
	for (uint64_t ns = 1; ns < 1ull << 40; ns *= 3) {
		struct ur_latency one = { 0 };

		ur_latency_add(&one, ns);
		assert_int_equal(ur_latency_at(&one, 500), ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(unwatched_counts_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(counts_and_times, setup,
						teardown),
		cmocka_unit_test_setup_teardown(batches, setup, teardown),
		cmocka_unit_test(percentiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
