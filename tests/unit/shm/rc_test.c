/* SPDX-License-Identifier: BSD-2-Clause */
/* What a responder of the channel lets its peer do by itself. */
#include "shm/direct_internal.h"
#include "shm/internal.h"
#include "shm/pair.h"

#define RNR_NS 700000000ul /* longer than any */

static int rc_setup(void **state)
{
	*state = pair_new_waiting(UR_QPT_RC);
	return 0;
}

static bool is_shown(const struct pair *p, const struct ur_export *e)
{
	struct ur_seg_entry is;

	return ur_seg_find(&e->seg->qps, p->side[1].qp.qpn, &is) &&
	       is.access & UR_ACCESS_REMOTE_WRITE &&
	       is.qp.dest_qpn == p->side[0].qp.qpn;
}

static struct rig_wr write_to(const struct pair *p)
{
	return (struct rig_wr){ .opcode = UR_WR_RDMA_WRITE,
				.remote_addr =
					(uintptr_t)p->side[1].buf.p + PAIR_HALF,
				.rkey = p->side[1].buf.mr->key };
}

/*
 * The first request in RTR raises an event, so direct access must not do it;
 * what comes behind it may be done, whichever way the first one came.
 */
static void shown_after_the_first_request(void **state, bool by_wire)
{
	struct pair *p = *state;
	struct rig_wr wr = write_to(p);
	static struct ur_export *e; /* as long as a process has one */

	if (!e)
		e = ur_export_create();
	assert_non_null(e);
	p->side[1].lane.roce->export = e;
	pair_open(p);
	(void)pair_look(p, 1);
	assert_false(is_shown(p, e));
	/* Its HELLO, and what follows on that. */
	for (unsigned int i = 0; i < 3 && !by_wire; i++)
		(void)pair_look(p, i & 1);
	assert_false(is_shown(p, e));
	pair_post(p, 1, 1000, &wr);
	assert_int_equal(pair_leave(p), by_wire ? 1 : 0);
	pair_deliver(p);
	(void)pair_look(p, 1);
	assert_memory_equal(p->side[1].buf.p + PAIR_HALF, p->side[0].buf.p,
			    1000);
	assert_true(is_shown(p, e));
	pair_close(p);
	p->side[1].lane.roce->export = NULL;
}

static void shown_after_a_packet(void **state)
{
	shown_after_the_first_request(state, true);
}

static void shown_after_a_cell(void **state)
{
	shown_after_the_first_request(state, false);
}

/* As many descriptors of that kind as side 1 may send. */
static uint32_t fill(struct pair *p, enum ur_shm_kind kind)
{
	struct ur_chan *c = &p->side[1].peer.chan;
	uint32_t n = 0;

	for (; ur_shm_desc(ur_rqp_of(&p->side[1].qp), kind, false); n++) {
		ur_chan_desc(c)->to = p->side[0].qp.qpn;
		ur_spsc_publish(&c->tx);
	}
	return n;
}

/* A ring full of requests has room for what the peer waits for. */
static void full_ring_still_tells(void **state)
{
	struct pair *p = *state;
	struct ur_cqe e;
	uint32_t n;

	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	pair_recv(p, 1, 0, 1000);
	pair_post(p, 1, 1000, NULL);
	(void)pair_leave(p);
	n = fill(p, UR_SHM_OLD);
	assert_true(n > UR_CHAN_DESCS / 2 && n < UR_CHAN_DESCS);
	assert_true(pair_look(p, 1) > 0);
	e = pair_cqe(p, 1, 1, UR_WC_SUCCESS);
	assert_int_equal(e.byte_len, 1000);
	ur_shm_flush_acks(p->side[1].lane.roce);
	assert_false(ur_shm_owes_acks(p->side[1].lane.roce));
	pair_close(p);
}

/* A peer that took nothing during one wait is not waited for again, for each queue
 * pair that ends, until it takes something. */
static void who_takes_nothing_is_given_up(void **state)
{
	struct pair *p = *state;
	struct ur_roce *r = p->side[1].lane.roce;

	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	pair_recv(p, 1, 0, 1000);
	pair_post(p, 1, 1000, NULL);
	(void)pair_leave(p);
	assert_true(fill(p, UR_SHM_OLD) > 0);
	assert_true(fill(p, UR_SHM_DONE) > 0);
	assert_true(pair_look(p, 1) > 0);
	(void)pair_cqe(p, 1, 1, UR_WC_SUCCESS);
	ur_shm_flush_acks(r);
	assert_true(ur_shm_owes_acks(r));
	ur_shm_give_up(r);
	assert_false(ur_shm_owes_acks(r));
	(void)pair_look(p, 0);
	assert_true(ur_shm_owes_acks(r));
	(void)pair_look(p, 1);
	assert_false(ur_shm_owes_acks(r));
	(void)pair_look(p, 0);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
	pair_close(p);
}

