/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC (IBTA annex A14): differences from RC. The target's receives, rights and
 * completions are those of the queue that each request names. */
#include "roce/fixture.h"

static int target_setup(void **state)
{
	*state = fix_new(UR_QPT_XRC_RECV, true);
	return 0;
}

static int initiator_setup(void **state)
{
	*state = fix_new(UR_QPT_XRC_SEND, false);
	return 0;
}

static void expect_ack(struct fix *f, uint32_t psn, uint8_t syndrome)
{
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_XRC_ACK, psn);
	assert_int_equal(f->out[0].h.syndrome, syndrome);
}

/* The named queue may not be used: the target fails. */
static void expect_violation(struct fix *f, uint32_t psn)
{
	expect_ack(f, psn, UR_AETH_NAK | UR_NAK_INV_REQ);
	expect_event(f, UR_EVENT_QP_REQ_ERR);
	expect_event(f, UR_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
}

/* Another queue, with receives of 64 bytes each. */
struct other {
	struct ur_srq srq;
	struct ur_cq cq;
};

static void other_init(struct other *o, struct fix *f, struct ur_pd *pd,
		       struct ur_xrcd *xrcd)
{
	assert_int_equal(ur_cq_init(&o->cq, 16, NULL, NULL, NULL), 0);
	assert_int_equal(
		ur_srq_init(&o->srq, pd, 8, 1, 0, &f->host.async, NULL), 0);
	ur_srq_set_cq(&o->srq, &o->cq, xrcd);
	assert_int_equal(ur_srq_table_add(f->host.srqs, &o->srq, 1), 0);
}

static void other_fini(struct other *o, struct fix *f)
{
	ur_srq_table_remove(f->host.srqs, &o->srq);
	assert_int_equal(ur_srq_fini(&o->srq), 0);
	assert_int_equal(ur_cq_fini(&o->cq), 0);
}

static void a_send_takes_a_receive_of_the_queue(void **state)
{
	struct fix *f = *state;
	struct ur_cqe c;

	fix_recv(f, 7, 0, 600);
	peer_plain(f, UR_XRC_SEND_FIRST, RQ_PSN, MTU);
	peer_plain(f, UR_XRC_SEND_LAST, RQ_PSN + 1, 100);
	c = expect_cqe(f, 7, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RECV);
	assert_int_equal(c.byte_len, MTU + 100);
	assert_int_equal(c.src_qp, PEER_QPN);
	assert_memory_equal(f->local.p, f->data, MTU);
	assert_memory_equal(f->local.p + MTU, f->data, 100);
	expect_ack(f, RQ_PSN + 1, UR_AETH_CREDITS_INVALID);
}

static void an_empty_queue_is_not_ready(void **state)
{
	struct fix *f = *state;

	peer_plain(f, UR_XRC_SEND_ONLY, RQ_PSN, 8);
	expect_ack(f, RQ_PSN, UR_AETH_RNR | 12);
	fix_recv(f, 7, 0, 64);
	peer_plain(f, UR_XRC_SEND_ONLY, RQ_PSN, 8);
	expect_cqe(f, 7, UR_WC_SUCCESS);
}

static void one_target_serves_many_queues(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_SEND_ONLY, RQ_PSN);
	struct ur_sge sge = rig_sge(&f->local, 100, 64);
	struct other o;
	struct ur_cqe c;

	other_init(&o, f, &f->host.pd, &f->host.xrcd);
	assert_int_not_equal(o.srq.number, f->srq.number);
	fix_recv(f, 7, 0, 64);
	assert_int_equal(rig_post_recv(&o.srq.rq, 8, &sge, 1), 0);
	h.srqn = o.srq.number;
	peer_send(f, &h, 8);
	expect_no_cqe(f);
	assert_int_equal(ur_cq_poll(&o.cq, &c, 1), 1);
	assert_int_equal(c.wr_id, 8);
	assert_int_equal(c.qpn, f->qp.qpn);
	assert_memory_equal(f->local.p + 100, f->data, 8);
	peer_plain(f, UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	expect_cqe(f, 7, UR_WC_SUCCESS);
	other_fini(&o, f);
}

/* The protection domain is the queue's: of remote and of local keys. */
static void rights_are_those_of_the_queue(void **state)
{
	struct fix *f = *state;
	struct ur_pd pd = { .handle = 9 };
	struct ur_hdr h = peer_hdr(f, UR_XRC_WRITE_ONLY, RQ_PSN);
	struct other o;

	h.dma_len = 8;
	peer_send(f, &h, 8);
	assert_memory_equal(f->remote.p, f->data, 8);
	fix_run(f);
	other_init(&o, f, &pd, &f->host.xrcd);
	h.bth.psn = RQ_PSN + 1;
	h.srqn = o.srq.number;
	peer_send(f, &h, 8);
	expect_ack(f, RQ_PSN + 1, UR_AETH_NAK | UR_NAK_REM_ACCESS);
	expect_event(f, UR_EVENT_QP_ACCESS_ERR);
	other_fini(&o, f);
}

static void local_keys_are_those_of_the_queue(void **state)
{
	struct fix *f = *state;
	struct ur_pd pd = { .handle = 9 };
	struct ur_hdr h = peer_hdr(f, UR_XRC_SEND_ONLY, RQ_PSN);
	struct ur_sge sge = rig_sge(&f->local, 0, 64);
	struct other o;
	struct ur_cqe c;

	other_init(&o, f, &pd, &f->host.xrcd);
	assert_int_equal(rig_post_recv(&o.srq.rq, 8, &sge, 1), 0);
	h.srqn = o.srq.number;
	peer_send(f, &h, 8);
	expect_ack(f, RQ_PSN, UR_AETH_NAK | UR_NAK_REM_OP);
	assert_int_equal(ur_cq_poll(&o.cq, &c, 1), 1);
	assert_int_equal(c.status, UR_WC_LOC_PROT_ERR);
	other_fini(&o, f);
}

static void a_queue_of_another_domain(void **state)
{
	struct fix *f = *state;
	struct ur_xrcd xrcd = { 0 };
	struct ur_hdr h = peer_hdr(f, UR_XRC_SEND_ONLY, RQ_PSN);
	struct other o;

	other_init(&o, f, &f->host.pd, &xrcd);
	assert_int_equal(xrcd.users, 1);
	h.srqn = o.srq.number;
	peer_send(f, &h, 8);
	expect_violation(f, RQ_PSN);
	other_fini(&o, f);
	assert_int_equal(xrcd.users, 0);
}

static void numbers_that_no_queue_has(void **state)
{
	struct fix *f = *state;
	const uint32_t wrong[] = { 0, f->srq.number + 1,
				   f->srq.number ^ 1u << 23, UR_QPN_MASK };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ur_hdr h = peer_hdr(f, UR_XRC_SEND_ONLY, RQ_PSN);

		h.srqn = wrong[i];
		peer_send(f, &h, 8);
		expect_violation(f, RQ_PSN);
		assert_int_equal(rig_qp_state(&f->lane, &f->qp, UR_QPS_RESET,
					      f->now_ns),
				 0);
		fix_connect(f);
	}
}

