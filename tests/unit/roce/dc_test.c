/* SPDX-License-Identifier: BSD-2-Clause */
/* DC: operations, losses, refusals, limits (dc_world.h). */
#include "roce/dc_world.h"

static void each_operation(void **state)
{
	struct node *t = &w.tgt[0];
	uint64_t old = 5;
	struct ur_cqe c;

	(void)state;
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 700);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	c = cqe_of(t, 1, UR_WC_SUCCESS);
	assert_int_equal(c.owner, UR_CQE_DCT);
	assert_int_equal(c.byte_len, 700);
	assert_int_equal(c.src_qp, w.ini.qp.qpn);
	assert_memory_equal(t->buf.p, w.ini.buf.p, 700);
	receive(t, 2);
	post(t, UR_WR_SEND_IMM, 11, 8);
	run();
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	c = cqe_of(t, 2, UR_WC_SUCCESS);
	assert_int_equal(c.imm_be, 0xaabbccdd);
	memset(t->buf.p, 0, BUF_LEN);
	post(t, UR_WR_RDMA_WRITE, 12, 3000);
	run();
	cqe_of(&w.ini, 12, UR_WC_SUCCESS);
	assert_memory_equal(t->buf.p, w.ini.buf.p, 3000);
	receive(t, 3);
	post(t, UR_WR_RDMA_WRITE_IMM, 13, 300);
	run();
	cqe_of(&w.ini, 13, UR_WC_SUCCESS);
	c = cqe_of(t, 3, UR_WC_SUCCESS);
	assert_int_equal(c.opcode, UR_WC_RECV_RDMA_WITH_IMM);
	memset(t->buf.p, 0x5a, 2000);
	post(t, UR_WR_RDMA_READ, 14, 2000);
	run();
	cqe_of(&w.ini, 14, UR_WC_SUCCESS);
	assert_memory_equal(w.ini.buf.p, t->buf.p, 2000);
	memcpy(t->buf.p, &old, 8);
	post(t, UR_WR_FETCH_ADD, 15, 8);
	run();
	cqe_of(&w.ini, 15, UR_WC_SUCCESS);
	assert_memory_equal(w.ini.buf.p, &old, 8);
	old = 7 + 5;
	assert_memory_equal(t->buf.p, &old, 8);
	no_cqe(t);
}

/* Requests for several targets are executed in their order, and those for one
 * target are in flight together. */
static void targets_in_turn(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4 * TARGETS; i++) {
		struct node *t = &w.tgt[i / 2 % TARGETS];

		receive(t, 100 + i);
		post(t, UR_WR_SEND, i, 64);
	}
	run();
	for (uint32_t i = 0; i < 4 * TARGETS; i++) {
		cqe_of(&w.ini, i, UR_WC_SUCCESS);
		cqe_of(&w.tgt[i / 2 % TARGETS], 100 + i, UR_WC_SUCCESS);
	}
	/* Two sessions of two SENDs at each target, all from one connection. */
	for (uint32_t i = 0; i < TARGETS; i++) {
		assert_int_equal(w.tgt[i].lane.roce->dc->count, 1);
		assert_int_equal(cnt(&w.tgt[i])->rx_send_requests, 4);
	}
}

static struct ur_rng rng;
static uint32_t percent;

static bool lose_some(const struct rig_pkt *p)
{
	(void)p;
	return ur_rng_below(&rng, 100) < percent;
}

/* Four requests to each target in turn: three SENDs, a READ. */
static void losses_are_repaired(void **state)
{
	uint32_t sends = 0;

	(void)state;
	ur_rng_seed(&rng, 1);
	w.lose = lose_some;
	for (percent = 1; percent <= 20; percent++) {
		for (uint32_t i = 0; i < 24; i++) {
			struct node *t = &w.tgt[i / 4 % TARGETS];
			bool read = i % 4 == 3;

			if (!read)
				receive(t, i);
			post(t, read ? UR_WR_RDMA_READ : UR_WR_SEND, i, 600);
		}
		sleep_for(20000 * MS);
		sends += 6;
		for (uint32_t i = 0; i < 24; i++) {
			cqe_of(&w.ini, i, UR_WC_SUCCESS);
			if (i % 4 != 3)
				cqe_of(&w.tgt[i / 4 % TARGETS], i,
				       UR_WC_SUCCESS);
		}
		for (uint32_t i = 0; i < TARGETS; i++)
			assert_int_equal(cnt(&w.tgt[i])->rx_send_requests,
					 sends);
	}
	assert_true(w.nlost > 100);
}

