/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams through a channel: what is received is what the wire brings. */
#include "shm/pair.h"

#define GRH	 40u
#define MANY	 8u /* datagrams after which a channel is asked for */
#define PATIENCE (1000 * MS)

static int v4_setup(void **state)
{
	*state = pair_new(UR_QPT_UD, false);
	return 0;
}

/* One datagram by whichever path there is; what came of it. */
static struct ur_cqe pass(struct pair *p, uint32_t len, const struct rig_wr *wr,
			  uint8_t *got)
{
	uint8_t *at = p->side[1].buf.p + PAIR_HALF;

	memset(at, 0xaa, GRH + 4096);
	pair_recv(p, 7, 0, GRH + 4096);
	pair_post(p, 1, len, wr);
	(void)pair_leave(p);
	(void)pair_look(p, 1);
	pair_deliver(p);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
	memcpy(got, at, GRH + 4096);
	return pair_cqe(p, 1, 7, UR_WC_SUCCESS);
}

static void same_by_both(bool v6)
{
	static const uint32_t lens[] = { 0, 1, 31, 32, 33, 40, 1000, 4096 };
	static uint8_t wire[GRH + 4096], near[GRH + 4096];
	struct pair *p = pair_new(UR_QPT_UD, v6);

	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct rig_wr wr = { .opcode = i & 1 ? UR_WR_SEND_IMM
						     : UR_WR_SEND,
				     .flags = i & 2 ? UR_SEND_SOLICITED : 0,
				     .imm_be = 0x01020304 };
		struct ur_cqe a, b;

		a = pass(p, lens[i], &wr, wire);
		pair_open(p);
		/* The first one waits for the wire, the second does not. */
		(void)pass(p, lens[i], &wr, near);
		b = pass(p, lens[i], &wr, near);
		pair_close(p);
		assert_memory_equal(wire, near, sizeof(wire));
		assert_memory_equal(near + GRH, p->side[0].buf.p, lens[i]);
		assert_int_equal(b.byte_len, GRH + lens[i]);
		assert_int_equal(a.byte_len, b.byte_len);
		assert_int_equal(a.src_qp, b.src_qp);
		assert_int_equal(a.flags, b.flags);
		assert_int_equal(a.imm_be, b.imm_be);
		assert_int_equal(a.sl, b.sl);
	}
	assert_int_equal(pair_counters(p, 0)->shm_requests,
			 2 * sizeof(lens) / sizeof(lens[0]));
	assert_int_equal(pair_counters(p, 0)->sent_pkts,
			 sizeof(lens) / sizeof(lens[0]));
	pair_free(p);
}

static void c9_8_3_same_as_by_the_wire_v4(void **state)
{
	same_by_both(false);
}

static void c9_8_3_same_as_by_the_wire_v6(void **state)
{
	same_by_both(true);
}

/* What the AV says of the header is in the GRH area. */
static void a17_4_5_class_and_hops(void **state)
{
	struct pair *p = *state;
	const uint8_t *at = p->side[1].buf.p + PAIR_HALF;
	struct ur_av av;
	struct rig_wr wr = { .opcode = UR_WR_SEND, .av = &av };

	rig_av(&av, p->side[0].link.src, p->side[0].link.dst);
	av.is_local = true;
	av.tclass = 0x5d;
	av.hop_limit = 33;
	pair_open(p);
	pair_recv(p, 7, 0, 100);
	pair_post(p, 1, 8, &wr);
	assert_int_equal(pair_leave(p), 0);
	assert_int_equal(pair_look(p, 1), 1);
	assert_int_equal(at[20], 0x45);
	assert_int_equal(at[21], 0x5d);
	assert_int_equal(at[28], 33);
	assert_memory_equal(at + GRH, p->side[0].buf.p, 8);
}