static void the_queue_changes_within_a_message(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_SEND_LAST, RQ_PSN + 1);
	struct other o;

	other_init(&o, f, &f->host.pd, &f->host.xrcd);
	fix_recv(f, 7, 0, 600);
	peer_plain(f, UR_XRC_SEND_FIRST, RQ_PSN, MTU);
	h.srqn = o.srq.number;
	peer_send(f, &h, 8);
	expect_cqe(f, 7, UR_WC_REM_INV_REQ_ERR);
	expect_violation(f, RQ_PSN + 1);
	other_fini(&o, f);
}

/* The queue is destroyed in the middle of a message. */
static void the_queue_is_destroyed(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_SEND_FIRST, RQ_PSN);
	struct ur_sge sge = rig_sge(&f->local, 0, 600);
	struct other o;

	other_init(&o, f, &f->host.pd, &f->host.xrcd);
	assert_int_equal(rig_post_recv(&o.srq.rq, 8, &sge, 1), 0);
	h.srqn = o.srq.number;
	peer_send(f, &h, MTU);
	other_fini(&o, f);
	h.bth.opcode = UR_XRC_SEND_LAST;
	h.bth.psn++;
	peer_send(f, &h, 8);
	expect_violation(f, RQ_PSN + 1);
	expect_no_cqe(f);
}

static void reads_and_atomics_are_answered(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_READ_REQUEST, RQ_PSN);

	memcpy(f->remote.p, f->data, MTU + 8);
	h.dma_len = MTU + 8;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_XRC_READ_RESP_FIRST, RQ_PSN);
	expect_out(f, 1, UR_XRC_READ_RESP_LAST, RQ_PSN + 1);
	assert_memory_equal(f->out[0].payload, f->data, MTU);
	assert_int_equal(f->out[1].len, 8);
	peer_atomic(f, UR_XRC_FETCH_ADD, RQ_PSN + 2, 1, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_XRC_ATOMIC_ACK, RQ_PSN + 2);
	assert_memory_equal(&f->out[0].h.orig, f->data, 8);
	/* a duplicate is answered from the saved result */
	peer_atomic(f, UR_XRC_FETCH_ADD, RQ_PSN + 2, 1, 0);
	assert_int_equal(fix_run(f), 1);
	assert_memory_equal(&f->out[0].h.orig, f->data, 8);
}

