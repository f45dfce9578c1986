/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer whose manager of connections offers an alternate path (LAP): it is
 * loaded, the answer (APR) says so, and the queue pair uses it.  librdmacm has
 * no call that sends the offer, so the test asks cm/ itself.
 */
#include "pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "../own_net.h"
#include "connect/cm_roce.h"
#include "connect/conn.h"
#include "engine/internal.h"

#define PORT 7174

struct side {
	struct ur_conn *conn;
	struct ur_cm_param param;
	_Atomic bool established;
};

static struct side active, passive;
static const uint8_t v6_loopback[16] = { [15] = 1 };

static bool wait_until(bool (*done)(void *arg), void *arg)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	for (int i = 0; i < 10000; i++) {
		if (done(arg))
			return true;
		nanosleep(&ms, NULL);
	}
	return false;
}

static void on_event(void *user, const struct ur_conn_event *ev)
{
	struct side *s = user;

	if (ev->type == UR_CONN_REQUEST) {
		s->conn = ev->conn;
		ur_conn_accept(ev->conn, &s->param);
	} else if (ev->type == UR_CONN_RESPONSE) {
		ur_conn_establish(ev->conn);
		s->established = true;
	} else if (ev->type == UR_CONN_ESTABLISHED) {
		s->established = true;
	}
}

static bool both_established(void *arg)
{
	(void)arg;
	return active.established && passive.established;
}

static void fill_param(struct side *s, const struct ur_qp *qp)
{
	s->established = false;
	s->param = (struct ur_cm_param){ .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7,
					 .qpn = qp->qpn };
}

/* qa calls, qb listens; both are in RTS already. */
static struct ur_conn *connect_pair(struct pair *p)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage addr = { 0 };
	struct ur_conn *listener;

	memcpy(&addr, &in, sizeof(in));
	fill_param(&active, &p->qa);
	fill_param(&passive, &p->qb);
	assert_int_equal(ur_conn_create(p->a, UR_PS_TCP, on_event, &passive,
					&listener),
			 0);
	assert_int_equal(ur_conn_bind(listener, &addr), 0);
	assert_int_equal(ur_conn_listen(listener, 1), 0);
	assert_int_equal(ur_conn_create(p->a, UR_PS_TCP, on_event, &active,
					&active.conn),
			 0);
	assert_int_equal(
		ur_conn_connect(active.conn, NULL, &addr, &active.param), 0);
	assert_true(wait_until(both_established, NULL));
	return listener;
}

static void offer(const uint8_t addr[16])
{
	struct ur_conn_roce *rc =
		ur_container_of(active.conn, struct ur_conn_roce, conn);
	struct ur_cm_path alt = { .hop_limit = 64, .ack_timeout = 14 };

	memcpy(alt.local, v6_loopback, 16);
	memcpy(alt.remote, addr, 16);
	ur_lock(&rc->rt->cmt->lock);
	assert_int_equal(ur_cm_lap(rc->id, &alt, NULL, 0, ur_clock_ns()), 0);
	ur_cm_roce_flush(rc->rt);
	ur_unlock(&rc->rt->cmt->lock);
}

/* The answer has come, and it was yes. */
static bool agreed(void *arg)
{
	struct ur_qp_attr *attr = arg;
	uint32_t mask;

	return ur_conn_qp_attr(active.conn, UR_QPS_RTS, attr, &mask) == 0 &&
	       (mask & UR_QP_ALT_PATH);
}

/* The answer has come, whatever it was: another offer is possible. */
static bool answered(void *arg)
{
	struct ur_conn_roce *rc =
		ur_container_of(active.conn, struct ur_conn_roce, conn);
	struct ur_cm_path alt = { .hop_limit = 64 };
	int err;

	(void)arg;
	memcpy(alt.local, v6_loopback, 16);
	memcpy(alt.remote, v6_loopback, 16);
	ur_lock(&rc->rt->cmt->lock);
	err = ur_cm_lap(rc->id, &alt, NULL, 0, ur_clock_ns());
	ur_cm_roce_flush(rc->rt);
	ur_unlock(&rc->rt->cmt->lock);
	return err == 0;
}

static enum ur_mig_state state_of(struct ur_qp *qp)
{
	struct ur_qp_attr attr;

	ur_adapter_qp_query(qp, &attr);
	return attr.path_mig_state;
}