static void c9_6_1_5_drops_are_counted(void **state)
{
	struct pair *p = *state;
	const struct ur_roce_counters *c = pair_counters(p, 1);
	struct rig_wr wr = { .opcode = UR_WR_SEND, .qkey = PAIR_QKEY + 1 };

	pair_open(p);
	pair_post(p, 1, 8, NULL);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_look(p, 1);
	assert_int_equal(c->drop_no_recv, 1);
	pair_recv(p, 7, 0, GRH + 7);
	pair_post(p, 2, 8, NULL);
	(void)pair_look(p, 1);
	assert_int_equal(c->drop_length, 1);
	pair_post(p, 3, 7, &wr);
	(void)pair_look(p, 1);
	assert_int_equal(c->drop_qkey, 1);
	wr = (struct rig_wr){ .opcode = UR_WR_SEND,
			      .dqpn = p->side[1].qp.qpn ^ 0x155 };
	pair_post(p, 4, 7, &wr);
	(void)pair_look(p, 1);
	assert_int_equal(c->drop_no_qp, 1);
	/* All completed when they left; the receive is still there. */
	for (uint64_t id = 1; id <= 4; id++)
		(void)pair_cqe(p, 0, id, UR_WC_SUCCESS);
	pair_no_cqe(p, 1);
	pair_post(p, 5, 7, NULL);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, 7, UR_WC_SUCCESS);
	assert_int_equal(rig_qp_state(&p->side[1].lane, &p->side[1].qp,
				      UR_QPS_ERR, p->now_ns),
			 0);
	pair_post(p, 6, 7, NULL);
	(void)pair_look(p, 1);
	assert_int_equal(c->drop_qp_state, 1);
}

static void c10_3_1_errors_stop_the_send_queue(void **state)
{
	struct pair *p = *state;
	struct ur_sge bad = rig_sge(&p->side[0].buf, 0, 8);
	struct rig_wr wr = { .opcode = UR_WR_SEND, .sge = &bad };

	pair_open(p);
	pair_recv(p, 7, 0, 100);
	pair_post(p, 1, 8, NULL);
	assert_int_equal(pair_leave(p), 0);
	pair_post(p, 2, 4097, NULL);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
	(void)pair_cqe(p, 0, 2, UR_WC_LOC_LEN_ERR);
	assert_int_equal(p->side[0].qp.state, UR_QPS_SQE);
	pair_post(p, 3, 8, NULL);
	(void)pair_cqe(p, 0, 3, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(rig_qp_state(&p->side[0].lane, &p->side[0].qp,
				      UR_QPS_RTS, p->now_ns),
			 0);
	bad.lkey ^= 0x100;
	pair_post(p, 4, 8, &wr);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_cqe(p, 0, 4, UR_WC_LOC_PROT_ERR);
	assert_int_equal(pair_look(p, 1), 1);
	(void)pair_cqe(p, 1, 7, UR_WC_SUCCESS);
}

static void a_channel_is_asked_for_where_many_go(void **state)
{
	struct pair *p = *state;
	struct ur_av av;
	struct rig_wr remote = { .opcode = UR_WR_SEND, .av = &av };

	rig_av(&av, p->side[0].link.src, p->side[0].link.dst);
	for (uint32_t i = 0; i < MANY; i++) {
		pair_post(p, i, 8, &remote);
		(void)pair_leave(p);
	}
	assert_int_equal(p->side[0].asked, 0);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(p->side[0].asked, 0);
		assert_false(ur_shm_wants(p->side[0].lane.roce, 2));
		pair_post(p, i, 8, NULL);
		(void)pair_leave(p);
	}
	assert_int_equal(p->side[0].asked, 1);
	assert_int_equal(p->side[0].slot, 2);
	assert_true(ur_shm_wants(p->side[0].lane.roce, 2));
	assert_false(ur_shm_wants(p->side[0].lane.roce, 3));
	/* No channel came: not again at once. */
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(p->side[0].asked, 1);
		pair_post(p, i, 8, NULL);
		(void)pair_leave(p);
	}
	assert_int_equal(p->side[0].asked, 2);
}

/* IBTA 9.8.3 asks for no order; programs on one host have always had it. */
static void order_holds_when_the_path_changes(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < 4; i++)
		pair_recv(p, i, 100 * i, 100);
	pair_post(p, 1, 11, NULL);
	assert_int_equal(pair_leave(p), 1);
	pair_open(p);
	pair_post(p, 2, 12, NULL);
	pair_post(p, 3, 13, NULL);
	assert_int_equal(pair_leave(p), 1);
	assert_int_equal(pair_look(p, 1), 0);
	assert_true(ur_shm_waits_link(p->side[1].lane.roce));
	/* It may not sleep on it either. */
	assert_false(ur_shm_sleep(p->side[1].lane.roce, true));
	pair_deliver(p);
	assert_int_equal(pair_look(p, 1), 2);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(pair_cqe(p, 1, i, UR_WC_SUCCESS).byte_len,
				 GRH + 11 + i);
}

