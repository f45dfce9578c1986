/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects whose handle was overwritten, or that were destroyed: every call
 * except those of the data path answers ENOENT, and none crashes. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

#include "setup.h"

static char buf[4096];

/* ---- one object of each kind, in order of creation ---- */

struct all {
	struct ibv_pd *pd, *parent;
	struct ibv_td *td;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_ah *ah;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp, *raw;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table;
	struct ibv_counters *counters;
	struct ibv_flow *flow;
};

static void make_raw(struct all *a, struct ibv_context *ctx)
{
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ,
				       .max_wr = 4,
				       .max_sge = 1,
				       .pd = a->pd,
				       .cq = a->cq };
	struct ibv_rwq_ind_table_init_attr table = { .ind_tbl = &a->wq };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_flow_attr flow = { .port = 1 };
	struct ibv_qp_init_attr raw = { .send_cq = a->cq,
					.recv_cq = a->cq,
					.cap = { 4, 4, 1, 1, 0 },
					.qp_type = IBV_QPT_RAW_PACKET };

	a->wq = ibv_create_wq(ctx, &wq);
	a->table = ibv_create_rwq_ind_table(ctx, &table);
	a->counters = ibv_create_counters(ctx, &counters);
	a->raw = ibv_create_qp(a->pd, &raw);
	assert_true(a->wq && a->table && a->counters && a->raw);
	a->flow = ibv_create_flow(a->raw, &flow);
	assert_non_null(a->flow);
}

