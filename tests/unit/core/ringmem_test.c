/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues in memory of the application. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cq.h"
#include "core/qp.h"
#include "core/ringmem.h"
#include "core/srq.h"

#define NONE UINT32_MAX

struct fixture {
	struct ur_ring_source source;
	uint32_t given[3]; /* per ur_ring_what, now in use */
	uint32_t calls;
	uint32_t fail_at; /* this call fails */
	bool decline;	  /* default memory is used */
};

static void *get(void *arg, size_t bytes, enum ur_ring_what what)
{
	struct fixture *f = arg;
	void *p;

	if (f->calls++ == f->fail_at)
		return NULL;
	if (f->decline)
		return UR_RING_USE_DEFAULT;
	p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	memset(p, 0xee, bytes);
	f->given[what]++;
	return p;
}

static void put(void *arg, void *ring, enum ur_ring_what what)
{
	struct fixture *f = arg;

	assert_true(f->given[what] > 0);
	f->given[what]--;
	free(ring);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->source = (struct ur_ring_source){ get, put, f };
	f->fail_at = NONE;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(f->given[i], 0);
	free(f);
	return 0;
}

static void push(struct ur_cq *cq, uint64_t id)
{
	assert_true(ur_cq_push(cq, &(struct ur_cqe){ .wr_id = id }, false));
}

static void test_a_cq_moves_and_grows_there(void **state)
{
	struct fixture *f = *state;
	struct ur_cqe got[2];
	struct ur_cq cq;

	assert_int_equal(ur_cq_init(&cq, 10, NULL, NULL, NULL), 0);
	assert_int_equal(ur_cq_set_ring_source(&cq, &f->source), 0);
	assert_int_equal(f->given[UR_RING_CQ], 1);
	assert_int_equal(cq.cqe, 15);
	push(&cq, 1);
	push(&cq, 2);
	assert_int_equal(ur_cq_resize(&cq, 100), 0);
	assert_int_equal(f->calls, 2);
	assert_int_equal(f->given[UR_RING_CQ], 1);
	assert_int_equal(ur_cq_poll(&cq, got, 2), 2);
	assert_int_equal(got[1].wr_id, 2);
	f->fail_at = f->calls;
	assert_int_equal(ur_cq_resize(&cq, 200), -ENOMEM);
	push(&cq, 3);
	push(&cq, 4);
	assert_int_equal(ur_cq_resize(&cq, 1), -EINVAL); /* two do not fit */
	assert_int_equal(f->given[UR_RING_CQ], 1);
	assert_int_equal(ur_cq_fini(&cq), 0);
}

static void test_a_source_may_decline(void **state)
{
	struct fixture *f = *state;
	struct ur_cq cq;

	f->decline = true;
	assert_int_equal(ur_cq_init(&cq, 10, NULL, NULL, NULL), 0);
	assert_int_equal(ur_cq_set_ring_source(&cq, &f->source), 0);
	push(&cq, 1);
	assert_int_equal(f->calls, 1);
	assert_int_equal(ur_cq_resize(&cq, 100), 0);
	assert_int_equal(ur_cq_fini(&cq), 0);
}

static int make_qp(struct fixture *f, struct ur_qp *qp, struct ur_pd *pd,
		   struct ur_cq *cq)
{
	struct ur_qp_init init = {
		.type = UR_QPT_RC,
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 4, 4, 1, 1, 0 },
		.rings = &f->source,
	};

	return ur_qp_init(qp, &init);
}

static void test_a_qp_has_both_queues_there(void **state)
{
	struct fixture *f = *state;
	struct ur_pd pd = { 0 };
	struct ur_cq cq;
	struct ur_qp *qp = calloc(1, sizeof(*qp));

	assert_int_equal(ur_cq_init(&cq, 10, NULL, NULL, NULL), 0);
	assert_int_equal(make_qp(f, qp, &pd, &cq), 0);
	assert_int_equal(f->given[UR_RING_SQ], 1);
	assert_int_equal(f->given[UR_RING_RQ], 1);
	/* The source's memory is dirty; a new queue is zeroed all the same. */
	assert_int_equal(ur_sq_slot(&qp->sq, 3)->wr_id, 0);
	ur_qp_fini(qp);
	for (uint32_t i = 0; i < 2; i++) {
		f->calls = 0;
		f->fail_at = i;
		assert_int_equal(make_qp(f, qp, &pd, &cq), -ENOMEM);
		assert_int_equal(pd.users, 0);
	}
	assert_int_equal(ur_cq_fini(&cq), 0);
	free(qp);
}

static void test_an_srq_grows_there(void **state)
{
	struct fixture *f = *state;
	struct ur_pd pd = { 0 };
	struct ur_srq srq;

	assert_int_equal(ur_srq_init(&srq, &pd, 8, 1, 0, NULL, NULL), 0);
	assert_int_equal(ur_rq_set_ring_source(&srq.rq, &f->source), 0);
	assert_int_equal(ur_srq_resize(&srq, 64), 0);
	assert_int_equal(f->given[UR_RING_RQ], 1);
	f->fail_at = f->calls;
	assert_int_equal(ur_srq_resize(&srq, 128), -ENOMEM);
	assert_int_equal(ur_srq_fini(&srq), 0);
}

/* From the heap up to half a page, and reused there: zeroed all the same. */
static void test_alignment(void **state)
{
	static const size_t sizes[] = { 1, 64, 100, 2048, 2049, 4096, 70000 };

	for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = sizes[i / 2];
		uint8_t *ring = ur_ring_map(bytes);

		assert_non_null(ring);
		assert_int_equal((uintptr_t)ring % (bytes > 2048 ? 4096 : 64),
				 0);
		for (size_t k = 0; k < bytes; k++)
			assert_int_equal(ring[k], 0);
		memset(ring, 0xee, bytes);
		ur_ring_unmap(ring, bytes);
	}
	ur_ring_unmap(NULL, 64);
	ur_ring_unmap(NULL, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_a_cq_moves_and_grows_there),
		T(test_a_source_may_decline),
		T(test_a_qp_has_both_queues_there),
		T(test_an_srq_grows_there),
		cmocka_unit_test(test_alignment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