/* Its queue is destroyed before a READ is answered: no rights any more. */
static void a_read_outlives_its_queue(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_READ_REQUEST, RQ_PSN);
	struct other o;

	other_init(&o, f, &f->host.pd, &f->host.xrcd);
	h.srqn = o.srq.number;
	h.dma_len = 8;
	peer_send(f, &h, 0);
	other_fini(&o, f);
	expect_ack(f, RQ_PSN, UR_AETH_NAK | UR_NAK_REM_ACCESS);
	assert_int_equal(f->qp.state, UR_QPS_ERR);
	expect_event(f, UR_EVENT_QP_ACCESS_ERR);
}

static void a_target_ignores_responses_and_rc(void **state)
{
	struct fix *f = *state;
	uint64_t before = counters(f)->drop_transport;

	peer_plain(f, UR_XRC_ACK, SQ_PSN, 0);
	fix_recv(f, 7, 0, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(counters(f)->drop_transport, before + 2);
	assert_int_equal(fix_run(f), 0);
	expect_no_cqe(f);
}

static void an_initiator_names_the_queue(void **state)
{
	static const struct {
		uint8_t op;
		uint8_t code;
	} ops[] = {
		{ UR_WR_SEND, UR_XRC_SEND_ONLY },
		{ UR_WR_SEND_IMM, UR_XRC_SEND_ONLY_IMM },
		{ UR_WR_SEND_INV, UR_XRC_SEND_ONLY_INV },
		{ UR_WR_RDMA_WRITE, UR_XRC_WRITE_ONLY },
		{ UR_WR_RDMA_WRITE_IMM, UR_XRC_WRITE_ONLY_IMM },
		{ UR_WR_RDMA_READ, UR_XRC_READ_REQUEST },
		{ UR_WR_CMP_SWP, UR_XRC_CMP_SWAP },
		{ UR_WR_FETCH_ADD, UR_XRC_FETCH_ADD },
	};
	struct fix *f = *state;

	for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		fix_post(f, ops[i].op, i, 8, 0);
		assert_int_equal(fix_run(f), 1);
		expect_out(f, 0, ops[i].code, SQ_PSN + i);
		assert_int_equal(f->out[0].h.srqn, PEER_SRQN);
		if (ops[i].op >= UR_WR_RDMA_READ &&
		    ops[i].op <= UR_WR_FETCH_ADD)
			break;
		peer_plain(f, UR_XRC_ACK, SQ_PSN + i, 0);
		expect_cqe(f, i, UR_WC_SUCCESS);
	}
}

static void an_initiator_gets_its_answers(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_READ_RESP_ONLY, SQ_PSN);

	fix_post(f, UR_WR_RDMA_READ, 1, 8, 0);
	fix_post(f, UR_WR_FETCH_ADD, 2, 8, 0);
	assert_int_equal(fix_run(f), 2);
	peer_send(f, &h, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_memory_equal(f->local.p, f->data, 8);
	h = peer_hdr(f, UR_XRC_ATOMIC_ACK, SQ_PSN + 1);
	h.orig = 0x1122334455667788u;
	peer_send(f, &h, 0);
	expect_cqe(f, 2, UR_WC_SUCCESS);
	assert_memory_equal(f->local.p, &h.orig, 8);
}

/* Lost packets are detected by the timer as on RC. */
static void an_initiator_sends_again(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	assert_int_equal(fix_run(f), 1);
	assert_true(fix_sleep(f, 70 * MS) >= 1);
	expect_out(f, 0, UR_XRC_SEND_ONLY, SQ_PSN);
	peer_plain(f, UR_XRC_ACK, SQ_PSN, 0);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void an_initiator_ignores_requests(void **state)
{
	struct fix *f = *state;

	peer_plain(f, UR_XRC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(counters(f)->drop_transport, 1);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

#define TARGET(t) cmocka_unit_test_setup_teardown(t, target_setup, fix_teardown)
#define INITIATOR(t)                                                           \
	cmocka_unit_test_setup_teardown(t, initiator_setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TARGET(a_send_takes_a_receive_of_the_queue),
		TARGET(an_empty_queue_is_not_ready),
		TARGET(one_target_serves_many_queues),
		TARGET(rights_are_those_of_the_queue),
		TARGET(local_keys_are_those_of_the_queue),
		TARGET(a_queue_of_another_domain),
		TARGET(numbers_that_no_queue_has),
		TARGET(the_queue_changes_within_a_message),
		TARGET(the_queue_is_destroyed),
		TARGET(reads_and_atomics_are_answered),
		TARGET(a_read_outlives_its_queue),
		TARGET(a_target_ignores_responses_and_rc),
		INITIATOR(an_initiator_names_the_queue),
		INITIATOR(an_initiator_gets_its_answers),
		INITIATOR(an_initiator_sends_again),
		INITIATOR(an_initiator_ignores_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