/* A packet of an earlier session that comes again is not executed. */
static void late_packets_are_stale(void **state)
{
	struct node *t = &w.tgt[0];
	struct rig_pkt late;

	(void)state;
	receive(t, 1);
	receive(t, 2);
	receive(t, 3);
	post(t, UR_WR_SEND, 10, 64);
	run();
	late = w.tape[0];
	/* In its session it is a duplicate, and acknowledged. */
	deliver(&late);
	run();
	assert_int_equal(cnt(t)->duplicate_request, 1);
	post(t, UR_WR_SEND, 11, 64);
	run();
	w.ntape = 0;
	deliver(&late);
	run();
	assert_int_equal(w.ntape, 0);
	assert_int_equal(cnt(t)->drop_dc_stale, 1);
	cqe_of(t, 1, UR_WC_SUCCESS);
	cqe_of(t, 2, UR_WC_SUCCESS);
	no_cqe(t);
}

static void reconnect_initiator(void)
{
	struct rig_link k = { .path_mtu = 1,
			      .timeout = 14,
			      .retry_cnt = 3,
			      .rnr_retry = 2,
			      .max_rd_atomic = 4 };

	memcpy(k.src, w.ini.host.addr, 16);
	rig_addr(k.dst, 1, false);
	rig_qp_state(&w.ini.lane, &w.ini.qp, UR_QPS_RESET, w.now_ns);
	rig_qp_connect(&w.ini.lane, &w.ini.qp, &k, w.now_ns);
}

static void wrong_keys_are_refused(void **state)
{
	struct node *t = &w.tgt[1];
	struct ur_dc_target at = t->at;
	struct ur_ev ev;

	(void)state;
	at.key ^= 1ull << 63;
	receive(t, 1);
	atomic_store(&t->qp.armed, true);
	post_at(&at, UR_WR_SEND, 10, 64, 0, 0);
	run();
	cqe_of(&w.ini, 10, UR_WC_REM_ACCESS_ERR);
	no_cqe(t);
	assert_int_equal(w.ini.qp.state, UR_QPS_ERR);
	assert_int_equal(t->qp.key_violations, 1);
	assert_int_equal(t->lane.roce->dc->count, 0);
	assert_true(rig_event(&t->host, &ev));
	assert_int_equal(ev.type, UR_EVENT_DCT_KEY_VIOLATION);
	assert_ptr_equal(ev.object, &t->qp);
	/* The same request again is none. */
	atomic_store(&t->qp.armed, true);
	deliver(&w.tape[0]);
	assert_int_equal(t->qp.key_violations, 1);
	assert_false(rig_event(&t->host, &ev));
	/* One event: it has to be armed again. */
	for (uint32_t i = 2; i < 5; i++) {
		reconnect_initiator();
		post_at(&at, UR_WR_SEND, i, 64, 0, 0);
		run();
		cqe_of(&w.ini, i, UR_WC_REM_ACCESS_ERR);
		assert_int_equal(t->qp.key_violations, i);
		assert_int_equal(rig_event(&t->host, &ev), i == 2);
	}
}

