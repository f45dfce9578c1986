/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that are lost, duplicated or late, and peers that are slow. */
#include "fixture.h"

#include <errno.h>

/* (4.096 us << 20) + 2 * (4.096 us << 16) */
#define FULL_WAIT (4294967296ul + 2 * 268435456ul)
/* 4.096 us << 24, and the packet lifetimes */
#define MRA_WAIT  (68719476736ul + 2 * 268435456ul)

static const uint64_t waits[] = { FULL_WAIT / 16, FULL_WAIT / 8, FULL_WAIT / 4,
				  FULL_WAIT / 2 };

/* No answer: `attr` is sent 19 times, quickly at first, for about as long as 16
 * full waits, the total time of the kernel's CM. */
static void expect_retries(struct fix *f, struct side *s, enum ur_cm_attr attr)
{
	uint64_t begin = f->now_ns;
	uint8_t first[UR_CM_MAD_LEN];

	take(f, s, attr);
	memcpy(first, f->dg.mad, sizeof(first));
	for (unsigned int n = 0; n < 18; n++) {
		uint64_t waited = wait_timer(f, s);

		assert_true(waited == (n < 4 ? waits[n] : FULL_WAIT));
		no_event(f, s);
		take(f, s, attr);
		assert_memory_equal(f->dg.mad, first, sizeof(first));
	}
	assert_true(wait_timer(f, s) == FULL_WAIT);
	assert_in_range(f->now_ns - begin, 15 * FULL_WAIT, 16 * FULL_WAIT);
}

static void nobody_answers_the_request(void **state)
{
	struct fix *f = *state;

	fix_connect(f, PS_TCP);
	expect_retries(f, &f->a, UR_CM_REQ);
	event(f, &f->a, UR_CM_UNREACHABLE);
	assert_int_equal(f->ev.status, -ETIMEDOUT);
	take(f, &f->a, UR_CM_REJ); /* for a peer that has got our message */
	assert_int_equal(f->m.u.rej.reason, 4);
	assert_int_equal(f->m.remote_id, 0);
	assert_state(f->a.id, "CLOSED");
	assert_int_equal(ur_cm_counters(f->a.cm)->retries, 18);
	assert_int_equal(ur_cm_counters(f->a.cm)->timeouts, 1);
	assert_quiet(f);
}

static void nobody_answers_the_reply(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	fix_accept(f);
	ur_cm_id_destroy(f->a.id, f->now_ns); /* its REJ is lost */
	take(f, &f->a, UR_CM_REJ);
	expect_retries(f, &f->b, UR_CM_REP);
	event(f, &f->b, UR_CM_UNREACHABLE);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, 4);
	assert_quiet(f);
}

static void nobody_answers_the_disconnect(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	expect_retries(f, &f->a, UR_CM_DREQ);
	event(f, &f->a, UR_CM_DISCONNECTED);
	assert_int_equal(f->ev.status, -ETIMEDOUT);
	assert_state(f->a.id, "TIMEWAIT");
	wait_timer(f, &f->a);
	event(f, &f->a, UR_CM_TIMEWAIT_EXIT);
	assert_quiet(f);
}

/* Each message has its full number of retries. */
static void retries_restart_per_message(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	for (unsigned int i = 0; i < 3; i++) {
		take(f, &f->a, UR_CM_REQ);
		wait_timer(f, &f->a);
	}
	pass(f, &f->a, UR_CM_REQ);
	event(f, &f->b, UR_CM_REQUEST);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	event(f, &f->b, UR_CM_ESTABLISHED);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	expect_retries(f, &f->a, UR_CM_DREQ);
	event(f, &f->a, UR_CM_DISCONNECTED);
}

/* Without an owner the DREQ is still repeated, then all is freed. */
static void destroyed_while_the_disconnect_is_lost(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	take(f, &f->a, UR_CM_DREQ);
	assert_false(ur_cm_idle(f->a.cm));
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_DREQ);
	event(f, &f->b, UR_CM_DISCONNECTED);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	pass(f, &f->b, UR_CM_DREP);
	assert_true(ur_cm_idle(f->a.cm));
	wait_ns(f, 10 * S);
	assert_quiet(f);
}

