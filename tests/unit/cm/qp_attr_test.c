/* SPDX-License-Identifier: BSD-2-Clause */
/* The attributes for the QP, and that core/ accepts exactly these. */
#include "fixture.h"

#include <errno.h>

static struct ur_qp_attr attr;
static uint32_t mask;

static void get(const struct ur_cm_id *id, enum ur_qp_state s)
{
	memset(&attr, 0xee, sizeof(attr));
	assert_int_equal(ur_cm_qp_attr(id, s, &attr, &mask), 0);
	if (mask & UR_QP_STATE)
		assert_int_equal(attr.state, s);
}

static void refuse(const struct ur_cm_id *id, enum ur_qp_state s)
{
	assert_int_equal(ur_cm_qp_attr(id, s, &attr, &mask), -EINVAL);
}

static void legal(enum ur_qp_type type, enum ur_qp_state from,
		  enum ur_qp_state to)
{
	assert_int_equal(ur_qp_state_check(type, from, to, mask), 0);
}

static void before_anything_is_known(void **state)
{
	struct fix *f = *state;

	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &f->a.id), 0);
	get(f->a.id, UR_QPS_INIT);
	legal(UR_QPT_RC, UR_QPS_RESET, UR_QPS_INIT);
	assert_int_equal(attr.access, 0);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.pkey_index, 0);
	refuse(f->a.id, UR_QPS_RTR);
	refuse(f->a.id, UR_QPS_RTS);
	refuse(f->a.id, UR_QPS_SQD);
}

static void connected(struct fix *f, struct side *s, struct side *peer,
		      uint32_t qpn, uint8_t ours, uint8_t theirs)
{
	get(s->id, UR_QPS_INIT);
	legal(UR_QPT_RC, UR_QPS_INIT, UR_QPS_INIT);
	assert_int_equal(attr.access, UR_ACCESS_REMOTE_WRITE |
					      UR_ACCESS_REMOTE_READ |
					      UR_ACCESS_REMOTE_ATOMIC);
	get(s->id, UR_QPS_RTR);
	legal(UR_QPT_RC, UR_QPS_INIT, UR_QPS_RTR);
	assert_int_equal(attr.dest_qpn, qpn);
	assert_int_equal(attr.path_mtu, 3);
	assert_int_equal(attr.max_dest_rd_atomic, ours);
	assert_int_equal(attr.min_rnr_timer,
			 0); /* after six retries the peer gives up */
	assert_memory_equal(attr.av.sgid, s->addr, 16);
	assert_memory_equal(attr.av.dgid, peer->addr, 16);
	assert_int_equal(attr.av.hop_limit, 64);
	assert_int_equal(attr.av.port_num, 1);
	assert_true(attr.av.is_global);
	get(s->id, UR_QPS_RTS);
	legal(UR_QPT_RC, UR_QPS_RTR, UR_QPS_RTS);
	assert_int_equal(attr.retry_cnt, 7);
	assert_int_equal(attr.rnr_retry, 6);
	assert_int_equal(attr.max_rd_atomic, theirs);
	/* lifetime 16 both ways, delay 15 at the peer: 17; both use that
	 * timeout */
	assert_int_equal(attr.timeout, 17);
}

