/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that a switch has marked, and the CNPs that answer them. */
#include "roce/fixture.h"

#define DSCP	0x68u /* of the connection: 26, as a traffic class */
#define NOT_ECT 0u
#define ECT0	2u
#define CE	3u

static int rc_with_dscp(void **state)
{
	struct fix *f = fix_new_reset(UR_QPT_RC, false);

	/* The lowest bits are not the program's. */
	f->link.tclass = DSCP | 1;
	fix_connect(f);
	*state = f;
	return 0;
}

static void marked_write(struct fix *f, uint32_t psn)
{
	f->pkt.tclass = DSCP | CE;
	peer_write(f, UR_RC_WRITE_ONLY, psn, MTU, MTU);
	f->pkt.tclass = 0;
}

static uint32_t cnps(const struct fix *f)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->nout; i++)
		n += f->out[i].h.bth.opcode == UR_CNP;
	return n;
}

static void a17_9_a_marked_packet_is_answered_by_a_cnp(void **state)
{
	/* As adapters send it (tests/unit/wire/golden_test.c). */
	static const uint8_t bth[12] = { 0x81, 0x00, 0xff, 0xff,
					 0x40, 0x00, 0x80, 0x01 };
	static const uint8_t zeros[16];
	struct fix *f = *state;
	static struct ur_burst burst;
	struct rig_pkt p;

	marked_write(f, RQ_PSN);
	assert_true(ur_roce_output(f->lane.roce, &burst, f->now_ns));
	assert_true(rig_burst_pkt(&burst, 0, &p));
	assert_int_equal(p.len, 12 + 16 + 4);
	assert_memory_equal(p.data, bth, sizeof(bth));
	assert_memory_equal(p.data + 12, zeros, sizeof(zeros));
	assert_int_equal(p.tclass, NOT_ECT);
	/* The acknowledgement leaves as before. */
	assert_true(rig_burst_pkt(&burst, 1, &p));
	assert_int_equal(p.data[0], UR_RC_ACK);
	assert_int_equal(counters(f)->np_ecn_marked_roce_packets, 1);
	assert_int_equal(counters(f)->np_cnp_sent, 1);
	assert_memory_equal(f->remote.p, f->data, MTU);
}

static void unmarked_packets_cause_no_cnp(void **state)
{
	struct fix *f = *state;

	for (uint32_t i = 0; i < 3; i++) {
		f->pkt.tclass = (uint8_t)(DSCP | i);
		peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN + i, MTU, MTU);
	}
	f->pkt.tclass = 0;
	fix_run(f);
	assert_int_equal(cnps(f), 0);
	assert_int_equal(counters(f)->np_ecn_marked_roce_packets, 0);
}

static void one_cnp_in_50_us(void **state)
{
	struct fix *f = *state;
	uint32_t n = 0, i;

	for (i = 0; i < 100; i++) {
		marked_write(f, RQ_PSN + i);
		fix_run(f);
		n += cnps(f);
		f->now_ns += 10 * US;
	}
	assert_int_equal(n, 20);
	assert_int_equal(counters(f)->np_ecn_marked_roce_packets, 100);
}

static void responses_and_acknowledgements_count_too(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_WRITE, 1, MTU, 0);
	fix_run(f);
	f->pkt.tclass = CE;
	peer_ack(f, SQ_PSN, UR_AETH_ACK | UR_AETH_CREDITS_INVALID);
	f->pkt.tclass = 0;
	fix_run(f);
	assert_int_equal(cnps(f), 1);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void a_marked_cnp_is_not_answered(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_CNP, 0);

	h.bth.becn = true;
	f->pkt.tclass = CE;
	peer_send(f, &h, 16);
	f->pkt.tclass = 0;
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(counters(f)->rp_cnp_handled, 1);
}

static void a_forged_packet_is_not_answered(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_SEND_ONLY, RQ_PSN);

	rig_pkt_build(&f->pkt, &h, f->data, 64);
	f->pkt.tclass = CE;
	f->pkt.data[f->pkt.len - 1] ^= 1;
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
	f->pkt.src[15] ^= 1;
	peer_send(f, &h, 64);
	f->pkt.src[15] ^= 1;
	f->pkt.tclass = 0;
	assert_int_equal(fix_run(f), 0);
}