static void refusals_by_the_thousand(void **state)
{
	struct node *t = &w.tgt[0];
	struct ur_dc_target at = t->at;
	uint64_t sent;

	(void)state;
	at.key = 0;
	post_at(&at, UR_WR_SEND, 10, 64, 0, 0);
	run();
	cqe_of(&w.ini, 10, UR_WC_REM_ACCESS_ERR);
	sent = w.ntape;
	for (uint32_t i = 0; i < 5000; i++)
		deliver(&w.tape[0]);
	assert_int_equal(cnt(t)->drop_dc_key, 5001);
	/* With the one that is sent already */
	assert_int_equal(t->lane.roce->dc->nrefusals, UR_DC_REFUSALS - 1);
	run();
	assert_int_equal(w.ntape - sent, UR_DC_REFUSALS - 1);
	assert_int_equal(t->lane.roce->dc->nrefusals, 0);
	assert_int_equal(t->lane.roce->dc->count, 0);
	assert_int_equal(cnt(t)->sent_pkts, UR_DC_REFUSALS);
	/* One more in each millisecond, whatever comes. */
	sent = w.ntape;
	for (uint32_t i = 0; i < 10; i++) {
		w.now_ns += UR_DC_REFUSAL_NS;
		for (uint32_t j = 0; j < 100; j++) {
			deliver(&w.tape[0]);
			send_all(t);
		}
	}
	assert_int_equal(w.ntape - sent, 10);
	assert_int_equal(cnt(t)->drop_dc_key, 6001);
	assert_int_equal(t->qp.key_violations, 1);
	assert_int_equal(cnt(t)->dc_refusals_limited,
			 6000 - (UR_DC_REFUSALS - 1) - 10);
}

/* Each request with a wrong key counts. An event needs the target armed, and there
 * is one until it is armed again. */
static void violations_by_the_thousand(void **state)
{
	struct node *t = &w.tgt[0];
	struct ur_dc_target at = t->at;
	struct ur_ev ev;

	(void)state;
	for (uint32_t i = 0; i < 4000; i++) {
		if (i % 100 == 50)
			atomic_store(&t->qp.armed, true);
		at.key++;
		post_at(&at, UR_WR_SEND, i, 64, 0, 0);
		run();
		cqe_of(&w.ini, i, UR_WC_REM_ACCESS_ERR);
		assert_int_equal(t->qp.key_violations, i + 1);
		assert_int_equal(rig_event(&t->host, &ev), i % 100 == 50);
		assert_int_equal(t->lane.roce->dc->count, 0);
		assert_int_equal(t->lane.roce->dc->nrefusals, 0);
		w.now_ns += UR_DC_REFUSAL_NS;
		reconnect_initiator();
	}
	no_cqe(t);
	/* The target goes on. */
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 64);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
	assert_int_equal(t->qp.key_violations, 4000);
}

/* Without the target's right for it each operation is refused (as of RC: IBTA
 * 9.7.4.1.5), and a SEND that is longer than its receive. */
static void operations_are_refused(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} c[] = {
		{ UR_WR_RDMA_WRITE, 8 },      { UR_WR_RDMA_WRITE_IMM, 8 },
		{ UR_WR_RDMA_READ, 8 },	      { UR_WR_FETCH_ADD, 8 },
		{ UR_WR_CMP_SWP, 8 },	      { UR_WR_SEND, RECV + 1 },
		{ UR_WR_SEND_IMM, RECV + 1 },
	};
	struct node *t = &w.tgt[0];
	struct ur_ev ev;

	(void)state;
	t->qp.attr.access = 0;
	for (uint32_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		receive(t, i);
		post(t, c[i].opcode, 10 + i, c[i].len);
		run();
		cqe_of(&w.ini, 10 + i, UR_WC_REM_INV_REQ_ERR);
		reconnect_initiator();
		if (c[i].len > RECV)
			continue; /* no event (as of RC) */
		assert_true(rig_event(&t->host, &ev));
		assert_int_equal(ev.type, UR_EVENT_DCT_REQ_ERR);
		assert_ptr_equal(ev.object, &t->qp);
	}
	assert_false(rig_event(&t->host, &ev));
	assert_int_equal(t->qp.state, UR_QPS_RTR);
}

