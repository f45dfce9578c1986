/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests and the life of a connection: order, fences, limits, errors of our
 * own, TERMINATE from the peer, and every way in which a connection ends.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/crc.h"
#include "base/timer.h"
#include "fixture.h"
#include "wire/mpa.h"

#define ALL                                                                    \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC)
#define LEN 262144u

struct world {
	struct pair p;
	struct rig_buf a; /* memory of each side */
	struct rig_buf b;
	struct ur_sge sge; /* the whole of a */
};

static struct world *setup_with(const struct ur_iw_params *params, bool srq)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	pair_init_raw(&w->p, srq);
	if (params)
		pair_connect(&w->p, params, NULL);
	rig_buf_init(&w->a, &w->p.a.host, LEN, ALL);
	rig_buf_init(&w->b, &w->p.b.host, LEN, ALL);
	for (uint32_t i = 0; i < LEN; i++) {
		w->a.p[i] = (uint8_t)(i * 7);
		w->b.p[i] = (uint8_t)(i * 5);
	}
	w->sge = rig_sge(&w->a, 0, 100);
	return w;
}

static struct world *setup(void)
{
	struct ur_iw_params params = pair_params(true);

	params.rtr = UR_IW_RTR_NONE;
	return setup_with(&params, false);
}

/* FPDUs so large that their payload is sent from where it lies. */
static struct world *setup_large(void)
{
	struct ur_iw_params params = pair_params(true);

	params.rtr = UR_IW_RTR_NONE;
	params.max_fpdu = 65000;
	return setup_with(&params, false);
}

static void teardown(struct world *w)
{
	assert_true(rig_buf_guards_ok(&w->a));
	assert_true(rig_buf_guards_ok(&w->b));
	rig_buf_fini(&w->a);
	rig_buf_fini(&w->b);
	pair_fini(&w->p);
	free(w);
}

static void post(struct world *w, uint64_t id, uint8_t opcode, uint8_t flags,
		 uint32_t len)
{
	struct rig_wr wr = { .wr_id = id,
			     .sge = &w->sge,
			     .nsge = 1,
			     .opcode = opcode,
			     .flags = flags | UR_SEND_SIGNALED,
			     .remote_addr = (uintptr_t)w->b.p,
			     .rkey = w->b.mr->key };

	w->sge.length = len;
	side_post_send(&w->p, &w->p.a, &wr);
}

static void post_recv(struct world *w, uint64_t id, uint32_t len)
{
	struct ur_sge sge = rig_sge(&w->b, 0, len);

	side_post_recv(&w->p.b, id, &sge, 1);
}

static enum ur_qp_state state_of(const struct side *s)
{
	return atomic_load(&s->qp.state);
}

/* The next FPDU of a has that opcode. */
static void a_sent(struct world *w, enum ur_rdmap_opcode op)
{
	static struct fpdu f;

	side_send(&w->p, &w->p.a);
	assert_true(fpdu_get(&w->p.a.out, &f, true));
	assert_int_equal(ur_rdmap_control_opcode(f.h.ulp), op);
}

static void a_sent_nothing(struct world *w)
{
	side_send(&w->p, &w->p.a);
	assert_int_equal(w->p.a.out.len, 0);
}

static void answer(struct world *w, uint32_t len)
{
	static uint8_t data[100];
	struct ur_ddp_hdr h =
		hdr_tagged(UR_RDMAP_READ_RESPONSE, w->sge.lkey, w->sge.addr);

	fpdu_put(&w->p.b.out, &h, data, len);
	while (w->p.b.out.len)
		side_recv(&w->p, &w->p.a, &w->p.b.out);
}

