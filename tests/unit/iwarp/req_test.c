/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests: order, fences, limits, errors of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "wire/mpa.h"
#include "world.h"

static void fence_waits_for_reads(void **state)
{
	struct world *w = world_setup();

	world_post(w, 1, UR_WR_RDMA_READ, 0, 100);
	world_post(w, 2, UR_WR_SEND, 0, 10);
	world_post(w, 3, UR_WR_SEND, UR_SEND_FENCE, 10);
	world_a_sent(w, UR_RDMAP_READ_REQUEST);
	world_a_sent(w, UR_RDMAP_SEND);
	world_a_sent_nothing(w);
	side_no_cqe(&w->p.a); /* the SEND completes after the READ */
	world_answer(w, 100);
	world_a_sent(w, UR_RDMAP_SEND);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 3, UR_WC_SUCCESS);
	world_teardown(w);
}

static void ord_is_kept(void **state)
{
	struct world *w = world_setup();

	for (uint64_t i = 1; i <= 5; i++)
		world_post(w, i, UR_WR_RDMA_READ, 0, 100);
	world_post(w, 6, UR_WR_SEND, 0, 1);
	for (int i = 0; i < 4; i++)
		world_a_sent(w, UR_RDMAP_READ_REQUEST);
	world_a_sent_nothing(w);
	world_answer(w, 100);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	world_a_sent(w, UR_RDMAP_READ_REQUEST);
	world_a_sent(w, UR_RDMAP_SEND);
	side_no_cqe(&w->p.a);
	world_teardown(w);
}

static void no_ord_no_reads(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w;

	params.ord = 0;
	w = world_setup_with(&params, false);
	world_post(w, 1, UR_WR_SEND, 0, 1);
	world_post(w, 2, UR_WR_RDMA_READ, 0, 100);
	world_post(w, 3, UR_WR_SEND, 0, 1);
	world_a_sent(w, UR_RDMAP_WRITE); /* RTR */
	world_a_sent(w, UR_RDMAP_SEND);
	side_send(&w->p, &w->p.a);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 2, UR_WC_LOC_QP_OP_ERR);
	side_cqe(&w->p.a, 3, UR_WC_WR_FLUSH_ERR);
	expect_terminate(&w->p.a.out, UR_TERM_RDMAP, UR_TERM_LOCAL, 0, NULL);
	world_teardown(w);
}

/* Operations that iWARP lacks, or that cannot be executed. */
static void refused_operations(void **state)
{
	static const struct {
		uint8_t opcode, status;
	} rows[] = { { UR_WR_SEND_IMM, UR_WC_LOC_QP_OP_ERR },
		     { UR_WR_LOCAL_INV, UR_WC_MW_BIND_ERR } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world *w = world_setup();

		world_post(w, 1, rows[i].opcode, 0, 8);
		pair_run(&w->p);
		side_cqe(&w->p.a, 1, rows[i].status);
		assert_int_equal(world_state_of(&w->p.a), UR_QPS_ERR);
		assert_int_equal(world_state_of(&w->p.b), UR_QPS_ERR);
		world_teardown(w);
	}
}

/* A bad lkey in the middle of a message: earlier ones complete. */
static void bad_lkey(void **state)
{
	struct world *w = world_setup();
	struct ur_sge sge[2];
	struct rig_wr wr = { .wr_id = 2,
			     .sge = sge,
			     .nsge = 2,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED };

	sge[0] = rig_sge(&w->a, 0, 5000);
	sge[1] = rig_sge(&w->a, 5000, 5000);
	sge[1].lkey ^= 0x300;
	world_post_recv(w, 11, 100);
	world_post_recv(w, 12, 20000);
	world_post(w, 1, UR_WR_SEND, 0, 100);
	side_post_send(&w->p, &w->p.a, &wr);
	world_post(w, 3, UR_WR_SEND, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 2, UR_WC_LOC_PROT_ERR);
	side_cqe(&w->p.a, 3, UR_WC_WR_FLUSH_ERR);
	side_cqe(&w->p.b, 11, UR_WC_SUCCESS);
	side_cqe(&w->p.b, 12, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->rcvd_terminate, 1);
	side_event(&w->p.b, UR_EVENT_QP_FATAL);
	assert_null(ur_iwarp_link(&w->p.a.qp));
	assert_null(ur_iwarp_link(&w->p.b.qp));
	assert_false(w->p.a.reset || w->p.b.reset);
	world_teardown(w);
}