static void of_a_connection(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(B_QPN);
	uint32_t a_rq, a_sq, b_rq, b_sq;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	pass(f, &f->a, UR_CM_REQ);
	a_rq = f->m.u.req.starting_psn;
	event(f, &f->b, UR_CM_REQUEST);
	/* a server may bring its QP up before it accepts */
	get(f->b.id, UR_QPS_RTR);
	assert_int_equal(attr.dest_qpn, A_QPN);
	assert_int_equal(attr.max_dest_rd_atomic, 2);
	get(f->b.id, UR_QPS_RTS);
	assert_int_equal(attr.max_rd_atomic, 4);
	refuse(f->a.id, UR_QPS_RTR);
	p.responder_resources = f->ev.param.responder_resources;
	p.initiator_depth = f->ev.param.initiator_depth;
	assert_int_equal(ur_cm_accept(f->b.id, &p, f->now_ns), 0);
	pass(f, &f->b, UR_CM_REP);
	b_rq = f->m.u.rep.starting_psn;
	event(f, &f->a, UR_CM_RESPONSE);
	connected(f, &f->a, &f->b, B_QPN, 4, 2);
	connected(f, &f->b, &f->a, A_QPN, 2, 4);
	assert_int_equal(ur_cm_establish(f->a.id, f->now_ns), 0);
	pass(f, &f->a, UR_CM_RTU);
	connected(f, &f->a, &f->b, B_QPN, 4, 2);
	connected(f, &f->b, &f->a, A_QPN, 2, 4);
	/* one's first PSN is the one that the other expects */
	get(f->a.id, UR_QPS_RTR);
	assert_int_equal(attr.rq_psn, a_rq);
	get(f->a.id, UR_QPS_RTS);
	a_sq = attr.sq_psn;
	get(f->b.id, UR_QPS_RTR);
	assert_int_equal(attr.rq_psn, b_rq);
	get(f->b.id, UR_QPS_RTS);
	b_sq = attr.sq_psn;
	assert_int_equal(a_sq, b_rq);
	assert_int_equal(b_sq, a_rq);
	assert_int_not_equal(a_sq, b_sq);
}

static void no_reads_without_resources(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(A_QPN);
	struct ur_cm_path path;

	p.responder_resources = 0;
	fix_path(f, &path);
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, NULL, &f->a.id), 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), 0);
	get(f->a.id, UR_QPS_INIT);
	assert_int_equal(attr.access, UR_ACCESS_REMOTE_WRITE);
}

static void infinite_retries_use_a_short_timer(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param p = fix_param(A_QPN);
	struct ur_cm_path path;

	fix_listen(f, PS_TCP);
	p.rnr_retry_count = 7;
	fix_path(f, &path);
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, &f->a_user, &f->a.id),
			 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &p, f->now_ns), 0);
	pass(f, &f->a, UR_CM_REQ);
	event(f, &f->b, UR_CM_REQUEST);
	get(f->b.id, UR_QPS_RTR);
	assert_int_equal(attr.min_rnr_timer, 12);
}

static void ack_timeout_of_the_owner(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	ur_cm_id_set_ack_timeout(f->a.id, 12);
	get(f->a.id, UR_QPS_RTS);
	assert_int_equal(attr.timeout, 12);
	ur_cm_id_set_ack_timeout(f->a.id, 200);
	get(f->a.id, UR_QPS_RTS);
	assert_int_equal(attr.timeout, 31);
}

/* The peer's REQ gives its timeout; the REP its delay. */
static void ack_timeouts_of_the_peers(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.primary.ack_timeout = 21;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	get(f->b.id, UR_QPS_RTS);
	assert_int_equal(attr.timeout, 21);
	fix_accept(f);
	take(f, &f->b, UR_CM_REP);
	f->m.u.rep.target_ack_delay = 20;
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	event(f, &f->a, UR_CM_RESPONSE);
	get(f->a.id, UR_QPS_RTS);
	assert_int_equal(attr.timeout, 20);
}

static void unreliable_connection(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.transport = UR_CM_TRANSPORT_UC;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	get(f->b.id, UR_QPS_INIT);
	assert_int_equal(attr.access, UR_ACCESS_REMOTE_WRITE);
	get(f->b.id, UR_QPS_RTR);
	legal(UR_QPT_UC, UR_QPS_INIT, UR_QPS_RTR);
	get(f->b.id, UR_QPS_RTS);
	legal(UR_QPT_UC, UR_QPS_RTR, UR_QPS_RTS);
}

