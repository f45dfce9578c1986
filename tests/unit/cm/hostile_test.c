/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that are forged, malformed, or from a third host. */
#include "fixture.h"

#include "base/rng.h"

static void stranger(uint8_t addr[16])
{
	addr4(addr, 99);
}

/* f->m goes to A or B from a third host; then the same from the peer. */
static void give_forged(struct fix *f, struct side *to)
{
	uint8_t addr[16];

	stranger(addr);
	forge(f, addr, to->addr);
	give(f, to);
}

static void third_party_cannot_end_a_connection(void **state)
{
	static const enum ur_cm_attr attrs[] = { UR_CM_DREQ, UR_CM_REJ,
						 UR_CM_DREP, UR_CM_LAP,
						 UR_CM_MRA,  UR_CM_RTU };
	struct fix *f = *state;
	struct ur_cm_info info;

	fix_establish(f);
	ur_cm_id_info(f->b.id, &info);
	for (unsigned int i = 0; i < 6; i++) {
		f->m = (struct ur_cm_msg){ .attr = attrs[i],
					   .local_id = info.remote_id,
					   .remote_id = info.local_id };
		if (attrs[i] == UR_CM_DREQ)
			f->m.u.dreq.remote_qpn = B_QPN;
		give_forged(f, &f->b);
		no_event(f, &f->b);
	}
	assert_state(f->b.id, "ESTABLISHED");
	assert_int_equal(ur_cm_counters(f->b.cm)->drop_wrong_peer, 6);
	take(f, &f->b, UR_CM_DREP); /* to the stranger, as for any unknown ID */
	take(f, &f->b, UR_CM_APR);
	assert_int_equal(f->m.u.apr.status, UR_CM_APR_INVALID_COMM_ID);
	assert_quiet(f);
}

/* The right host, but it does not know the IDs or the QP. */
static void peer_guesses(void **state)
{
	struct fix *f = *state;
	struct ur_cm_info info;

	fix_establish(f);
	ur_cm_id_info(f->b.id, &info);
	f->m = (struct ur_cm_msg){ .attr = UR_CM_DREQ,
				   .local_id = info.remote_id,
				   .remote_id = info.local_id,
				   .u.dreq.remote_qpn = B_QPN + 1 };
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	f->m.u.dreq.remote_qpn = B_QPN;
	f->m.local_id++;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	no_event(f, &f->b);
	take(f, &f->b, UR_CM_DREP);
	f->m.attr = UR_CM_REJ;
	f->m.remote_id++;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	assert_quiet(f);
	assert_state(f->b.id, "ESTABLISHED");
}

static void third_party_cannot_answer(void **state)
{
	static const enum ur_cm_attr attrs[] = { UR_CM_REP, UR_CM_REJ,
						 UR_CM_MRA };
	struct fix *f = *state;
	uint32_t id;

	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	id = f->m.local_id;
	for (unsigned int i = 0; i < 3; i++) {
		f->m = (struct ur_cm_msg){ .attr = attrs[i],
					   .local_id = 7,
					   .remote_id = id };
		give_forged(f, &f->a);
	}
	no_event(f, &f->a);
	assert_state(f->a.id, "REQ_SENT");
}

/* Another host claims the CA and QP of a host's connection. */
static void third_party_cannot_make_stale(void **state)
{
	struct fix *f = *state;
	uint8_t addr[16];

	fix_establish(f);
	stranger(addr);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	memcpy(f->m.u.req.primary.local_gid, addr, 16);
	memcpy(f->m.private_data + 16, addr + 12, 4);
	give_forged(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST); /* valid, as far as B can tell */
	take_nothing(f, &f->b);
	assert_int_equal(ur_cm_counters(f->b.cm)->stale, 0);
}

/* f->m is a REQ modified by the caller: B refuses it for that reason. */
static void expect_refused(struct fix *f, unsigned int reason)
{
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	no_event(f, &f->b);
	take(f, &f->b, UR_CM_REJ);
	assert_int_equal(f->m.u.rej.reason, reason);
	assert_memory_equal(f->dg.dst, f->a.addr, 16);
}

static void requests_that_are_wrong(void **state)
{
	struct fix *f = *state;
	struct ur_cm_msg good;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	good = f->m;
	f->m.u.req.transport = UR_CM_TRANSPORT_RD;
	expect_refused(f, 9);
	f->m = good;
	f->m.u.req.transport = UR_CM_TRANSPORT_EXTENDED;
	expect_refused(f, 9);
	f->m = good;
	f->m.u.req.primary.local_gid[15]++;
	expect_refused(f, 12);
	f->m = good;
	f->m.u.req.primary.remote_gid[15]++;
	expect_refused(f, 12);
	f->m = good;
	f->m.u.req.mtu = 0;
	expect_refused(f, 26);
	f->m = good;
	f->m.u.req.mtu = 6;
	expect_refused(f, 26);
	f->m = good;
	f->m.private_data[0] = 0x10; /* another CMA version */
	expect_refused(f, 28);
	f->m = good;
	f->m.private_data[1] = 0x50; /* neither IPv4 nor IPv6 */
	expect_refused(f, 28);
	f->m = good;
	f->m.private_data[19]++; /* not the source address */
	expect_refused(f, 28);
	f->m = good;
	f->m.u.req.service_id |= 1ul << 40;
	expect_refused(f, 8);
	f->m = good;
	f->m.local_id = 0;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	no_event(f, &f->b);
	take_nothing(f, &f->b);
	f->m = good;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
}