/* Registered memory that is unmapped when it is to be sent. */
static void memory_is_gone(void **state)
{
	struct world *w = world_setup_large();
	uint8_t *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ur_mr *mr;
	struct rig_wr wr = { .wr_id = 1,
			     .nsge = 1,
			     .opcode = UR_WR_RDMA_WRITE,
			     .flags = UR_SEND_SIGNALED,
			     .remote_addr = (uintptr_t)w->b.p,
			     .rkey = w->b.mr->key };
	struct ur_sge sge;

	assert_int_equal(ur_mr_create(&w->p.a.host.mrs, &w->p.a.host.pd, p,
				      65536, (uintptr_t)p, ALL, &mr),
			 0);
	sge = (struct ur_sge){ (uintptr_t)p, 65536, mr->key };
	wr.sge = &sge;
	munmap(p + 32768, 32768);
	side_post_send(&w->p, &w->p.a, &wr);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_LOC_PROT_ERR);
	assert_int_equal(world_state_of(&w->p.b), UR_QPS_ERR);
	ur_mr_destroy(&w->p.a.host.mrs, mr);
	munmap(p, 32768);
	world_teardown(w);
}

/* The link finds out: writev gives EFAULT. */
static void writing_faults(void **state)
{
	struct world *w = world_setup_large();
	struct iovec iov[UR_IW_TX_IOV];
	uint32_t n;

	world_post(w, 1, UR_WR_RDMA_WRITE, 0, 60000);
	assert_ptr_equal(ur_iwarp_next(w->p.a.w), &w->p.a.qp);
	n = ur_iwarp_tx_get(w->p.a.w, &w->p.a.qp, iov, UR_IW_TX_IOV, 1);
	assert_true(n > 2);
	ur_iwarp_tx_done(w->p.a.w, &w->p.a.qp, 0, 1);
	ur_iwarp_tx_fault(w->p.a.w, &w->p.a.qp, 1);
	side_cqe(&w->p.a, 1, UR_WC_LOC_PROT_ERR);
	pair_run(&w->p);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->rcvd_terminate, 1);
	world_teardown(w);
}

static void inline_data(void **state)
{
	struct world *w = world_setup();

	world_post_recv(w, 1, 200);
	memset(w->a.p, 0x5a, 100);
	world_post(w, 2, UR_WR_SEND, UR_SEND_INLINE, 100);
	memset(w->a.p, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.b, 1, UR_WC_SUCCESS);
	assert_int_equal(w->b.p[0], 0x5a);
	assert_int_equal(w->b.p[99], 0x5a);
	world_teardown(w);
}

static void many_batches_are_kept_by_the_lane(void **state)
{
	struct world *w = world_setup();

	for (uint64_t i = 0; i < 20; i++) {
		world_post(w, i, UR_WR_RDMA_WRITE, 0, 200000);
		pair_run(&w->p);
		side_cqe(&w->p.a, i, UR_WC_SUCCESS);
	}
	assert_memory_equal(w->b.p, w->a.p, 200000);
	world_teardown(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fence_waits_for_reads),
		cmocka_unit_test(ord_is_kept),
		cmocka_unit_test(no_ord_no_reads),
		cmocka_unit_test(refused_operations),
		cmocka_unit_test(bad_lkey),
		cmocka_unit_test(memory_is_gone),
		cmocka_unit_test(writing_faults),
		cmocka_unit_test(inline_data),
		cmocka_unit_test(many_batches_are_kept_by_the_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