static void fence_waits_for_reads(void **state)
{
	struct world *w = setup();

	post(w, 1, UR_WR_RDMA_READ, 0, 100);
	post(w, 2, UR_WR_SEND, 0, 10);
	post(w, 3, UR_WR_SEND, UR_SEND_FENCE, 10);
	a_sent(w, UR_RDMAP_READ_REQUEST);
	a_sent(w, UR_RDMAP_SEND);
	a_sent_nothing(w);
	side_no_cqe(&w->p.a); /* the SEND completes behind the READ */
	answer(w, 100);
	a_sent(w, UR_RDMAP_SEND);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 3, UR_WC_SUCCESS);
	teardown(w);
}

static void ord_is_kept(void **state)
{
	struct world *w = setup();

	for (uint64_t i = 1; i <= 5; i++)
		post(w, i, UR_WR_RDMA_READ, 0, 100);
	post(w, 6, UR_WR_SEND, 0, 1);
	for (int i = 0; i < 4; i++)
		a_sent(w, UR_RDMAP_READ_REQUEST);
	a_sent_nothing(w);
	answer(w, 100);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	a_sent(w, UR_RDMAP_READ_REQUEST);
	a_sent(w, UR_RDMAP_SEND);
	side_no_cqe(&w->p.a);
	teardown(w);
}

static void no_ord_no_reads(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w;

	params.ord = 0;
	w = setup_with(&params, false);
	post(w, 1, UR_WR_SEND, 0, 1);
	post(w, 2, UR_WR_RDMA_READ, 0, 100);
	post(w, 3, UR_WR_SEND, 0, 1);
	a_sent(w, UR_RDMAP_WRITE); /* RTR */
	a_sent(w, UR_RDMAP_SEND);
	side_send(&w->p, &w->p.a);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 2, UR_WC_LOC_QP_OP_ERR);
	side_cqe(&w->p.a, 3, UR_WC_WR_FLUSH_ERR);
	expect_terminate(&w->p.a.out, UR_TERM_RDMAP, UR_TERM_LOCAL, 0, NULL);
	teardown(w);
}

/* What iWARP has no message for, or nothing to do it with. */
static void refused_operations(void **state)
{
	static const struct {
		uint8_t opcode, status;
	} rows[] = { { UR_WR_SEND_IMM, UR_WC_LOC_QP_OP_ERR },
		     { UR_WR_BIND_MW, UR_WC_LOC_QP_OP_ERR },
		     { UR_WR_LOCAL_INV, UR_WC_MW_BIND_ERR } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world *w = setup();

		post(w, 1, rows[i].opcode, 0, 8);
		pair_run(&w->p);
		side_cqe(&w->p.a, 1, rows[i].status);
		assert_int_equal(state_of(&w->p.a), UR_QPS_ERR);
		assert_int_equal(state_of(&w->p.b), UR_QPS_ERR);
		teardown(w);
	}
}

/* A bad lkey in the middle of a message: what is before it completes. */
static void bad_lkey(void **state)
{
	struct world *w = setup();
	struct ur_sge sge[2];
	struct rig_wr wr = { .wr_id = 2,
			     .sge = sge,
			     .nsge = 2,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED };

	sge[0] = rig_sge(&w->a, 0, 5000);
	sge[1] = rig_sge(&w->a, 5000, 5000);
	sge[1].lkey ^= 0x300;
	post_recv(w, 11, 100);
	post_recv(w, 12, 20000);
	post(w, 1, UR_WR_SEND, 0, 100);
	side_post_send(&w->p, &w->p.a, &wr);
	post(w, 3, UR_WR_SEND, 0, 100);
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
	teardown(w);
}

/* Registered memory that is unmapped when it is to be sent. */
static void memory_is_gone(void **state)
{
	struct world *w = setup_large();
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
	assert_int_equal(state_of(&w->p.b), UR_QPS_ERR);
	ur_mr_destroy(&w->p.a.host.mrs, mr);
	munmap(p, 32768);
	teardown(w);
}

