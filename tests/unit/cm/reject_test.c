/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that are rejected, end early, or were forgotten. */
#include "fixture.h"

#include <errno.h>

static void request_told(struct fix *f)
{
	fix_request(f);
}

static void response_told(struct fix *f)
{
	request_told(f);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
}

static void expect_rejected(struct fix *f, struct side *s, int reason)
{
	event(f, s, UR_CM_REJECTED);
	assert_int_equal(f->ev.status, reason);
	assert_int_equal(f->ev.param.private_len, UR_CM_PRIVATE_REJ);
}

static void nobody_listens(void **state)
{
	struct fix *f = *state;

	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.local_id, 0);
	assert_int_equal(f->m.u.rej.about, UR_CM_ABOUT_REQ);
	give(f, &f->a);
	expect_rejected(f, &f->a, 8);
	assert_state(f->a.id, "CLOSED");
	assert_quiet(f);
}

static void owner_rejects(void **state)
{
	struct fix *f = *state;
	uint8_t data[UR_CM_PRIVATE_REJ];

	memset(data, 0x5a, sizeof(data));
	request_told(f);
	assert_int_equal(
		ur_cm_reject(f->b.id, 0, data, sizeof(data), f->now_ns), 0);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.about, UR_CM_ABOUT_REQ);
	/* lost; the repeated REQ gives no second event */
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_REQ);
	no_event(f, &f->b);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 28);
	assert_memory_equal(f->ev.param.private_data, data, sizeof(data));
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

static void owner_rejects_with_a_reason(void **state)
{
	struct fix *f = *state;

	request_told(f);
	assert_int_equal(ur_cm_reject(f->b.id, UR_CM_REJ_VENDOR_OPTION, NULL, 0,
				      f->now_ns),
			 0);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 35);
}

static void connector_rejects_the_response(void **state)
{
	struct fix *f = *state;

	response_told(f);
	assert_int_equal(ur_cm_reject(f->a.id, 0, NULL, 0, f->now_ns), 0);
	take(f, &f->a, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.about, UR_CM_ABOUT_REP);
	wait_timer(f, &f->b);
	pass(f, &f->b, UR_CM_REP);
	pass(f, &f->a, UR_CM_REJ);
	expect_rejected(f, &f->b, 28);
	assert_state(f->b.id, "REJ_SENT");
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

/* However many REJs are lost, the request is not reported again. */
static void rejected_again_and_again(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	assert_int_equal(ur_cm_reject(f->b.id, 0, NULL, 0, f->now_ns), 0);
	for (unsigned int i = 0; i < 10; i++) {
		take(f, &f->b, UR_CM_REJ); /* lost */
		wait_timer(f, &f->a);
		pass(f, &f->a, UR_CM_REQ);
		no_event(f, &f->b);
	}
	assert_true(f->now_ns > 25 * S);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 28);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

/* The peer considers it established, and gets a DREQ. */
static void destroyed_before_ready_to_use(void **state)
{
	struct fix *f = *state;

	response_told(f);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	pass(f, &f->b, UR_CM_DREQ);
	no_event(f, &f->a); /* its owner has not accepted yet */
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	wait_timer(f, &f->b);
	pass(f, &f->b, UR_CM_DREQ);
	event(f, &f->a, UR_CM_DISCONNECTED);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_DREP);
	wait_ns(f, 20 * S);
	event(f, &f->a, UR_CM_TIMEWAIT_EXIT);
	assert_quiet(f);
}

/* A peer that waits for our REP gets a DREQ. */
static void destroyed_while_the_reply_is_lost(void **state)
{
	struct fix *f = *state;

	request_told(f);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	take(f, &f->b, UR_CM_DREQ);
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_REQ);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 28);
	wait_timer(f, &f->b);
	pass(f, &f->b, UR_CM_DREQ);
	pass(f, &f->a, UR_CM_DREP);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

static void disconnected_while_the_reply_is_lost(void **state)
{
	struct fix *f = *state;

	request_told(f);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	take(f, &f->b, UR_CM_DREQ);
	f->m.u.dreq.remote_qpn++;
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	assert_state(f->a.id, "REQ_SENT");
	wait_timer(f, &f->b);
	pass(f, &f->b, UR_CM_DREQ);
	event(f, &f->a, UR_CM_REJECTED);
	assert_int_equal(f->ev.status, 28);
	pass(f, &f->a, UR_CM_DREP);
	event(f, &f->b, UR_CM_DISCONNECTED);
}