/* Packets that stand in a burst have not left. */
static void order_holds_in_one_kick(void **state)
{
	static struct ur_burst burst;
	struct pair *p = *state;
	struct ur_av av;
	struct rig_wr remote = { .opcode = UR_WR_SEND, .av = &av };

	pair_open(p);
	rig_av(&av, p->side[0].link.src, p->side[0].link.dst);
	pair_post(p, 1, 11, &remote);
	pair_post(p, 2, 12, NULL);
	assert_true(ur_roce_output(p->side[0].lane.roce, &burst, p->now_ns));
	assert_int_equal(burst.npkts, 1);
	assert_int_equal(pair_look(p, 1), 0);
	assert_int_equal(pair_leave(p), 0);
	assert_int_equal(pair_look(p, 1), 1);
}

/* Elsewhere in between, and back. */
static void remote_ones_go_by_the_wire(void **state)
{
	struct pair *p = *state;
	struct ur_av av;
	struct rig_wr remote = { .opcode = UR_WR_SEND, .av = &av };

	pair_open(p);
	rig_av(&av, p->side[0].link.src, p->side[0].link.dst);
	for (uint32_t i = 0; i < 10; i++) {
		pair_recv(p, i, 100 * i, 100);
		pair_post(p, i, 8 + i, i % 3 == 1 ? &remote : NULL);
		assert_int_equal(pair_leave(p), i % 3 == 1);
		pair_deliver(p);
		(void)pair_look(p, 1);
		assert_int_equal(pair_cqe(p, 1, i, UR_WC_SUCCESS).byte_len,
				 GRH + 8 + i);
		(void)pair_cqe(p, 0, i, UR_WC_SUCCESS);
	}
	assert_int_equal(pair_counters(p, 0)->shm_requests, 7);
}

/* A ring takes more than a queue holds, but not large ones. */
static uint32_t fill(struct pair *p, uint64_t *id)
{
	struct ur_cqe c;
	uint32_t done = 0;

	for (uint32_t i = 0; i < PAIR_DEPTH; i++)
		pair_post(p, (*id)++, 4096, NULL);
	(void)pair_leave(p);
	while (ur_cq_poll(&p->side[0].cq, &c, 1))
		done++;
	return done;
}

static void a_full_ring_makes_the_sender_wait(void **state)
{
	struct pair *p = *state;
	uint64_t id = 0;
	uint32_t done, got = 0, n;
	struct ur_cqe c;

	pair_open(p);
	for (uint32_t i = 0; i < PAIR_DEPTH; i++)
		pair_recv(p, i, 0, GRH + 4096);
	pair_narrow(p);
	done = fill(p, &id);
	assert_true(done < PAIR_DEPTH);
	assert_true(ur_shm_sleep(p->side[0].lane.roce, true));
	pair_sleep(p, PATIENCE / 2);
	while (done < PAIR_DEPTH) {
		n = (uint32_t)pair_look(p, 1);
		assert_true(n > 0);
		assert_true(p->side[1].rings > 0);
		got += n;
		(void)pair_look(p, 0);
		while (ur_cq_poll(&p->side[0].cq, &c, 1))
			done++;
	}
	got += (uint32_t)pair_look(p, 1);
	assert_int_equal(got, PAIR_DEPTH);
	for (uint32_t i = 0; i < PAIR_DEPTH; i++)
		(void)pair_cqe(p, 1, i, UR_WC_SUCCESS);
	assert_int_equal(pair_counters(p, 0)->shm_lost, 0);
	assert_int_equal(ur_roce_deadline(p->side[0].lane.roce), UR_NEVER);
}

