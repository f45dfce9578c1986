/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and their completions. */
#include "trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CONTEXT 7
#define MOST	16

static struct ur_trace_wr got[MOST];
static uint32_t n;

static void on_wr(void *arg, const struct ur_trace_wr *w)
{
	assert_true(n < MOST);
	got[n++] = *w;
}

static struct ur_trace_proc proc = { .pid = 1 };
static const struct ur_trace_source source = { .proc = &proc, .tid = 1 };
static uint64_t now;

static void put(struct ur_trace_queues *q, struct ur_trace_rec r)
{
	r.ns = ++now;
	ur_trace_queues_put(q, &source, &r);
}

static struct ur_trace_rec post(uint8_t queue, uint64_t wr_id, uint8_t flags)
{
	return (struct ur_trace_rec){ .kind = UR_TRACE_POST,
				      .context = CONTEXT,
				      .wr_qpn = 3,
				      .wr_id = wr_id,
				      .queue = queue,
				      .flags = flags,
				      .addr = queue == UR_TRACE_SRQ ? 99 : 0 };
}

static struct ur_trace_rec done(uint8_t queue, uint64_t wr_id, uint8_t status)
{
	return (struct ur_trace_rec){ .kind = UR_TRACE_DONE,
				      .context = CONTEXT,
				      .wr_qpn = 3,
				      .wr_id = wr_id,
				      .queue = queue,
				      .status = status };
}

static struct ur_trace_queues *begin(void)
{
	n = 0;
	return ur_trace_queues_create(on_wr, NULL);
}

/* All have one wr_id; only every third is signaled. */
static void unsignaled(void **state)
{
	struct ur_trace_queues *q = begin();

	for (int i = 1; i <= 6; i++)
		put(q, post(UR_TRACE_SQ, 0, i % 3 ? UR_TRACE_UNSIGNALED : 0));
	put(q, done(UR_TRACE_SQ, 0, 0));
	assert_int_equal(n, 3);
	assert_true(got[0].implied && got[1].implied && !got[2].implied);
	assert_true(got[2].post.ns < got[2].done.ns);
	put(q, done(UR_TRACE_SQ, 0, 5));
	assert_int_equal(n, 4); /* each has an error of its own */
	assert_false(got[3].implied);
	ur_trace_queues_end(q, 100);
	assert_int_equal(n, 6);
	assert_true(got[5].ended_late && !got[5].poller);
	ur_trace_queues_destroy(q);
}

/* Two threads poll one queue: the later completion is recorded first. */
static void polled_by_two(void **state)
{
	struct ur_trace_queues *q = begin();

	for (uint64_t i = 1; i <= 3; i++)
		put(q, post(UR_TRACE_SQ, i, i == 2 ? UR_TRACE_UNSIGNALED : 0));
	put(q, done(UR_TRACE_SQ, 3, 0));
	put(q, done(UR_TRACE_SQ, 1, 0));
	assert_int_equal(n, 3);
	assert_true(got[0].post.wr_id == 2 && got[0].implied);
	assert_true(got[1].post.wr_id == 3 && !got[1].implied);
	assert_true(got[2].post.wr_id == 1 && !got[2].implied);
	assert_ptr_equal(got[2].poster, &source);
	ur_trace_queues_end(q, 100);
	assert_int_equal(n, 3);
	ur_trace_queues_destroy(q);
}

/* Three of a list, the last two of which were refused. */
static void cancelled(void **state)
{
	struct ur_trace_queues *q = begin();
	struct ur_trace_rec r = post(UR_TRACE_SQ, 0, 0);

	for (uint64_t i = 1; i <= 3; i++)
		put(q, post(UR_TRACE_SQ, i, 0));
	r.kind = UR_TRACE_CANCEL;
	r.count = 2;
	put(q, r);
	put(q, post(UR_TRACE_SQ, 4, 0));
	put(q, done(UR_TRACE_SQ, 1, 0));
	put(q, done(UR_TRACE_SQ, 4, 0));
	assert_int_equal(n, 2);
	assert_int_equal(got[1].post.wr_id, 4);
	assert_ptr_equal(got[1].poster, &source);
	ur_trace_queues_end(q, 100);
	assert_int_equal(n, 2);
	ur_trace_queues_destroy(q);
}

/* A shared receive queue completes in any order, for queue pairs made with it. */
static void shared(void **state)
{
	struct ur_trace_queues *q = begin();
	struct ur_trace_rec qp = { .kind = UR_TRACE_QP,
				   .qp_context = CONTEXT,
				   .qp_num = 3,
				   .srq = 99 };

	put(q, post(UR_TRACE_SRQ, 1, 0));
	put(q, post(UR_TRACE_SRQ, 2, 0));
	put(q, qp);
	put(q, done(UR_TRACE_RQ, 2, 0));
	put(q, done(UR_TRACE_RQ, 1, 0));
	put(q, done(UR_TRACE_RQ, 1, 0));
	assert_int_equal(n, 3);
	assert_int_equal(got[0].post.wr_id, 2);
	assert_int_equal(got[1].post.wr_id, 1);
	assert_null(got[2].poster);
	ur_trace_queues_destroy(q);
}

/* The opcode of a completion with an error may be of the other queue. */
static void failed(void **state)
{
	struct ur_trace_queues *q = begin();

	put(q, post(UR_TRACE_RQ, 8, 0));
	put(q, done(UR_TRACE_SQ, 8, 5));
	assert_int_equal(n, 1);
	assert_int_equal(got[0].post.queue, UR_TRACE_RQ);
	ur_trace_queues_destroy(q);
}

/* Both ends give a message one name, and others another. */
static void flows(void **state)
{
	struct ur_trace_rec qp = { .kind = UR_TRACE_QP,
				   .count = 1,
				   .qp_context = CONTEXT,
				   .qp_num = 3 };
	struct ur_trace_queues *q = begin();
	struct ur_trace_rec r;

	memset(qp.local, 1, 16);
	memset(qp.peer, 2, 16);
	put(q, qp);
	r = post(UR_TRACE_SQ, 1, 0);
	r.seq = 5;
	put(q, r);
	put(q, done(UR_TRACE_SQ, 1, 0));
	memset(qp.local, 2, 16);
	memset(qp.peer, 1, 16);
	put(q, qp);
	r = done(UR_TRACE_RQ, 1, 0);
	r.seq = 5;
	put(q, r);
	r.seq = 6;
	put(q, r);
	assert_int_equal(n, 3);
	assert_true(got[0].flow != 0);
	assert_true(got[0].flow == got[1].flow);
	assert_true(got[1].flow != got[2].flow);
	ur_trace_queues_destroy(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unsignaled), cmocka_unit_test(polled_by_two),
		cmocka_unit_test(cancelled),  cmocka_unit_test(shared),
		cmocka_unit_test(failed),     cmocka_unit_test(flows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