/* The link finds out itself: writev gives EFAULT. */
static void writing_faults(void **state)
{
	struct world *w = setup_large();
	struct iovec iov[UR_IW_TX_IOV];
	uint32_t n;

	post(w, 1, UR_WR_RDMA_WRITE, 0, 60000);
	assert_ptr_equal(ur_iwarp_next(w->p.a.w), &w->p.a.qp);
	n = ur_iwarp_tx_get(w->p.a.w, &w->p.a.qp, iov, UR_IW_TX_IOV, 1);
	assert_true(n > 2);
	ur_iwarp_tx_done(w->p.a.w, &w->p.a.qp, 0, 1);
	ur_iwarp_tx_fault(w->p.a.w, &w->p.a.qp, 1);
	side_cqe(&w->p.a, 1, UR_WC_LOC_PROT_ERR);
	pair_run(&w->p);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->rcvd_terminate, 1);
	teardown(w);
}

/* A TERMINATE names the READ that it is about. */
static void terminate_tells_the_read(void **state)
{
	struct world *w = setup();

	post(w, 1, UR_WR_RDMA_READ, 0, 100);
	post(w, 2, UR_WR_RDMA_READ, 0, 100);
	ur_sq_slot(&w->p.a.qp.sq, 1)->wr.rdma.rkey ^= 0x100;
	post(w, 3, UR_WR_RDMA_READ, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_WR_FLUSH_ERR);
	side_cqe(&w->p.a, 2, UR_WC_REM_ACCESS_ERR);
	side_cqe(&w->p.a, 3, UR_WC_WR_FLUSH_ERR);
	side_event(&w->p.a, -1);
	side_event(&w->p.b, UR_EVENT_QP_ACCESS_ERR);
	teardown(w);
}

static void terminate_after_completion(void **state)
{
	struct world *w = setup();

	post(w, 1, UR_WR_SEND, 0, 10); /* no receive is posted */
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_event(&w->p.a, UR_EVENT_QP_FATAL);
	assert_int_equal(state_of(&w->p.a), UR_QPS_ERR);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->no_receive_posted, 1);
	teardown(w);
}

static void terminate_of_siw_is_understood(void **state)
{
	static const uint8_t term[] = { 0x11, 0x00, 0x03, 0x00, 0x00, 0x40 };
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_TERMINATE, 1, 0);
	uint8_t buf[6 + UR_DDP_HDR_MAX];
	struct ur_ddp_hdr t;
	struct world *w = setup();

	w->p.a.out.room = 3000;
	post(w, 1, UR_WR_RDMA_WRITE, 0, 60000);
	side_send(&w->p, &w->p.a);
	memcpy(buf, term, 6);
	t = hdr_tagged(UR_RDMAP_WRITE, w->b.mr->key, (uintptr_t)w->b.p);
	ur_ddp_encode(&t, buf + 6);
	fpdu_put(&w->p.b.out, &h, buf, 6 + UR_DDP_TAGGED_LEN);
	side_recv(&w->p, &w->p.a, &w->p.b.out);
	side_cqe(&w->p.a, 1, UR_WC_REM_ACCESS_ERR);
	teardown(w);
}

static void peer_closes(void **state)
{
	struct world *w = setup();

	post_recv(w, 7, 10);
	w->p.a.out.fin = true;
	side_recv(&w->p, &w->p.b, &w->p.a.out);
	side_cqe(&w->p.b, 7, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(&w->p.b), UR_QPS_ERR);
	assert_null(ur_iwarp_link(&w->p.b.qp)); /* closed at once */
	side_event(&w->p.b, -1);
	teardown(w);
}

