/* SPDX-License-Identifier: BSD-2-Clause */
/* DC: the end of a session that is not answered, or is too long (dc_world.h). */
#include "roce/dc_world.h"

static bool lose_all(const struct rig_pkt *p)
{
	(void)p;
	return true;
}

static bool lose_answers(const struct rig_pkt *p)
{
	return !memcmp(p->dst, w.ini.host.addr, 16);
}

/* The target executes a SEND, its acknowledgement is lost, and then all packets,
 * until the connection has ended. */
static void a_forgotten_session_is_not_repeated(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	receive(t, 1);
	receive(t, 2);
	w.ini.qp.attr.timeout = 21; /* 8.6 s */
	w.lose = lose_answers;
	post(t, UR_WR_SEND, 10, 64);
	run();
	cqe_of(t, 1, UR_WC_SUCCESS);
	w.lose = lose_all;
	sleep_for(UR_DC_IDLE_NS + 1000 * MS);
	w.lose = NULL;
	sleep_for(60000 * MS);
	cqe_of(&w.ini, 10, UR_WC_RETRY_EXC_ERR);
	no_cqe(t);
}

/* The process is stopped while the answer comes, and posts again before it reads
 * its socket. */
static void an_answer_that_waits_counts(void **state)
{
	struct node *t = &w.tgt[0];
	struct rig_pkt ack;

	(void)state;
	receive(t, 1);
	receive(t, 2);
	w.lose = lose_answers;
	post(t, UR_WR_SEND, 10, 64);
	run();
	ack = w.tape[w.ntape - 1];
	assert_memory_equal(ack.dst, w.ini.host.addr, 16);
	w.lose = NULL;
	w.now_ns += UR_DC_SILENT_NS + 1000 * MS;
	w.ntape = 0;
	post(t, UR_WR_SEND, 11, 64);
	run();
	no_cqe(&w.ini);
	assert_int_equal(w.ntape, 0); /* until the answer is read */
	deliver(&ack);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
	cqe_of(t, 2, UR_WC_SUCCESS);
}

/* It was stopped, and there is none: the timer finds that. */
static void no_answer_waits(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	receive(t, 1);
	w.lose = lose_answers;
	post(t, UR_WR_SEND, 10, 64);
	run();
	w.lose = NULL;
	w.now_ns += UR_DC_SILENT_NS + 1000 * MS;
	post(t, UR_WR_SEND, 11, 64);
	sleep_for(1000 * MS);
	cqe_of(&w.ini, 10, UR_WC_RETRY_EXC_ERR);
	cqe_of(&w.ini, 11, UR_WC_WR_FLUSH_ERR);
}

/* The window of the path is full for so long: the silence begins after that. */
static void waiting_for_the_window_is_no_silence(void **state)
{
	struct ur_rqp *q = ur_rqp_of(&w.ini.qp);
	struct node *t = &w.tgt[0];

	(void)state;
	receive(t, 1);
	receive(t, 2);
	post(t, UR_WR_SEND, 10, 64);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	q->path->filled_by = q;
	post(t, UR_WR_SEND, 11, 64);
	run();
	w.now_ns += UR_DC_SILENT_NS + 1000 * MS;
	q->path->filled_by = NULL;
	w.lose = lose_all;
	ur_rqp_want_send(q);
	run();
	sleep_for(100 * MS);
	assert_true(w.nlost > 0);
	w.lose = NULL;
	sleep_for(1000 * MS);
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
	cqe_of(t, 2, UR_WC_SUCCESS);
}

/* On a path with any round-trip time: the target's connection depends on it. */
static void retransmissions_come_often(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	w.ini.qp.attr.timeout = 21; /* 8.6 s */
	w.lose = lose_all;
	post(t, UR_WR_SEND, 10, 64);
	run();
	ur_rqp_of(&w.ini.qp)->path->srtt_ns = 2000 * MS;
	ur_rc_timer_update(ur_rqp_of(&w.ini.qp), w.now_ns);
	/* Less than UR_DC_SILENT_NS, after which there are none */
	for (uint32_t i = 1; i <= 8; i++) {
		uint32_t n = w.nlost;

		sleep_for(UR_DC_EARLY_MAX_NS + 50 * MS);
		assert_true(w.nlost > n);
	}
}

/* A receiver that is not ready answers, so the initiator goes on. */
static void a_session_lives_while_it_is_answered(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	w.ini.qp.attr.rnr_retry = 7;
	ur_rqp_of(&w.ini.qp)->req.rnr_retries = 7;
	post(t, UR_WR_SEND, 10, 64);
	sleep_for(2 * UR_DC_IDLE_NS);
	no_cqe(&w.ini);
	receive(t, 1);
	sleep_for(1000 * MS);
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
}

