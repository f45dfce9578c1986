/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams and multicast (IBTA 9.8.3, 10.5). */
#include <errno.h>

#include "roce/fixture.h"

#define GRH 40u

static void c9_8_3_send(void **state)
{
	struct fix *f = *state;

	memcpy(f->local.p, f->data, 100);
	fix_post(f, UR_WR_SEND_IMM, 1, 100, 0);
	assert_int_equal(fix_run(f), 1);
	expect_out(f, 0, UR_UD_SEND_ONLY_IMM, SQ_PSN);
	assert_int_equal(f->out[0].h.bth.dqpn, PEER_QPN);
	assert_int_equal(f->out[0].h.qkey, QKEY);
	assert_int_equal(f->out[0].h.sqpn, f->qp.qpn);
	assert_int_equal(f->out[0].h.imm_be, 0xaabbccdd);
	assert_memory_equal(f->out[0].payload, f->data, 100);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c10_2_5_qkey_with_the_high_bit_means_ours(void **state)
{
	struct fix *f = *state;
	struct ur_sge sge = rig_sge(&f->local, 0, 8);
	struct ur_av av;
	struct rig_wr wr = { .sge = &sge,
			     .nsge = 1,
			     .opcode = UR_WR_SEND,
			     .av = &av,
			     .dqpn = PEER_QPN,
			     .qkey = 0x80000000u };

	rig_av(&av, f->link.src, f->link.dst);
	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	assert_int_equal(fix_run(f), 1);
	assert_int_equal(f->out[0].h.qkey, QKEY);
}

static void c9_8_3_2_receive_with_grh(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_UD_SEND_ONLY_IMM, 42);
	struct ur_cqe c;

	fix_recv(f, 1, 0, 256);
	h.imm_be = 0x01020304;
	peer_send(f, &h, 100);
	c = expect_cqe(f, 1, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, 100 + GRH);
	assert_int_equal(c.src_qp, PEER_QPN);
	assert_int_equal(c.flags, UR_WC_GRH | UR_WC_WITH_IMM);
	assert_int_equal(c.imm_be, 0x01020304);
	assert_memory_equal(f->local.p + GRH, f->data, 100);
	/* IBTA A17.4.5: an IPv4 header in the last 20 bytes. */
	assert_int_equal(f->local.p[20], 0x45);
	assert_int_equal(f->local.p[29], 17);
	assert_memory_equal(f->local.p + 32, f->pkt.src + 12, 4);
	assert_memory_equal(f->local.p + 36, f->pkt.dst + 12, 4);
	assert_int_equal(fix_run(f), 0);
}