static void connection_breaks(void **state)
{
	struct world *w = setup();

	post(w, 1, UR_WR_RDMA_READ, 0, 10);
	side_send(&w->p, &w->p.a);
	ur_iwarp_eof(w->p.a.w, &w->p.a.qp, -ECONNRESET, 1);
	side_cqe(&w->p.a, 1, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(ur_iwarp_link_wish(&w->p.a.qp), UR_IW_CLOSE);
	side_event(&w->p.a, UR_EVENT_QP_FATAL);
	post(w, 2, UR_WR_SEND, 0, 10); /* ERR: flushed as it is posted */
	side_cqe(&w->p.a, 2, UR_WC_WR_FLUSH_ERR);
	teardown(w);
}

/* What was completed before disconnect arrives, though TCP was full. */
static void disconnect_is_orderly(void **state)
{
	struct world *w = setup_large();

	post_recv(w, 5, 1000);
	w->p.a.out.room = 500;
	post(w, 1, UR_WR_SEND, 0, 400);
	post(w, 2, UR_WR_RDMA_WRITE, 0, 100000);
	side_send(&w->p, &w->p.a);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	ur_iwarp_qp_disconnect(w->p.a.w, &w->p.a.qp, 1);
	side_cqe(&w->p.a, 2, UR_WC_WR_FLUSH_ERR);
	memset(w->a.p, 0, LEN); /* flushed: it is ours again */
	assert_int_equal(ur_iwarp_link_wish(&w->p.a.qp), UR_IW_KEEP);
	pair_run(&w->p);
	side_cqe(&w->p.b, 5, UR_WC_SUCCESS);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->crc_errors, 0);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->rcvd_terminate, 0);
	assert_int_equal(state_of(&w->p.b), UR_QPS_ERR);
	assert_null(ur_iwarp_link(&w->p.a.qp));
	side_event(&w->p.a, -1);
	side_event(&w->p.b, -1);
	teardown(w);
}

static int modify(struct side *s, enum ur_qp_state state, uint32_t mask)
{
	struct ur_qp_attr attr = { .state = state, .port_num = 1 };

	return ur_iwarp_qp_modify(s->w, &s->qp, &attr, UR_QP_STATE | mask, 1);
}

static void sqd_drains_then_closes(void **state)
{
	struct world *w = setup();

	post(w, 1, UR_WR_RDMA_READ, 0, 100);
	post(w, 2, UR_WR_RDMA_WRITE, 0, 100000);
	assert_int_equal(modify(&w->p.a, UR_QPS_SQD, 0), 0);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
	assert_memory_equal(w->b.p, w->a.p, 100000);
	assert_int_equal(state_of(&w->p.a), UR_QPS_ERR);
	assert_int_equal(state_of(&w->p.b), UR_QPS_ERR);
	teardown(w);
}

static void a_peer_that_never_closes(void **state)
{
	struct world *w = setup();
	uint64_t at;

	ur_iwarp_qp_disconnect(w->p.a.w, &w->p.a.qp, 1000);
	side_send(&w->p, &w->p.a);
	assert_true(w->p.a.out.fin);
	at = ur_iwarp_deadline(w->p.a.w);
	assert_true(at > 1000 && at < 60000000000u);
	ur_iwarp_expire(w->p.a.w, at);
	assert_ptr_equal(ur_iwarp_next(w->p.a.w), &w->p.a.qp);
	assert_int_equal(ur_iwarp_link_wish(&w->p.a.qp), UR_IW_ABORT);
	side_send(&w->p, &w->p.a);
	assert_true(w->p.a.reset);
	assert_true(ur_iwarp_deadline(w->p.a.w) == UR_NEVER);
	teardown(w);
}

/* After an error bytes are thrown away, so that our TERMINATE survives. */
static void bytes_after_an_error(void **state)
{
	struct world *w = setup();
	struct ur_ddp_hdr h = hdr_untagged(UR_RDMAP_SEND, 9, 0);

	fpdu_put(&w->p.a.out, &h, "x", 1);
	side_recv(&w->p, &w->p.b, &w->p.a.out);
	h.msn = 1;
	for (int i = 0; i < 5; i++)
		fpdu_put(&w->p.a.out, &h, "x", 1);
	while (w->p.a.out.len)
		assert_true(side_recv(&w->p, &w->p.b, &w->p.a.out));
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->drop_after_error, 140);
	side_send(&w->p, &w->p.b);
	expect_terminate(&w->p.b.out, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED,
			 UR_TERM_U_MSN, NULL);
	teardown(w);
}