static void reply_is_lost(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_REQ); /* repeated: the REP is sent again */
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	no_event(f, &f->b);
}

static void ready_to_use_is_lost(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_RTU);
	wait_timer(f, &f->b);
	pass(f, &f->b, UR_CM_REP);
	no_event(f, &f->a);
	pass(f, &f->a, UR_CM_RTU);
	event(f, &f->b, UR_CM_ESTABLISHED);
	give(f, &f->b); /* and once more */
	assert_quiet(f);
}

/* The passive side gets the DREQ before the RTU. */
static void disconnect_overtakes_ready_to_use(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_RTU);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_DREQ);
	event(f, &f->b, UR_CM_DISCONNECTED);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	pass(f, &f->b, UR_CM_DREP);
	event(f, &f->a, UR_CM_DISCONNECTED);
}

static void disconnect_reply_is_lost(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_DREQ);
	event(f, &f->b, UR_CM_DISCONNECTED);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	take(f, &f->b, UR_CM_DREP);
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_DREQ);
	pass(f, &f->b, UR_CM_DREP); /* from TIMEWAIT */
	event(f, &f->a, UR_CM_DISCONNECTED);
	no_event(f, &f->b);
}

/* Long after, when the connection is no longer remembered. */
static void disconnect_of_a_forgotten_connection(void **state)
{
	struct fix *f = *state;
	struct ur_cm_dgram dreq;

	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_DREQ);
	dreq = f->dg;
	event(f, &f->b, UR_CM_DISCONNECTED);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	take(f, &f->b, UR_CM_DREP);
	wait_ns(f, 3 * S);
	f->dg = dreq;
	give(f, &f->b);
	take(f, &f->b, UR_CM_DREP);
	assert_int_equal(ur_cm_counters(f->b.cm)->drop_unknown_id, 1);
	give(f, &f->a);
	event(f, &f->a, UR_CM_DISCONNECTED);
}

static void both_disconnect_at_once(void **state)
{
	struct fix *f = *state;
	struct ur_cm_dgram from_a, from_b;

	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_DREQ);
	from_a = f->dg;
	take(f, &f->b, UR_CM_DREQ);
	from_b = f->dg;
	f->dg = from_a;
	give(f, &f->b);
	f->dg = from_b;
	give(f, &f->a);
	event(f, &f->a, UR_CM_DISCONNECTED);
	event(f, &f->b, UR_CM_DISCONNECTED);
	pass(f, &f->a, UR_CM_DREP);
	pass(f, &f->b, UR_CM_DREP);
	wait_ns(f, 10 * S);
	event(f, &f->a, UR_CM_TIMEWAIT_EXIT);
	event(f, &f->b, UR_CM_TIMEWAIT_EXIT);
	assert_quiet(f);
}

/* The owner does not answer yet; an MRA extends the peer's timeout. */
static void slow_acceptor(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_REQ);
	take(f, &f->b, UR_CM_MRA);
	assert_int_equal(f->m.u.mra.about, UR_CM_ABOUT_REQ);
	assert_int_equal(f->m.u.mra.service_timeout, 24);
	give(f, &f->a);
	no_event(f, &f->a);
	wait_ns(f, MRA_WAIT - 1);
	take_nothing(f, &f->a);
	wait_ns(f, 1);
	take(f, &f->a, UR_CM_REQ);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
}

static void slow_connector(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	wait_timer(f, &f->b);
	pass(f, &f->b, UR_CM_REP);
	take(f, &f->a, UR_CM_MRA);
	assert_int_equal(f->m.u.mra.about, UR_CM_ABOUT_REP);
	give(f, &f->b);
	no_event(f, &f->a);
	wait_ns(f, MRA_WAIT - 1);
	take_nothing(f, &f->b);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	event(f, &f->b, UR_CM_ESTABLISHED);
	assert_quiet(f);
}

/* An MRA does not stop retries for ever: after its time we send again. */
static void acceptor_dies_after_the_mra(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	give(f, &f->b);
	pass(f, &f->b, UR_CM_MRA);
	wait_ns(f, MRA_WAIT - 1);
	take_nothing(f, &f->a);
	wait_ns(f, 16 * FULL_WAIT);
	for (unsigned int i = 0; i < 15; i++)
		take(f, &f->a, UR_CM_REQ);
	event(f, &f->a, UR_CM_UNREACHABLE);
}