static void reset_drops_a_due_cnp(void **state)
{
	struct fix *f = *state;

	marked_write(f, RQ_PSN);
	assert_int_equal(
		rig_qp_state(&f->lane, &f->qp, UR_QPS_RESET, f->now_ns), 0);
	assert_int_equal(fix_run(f), 0);
	fix_connect(f);
	assert_int_equal(fix_run(f), 0);
}

static void packets_leave_with_ect_and_the_dscp(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_WRITE, 1, 3 * MTU, 0);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, MTU, MTU);
	assert_int_equal(fix_run(f), 4);
	for (uint32_t i = 0; i < f->nout; i++)
		assert_int_equal(f->out[i].tclass, DSCP | ECT0);
}

/* Also behind requests that were posted before. */
static void cnps_leave_with_the_dscp_only(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_RDMA_WRITE, 1, 3 * MTU, 0);
	marked_write(f, RQ_PSN);
	assert_int_equal(fix_run(f), 5);
	assert_int_equal(cnps(f), 1);
	for (uint32_t i = 0; i < f->nout; i++) {
		uint8_t op = f->out[i].h.bth.opcode;

		assert_int_equal(f->out[i].tclass,
				 op == UR_CNP || op == UR_RC_ACK
					 ? DSCP | NOT_ECT
					 : DSCP | ECT0);
	}
}

static void the_p_key_is_that_of_the_marked_packet(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.dma_len = MTU;
	h.bth.pkey = 0x7fff; /* a limited member */
	f->pkt.tclass = CE;
	peer_send(f, &h, MTU);
	f->pkt.tclass = 0;
	fix_run(f);
	assert_int_equal(cnps(f), 1);
	assert_int_equal(f->out[0].h.bth.opcode, UR_CNP);
	assert_int_equal(f->out[0].h.bth.pkey, 0x7fff);
}

static bool cnp(struct fix *f, uint16_t pkey)
{
	struct ur_hdr h = peer_hdr(f, UR_CNP, 0);

	h.bth.becn = true;
	h.bth.pkey = pkey;
	rig_pkt_build(&f->pkt, &h, f->data, 16);
	return rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
}

static void cnps_for_others_are_dropped(void **state)
{
	struct fix *f = *state;

	assert_true(cnp(f, 0x7fff));
	assert_false(cnp(f, 0x1234));
	assert_int_equal(counters(f)->drop_pkey, 1);
	f->pkt.src[15] ^= 1;
	assert_false(cnp(f, 0xffff));
	f->pkt.src[15] ^= 1;
	assert_int_equal(counters(f)->drop_peer, 1);
	/* Another address of ours. */
	f->pkt.dst[15] ^= 0x40;
	assert_false(cnp(f, 0xffff));
	f->pkt.dst[15] ^= 0x40;
	assert_int_equal(counters(f)->drop_peer, 2);
	assert_int_equal(rig_qp_state(&f->lane, &f->qp, UR_QPS_ERR, f->now_ns),
			 0);
	assert_false(cnp(f, 0xffff));
	assert_int_equal(counters(f)->drop_qp_state, 1);
	assert_int_equal(counters(f)->rp_cnp_handled, 1);
}

static void cnps_for_uc_and_ud_are_dropped(void **state)
{
	struct fix *f = *state;

	assert_false(cnp(f, 0xffff));
	assert_int_equal(counters(f)->drop_transport, 1);
	assert_int_equal(counters(f)->rp_cnp_handled, 0);
}

static void urnic_ack(struct fix *f, uint32_t psn)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_ACK, psn);

	h.bth.urnic = true;
	h.syndrome = UR_AETH_ACK | UR_AETH_CREDITS_INVALID;
	peer_send(f, &h, 0);
}

#define WINDOW_MIN 8192u /* bytes, with headers */

/* In flight at once, when all that was posted has been acknowledged. */
static uint32_t window(struct fix *f, uint32_t *psn)
{
	uint32_t n;

	for (uint32_t i = 0; i < 20; i++)
		fix_post_quiet(f, UR_WR_RDMA_WRITE, 1, 32 * MTU, 0);
	n = fix_run(f);
	*psn += 20 * 32;
	return n;
}

/* Acknowledges all, as its packets leave; returns the round trips. */
static uint32_t drain(struct fix *f, uint32_t end)
{
	uint32_t last = end - 20 * 32, rounds = 0;

	while (last != end) {
		last = f->nout ? f->out[f->nout - 1].h.bth.psn + 1 : last;
		f->now_ns += 1 * MS;
		peer_ack(f, last - 1, UR_AETH_ACK | UR_AETH_CREDITS_INVALID);
		fix_run(f);
		assert_true(++rounds < 1000);
	}
	return rounds;
}