/* With half of all PSNs behind its first one, a session takes no more requests. */
static void a_session_is_full(void **state)
{
	struct ur_rqp *q = ur_rqp_of(&w.ini.qp);
	struct node *t = &w.tgt[0];
	uint32_t first;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		receive(t, 1 + i);
	w.lose = lose_all;
	post(t, UR_WR_SEND, 10, 64);
	run();
	first = q->dci->first_psn;
	/* As if that many had been sent, and one fits. */
	q->dci->first_psn = ur_psn_add(q->req.psn, (UR_PSN_MASK + 1) / 2 + 1);
	post(t, UR_WR_SEND, 11, 64);
	run();
	assert_int_equal(w.nlost, 2);
	post(t, UR_WR_SEND, 12, 64);
	run();
	assert_int_equal(w.nlost, 2);
	q->dci->first_psn = first;
	w.lose = NULL;
	sleep_for(1000 * MS);
	for (uint32_t i = 0; i < 3; i++) {
		cqe_of(&w.ini, 10 + i, UR_WC_SUCCESS);
		cqe_of(t, 1 + i, UR_WC_SUCCESS);
	}
}

/* An initiator that has more READs outstanding than a target answers at once */
static void reads_beyond_the_limit(void **state)
{
	struct node *t = &w.tgt[0];
	uint32_t i;

	(void)state;
	w.ini.qp.attr.max_rd_atomic = UR_MAX_DC_RD_ATOMIC + 1;
	for (i = 0; i <= UR_MAX_DC_RD_ATOMIC; i++)
		post(t, UR_WR_RDMA_READ, i, 8);
	run();
	for (i = 0; i < UR_MAX_DC_RD_ATOMIC; i++)
		cqe_of(&w.ini, i, UR_WC_SUCCESS);
	cqe_of(&w.ini, i, UR_WC_REM_INV_REQ_ERR);
}

static bool lose_acks(const struct rig_pkt *p)
{
	return p->data[0] == UR_DC_ACK;
}

static void end_target(struct node *t)
{
	rig_qp_destroy(&t->lane, &t->qp);
	w.lose = NULL;
}

/* teardown() ends it again. */
static void another_target(struct node *t)
{
	struct ur_qp_init init = { .type = UR_QPT_DC_TGT,
				   .recv_cq = &t->cq,
				   .srq = &t->srq };

	rig_qp_create(&t->lane, &t->qp, &init);
}

/* A target that was destroyed when it had the message: the initiator learns it. */
static void a_destroyed_target_acknowledges_again(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	receive(t, 1);
	w.lose = lose_acks;
	post(t, UR_WR_SEND, 10, 600);
	post(t, UR_WR_RDMA_WRITE, 11, 64);
	run();
	cqe_of(t, 1, UR_WC_SUCCESS);
	no_cqe(&w.ini);
	end_target(t);
	sleep_for(1000 * MS);
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	assert_true(cnt(t)->timewait_acks_sent >= 1);
	another_target(t);
}

static uint64_t acks_for(struct node *t, struct ur_hdr h,
			 const uint8_t *payload, size_t len)
{
	uint64_t before = cnt(t)->timewait_acks_sent;
	struct rig_pkt p = w.tape[0];

	rig_pkt_build(&p, &h, payload, (uint32_t)len);
	deliver(&p);
	run();
	return cnt(t)->timewait_acks_sent - before;
}

/* Only what it executed, of that session */
static void a_destroyed_target_answers_nothing_else(void **state)
{
	struct node *t = &w.tgt[0];
	const uint8_t *payload;
	struct ur_hdr h;
	size_t len;

	(void)state;
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 8);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	assert_int_equal(ur_hdr_decode(&h, w.tape[0].data, w.tape[0].len,
				       &payload, &len),
			 0);
	end_target(t);
	w.lose = lose_all;
	assert_int_equal(acks_for(t, h, payload, len), 1);
	h.dc_session++;
	assert_int_equal(acks_for(t, h, payload, len), 0);
	h.dc_session -= 2;
	assert_int_equal(acks_for(t, h, payload, len), 0);
	h.dc_session++;
	h.dc_version++;
	assert_int_equal(acks_for(t, h, payload, len), 0);
	h.dc_version--;
	h.bth.psn = ur_psn_add(h.bth.psn, 1);
	assert_int_equal(acks_for(t, h, payload, len), 0);
	h.bth.psn = ur_psn_add(h.bth.psn, UR_PSN_MASK);
	assert_int_equal(acks_for(t, h, payload, len), 1);
	another_target(t);
}

static void what_a_target_leaves_at_exit(void **state)
{
	struct ur_timewait left[4];
	struct node *t = &w.tgt[0];

	(void)state;
	assert_int_equal(ur_roce_timewait(t->lane.roce, w.now_ns, left, 4), 0);
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 8);
	run();
	assert_int_equal(ur_roce_timewait(t->lane.roce, w.now_ns, left, 4), 1);
	assert_true(left[0].session != 0);
	assert_int_equal(left[0].qpn, t->qp.qpn);
	assert_int_equal(left[0].dqpn, w.ini.qp.qpn);
	assert_int_equal(ur_roce_timewait(t->lane.roce, w.now_ns, left, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(a_forgotten_session_is_not_repeated),
		T(an_answer_that_waits_counts),
		T(no_answer_waits),
		T(retransmissions_come_often),
		T(waiting_for_the_window_is_no_silence),
		T(a_session_lives_while_it_is_answered),
		T(a_session_is_full),
		T(reads_beyond_the_limit),
		T(a_destroyed_target_acknowledges_again),
		T(a_destroyed_target_answers_nothing_else),
		T(what_a_target_leaves_at_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