/* The target answers an error of one initiator only to that one. */
static void errors_end_one_connection(void **state)
{
	struct node *t = &w.tgt[0];
	uint64_t va = (uintptr_t)t->buf.p + BUF_LEN - 8;
	struct ur_ev ev;

	(void)state;
	post_at(&t->at, UR_WR_RDMA_WRITE, 10, 64, va, t->buf.mr->key);
	run();
	cqe_of(&w.ini, 10, UR_WC_REM_ACCESS_ERR);
	assert_true(rig_event(&t->host, &ev));
	assert_int_equal(ev.type, UR_EVENT_DCT_ACCESS_ERR);
	assert_ptr_equal(ev.object, &t->qp);
	assert_int_equal(t->qp.state, UR_QPS_RTR);
	assert_int_equal(rig_qp_state(&w.ini.lane, &w.ini.qp, UR_QPS_RESET,
				      w.now_ns),
			 0);
	assert_true(ur_list_empty(&t->host.async.queue));
}

/* A program that takes no events has UR_DCT_EVENTS_MAX of them at most, and gets
 * the event of a key violation all the same. */
static void errors_by_the_thousand(void **state)
{
	struct node *t = &w.tgt[0];
	struct ur_dc_target at = t->at;
	struct ur_ev ev;
	uint32_t n = 0;

	(void)state;
	atomic_store(&t->qp.armed, true);
	for (uint32_t i = 0; i < 1000; i++) {
		post_at(&t->at, UR_WR_RDMA_WRITE, 10, 64, 0, 0);
		run();
		cqe_of(&w.ini, 10, UR_WC_REM_ACCESS_ERR);
		reconnect_initiator();
	}
	at.key++;
	post_at(&at, UR_WR_SEND, 11, 64, 0, 0);
	run();
	cqe_of(&w.ini, 11, UR_WC_REM_ACCESS_ERR);
	for (; rig_event(&t->host, &ev); n++)
		assert_int_equal(ev.type, n < UR_DCT_EVENTS_MAX
						  ? UR_EVENT_DCT_ACCESS_ERR
						  : UR_EVENT_DCT_KEY_VIOLATION);
	assert_int_equal(n, UR_DCT_EVENTS_MAX + 1);
	/* There is room for events again. */
	reconnect_initiator();
	post_at(&t->at, UR_WR_RDMA_WRITE, 12, 64, 0, 0);
	run();
	cqe_of(&w.ini, 12, UR_WC_REM_ACCESS_ERR);
	assert_true(rig_event(&t->host, &ev));
	assert_int_equal(t->lane.roce->dc->count, 1);
}

/* It failed in the middle of a message and is used again: the receive of that
 * message is flushed. */
static bool lose_last(const struct rig_pkt *p)
{
	return p->data[0] == UR_DC_SEND_LAST;
}

static void an_initiator_that_failed_comes_again(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	receive(t, 1);
	receive(t, 2);
	w.lose = lose_last;
	post(t, UR_WR_SEND, 10, 400);
	sleep_for(8000 * MS);
	cqe_of(&w.ini, 10, UR_WC_RETRY_EXC_ERR);
	no_cqe(t);
	w.lose = NULL;
	reconnect_initiator();
	post(t, UR_WR_SEND, 11, 400);
	run();
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_WR_FLUSH_ERR);
	cqe_of(t, 2, UR_WC_SUCCESS);
}

/* One that was killed: its connection ends by itself. */
static void connections_time_out(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	receive(t, 1);
	w.lose = lose_last;
	post(t, UR_WR_SEND, 10, 400);
	run();
	rig_qp_state(&w.ini.lane, &w.ini.qp, UR_QPS_ERR, w.now_ns);
	cqe_of(&w.ini, 10, UR_WC_WR_FLUSH_ERR);
	sleep_for(UR_DC_IDLE_NS - 100 * MS);
	assert_int_equal(t->lane.roce->dc->count, 1);
	no_cqe(t);
	sleep_for(200 * MS);
	assert_int_equal(t->lane.roce->dc->count, 0);
	cqe_of(t, 1, UR_WC_WR_FLUSH_ERR);
	assert_int_equal(ur_roce_deadline(t->lane.roce), UR_NEVER);
}

