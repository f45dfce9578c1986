/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains, queues and target queue pairs, and the errors of misuse. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "setup.h"

#define BOTH (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)

static struct ibv_xrcd *open_xrcd(struct fixture *f, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = BOTH,
					   .fd = fd,
					   .oflags = oflags };

	errno = 0;
	return ibv_open_xrcd(f->ctx, &attr);
}

static int temp_file(void)
{
	char name[] = "/tmp/urnic-xrc-XXXXXX";
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(unlink(name), 0);
	return fd;
}

static struct ibv_srq *make_srq(struct fixture *f, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = f->pd,
		.xrcd = xrcd,
		.cq = f->cq,
	};

	return ibv_create_srq_ex(f->ctx, &init);
}

static struct ibv_qp *make_target(struct fixture *f, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	return ibv_create_qp_ex(f->ctx, &init);
}

static struct ibv_qp *open_target(struct fixture *f, struct ibv_xrcd *xrcd,
				  uint32_t qpn, uint32_t comp_mask,
				  enum ibv_qp_type type)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = comp_mask,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_context = f,
		.qp_type = type,
	};

	errno = 0;
	return ibv_open_qp(f->ctx, &attr);
}

#define OPEN                                                                   \
	(IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)

static void a_domain_is_known_by_its_inode(void **state)
{
	struct fixture *f = *state;
	int fd = temp_file(), other = temp_file(), again = dup(fd);
	struct ibv_xrcd *a, *b, *c;

	assert_null(open_xrcd(f, fd, 0));
	assert_int_equal(errno, EAGAIN);
	a = open_xrcd(f, fd, O_CREAT | O_EXCL);
	assert_non_null(a);
	b = open_xrcd(f, again, 0);
	assert_non_null(b);
	assert_null(open_xrcd(f, again, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	assert_null(open_xrcd(f, other, 0));
	c = open_xrcd(f, other, O_CREAT);
	assert_non_null(c);
	/* it lives as long as one of its handles */
	assert_int_equal(ibv_close_xrcd(a), 0);
	assert_null(open_xrcd(f, fd, O_CREAT | O_EXCL));
	assert_int_equal(ibv_close_xrcd(b), 0);
	assert_int_equal(ibv_close_xrcd(c), 0);
	assert_null(open_xrcd(f, fd, 0));
	assert_int_equal(errno, EAGAIN);
	close(fd);
	close(again);
	close(other);
}

static void a_domain_without_a_file_is_one_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *a = open_xrcd(f, -1, O_CREAT);
	struct ibv_xrcd *b = open_xrcd(f, -1, O_CREAT);
	struct ibv_qp *qp = make_target(f, a);

	assert_non_null(b);
	assert_non_null(qp);
	assert_null(open_target(f, b, qp->qp_num, OPEN, IBV_QPT_XRC_RECV));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(a), 0);
	assert_int_equal(ibv_close_xrcd(b), 0);
}

static void wrong_arguments_to_open_a_domain(void **state)
{
	static const struct {
		struct ibv_xrcd_init_attr attr;
		int error;
	} wrong[] = {
		{ { IBV_XRCD_INIT_ATTR_FD, -1, O_CREAT }, EINVAL },
		{ { IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT }, EINVAL },
		{ { 0, -1, O_CREAT }, EINVAL },
		{ { BOTH | IBV_XRCD_INIT_ATTR_RESERVED, -1, O_CREAT },
		  EOPNOTSUPP },
		{ { BOTH, 999, O_CREAT }, EBADF },
		{ { BOTH, -2, O_CREAT }, EBADF },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ibv_xrcd_init_attr attr = wrong[i].attr;

		errno = 0;
		assert_null(ibv_open_xrcd(f->ctx, &attr));
		assert_int_equal(errno, wrong[i].error);
	}
}