static void mra_about_something_else(void **state)
{
	struct fix *f = *state;
	uint64_t deadline;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	give(f, &f->b);
	take(f, &f->b, UR_CM_MRA);
	deadline = ur_cm_deadline(f->a.cm);
	f->m.u.mra.about = UR_CM_ABOUT_REP;
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	assert_true(ur_cm_deadline(f->a.cm) == deadline);
	assert_int_equal(ur_cm_counters(f->a.cm)->drop_state, 1);
}

/* A REQ that arrives after the connection's end does not open it again. */
static void request_arrives_late(void **state)
{
	struct fix *f = *state;
	struct ur_cm_dgram req;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	req = f->dg;
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	event(f, &f->b, UR_CM_ESTABLISHED);
	f->dg = req;
	give(f, &f->b); /* in ESTABLISHED: no effect */
	assert_quiet(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_DREQ);
	event(f, &f->b, UR_CM_DISCONNECTED);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	pass(f, &f->b, UR_CM_DREP);
	event(f, &f->a, UR_CM_DISCONNECTED);
	f->dg = req;
	give(f, &f->b);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, 10);
	no_event(f, &f->b);
}

/* A peer can neither make us retry too fast nor wait for hours. */
static void peers_timeouts_are_limited(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.local_response_timeout = 0;
	f->m.u.req.max_cm_retries = 1;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	assert_true(wait_timer(f, &f->b) >= 16 * MS);
	take(f, &f->b, UR_CM_REP);
	wait_timer(f, &f->b);
	event(f, &f->b, UR_CM_UNREACHABLE);
	take(f, &f->b, UR_CM_REJ);
}

/* More messages than are fetched: the excess is lost. */
static void output_is_limited(void **state)
{
	struct fix *f = *state;

	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	for (unsigned int i = 0; i < UR_CM_OUTPUT_MAX + 5; i++)
		give(f, &f->b);
	assert_int_equal(ur_cm_counters(f->b.cm)->drop_output, 5);
	for (unsigned int i = 0; i < UR_CM_OUTPUT_MAX; i++)
		take(f, &f->b, UR_CM_REJ);
	take_nothing(f, &f->b);
}

/* Timers that find the output full wait for it. */
static void timers_wait_for_the_output(void **state)
{
	struct fix *f = *state;
	unsigned int n = 0;

	for (unsigned int i = 0; i < UR_CM_OUTPUT_MAX + 30; i++) {
		fix_connect(f, PS_TCP);
		take(f, &f->a, UR_CM_REQ);
	}
	f->now_ns = ur_cm_deadline(f->a.cm);
	while (ur_cm_deadline(f->a.cm) <= f->now_ns) {
		ur_cm_expire(f->a.cm, f->now_ns);
		while (ur_cm_output(f->a.cm, &f->dg))
			n++;
	}
	assert_int_equal(n, UR_CM_OUTPUT_MAX + 30);
	assert_int_equal(ur_cm_counters(f->a.cm)->drop_output, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(nobody_answers_the_request),
		FIX_TEST(nobody_answers_the_reply),
		FIX_TEST(nobody_answers_the_disconnect),
		FIX_TEST(retries_restart_per_message),
		FIX_TEST(destroyed_while_the_disconnect_is_lost),
		FIX_TEST(reply_is_lost),
		FIX_TEST(ready_to_use_is_lost),
		FIX_TEST(disconnect_overtakes_ready_to_use),
		FIX_TEST(disconnect_reply_is_lost),
		FIX_TEST(disconnect_of_a_forgotten_connection),
		FIX_TEST(both_disconnect_at_once),
		FIX_TEST(slow_acceptor),
		FIX_TEST(slow_connector),
		FIX_TEST(acceptor_dies_after_the_mra),
		FIX_TEST(mra_about_something_else),
		FIX_TEST(request_arrives_late),
		FIX_TEST(peers_timeouts_are_limited),
		FIX_TEST(output_is_limited),
		FIX_TEST(timers_wait_for_the_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