static void make_all(struct all *a, struct fixture *f)
{
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = 3,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct ibv_srq_init_attr srq = { .attr = { 4, 1, 0 } };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_parent_domain_init_attr parent = { 0 };
	struct ibv_td_init_attr td = { 0 };
	struct fixture own = *f;

	a->pd = ibv_alloc_pd(f->ctx);
	a->td = ibv_alloc_td(f->ctx, &td);
	parent.pd = a->pd;
	parent.td = a->td;
	a->parent = ibv_alloc_parent_domain(f->ctx, &parent);
	a->mr = ibv_reg_mr(a->pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	a->mw = ibv_alloc_mw(a->pd, IBV_MW_TYPE_2);
	a->dm = ibv_alloc_dm(f->ctx, &dm);
	own.pd = a->pd;
	a->ah = make_ah(&own);
	a->channel = ibv_create_comp_channel(f->ctx);
	a->cq = ibv_create_cq(f->ctx, 16, NULL, a->channel, 0);
	a->srq = ibv_create_srq(a->pd, &srq);
	a->xrcd = ibv_open_xrcd(f->ctx, &xrcd);
	own.cq = a->cq;
	a->qp = make_qp(&own, IBV_QPT_UD);
	assert_true(a->pd && a->td && a->parent && a->mr && a->mw && a->dm &&
		    a->ah && a->channel && a->cq && a->srq && a->xrcd);
	make_raw(a, f->ctx);
}

/* ---- their destruction, in reverse order ---- */

#define KINDS(X)                                                               \
	X(flow, ibv_destroy_flow, &a->flow->handle)                            \
	X(counters, ibv_destroy_counters, NULL)                                \
	X(raw, ibv_destroy_qp, &a->raw->handle)                                \
	X(table, ibv_destroy_rwq_ind_table,                                    \
	  (uint32_t *)&a->table->ind_tbl_handle)                               \
	X(wq, ibv_destroy_wq, &a->wq->handle)                                  \
	X(qp, ibv_destroy_qp, &a->qp->handle)                                  \
	X(xrcd, ibv_close_xrcd, NULL)                                          \
	X(srq, ibv_destroy_srq, &a->srq->handle)                               \
	X(cq, ibv_destroy_cq, &a->cq->handle)                                  \
	X(channel, ibv_destroy_comp_channel, NULL)                             \
	X(ah, ibv_destroy_ah, &a->ah->handle)                                  \
	X(dm, ibv_free_dm, &a->dm->handle)                                     \
	X(mw, ibv_dealloc_mw, &a->mw->handle)                                  \
	X(mr, ibv_dereg_mr, &a->mr->handle)                                    \
	X(parent, ibv_dealloc_pd, &a->parent->handle)                          \
	X(td, ibv_dealloc_td, NULL)                                            \
	X(pd, ibv_dealloc_pd, &a->pd->handle)

#define END(name, fn, number)                                                  \
	static int end_##name(struct all *a)                                   \
	{                                                                      \
		return fn(a->name);                                            \
	}                                                                      \
	static uint32_t *number_##name(struct all *a)                          \
	{                                                                      \
		return number;                                                 \
	}
KINDS(END)

static const struct {
	int (*end)(struct all *a);
	uint32_t *(*number)(struct all *a);
} kinds[] = {
#define ROW(name, fn, number) { end_##name, number_##name },
	KINDS(ROW)
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void damaged_numbers_end_nothing(void **state)
{
	struct all a;

	make_all(&a, *state);
	for (size_t i = 0; i < N_KINDS; i++) {
		uint32_t *number = kinds[i].number(&a);

		if (number) {
			*number ^= 0x40000000;
			errno = 0;
			assert_int_equal(kinds[i].end(&a), ENOENT);
			assert_int_equal(errno, ENOENT);
			*number ^= 0x40000000;
		}
		assert_int_equal(kinds[i].end(&a), 0);
	}
}

static void nothing_ends_twice(void **state)
{
	struct all a;

	make_all(&a, *state);
	for (size_t i = 0; i < N_KINDS; i++) {
		assert_int_equal(kinds[i].end(&a), 0);
		errno = 0;
		assert_int_equal(kinds[i].end(&a), ENOENT);
		assert_int_equal(errno, ENOENT);
	}
	/* All at once, while their context pointers still refer to it. */
	for (size_t i = 0; i < N_KINDS; i++)
		assert_int_equal(kinds[i].end(&a), ENOENT);
}

static void damaged_numbers_are_not_used(void **state)
{
	struct ibv_qp_attr qp = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;
	struct ibv_srq_attr srq = { .srq_limit = 1 };
	struct ibv_modify_cq_attr moderate = { .attr_mask = 1 };
	struct ibv_wq_attr wq = { .attr_mask = IBV_WQ_ATTR_STATE,
				  .wq_state = IBV_WQS_ERR };
	struct ibv_flow_attr flow = { .port = 1 };
	union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 1, 1 } };
	struct all a;

	make_all(&a, *state);
	a.qp->handle ^= 1u << 30;
	assert_int_equal(ibv_modify_qp(a.qp, &qp, IBV_QP_STATE), ENOENT);
	assert_int_equal(ibv_query_qp(a.qp, &qp, IBV_QP_STATE, &init), ENOENT);
	assert_int_equal(ibv_attach_mcast(a.qp, &group, 0), ENOENT);
	assert_int_equal(ibv_detach_mcast(a.qp, &group, 0), ENOENT);
	a.qp->handle ^= 1u << 30;
	assert_int_equal(a.qp->state, IBV_QPS_RESET); /* as created */
	a.raw->handle ^= 1u << 30;
	assert_null(ibv_create_flow(a.raw, &flow));
	assert_int_equal(errno, ENOENT);
	a.raw->handle ^= 1u << 30;
	a.srq->handle ^= 1u << 30;
	assert_int_equal(ibv_modify_srq(a.srq, &srq, IBV_SRQ_LIMIT), ENOENT);
	assert_int_equal(ibv_query_srq(a.srq, &srq), ENOENT);
	a.srq->handle ^= 1u << 30;
	a.cq->handle ^= 1u << 30;
	assert_int_equal(ibv_resize_cq(a.cq, 32), ENOENT);
	assert_int_equal(ibv_modify_cq(a.cq, &moderate), ENOENT);
	a.cq->handle ^= 1u << 30;
	a.wq->handle ^= 1u << 30;
	assert_int_equal(ibv_modify_wq(a.wq, &wq), ENOENT);
	a.wq->handle ^= 1u << 30;
	a.mr->handle ^= 1u << 30;
	assert_int_equal(ibv_rereg_mr(a.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				      NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, ENOENT);
	a.mr->handle ^= 1u << 30;
	for (size_t i = 0; i < N_KINDS; i++)
		assert_int_equal(kinds[i].end(&a), 0);
}

#define REFUSED(call)                                                          \
	do {                                                                   \
		errno = 0;                                                     \
		assert_null(call);                                             \
		assert_int_equal(errno, ENOENT);                               \
	} while (0)

static struct ibv_qp *qp_of(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr qp = { .send_cq = cq,
				       .recv_cq = cq,
				       .cap = { 4, 4, 1, 1, 0 },
				       .qp_type = IBV_QPT_RC };

	return ibv_create_qp(pd, &qp);
}

static struct ibv_wq *wq_of(struct fixture *f)
{
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ,
				       .max_wr = 4,
				       .max_sge = 1,
				       .pd = f->pd,
				       .cq = f->cq };

	return ibv_create_wq(f->ctx, &wq);
}