/* The same in the middle of a segment that is placed directly. */
static void bytes_after_an_error_in_a_large_one(void **state)
{
	struct world *w = setup_large();
	struct iovec iov[UR_IW_RX_IOV];

	post(w, 1, UR_WR_RDMA_WRITE, 0, 60000);
	side_send(&w->p, &w->p.a);
	w->p.rx_max = 5000;
	for (int i = 0; i < 5; i++)
		side_recv(&w->p, &w->p.b, &w->p.a.out);
	ur_iwarp_qp_disconnect(w->p.b.w, &w->p.b.qp, 1);
	assert_int_equal(
		ur_iwarp_rx_want(w->p.b.w, &w->p.b.qp, iov, UR_IW_RX_IOV), 1);
	memset(w->b.p, 0, LEN);
	while (w->p.a.out.len)
		side_recv(&w->p, &w->p.b, &w->p.a.out);
	for (uint32_t i = 0; i < 60000; i++)
		assert_int_equal(w->b.p[i], 0);
	teardown(w);
}

static void responder_waits_for_the_initiator(void **state)
{
	struct world *w = setup();
	struct ur_sge sge = rig_sge(&w->b, 0, 10);
	struct rig_wr wr = { .wr_id = 1,
			     .sge = &sge,
			     .nsge = 1,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED };
	uint64_t at;

	side_post_send(&w->p, &w->p.b, &wr);
	side_send(&w->p, &w->p.b);
	assert_int_equal(w->p.b.out.len, 0);
	at = ur_iwarp_deadline(w->p.b.w);
	ur_iwarp_expire(w->p.b.w, at - 1);
	side_send(&w->p, &w->p.b);
	assert_int_equal(w->p.b.out.len, 0);
	ur_iwarp_expire(w->p.b.w, at); /* it will not speak, it seems */
	side_send(&w->p, &w->p.b);
	assert_true(w->p.b.out.len > 0);
	teardown(w);
	w = setup();
	sge = rig_sge(&w->b, 0, 10);
	side_post_send(&w->p, &w->p.b, &wr);
	post(w, 2, UR_WR_RDMA_WRITE, 0, 1);
	side_send(&w->p, &w->p.a);
	side_recv(&w->p, &w->p.b, &w->p.a.out);
	side_send(&w->p, &w->p.b);
	assert_true(w->p.b.out.len > 0);
	teardown(w);
}

/* Each kind of RTR lets the responder speak and disturbs nothing. */
static void ready_to_receive(void **state)
{
	static const enum ur_iw_rtr kinds[] = { UR_IW_RTR_FPDU, UR_IW_RTR_WRITE,
						UR_IW_RTR_READ };

	for (size_t i = 0; i < 3; i++) {
		struct ur_iw_params params = pair_params(true);
		struct ur_sge sge, in;
		struct rig_wr wr = { .wr_id = 1,
				     .sge = &sge,
				     .nsge = 1,
				     .opcode = UR_WR_SEND,
				     .flags = UR_SEND_SIGNALED };
		struct world *w;

		params.rtr = kinds[i];
		w = setup_with(&params, false);
		sge = rig_sge(&w->b, 0, 10);
		in = rig_sge(&w->a, 0, 10);
		side_post_recv(&w->p.a, 4, &in, 1);
		side_post_send(&w->p, &w->p.b, &wr);
		pair_run(&w->p);
		side_cqe(&w->p.a, 4, UR_WC_SUCCESS);
		side_cqe(&w->p.b, 1, UR_WC_SUCCESS);
		post(w, 2, UR_WR_RDMA_READ, 0, 50);
		pair_run(&w->p);
		side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
		assert_int_equal(state_of(&w->p.a), UR_QPS_RTS);
		assert_int_equal(state_of(&w->p.b), UR_QPS_RTS);
		teardown(w);
	}
}

