/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "setup.h"

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void names_the_queue_pair(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_async_event ev;

	assert_false(readable(f->ctx->async_fd));
	ur_qp_event(core_qp(qp), UR_EVENT_COMM_EST);
	assert_true(readable(f->ctx->async_fd));
	assert_int_equal(ibv_get_async_event(f->ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_COMM_EST);
	assert_ptr_equal(ev.element.qp, qp);
	assert_false(readable(f->ctx->async_fd));
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void does_not_block_if_nonblocking(void **state)
{
	struct fixture *f = *state;
	struct ibv_async_event ev;

	fcntl(f->ctx->async_fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_async_event(f->ctx, &ev), -1);
	assert_int_equal(errno, EAGAIN);
}

static void names_the_port_and_needs_no_ack_to_close(void **state)
{
	struct fixture *f = *state;
	struct ur_gid none[1] = { 0 };
	struct ibv_async_event ev;
	struct ur_adapter *a;

	ur_adapter_get_at(0, &a);
	ur_dev_update(ur_adapter_dev(a), 1, none, 0);
	ur_adapter_put(a);
	assert_int_equal(ibv_get_async_event(f->ctx, &ev), 0);
	assert_int_equal(ev.element.port_num, 1);
	/* fixture_close() must not wait for it. */
}

struct destroyer {
	struct ibv_qp *qp;
	_Atomic bool done;
};

static void *destroy(void *arg)
{
	struct destroyer *d = arg;

	ibv_destroy_qp(d->qp);
	d->done = true;
	return NULL;
}

static void destruction_waits_for_the_ack(void **state)
{
	struct fixture *f = *state;
	struct destroyer d = { .qp = make_qp(f, IBV_QPT_RC) };
	struct ibv_async_event ev;
	pthread_t t;

	ur_qp_event(core_qp(d.qp), UR_EVENT_QP_FATAL);
	assert_int_equal(ibv_get_async_event(f->ctx, &ev), 0);
	assert_int_equal(pthread_create(&t, NULL, destroy, &d), 0);
	usleep(20000);
	assert_false(d.done);
	ibv_ack_async_event(&ev);
	pthread_join(t, NULL);
	assert_true(d.done);
}

static void an_srq_limit_names_the_srq(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4,
						    .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(f->pd, &init);
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_async_event ev;

	/* Nothing is posted: below the limit at once. */
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_get_async_event(f->ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.element.srq, srq);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void an_overrun_names_the_cq(void **state)
{
	struct fixture *f = *state;
	struct ur_cqe cqe = { .wr_id = 1 };
	struct ibv_async_event ev;

	for (int i = 0; i < f->cq->cqe; i++)
		assert_true(ur_cq_push(core_cq(f->cq), &cqe, false));
	assert_false(ur_cq_push(core_cq(f->cq), &cqe, false));
	assert_int_equal(ibv_get_async_event(f->ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(ev.element.cq, f->cq);
	ibv_ack_async_event(&ev);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_the_queue_pair),
		TEST(does_not_block_if_nonblocking),
		TEST(names_the_port_and_needs_no_ack_to_close),
		TEST(destruction_waits_for_the_ack),
		TEST(an_srq_limit_names_the_srq),
		TEST(an_overrun_names_the_cq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