/* Messages and their acknowledgements, until both queue pairs are armed. */
static void talk_until_armed(struct pair *p)
{
	struct ur_cqe cqe;

	for (int i = 0; i < 100 && (state_of(&p->qa) != UR_MIG_ARMED ||
				    state_of(&p->qb) != UR_MIG_ARMED);
	     i++) {
		pair_post_write(p, 0, 64);
		pair_wait(p, &cqe);
		assert_int_equal(cqe.status, UR_WC_SUCCESS);
	}
	assert_int_equal(state_of(&p->qa), UR_MIG_ARMED);
	assert_int_equal(state_of(&p->qb), UR_MIG_ARMED);
}

static void expect_migrated(struct pair *p, struct ur_qp *qp)
{
	struct ur_qp_attr attr;

	(void)p;
	ur_adapter_qp_query(qp, &attr);
	assert_int_equal(attr.path_mig_state, UR_MIG_MIGRATED);
	assert_memory_equal(attr.av.sgid, v6_loopback, 16);
}

static void test_an_offer_is_taken(void **state)
{
	struct pair *p = *state;
	struct ur_conn *listener = connect_pair(p);
	struct ur_qp_attr attr;
	struct ur_cqe cqe;

	offer(v6_loopback);
	assert_true(wait_until(agreed, &attr));
	assert_int_equal(state_of(&p->qb), UR_MIG_REARM);
	ur_adapter_qp_query(&p->qb, &attr);
	assert_memory_equal(attr.alt_av.dgid, v6_loopback, 16);
	assert_memory_equal(attr.alt_av.sgid, v6_loopback, 16);
	assert_int_equal(attr.alt_timeout, 14);

	assert_true(agreed(&attr));
	assert_int_equal(ur_adapter_qp_modify(p->a, &p->qa, &attr,
					      UR_QP_ALT_PATH |
						      UR_QP_PATH_MIG_STATE),
			 0);
	talk_until_armed(p);
	attr.path_mig_state = UR_MIG_MIGRATED;
	assert_int_equal(ur_adapter_qp_modify(p->a, &p->qa, &attr,
					      UR_QP_PATH_MIG_STATE),
			 0);
	pair_post_write(p, 0, 64);
	pair_wait(p, &cqe);
	assert_int_equal(cqe.status, UR_WC_SUCCESS);
	expect_migrated(p, &p->qa);
	expect_migrated(p, &p->qb);
	assert_int_equal(ur_conn_notify(active.conn, UR_EVENT_PATH_MIG), 0);
	ur_conn_destroy(active.conn);
	ur_conn_destroy(passive.conn);
	ur_conn_destroy(listener);
}

static void test_a_foreign_address_is_refused(void **state)
{
	static const uint8_t nobody[16] = { 0xfd, 9, [15] = 77 };
	struct pair *p = *state;
	struct ur_conn *listener = connect_pair(p);
	struct ur_qp_attr attr;

	offer(nobody);
	assert_true(wait_until(answered, NULL));
	assert_true(wait_until(agreed, &attr)); /* to the second one */
	assert_memory_equal(attr.alt_av.dgid, v6_loopback, 16);
	ur_conn_destroy(active.conn);
	ur_conn_destroy(passive.conn);
	ur_conn_destroy(listener);
}

/* A number that is not of a queue pair here, as programs may use them. */
static void test_an_unknown_queue_pair(void **state)
{
	struct pair *p = *state;
	struct ur_av av = { .is_global = true, .port_num = 1 };

	memcpy(av.dgid, v6_loopback, 16);
	assert_int_equal(ur_adapter_qp_alternate(p->a, p->qb.qpn, 1, &av, 14),
			 -ENOENT);
	assert_int_equal(ur_adapter_qp_alternate(p->a, 0xffffff, 1, &av, 14),
			 -ENOENT);
	/* It is there, but not connected any more. */
	pair_reset(p->a, &p->qb);
	assert_int_equal(ur_adapter_qp_alternate(p->a, p->qb.qpn, p->qa.qpn,
						 &av, 14),
			 -EINVAL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_an_unknown_queue_pair),
		T(test_an_offer_is_taken),
		T(test_a_foreign_address_is_refused),
	};

	if (!own_net_enter())
		return UNIT_SKIP;
	setenv("URNIC_DAEMON", "0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