/* Used now and then, the connection may have ended meanwhile. */
static void a_request_after_the_connection_expired_succeeds(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		receive(t, i);
		post(t, UR_WR_SEND, 10 + i, 64);
		run();
		cqe_of(&w.ini, 10 + i, UR_WC_SUCCESS);
		cqe_of(t, i, UR_WC_SUCCESS);
		sleep_for(2 * UR_DC_IDLE_NS);
		assert_int_equal(t->lane.roce->dc->count, 0);
	}
}

static void an_empty_queue_is_not_ready(void **state)
{
	struct node *t = &w.tgt[0];

	(void)state;
	post(t, UR_WR_SEND, 10, 64);
	run();
	no_cqe(&w.ini);
	receive(t, 1);
	sleep_for(100 * MS);
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
	/* Never one: the initiator fails. */
	post(t, UR_WR_SEND, 11, 64);
	sleep_for(1000 * MS);
	cqe_of(&w.ini, 11, UR_WC_RNR_RETRY_EXC_ERR);
}

static void requests_wait_for_other_targets(void **state)
{
	(void)state;
	/* The first target has no receive, and the second none to wait for. */
	receive(&w.tgt[1], 2);
	post(&w.tgt[0], UR_WR_SEND, 10, 64);
	post(&w.tgt[1], UR_WR_SEND, 11, 64);
	run();
	no_cqe(&w.tgt[1]);
	receive(&w.tgt[0], 1);
	sleep_for(100 * MS);
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(&w.ini, 11, UR_WC_SUCCESS);
	cqe_of(&w.tgt[0], 1, UR_WC_SUCCESS);
	cqe_of(&w.tgt[1], 2, UR_WC_SUCCESS);
}

static void a_target_that_is_gone(void **state)
{
	struct ur_dc_target at = w.tgt[0].at;

	(void)state;
	at.dctn += 17;
	post_at(&at, UR_WR_SEND, 10, 64, 0, 0);
	post(&w.tgt[1], UR_WR_SEND, 11, 64);
	sleep_for(3000 * MS);
	cqe_of(&w.ini, 10, UR_WC_RETRY_EXC_ERR);
	cqe_of(&w.ini, 11, UR_WC_WR_FLUSH_ERR);
}

static void local_requests_have_no_target(void **state)
{
	static const struct ur_dc_target none;
	struct rig_wr nop = { .wr_id = 9,
			      .opcode = UR_WR_NOP,
			      .flags = UR_SEND_SIGNALED,
			      .dc = &none };

	(void)state;
	assert_int_equal(rig_post_send(&w.ini.qp, &nop), 0);
	ur_roce_kick(w.ini.lane.roce, &w.ini.qp, w.now_ns);
	cqe_of(&w.ini, 9, UR_WC_SUCCESS);
	receive(&w.tgt[0], 1);
	post(&w.tgt[0], UR_WR_SEND, 10, 64);
	assert_int_equal(rig_post_send(&w.ini.qp, &nop), 0);
	ur_roce_kick(w.ini.lane.roce, &w.ini.qp, w.now_ns);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(&w.ini, 9, UR_WC_SUCCESS);
}

/* Changes the header of a recorded request, and gives it to the target. */
static void resend(const struct rig_pkt *p, void (*change)(struct ur_hdr *h))
{
	struct rig_pkt q = *p;
	const uint8_t *payload;
	struct ur_hdr h = { 0 };
	size_t len;

	assert_int_equal(ur_hdr_decode(&h, p->data, p->len, &payload, &len), 0);
	change(&h);
	rig_pkt_build(&q, &h, payload, (uint32_t)len);
	deliver(&q);
}

static void other_version(struct ur_hdr *h)
{
	h->dc_version++;
}

static void no_mtu(struct ur_hdr *h)
{
	h->dc_mtu = 6;
}

static void before_the_session(struct ur_hdr *h)
{
	h->dc_first = ur_psn_add(h->bth.psn, 1);
}