static void srq(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w = setup_with(&params, true);

	post_recv(w, 1, 100);
	post_recv(w, 2, 100);
	post(w, 5, UR_WR_SEND, UR_SEND_SOLICITED, 30);
	pair_run(&w->p);
	assert_int_equal(side_cqe(&w->p.b, 1, UR_WC_SUCCESS).byte_len, 30);
	ur_iwarp_qp_disconnect(w->p.b.w, &w->p.b.qp, 1);
	side_no_cqe(&w->p.b); /* the other one stays the SRQ's */
	side_event(&w->p.b, UR_EVENT_QP_LAST_WQE_REACHED);
	teardown(w);
}

static struct world *setup_patient(void)
{
	struct world *w;

	pair_patient = true;
	w = setup_large();
	pair_patient = false;
	return w;
}

/* Small and large: nothing behind it is looked at until it has its receive. */
static void a_send_waits_for_its_receive(void **state)
{
	static const uint32_t lens[] = { 100, 50000 };

	for (size_t i = 0; i < 2; i++) {
		struct world *w = setup_patient();
		struct iovec iov[UR_IW_RX_IOV];

		post(w, 1, UR_WR_RDMA_WRITE, 0, 10);
		post(w, 2, UR_WR_SEND, 0, lens[i]);
		post(w, 3, UR_WR_RDMA_READ, 0, 100);
		pair_run(&w->p);
		side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
		side_cqe(&w->p.a, 2, UR_WC_SUCCESS);
		side_no_cqe(&w->p.a);
		assert_true(ur_iwarp_rx_starved(&w->p.b.qp));
		assert_int_equal(ur_iwarp_rx_want(w->p.b.w, &w->p.b.qp, iov,
						  UR_IW_RX_IOV),
				 0);
		assert_int_equal(
			ur_iwarp_input(w->p.b.w, &w->p.b.qp, "x", 1, 1), 0);
		assert_false(ur_iwarp_rx_retry(w->p.b.w, &w->p.b.qp, false, 1));
		post_recv(w, 9, lens[i]);
		assert_true(ur_iwarp_rx_retry(w->p.b.w, &w->p.b.qp, false, 1));
		pair_run(&w->p);
		assert_int_equal(side_cqe(&w->p.b, 9, UR_WC_SUCCESS).byte_len,
				 lens[i]);
		side_cqe(&w->p.a, 3, UR_WC_SUCCESS);
		teardown(w);
	}
}

static void waiting_ends(void **state)
{
	struct world *w = setup_patient();

	post(w, 1, UR_WR_SEND, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.a, 1, UR_WC_SUCCESS);
	assert_true(ur_iwarp_rx_retry(w->p.b.w, &w->p.b.qp, true, 1));
	assert_int_equal(state_of(&w->p.b), UR_QPS_ERR);
	side_send(&w->p, &w->p.b);
	expect_terminate(&w->p.b.out, UR_TERM_DDP, UR_TERM_DDP_UNTAGGED,
			 UR_TERM_U_NO_BUFFER, NULL);
	assert_int_equal(ur_iwarp_counters(w->p.b.w)->no_receive_posted, 1);
	teardown(w);
}

static void inline_data(void **state)
{
	struct world *w = setup();

	post_recv(w, 1, 200);
	memset(w->a.p, 0x5a, 100);
	post(w, 2, UR_WR_SEND, UR_SEND_INLINE, 100);
	memset(w->a.p, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.b, 1, UR_WC_SUCCESS);
	assert_int_equal(w->b.p[0], 0x5a);
	assert_int_equal(w->b.p[99], 0x5a);
	teardown(w);
}