static void nothing_is_made_of_a_damaged_domain(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr srq = { .attr = { 4, 1, 0 } };
	struct ibv_ah_attr ah = { .port_num = 1, .dlid = 1 };
	struct ibv_parent_domain_init_attr parent = { .pd = f->pd };

	f->pd->handle ^= 1u << 30;
	REFUSED(qp_of(f->pd, f->cq));
	REFUSED(wq_of(f));
	REFUSED(ibv_create_srq(f->pd, &srq));
	REFUSED(ibv_create_ah(f->pd, &ah));
	REFUSED(ibv_reg_mr(f->pd, buf, 8, 0));
	REFUSED(ibv_alloc_null_mr(f->pd));
	REFUSED(ibv_alloc_mw(f->pd, IBV_MW_TYPE_1));
	REFUSED(ibv_alloc_parent_domain(f->ctx, &parent));
	f->pd->handle ^= 1u << 30;
}

static void nothing_is_made_of_what_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct ibv_pd *pd = ibv_alloc_pd(f->ctx);

	f->cq->handle ^= 1u << 30;
	REFUSED(qp_of(f->pd, f->cq));
	REFUSED(wq_of(f));
	f->cq->handle ^= 1u << 30;
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	REFUSED(qp_of(pd, f->cq));
	REFUSED(ibv_reg_mr(pd, buf, 8, 0));
}

/* The data path does not check, and is safe all the same. */
static void posts_and_polls_of_the_destroyed(void **state)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_RDMA_WRITE }, *bad_send;
	struct ibv_recv_wr recv = { .num_sge = 0 }, *bad;
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct fixture *f = *state;
	struct ibv_srq *srq = ibv_create_srq(f->pd, &init);
	struct ibv_cq *cq = ibv_create_cq(f->ctx, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(f, IBV_QPT_RC);
	struct ibv_wc wc;

	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_post_send(qp, &send, &bad_send), ENODEV);
	assert_int_equal(ibv_post_recv(qp, &recv, &bad), ENODEV);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad), ENODEV);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), -ENODEV);
	assert_int_equal(ibv_req_notify_cq(cq, 0), ENODEV);
}

static void a_context_is_closed_once(void **state)
{
	struct fixture *f = *state;
	struct ibv_context *ctx = ibv_open_device(f->list[0]);

	assert_non_null(ctx);
	assert_int_equal(ibv_close_device(ctx), 0);
	errno = 0;
	assert_int_equal(ibv_close_device(ctx), -1);
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_alloc_pd(ctx));
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_create_cq(ctx, 16, NULL, NULL, 0));
	assert_int_equal(errno, ENOENT);
}

/* More than the first table has room for. */
static void many_are_found(void **state)
{
	static struct ibv_pd *pds[3000];
	struct fixture *f = *state;

	for (size_t i = 0; i < 3000; i++) {
		pds[i] = ibv_alloc_pd(f->ctx);
		assert_non_null(pds[i]);
	}
	for (size_t i = 0; i < 3000; i++) {
		pds[i]->handle++;
		assert_int_equal(ibv_dealloc_pd(pds[i]), ENOENT);
		pds[i]->handle--;
	}
	for (size_t i = 0; i < 3000; i++)
		assert_int_equal(ibv_dealloc_pd(pds[(i * 7) % 3000]), 0);
}

#define ROUNDS 2000

static struct ibv_ah *shared;
static _Atomic int ended;
static pthread_barrier_t both;

static void *destroy_it(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&both);
		if (ibv_destroy_ah(shared) == 0)
			ended++;
		pthread_barrier_wait(&both);
	}
	return NULL;
}

static void two_threads_destroy_it_once(void **state)
{
	pthread_t t;

	pthread_barrier_init(&both, NULL, 2);
	shared = make_ah(*state);
	assert_int_equal(pthread_create(&t, NULL, destroy_it, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&both);
		if (ibv_destroy_ah(shared) == 0)
			ended++;
		pthread_barrier_wait(&both);
		assert_int_equal(ended, i + 1);
		if (i + 1 < ROUNDS)
			shared = make_ah(*state);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	pthread_barrier_destroy(&both);
}

#define TEST(fn)                                                               \
	cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(damaged_numbers_end_nothing),
		TEST(nothing_ends_twice),
		TEST(damaged_numbers_are_not_used),
		TEST(nothing_is_made_of_a_damaged_domain),
		TEST(nothing_is_made_of_what_is_not_there),
		TEST(posts_and_polls_of_the_destroyed),
		TEST(a_context_is_closed_once),
		TEST(many_are_found),
		TEST(two_threads_destroy_it_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
