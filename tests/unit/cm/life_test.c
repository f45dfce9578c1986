/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections without errors, and every field of their messages. */
#include "fixture.h"

#include <errno.h>

static void fill(uint8_t *p, unsigned int len, uint8_t seed)
{
	for (unsigned int i = 0; i < len; i++)
		p[i] = (uint8_t)(seed + i);
}

static void whole_life(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	assert_state(f->a.id, "ESTABLISHED");
	assert_state(f->b.id, "ESTABLISHED");
	assert_quiet(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_DREQ);
	event(f, &f->b, UR_CM_DISCONNECTED);
	take_nothing(f, &f->b); /* the owner has to answer first */
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	pass(f, &f->b, UR_CM_DREP);
	event(f, &f->a, UR_CM_DISCONNECTED);
	assert_int_equal(f->ev.status, 0);
	assert_state(f->a.id, "TIMEWAIT");
	assert_state(f->b.id, "TIMEWAIT");
	wait_ns(f, 10 * S);
	event(f, &f->a, UR_CM_TIMEWAIT_EXIT);
	event(f, &f->b, UR_CM_TIMEWAIT_EXIT);
	assert_state(f->a.id, "CLOSED");
	assert_quiet(f);
	ur_cm_id_destroy(f->a.id, f->now_ns);
	ur_cm_id_destroy(f->b.id, f->now_ns);
	ur_cm_id_destroy(f->listener, f->now_ns);
	assert_quiet(f);
}

/* As rping's in the kernel's captures, except for identities. */
static void request_on_the_wire(void **state)
{
	struct fix *f = *state;
	struct ur_cma_hdr hdr;
	const struct ur_cm_msg_req *req = &f->m.u.req;

	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	assert_memory_equal(f->dg.dst, f->b.addr, 16);
	assert_int_equal(f->dg.hop_limit, 64);
	assert_int_equal(UR_CM_SLOT(f->m.local_id), A_SLOT);
	assert_int_equal(f->m.tid & 0xffffffff, f->m.local_id);
	assert_int_equal(f->m.attr_mod, 0);
	assert_true(req->service_id == 0x01060000 + PORT);
	assert_true(req->ca_guid == A_GUID);
	assert_int_equal(req->qpn, A_QPN);
	assert_int_equal(req->responder_resources, 4);
	assert_int_equal(req->initiator_depth, 2);
	assert_int_equal(req->remote_response_timeout, 0x14);
	assert_int_equal(req->local_response_timeout, 0x14);
	assert_int_equal(req->transport, UR_CM_TRANSPORT_RC);
	assert_int_equal(req->retry_count, 7);
	assert_int_equal(req->rnr_retry_count, 6);
	assert_int_equal(req->pkey, 0xffff);
	assert_int_equal(req->mtu, 3);
	assert_int_equal(req->max_cm_retries, 15);
	assert_int_equal(req->primary.local_lid, 0xffff);
	assert_int_equal(req->primary.remote_lid, 0xffff);
	assert_memory_equal(req->primary.local_gid, f->a.addr, 16);
	assert_memory_equal(req->primary.remote_gid, f->b.addr, 16);
	assert_int_equal(req->primary.flow_label,
			 (A_PORT * 31 + PORT) & 0xfffff);
	assert_int_equal(req->primary.packet_rate, 0);
	assert_int_equal(req->primary.hop_limit, 64);
	assert_int_equal(req->primary.subnet_local, 0);
	assert_int_equal(req->primary.ack_timeout, 17);
	assert_int_equal(ur_cma_hdr_decode(&hdr, f->m.private_data), 0);
	assert_int_equal(hdr.ip_version, 4);
	assert_int_equal(hdr.port, A_PORT);
	assert_memory_equal(hdr.src, f->a.addr, 16);
	assert_memory_equal(hdr.dst, f->b.addr, 16);
}

static void ids_and_tids_of_the_answers(void **state)
{
	struct fix *f = *state;
	uint32_t a_id, b_id;
	uint64_t tid;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	a_id = f->m.local_id;
	tid = f->m.tid;
	event(f, &f->b, UR_CM_REQUEST);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	b_id = f->m.local_id;
	assert_int_equal(UR_CM_SLOT(b_id), B_SLOT);
	assert_int_equal(f->m.remote_id, a_id);
	assert_true(f->m.tid == tid);
	assert_int_equal(f->m.u.rep.qpn, B_QPN);
	assert_true(f->m.u.rep.ca_guid == B_GUID);
	assert_int_equal(f->m.u.rep.target_ack_delay, ACK_DELAY);
	assert_int_equal(f->m.u.rep.failover_accepted, 0);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	assert_int_equal(f->m.local_id, a_id);
	assert_int_equal(f->m.remote_id, b_id);
	assert_true(f->m.tid == tid);
	event(f, &f->b, UR_CM_ESTABLISHED);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	pass(f, &f->b, UR_CM_DREQ);
	assert_int_equal(f->m.u.dreq.remote_qpn, A_QPN);
	tid = f->m.tid;
	event(f, &f->a, UR_CM_DISCONNECTED);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_DREP);
	assert_true(f->m.tid == tid);
	assert_int_equal(f->m.local_id, a_id);
	assert_int_equal(f->m.remote_id, b_id);
}