static void iwarp_has_none(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd_init_attr attr = { BOTH, -1, O_CREAT };
	struct ibv_context *ctx = ibv_open_device(f->list[1]);

	assert_non_null(ctx);
	assert_null(ibv_open_xrcd(ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void a_domain_in_use_is_busy(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *xrcd = open_xrcd(f, -1, O_CREAT);
	struct ibv_srq *srq = make_srq(f, xrcd);
	struct ibv_qp *qp = make_target(f, xrcd);

	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	assert_int_equal(ibv_destroy_cq(f->cq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ur_fake.srqs, 0);
}

static void a_queue_has_a_number(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *xrcd = open_xrcd(f, -1, O_CREAT);
	struct ibv_srq *srq = make_srq(f, xrcd);
	uint32_t num = 0;

	assert_int_equal(ibv_get_srq_num(srq, &num), 0);
	assert_int_equal(num, core_srq(srq)->number);
	assert_ptr_equal(core_srq(srq)->cq, core_cq(f->cq));
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void wrong_arguments_to_create_a_queue(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *xrcd = open_xrcd(f, -1, O_CREAT);
	const struct ibv_srq_init_attr_ex good = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = f->pd,
		.xrcd = xrcd,
		.cq = f->cq,
	};
	struct ibv_srq_init_attr_ex w[8];
	int error[8] = { EINVAL, EINVAL, EINVAL,     EINVAL,
			 EINVAL, EINVAL, EOPNOTSUPP, EINVAL };

	for (size_t i = 0; i < 8; i++)
		w[i] = good;
	w[0].comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_PD;
	w[1].comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD;
	w[2].comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	w[3].attr.max_wr = 0;
	w[4].attr.max_wr = UR_MAX_SRQ_WR + 1;
	w[5].attr.max_sge = UR_MAX_SGE + 1;
	w[6].comp_mask |= IBV_SRQ_INIT_ATTR_RESERVED;
	w[7].srq_type = (enum ibv_srq_type)7;
	for (size_t i = 0; i < 8; i++) {
		errno = 0;
		assert_null(ibv_create_srq_ex(f->ctx, &w[i]));
		assert_int_equal(errno, error[i]);
	}
	/* nothing of them is left */
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void wrong_arguments_to_create_a_target(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr plain = { .send_cq = f->cq,
					  .recv_cq = f->cq,
					  .cap = { 1, 1, 1, 1, 0 },
					  .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp_init_attr_ex ex = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = f->pd,
	};

	assert_null(ibv_create_qp(f->pd, &plain));
	assert_int_equal(errno, EINVAL);
	ex.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	assert_null(ibv_create_qp_ex(f->ctx, &ex));
	assert_int_equal(errno, EINVAL);
	ex.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	assert_null(ibv_create_qp_ex(f->ctx, &ex)); /* ambiguous */
	assert_int_equal(errno, EINVAL);
	ex.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	assert_null(ibv_create_qp_ex(f->ctx, &ex));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void nothing_is_posted_to_a_target(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *xrcd = open_xrcd(f, -1, O_CREAT);
	struct ibv_qp *qp = make_target(f, xrcd);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;

	assert_int_equal(ibv_post_send(qp, &send, &bad_send), EINVAL);
	assert_ptr_equal(bad_send, &send);
	assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
	assert_ptr_equal(bad_recv, &recv);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void all_opens_share_one_target(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *xrcd = open_xrcd(f, -1, O_CREAT);
	struct ibv_qp *qp = make_target(f, xrcd);
	struct ibv_qp *other =
		open_target(f, xrcd, qp->qp_num,
			    OPEN | IBV_QP_OPEN_ATTR_CONTEXT, IBV_QPT_XRC_RECV);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_init_attr init;

	assert_non_null(other);
	assert_int_equal(other->qp_num, qp->qp_num);
	assert_ptr_equal(other->qp_context, f);
	assert_int_equal(other->qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(ibv_modify_qp(other, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					       IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	/* it ends with the last handle */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ur_fake.qps, 1);
	assert_int_equal(ibv_query_qp(other, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_int_equal(ur_fake.qps, 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void wrong_arguments_to_open_a_target(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *xrcd = open_xrcd(f, -1, O_CREAT);
	struct ibv_qp *qp = make_target(f, xrcd);
	struct ibv_qp *rc = make_qp(f, IBV_QPT_RC);
	const uint32_t one[] = { IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_XRCD,
				 IBV_QP_OPEN_ATTR_TYPE };

	for (size_t i = 0; i < 3; i++) {
		assert_null(open_target(f, xrcd, qp->qp_num, OPEN & ~one[i],
					IBV_QPT_XRC_RECV));
		assert_int_equal(errno, EINVAL);
	}
	assert_null(open_target(f, NULL, qp->qp_num, OPEN, IBV_QPT_XRC_RECV));
	assert_int_equal(errno, EINVAL);
	assert_null(open_target(f, xrcd, qp->qp_num, OPEN, IBV_QPT_XRC_SEND));
	assert_int_equal(errno, EINVAL);
	assert_null(open_target(f, xrcd, rc->qp_num, OPEN, IBV_QPT_XRC_RECV));
	assert_int_equal(errno, EINVAL);
	/* of another process */
	assert_null(open_target(f, xrcd, 2u << 14 | 1, OPEN, IBV_QPT_XRC_RECV));
	assert_int_equal(errno, EINVAL);
	assert_null(open_target(f, xrcd, qp->qp_num,
				OPEN | IBV_QP_OPEN_ATTR_RESERVED,
				IBV_QPT_XRC_RECV));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

/* Each handle gets its event, and each can be destroyed once it is acked. */
static void all_handles_get_events(void **state)
{
	struct fixture *f = *state;
	struct ibv_xrcd *xrcd = open_xrcd(f, -1, O_CREAT);
	struct ibv_qp *qp[2] = { make_target(f, xrcd) };
	struct ibv_async_event ev;
	bool heard[2] = { false, false };

	qp[1] = open_target(f, xrcd, qp[0]->qp_num, OPEN, IBV_QPT_XRC_RECV);
	assert_non_null(qp[1]);
	ur_fake_event(qp[0]->qp_num, UR_EVENT_QP_REQ_ERR);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ibv_get_async_event(f->ctx, &ev), 0);
		assert_int_equal(ev.event_type, IBV_EVENT_QP_REQ_ERR);
		heard[ev.element.qp == qp[1]] = true;
		ibv_ack_async_event(&ev);
	}
	assert_true(heard[0] && heard[1]);
	assert_int_equal(ibv_destroy_qp(qp[0]), 0);
	assert_int_equal(ibv_destroy_qp(qp[1]), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void a_send_names_its_queue(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp *qp = make_qp(f, IBV_QPT_XRC_SEND);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .qp_type.xrc.remote_srqn = 0x123456 };
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ur_sq_slot(&core_qp(qp)->sq, 0)->wr.rdma.srqn,
			 0x123456);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL); /* 8 bytes */
	assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_builder_names_its_queue(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_ex *ex =
		make_qp_ex(f, IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_SEND);

	assert_non_null(ex);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, 0x654321);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(
		ur_sq_slot(&core_qp(&ex->qp_base)->sq, 0)->wr.rdma.srqn,
		0x654321);
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
}

static void an_initiator_needs_no_receive_queue(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.cap = { 4, 0, 1, 0, 0 },
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp(f->pd, &init);

	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	init.send_cq = NULL;
	assert_null(ibv_create_qp(f->pd, &init));
	assert_int_equal(errno, EINVAL);
}

/* As on hardware: remaining objects end with the context. */
static void closing_the_device_ends_targets(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *ctx = f->ctx;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp;

	f->ctx = ibv_open_device(f->list[0]);
	xrcd = open_xrcd(f, -1, O_CREAT);
	qp = make_target(f, xrcd);
	assert_int_equal(ibv_close_device(f->ctx), 0);
	assert_int_equal(ur_fake.qps, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	f->ctx = ctx;
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_domain_is_known_by_its_inode),
		TEST(a_domain_without_a_file_is_one_of_its_own),
		TEST(wrong_arguments_to_open_a_domain),
		TEST(iwarp_has_none),
		TEST(a_domain_in_use_is_busy),
		TEST(a_queue_has_a_number),
		TEST(wrong_arguments_to_create_a_queue),
		TEST(wrong_arguments_to_create_a_target),
		TEST(nothing_is_posted_to_a_target),
		TEST(all_opens_share_one_target),
		TEST(wrong_arguments_to_open_a_target),
		TEST(all_handles_get_events),
		TEST(a_send_names_its_queue),
		TEST(a_builder_names_its_queue),
		TEST(an_initiator_needs_no_receive_queue),
		TEST(closing_the_device_ends_targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