/* CNPs without end reduce the window to its minimum, and no further; without
 * them it grows again. */
static void a_flood_of_cnps_leaves_the_minimum_window(void **state)
{
	struct fix *f = *state;
	uint32_t psn = SQ_PSN, rounds = 0;
	uint64_t began;

	for (uint32_t i = 0; i < 10000; i++) {
		f->now_ns += 20 * US;
		assert_true(cnp(f, 0xffff));
	}
	assert_int_equal(counters(f)->rp_cnp_handled, 10000);
	assert_in_range(window(f, &psn) * (MTU + 128), WINDOW_MIN,
			2 * WINDOW_MIN);
	/* Nothing came meanwhile that would have stopped a timer. */
	began = f->now_ns;
	while (!counters(f)->local_ack_timeout_err) {
		cnp(f, 0xffff);
		fix_sleep(f, 1 * MS);
		assert_true(f->now_ns - began < 1000 * MS);
	}
	drain(f, psn);
	while (window(f, &psn) < 400) {
		drain(f, psn);
		assert_true(++rounds < 20);
	}
}

/* A window is reduced to less than what is in flight, of which no packet requests an
 * acknowledgement: one more packet does. */
static void a_reduced_window_opens_again(void **state)
{
	static struct ur_burst burst;
	struct fix *f = *state;
	struct rig_pkt p;

	/* The first requests to a urnic differ. */
	fix_post_quiet(f, UR_WR_SEND, 1, 32 * MTU, 0);
	fix_run(f);
	urnic_ack(f, SQ_PSN + 31);
	for (uint32_t i = 0; i < 3; i++) {
		f->now_ns += 1 * MS;
		assert_true(cnp(f, 0xffff));
	}
	for (uint32_t i = 0; i < 3; i++)
		fix_post_quiet(f, UR_WR_SEND, i, 32 * MTU, 0);
	assert_true(ur_roce_output(f->lane.roce, &burst, f->now_ns));
	assert_int_equal(burst.npkts, 64);
	for (uint32_t i = 0; i < 64; i++) {
		assert_true(rig_burst_pkt(&burst, i, &p));
		assert_int_equal(p.data[8] & 0x80, 0);
	}
	f->now_ns += 1 * MS;
	assert_true(cnp(f, 0xffff));
	assert_int_equal(fix_run(f), 1);
	assert_true(f->out[0].h.bth.ackreq);
	urnic_ack(f, SQ_PSN + 32 + 64);
	assert_int_equal(fix_run(f), 31);
}

static void datagrams_leave_without_ect(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 64, 0);
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(f->out[0].tclass & CE, NOT_ECT);
}

static void uc_sends_cnps_but_no_ect(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 64, 0);
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(f->out[0].tclass & CE, NOT_ECT);
	f->pkt.tclass = CE;
	peer_write(f, UR_UC_WRITE_ONLY, RQ_PSN, MTU, MTU);
	f->pkt.tclass = 0;
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(cnps(f), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name, setup)                                                         \
	cmocka_unit_test_setup_teardown(name, setup, fix_teardown)
		T(a17_9_a_marked_packet_is_answered_by_a_cnp, rc_setup),
		T(unmarked_packets_cause_no_cnp, rc_setup),
		T(one_cnp_in_50_us, rc_setup),
		T(responses_and_acknowledgements_count_too, rc_setup),
		T(a_marked_cnp_is_not_answered, rc_setup),
		T(a_forged_packet_is_not_answered, rc_setup),
		T(reset_drops_a_due_cnp, rc_setup),
		T(packets_leave_with_ect_and_the_dscp, rc_with_dscp),
		T(cnps_leave_with_the_dscp_only, rc_with_dscp),
		T(the_p_key_is_that_of_the_marked_packet, rc_setup),
		T(cnps_for_others_are_dropped, rc_setup),
		T(cnps_for_uc_and_ud_are_dropped, uc_setup),
		T(cnps_for_uc_and_ud_are_dropped, ud_setup),
		T(a_flood_of_cnps_leaves_the_minimum_window, rc_setup_roomy),
		T(a_reduced_window_opens_again, rc_setup_roomy),
		T(datagrams_leave_without_ect, ud_setup),
		T(uc_sends_cnps_but_no_ect, uc_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
