/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC between processes: an owner with a target, and another process with a
 * queue. The test carries their messages. */
#include <errno.h>
#include <stdlib.h>

#include "roce/fixture.h"

#define HOME_SLOT  1u
#define OTHER_SLOT 2u
#define TO_OTHER   7u /* the owner's link identifier */
#define TO_HOME	   8u /* the other's */
#define MAILS	   32u

enum kind { DELEGATE, BACK, DISMISS };

struct mail {
	enum kind kind;
	uint32_t qpn;
	size_t len;
	uint8_t *data;
};

struct pair {
	struct fix *home;
	struct fix *other;
	struct mail mail[MAILS];
	uint32_t first;
	uint32_t end;
	int lend_error;
};

static struct pair pair;

static void put(enum kind kind, uint32_t qpn, const void *msg, size_t len)
{
	struct mail *m = &pair.mail[pair.end++];

	assert_true(pair.end <= MAILS);
	*m = (struct mail){ .kind = kind, .qpn = qpn, .len = len };
	m->data = malloc(len + 1);
	if (len)
		memcpy(m->data, msg, len);
}

static int delegate(void *arg, const struct ur_qp *target, uint32_t srqn,
		    const void *msg, size_t len, uint32_t *via)
{
	if (srqn >> 14 != OTHER_SLOT)
		return -ENOENT;
	if (pair.lend_error)
		return pair.lend_error;
	put(DELEGATE, target->qpn, msg, len);
	*via = TO_OTHER;
	return 0;
}

static void return_state(void *arg, uint32_t via, uint32_t qpn, const void *msg,
			 size_t len)
{
	assert_int_equal(via, TO_HOME);
	put(BACK, qpn, msg, len);
}

static void dismiss(void *arg, uint32_t via, uint32_t qpn)
{
	assert_int_equal(via, TO_OTHER);
	put(DISMISS, qpn, NULL, 0);
}

static const struct ur_xrc_ops ops = { delegate, return_state, dismiss };

static int setup(void **state)
{
	memset(&pair, 0, sizeof(pair));
	fix_share(HOME_SLOT, &ops, NULL);
	pair.home = fix_new(UR_QPT_XRC_RECV, true);
	fix_share(OTHER_SLOT, &ops, NULL);
	pair.other = fix_new(UR_QPT_XRC_RECV, true);
	return 0;
}

static int teardown(void **state)
{
	ur_roce_link_gone(pair.other->lane.roce, TO_HOME, 0);
	fix_free(pair.home);
	fix_free(pair.other);
	for (uint32_t i = 0; i < pair.end; i++)
		free(pair.mail[i].data);
	return 0;
}

static int borrow(const void *msg, size_t len)
{
	struct ur_delegated b = { .via = TO_HOME,
				  .qpn = pair.home->qp.qpn,
				  .xrcd = &pair.other->host.xrcd,
				  .msg = msg,
				  .len = len };

	return ur_roce_accept_delegation(pair.other->lane.roce, &b,
					 pair.other->now_ns);
}

static void take_back(const void *msg, size_t len)
{
	ur_roce_delegation_returned(pair.home->lane.roce, TO_OTHER,
				    pair.home->qp.qpn, msg, len,
				    pair.home->now_ns);
}

/* The next message must be of that kind: deliver it. */
static void carry(enum kind kind)
{
	struct mail *m = &pair.mail[pair.first++];

	assert_true(pair.first <= pair.end);
	assert_int_equal(m->kind, kind);
	assert_int_equal(m->qpn, pair.home->qp.qpn);
	if (kind == DELEGATE)
		assert_int_equal(borrow(m->data, m->len), 0);
	else if (kind == BACK)
		take_back(m->data, m->len);
	else
		ur_roce_dismiss(pair.other->lane.roce, TO_HOME, m->qpn,
				pair.other->now_ns);
}

static void expect_no_mail(void)
{
	assert_int_equal(pair.first, pair.end);
}

/* A delegation and its return; the delegate's packets are in its `out`. */
static uint32_t delegate_once(void)
{
	uint32_t n;

	assert_int_equal(fix_run(pair.home), 0);
	carry(DELEGATE);
	n = fix_run(pair.other);
	carry(BACK);
	return n;
}

/* A request for the other's queue. */
static void peer_to_other(uint8_t opcode, uint32_t psn, uint32_t len)
{
	struct ur_hdr h = peer_hdr(pair.home, opcode, psn);

	h.srqn = pair.other->srq.number;
	peer_send(pair.home, &h, len);
}

static void peer_to_memory(uint8_t opcode, uint32_t psn, uint32_t len,
			   uint32_t total)
{
	struct ur_hdr h = peer_hdr(pair.home, opcode, psn);

	h.srqn = pair.other->srq.number;
	h.va = pair.other->remote.mr->iova;
	h.rkey = pair.other->remote.mr->key;
	h.dma_len = total;
	h.swap_add = 5;
	peer_send(pair.home, &h, len);
}