static int ready_setup(void **state)
{
	*state = pair_new(UR_QPT_RC, false);
	return 0;
}

/* Side 1 sends 1000 bytes by the wire, and side 0 gets them. */
static void send_by_wire(struct pair *p, uint64_t wr_id)
{
	static struct ur_burst burst;
	struct pair_side *from = &p->side[1], *to = &p->side[0];
	struct ur_sge into = rig_sge(&to->buf, PAIR_HALF, 1000);
	struct ur_sge sge = rig_sge(&from->buf, 0, 1000);
	struct rig_wr wr = { .wr_id = wr_id,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED,
			     .sge = &sge,
			     .nsge = 1 };
	struct rig_pkt pkt;

	assert_int_equal(rig_post_recv(&to->qp.rq, wr_id, &into, 1), 0);
	assert_int_equal(rig_post_send(&from->qp, &wr), 0);
	ur_roce_kick(from->lane.roce, &from->qp, p->now_ns);
	assert_true(ur_roce_output(from->lane.roce, &burst, p->now_ns));
	assert_true(rig_burst_pkt(&burst, 0, &pkt));
	rig_pkt_input(&to->lane, &pkt, p->now_ns);
	(void)pair_cqe(p, 0, wr_id, UR_WC_SUCCESS);
}

/*
 * The first request through the channel does not overtake the acknowledgement
 * that its queue pair has sent as a packet: a program with one channel for both
 * completion queues would be woken for the receive, and find no completion of
 * its SEND.
 */
static void an_answer_by_the_channel_waits_for_the_link(void **state)
{
	struct pair *p = *state;

	send_by_wire(p, 1);
	ur_roce_flush_acks(p->side[0].lane.roce, p->now_ns);
	assert_int_equal(pair_leave(p), 1);
	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	pair_recv(p, 2, 0, 1000);
	pair_post(p, 2, 1000, NULL);
	assert_int_equal(pair_leave(p), 1); /* the acknowledgement alone */
	(void)pair_look(p, 1);
	pair_no_cqe(p, 1);
	assert_true(ur_shm_waits_link(p->side[1].lane.roce));
	pair_deliver(p);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, 1, UR_WC_SUCCESS);
	(void)pair_cqe(p, 1, 2, UR_WC_SUCCESS);
	(void)pair_look(p, 0);
	pair_close(p);
}

/* Side 0 sends through the channel. */
static void meet(struct pair *p)
{
	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	pair_recv(p, 1, 0, 1000);
	pair_post(p, 1, 1000, NULL);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, 1, UR_WC_SUCCESS);
}

/* What a paused responder has not executed comes as packets, once. */
static void paused_responder_gets_packets(void **state)
{
	struct pair *p = *state;

	meet(p);
	pair_recv(p, 2, 0, 1000);
	pair_post(p, 2, 1000, NULL);
	ur_shm_pause(p->side[1].lane.roce, true);
	(void)pair_look(p, 1);
	pair_no_cqe(p, 1);
	(void)pair_look(p, 0);
	assert_false(p->side[0].qp.on_shm);
	assert_int_equal(pair_leave(p), 1);
	pair_deliver(p);
	(void)pair_cqe(p, 1, 2, UR_WC_SUCCESS);
	pair_no_cqe(p, 1);
	pair_close(p);
}

/* A paused requester sends packets when nothing is outstanding in the channel. */
static void paused_requester_sends_packets(void **state)
{
	struct pair *p = *state;

	meet(p);
	pair_recv(p, 2, 0, 1000);
	pair_recv(p, 3, 0, 1000);
	pair_post(p, 2, 1000, NULL);
	ur_shm_pause(p->side[0].lane.roce, true);
	pair_post(p, 3, 1000, NULL);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, 2, UR_WC_SUCCESS);
	ur_shm_flush_acks(p->side[1].lane.roce);
	(void)pair_look(p, 0);
	assert_false(p->side[0].qp.on_shm);
	assert_int_equal(pair_leave(p), 1);
	pair_deliver(p);
	(void)pair_cqe(p, 1, 3, UR_WC_SUCCESS);
	pair_close(p);
}

