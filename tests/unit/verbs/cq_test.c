/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "setup.h"

static void converts_every_member(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc;

	complete(f->cq, 0x1122334455667788ull, 1);
	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 0x1122334455667788ull);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.vendor_err, 9);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.imm_data, 0xcafe);
	assert_int_equal(wc.qp_num, 0x4001);
	assert_int_equal(wc.src_qp, 0x8002);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.pkey_index, 1);
	assert_int_equal(wc.slid, 7);
	assert_int_equal(wc.sl, 2);
	assert_int_equal(wc.dlid_path_bits, 3);
}

static void polls_more_than_a_batch_in_order(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 100, NULL, NULL, 0);
	struct ibv_wc wc[100];

	complete(cq, 0, 50);
	assert_int_equal(ibv_poll_cq(cq, 37, wc), 37);
	assert_int_equal(ibv_poll_cq(cq, 100, wc + 37), 13);
	for (int i = 0; i < 50; i++)
		assert_int_equal(wc[i].wr_id, i);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void arrive(struct ur_cq *cq)
{
	struct ur_cqe cqe = { .wr_id = 42 };

	ur_cq_push(cq, &cqe, false);
}

static void an_empty_queue_drives_the_adapter_once(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 0);
	assert_int_equal(ur_fake.polls, 1);
	ur_fake_on_poll = arrive;
	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 42);
	assert_int_equal(ur_fake.polls, 2);
	complete(f->cq, 1, 1);
	assert_int_equal(ibv_poll_cq(f->cq, 1, &wc), 1);
	assert_int_equal(ur_fake.polls, 2); /* there was something */
}

static void sizes_are_limited(void **state)
{
	struct fixture *f = *state;
	struct ibv_cq *cq;

	assert_null(ibv_create_cq(f->ctx, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(f->ctx, -1, NULL, NULL, 0));
	assert_null(ibv_create_cq(f->ctx, UR_MAX_CQE + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(f->ctx, 1, NULL, NULL, -1));
	assert_null(
		ibv_create_cq(f->ctx, 1, NULL, NULL, f->ctx->num_comp_vectors));
	cq = ibv_create_cq(f->ctx, UR_MAX_CQE, NULL, NULL,
			   f->ctx->num_comp_vectors - 1);
	assert_non_null(cq);
	assert_int_equal(cq->cqe, UR_MAX_CQE);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void few_entries_are_rounded_up(void **state)
{
	struct fixture *f = *state;

	for (int n = 1; n <= 17; n++) {
		struct ibv_cq *cq = ibv_create_cq(f->ctx, n, NULL, NULL, 0);

		assert_non_null(cq);
		assert_true(cq->cqe >= 16 && cq->cqe >= n);
		assert_int_equal(ibv_resize_cq(cq, n), 0);
		assert_true(cq->cqe >= n);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
}

static void resizing_keeps_completions(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc wc[64];

	complete(f->cq, 0, 6);
	assert_int_equal(ibv_resize_cq(f->cq, 1), EINVAL);
	assert_int_equal(ibv_resize_cq(f->cq, 50), 0);
	complete(f->cq, 6, 34);
	assert_int_equal(ibv_resize_cq(f->cq, 7), EINVAL);
	assert_int_equal(ibv_resize_cq(f->cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(f->cq, 1000), 0);
	assert_true(f->cq->cqe >= 1000);
	assert_int_equal(ibv_poll_cq(f->cq, 64, wc), 40);
	assert_int_equal(wc[39].wr_id, 39);
}

static void a_used_queue_stays(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);

	assert_int_equal(ibv_destroy_cq(f->cq), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void an_event_names_queue_and_context(void **state)
{
	struct fixture *f = *state;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 4, &ch, ch, 0);
	struct ibv_cq *got = NULL;
	void *context = NULL;

	assert_int_equal(ch->refcnt, 1);
	assert_int_equal(ibv_destroy_comp_channel(ch), EBUSY);
	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ur_fake.arms, 1);
	complete(cq, 0, 2);
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), 0);
	assert_ptr_equal(got, cq);
	assert_ptr_equal(context, &ch);
	/* One request for notification, one event. */
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), -1);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
}

struct destroyer {
	struct ibv_cq *cq;
	_Atomic bool done;
};

static void *destroy(void *arg)
{
	struct destroyer *d = arg;

	ibv_destroy_cq(d->cq);
	d->done = true;
	return NULL;
}

static void destruction_waits_for_every_ack(void **state)
{
	struct fixture *f = *state;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(f->ctx);
	struct destroyer d = { ibv_create_cq(f->ctx, 4, NULL, ch, 0), false };
	struct ibv_cq *cq;
	void *context;
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		ibv_req_notify_cq(d.cq, 0);
		complete(d.cq, 0, 1);
		assert_int_equal(ibv_get_cq_event(ch, &cq, &context), 0);
	}
	assert_int_equal(pthread_create(&t, NULL, destroy, &d), 0);
	ibv_ack_cq_events(cq, 1);
	usleep(20000);
	assert_false(d.done);
	ibv_ack_cq_events(cq, 1);
	pthread_join(t, NULL);
	assert_true(d.done);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(converts_every_member),
		TEST(polls_more_than_a_batch_in_order),
		TEST(an_empty_queue_drives_the_adapter_once),
		TEST(sizes_are_limited),
		TEST(few_entries_are_rounded_up),
		TEST(resizing_keeps_completions),
		TEST(a_used_queue_stays),
		TEST(an_event_names_queue_and_context),
		TEST(destruction_waits_for_every_ack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