static void cq_overrun_ends_the_connection(void **state)
{
	struct ur_cqe c;
	struct world *w = setup();

	for (uint32_t i = 0; i < 1023; i++) {
		post(w, i, UR_WR_RDMA_WRITE, 0, 1);
		pair_run(&w->p);
	}
	assert_int_equal(state_of(&w->p.a), UR_QPS_RTS);
	post(w, 1023, UR_WR_RDMA_WRITE, 0, 1);
	pair_run(&w->p);
	assert_int_equal(state_of(&w->p.a), UR_QPS_ERR);
	side_event(&w->p.a, UR_EVENT_CQ_ERR);
	side_event(&w->p.a, UR_EVENT_QP_FATAL);
	while (ur_cq_poll(&w->p.a.cq, &c, 1))
		;
	teardown(w);
}

static void states(void **state)
{
	struct ur_iw_params params = pair_params(true);
	struct world *w = setup_with(NULL, false);
	struct side *s = &w->p.a;
	struct ur_qp_attr attr;

	assert_int_equal(modify(s, UR_QPS_RTR, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_RTS, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_SQD, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_INIT, UR_QP_ACCESS_FLAGS), 0);
	assert_int_equal(modify(s, UR_QPS_INIT, UR_QP_PORT), 0);
	assert_int_equal(modify(s, UR_QPS_RTR, 0), 0);
	assert_int_equal(modify(s, UR_QPS_RTS, 0), -EINVAL);
	pair_connect(&w->p, &params, NULL);
	assert_int_equal(modify(s, UR_QPS_RTS, 0), 0);
	assert_int_equal(modify(s, UR_QPS_INIT, 0), -EINVAL);
	assert_int_equal(modify(s, UR_QPS_SQE, 0), -EINVAL);
	ur_iwarp_qp_query(s->w, &s->qp, &attr);
	assert_int_equal(attr.state, UR_QPS_RTS);
	assert_int_equal(attr.max_rd_atomic, 4);
	assert_int_equal(attr.max_dest_rd_atomic, 4);
	assert_int_equal(ur_iwarp_qp_connect(s->w, &s->qp, &params, s, 1),
			 -EINVAL);
	assert_int_equal(modify(s, UR_QPS_ERR, 0), 0);
	pair_run(&w->p);
	assert_int_equal(modify(s, UR_QPS_RESET, 0), 0);
	assert_int_equal(modify(&w->p.b, UR_QPS_RESET, 0), 0);
	/* And once more. */
	w->p.a.out.fin = false;
	w->p.b.out.fin = false;
	pair_connect(&w->p, &params, NULL);
	post_recv(w, 1, 100);
	post(w, 2, UR_WR_SEND, 0, 100);
	pair_run(&w->p);
	side_cqe(&w->p.b, 1, UR_WC_SUCCESS);
	teardown(w);
}

static void reset_drops_the_connection(void **state)
{
	struct world *w = setup();

	post(w, 1, UR_WR_RDMA_READ, 0, 10);
	side_send(&w->p, &w->p.a);
	assert_int_equal(modify(&w->p.a, UR_QPS_RESET, 0), 0);
	assert_int_equal(ur_iwarp_link_wish(&w->p.a.qp), UR_IW_ABORT);
	assert_int_equal(modify(&w->p.a, UR_QPS_INIT, 0), -EBUSY);
	assert_ptr_equal(ur_iwarp_next(w->p.a.w), &w->p.a.qp);
	ur_iwarp_unlink(w->p.a.w, &w->p.a.qp, 1);
	assert_int_equal(modify(&w->p.a, UR_QPS_INIT, 0), 0);
	side_no_cqe(&w->p.a);
	teardown(w);
}

/* A stream with markers, made of one without: each 512 bytes one, that says
 * how far behind the FPDU's beginning it stands. */
