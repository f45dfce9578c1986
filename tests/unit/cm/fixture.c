/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include <stdlib.h>

void addr4(uint8_t addr[16], uint8_t n)
{
	const uint8_t a[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = n };

	memcpy(addr, a, 16);
}

static void side_init(struct side *s, uint32_t slot, uint64_t guid, uint8_t n)
{
	struct ur_cm_config cfg = { .slot = slot,
				    .ca_guid = guid,
				    .ack_delay = ACK_DELAY,
				    .seed = slot };

	addr4(s->addr, n);
	assert_int_equal(ur_cm_create(&cfg, &s->cm), 0);
}

int fix_setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->now_ns = 1000 * S;
	side_init(&f->a, A_SLOT, A_GUID, 1);
	side_init(&f->b, B_SLOT, B_GUID, 2);
	*state = f;
	return 0;
}

int fix_teardown(void **state)
{
	struct fix *f = *state;

	ur_cm_destroy(f->a.cm);
	ur_cm_destroy(f->b.cm);
	free(f);
	return 0;
}

void fix_listen(struct fix *f, uint16_t port_space)
{
	static const uint8_t any[16];

	assert_int_equal(ur_cm_id_create(f->b.cm, port_space, &f->l_user,
					 &f->listener),
			 0);
	assert_int_equal(ur_cm_listen(f->listener, any, PORT, false, 4), 0);
}

void fix_path(const struct fix *f, struct ur_cm_path *path)
{
	*path = (struct ur_cm_path){ .local_port = A_PORT,
				     .remote_port = PORT,
				     .mtu = 3 };
	memcpy(path->local, f->a.addr, 16);
	memcpy(path->remote, f->b.addr, 16);
}

struct ur_cm_param fix_param(uint32_t qpn)
{
	return (struct ur_cm_param){ .responder_resources = 4,
				     .initiator_depth = 2,
				     .retry_count = 7,
				     .rnr_retry_count = 6,
				     .qpn = qpn,
				     .qp_type = UR_QPT_RC };
}

void fix_connect(struct fix *f, uint16_t port_space)
{
	struct ur_cm_param param = fix_param(A_QPN);
	struct ur_cm_path path;

	fix_path(f, &path);
	assert_int_equal(
		ur_cm_id_create(f->a.cm, port_space, &f->a_user, &f->a.id), 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &param, f->now_ns), 0);
}

void fix_accept(struct fix *f)
{
	struct ur_cm_param param = fix_param(B_QPN);

	assert_int_equal(ur_cm_accept(f->b.id, &param, f->now_ns), 0);
}

void fix_request(struct fix *f)
{
	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	event(f, &f->b, UR_CM_REQUEST);
}

void fix_establish(struct fix *f)
{
	fix_request(f);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	event(f, &f->b, UR_CM_ESTABLISHED);
}

void take(struct fix *f, struct side *s, enum ur_cm_attr attr)
{
	if (!ur_cm_output(s->cm, &f->dg))
		fail_msg("no %s", ur_cm_attr_name(attr));
	assert_int_equal(ur_cm_msg_decode(&f->m, f->dg.mad), 0);
	assert_string_equal(ur_cm_attr_name(f->m.attr), ur_cm_attr_name(attr));
	assert_memory_equal(f->dg.src, s->addr, 16);
}

void take_nothing(struct fix *f, struct side *s)
{
	struct ur_cm_msg m;

	if (!ur_cm_output(s->cm, &f->dg))
		return;
	assert_int_equal(ur_cm_msg_decode(&m, f->dg.mad), 0);
	fail_msg("unexpected %s", ur_cm_attr_name(m.attr));
}

void give(struct fix *f, struct side *s)
{
	ur_cm_input(s->cm, &f->dg, f->now_ns);
}

void pass(struct fix *f, struct side *from, enum ur_cm_attr attr)
{
	take(f, from, attr);
	give(f, from == &f->a ? &f->b : &f->a);
}

void event(struct fix *f, struct side *s, enum ur_cm_event_type type)
{
	if (!ur_cm_take_event(s->cm, &f->ev))
		fail_msg("no event %d", type);
	assert_int_equal(f->ev.type, type);
	if (type == UR_CM_REQUEST) {
		assert_ptr_equal(f->ev.user, &f->l_user);
		f->b.id = f->ev.id;
		ur_cm_id_set_user(f->b.id, &f->b_user);
	} else {
		assert_ptr_equal(f->ev.id, s->id);
		assert_ptr_equal(f->ev.user,
				 s == &f->a ? &f->a_user : &f->b_user);
	}
}

void no_event(struct fix *f, struct side *s)
{
	if (ur_cm_take_event(s->cm, &f->ev))
		fail_msg("unexpected event %d", f->ev.type);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void wait_ns(struct fix *f, uint64_t ns)
{
	uint64_t end = f->now_ns + ns, next;

	while ((next = earlier(ur_cm_deadline(f->a.cm),
			       ur_cm_deadline(f->b.cm))) <= end) {
		f->now_ns = next > f->now_ns ? next : f->now_ns;
		ur_cm_expire(f->a.cm, f->now_ns);
		ur_cm_expire(f->b.cm, f->now_ns);
	}
	f->now_ns = end;
}

uint64_t wait_timer(struct fix *f, struct side *s)
{
	uint64_t at = ur_cm_deadline(s->cm), from = f->now_ns;

	assert_true(at != UR_NEVER);
	assert_true(at >= from);
	f->now_ns = at;
	ur_cm_expire(s->cm, at);
	return at - from;
}

void assert_quiet(struct fix *f)
{
	take_nothing(f, &f->a);
	take_nothing(f, &f->b);
	no_event(f, &f->a);
	no_event(f, &f->b);
	assert_true(ur_cm_deadline(f->a.cm) == UR_NEVER);
	assert_true(ur_cm_deadline(f->b.cm) == UR_NEVER);
}

void assert_state(const struct ur_cm_id *id, const char *name)
{
	struct ur_cm_info info;

	ur_cm_id_info(id, &info);
	assert_string_equal(info.state, name);
}

void forge(struct fix *f, const uint8_t src[16], const uint8_t dst[16])
{
	memcpy(f->dg.src, src, 16);
	memcpy(f->dg.dst, dst, 16);
	ur_cm_msg_encode(&f->m, f->dg.mad);
}
