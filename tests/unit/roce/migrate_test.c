/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic path migration (IBTA 17.2.8). */
#include <errno.h>

#include "roce/fixture.h"

#define ACK	(UR_AETH_ACK | UR_AETH_CREDITS_INVALID)
/* The adapter stretches timeouts by three. */
#define TIMEOUT (3 * (UINT64_C(4096) << 14))

/* Addresses of the two paths: hosts 0 and 1, and 10 and 11 instead. */
static void by(struct fix *f, bool alternate)
{
	rig_addr(f->pkt.dst, alternate ? 10 : 0, false);
	rig_addr(f->pkt.src, alternate ? 11 : 1, false);
}

static int modify(struct fix *f, uint32_t mask, enum ur_mig_state state)
{
	struct ur_qp_attr a = { .path_mig_state = state,
				.alt_port_num = 1,
				.alt_timeout = 12 };
	uint8_t src[16], dst[16];

	rig_addr(src, 10, false);
	rig_addr(dst, 11, false);
	rig_av(&a.alt_av, src, dst);
	return ur_roce_qp_modify(f->lane.roce, &f->qp, &a, mask, f->now_ns);
}

static enum ur_mig_state state_of(const struct fix *f)
{
	struct ur_qp_attr a;

	ur_roce_qp_query(f->lane.roce, &f->qp, &a);
	return a.path_mig_state;
}

static void rearm(struct fix *f)
{
	assert_int_equal(modify(f, UR_QP_ALT_PATH | UR_QP_PATH_MIG_STATE,
				UR_MIG_REARM),
			 0);
	assert_int_equal(state_of(f), UR_MIG_REARM);
}

/* An empty WRITE by the peer, which needs no receive. */
static void peer_says(struct fix *f, uint32_t psn, bool migreq)
{
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, psn);

	h.bth.migreq = migreq;
	peer_send(f, &h, 0);
}

static void arm(struct fix *f)
{
	rearm(f);
	peer_says(f, RQ_PSN, false);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
	assert_false(f->out[0].h.bth.migreq);
}

/* Packets that the peer sent before it was armed have arrived by then. */
static void arm_long_ago(struct fix *f)
{
	arm(f);
	fix_sleep(f, TIMEOUT);
}

static void c17_2_8_the_bit_announces_the_state(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_post(f, UR_WR_RDMA_READ, 2, 8, 0);
	fix_post(f, UR_WR_FETCH_ADD, 3, 8, 0);
	assert_int_equal(fix_run(f), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(f->out[i].h.bth.migreq);
	peer_ack(f, SQ_PSN, ACK);
	/* A peer that never sets the bit, as the kernel's, changes nothing. */
	assert_int_equal(state_of(f), UR_MIG_MIGRATED);
	rearm(f);
	fix_post(f, UR_WR_SEND, 4, 8, 0);
	assert_int_equal(fix_run(f), 1);
	assert_false(f->out[0].h.bth.migreq);
	expect_no_event(f);
}

static void c17_2_8_a_packet_without_the_bit_arms(void **state)
{
	struct fix *f = *state;

	rearm(f);
	peer_says(f, RQ_PSN, true);
	assert_int_equal(state_of(f), UR_MIG_REARM);
	peer_says(f, RQ_PSN + 1, false);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	expect_no_event(f);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 1, ACK);
	assert_false(f->out[0].h.bth.migreq);
}

static void what_may_be_asked_for(void **state)
{
	const uint32_t mig = UR_QP_PATH_MIG_STATE, alt = UR_QP_ALT_PATH;
	struct fix *f = *state;
	struct ur_qp_attr a;

	/* No path is loaded. */
	assert_int_equal(modify(f, mig, UR_MIG_REARM), -EINVAL);
	assert_int_equal(modify(f, mig, UR_MIG_ARMED), -EINVAL);
	assert_int_equal(modify(f, mig, (enum ur_mig_state)3), -EINVAL);
	assert_int_equal(modify(f, mig, UR_MIG_MIGRATED), 0);
	assert_int_equal(modify(f, alt | mig, UR_MIG_ARMED), -EINVAL);
	a = (struct ur_qp_attr){ .alt_port_num = 1, .alt_timeout = 32 };
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &a, alt, 0),
			 -EINVAL);
	a = (struct ur_qp_attr){ .alt_port_num = 1, .alt_pkey_index = 1 };
	assert_int_equal(ur_roce_qp_modify(f->lane.roce, &f->qp, &a, alt, 0),
			 -EINVAL);
	/* Loading alone changes no state. */
	assert_int_equal(modify(f, alt, 0), 0);
	assert_int_equal(state_of(f), UR_MIG_MIGRATED);
	assert_int_equal(modify(f, mig, UR_MIG_REARM), 0);
	assert_int_equal(modify(f, mig, UR_MIG_MIGRATED), -EINVAL);
	assert_int_equal(modify(f, mig, UR_MIG_ARMED), -EINVAL);
	assert_int_equal(state_of(f), UR_MIG_REARM);
	peer_says(f, RQ_PSN, false);
	assert_int_equal(modify(f, mig, UR_MIG_ARMED), 0);
	expect_no_event(f);
}

