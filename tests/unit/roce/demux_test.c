/* SPDX-License-Identifier: BSD-2-Clause */
/* Which packets reach a queue pair at all (IBTA 9.6.1). */
#include "roce/fixture.h"

/* Without a valid ICRC. */
static void peer_forged(struct fix *f, struct ur_hdr *h)
{
	h->dma_len = 8;
	rig_pkt_build(&f->pkt, h, f->data, 8);
	f->pkt.data[f->pkt.len - 1] ^= 0xff;
	f->pkt.data[f->pkt.len - 4] ^= 0x55;
	assert_false(rig_pkt_input(&f->lane, &f->pkt, f->now_ns));
}

static void c9_6_1_wrong_icrc_is_dropped(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.dma_len = 8;
	rig_pkt_build(&f->pkt, &h, f->data, 8);
	/* Each byte but byte 4, whose bits routers may change. */
	for (uint32_t i = 0; i < f->pkt.len; i++) {
		struct rig_pkt bad = f->pkt;

		bad.data[i] ^= 0x10;
		if (i != 4)
			rig_pkt_input(&f->lane, &bad, f->now_ns);
	}
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(f->remote.p[1], 0);
	/* With another identification it is valid (IPv4 hides it). */
	f->pkt.index = 4711;
	rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
	assert_int_equal(fix_run(f), 1);
}

static void every_truncation_is_dropped(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_FETCH_ADD, RQ_PSN);
	struct rig_pkt whole;

	h.swap_add = 1;
	rig_pkt_build(&f->pkt, &h, NULL, 0);
	whole = f->pkt;
	for (uint32_t len = 0; len < whole.len; len++) {
		f->pkt = whole;
		f->pkt.len = len;
		if (len >= UR_BTH_LEN + UR_ICRC_LEN)
			rig_pkt_seal(&f->pkt);
		rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
	}
	assert_int_equal(f->remote.p[0], 0);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
}

static void c9_6_1_1_transport_version(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.bth.tver = 1;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(counters(f)->drop_malformed, 1);
}

static void c9_6_1_2_unknown_queue_pair(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.bth.dqpn = f->qp.qpn + 1;
	peer_send(f, &h, 0);
	h.bth.dqpn = 0xfffffe;
	peer_send(f, &h, 0);
	h.bth.dqpn = 0;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 0);
	/* The last two are for other slots. */
	assert_int_equal(counters(f)->drop_no_qp, 1);
	assert_int_equal(counters(f)->drop_foreign, 2);
}

static void c9_6_1_2_transport_must_match(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_UC_WRITE_ONLY, RQ_PSN);

	peer_send(f, &h, 0);
	h = peer_hdr(f, UR_UD_SEND_ONLY, RQ_PSN);
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(counters(f)->drop_transport, 2);
}

static void c9_6_1_4_partition_key(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	h.bth.pkey = 0xfffe;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(counters(f)->drop_pkey, 1);
	/* We are a full member: limited members may send to us. */
	h.bth.pkey = 0x7fff;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 1);
}

static void c9_6_1_5_only_the_peer_is_accepted(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);
	uint8_t peer[16];

	memcpy(peer, f->pkt.src, 16);
	rig_addr(f->pkt.src, 7, false);
	peer_send(f, &h, 0);
	memcpy(f->pkt.src, peer, 16);
	rig_addr(f->pkt.dst, 7, false);
	peer_send(f, &h, 0);
	memcpy(f->pkt.dst, f->host.addr, 16);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(counters(f)->drop_peer, 2);
	/* The source port is free: it is entropy. */
	f->pkt.sport ^= 1;
	peer_send(f, &h, 0);
	assert_int_equal(fix_run(f), 1);
}

/* A packet with a wrong ICRC as well is dropped for the cheaper reason: the
 * ICRC is computed only of packets that could be for the QP. */
static void what_is_cheap_is_checked_first(void **state)
{
	struct fix *f = *state;
	const struct ur_roce_counters *c = counters(f);
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);
	uint8_t peer[16];

	memcpy(peer, f->pkt.src, 16);
	rig_addr(f->pkt.src, 7, false);
	peer_forged(f, &h);
	assert_int_equal(c->drop_peer, 1);
	memcpy(f->pkt.src, peer, 16);
	h.bth.pkey = 0xfffe;
	peer_forged(f, &h);
	assert_int_equal(c->drop_pkey, 1);
	h = peer_hdr(f, UR_UC_WRITE_ONLY, RQ_PSN);
	peer_forged(f, &h);
	assert_int_equal(c->drop_transport, 1);
	assert_int_equal(c->drop_icrc, 0);
	h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);
	peer_forged(f, &h);
	assert_int_equal(c->drop_icrc, 1);
	assert_int_equal(fix_run(f), 0);
	rig_pkt_build(&f->pkt, &h, f->data, 8);
	assert_true(rig_pkt_input(&f->lane, &f->pkt, f->now_ns));
}

static void datagram_with_a_wrong_qkey_is_dropped_first(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h;

	fix_free(f);
	f = *state = fix_new(UR_QPT_UD, false);
	h = peer_hdr(f, UR_UD_SEND_ONLY, RQ_PSN);
	h.qkey = QKEY + 1;
	peer_forged(f, &h);
	assert_int_equal(counters(f)->drop_qkey, 1);
	assert_int_equal(counters(f)->drop_icrc, 0);
	h.qkey = QKEY;
	peer_forged(f, &h);
	assert_int_equal(counters(f)->drop_icrc, 1);
}

static void c10_3_1_reset_and_init_drop_packets(void **state)
{
	struct fix *f = *state;

	fix_free(f);
	f = *state = fix_new_reset(UR_QPT_RC, false);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(rig_qp_init(&f->lane, &f->qp, &f->link, f->now_ns), 0);
	peer_write(f, UR_RC_WRITE_ONLY, RQ_PSN, 8, 8);
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(f->remote.p[1], 0);
	assert_int_equal(counters(f)->drop_qp_state, 2);
}

static void opcodes_without_a_meaning_are_dropped(void **state)
{
	struct fix *f = *state;
	struct ur_hdr h = peer_hdr(f, UR_RC_WRITE_ONLY, RQ_PSN);

	for (uint32_t op = 0; op < 256; op++) {
		if (ur_opcode_get((uint8_t)op))
			continue;
		rig_pkt_build(&f->pkt, &h, f->data, 64);
		f->pkt.data[0] = (uint8_t)op;
		rig_pkt_seal(&f->pkt);
		rig_pkt_input(&f->lane, &f->pkt, f->now_ns);
	}
	assert_int_equal(fix_run(f), 0);
	assert_int_equal(f->qp.state, UR_QPS_RTS);
	assert_true(counters(f)->drop_malformed > 100);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rc_setup, fix_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(c9_6_1_wrong_icrc_is_dropped),
		T(every_truncation_is_dropped),
		T(c9_6_1_1_transport_version),
		T(c9_6_1_2_unknown_queue_pair),
		T(c9_6_1_2_transport_must_match),
		T(c9_6_1_4_partition_key),
		T(c9_6_1_5_only_the_peer_is_accepted),
		T(what_is_cheap_is_checked_first),
		T(datagram_with_a_wrong_qkey_is_dropped_first),
		T(c10_3_1_reset_and_init_drop_packets),
		T(opcodes_without_a_meaning_are_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
