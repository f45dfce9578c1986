/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookups of datagram services. */
#include "fixture.h"

#include <errno.h>

static void asked(struct fix *f)
{
	fix_listen(f, PS_UDP);
	fix_connect(f, PS_UDP);
	pass(f, &f->a, UR_CM_SIDR_REQ);
	event(f, &f->b, UR_CM_REQUEST);
}

static void answer_with_private_data(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = { .qpn = B_QPN };
	uint8_t data[UR_CM_PRIVATE_SIDR_REP + 1];

	memset(data, 0x3c, sizeof(data));
	asked(f);
	assert_int_equal(UR_CM_SLOT(f->m.local_id), A_SLOT);
	assert_true(f->m.u.sidr_req.service_id == 0x01110000 + PORT);
	assert_int_equal(f->ev.param.private_len, UR_CM_PRIVATE_SIDR_REQ);
	assert_int_equal(f->ev.param.qp_type, UR_QPT_UD);
	assert_int_equal(f->ev.path.remote_port, A_PORT);
	p.private_data = data;
	p.private_len = sizeof(data);
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), -EINVAL);
	p.private_len--;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
	pass(f, &f->b, UR_CM_SIDR_REP);
	assert_int_equal(f->m.u.sidr_rep.qkey, 0x01234567);
	event(f, &f->a, UR_CM_ESTABLISHED);
	assert_int_equal(f->ev.param.qpn, B_QPN);
	assert_int_equal(f->ev.param.qkey, 0x01234567);
	assert_memory_equal(f->ev.param.private_data, data,
			    UR_CM_PRIVATE_SIDR_REP);
	assert_memory_equal(f->ev.av.sgid, f->a.addr, 16);
	assert_memory_equal(f->ev.av.dgid, f->b.addr, 16);
	assert_true(f->ev.av.is_global);
	no_event(f, &f->b);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

static void private_data_of_the_request(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = { .qpn = A_QPN };
	uint8_t data[UR_CM_PRIVATE_SIDR_REQ + 1];
	struct ur_cm_path path;

	memset(data, 0xc3, sizeof(data));
	fix_listen(f, PS_UDP);
	fix_path(f, &path);
	p.private_data = data;
	p.private_len = sizeof(data);
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_UDP, NULL, &f->a.id), 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	p.private_len--;
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), 0);
	pass(f, &f->a, UR_CM_SIDR_REQ);
	event(f, &f->b, UR_CM_REQUEST);
	assert_memory_equal(f->ev.param.private_data, data,
			    UR_CM_PRIVATE_SIDR_REQ);
}

static void own_q_key(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = { .qpn = B_QPN, .qkey = 0x42 };

	asked(f);
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
	pass(f, &f->b, UR_CM_SIDR_REP);
	event(f, &f->a, UR_CM_ESTABLISHED);
	assert_int_equal(f->ev.param.qkey, 0x42);
}

static void nobody_listens(void **state)
{
	struct fix *f = *state;

	fix_connect(f, PS_UDP);
	pass(f, &f->a, UR_CM_SIDR_REQ);
	pass(f, &f->b, UR_CM_SIDR_REP);
	event(f, &f->a, UR_CM_UNREACHABLE);
	assert_int_equal(f->ev.status, UR_CM_SIDR_UNSUPPORTED);
	assert_quiet(f);
}

static void owner_rejects(void **state)
{
	struct fix *f = *state;

	asked(f);
	assert_int_equal(ur_cm_reject(f->b.id, 0, "no", 3, f->now_ns), 0);
	pass(f, &f->b, UR_CM_SIDR_REP);
	event(f, &f->a, UR_CM_UNREACHABLE);
	assert_int_equal(f->ev.status, UR_CM_SIDR_REJECT);
	assert_string_equal(f->ev.param.private_data, "no");
}

static void owner_destroys(void **state)
{
	struct fix *f = *state;

	asked(f);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	pass(f, &f->b, UR_CM_SIDR_REP);
	event(f, &f->a, UR_CM_UNREACHABLE);
	wait_ns(f, 20 * S);
	assert_quiet(f);
}

/* The request is repeated: no second event, but the answer is sent again. */
static void answer_is_lost(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = { .qpn = B_QPN };

	asked(f);
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_SIDR_REQ);
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
	take(f, &f->b, UR_CM_SIDR_REP);
	take_nothing(f, &f->b);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_SIDR_REQ);
	no_event(f, &f->b);
	pass(f, &f->b, UR_CM_SIDR_REP);
	event(f, &f->a, UR_CM_ESTABLISHED);
}

static void nobody_answers(void **state)
{
	struct fix *f = *state;

	fix_connect(f, PS_UDP);
	wait_ns(f, 100 * S);
	for (unsigned int i = 0; i < 19; i++)
		take(f, &f->a, UR_CM_SIDR_REQ);
	event(f, &f->a, UR_CM_UNREACHABLE);
	assert_int_equal(f->ev.status, -ETIMEDOUT);
	assert_quiet(f);
}

/* A REQ for a datagram service, and vice versa. */
static void services_do_not_mix(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_UDP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.service_id = 0x01110000 + PORT;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	no_event(f, &f->b);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, 8);
}

static void answer_for_another_service(void **state)
{
	struct fix *f = *state;

	asked(f);
	fix_accept(f);
	take(f, &f->b, UR_CM_SIDR_REP);
	f->m.u.sidr_rep.service_id++;
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	no_event(f, &f->a);
	assert_state(f->a.id, "SIDR_REQ_SENT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(answer_with_private_data),
		FIX_TEST(private_data_of_the_request),
		FIX_TEST(own_q_key),
		FIX_TEST(nobody_listens),
		FIX_TEST(owner_rejects),
		FIX_TEST(owner_destroys),
		FIX_TEST(answer_is_lost),
		FIX_TEST(nobody_answers),
		FIX_TEST(services_do_not_mix),
		FIX_TEST(answer_for_another_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
