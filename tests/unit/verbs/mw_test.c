/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: calls that are accepted, refusals and their errno, and the
 * entries in the send queue. */
#include "setup.h"

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static char buf[4096];

struct windows {
	struct fixture *f;
	struct ibv_mr *mr;
	struct ibv_mw *one, *two;
	struct ibv_qp *qp;
};

static struct windows w;

static int setup(void **state)
{
	fixture_open(state);
	w.f = *state;
	w.mr = ibv_reg_mr(w.f->pd, buf, sizeof(buf),
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	w.one = ibv_alloc_mw(w.f->pd, IBV_MW_TYPE_1);
	w.two = ibv_alloc_mw(w.f->pd, IBV_MW_TYPE_2);
	w.qp = make_qp(w.f, IBV_QPT_RC);
	return w.mr && w.one && w.two ? 0 : -1;
}

static int teardown(void **state)
{
	assert_int_equal(ibv_destroy_qp(w.qp), 0);
	assert_int_equal(ibv_dealloc_mw(w.one), 0);
	assert_int_equal(ibv_dealloc_mw(w.two), 0);
	assert_int_equal(ibv_dereg_mr(w.mr), 0);
	return fixture_close(state);
}

static struct ibv_mw_bind_info info(uint64_t off, uint64_t len,
				    unsigned int access)
{
	return (struct ibv_mw_bind_info){ .mr = w.mr,
					  .addr = (uintptr_t)buf + off,
					  .length = len,
					  .mw_access_flags = access };
}

static const struct ur_swqe *posted(void)
{
	struct ur_sq *sq = &core_qp(w.qp)->sq;

	return ur_sq_slot(sq, sq->tail - 1);
}

static int post(struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(w.qp, &wr, &bad);
}

static void describes_the_window(void **state)
{
	assert_ptr_equal(w.one->context, w.f->ctx);
	assert_ptr_equal(w.one->pd, w.f->pd);
	assert_int_equal(w.one->type, IBV_MW_TYPE_1);
	assert_int_equal(w.two->type, IBV_MW_TYPE_2);
	assert_int_not_equal(w.one->rkey >> 8, w.two->rkey >> 8);
	assert_int_equal(ibv_dealloc_pd(w.f->pd), EBUSY);
}

static void wrong_types_are_refused(void **state)
{
	assert_null(ibv_alloc_mw(w.f->pd, (enum ibv_mw_type)0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_alloc_mw(w.f->pd, (enum ibv_mw_type)3));
	assert_int_equal(errno, EINVAL);
}

static void type_1_by_its_own_call(void **state)
{
	struct ibv_mw_bind bind = { .wr_id = 5,
				    .send_flags =
					    IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				    .bind_info = info(8, 100, RW) };
	uint32_t was = w.one->rkey;
	const struct ur_swqe *q;

	assert_int_equal(ibv_bind_mw(w.qp, w.one, &bind), 0);
	assert_int_equal(w.one->rkey, ibv_inc_rkey(was));
	q = posted();
	assert_int_equal(q->opcode, UR_WR_BIND_MW);
	assert_int_equal(q->wr_id, 5);
	assert_int_equal(q->flags, UR_SEND_SIGNALED);
	assert_int_equal(q->num_sge, 0);
	assert_int_equal(q->length, 0);
	assert_int_equal(q->wr.bind.window >> 8, was >> 8);
	assert_int_equal(q->wr.bind.key, w.one->rkey);
	assert_int_equal(q->wr.bind.addr, (uintptr_t)buf + 8);
	assert_int_equal(q->wr.bind.length, 100);
	assert_int_equal(q->wr.bind.lkey, w.mr->lkey);
	assert_int_equal(q->wr.bind.access, RW);
	assert_int_equal(ur_fake.doorbells, 1);
}

/* As mlx5: refusals by verbs.h and the provider, and no others. */
static void type_1_refusals(void **state)
{
	struct ibv_mr *relative =
		ibv_reg_mr(w.f->pd, buf, sizeof(buf),
			   RW | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
	struct ibv_pd *other = ibv_alloc_pd(w.f->ctx);
	struct ibv_mw *alien = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	struct ibv_mw_bind_info zero_based = info(0, 8, RW);

	assert_non_null(relative);
	zero_based.mr = relative;
	const struct {
		struct ibv_mw *mw;
		struct ibv_mw_bind_info info;
		int rc;
	} rows[] = {
		{ w.two, info(0, 8, RW), EINVAL },
		{ alien, info(0, 8, RW), EPERM },
		{ w.one, info(0, 8, RW | IBV_ACCESS_ZERO_BASED), EINVAL },
		{ w.one, zero_based, EINVAL },
	};
	uint32_t was = w.one->rkey;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_mw_bind bind = { .bind_info = rows[i].info };

		assert_int_equal(ibv_bind_mw(w.qp, rows[i].mw, &bind),
				 rows[i].rc);
	}
	assert_int_equal(w.one->rkey, was);
	assert_int_equal(core_qp(w.qp)->sq.tail, 0);
	assert_int_equal(core_qp(w.qp)->sq.staged, 0);
	assert_int_equal(ur_fake.doorbells, 0);
	assert_int_equal(ibv_dealloc_mw(alien), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_dereg_mr(relative), 0);
}

/* Posted by post_send() or the window's own call, it fails when executed. */
static void fails_when_executed(const struct ibv_mw_bind_info *i,
				struct ibv_mw *mw)
{
	struct ibv_mw_bind bind = { .bind_info = *i };
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW,
				  .bind_mw = { mw, 7, *i } };
	struct ur_qp *qp = core_qp(w.qp);

	assert_int_equal(post(wr), 0);
	assert_int_equal(ur_mw_bind(qp->mrs, qp, &posted()->wr.bind), -EINVAL);
	if (mw->type != IBV_MW_TYPE_1 || mw->pd != w.f->pd ||
	    i->mw_access_flags & IBV_ACCESS_ZERO_BASED || !i->mr ||
	    i->mr->pd != mw->pd)
		return;
	assert_int_equal(ibv_bind_mw(w.qp, mw, &bind), 0);
	assert_int_equal(ur_mw_bind(qp->mrs, qp, &posted()->wr.bind), -EINVAL);
}

static void errors_are_reported_by_the_completion(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(w.f->ctx);
	struct ibv_mw *alien = ibv_alloc_mw(other, IBV_MW_TYPE_2);
	struct ibv_mr *far =
		ibv_reg_mr(other, buf, sizeof(buf), RW | IBV_ACCESS_MW_BIND);
	struct ibv_mr *plain = ibv_reg_mr(w.f->pd, buf, sizeof(buf), RW);
	struct ibv_mr gone = { .context = w.f->ctx,
			       .pd = w.f->pd,
			       .lkey = w.mr->lkey ^ 0x100 };
	struct ibv_mw_bind_info foreign = info(0, 8, RW);
	struct ibv_mw_bind_info no_right = info(0, 8, RW);
	struct ibv_mw_bind_info stale = info(0, 8, RW);

	foreign.mr = far;
	no_right.mr = plain;
	stale.mr = &gone;
	const struct {
		struct ibv_mw *mw;
		struct ibv_mw_bind_info info;
	} rows[] = {
		{ alien, info(0, 8, RW) },
		{ w.two, foreign },
		{ w.two, no_right },
		{ w.two, stale },
		{ w.two, info(0, 0, RW) },
		{ w.two, info(0, 4097, RW) },
		{ w.two, info(0, 8, IBV_ACCESS_MW_BIND) },
		{ w.two, { .mr = NULL, .length = 1 } },
		{ w.one, foreign },
		{ w.one, no_right },
		{ w.one, stale },
		{ w.one, info(4090, 8, RW) },
		{ w.one, info(0, 8, 1u << 19) },
		{ w.one, info(0, 8, RW | IBV_ACCESS_ZERO_BASED) },
		{ w.one, { .addr = (uintptr_t)buf, .length = 1 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fails_when_executed(&rows[i].info, rows[i].mw);
		core_qp(w.qp)->sq.head = core_qp(w.qp)->sq.tail;
	}
	assert_int_equal(ibv_dereg_mr(plain), 0);
	assert_int_equal(ibv_dereg_mr(far), 0);
	assert_int_equal(ibv_dealloc_mw(alien), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

/* A key of one device's table is invalid for another. */
static void a_window_of_another_device(void **state)
{
	struct ibv_context *ctx = ibv_open_device(w.f->list[1]);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), RW);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW,
				  .bind_mw = { mw, 7, info(0, 8, RW) } };

	assert_int_equal(post(wr), 0);
	assert_int_equal(posted()->wr.bind.window, 0);
	wr.bind_mw.mw = w.two;
	wr.bind_mw.bind_info.mr = mr;
	assert_int_equal(post(wr), 0);
	assert_int_equal(posted()->wr.bind.lkey >> 8, 0);
	assert_int_not_equal(posted()->wr.bind.lkey, 0);
	wr.bind_mw.mw = NULL;
	assert_int_equal(post(wr), EINVAL);
	assert_int_equal(core_qp(w.qp)->sq.staged, 2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void type_1_in_states_and_on_types_without(void **state)
{
	struct ibv_mw_bind bind = { .bind_info = info(0, 8, RW) };
	struct ibv_qp *ud = make_qp(w.f, IBV_QPT_UD);

	assert_int_equal(ibv_bind_mw(ud, w.one, &bind), EINVAL);
	assert_int_equal(ibv_destroy_qp(ud), 0);
	core_qp(w.qp)->state = UR_QPS_INIT;
	assert_int_equal(ibv_bind_mw(w.qp, w.one, &bind), EINVAL);
	core_qp(w.qp)->state = UR_QPS_RTS;
	for (int i = 0; i < 8; i++)
		assert_int_equal(ibv_bind_mw(w.qp, w.one, &bind), 0);
	assert_int_equal(ibv_bind_mw(w.qp, w.one, &bind), ENOMEM);
	bind.bind_info = (struct ibv_mw_bind_info){ .mr = NULL };
	core_qp(w.qp)->sq.head = 8;
	assert_int_equal(ibv_bind_mw(w.qp, w.one, &bind), 0);
	assert_int_equal(posted()->wr.bind.lkey, 0);
}

static void type_2_by_a_request(void **state)
{
	uint32_t key = ibv_inc_rkey(w.two->rkey);
	struct ibv_send_wr wr = {
		.wr_id = 6,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.num_sge = 77, /* ignored */
		.bind_mw = { .mw = w.two,
			     .rkey = key,
			     .bind_info =
				     info(0, 64, RW | IBV_ACCESS_ZERO_BASED) },
	};

	assert_int_equal(post(wr), 0);
	assert_int_equal(posted()->opcode, UR_WR_BIND_MW);
	assert_int_equal(posted()->num_sge, 0);
	assert_int_equal(posted()->wr.bind.key, key);
	assert_int_equal(w.two->rkey, key); /* as soon as it is posted */
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV,
				   .invalidate_rkey = key };
	assert_int_equal(post(wr), 0);
	assert_int_equal(posted()->opcode, UR_WR_LOCAL_INV);
	assert_int_equal(posted()->imm_be, key);
}

static void by_the_builders(void **state)
{
	struct ibv_qp_ex *ex =
		make_qp_ex(w.f, IBV_QPT_UC,
			   IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV);
	struct ibv_mw_bind_info i = info(0, 8, RW);
	struct ibv_qp *qp = w.qp;

	assert_non_null(ex);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, w.two, 0x99, &i);
	ibv_wr_local_inv(ex, 0x42);
	assert_int_equal(ibv_wr_complete(ex), 0);
	w.qp = &ex->qp_base;
	assert_int_equal(core_qp(w.qp)->sq.tail, 2);
	assert_int_equal(posted()->imm_be, 0x42);
	assert_int_equal(w.two->rkey & 0xff, 0x99);
	/* A discarded request has not changed the window. */
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, w.two, 0x77, &i);
	ibv_wr_abort(ex);
	assert_int_equal(w.two->rkey & 0xff, 0x99);
	/* wr_complete() returns the first error. */
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, NULL, 0x99, &i);
	ibv_wr_local_inv(ex, 0x42);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_local_inv(ex, 0x42);
	ibv_wr_set_sge(ex, 1, 0x1000, 8);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(core_qp(w.qp)->sq.tail, 2);
	w.qp = qp;
	assert_int_equal(ibv_destroy_qp(&ex->qp_base), 0);
	assert_null(make_qp_ex(w.f, IBV_QPT_UD, IBV_QP_EX_WITH_BIND_MW));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* As a lane binds: the region stays until the window is freed. */
static void a_region_with_windows_is_busy(void **state)
{
	struct ur_qp *qp = core_qp(w.qp);
	struct ur_mw_bind b = { .addr = (uintptr_t)buf,
				.length = 8,
				.window = w.two->rkey,
				.lkey = w.mr->lkey };

	assert_int_equal(ur_mw_bind(qp->mrs, qp, &b), 0);
	assert_int_equal(ibv_dereg_mr(w.mr), EBUSY);
	assert_int_equal(ibv_rereg_mr(w.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(ibv_dealloc_mw(w.two), 0);
	w.two = ibv_alloc_mw(w.f->pd, IBV_MW_TYPE_2);
}

static void the_device_reports_support(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_context *ctx = ibv_open_device(w.f->list[i]);
		struct ibv_device_attr a;

		assert_int_equal(ibv_query_device(ctx, &a), 0);
		assert_int_equal(a.max_mw, UR_MAX_MW);
		assert_true(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
		assert_true(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
		assert_false(a.device_cap_flags &
			     IBV_DEVICE_MEM_WINDOW_TYPE_2A);
		assert_int_equal(ibv_close_device(ctx), 0);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(describes_the_window),
		TEST(wrong_types_are_refused),
		TEST(type_1_by_its_own_call),
		TEST(type_1_refusals),
		TEST(type_1_in_states_and_on_types_without),
		TEST(type_2_by_a_request),
		TEST(errors_are_reported_by_the_completion),
		TEST(a_window_of_another_device),
		TEST(by_the_builders),
		TEST(a_region_with_windows_is_busy),
		TEST(the_device_reports_support),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