static void response(struct ur_hdr *h)
{
	h->bth.opcode = UR_DC_ACK;
}

static void larger_mtu(struct ur_hdr *h)
{
	h->dc_mtu = 2;
}

static void malformed_requests_are_dropped(void **state)
{
	struct node *t = &w.tgt[0];
	struct rig_pkt first;

	(void)state;
	receive(t, 1);
	w.lose = lose_some;
	percent = 100;
	post(t, UR_WR_SEND, 10, 64);
	run();
	w.lose = NULL;
	first = w.tape[0];
	resend(&first, other_version);
	resend(&first, no_mtu);
	resend(&first, before_the_session);
	assert_int_equal(cnt(t)->drop_malformed, 3);
	assert_int_equal(t->lane.roce->dc->count, 0);
	resend(&first, larger_mtu);
	assert_int_equal(t->lane.roce->dc->nrefusals, 1);
	run();
	cqe_of(&w.ini, 10, UR_WC_REM_INV_REQ_ERR);
	assert_int_equal(t->lane.roce->dc->count, 0);
}

static void responses_are_not_for_targets(void **state)
{
	struct node *t = &w.tgt[0];
	struct rig_pkt p;

	(void)state;
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 0);
	run();
	p = w.tape[0];
	resend(&p, response);
	assert_int_equal(cnt(t)->drop_transport, 1);
	/* Nor requests for initiators. */
	memcpy(p.dst, w.ini.host.addr, 16);
	memcpy(p.src, t->host.addr, 16);
	p.data[5] = (uint8_t)(w.ini.qp.qpn >> 16);
	p.data[6] = (uint8_t)(w.ini.qp.qpn >> 8);
	p.data[7] = (uint8_t)w.ini.qp.qpn;
	rig_pkt_seal(&p);
	deliver(&p);
	assert_int_equal(cnt(&w.ini)->drop_transport, 1);
}

/* Connections as many as there may be, each from another initiator. */
static uint32_t number;

static void other_initiator(struct ur_hdr *h)
{
	h->sqpn = number;
}

static void connections_are_limited(void **state)
{
	struct node *t = &w.tgt[0];
	struct rig_pkt p;

	(void)state;
	post(t, UR_WR_RDMA_WRITE, 10, 0);
	run();
	p = w.tape[0];
	for (number = 0; number < UR_MAX_DC_CONNECTIONS + 10; number++)
		resend(&p, other_initiator);
	assert_int_equal(t->lane.roce->dc->count, UR_MAX_DC_CONNECTIONS);
	assert_true(cnt(t)->drop_dc_full >= 10);
	sleep_for(2 * UR_DC_IDLE_NS);
	assert_int_equal(t->lane.roce->dc->count, 0);
}

/* The keys of receives belong to the target's domain. */
static void receives_are_of_the_targets_domain(void **state)
{
	struct node *t = &w.tgt[0];
	struct ur_pd other = { .handle = 9 };

	(void)state;
	t->srq.pd = &other;
	receive(t, 1);
	post(t, UR_WR_SEND, 10, 64);
	run();
	cqe_of(&w.ini, 10, UR_WC_SUCCESS);
	cqe_of(t, 1, UR_WC_SUCCESS);
	t->srq.pd = &t->host.pd;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(each_operation),
		T(targets_in_turn),
		T(losses_are_repaired),
		T(late_packets_are_stale),
		T(wrong_keys_are_refused),
		T(refusals_by_the_thousand),
		T(violations_by_the_thousand),
		T(operations_are_refused),
		T(errors_end_one_connection),
		T(errors_by_the_thousand),
		T(an_initiator_that_failed_comes_again),
		T(connections_time_out),
		T(a_request_after_the_connection_expired_succeeds),
		T(an_empty_queue_is_not_ready),
		T(requests_wait_for_other_targets),
		T(a_target_that_is_gone),
		T(local_requests_have_no_target),
		T(malformed_requests_are_dropped),
		T(responses_are_not_for_targets),
		T(connections_are_limited),
		T(receives_are_of_the_targets_domain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
