/* SPDX-License-Identifier: BSD-2-Clause */
/* Lanes of thread domains, and those that the other queue pairs share. */
#include "pair.h"

#include <errno.h>

#include "../own_net.h"
#include "engine/internal.h"

static struct ur_qp *qp_on(struct pair *p, struct ur_lane *lane)
{
	struct ur_qp *qp = aligned_alloc(64, (sizeof(*qp) + 63) & ~(size_t)63);
	struct ur_qp_init init = p->init;

	init.lane = lane;
	assert_int_equal(ur_adapter_qp_create(p->a, qp, &init), 0);
	return qp;
}

static void drop(struct ur_qp *qp)
{
	assert_int_equal(ur_adapter_qp_destroy(qp), 0);
	free(qp);
}

static void test_queue_pairs_keep_apart(void **state)
{
	struct pair *p = *state;
	struct ur_lane *own, *again;
	struct ur_qp *a, *b, *c;

	assert_int_equal(ur_adapter_lane_take(p->a, &own), 0);
	assert_ptr_not_equal(own, p->qa.lane);
	a = qp_on(p, own);
	b = qp_on(p, own);
	c = qp_on(p, NULL);
	assert_ptr_equal(a->lane, own);
	assert_ptr_equal(b->lane, own);
	assert_ptr_equal(c->lane, p->qa.lane);
	assert_int_equal(a->qpn >> 14, own->slot);
	drop(a);
	drop(b);
	drop(c);
	ur_adapter_lane_give(p->a, own);
	assert_int_equal(ur_adapter_lane_take(p->a, &again), 0);
	assert_ptr_equal(again, own); /* threads and sockets are dear */
	ur_adapter_lane_give(p->a, again);
}

/* A lane for each queue pair; polling the queue drives both. */
static void test_traffic_between_lanes(void **state)
{
	struct pair *p = *state;
	struct ur_lane *own;
	struct ur_qp *qp;
	struct ur_cqe cqe;

	assert_int_equal(ur_adapter_lane_take(p->a, &own), 0);
	qp = qp_on(p, own);
	pair_to_init(p->a, qp);
	assert_int_equal(pair_to_rtr(p->a, qp, p->qa.qpn, 3, NULL), 0);
	pair_to_rts(p->a, qp, PAIR_TIMEOUT, PAIR_RETRIES);
	pair_reset(p->a, &p->qa);
	pair_to_init(p->a, &p->qa);
	assert_int_equal(pair_to_rtr(p->a, &p->qa, qp->qpn, 3, NULL), 0);
	pair_to_rts(p->a, &p->qa, PAIR_TIMEOUT, PAIR_RETRIES);
	for (uint32_t i = 0; i < 50; i++) {
		memset(p->a_buf, (int)i, 3000);
		pair_post_write(p, 64, 3000);
		pair_wait(p, &cqe);
		assert_int_equal(cqe.status, UR_WC_SUCCESS);
		assert_memory_equal(p->b_buf + 64, p->a_buf, 3000);
	}
	drop(qp);
	ur_adapter_lane_give(p->a, own);
}

/* As many lanes as there are, and one more; one is left for sharing. */
static void test_as_many_as_there_are(void **state)
{
	struct pair *p = *state;
	struct ur_lane *l[UR_MAX_LANES];
	struct ur_qp *qp;
	uint32_t n = 0;

	while (n < UR_MAX_LANES && ur_adapter_lane_take(p->a, &l[n]) == 0)
		n++;
	assert_int_equal(n, UR_MAX_LANES - 1);
	assert_int_equal(ur_adapter_lane_take(p->a, &l[n]), -ENOSPC);
	qp = qp_on(p, NULL);
	assert_ptr_equal(qp->lane, p->qa.lane);
	drop(qp);
	ur_adapter_lane_give(p->a, l[5]);
	assert_int_equal(ur_adapter_lane_take(p->a, &l[n]), 0);
	assert_ptr_equal(l[n], l[5]);
	for (uint32_t i = 0; i < n; i++)
		ur_adapter_lane_give(p->a, l[i]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)
		TEST(test_queue_pairs_keep_apart),
		TEST(test_traffic_between_lanes),
		TEST(test_as_many_as_there_are),
	};

	/* Without urnicd there is one lane and no more. */
	setenv("URNIC_IDLE", "1", 1);
	if (!own_net_enter())
		return UNIT_SKIP;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
