/* SPDX-License-Identifier: BSD-2-Clause */
/* UC through a channel: whole or not at all, in order, and no answers. */
#include "shm/internal.h"
#include "shm/pair.h"

#define PATIENCE (1000 * MS)

static int uc_setup(void **state)
{
	*state = pair_new(UR_QPT_UC, false);
	return 0;
}

static struct rig_wr write_to(const struct pair *p, uint8_t opcode,
			      uint32_t off)
{
	return (struct rig_wr){ .opcode = opcode,
				.imm_be = 0x0a0b0c0d,
				.remote_addr = (uintptr_t)p->side[1].buf.p +
					       PAIR_HALF + off,
				.rkey = p->side[1].buf.mr->key };
}

static bool arrived(const struct pair *p, uint32_t off, uint32_t len)
{
	return !memcmp(p->side[1].buf.p + PAIR_HALF + off, p->side[0].buf.p,
		       len);
}

static void sends_of_all_sizes(void **state)
{
	static const uint32_t lens[] = { 0, 1, 40, 41, 8192, 8193, 30000 };
	struct pair *p = *state;

	pair_open(p);
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct rig_wr wr = { .opcode = i & 1 ? UR_WR_SEND_IMM
						     : UR_WR_SEND,
				     .imm_be = 0x0a0b0c0d };
		struct ur_cqe c;

		memset(p->side[1].buf.p + PAIR_HALF, 0xaa, PAIR_HALF);
		pair_recv(p, i, 0, 30000);
		pair_post(p, i, lens[i], &wr);
		assert_int_equal(pair_leave(p), 0);
		(void)pair_cqe(p, 0, i, UR_WC_SUCCESS);
		assert_true(pair_look(p, 1) > 0);
		c = pair_cqe(p, 1, i, UR_WC_SUCCESS);
		assert_int_equal(c.byte_len, lens[i]);
		assert_int_equal(c.opcode, UR_WC_RECV);
		assert_int_equal(c.flags, i & 1 ? UR_WC_WITH_IMM : 0);
		assert_int_equal(c.imm_be, i & 1 ? 0x0a0b0c0d : 0);
		assert_int_equal(c.src_qp, p->side[0].qp.qpn);
		assert_true(arrived(p, 0, lens[i]));
		assert_int_equal(p->side[1].buf.p[PAIR_HALF + lens[i]], 0xaa);
	}
	assert_int_equal(pair_counters(p, 1)->rx_send_requests, 7);
	assert_int_equal(pair_counters(p, 0)->shm_requests, 7);
	assert_int_equal(ur_roce_deadline(p->side[0].lane.roce), UR_NEVER);
}

