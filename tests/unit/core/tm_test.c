/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "core/tm.h"

struct queue {
	struct ur_pd pd;
	struct ur_cq cq;
	struct ur_srq srq;
	struct ur_tm_tag *tag;
	/* Last, since its SGEs have no length of their own. */
	union {
		struct ur_rwqe w;
		uint8_t room[sizeof(struct ur_rwqe) +
			     UR_MAX_SGE * sizeof(struct ur_sge)];
	} got;
};

#define TAGS 4u

static int queue_setup(void **state)
{
	static struct queue q;

	memset(&q, 0, sizeof(q));
	assert_int_equal(ur_cq_init(&q.cq, 63, NULL, NULL, NULL), 0);
	assert_int_equal(ur_srq_init(&q.srq, &q.pd, 8, 1, 0, NULL, NULL), 0);
	assert_int_equal(ur_tm_init(&q.srq, TAGS), 0);
	ur_srq_set_cq(&q.srq, &q.cq, NULL);
	*state = &q;
	return 0;
}

static int queue_teardown(void **state)
{
	struct queue *q = *state;

	assert_int_equal(ur_srq_fini(&q->srq), 0);
	assert_int_equal(ur_cq_fini(&q->cq), 0);
	assert_int_equal(q->pd.users, 0);
	return 0;
}

static int add(struct queue *q, uint64_t tag, uint64_t mask, uint64_t wr_id,
	       uint32_t *handle)
{
	struct ur_tm_wr wr = { .op = UR_TM_ADD,
			       .wr_id = 1000 + wr_id,
			       .signaled = true,
			       .recv_wr_id = wr_id,
			       .tag = tag,
			       .mask = mask };
	int ret = ur_tm_post(&q->srq, &wr, 77);

	if (handle)
		*handle = wr.handle;
	return ret;
}

static int del(struct queue *q, uint32_t handle)
{
	struct ur_tm_wr wr = { .op = UR_TM_DEL,
			       .wr_id = 2000,
			       .signaled = true,
			       .handle = handle };

	return ur_tm_post(&q->srq, &wr, 77);
}

static void sync(struct queue *q, uint16_t seen)
{
	struct ur_tm_wr wr = { .op = UR_TM_SYNC,
			       .wr_id = 3000,
			       .signaled = true,
			       .sync = true,
			       .seen = seen };

	assert_int_equal(ur_tm_post(&q->srq, &wr, 77), 0);
}

static void expect_cqe(struct queue *q, uint64_t wr_id, uint8_t opcode,
		       uint8_t status, uint8_t flags)
{
	struct ur_cqe c;

	assert_int_equal(ur_cq_poll(&q->cq, &c, 1), 1);
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.opcode, opcode);
	assert_int_equal(c.status, status);
	assert_int_equal(c.flags, flags);
}

static enum ur_tm_verdict match(struct queue *q, uint64_t tag)
{
	return ur_tm_match(&q->srq, tag, &q->tag, &q->got.w);
}

static void post_recv(struct queue *q, uint64_t wr_id)
{
	struct ur_rwqe *w = ur_rq_stage(&q->srq.rq);

	assert_non_null(w);
	w->wr_id = wr_id;
	w->num_sge = 0;
	w->length = 0;
	ur_rq_commit(&q->srq.rq);
}

static void the_first_that_matches_is_taken(void **state)
{
	struct queue *q = *state;

	assert_int_equal(add(q, 0x10, ~0ul, 1, NULL), 0);
	assert_int_equal(add(q, 0x20, 0xf0, 2, NULL), 0);
	assert_int_equal(add(q, 0x21, ~0ul, 3, NULL), 0);
	for (uint64_t i = 1; i <= 3; i++)
		expect_cqe(q, 1000 + i, UR_WC_TM_ADD, UR_WC_SUCCESS, 0);
	assert_int_equal(match(q, 0x21), UR_TM_MATCHED);
	assert_int_equal(q->tag->wr_id, 2); /* by its mask */
	ur_tm_release(&q->srq, q->tag);
	assert_int_equal(match(q, 0x21), UR_TM_MATCHED);
	assert_int_equal(q->tag->wr_id, 3);
	ur_tm_release(&q->srq, q->tag);
	assert_int_equal(match(q, 0x21), UR_TM_NONE); /* nor a receive */
	assert_int_equal(match(q, 0x10), UR_TM_MATCHED);
	ur_tm_release(&q->srq, q->tag);
}

static void the_list_has_an_end(void **state)
{
	struct queue *q = *state;

	for (uint64_t i = 0; i < TAGS; i++)
		assert_int_equal(add(q, i, ~0ul, i, NULL), 0);
	assert_int_equal(add(q, 9, ~0ul, 9, NULL), -ENOMEM);
	/* a matched tag keeps its place until it is released */
	assert_int_equal(match(q, 0), UR_TM_MATCHED);
	assert_int_equal(add(q, 9, ~0ul, 9, NULL), -ENOMEM);
	ur_tm_release(&q->srq, q->tag);
	assert_int_equal(add(q, 9, ~0ul, 9, NULL), 0);
}