/* A channel that is missing is requested after the pause. */
static void a_channel_is_requested_after_the_pause(void **state)
{
	struct pair *p = *state;
	uint32_t asked;

	ur_shm_pause(p->side[0].lane.roce, true);
	asked = p->side[0].asked;
	ur_shm_pause(p->side[0].lane.roce, false);
	assert_int_equal(p->side[0].asked, asked + 1);
	assert_int_equal(p->side[0].slot, 2);
	meet(p);
	ur_shm_pause(p->side[0].lane.roce, true);
	ur_shm_pause(p->side[0].lane.roce, false);
	assert_int_equal(p->side[0].asked, asked + 1);
	pair_close(p);
}

/* The pause ends before the requester has read that it was refused. */
static void a_short_pause_loses_nothing(void **state)
{
	struct pair *p = *state;

	meet(p);
	pair_recv(p, 2, 0, 1000);
	pair_recv(p, 3, 0, 1000);
	pair_recv(p, 4, 0, 1000);
	pair_post(p, 2, 1000, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		ur_shm_pause(p->side[1].lane.roce, true);
		ur_shm_pause(p->side[1].lane.roce, false);
	}
	(void)pair_look(p, 1);
	pair_no_cqe(p, 1);
	pair_post(p, 3, 1000, NULL);
	(void)pair_look(p, 0);
	assert_int_equal(pair_leave(p), 2);
	pair_deliver(p);
	(void)pair_cqe(p, 1, 2, UR_WC_SUCCESS);
	(void)pair_cqe(p, 1, 3, UR_WC_SUCCESS);
	pair_no_cqe(p, 1);
	pair_close(p);
}

static void answer_by_wire(struct pair *p, struct rig_pkt *pkt)
{
	static struct ur_burst burst;

	ur_roce_flush_acks(p->side[1].lane.roce, p->now_ns);
	assert_true(ur_roce_output(p->side[1].lane.roce, &burst, p->now_ns));
	assert_true(rig_burst_pkt(&burst, 0, pkt));
}

/*
 * A packet that was sent twice is refused for want of a receive, then acknowledged.
 * The channel is not used until the timer of the refusal has run out: it has the
 * same timer, and afterwards the wire would wait for ever.
 */
static void channel_waits_for_the_end_of_rnr(void **state)
{
	struct pair *p = *state;
	struct rig_pkt nak, ack;

	p->side[0].qp.attr.rnr_retry = 7;
	ur_rqp_of(&p->side[0].qp)->req.rnr_retries = 7;
	pair_post(p, 1, 1000, NULL);
	assert_int_equal(pair_leave(p), 1);
	rig_pkt_input(&p->side[1].lane, &p->wire[0], p->now_ns);
	answer_by_wire(p, &nak);
	pair_recv(p, 1, 0, 1000);
	pair_deliver(p);
	(void)pair_cqe(p, 1, 1, UR_WC_SUCCESS);
	answer_by_wire(p, &ack);
	rig_pkt_input(&p->side[0].lane, &nak, p->now_ns);
	pair_recv(p, 2, 0, 1000);
	pair_post(p, 2, 1000, NULL);
	rig_pkt_input(&p->side[0].lane, &ack, p->now_ns);
	(void)pair_cqe(p, 0, 1, UR_WC_SUCCESS);
	pair_open(p);
	for (unsigned int i = 0; i < 6; i++)
		(void)pair_look(p, i & 1);
	assert_int_equal(pair_leave(p), 0);
	pair_sleep(p, RNR_NS);
	assert_int_equal(pair_leave(p), 0);
	(void)pair_look(p, 1);
	(void)pair_cqe(p, 1, 2, UR_WC_SUCCESS);
	ur_shm_flush_acks(p->side[1].lane.roce);
	(void)pair_look(p, 0);
	(void)pair_cqe(p, 0, 2, UR_WC_SUCCESS);
	ur_shm_pause(p->side[0].lane.roce, true);
	pair_post(p, 3, 1000, NULL);
	assert_int_equal(pair_leave(p), 1);
	pair_close(p);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rc_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(shown_after_a_packet),
		T(shown_after_a_cell),
		T(full_ring_still_tells),
		T(who_takes_nothing_is_given_up),
		T(paused_responder_gets_packets),
		T(paused_requester_sends_packets),
		T(a_channel_is_requested_after_the_pause),
		T(a_short_pause_loses_nothing),
		cmocka_unit_test_setup_teardown(
			an_answer_by_the_channel_waits_for_the_link,
			ready_setup, pair_teardown),
		cmocka_unit_test_setup_teardown(
			channel_waits_for_the_end_of_rnr, ready_setup,
			pair_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