static void writes(void **state)
{
	static const uint32_t lens[] = { 0, 16, 17, 9000 };
	struct pair *p = *state;

	pair_open(p);
	for (uint32_t i = 0; i < 4; i++) {
		struct rig_wr wr = write_to(p, UR_WR_RDMA_WRITE, 64);
		struct ur_cqe c;

		memset(p->side[1].buf.p + PAIR_HALF, 0xaa, PAIR_HALF);
		pair_post(p, 1, lens[i], &wr);
		assert_int_equal(pair_leave(p), 0);
		(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
		(void)pair_look(p, 1);
		pair_no_cqe(p, 1);
		assert_true(arrived(p, 64, lens[i]));
		assert_int_equal(p->side[1].buf.p[PAIR_HALF + 64 + lens[i]],
				 0xaa);
		pair_recv(p, 9, 0, 0);
		wr = write_to(p, UR_WR_RDMA_WRITE_IMM, 64);
		pair_post(p, 2, lens[i], &wr);
		(void)pair_look(p, 1);
		(void)pair_cqe(p, 0, 2, UR_WC_SUCCESS);
		c = pair_cqe(p, 1, 9, UR_WC_SUCCESS);
		assert_int_equal(c.opcode, UR_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(c.byte_len, lens[i]);
		assert_int_equal(c.imm_be, 0x0a0b0c0d);
	}
}

static void what_cannot_be_placed_is_dropped(void **state)
{
	struct pair *p = *state;
	struct rig_wr wr = write_to(p, UR_WR_RDMA_WRITE, 0);

	pair_open(p);
	/* No receive. */
	pair_post(p, 1, 20000, NULL);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_look(p, 1);
	assert_int_equal(pair_counters(p, 1)->drop_no_recv, 1);
	/* One that comes in the middle is not for it. */
	pair_recv(p, 7, 0, 20000);
	/* No such key; no right. */
	wr.rkey ^= 0x100;
	pair_post(p, 2, 8, &wr);
	(void)pair_look(p, 1);
	wr.rkey ^= 0x100;
	p->side[1].qp.attr.access = 0;
	pair_post(p, 3, 8, &wr);
	(void)pair_look(p, 1);
	assert_int_equal(p->side[1].buf.p[PAIR_HALF + 1], 0);
	for (uint64_t id = 1; id <= 3; id++)
		(void)pair_cqe(p, 0, id, UR_WC_SUCCESS);
	pair_no_cqe(p, 1);
	assert_int_equal(p->side[1].qp.state, UR_QPS_RTS);
	pair_post(p, 4, 20000, NULL);
	(void)pair_look(p, 1);
	assert_int_equal(pair_cqe(p, 1, 7, UR_WC_SUCCESS).byte_len, 20000);
	assert_true(arrived(p, 0, 20000));
}

static void c9_8_2_2_7_too_long_for_its_receive(void **state)
{
	struct pair *p = *state;

	pair_open(p);
	pair_recv(p, 7, 0, 10000);
	pair_post(p, 1, 10001, NULL);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
	(void)pair_cqe(p, 1, 7, UR_WC_LOC_LEN_ERR);
	assert_int_equal(p->side[1].qp.state, UR_QPS_ERR);
}

static void own_memory_that_is_not_there_fails(void **state)
{
	struct pair *p = *state;
	struct ur_sge bad = rig_sge(&p->side[0].buf, 0, 100);
	struct rig_wr wr = { .opcode = UR_WR_SEND, .sge = &bad };

	pair_open(p);
	bad.lkey ^= 0x100;
	pair_post(p, 1, 100, &wr);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_cqe(p, 0, 1, UR_WC_LOC_PROT_ERR);
	assert_int_equal(p->side[0].qp.state, UR_QPS_ERR);
	pair_post(p, 2, 8, NULL);
	(void)pair_cqe(p, 0, 2, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(pair_look(p, 1), 0);
}

static void order_holds_when_the_path_changes(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 1; i <= 4; i++)
		pair_recv(p, i, 0, 3000);
	pair_post(p, 1, 3000, NULL);
	assert_true(pair_leave(p) > 1);
	pair_open(p);
	pair_post(p, 2, 12, NULL);
	pair_post(p, 3, 13, NULL);
	(void)pair_leave(p);
	assert_int_equal(pair_look(p, 1), 0);
	assert_true(ur_shm_waits_link(p->side[1].lane.roce));
	pair_deliver(p);
	assert_int_equal(pair_look(p, 1), 2);
	/* Back: not before all of it is taken. */
	p->side[0].qp.attr.rate_limit = 1000000;
	pair_post(p, 4, 14, NULL);
	(void)pair_look(p, 0);
	assert_int_equal(pair_leave(p), 1);
	pair_deliver(p);
	(void)pair_cqe(p, 1, 1, UR_WC_SUCCESS);
	for (uint32_t i = 2; i <= 4; i++)
		assert_int_equal(pair_cqe(p, 1, i, UR_WC_SUCCESS).byte_len,
				 10 + i);
	assert_int_equal(pair_counters(p, 1)->drop_uc_sequence, 0);
}

/* The ring is full in the middle of a message, and is not emptied. */
static void a_message_given_up_is_dropped_whole(void **state)
{
	struct pair *p = *state;
	uint32_t n = 0;
	struct ur_cqe c;

	pair_open(p);
	pair_narrow(p);
	for (uint32_t i = 0; i < 12; i++) {
		pair_recv(p, i, 0, 30000);
		pair_post(p, i, 30000, NULL);
		(void)pair_leave(p);
	}
	pair_sleep(p, 2 * PATIENCE);
	for (uint32_t i = 0; i < 12; i++)
		(void)pair_cqe(p, 0, i, UR_WC_SUCCESS);
	assert_true(pair_counters(p, 0)->shm_lost > 0);
	(void)pair_look(p, 1);
	while (ur_cq_poll(&p->side[1].cq, &c, 1)) {
		assert_int_equal(c.status, UR_WC_SUCCESS);
		assert_int_equal(c.byte_len, 30000);
		n++;
	}
	assert_int_equal(n + pair_counters(p, 0)->shm_lost, 12);
	/* The next one finds the receive that the torn one had begun. */
	(void)pair_look(p, 0);
	pair_post(p, 20, 9, NULL);
	(void)pair_look(p, 1);
	c = pair_cqe(p, 1, n, UR_WC_SUCCESS);
	assert_int_equal(c.byte_len, 9);
	assert_int_equal(pair_counters(p, 1)->drop_uc_sequence, 1);
}

static struct ur_desc *forge(struct pair *p, uint8_t kind, uint8_t flags,
			     uint16_t len, uint32_t total)
{
	struct ur_desc *c = ur_chan_desc(&p->side[0].peer.chan);

	*c = (struct ur_desc){ .seq = c->seq,
			       .kind = kind,
			       .flags = flags,
			       .len = len,
			       .to = p->side[1].qp.qpn,
			       .from = p->side[0].qp.qpn };
	c->body.total = total;
	c->body.va = (uintptr_t)p->side[1].buf.p + PAIR_HALF;
	c->body.rkey = p->side[1].buf.mr->key;
	ur_spsc_publish(&p->side[0].peer.chan.tx);
	return c;
}

static void cells_that_do_not_add_up_are_dropped(void **state)
{
	struct pair *p = *state;
	const struct ur_roce_counters *c = pair_counters(p, 1);
	const uint8_t only = UR_SHM_FIRST | UR_SHM_LAST;

	pair_open(p);
	pair_recv(p, 7, 0, 100);
	(void)forge(p, UR_SHM_WRITE, only | UR_SHM_IN_BODY, 16, 17);
	(void)forge(p, UR_SHM_WRITE, only | UR_SHM_IN_BODY, 17, 17);
	(void)forge(p, UR_SHM_WRITE, UR_SHM_FIRST | UR_SHM_IN_BODY, 16, 16);
	(void)forge(p, UR_SHM_SEND, only | UR_SHM_IN_BODY, 41, 41);
	forge(p, UR_SHM_SEND, only, 8, 8)->body.at = 1;
	forge(p, UR_SHM_SEND, only, 128, 8)->body.at = UR_CHAN_DATA - 64;
	(void)pair_look(p, 1);
	assert_int_equal(c->drop_length, 6);
	/* In the middle of nothing, or of something else. */
	(void)forge(p, UR_SHM_SEND, UR_SHM_LAST, 0, 0);
	(void)forge(p, UR_SHM_WRITE, UR_SHM_FIRST | UR_SHM_IN_BODY, 8, 16);
	(void)forge(p, UR_SHM_SEND, UR_SHM_LAST, 0, 0);
	(void)pair_look(p, 1);
	assert_int_equal(c->drop_uc_sequence, 2);
	pair_no_cqe(p, 1);
	assert_int_equal(p->side[1].qp.state, UR_QPS_RTS);
}

static void the_first_in_rtr_is_an_event(void **state)
{
	struct pair *p = *state;
	struct pair_side *s = &p->side[1];
	struct ur_ev ev;

	assert_int_equal(
		rig_qp_state(&s->lane, &s->qp, UR_QPS_RESET, p->now_ns), 0);
	assert_int_equal(rig_qp_init(&s->lane, &s->qp, &s->link, p->now_ns), 0);
	assert_int_equal(rig_qp_rtr(&s->lane, &s->qp, &s->link, p->now_ns), 0);
	pair_open(p);
	pair_recv(p, 7, 0, 100);
	pair_post(p, 1, 8, NULL);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, 7, UR_WC_SUCCESS);
	assert_true(rig_event(&p->host, &ev));
	assert_int_equal(ev.type, UR_EVENT_COMM_EST);
	assert_ptr_equal(ev.object, &s->qp);
}

#define T(test) cmocka_unit_test_setup_teardown(test, uc_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(sends_of_all_sizes),
		T(writes),
		T(what_cannot_be_placed_is_dropped),
		T(c9_8_2_2_7_too_long_for_its_receive),
		T(own_memory_that_is_not_there_fails),
		T(order_holds_when_the_path_changes),
		T(a_message_given_up_is_dropped_whole),
		T(cells_that_do_not_add_up_are_dropped),
		T(the_first_in_rtr_is_an_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