static void expect_answer(const struct fix *f, uint8_t syndrome, uint32_t psn)
{
	expect_out(f, 0, UR_XRC_ACK, psn);
	assert_int_equal(f->out[0].h.syndrome, syndrome);
}

/* A receive of the delegate is complete, by the owner's target. */
static struct ur_cqe expect_there(uint64_t wr_id, uint8_t status)
{
	struct ur_cqe c;

	assert_int_equal(ur_cq_poll(&pair.other->cq, &c, 1), 1);
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, status);
	assert_int_equal(c.qpn, pair.home->qp.qpn);
	return c;
}

static void a_message_goes_to_the_queue_it_names(void **state)
{
	struct ur_cqe c;

	fix_recv(pair.other, 7, 0, 600);
	fix_recv(pair.home, 8, 0, 600);
	peer_to_other(UR_XRC_SEND_FIRST, RQ_PSN, MTU);
	peer_to_other(UR_XRC_SEND_LAST, RQ_PSN + 1, 100);
	assert_int_equal(delegate_once(), 1);
	expect_answer(pair.other, UR_AETH_CREDITS_INVALID, RQ_PSN + 1);
	assert_int_equal(pair.other->out[0].h.bth.dqpn, PEER_QPN);
	c = expect_there(7, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, MTU + 100);
	assert_memory_equal(pair.other->local.p, pair.home->data, MTU);
	/* and the next is ours, with the next number */
	peer_plain(pair.home, UR_XRC_SEND_ONLY, RQ_PSN + 2, 8);
	expect_cqe(pair.home, 8, UR_WC_SUCCESS);
	assert_int_equal(fix_run(pair.home), 1);
	expect_answer(pair.home, UR_AETH_CREDITS_INVALID, RQ_PSN + 2);
	assert_int_equal(pair.home->out[0].h.msn, 2);
	expect_no_mail();
}

static void our_responses_leave_before_a_delegation(void **state)
{
	fix_recv(pair.home, 8, 0, 64);
	fix_recv(pair.other, 7, 0, 64);
	peer_plain(pair.home, UR_XRC_SEND_ONLY, RQ_PSN, 8);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	expect_no_mail();
	assert_int_equal(fix_run(pair.home), 1);
	expect_answer(pair.home, UR_AETH_CREDITS_INVALID, RQ_PSN);
	carry(DELEGATE);
	/* it is not returned before they have left, either */
	expect_no_mail();
	assert_int_equal(fix_run(pair.other), 1);
	carry(BACK);
}

static void a_queue_without_receives_is_not_ready(void **state)
{
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	assert_int_equal(delegate_once(), 1);
	expect_answer(pair.other, UR_AETH_RNR | 12, RQ_PSN);
	fix_recv(pair.other, 7, 0, 64);
	fix_recv(pair.other, 8, 0, 64);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	assert_int_equal(delegate_once(), 1);
	expect_answer(pair.other, UR_AETH_CREDITS_INVALID, RQ_PSN + 1);
	expect_there(7, UR_WC_SUCCESS);
	expect_there(8, UR_WC_SUCCESS);
}

static void reads_and_atomics_are_answered_there(void **state)
{
	struct fix *o = pair.other;

	peer_to_memory(UR_XRC_WRITE_ONLY, RQ_PSN, 8, 8);
	assert_int_equal(delegate_once(), 1);
	assert_memory_equal(o->remote.p, pair.home->data, 8);
	peer_to_memory(UR_XRC_READ_REQUEST, RQ_PSN + 1, 0, MTU + 8);
	assert_int_equal(delegate_once(), 2);
	expect_out(o, 0, UR_XRC_READ_RESP_FIRST, RQ_PSN + 1);
	expect_out(o, 1, UR_XRC_READ_RESP_LAST, RQ_PSN + 2);
	assert_memory_equal(o->out[0].payload, o->remote.p, MTU);
	peer_to_memory(UR_XRC_FETCH_ADD, RQ_PSN + 3, 0, 0);
	assert_int_equal(delegate_once(), 1);
	expect_out(o, 0, UR_XRC_ATOMIC_ACK, RQ_PSN + 3);
	assert_memory_equal(&o->out[0].h.orig, pair.home->data, 8);
	assert_memory_not_equal(o->remote.p, pair.home->data, 8);
}