static void put_marked(struct pipe *to, struct pipe *from, uint64_t *pos)
{
	while (from->len) {
		uint8_t *p = from->data + from->head;
		uint32_t len = ur_fpdu_len((uint32_t)p[0] << 8 | p[1]);
		uint8_t *out = calloc(1, 2 * len + 8);
		uint32_t n = 0, begin = 0, crc;

		assert_non_null(out);
		for (uint32_t i = 0; i < len; i += 4) {
			if ((*pos + n) % 512 == 0) {
				out[n + 2] = (uint8_t)((n - begin) >> 8);
				out[n + 3] = (uint8_t)(n - begin);
				n += 4;
				if (i == 0)
					begin = 4;
			}
			memcpy(out + n, p + i, 4);
			n += 4;
		}
		crc = ur_crc32c(0, out, n - 4);
		memcpy(out + n - 4, &crc, 4);
		pipe_put(to, out, n);
		*pos += n;
		free(out);
		from->head += len;
		from->len -= len;
	}
}

static void markers_are_cut_out(void **state)
{
	struct ur_iw_params ap = pair_params(true), bp = pair_params(false);
	static const uint32_t sizes[] = { 1448, 128, UR_IW_FPDU_MAX, 9000 };

	for (size_t i = 0; i < 4; i++) {
		struct world *w = setup_with(NULL, false);
		struct pipe marked = { .data = NULL };
		uint64_t pos = 0;

		ap.max_fpdu = sizes[i];
		bp.rx_markers = true;
		pair_connect(&w->p, &ap, &bp);
		w->p.rx_max = 3000;
		post_recv(w, 9, 100000);
		post(w, 1, UR_WR_SEND, 0, 100000);
		post(w, 2, UR_WR_RDMA_WRITE, 0, 3);
		side_send(&w->p, &w->p.a);
		put_marked(&marked, &w->p.a.out, &pos);
		while (marked.len)
			side_recv(&w->p, &w->p.b, &marked);
		side_cqe(&w->p.b, 9, UR_WC_SUCCESS);
		assert_memory_equal(w->b.p, w->a.p, 100000);
		/* One that points elsewhere. */
		post(w, 3, UR_WR_RDMA_WRITE, 0, 1400);
		side_send(&w->p, &w->p.a);
		put_marked(&marked, &w->p.a.out, &pos);
		marked.data[marked.head + 512 - (pos - marked.len) % 512 + 3] ^=
			4;
		ur_iwarp_input(w->p.b.w, &w->p.b.qp, marked.data + marked.head,
			       marked.len, 1);
		assert_int_equal(state_of(&w->p.b), UR_QPS_ERR);
		assert_int_equal(ur_iwarp_counters(w->p.b.w)->crc_errors, 1);
		free(marked.data);
		teardown(w);
	}
}

static void many_batches_are_kept_by_the_lane(void **state)
{
	struct world *w = setup();

	for (uint64_t i = 0; i < 20; i++) {
		post(w, i, UR_WR_RDMA_WRITE, 0, 200000);
		pair_run(&w->p);
		side_cqe(&w->p.a, i, UR_WC_SUCCESS);
	}
	assert_memory_equal(w->b.p, w->a.p, 200000);
	teardown(w);
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
		cmocka_unit_test(terminate_tells_the_read),
		cmocka_unit_test(terminate_after_completion),
		cmocka_unit_test(terminate_of_siw_is_understood),
		cmocka_unit_test(peer_closes),
		cmocka_unit_test(connection_breaks),
		cmocka_unit_test(disconnect_is_orderly),
		cmocka_unit_test(sqd_drains_then_closes),
		cmocka_unit_test(a_peer_that_never_closes),
		cmocka_unit_test(bytes_after_an_error),
		cmocka_unit_test(bytes_after_an_error_in_a_large_one),
		cmocka_unit_test(responder_waits_for_the_initiator),
		cmocka_unit_test(ready_to_receive),
		cmocka_unit_test(srq),
		cmocka_unit_test(a_send_waits_for_its_receive),
		cmocka_unit_test(waiting_ends),
		cmocka_unit_test(inline_data),
		cmocka_unit_test(cq_overrun_ends_the_connection),
		cmocka_unit_test(states),
		cmocka_unit_test(reset_drops_the_connection),
		cmocka_unit_test(markers_are_cut_out),
		cmocka_unit_test(many_batches_are_kept_by_the_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