static void deleting(void **state)
{
	struct queue *q = *state;
	uint32_t a, b;

	assert_int_equal(add(q, 1, ~0ul, 1, &a), 0);
	assert_int_equal(add(q, 2, ~0ul, 2, &b), 0);
	assert_int_equal(match(q, 2), UR_TM_MATCHED);
	ur_tm_release(&q->srq, q->tag);
	expect_cqe(q, 1001, UR_WC_TM_ADD, UR_WC_SUCCESS, 0);
	expect_cqe(q, 1002, UR_WC_TM_ADD, UR_WC_SUCCESS, 0);
	assert_int_equal(del(q, a), 0);
	expect_cqe(q, 2000, UR_WC_TM_DEL, UR_WC_SUCCESS, 0);
	assert_int_equal(match(q, 1), UR_TM_NONE);
	/* too late: it was matched, or deleted before */
	assert_int_equal(del(q, b), 0);
	expect_cqe(q, 2000, UR_WC_TM_DEL, UR_WC_TM_ERR, 0);
	assert_int_equal(del(q, a), 0);
	expect_cqe(q, 2000, UR_WC_TM_DEL, UR_WC_TM_ERR, 0);
	assert_int_equal(del(q, TAGS), -EINVAL);
}

/* An old handle does not delete the tag that has its place now. */
static void handles_are_not_used_again_soon(void **state)
{
	struct queue *q = *state;
	uint32_t old, handle;

	assert_int_equal(add(q, 1, ~0ul, 1, &old), 0);
	assert_int_equal(del(q, old), 0);
	for (uint32_t i = 0; i < TAGS; i++) {
		assert_int_equal(add(q, 2 + i, ~0ul, 1, &handle), 0);
		assert_int_not_equal(handle, old);
	}
	assert_int_equal(del(q, old), 0);
	assert_int_equal(match(q, 2), UR_TM_MATCHED);
	ur_tm_release(&q->srq, q->tag);
}

static void an_unexpected_message_takes_a_receive(void **state)
{
	struct queue *q = *state;

	post_recv(q, 5);
	assert_int_equal(add(q, 1, ~0ul, 1, NULL), 0);
	assert_int_equal(match(q, 2), UR_TM_UNEXPECTED);
	assert_int_equal(q->got.w.wr_id, 5);
	assert_int_equal(match(q, 2), UR_TM_NONE);
}

/* Tags added while an unexpected message is unseen do not match until it was
 * seen. */
static void added_tags_wait_until_messages_are_seen(void **state)
{
	struct queue *q = *state;

	post_recv(q, 5);
	post_recv(q, 6);
	assert_int_equal(add(q, 1, ~0ul, 1, NULL), 0);
	expect_cqe(q, 1001, UR_WC_TM_ADD, UR_WC_SUCCESS, 0);
	assert_int_equal(match(q, 7), UR_TM_UNEXPECTED);
	assert_int_equal(add(q, 7, ~0ul, 7, NULL), 0);
	expect_cqe(q, 1007, UR_WC_TM_ADD, UR_WC_SUCCESS, UR_WC_TM_SYNC_REQ);
	assert_int_equal(match(q, 7), UR_TM_UNEXPECTED);
	/* earlier tags still match */
	assert_int_equal(match(q, 1), UR_TM_MATCHED);
	ur_tm_release(&q->srq, q->tag);
	sync(q, 1); /* one of two */
	expect_cqe(q, 3000, UR_WC_TM_SYNC, UR_WC_SUCCESS, UR_WC_TM_SYNC_REQ);
	assert_int_equal(match(q, 7), UR_TM_NONE);
	sync(q, 2);
	expect_cqe(q, 3000, UR_WC_TM_SYNC, UR_WC_SUCCESS, 0);
	assert_int_equal(match(q, 7), UR_TM_MATCHED);
	ur_tm_release(&q->srq, q->tag);
}

static void silent_operations(void **state)
{
	struct queue *q = *state;
	struct ur_tm_wr wr = { .op = UR_TM_ADD, .tag = 1, .mask = ~0ul };

	assert_int_equal(ur_tm_post(&q->srq, &wr, 0), 0);
	assert_true(ur_cq_is_empty(&q->cq));
	wr.op = UR_TM_DEL;
	assert_int_equal(ur_tm_post(&q->srq, &wr, 0), 0);
	assert_true(ur_cq_is_empty(&q->cq));
	/* but an error completes */
	assert_int_equal(ur_tm_post(&q->srq, &wr, 0), 0);
	expect_cqe(q, 0, UR_WC_TM_DEL, UR_WC_TM_ERR, 0);
}

static void limits(void **state)
{
	struct ur_srq srq = { 0 };

	assert_int_equal(ur_tm_init(&srq, 0), -EINVAL);
	assert_int_equal(ur_tm_init(&srq, UR_TM_MAX_TAGS + 1), -EINVAL);
	assert_int_equal(ur_tm_init(&srq, UR_TM_MAX_TAGS), 0);
	ur_tm_fini(&srq);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, queue_setup, queue_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_that_matches_is_taken),
		TEST(the_list_has_an_end),
		TEST(deleting),
		TEST(handles_are_not_used_again_soon),
		TEST(an_unexpected_message_takes_a_receive),
		TEST(added_tags_wait_until_messages_are_seen),
		TEST(silent_operations),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
