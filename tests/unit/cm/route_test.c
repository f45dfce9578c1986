/* SPDX-License-Identifier: BSD-2-Clause */
/* The destination of a MAD, and urnicd's answer if there is none. */
#include "fixture.h"

#include "cm/route.h"

static struct ur_cm_target target;

static void route(struct fix *f)
{
	forge(f, f->a.addr, f->b.addr);
	ur_cm_route(&f->dg, &target);
}

static void new_requests_go_by_service(void **state)
{
	struct fix *f = *state;

	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	route(f);
	assert_int_equal(target.whose, UR_CM_TO_SERVICE);
	assert_true(target.service_id == 0x01060000 + PORT);
	assert_int_equal(target.port_space, PS_TCP);
	assert_int_equal(target.port, PORT);
	fix_connect(f, PS_UDP);
	take(f, &f->a, UR_CM_SIDR_REQ);
	route(f);
	assert_int_equal(target.whose, UR_CM_TO_SERVICE);
	assert_int_equal(target.port_space, PS_UDP);
	f->m.u.sidr_req.service_id = 0x1000000000000ca1;
	route(f);
	assert_int_equal(target.whose, UR_CM_TO_SERVICE);
	assert_int_equal(target.port_space, 0);
	assert_int_equal(target.port, 0);
}

static void all_others_go_by_id(void **state)
{
	static const enum ur_cm_attr attrs[] = {
		UR_CM_MRA,  UR_CM_REJ,	    UR_CM_REP, UR_CM_RTU, UR_CM_DREQ,
		UR_CM_DREP, UR_CM_SIDR_REP, UR_CM_LAP, UR_CM_APR,
	};
	struct fix *f = *state;

	for (unsigned int i = 0; i < 9; i++) {
		f->m = (struct ur_cm_msg){ .attr = attrs[i],
					   .remote_id = 77u << 22 | 5 };
		route(f);
		assert_int_equal(target.whose, UR_CM_TO_ID);
		assert_int_equal(UR_CM_SLOT(target.id), 77);
	}
}

static void a_peer_that_gave_up_has_no_id(void **state)
{
	struct fix *f = *state;

	f->m = (struct ur_cm_msg){ .attr = UR_CM_REJ, .local_id = 3 };
	route(f);
	assert_int_equal(target.whose, UR_CM_TO_LISTENERS);
}

static void what_is_no_cm_mad(void **state)
{
	struct fix *f = *state;
	struct ur_cm_dgram out;

	f->m = (struct ur_cm_msg){ .attr = UR_CM_REQ };
	forge(f, f->a.addr, f->b.addr);
	f->dg.mad[1] = 3; /* subnet administration */
	ur_cm_route(&f->dg, &target);
	assert_int_equal(target.whose, UR_CM_TO_NONE);
	assert_false(ur_cm_refuse(&f->dg, &out));
}

/* The answer ends the sender's connection. */
static void refusals_are_understood(void **state)
{
	struct fix *f = *state;
	struct ur_cm_dgram out;

	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->dg.scope_id = 5;
	assert_true(ur_cm_refuse(&f->dg, &out));
	assert_memory_equal(out.src, f->b.addr, 16);
	assert_memory_equal(out.dst, f->a.addr, 16);
	assert_int_equal(out.scope_id, 5);
	assert_int_equal(out.hop_limit, 64);
	f->dg = out;
	give(f, &f->a);
	event(f, &f->a, UR_CM_REJECTED);
	assert_int_equal(f->ev.status, 8);
	fix_connect(f, PS_UDP);
	take(f, &f->a, UR_CM_SIDR_REQ);
	assert_true(ur_cm_refuse(&f->dg, &out));
	f->dg = out;
	give(f, &f->a);
	event(f, &f->a, UR_CM_UNREACHABLE);
	assert_int_equal(f->ev.status, 1);
	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_DREQ);
	assert_true(ur_cm_refuse(&f->dg, &out));
	f->dg = out;
	give(f, &f->a);
	event(f, &f->a, UR_CM_DISCONNECTED);
	assert_int_equal(f->ev.status, 0);
}

/* The connecting process has ended: the accepting side gets a REJ. */
static void reply_to_a_dead_process(void **state)
{
	struct fix *f = *state;
	struct ur_cm_dgram out;

	fix_request(f);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	assert_true(ur_cm_refuse(&f->dg, &out));
	f->dg = out;
	give(f, &f->b);
	event(f, &f->b, UR_CM_REJECTED);
	assert_int_equal(f->ev.status, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(new_requests_go_by_service),
		FIX_TEST(all_others_go_by_id),
		FIX_TEST(a_peer_that_gave_up_has_no_id),
		FIX_TEST(what_is_no_cm_mad),
		FIX_TEST(refusals_are_understood),
		FIX_TEST(reply_to_a_dead_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