/* Parameters of one side arrive at the other, with depths swapped. */
static void parameters_reach_the_other_side(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(A_QPN);
	struct ur_cm_path path;
	uint8_t data[UR_CM_PRIVATE_REP];

	fix_listen(f, PS_TCP);
	fix_path(f, &path);
	path.tclass = 0x20;
	path.mtu = 5;
	fill(data, UR_CM_PRIVATE_REQ, 1);
	p.private_data = data;
	p.private_len = UR_CM_PRIVATE_REQ;
	p.srq = 1;
	p.flow_control = 1;
	p.ece_vendor = 0x123456;
	p.ece_options = 0xcafe;
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, &f->a_user, &f->a.id),
			 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), 0);
	pass(f, &f->a, UR_CM_REQ);
	assert_int_equal(f->dg.tclass, 0x20);
	event(f, &f->b, UR_CM_REQUEST);
	assert_int_equal(f->ev.param.private_len, UR_CM_PRIVATE_REQ);
	assert_memory_equal(f->ev.param.private_data, data, 56);
	assert_int_equal(f->ev.param.responder_resources, 2);
	assert_int_equal(f->ev.param.initiator_depth, 4);
	assert_int_equal(f->ev.param.retry_count, 7);
	assert_int_equal(f->ev.param.rnr_retry_count, 6);
	assert_int_equal(f->ev.param.srq, 1);
	assert_int_equal(f->ev.param.flow_control, 1);
	assert_int_equal(f->ev.param.qpn, A_QPN);
	assert_int_equal(f->ev.param.qp_type, UR_QPT_RC);
	assert_int_equal(f->ev.param.ece_vendor, 0x123456);
	assert_int_equal(f->ev.param.ece_options, 0xcafe);
	assert_memory_equal(f->ev.path.local, f->b.addr, 16);
	assert_memory_equal(f->ev.path.remote, f->a.addr, 16);
	assert_int_equal(f->ev.path.local_port, PORT);
	assert_int_equal(f->ev.path.remote_port, A_PORT);
	assert_int_equal(f->ev.path.tclass, 0x20);
	assert_int_equal(f->ev.path.mtu, 5);
	fill(data, UR_CM_PRIVATE_REP, 100);
	p = fix_param(B_QPN);
	p.private_data = data;
	p.private_len = UR_CM_PRIVATE_REP;
	p.responder_resources = 1;
	p.initiator_depth = 3;
	p.rnr_retry_count = 5;
	p.ece_vendor = 0x654321;
	p.ece_options = 0xbeef;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(f->ev.param.private_len, UR_CM_PRIVATE_REP);
	assert_memory_equal(f->ev.param.private_data, data, 196);
	assert_int_equal(f->ev.param.responder_resources, 3);
	assert_int_equal(f->ev.param.initiator_depth, 1);
	assert_int_equal(f->ev.param.rnr_retry_count, 5);
	assert_int_equal(f->ev.param.qpn, B_QPN);
	assert_int_equal(f->ev.param.ece_vendor, 0x654321);
	assert_int_equal(f->ev.param.ece_options, 0xbeef);
}

/* A peer that grants more than was requested does not raise our QP's depth. */
static void reply_grants_too_much(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	f->m.u.rep.responder_resources = 255;
	f->m.u.rep.initiator_depth = 255;
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(f->ev.param.responder_resources, 4);
	assert_int_equal(f->ev.param.initiator_depth, 2);
}

static void private_data_at_its_limits(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(A_QPN);
	uint8_t data[255] = { 0 };
	struct ur_cm_path path;

	fix_path(f, &path);
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &f->a.id), 0);
	p.private_data = data;
	p.private_len = UR_CM_PRIVATE_REQ + 1;
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	p.private_data = NULL;
	p.private_len = 1;
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	fix_request(f);
	p = fix_param(B_QPN);
	p.private_data = data;
	p.private_len = UR_CM_PRIVATE_REP + 1;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_reject(f->b.id, 0, data, UR_CM_PRIVATE_REJ + 1,
				      f->now_ns),
			 -EINVAL);
	p.private_len = UR_CM_PRIVATE_REP;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
}