/* Annex A14: only the initiator sends, only the target responds. */
static void extended_connection(void **state)
{
	struct fix *f = *state;
	struct ur_cm_param param = fix_param(A_QPN);
	struct ur_cm_path path;

	fix_listen(f, PS_TCP);
	fix_path(f, &path);
	param.qp_type = UR_QPT_XRC_SEND;
	assert_int_equal(ur_cm_id_create(f->a.cm, PS_TCP, &f->a_user, &f->a.id),
			 0);
	assert_int_equal(ur_cm_connect(f->a.id, &path, &param, f->now_ns), 0);
	pass(f, &f->a, UR_CM_REQ);
	assert_int_equal(f->m.u.req.transport, UR_CM_TRANSPORT_EXTENDED);
	assert_int_equal(f->m.u.req.extended_transport, 1);
	event(f, &f->b, UR_CM_REQUEST);
	assert_int_equal(f->ev.param.qp_type, UR_QPT_XRC_RECV);
	assert_int_equal(f->ev.param.initiator_depth, 0);
	fix_accept(f);
	pass(f, &f->b, UR_CM_REP);
	assert_int_equal(f->m.u.rep.local_eecn, B_QPN);
	assert_int_equal(f->m.u.rep.qpn, 0);
	assert_int_equal(f->m.u.rep.srq, 1);
	event(f, &f->a, UR_CM_RESPONSE);
	assert_int_equal(f->ev.param.qpn, B_QPN);
	get(f->a.id, UR_QPS_INIT);
	legal(UR_QPT_XRC_SEND, UR_QPS_INIT, UR_QPS_INIT);
	get(f->a.id, UR_QPS_RTR);
	legal(UR_QPT_XRC_SEND, UR_QPS_INIT, UR_QPS_RTR);
	assert_int_equal(attr.dest_qpn, B_QPN);
	get(f->a.id, UR_QPS_RTS);
	legal(UR_QPT_XRC_SEND, UR_QPS_RTR, UR_QPS_RTS);
	get(f->b.id, UR_QPS_RTR);
	legal(UR_QPT_XRC_RECV, UR_QPS_INIT, UR_QPS_RTR);
	assert_int_equal(attr.dest_qpn, A_QPN);
	get(f->b.id, UR_QPS_RTS);
	legal(UR_QPT_XRC_RECV, UR_QPS_RTR, UR_QPS_RTS);
}

/* An unsupported transport is rejected as such. */
static void unknown_transport(void **state)
{
	struct fix *f = *state;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.transport = UR_CM_TRANSPORT_EXTENDED;
	f->m.u.req.extended_transport = 2;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, UR_CM_REJ_INVALID_TRANSPORT);
	no_event(f, &f->b);
}

static void datagrams(void **state)
{
	struct fix *f = *state;

	assert_int_equal(ur_cm_id_create(f->a.cm, PS_UDP, NULL, &f->a.id), 0);
	get(f->a.id, UR_QPS_INIT);
	legal(UR_QPT_UD, UR_QPS_RESET, UR_QPS_INIT);
	assert_int_equal(attr.qkey, 0x01234567);
	get(f->a.id, UR_QPS_RTR);
	legal(UR_QPT_UD, UR_QPS_INIT, UR_QPS_RTR);
	get(f->a.id, UR_QPS_RTS);
	legal(UR_QPT_UD, UR_QPS_RTR, UR_QPS_RTS);
	assert_int_equal(attr.sq_psn, 0);
}

static void none_for_what_has_ended(void **state)
{
	struct fix *f = *state;

	fix_establish(f);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	refuse(f->a.id, UR_QPS_INIT);
	refuse(f->a.id, UR_QPS_RTR);
	refuse(f->a.id, UR_QPS_RTS);
	refuse(f->listener, UR_QPS_INIT);
}

/* --- LAP and APR --- */

static void offer(struct fix *f, struct ur_cm_path *alt)
{
	fix_establish(f);
	fix_path(f, alt);
	addr4(alt->local, 11);
	addr4(alt->remote, 12);
	alt->ack_timeout = 14;
	assert_int_equal(ur_cm_lap(f->a.id, alt, "alt", 4, f->now_ns), 0);
	assert_int_equal(ur_cm_lap(f->a.id, alt, NULL, 0, f->now_ns), -EINVAL);
}