/* A REQ overtaken by its sender's REJ opens nothing. */
static void request_after_its_rejection(void **state)
{
	struct fix *f = *state;
	struct ur_cm_dgram req;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	req = f->dg;
	give(f, &f->b);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	pass(f, &f->a, UR_CM_REJ);
	f->dg = req;
	give(f, &f->b);
	no_event(f, &f->b);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, 10);
}

/* The same by a call of the owner. */
static void rejected_after_ready_to_use(void **state)
{
	struct fix *f = *state;

	response_told(f);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_RTU);
	assert_int_equal(ur_cm_reject(f->b.id, 0, NULL, 0, f->now_ns), 0);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 28);
	assert_state(f->a.id, "TIMEWAIT");
	wait_ns(f, 20 * S);
	event(f, &f->a, UR_CM_TIMEWAIT_EXIT);
	assert_quiet(f);
}

static void acceptor_thinks_better_of_it(void **state)
{
	struct fix *f = *state;

	response_told(f);
	assert_int_equal(ur_cm_reject(f->b.id, 0, NULL, 0, f->now_ns), 0);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 28);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), -EINVAL);
	assert_state(f->a.id, "TIMEWAIT"); /* its QP may have sent */
	wait_ns(f, 20 * S);
	event(f, &f->a, UR_CM_TIMEWAIT_EXIT);
	assert_quiet(f);
}

/* Untaken events of a destroyed id are dropped. */
static void destroyed_with_an_event_waiting(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_DREQ);
	ur_cm_id_destroy(f->b.id, f->now_ns); /* DISCONNECTED waits */
	pass(f, &f->b, UR_CM_DREP);
	no_event(f, &f->b);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	no_event(f, &f->a);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

static void destroyed_before_the_answer(void **state)
{
	struct fix *f = *state;

	request_told(f);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 28);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