static void wrong_paths(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(A_QPN);
	struct ur_cm_path path;

	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &f->a.id), 0);
	fix_path(f, &path);
	path.mtu = 0;
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	path.mtu = 6;
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	fix_path(f, &path);
	path.ack_timeout = 32;
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	fix_path(f, &path);
	path.remote[0] = 0xfd; /* IPv4 to IPv6 */
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	take_nothing(f, &f->a);
}

static void established_by_the_first_packet(void **state)
{
	struct fix *f = *state;

	fix_request(f);
	assert_int_equal(ur_cm_notify(f->b.id, f->now_ns), -EINVAL);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	assert_int_equal(ur_cm_notify(f->b.id, f->now_ns), 0);
	event(f, &f->b, UR_CM_ESTABLISHED);
	assert_int_equal(ur_cm_notify(f->b.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	assert_quiet(f);
}

static void over_ipv6(void **state)
{
	struct fix *f = *state;
	struct ur_cma_hdr hdr;

	memset(f->a.addr, 0, 16);
	memset(f->b.addr, 0, 16);
	f->a.addr[0] = f->b.addr[0] = 0xfd;
	f->a.addr[15] = 1;
	f->b.addr[15] = 2;
	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	assert_int_equal(ur_cma_hdr_decode(&hdr, f->m.private_data), 0);
	assert_int_equal(hdr.ip_version, 6);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	assert_memory_equal(f->ev.path.remote, f->a.addr, 16);
}

/* Both ends in one process, on one address. */
static void with_itself(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(B_QPN);
	struct ur_cm_path path;
	struct ur_cm_id *active;

	fix_listen(f, PS_TCP);
	fix_path(f, &path);
	memcpy(path.local, f->b.addr, 16);
	assert_int_equal(ur_cm_id_create(f->b.cm, PS_TCP, &f->b_user, &active),
			 0);
	assert_int_equal(ur_cm_connect(active, &path, &p, f->now_ns), 0);
	take(f, &f->b, UR_CM_REQ);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	p.qpn++;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
	take(f, &f->b, UR_CM_REP);
	give(f, &f->b);
	assert_true(ur_cm_take_event(f->b.cm, &f->ev));
	assert_ptr_equal(f->ev.id, active);
	assert_int_equal(ur_cm_establish(active, f->now_ns), 0);
	take(f, &f->b, UR_CM_RTU);
	give(f, &f->b);
	event(f, &f->b, UR_CM_ESTABLISHED);
	ur_cm_id_destroy(active, f->now_ns);
	take(f, &f->b, UR_CM_DREQ);
	give(f, &f->b);
	event(f, &f->b, UR_CM_DISCONNECTED);
	assert_false(ur_cm_idle(f->b.cm));
	ur_cm_id_destroy(f->b.id, f->now_ns);
	take(f, &f->b, UR_CM_DREP);
	give(f, &f->b);
	assert_true(ur_cm_idle(f->b.cm));
	wait_ns(f, 10 * S);
	assert_quiet(f);
}

static void uc_connection(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(A_QPN);
	struct ur_cm_path path;

	fix_listen(f, PS_TCP);
	fix_path(f, &path);
	p.qp_type = UR_QPT_UC;
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, &f->a_user, &f->a.id),
			 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), 0);
	pass(f, &f->a, UR_CM_REQ);
	assert_int_equal(f->m.u.req.transport, UR_CM_TRANSPORT_UC);
	event(f, &f->b, UR_CM_REQUEST);
	assert_int_equal(f->ev.param.qp_type, UR_QPT_UC);
}

/* Every command in a state that does not allow it. */
static void commands_in_the_wrong_state(void **state)
{
	static const uint8_t any[16];
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(A_QPN);
	struct ur_cm_path path;

	fix_path(f, &path);
	fix_establish(f);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_listen(f->a.id, any, 1, false, 0), -EINVAL);
	assert_int_equal(ur_cm_accept(f->a.id, &p, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_reject(f->a.id, 0, NULL, 0, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_disconnect(f->listener, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_notify(f->listener, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_apr(f->a.id, 0, NULL, 0, f->now_ns), -EINVAL);
	assert_int_equal(ur_cm_lap(f->listener, &path, NULL, 0, f->now_ns),
			 -EINVAL);
	assert_quiet(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	take(f, &f->a, UR_CM_DREQ);
	take_nothing(f, &f->a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(whole_life),
		FIX_TEST(request_on_the_wire),
		FIX_TEST(ids_and_tids_of_the_answers),
		FIX_TEST(parameters_reach_the_other_side),
		FIX_TEST(reply_grants_too_much),
		FIX_TEST(private_data_at_its_limits),
		FIX_TEST(wrong_paths),
		FIX_TEST(established_by_the_first_packet),
		FIX_TEST(over_ipv6),
		FIX_TEST(with_itself),
		FIX_TEST(uc_connection),
		FIX_TEST(commands_in_the_wrong_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