static void alternate_path(void **state)
{
	struct fix *f = *state;
	struct ur_cm_path alt;

	offer(f, &alt);
	take(f, &f->a, UR_CM_LAP); /* lost */
	wait_timer(f, &f->a);
	pass(f, &f->a, UR_CM_LAP);
	event(f, &f->b, UR_CM_ALT_PATH);
	assert_memory_equal(f->ev.path.local, alt.remote, 16);
	assert_memory_equal(f->ev.path.remote, alt.local, 16);
	assert_string_equal(f->ev.param.private_data, "alt");
	give(f, &f->b); /* again, before the owner has answered */
	pass(f, &f->b, UR_CM_MRA);
	assert_int_equal(f->m.u.mra.about, UR_CM_ABOUT_OTHER);
	no_event(f, &f->b);
	assert_int_equal(ur_cm_apr(f->b.id, 0, NULL, 0, f->now_ns), 0);
	pass(f, &f->b, UR_CM_APR);
	event(f, &f->a, UR_CM_ALT_PATH_RESULT);
	assert_int_equal(f->ev.status, 0);
	get(f->a.id, UR_QPS_RTS);
	assert_int_equal(mask, UR_QP_ALT_PATH | UR_QP_PATH_MIG_STATE);
	assert_memory_equal(attr.alt_av.dgid, alt.remote, 16);
	assert_int_equal(attr.alt_timeout, 14);
	assert_int_equal(attr.path_mig_state, UR_MIG_REARM);
	legal(UR_QPT_RC, UR_QPS_RTS, UR_QPS_RTS);
	get(f->b.id, UR_QPS_RTS);
	assert_memory_equal(attr.alt_av.dgid, alt.local, 16);
	assert_quiet(f);
}

static void alternate_path_is_refused(void **state)
{
	struct fix *f = *state;
	struct ur_cm_path alt;

	offer(f, &alt);
	pass(f, &f->a, UR_CM_LAP);
	event(f, &f->b, UR_CM_ALT_PATH);
	assert_int_equal(ur_cm_apr(f->b.id, UR_CM_APR_UNSUPPORTED, NULL, 0,
				   f->now_ns),
			 0);
	pass(f, &f->b, UR_CM_APR);
	event(f, &f->a, UR_CM_ALT_PATH_RESULT);
	assert_int_equal(f->ev.status, UR_CM_APR_UNSUPPORTED);
	get(f->a.id, UR_QPS_RTS);
	assert_true(mask & UR_QP_STATE);
}

/* rdma_notify(): later messages take the new path. */
static void messages_take_the_new_path(void **state)
{
	struct fix *f = *state;
	struct ur_cm_path alt;

	offer(f, &alt);
	assert_int_equal(ur_cm_migrate(f->listener), -EINVAL);
	assert_int_equal(ur_cm_migrate(f->b.id),
			 0); /* nothing was negotiated */
	pass(f, &f->a, UR_CM_LAP);
	event(f, &f->b, UR_CM_ALT_PATH);
	assert_int_equal(ur_cm_apr(f->b.id, 0, NULL, 0, f->now_ns), 0);
	pass(f, &f->b, UR_CM_APR);
	event(f, &f->a, UR_CM_ALT_PATH_RESULT);
	assert_int_equal(ur_cm_migrate(f->a.id), 0);
	assert_int_equal(ur_cm_disconnect(f->a.id, f->now_ns), 0);
	assert_true(ur_cm_output(f->a.cm, &f->dg));
	assert_memory_equal(f->dg.src, alt.local, 16);
	assert_memory_equal(f->dg.dst, alt.remote, 16);
	/* The other side has not migrated, and accepts them all the same. */
	give(f, &f->b);
	event(f, &f->b, UR_CM_DISCONNECTED);
}