/* All retries are used up: the requests continue on the other path. */
static void c17_2_8_retries_used_up(void **state)
{
	struct fix *f = *state;
	struct ur_qp_attr a;

	arm(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_post(f, UR_WR_RDMA_READ, 2, 8, 0);
	fix_run(f);
	fix_sleep(f, TIMEOUT * 3 + MS);
	expect_no_event(f);
	by(f, true);
	assert_int_equal(fix_sleep(f, TIMEOUT), 3);
	expect_event(f, UR_EVENT_PATH_MIG);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	expect_aeth(f, 1, RQ_PSN, ACK);
	expect_out(f, 2, UR_RC_READ_REQUEST, SQ_PSN + 1);
	assert_true(f->out[0].h.bth.migreq);
	assert_int_equal(state_of(f), UR_MIG_MIGRATED);
	assert_int_equal(counters(f)->path_migrations, 1);
	expect_no_cqe(f);
	/* Now that path is the primary one, with its own timeout. */
	ur_roce_qp_query(f->lane.roce, &f->qp, &a);
	assert_memory_equal(a.av.sgid, f->pkt.dst, 16);
	assert_memory_equal(a.av.dgid, f->pkt.src, 16);
	assert_memory_equal(a.alt_av.sgid, f->link.src, 16);
	assert_int_equal(a.timeout, 12);
	assert_int_equal(a.alt_timeout, 14);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void then_the_last_path_fails_too(void **state)
{
	struct fix *f = *state;

	arm(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	fix_sleep(f, TIMEOUT * 3 + MS);
	by(f, true);
	fix_sleep(f, TIMEOUT * 5);
	expect_event(f, UR_EVENT_PATH_MIG);
	expect_cqe(f, 1, UR_WC_RETRY_EXC_ERR);
	expect_no_event(f);
}

static void unarmed_it_fails_at_once(void **state)
{
	struct fix *f = *state;

	rearm(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_sleep(f, TIMEOUT * 4 + MS);
	expect_cqe(f, 1, UR_WC_RETRY_EXC_ERR);
	expect_no_event(f);
}

/* IBTA 10.7: the RNR counter is independent of paths. */
static void rnr_retries_are_no_reason(void **state)
{
	struct fix *f = *state;

	arm(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	for (int i = 0; i < 3; i++) {
		peer_ack(f, SQ_PSN, UR_AETH_RNR | 1);
		fix_sleep(f, MS);
	}
	expect_cqe(f, 1, UR_WC_RNR_RETRY_EXC_ERR);
	expect_no_event(f);
}

static void c17_2_8_modified_by_the_program(void **state)
{
	struct fix *f = *state;

	arm(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(modify(f, UR_QP_PATH_MIG_STATE, UR_MIG_MIGRATED), 0);
	expect_event(f, UR_EVENT_PATH_MIG);
	by(f, true);
	/*
	 * Packets in flight are retransmitted: their answer may come too late.
	 */
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	assert_true(f->out[0].h.bth.migreq);
	/* A QP with nothing in flight announces the path: the peer may have
	 * much. */
	expect_aeth(f, 1, RQ_PSN, ACK);
	assert_true(f->out[1].h.bth.migreq);
	by(f, false);
	peer_ack(f, SQ_PSN, ACK);
	expect_no_cqe(f);
	assert_int_equal(counters(f)->drop_peer, 1);
	by(f, true);
	peer_ack(f, SQ_PSN, ACK);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c17_2_8_the_responder_follows(void **state)
{
	struct fix *f = *state;

	arm_long_ago(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	assert_int_equal(fix_run(f), 1);
	/* Without the bit packets on the alternate path are dropped. */
	by(f, true);
	peer_says(f, RQ_PSN + 1, false);
	assert_int_equal(counters(f)->drop_peer, 1);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	peer_says(f, RQ_PSN + 1, true);
	expect_event(f, UR_EVENT_PATH_MIG);
	assert_int_equal(state_of(f), UR_MIG_MIGRATED);
	/* Its own request is retransmitted on that path, as is the answer. */
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_SEND_ONLY, SQ_PSN);
	expect_aeth(f, 1, RQ_PSN + 1, ACK);
	assert_true(f->out[1].h.bth.migreq);
	/* From now on packets on the old path are dropped. */
	by(f, false);
	peer_says(f, RQ_PSN + 2, true);
	assert_int_equal(fix_run(f), 0);
	/* But a peer that has not migrated yet gets an announcement. */
	peer_says(f, RQ_PSN + 2, false);
	by(f, true);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 1, ACK);
	assert_true(f->out[0].h.bth.migreq);
	assert_int_equal(counters(f)->drop_peer, 3);
	expect_no_event(f);
}

/* The packet that shows the migration may also be an acknowledgement. */
static void an_acknowledgement_may_show_the_migration(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h;

	arm_long_ago(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	fix_run(f);
	by(f, true);
	h = peer_hdr(f, UR_RC_ACK, SQ_PSN);
	h.syndrome = ACK;
	h.bth.migreq = true;
	peer_send(f, &h, 0);
	expect_event(f, UR_EVENT_PATH_MIG);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	/* Nothing is in flight; the peer gets an acknowledgement. */
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
	assert_int_equal(fix_sleep(f, 10 * TIMEOUT), 0);
}

/* The peer announces its migration by an acknowledgement, and the response to a
 * READ was lost on the old path: that uses no retry. */
static void an_announced_path_costs_no_retry(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h;

	arm_long_ago(f);
	f->qp.attr.retry_cnt = 0;
	fix_post(f, UR_WR_RDMA_READ, 1, 8, 0);
	assert_int_equal(fix_run(f), 1);
	by(f, true);
	h = peer_hdr(f, UR_RC_ACK, SQ_PSN);
	h.syndrome = ACK;
	h.bth.migreq = true;
	for (int i = 0; i < 2; i++)
		peer_send(f, &h, 0);
	expect_event(f, UR_EVENT_PATH_MIG);
	expect_no_cqe(f);
	assert_int_equal(counters(f)->implied_nak_seq_err, 0);
	assert_int_equal(fix_run(f), 2);
	expect_out(f, 0, UR_RC_READ_REQUEST, SQ_PSN);
	h = peer_hdr(f, UR_RC_READ_RESP_ONLY, SQ_PSN);
	h.syndrome = ACK;
	h.bth.migreq = true;
	peer_send(f, &h, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

/* Our packet has armed the peer; the peer's own without the bit were lost. */
static void a_qp_in_rearm_follows_too(void **state)
{
	struct fix *f = *state;

	rearm(f);
	fix_sleep(f, TIMEOUT);
	by(f, true);
	peer_says(f, RQ_PSN, true);
	expect_event(f, UR_EVENT_PATH_MIG);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN, ACK);
}

/*
 * It was sent when the peer last migrated to a path that both have left since.
 */
static void a_late_packet_causes_no_migration(void **state)
{
	struct fix *f = *state;

	rearm(f);
	by(f, true);
	peer_says(f, RQ_PSN, true);
	assert_int_equal(state_of(f), UR_MIG_REARM);
	by(f, false);
	peer_says(f, RQ_PSN, false);
	fix_run(f);
	by(f, true);
	peer_says(f, RQ_PSN + 1, true);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	expect_no_event(f);
	/* A peer that really migrates keeps requesting. */
	fix_sleep(f, TIMEOUT);
	peer_says(f, RQ_PSN + 1, true);
	expect_event(f, UR_EVENT_PATH_MIG);
}

/* A long ack timeout does not mean that packets are as late. */
static void a_long_timeout_is_no_packet_delay(void **state)
{
	struct fix *f = *state;

	f->qp.attr.timeout = 22; /* 17 s */
	arm(f);
	fix_sleep(f, 50 * MS);
	by(f, true);
	peer_says(f, RQ_PSN + 1, true);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	fix_sleep(f, 50 * MS);
	peer_says(f, RQ_PSN + 1, true);
	expect_event(f, UR_EVENT_PATH_MIG);
}

static void c11_6_3_1_not_our_alternate_path(void **state)
{
	struct fix *f = *state;

	arm(f);
	rig_addr(f->pkt.src, 12, false);
	peer_says(f, RQ_PSN + 1, true);
	expect_event(f, UR_EVENT_PATH_MIG_ERR);
	peer_says(f, RQ_PSN + 1, true);
	expect_no_event(f);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	assert_int_equal(counters(f)->drop_peer, 2);
	/* Not on the primary path either. */
	by(f, false);
	peer_says(f, RQ_PSN + 1, true);
	assert_int_equal(fix_run(f), 0);
	/* Armed again it is reported again. */
	rearm(f);
	peer_says(f, RQ_PSN + 1, false);
	peer_says(f, RQ_PSN + 2, true);
	expect_event(f, UR_EVENT_PATH_MIG_ERR);
	fix_run(f);
}

/* There and back: the old path is the alternate one of the next arming. */
static void c17_2_8_armed_again(void **state)
{
	struct fix *f = *state;

	arm_long_ago(f);
	by(f, true);
	peer_says(f, RQ_PSN + 1, true);
	expect_event(f, UR_EVENT_PATH_MIG);
	fix_run(f);
	assert_int_equal(modify(f, UR_QP_PATH_MIG_STATE, UR_MIG_REARM), 0);
	peer_says(f, RQ_PSN + 2, false);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	fix_sleep(f, TIMEOUT);
	by(f, false);
	peer_says(f, RQ_PSN + 3, true);
	expect_event(f, UR_EVENT_PATH_MIG);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 3, ACK);
}

/* One port may have one path only: MigReq alone decides. */
static void an_alternate_path_may_be_the_same(void **state)
{
	struct fix *f = *state;
	struct ur_qp_attr a = { .path_mig_state = UR_MIG_REARM,
				.alt_port_num = 1,
				.alt_timeout = 14 };

	rig_av(&a.alt_av, f->link.src, f->link.dst);
	assert_int_equal(
		ur_roce_qp_modify(f->lane.roce, &f->qp, &a,
				  UR_QP_ALT_PATH | UR_QP_PATH_MIG_STATE, 0),
		0);
	peer_says(f, RQ_PSN, true);
	assert_int_equal(state_of(f), UR_MIG_REARM);
	peer_says(f, RQ_PSN + 1, false);
	fix_sleep(f, TIMEOUT);
	peer_says(f, RQ_PSN + 2, true);
	expect_event(f, UR_EVENT_PATH_MIG);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 2, ACK);
}

static void reset_forgets_the_path(void **state)
{
	struct fix *f = *state;

	arm(f);
	assert_int_equal(
		rig_qp_state(&f->lane, &f->qp, UR_QPS_RESET, f->now_ns), 0);
	assert_int_equal(state_of(f), UR_MIG_MIGRATED);
	fix_connect(f);
	assert_int_equal(modify(f, UR_QP_PATH_MIG_STATE, UR_MIG_REARM),
			 -EINVAL);
	peer_says(f, RQ_PSN, false);
	assert_int_equal(fix_run(f), 1);
	assert_true(f->out[0].h.bth.migreq);
}

/* The link does not provide our address; the ICRC does. */
static void the_address_is_found_out(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN + 1);
	struct ur_qp_attr a = { .path_mig_state = UR_MIG_REARM,
				.alt_port_num = 1 };
	struct ur_rx rx = { .dst_unknown = true };
	uint8_t other[16];

	/* The peer has one address, we have two. */
	rig_addr(other, 10, false);
	rig_av(&a.alt_av, other, f->link.dst);
	assert_int_equal(
		ur_roce_qp_modify(f->lane.roce, &f->qp, &a,
				  UR_QP_ALT_PATH | UR_QP_PATH_MIG_STATE, 0),
		0);
	peer_says(f, RQ_PSN, false);
	fix_sleep(f, TIMEOUT);
	memcpy(f->pkt.dst, other, 16);
	h.bth.migreq = true;
	rig_pkt_build(&f->pkt, &h, NULL, 0);
	memcpy(rx.src, f->pkt.src, 16);
	rx.sport = f->pkt.sport;
	rx.data = f->pkt.data;
	rx.len = f->pkt.len;
	ur_roce_input(f->lane.roce, &rx, f->now_ns);
	expect_event(f, UR_EVENT_PATH_MIG);
	assert_int_equal(fix_run(f), 1);
	expect_aeth(f, 0, RQ_PSN + 1, ACK);
}

static void uc_follows_in_the_middle_of_a_message(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_UC_SEND_LAST, RQ_PSN + 1);

	rearm(f);
	fix_recv(f, 1, 0, 2 * MTU);
	peer_plain(f, UR_UC_SEND_FIRST, RQ_PSN, MTU);
	by(f, true);
	h.bth.migreq = true;
	peer_send(f, &h, 8);
	expect_event(f, UR_EVENT_PATH_MIG);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_UC_SEND_ONLY, SQ_PSN);
	assert_true(f->out[0].h.bth.migreq);
}

static void xrc_target_follows(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_WRITE_ONLY, RQ_PSN);

	rearm(f);
	fix_sleep(f, TIMEOUT);
	by(f, true);
	h.bth.migreq = true;
	peer_send(f, &h, 0);
	expect_event(f, UR_EVENT_PATH_MIG);
	assert_int_equal(fix_run(f), 1);
}

/* It has nothing to acknowledge; its next request shows its path. */
static void xrc_initiator_announces_nothing(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_XRC_ACK, SQ_PSN);

	h.syndrome = ACK;
	rearm(f);
	fix_post(f, UR_WR_SEND, 1, 8, 0);
	assert_int_equal(fix_run(f), 1);
	peer_send(f, &h, 0);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(state_of(f), UR_MIG_ARMED);
	assert_int_equal(modify(f, UR_QP_PATH_MIG_STATE, UR_MIG_MIGRATED), 0);
	expect_event(f, UR_EVENT_PATH_MIG);
	peer_send(f, &h, 0); /* by the old path */
	by(f, true);
	assert_int_equal(fix_run(f), 0);
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	assert_int_equal(fix_run(f), 1);
	assert_true(f->out[0].h.bth.migreq);
}

static int initiator_setup(void **state)
{
	*state = fix_new(UR_QPT_XRC_SEND, false);
	return 0;
}

static int target_setup(void **state)
{
	*state = fix_new(UR_QPT_XRC_RECV, true);
	return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)

static void cnp(struct fix *f, bool alternate)
{
	struct ur_hdr h = peer_hdr(f, UR_CNP, 0);

	h.bth.becn = true;
	by(f, alternate);
	peer_send(f, &h, 16);
	by(f, false);
}

/* A CNP concerns the path that it came by. */
static void a_cnp_reduces_the_window_of_its_path(void **state)
{
	struct fix *f = *state;

	rearm(f);
	cnp(f, true);
	assert_int_equal(counters(f)->rp_cnp_handled, 1);
	for (uint32_t i = 0; i < 20; i++)
		fix_post(f, UR_WR_RDMA_WRITE, i, 32 * MTU, 0);
	assert_in_range(fix_run(f), 500, 600);
	f->now_ns += 1 * MS;
	cnp(f, false);
	assert_int_equal(counters(f)->rp_cnp_handled, 2);
	/* Half of the window is still in flight then: it is full. */
	peer_ack(f, SQ_PSN + 200, ACK);
	assert_int_equal(fix_run(f), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c17_2_8_the_bit_announces_the_state),
		T(c17_2_8_a_packet_without_the_bit_arms),
		T(what_may_be_asked_for),
		T(c17_2_8_retries_used_up),
		T(then_the_last_path_fails_too),
		T(unarmed_it_fails_at_once),
		T(rnr_retries_are_no_reason),
		T(c17_2_8_modified_by_the_program),
		T(c17_2_8_the_responder_follows),
		T(an_acknowledgement_may_show_the_migration),
		T(a_qp_in_rearm_follows_too),
		T(an_announced_path_costs_no_retry),
		T(a_late_packet_causes_no_migration),
		T(a_long_timeout_is_no_packet_delay),
		T(c11_6_3_1_not_our_alternate_path),
		T(c17_2_8_armed_again),
		T(an_alternate_path_may_be_the_same),
		T(reset_forgets_the_path),
		T(the_address_is_found_out),
		T(a_cnp_reduces_the_window_of_its_path),
		cmocka_unit_test_setup_teardown(
			uc_follows_in_the_middle_of_a_message, uc_setup,
			fix_teardown),
		cmocka_unit_test_setup_teardown(xrc_target_follows,
						target_setup, fix_teardown),
		cmocka_unit_test_setup_teardown(xrc_initiator_announces_nothing,
						initiator_setup, fix_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
