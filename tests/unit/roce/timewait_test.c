/* SPDX-License-Identifier: BSD-2-Clause */
/* TIME-WAIT: acknowledgements repeated after the end of a queue pair. */
#include "roce/fixture.h"
#include "roce/timewait.h"

static uint32_t number; /* of the queue pair that has ended */

static void end(struct fix *f)
{
	number = f->qp.qpn;
	rig_qp_destroy(&f->lane, &f->qp);
	assert_int_equal(fix_run(f), 0);
}

/* The fixture takes its queue pair away: give it another one. */
static void another(struct fix *f)
{
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .send_cq = &f->cq,
				   .recv_cq = &f->cq };

	init.cap = (struct ur_qp_cap){ .max_send_wr = 4,
				       .max_recv_wr = 4,
				       .max_send_sge = 1,
				       .max_recv_sge = 1 };
	rig_qp_create(&f->lane, &f->qp, &init);
}

static void to_number(struct fix *f, uint8_t opcode, uint32_t psn, uint32_t len)
{
	struct ur_hdr h = rig_hdr(opcode, number, psn);

	h.bth.ackreq = true;
	h.va = (uintptr_t)f->remote.p;
	h.rkey = f->remote.mr->key;
	h.dma_len = len;
	peer_send(f, &h, h.op->payload ? len : 0);
}

/* Two SENDs, acknowledged; then the end. */
static void two_and_end(struct fix *f)
{
	fix_recv(f, 1, 0, 64);
	fix_recv(f, 2, 64, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN + 1, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_cqe(f, 2, UR_WC_SUCCESS);
	assert_true(fix_run(f) >= 1);
	end(f);
}

/* To a peer in state Armed, MigReq would ask to migrate. */
static void migreq_as_before(void **state)
{
	struct ur_qp_attr a = { .path_mig_state = UR_MIG_REARM,
				.alt_port_num = 1 };
	struct fix *f = *state;

	rig_av(&a.alt_av, f->link.src, f->link.dst);
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &a,
					   UR_QP_ALT_PATH |
						   UR_QP_PATH_MIG_STATE,
					   f->now_ns),
			 0);
	two_and_end(f);
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(f), 1);
	assert_false(f->out[0].h.bth.migreq);
	another(f);
}

static void duplicates_are_acknowledged_again(void **state)
{
	struct fix *f = *state;

	two_and_end(f);
	for (uint32_t i = 0; i < 3; i++) {
		to_number(f, UR_RC_SEND_ONLY, RQ_PSN + i % 2, 8);
		assert_int_equal(fix_run(f), 1);
		expect_aeth(f, 0, RQ_PSN + 1, UR_AETH_CREDITS_INVALID);
		assert_int_equal(f->out[0].h.msn, 2);
		assert_int_equal(f->out[0].h.bth.dqpn, PEER_QPN);
	}
	assert_int_equal(counters(f)->timewait_acks_sent, 3);
	expect_no_cqe(f);
	another(f);
}

/* Each packet to a urnic says which atomics are executed. */
static void bits_as_before(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_SEND_ONLY, RQ_PSN);

	fix_recv(f, 1, 0, 64);
	h.bth.urnic = h.bth.masked = true;
	peer_send(f, &h, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(fix_run(f), 1);
	assert_true(f->out[0].h.bth.urnic && f->out[0].h.bth.masked);
	end(f);
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(f), 1);
	assert_true(f->out[0].h.bth.urnic && f->out[0].h.bth.masked);
	another(f);
}

/* One acknowledgement covers several duplicates. */
static void one_ack_for_several(void **state)
{
	struct fix *f = *state;

	two_and_end(f);
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	to_number(f, UR_RC_WRITE_ONLY, RQ_PSN + 1, 8);
	assert_int_equal(fix_run(f), 1);
	another(f);
}

static void nothing_else_is_answered(void **state)
{
	struct fix *f = *state;

	two_and_end(f);
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN + 2, 8); /* never done */
	to_number(f, UR_RC_READ_REQUEST, RQ_PSN, 8);
	to_number(f, UR_RC_FETCH_ADD, RQ_PSN, 8);
	to_number(f, UR_UC_SEND_ONLY, RQ_PSN, 8);
	to_number(f, UR_RC_ACK, RQ_PSN, 0);
	number ^= 1; /* of no queue pair */
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	number ^= 1;
	rig_addr(f->pkt.src, 2, false); /* another peer */
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(f), 0);
	another(f);
}

static void only_for_timewait_ns(void **state)
{
	struct fix *f = *state;

	two_and_end(f);
	f->now_ns += UR_TIMEWAIT_NS + 1;
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(f), 0);
	another(f);
}

static void unused_qp_leaves_no_record(void **state)
{
	struct fix *f = *state;

	end(f);
	to_number(f, UR_RC_SEND_ONLY, RQ_PSN - 1, 8);
	assert_int_equal(fix_run(f), 0);
	another(f);
}

/* At exit: the records of queue pairs that are gone, and of those that exist. */
static void records_at_exit(void **state)
{
	struct fix *f = *state;
	struct ur_timewait all[4];
	uint32_t was;

	fix_recv(f, 1, 0, 64);
	peer_plain(f, UR_RC_SEND_ONLY, RQ_PSN, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(ur_roce_timewait(f->lane.roce, f->now_ns, all, 4), 1);
	assert_int_equal(all[0].qpn, f->qp.qpn);
	assert_int_equal(all[0].dqpn, PEER_QPN);
	assert_int_equal(all[0].epsn, RQ_PSN + 1);
	assert_int_equal(ur_roce_timewait(f->lane.roce, f->now_ns, all, 0), 0);
	fix_run(f);
	was = f->qp.qpn;
	end(f);
	assert_int_equal(ur_roce_timewait(f->lane.roce, f->now_ns, all, 4), 1);
	assert_int_equal(all[0].qpn, was);
	assert_int_equal(ur_roce_timewait(f->lane.roce,
					  f->now_ns + UR_TIMEWAIT_NS + 1, all,
					  4),
			 0);
	another(f);
}

#define T(t) cmocka_unit_test_setup_teardown(t, rc_setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(migreq_as_before),
		T(bits_as_before),
		T(duplicates_are_acknowledged_again),
		T(one_ack_for_several),
		T(nothing_else_is_answered),
		T(only_for_timewait_ns),
		T(unused_qp_leaves_no_record),
		T(records_at_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