/* An invalid or unchanged path is refused without asking the owner. */
static void useless_offers(void **state)
{
	static const struct {
		uint8_t local, remote;
		uint32_t qpn;
		enum ur_cm_apr status;
	} offers[] = {
		{ 11, 12, B_QPN + 1, UR_CM_APR_INVALID_QPN },
		{ 0, 12, B_QPN, UR_CM_APR_INVALID_GID },
		{ 11, 0, B_QPN, UR_CM_APR_INVALID_GID },
		{ 1, 2, B_QPN, UR_CM_APR_IS_CURRENT },
	};
	struct fix *f = *state;
	struct ur_cm_wire_path *w = &f->m.u.lap.alternate;
	struct ur_cm_path alt;
	struct ur_cm_msg lap;

	offer(f, &alt);
	take(f, &f->a, UR_CM_LAP);
	lap = f->m;
	for (unsigned int i = 0; i < 4; i++) {
		f->m = lap;
		memset(w->local_gid, 0, 16);
		memset(w->remote_gid, 0, 16);
		if (offers[i].local)
			addr4(w->local_gid, offers[i].local);
		if (offers[i].remote)
			addr4(w->remote_gid, offers[i].remote);
		if (offers[i].status == UR_CM_APR_IS_CURRENT) {
			memcpy(w->local_gid, f->a.addr, 16);
			memcpy(w->remote_gid, f->b.addr, 16);
		}
		f->m.u.lap.remote_qpn = offers[i].qpn;
		forge(f, f->a.addr, f->b.addr);
		give(f, &f->b);
		take(f, &f->b, UR_CM_APR);
		assert_int_equal(f->m.u.apr.status, offers[i].status);
		no_event(f, &f->b);
	}
	give(f, &f->a); /* the last answer */
	event(f, &f->a, UR_CM_ALT_PATH_RESULT);
	assert_int_equal(f->ev.status, UR_CM_APR_IS_CURRENT);
	assert_state(f->b.id, "ESTABLISHED");
	assert_quiet(f);
}

/* The connection stays up without an answer. */
static void nobody_answers_the_offer(void **state)
{
	struct fix *f = *state;
	struct ur_cm_path alt;

	offer(f, &alt);
	wait_ns(f, 100 * S);
	for (unsigned int i = 0; i < 19; i++)
		take(f, &f->a, UR_CM_LAP);
	event(f, &f->a, UR_CM_ALT_PATH_RESULT);
	assert_int_equal(f->ev.status, -ETIMEDOUT);
	assert_state(f->a.id, "ESTABLISHED");
	assert_quiet(f);
}

static void disconnect_ends_the_offer(void **state)
{
	struct fix *f = *state;
	struct ur_cm_path alt;

	offer(f, &alt);
	take(f, &f->a, UR_CM_LAP);
	assert_int_equal(ur_cm_disconnect(f->b.id, f->now_ns), 0);
	pass(f, &f->b, UR_CM_DREQ);
	event(f, &f->a, UR_CM_DISCONNECTED);
	assert_true(ur_cm_deadline(f->a.cm) == UR_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(before_anything_is_known),
		FIX_TEST(of_a_connection),
		FIX_TEST(no_reads_without_resources),
		FIX_TEST(infinite_retries_use_a_short_timer),
		FIX_TEST(ack_timeout_of_the_owner),
		FIX_TEST(ack_timeouts_of_the_peers),
		FIX_TEST(unreliable_connection),
		FIX_TEST(extended_connection),
		FIX_TEST(unknown_transport),
		FIX_TEST(datagrams),
		FIX_TEST(none_for_what_has_ended),
		FIX_TEST(alternate_path),
		FIX_TEST(messages_take_the_new_path),
		FIX_TEST(alternate_path_is_refused),
		FIX_TEST(useless_offers),
		FIX_TEST(nobody_answers_the_offer),
		FIX_TEST(disconnect_ends_the_offer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