/* It polls by itself, and finds room in the middle of what is taken. */
static void who_is_awake_needs_no_bell(void **state)
{
	struct pair *p = *state;
	uint64_t id = 0;
	uint32_t done;
	struct ur_cqe c;

	pair_open(p);
	for (uint32_t i = 0; i < PAIR_DEPTH; i++)
		pair_recv(p, i, 0, GRH + 4096);
	pair_narrow(p);
	(void)ur_shm_sleep(p->side[0].lane.roce, true);
	ur_shm_polled(p->side[0].lane.roce);
	done = fill(p, &id);
	assert_true(done < PAIR_DEPTH);
	assert_false(ur_shm_stalled(p->side[0].lane.roce));
	assert_true(pair_look(p, 1) > 0);
	assert_int_equal(p->side[1].rings, 0);
	(void)pair_look(p, 0);
	while (ur_cq_poll(&p->side[0].cq, &c, 1))
		done++;
	assert_int_equal(done, PAIR_DEPTH);
}

static void a_stopped_receiver_holds_nobody_up(void **state)
{
	struct pair *p = *state;
	uint64_t id = 0;
	uint32_t done;
	struct ur_cqe c;

	pair_open(p);
	pair_narrow(p);
	done = fill(p, &id);
	pair_sleep(p, PATIENCE / 2);
	pair_no_cqe(p, 0);
	pair_sleep(p, PATIENCE);
	while (ur_cq_poll(&p->side[0].cq, &c, 1))
		done++;
	assert_int_equal(done, PAIR_DEPTH);
	assert_true(pair_counters(p, 0)->shm_lost > 0);
	/* It is known to be stalled now ... */
	assert_int_equal(fill(p, &id), PAIR_DEPTH);
	/* … until it takes something. */
	assert_true(pair_look(p, 1) > 0);
	(void)pair_look(p, 0);
	pair_recv(p, 7, 0, 100);
	pair_post(p, 1, 8, NULL);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
	assert_int_equal(pair_look(p, 1), 1);
	(void)pair_cqe(p, 1, 7, UR_WC_SUCCESS);
}

static void a_paced_one_leaves_when_the_channel_is_empty(void **state)
{
	struct pair *p = *state;
	struct ur_qp_attr a = { .state = UR_QPS_RTS, .rate_limit = 1000000 };

	pair_open(p);
	pair_recv(p, 1, 0, 100);
	pair_recv(p, 2, 100, 100);
	pair_post(p, 1, 11, NULL);
	assert_int_equal(pair_leave(p), 0);
	p->side[0].qp.attr.rate_limit = a.rate_limit;
	pair_post(p, 2, 12, NULL);
	assert_int_equal(pair_leave(p), 0);
	assert_int_equal(pair_look(p, 1), 1);
	(void)pair_look(p, 0);
	assert_int_equal(pair_leave(p), 1);
	pair_deliver(p);
	for (uint32_t i = 1; i <= 2; i++)
		assert_int_equal(pair_cqe(p, 1, i, UR_WC_SUCCESS).byte_len,
				 GRH + 10 + i);
}

static void what_waits_goes_by_the_wire_when_it_ends(void **state)
{
	struct pair *p = *state;
	uint64_t id = 0;
	uint32_t done;

	pair_open(p);
	pair_narrow(p);
	done = fill(p, &id);
	pair_close(p);
	assert_true(pair_leave(p) > 0);
	assert_true(done + p->npkts <= PAIR_DEPTH);
	p->npkts = 0;
}

#define T(test) cmocka_unit_test_setup_teardown(test, v4_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c9_8_3_same_as_by_the_wire_v4),
		cmocka_unit_test(c9_8_3_same_as_by_the_wire_v6),
		T(a17_4_5_class_and_hops),
		T(c9_6_1_5_drops_are_counted),
		T(c10_3_1_errors_stop_the_send_queue),
		T(a_channel_is_asked_for_where_many_go),
		T(order_holds_when_the_path_changes),
		T(order_holds_in_one_kick),
		T(remote_ones_go_by_the_wire),
		T(a_full_ring_makes_the_sender_wait),
		T(who_is_awake_needs_no_bell),
		T(a_stopped_receiver_holds_nobody_up),
		T(a_paced_one_leaves_when_the_channel_is_empty),
		T(what_waits_goes_by_the_wire_when_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