static void destroyed_before_establish(void **state)
{
	struct fix *f = *state;

	response_told(f);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	pass(f, &f->a, UR_CM_REJ);
	expect_rejected(f, &f->b, 28);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

/* The REJ has our CA and ID, since the peer's ID is unknown. */
static void connector_gives_up(void **state)
{
	struct fix *f = *state;
	uint8_t guid[8] = { 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44 };

	request_told(f);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	take(f, &f->a, UR_CM_REJ);
	assert_int_equal(f->m.remote_id, 0);
	assert_int_equal(f->m.u.rej.reason, 4);
	assert_int_equal(f->m.u.rej.about, UR_CM_ABOUT_OTHER);
	assert_int_equal(f->m.u.rej.ari_len, 8);
	assert_memory_equal(f->m.u.rej.ari, guid, 8);
	give(f, &f->b);
	expect_rejected(f, &f->b, 4);
	assert_int_equal(ur_cm_accept(f->b.id, &f->ev.param, f->now_ns),
			 -EINVAL);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

/* An untaken REQUEST event is dropped. */
static void connector_gives_up_before_the_event_is_taken(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	pass(f, &f->a, UR_CM_REJ);
	ur_cm_id_destroy(f->listener, f->now_ns);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

static void response_after_giving_up(void **state)
{
	struct fix *f = *state;

	request_told(f);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	take(f, &f->a, UR_CM_REJ); /* lost */
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	pass(f, &f->a, UR_CM_REJ);
	expect_rejected(f, &f->b, 6);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

static void listener_closes(void **state)
{
	struct fix *f = *state;

	request_told(f); /* one whose event was taken stays */
	f->now_ns++;
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.qpn++;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	ur_cm_id_destroy(f->listener, f->now_ns);
	no_event(f, &f->b);
	pass(f, &f->b, UR_CM_REJ); /* for the second */
	expect_rejected(f, &f->a, 28);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	/* and now there is no listener any more */
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	pass(f, &f->b, UR_CM_REJ);
	expect_rejected(f, &f->a, 8);
}

/* Four wait; the fifth is dropped until one of them is answered. */
static void backlog_is_full(void **state)
{
	struct fix *f = *state;
	struct ur_cm_id *ids[6];
	struct ur_cm_dgram fifth;

	fix_listen(f, PS_TCP);
	for (unsigned int i = 0; i < 5; i++) {
		fix_connect(f, PS_TCP);
		take(f, &f->a, UR_CM_REQ);
		f->m.u.req.qpn += i;
		forge(f, f->a.addr, f->b.addr);
		fifth = f->dg;
		give(f, &f->b);
		if (i < 4) {
			event(f, &f->b, UR_CM_REQUEST);
			ids[i] = f->b.id;
		}
	}
	no_event(f, &f->b);
	take_nothing(f, &f->b);
	assert_int_equal(ur_cm_counters(f->b.cm)->drop_backlog, 1);
	ur_cm_request_seen(ids[0]);
	f->dg = fifth;
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	ur_cm_id_destroy(ids[1], f->now_ns);
	take(f, &f->b, UR_CM_REJ);
	f->b.id = ids[2];
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	assert_int_equal(ur_cm_reject(ids[0], 0, NULL, 0, f->now_ns), 0);
	take(f, &f->b, UR_CM_REJ);
}

/* The peer reuses its QP: it has forgotten the old connection. */
static void stale_connection(void **state)
{
	struct fix *f = *state;
	struct ur_cm_id *old;

	fix_establish(f);
	old = f->b.id;
	fix_connect(f, PS_TCP); /* with the same QP */
	pass(f, &f->a, UR_CM_REQ);
	take(f, &f->b, UR_CM_DREQ);
	assert_int_equal(f->m.u.dreq.remote_qpn, A_QPN);
	assert_state(old, "DREQ_SENT");
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, 10);
	give(f, &f->a);
	expect_rejected(f, &f->a, 10);
	assert_int_equal(ur_cm_counters(f->b.cm)->stale, 1);
	/* the next try succeeds */
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	event(f, &f->b, UR_CM_REQUEST);
}

/* A response from a QP that we consider connected: the old connection has
 * ended. */
static void stale_connection_of_the_responder(void **state)
{
	struct fix *f = *state;
	struct ur_cm_id *old;

	fix_establish(f);
	old = f->a.id;
	ur_cm_destroy(f->b.cm); /* restarts */
	assert_int_equal(ur_cm_create(&(struct ur_cm_config){ .slot = B_SLOT,
							      .ca_guid = B_GUID,
							      .seed = 77 },
				      &f->b.cm),
			 0);
	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.qpn++;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_REJECTED);
	assert_int_equal(f->ev.status, 10);
	take(f, &f->a, UR_CM_DREQ); /* for the old one, unknown there */
	give(f, &f->b);
	pass(f, &f->a, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, 10);
	assert_int_equal(f->m.u.rej.about, UR_CM_ABOUT_REP);
	expect_rejected(f, &f->b, 10);
	pass(f, &f->b, UR_CM_DREP);
	f->a.id = old;
	event(f, &f->a, UR_CM_DISCONNECTED);
}

static void rejected_while_disconnecting(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_DREQ);
	f->m = (struct ur_cm_msg){ .attr = UR_CM_REJ,
				   .local_id = f->m.remote_id,
				   .remote_id = f->m.local_id,
				   .u.rej.reason = 6 };
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	event(f, &f->a, UR_CM_DISCONNECTED);
	assert_state(f->a.id, "TIMEWAIT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(nobody_listens),
		FIX_TEST(owner_rejects),
		FIX_TEST(owner_rejects_with_a_reason),
		FIX_TEST(connector_rejects_the_response),
		FIX_TEST(rejected_again_and_again),
		FIX_TEST(destroyed_before_ready_to_use),
		FIX_TEST(destroyed_while_the_reply_is_lost),
		FIX_TEST(disconnected_while_the_reply_is_lost),
		FIX_TEST(request_after_its_rejection),
		FIX_TEST(rejected_after_ready_to_use),
		FIX_TEST(acceptor_thinks_better_of_it),
		FIX_TEST(destroyed_with_an_event_waiting),
		FIX_TEST(destroyed_before_the_answer),
		FIX_TEST(destroyed_before_establish),
		FIX_TEST(connector_gives_up),
		FIX_TEST(connector_gives_up_before_the_event_is_taken),
		FIX_TEST(response_after_giving_up),
		FIX_TEST(listener_closes),
		FIX_TEST(backlog_is_full),
		FIX_TEST(stale_connection),
		FIX_TEST(stale_connection_of_the_responder),
		FIX_TEST(rejected_while_disconnecting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