/* Executed requests are known wherever the responder is. */
static void duplicates_are_not_executed_again(void **state)
{
	struct fix *o = pair.other;
	uint8_t after[8];

	peer_to_memory(UR_XRC_FETCH_ADD, RQ_PSN, 0, 0);
	assert_int_equal(delegate_once(), 1);
	memcpy(after, o->remote.p, 8);
	fix_recv(pair.home, 8, 0, 64);
	peer_plain(pair.home, UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	expect_cqe(pair.home, 8, UR_WC_SUCCESS);
	assert_int_equal(fix_run(pair.home), 1);
	peer_to_memory(UR_XRC_FETCH_ADD, RQ_PSN, 0, 0);
	assert_int_equal(delegate_once(), 1);
	expect_out(o, 0, UR_XRC_ATOMIC_ACK, RQ_PSN);
	assert_int_equal(o->out[0].h.orig, 0);
	assert_memory_equal(after, o->remote.p, 8);
	peer_plain(pair.home, UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	expect_no_cqe(pair.home);
}

static void a_fault_there_is_the_target_s(void **state)
{
	struct ur_hdr h = peer_hdr(pair.home, UR_XRC_WRITE_ONLY, RQ_PSN);

	/* a key of the owner's, but the queue is the other's */
	h.srqn = pair.other->srq.number;
	h.rkey = pair.home->remote.mr->key + 1;
	h.dma_len = 8;
	peer_send(pair.home, &h, 8);
	assert_int_equal(delegate_once(), 1);
	expect_answer(pair.other, UR_AETH_NAK | UR_NAK_REM_ACCESS, RQ_PSN);
	assert_int_equal(pair.home->qp.state, UR_QPS_ERR);
	expect_event(pair.home, UR_EVENT_QP_ACCESS_ERR);
	expect_no_event(pair.other);
}

static void a_message_of_several_loans(void **state)
{
	fix_recv(pair.other, 7, 0, 600);
	peer_to_other(UR_XRC_SEND_FIRST, RQ_PSN, MTU);
	delegate_once();
	expect_no_cqe(pair.other);
	peer_to_other(UR_XRC_SEND_LAST, RQ_PSN + 1, 8);
	delegate_once();
	expect_there(7, UR_WC_SUCCESS);
}

static void a_reset_flushes_what_is_under_way(void **state)
{
	fix_recv(pair.other, 7, 0, 600);
	peer_to_other(UR_XRC_SEND_FIRST, RQ_PSN, MTU);
	delegate_once();
	assert_int_equal(rig_qp_state(&pair.home->lane, &pair.home->qp,
				      UR_QPS_RESET, pair.home->now_ns),
			 0);
	carry(DISMISS);
	expect_there(7, UR_WC_WR_FLUSH_ERR);
	expect_no_mail();
}

/* It returns to a target that was reset. */
static void a_late_return_is_ignored(void **state)
{
	fix_recv(pair.other, 7, 0, 64);
	fix_recv(pair.other, 8, 0, 64);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(pair.home), 0);
	carry(DELEGATE);
	assert_int_equal(rig_qp_state(&pair.home->lane, &pair.home->qp,
				      UR_QPS_RESET, pair.home->now_ns),
			 0);
	fix_run(pair.other);
	fix_connect(pair.home);
	carry(DISMISS);
	carry(BACK);
	expect_there(7, UR_WC_SUCCESS);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(delegate_once(), 1);
	expect_there(8, UR_WC_SUCCESS);
}

static void the_delegate_dies_with_a_delegation(void **state)
{
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(pair.home), 0);
	ur_roce_link_gone(pair.home->lane.roce, TO_OTHER, pair.home->now_ns);
	assert_int_equal(fix_run(pair.home), 1);
	expect_answer(pair.home, UR_AETH_NAK | UR_NAK_INV_REQ, RQ_PSN);
	assert_int_equal(pair.home->qp.state, UR_QPS_ERR);
	expect_event(pair.home, UR_EVENT_QP_REQ_ERR);
	carry(DELEGATE); /* no process gets it */
}

static void the_delegate_dies_without_a_delegation(void **state)
{
	fix_recv(pair.other, 7, 0, 64);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	delegate_once();
	ur_roce_link_gone(pair.home->lane.roce, TO_OTHER, pair.home->now_ns);
	fix_recv(pair.home, 8, 0, 64);
	peer_plain(pair.home, UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	expect_cqe(pair.home, 8, UR_WC_SUCCESS);
	fix_run(pair.home);
	pair.lend_error = -ENOENT;
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN + 2, 8);
	assert_int_equal(fix_run(pair.home), 1);
	expect_answer(pair.home, UR_AETH_NAK | UR_NAK_INV_REQ, RQ_PSN + 2);
	expect_event(pair.home, UR_EVENT_QP_REQ_ERR);
}

static void the_owner_dies(void **state)
{
	fix_recv(pair.other, 7, 0, 600);
	peer_to_other(UR_XRC_SEND_FIRST, RQ_PSN, MTU);
	delegate_once();
	ur_roce_link_gone(pair.other->lane.roce, TO_HOME, pair.other->now_ns);
	expect_there(7, UR_WC_WR_FLUSH_ERR);
}