static void c9_6_1_5_wrong_qkey_is_dropped(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_UD_SEND_ONLY, 42);

	fix_recv(f, 1, 0, 256);
	h.qkey++;
	peer_send(f, &h, 8);
	expect_no_cqe(f);
	assert_int_equal(counters(f)->drop_qkey, 1);
	h.qkey--;
	peer_send(f, &h, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_8_3_2_too_long_for_the_receive(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, GRH + 7);
	peer_plain(f, UR_UD_SEND_ONLY, 42, 8);
	expect_no_cqe(f);
	assert_int_equal(f->local.p[20], 0);
	peer_plain(f, UR_UD_SEND_ONLY, 43, 7);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_8_3_2_any_sender_is_accepted(void **state)
{
	struct fix *f = *state;

	fix_recv(f, 1, 0, 256);
	rig_addr(f->pkt.src, 9, false);
	peer_plain(f, UR_UD_SEND_ONLY, 42, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
}

static void c9_8_3_no_receive_no_trace(void **state)
{
	struct fix *f = *state;

	peer_plain(f, UR_UD_SEND_ONLY, 42, 8);
	assert_int_equal(counters(f)->drop_no_recv, 1);
	assert_int_equal(fix_run(f), 0);
}

/* The limit is the path MTU of when the address was looked up. */
static void c9_8_3_message_above_the_mtu_of_its_path(void **state)
{
	struct fix *f = *state;
	struct ur_sge sge = rig_sge(&f->local, 0, 1024);
	struct ur_av av;
	struct rig_wr wr = { .wr_id = 1,
			     .sge = &sge,
			     .nsge = 1,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED,
			     .av = &av,
			     .dqpn = 42,
			     .qkey = 1 };

	rig_av(&av, f->link.src, f->link.dst);
	av.mtu = 3;
	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	assert_int_equal(fix_run(f), 1);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	sge.length++;
	assert_int_equal(rig_post_send(&f->qp, &wr), 0);
	ur_roce_kick(f->lane.roce, &f->qp, f->now_ns);
	assert_int_equal(fix_run(f), 0);
	expect_cqe(f, 1, UR_WC_LOC_LEN_ERR);
	assert_int_equal(f->qp.state, UR_QPS_SQE);
}

static void c9_8_3_message_above_the_mtu(void **state)
{
	struct fix *f = *state;

	fix_post(f, UR_WR_SEND, 1, 4097, 0);
	assert_int_equal(fix_run(f), 0);
	expect_cqe(f, 1, UR_WC_LOC_LEN_ERR);
	assert_int_equal(f->qp.state, UR_QPS_SQE);
	/* IBTA 10.3.1: SQE stops only the send queue. */
	fix_post(f, UR_WR_SEND, 2, 8, 0);
	expect_cqe(f, 2, UR_WC_WR_FLUSH_ERR);
	fix_recv(f, 3, 0, 256);
	peer_plain(f, UR_UD_SEND_ONLY, 42, 8);
	expect_cqe(f, 3, UR_WC_SUCCESS);
	assert_int_equal(rig_qp_state(&f->lane, &f->qp, UR_QPS_RTS, f->now_ns),
			 0);
	fix_post(f, UR_WR_SEND, 4, 8, 0);
	assert_int_equal(fix_run(f), 1);
	expect_cqe(f, 4, UR_WC_SUCCESS);
}

static void c10_5_multicast_reaches_members_only(void **state)
{
	struct fix *f = *state;
	struct ur_roce *r = f->lane.roce;
	struct ur_hdr h = peer_hdr(f, UR_UD_SEND_ONLY, 42);
	uint8_t group[16];

	fix_recv(f, 1, 0, 256);
	fix_recv(f, 2, 256, 256);
	rig_addr(group, 0, false);
	group[12] = 239;
	h.bth.dqpn = UR_QPN_MULTICAST;
	memcpy(f->pkt.dst, group, 16);
	peer_send(f, &h, 8);
	expect_no_cqe(f);
	assert_int_equal(ur_roce_mcast_attach(r, &f->qp, group), 0);
	peer_send(f, &h, 8);
	expect_cqe(f, 1, UR_WC_SUCCESS);
	expect_no_cqe(f);
	h.qkey++;
	peer_send(f, &h, 8);
	expect_no_cqe(f);
	h.qkey--;
	group[15]++;
	memcpy(f->pkt.dst, group, 16);
	peer_send(f, &h, 8);
	expect_no_cqe(f);
	assert_int_equal(ur_roce_mcast_detach(r, &f->qp, group), -EINVAL);
	group[15]--;
	assert_int_equal(ur_roce_mcast_detach(r, &f->qp, group), 0);
	memcpy(f->pkt.dst, group, 16);
	peer_send(f, &h, 8);
	expect_no_cqe(f);
	memcpy(f->pkt.dst, f->host.addr, 16);
}

#define T(name) cmocka_unit_test_setup_teardown(name, ud_setup, fix_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c9_8_3_send),
		T(c10_2_5_qkey_with_the_high_bit_means_ours),
		T(c9_8_3_2_receive_with_grh),
		T(c9_6_1_5_wrong_qkey_is_dropped),
		T(c9_8_3_2_too_long_for_the_receive),
		T(c9_8_3_2_any_sender_is_accepted),
		T(c9_8_3_no_receive_no_trace),
		T(c9_8_3_message_above_the_mtu),
		T(c9_8_3_message_above_the_mtu_of_its_path),
		T(c10_5_multicast_reaches_members_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