/* An ack timeout of zero would be infinite for our QP. */
static void ack_timeout_of_zero(void **state)
{
	struct fix *f = *state;
	struct ur_qp_attr attr;
	uint32_t mask;

	fix_listen(f, PS_TCP);
	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	f->m.u.req.primary.ack_timeout = 0;
	forge(f, f->a.addr, f->b.addr);
	give(f, &f->b);
	event(f, &f->b, UR_CM_REQUEST);
	assert_int_equal(ur_cm_qp_attr(f->b.id, UR_QPS_RTS, &attr, &mask), 0);
	assert_true(attr.timeout >= 10);
}

static void no_cm_mad(void **state)
{
	struct fix *f = *state;

	memset(&f->dg, 0, sizeof(f->dg));
	give(f, &f->b);
	assert_int_equal(ur_cm_counters(f->b.cm)->drop_malformed, 1);
	take_nothing(f, &f->b);
}

static void response_without_id(void **state)
{
	struct fix *f = *state;
	struct ur_cm_msg req;

	fix_connect(f, PS_TCP);
	take(f, &f->a, UR_CM_REQ);
	req = f->m;
	f->m = (struct ur_cm_msg){ .attr = UR_CM_REP,
				   .remote_id = req.local_id };
	forge(f, f->b.addr, f->a.addr);
	give(f, &f->a);
	no_event(f, &f->a);
	assert_state(f->a.id, "REQ_SENT");
}

/* Messages for no connection: those that expect an answer get one. */
static void messages_for_nothing(void **state)
{
	static const struct {
		enum ur_cm_attr in, out; /* 0: none */
	} pair[] = {
		{ UR_CM_REP, UR_CM_REJ },
		{ UR_CM_DREQ, UR_CM_DREP },
		{ UR_CM_SIDR_REQ, UR_CM_SIDR_REP },
		{ UR_CM_REQ, UR_CM_REJ },
		{ UR_CM_RTU, 0 },
		{ UR_CM_DREP, 0 },
		{ UR_CM_REJ, 0 },
		{ UR_CM_MRA, 0 },
		{ UR_CM_LAP, UR_CM_APR },
		{ UR_CM_APR, 0 },
		{ UR_CM_SIDR_REP, 0 },
	};
	struct fix *f = *state;

	for (unsigned int i = 0; i < 11; i++) {
		f->m = (struct ur_cm_msg){ .attr = pair[i].in,
					   .tid = 5,
					   .local_id = 1,
					   .remote_id = 2 };
		forge(f, f->a.addr, f->b.addr);
		give(f, &f->b);
		if (!pair[i].out) {
			take_nothing(f, &f->b);
			continue;
		}
		take(f, &f->b, pair[i].out);
		assert_int_equal(f->m.remote_id, 1);
		assert_int_equal(f->m.tid, 5);
	}
	assert_quiet(f);
}

static enum ur_cm_attr draw_attr(struct ur_rng *rng)
{
	return UR_CM_ATTR_FIRST + ur_rng_below(rng, UR_CM_ATTR_COUNT);
}

/* Every message, with every relevant pair of IDs, in every state. */
static void storm(void **state)
{
	struct fix *f = *state;
	struct ur_cm_info info;
	struct ur_rng rng;

	ur_rng_seed(&rng, 11);
	fix_establish(f);
	ur_cm_id_info(f->b.id, &info);
	for (unsigned int i = 0; i < 50000; i++) {
		for (unsigned int j = 24; j < UR_CM_MAD_LEN; j++)
			f->dg.mad[j] = (uint8_t)ur_rng_next(&rng);
		f->dg.mad[17] = (uint8_t)draw_attr(&rng);
		assert_int_equal(ur_cm_msg_decode(&f->m, f->dg.mad), 0);
		if (ur_rng_below(&rng, 2))
			f->m.remote_id = info.local_id;
		if (ur_rng_below(&rng, 2))
			f->m.local_id = info.remote_id;
		if (ur_rng_below(&rng, 2))
			f->m.u.req.service_id = 0x01060000 + PORT;
		forge(f, f->a.addr, f->b.addr);
		give(f, &f->b);
		while (ur_cm_output(f->b.cm, &f->dg))
			;
		if (ur_cm_take_event(f->b.cm, &f->ev) &&
		    ur_rng_below(&rng, 2)) {
			ur_cm_id_destroy(f->ev.id, f->now_ns);
			if (f->ev.id == f->b.id)
				break;
		}
		wait_ns(f, ur_rng_below(&rng, 100 * MS));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(third_party_cannot_end_a_connection),
		FIX_TEST(peer_guesses),
		FIX_TEST(third_party_cannot_answer),
		FIX_TEST(third_party_cannot_make_stale),
		FIX_TEST(requests_that_are_wrong),
		FIX_TEST(ack_timeout_of_zero),
		FIX_TEST(no_cm_mad),
		FIX_TEST(response_without_id),
		FIX_TEST(messages_for_nothing),
		FIX_TEST(storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