static void lending_is_tried_again(void **state)
{
	pair.lend_error = -EAGAIN;
	fix_recv(pair.other, 7, 0, 64);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(pair.home), 0);
	expect_no_mail();
	pair.lend_error = 0;
	assert_true(ur_roce_deadline(pair.home->lane.roce) <=
		    pair.home->now_ns + MS);
	assert_int_equal(fix_sleep(pair.home, MS), 0);
	assert_int_equal(delegate_once(), 1);
	expect_there(7, UR_WC_SUCCESS);
}

/* Packets beyond the limit are dropped, and retransmitted as after any loss. */
static void held_packets_are_limited(void **state)
{
	uint32_t most = 256;

	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN, 8);
	assert_int_equal(fix_run(pair.home), 0);
	for (uint32_t i = 1; i <= most; i++)
		peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN + i, 8);
	assert_int_equal(counters(pair.home)->drop_xrc_held, 0);
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN + most + 1, 8);
	assert_int_equal(counters(pair.home)->drop_xrc_held, 1);
	/* local requests wait as well: order is kept */
	peer_plain(pair.home, UR_XRC_SEND_ONLY, RQ_PSN + most + 2, 8);
	assert_int_equal(counters(pair.home)->drop_xrc_held, 2);
}

/* Responses may have any destination then. */
static void drain(struct fix *f)
{
	static struct ur_burst t;

	while (ur_roce_output(f->lane.roce, &t, f->now_ns))
		;
}

/* A delegation unchanged, truncated, and with each byte changed. */
static void hostile_delegations(void **state)
{
	uint8_t msg[1024];
	size_t len;

	fix_recv(pair.other, 7, 0, 64);
	peer_to_memory(UR_XRC_FETCH_ADD, RQ_PSN, 0, 0);
	delegate_once();
	peer_to_other(UR_XRC_SEND_ONLY, RQ_PSN + 1, 8);
	fix_run(pair.home);
	len = pair.mail[pair.first].len;
	assert_true(len <= sizeof(msg));
	for (size_t i = 0; i < 2 * len; i++) {
		memcpy(msg, pair.mail[pair.first].data, len);
		if (i >= len)
			msg[i - len] ^= (uint8_t)(1u << i % 8);
		(void)borrow(msg, i < len ? i : len);
		drain(pair.other);
		ur_roce_link_gone(pair.other->lane.roce, TO_HOME,
				  pair.other->now_ns);
		while (pair.end > pair.first + 1)
			free(pair.mail[--pair.end].data);
	}
}

/* A returned state may end the target, but no more than that. */
static void hostile_returns(void **state)
{
	uint8_t msg[1024];

	fix_recv(pair.other, 7, 0, 64);
	peer_to_memory(UR_XRC_FETCH_ADD, RQ_PSN, 0, 0);
	fix_run(pair.home);
	carry(DELEGATE);
	fix_run(pair.other);
	for (size_t i = 0; i < 2 * pair.mail[1].len; i++) {
		size_t len = pair.mail[1].len;
		struct ur_hdr h = peer_hdr(pair.home, UR_XRC_SEND_LAST, RQ_PSN);

		assert_true(len <= sizeof(msg));
		memcpy(msg, pair.mail[1].data, len);
		if (i >= len)
			msg[i - len] ^= (uint8_t)(1u << i % 8);
		take_back(msg, i < len ? i : len);
		for (uint32_t k = 0; k < 3; k++, h.bth.psn++)
			peer_send(pair.home, &h, 8);
		fix_run(pair.home);
		rig_qp_state(&pair.home->lane, &pair.home->qp, UR_QPS_RESET,
			     pair.home->now_ns);
		fix_connect(pair.home);
		while (pair.end > 2)
			free(pair.mail[--pair.end].data);
		peer_to_memory(UR_XRC_FETCH_ADD, RQ_PSN, 0, 0);
		fix_run(pair.home);
		assert_int_equal(pair.mail[2].kind, DELEGATE);
		/* the sequence number is at the beginning of both */
		memcpy(pair.mail[1].data, pair.mail[2].data, 4);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_message_goes_to_the_queue_it_names),
		TEST(our_responses_leave_before_a_delegation),
		TEST(a_queue_without_receives_is_not_ready),
		TEST(reads_and_atomics_are_answered_there),
		TEST(duplicates_are_not_executed_again),
		TEST(a_fault_there_is_the_target_s),
		TEST(a_message_of_several_loans),
		TEST(a_reset_flushes_what_is_under_way),
		TEST(a_late_return_is_ignored),
		TEST(the_delegate_dies_with_a_delegation),
		TEST(the_delegate_dies_without_a_delegation),
		TEST(the_owner_dies),
		TEST(lending_is_tried_again),
		TEST(held_packets_are_limited),
		TEST(hostile_delegations),
		TEST(hostile_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
