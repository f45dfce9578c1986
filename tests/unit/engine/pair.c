/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <poll.h>
#include <stdio.h>

#include "engine/internal.h"
#include "rig/rig.h"

#define SECOND 1000000000ull

/* Prints the state of the lane when something did not happen. */
static void dump(const struct pair *p)
{
	static char text[1 << 16];
	struct ur_lane *l = p->qa.lane;
	uint64_t now = ur_clock_ns();

	fprintf(stderr,
		"qpn %u: sq %u..%u, cq %u..%u armed %u\n"
		"watch %d, called %lld us ago, sleeps until %lld us, "
		"deadline %lld us, retry %lld us, waiting %u, doorbell %d, "
		"batched %u\n",
		p->qa.qpn, p->qa.sq.head, p->qa.sq.tail, p->cq.head, p->cq.tail,
		p->cq.armed, l->watch, (long long)(now - l->app_ns) / 1000,
		(long long)(l->sleep_until_ns - now) / 1000,
		(long long)(ur_roce_deadline(l->roce) - now) / 1000,
		(long long)(l->retry_ns - now) / 1000, l->waiting,
		ur_doorbell_is_set(&l->doorbell), l->batched);
	if (ur_report(p->a, text, sizeof(text) - 1) < sizeof(text))
		fprintf(stderr, "%s\n", text);
}

/* Also in threads, where cmocka's assertions must not be used. */
static void pair_check(const struct pair *p, bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "no %s\n", what);
	dump(p);
	abort();
}

void pair_to_init(struct ur_adapter *a, struct ur_qp *qp)
{
	struct ur_qp_attr attr = {
		.state = UR_QPS_INIT,
		.port_num = 1,
		.access = UR_ACCESS_REMOTE_WRITE | UR_ACCESS_REMOTE_READ,
	};

	assert_int_equal(ur_adapter_qp_modify(a, qp, &attr,
					      UR_QP_STATE | UR_QP_PKEY_INDEX |
						      UR_QP_PORT |
						      UR_QP_ACCESS_FLAGS),
			 0);
}

int pair_to_rtr(struct ur_adapter *a, struct ur_qp *qp, uint32_t dest,
		uint32_t mtu, const uint8_t *dgid)
{
	struct ur_qp_attr attr = {
		.state = UR_QPS_RTR,
		.path_mtu = mtu,
		.dest_qpn = dest,
		.rq_psn = 7,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.av = { .is_global = true, .port_num = 1, .hop_limit = 64 },
	};
	struct ur_gid g;
	int i;

	for (i = 0;; i++) {
		assert_int_equal(
			ur_dev_gid(ur_adapter_dev(a), 1, (uint32_t)i, &g), 0);
		if (g.ifindex)
			break;
	}
	attr.av.sgid_index = (uint8_t)i;
	memcpy(attr.av.dgid, dgid ? dgid : g.addr, 16);
	return ur_adapter_qp_modify(a, qp, &attr,
				    UR_QP_STATE | UR_QP_AV | UR_QP_PATH_MTU |
					    UR_QP_DEST_QPN | UR_QP_RQ_PSN |
					    UR_QP_MAX_DEST_RD_ATOMIC |
					    UR_QP_MIN_RNR_TIMER);
}

void pair_to_rts(struct ur_adapter *a, struct ur_qp *qp, uint8_t timeout,
		 uint8_t retries)
{
	struct ur_qp_attr attr = {
		.state = UR_QPS_RTS,
		.sq_psn = 7,
		.timeout = timeout,
		.retry_cnt = retries,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	assert_int_equal(ur_adapter_qp_modify(
				 a, qp, &attr,
				 UR_QP_STATE | UR_QP_SQ_PSN | UR_QP_TIMEOUT |
					 UR_QP_RETRY_CNT | UR_QP_RNR_RETRY |
					 UR_QP_MAX_QP_RD_ATOMIC),
			 0);
}

void pair_reset(struct ur_adapter *a, struct ur_qp *qp)
{
	struct ur_qp_attr attr = { .state = UR_QPS_RESET };

	assert_int_equal(ur_adapter_qp_modify(a, qp, &attr, UR_QP_STATE), 0);
}

static void connect_qp(struct pair *p, struct ur_qp *qp, uint32_t dest,
		       uint8_t timeout, uint8_t retries)
{
	pair_to_init(p->a, qp);
	assert_int_equal(pair_to_rtr(p->a, qp, dest, 3, NULL), 0);
	pair_to_rts(p->a, qp, timeout, retries);
}

void pair_connect(struct pair *p, uint8_t timeout, uint8_t retries)
{
	connect_qp(p, &p->qa, p->qb.qpn, timeout, retries);
	connect_qp(p, &p->qb, p->qa.qpn, timeout, retries);
}

static struct ur_mr *region(struct pair *p, uint8_t **buf)
{
	struct ur_mr *mr;

	*buf = calloc(1, PAIR_BUF);
	assert_int_equal(ur_mr_create(ur_adapter_mrs(p->a), &p->pd, *buf,
				      PAIR_BUF, (uintptr_t)*buf,
				      UR_ACCESS_LOCAL_WRITE |
					      UR_ACCESS_REMOTE_WRITE |
					      UR_ACCESS_REMOTE_READ,
				      &mr),
			 0);
	return mr;
}

int pair_setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_int_equal(ur_adapter_get_at(0, &p->a), 0);
	assert_int_equal(ur_evq_init(&p->channel), 0);
	assert_int_equal(ur_evq_init(&p->async), 0);
	assert_int_equal(ur_cq_init(&p->cq, 1024, &p->channel, &p->async, p),
			 0);
	p->init = (struct ur_qp_init){
		.type = UR_QPT_RC,
		.pd = &p->pd,
		.send_cq = &p->cq,
		.recv_cq = &p->cq,
		.cap = { .max_send_wr = 256,
			 .max_recv_wr = 256,
			 .max_send_sge = 2,
			 .max_recv_sge = 2 },
		.async = &p->async,
	};
	assert_int_equal(ur_adapter_qp_create(p->a, &p->qa, &p->init), 0);
	assert_int_equal(ur_adapter_qp_create(p->a, &p->qb, &p->init), 0);
	p->a_mr = region(p, &p->a_buf);
	p->b_mr = region(p, &p->b_buf);
	pair_connect(p, PAIR_TIMEOUT, PAIR_RETRIES);
	*state = p;
	return 0;
}

int pair_teardown(void **state)
{
	struct pair *p = *state;
	struct pollfd fd = { .fd = p->channel.fd, .events = POLLIN };
	struct ur_ev ev;

	while (poll(&fd, 1, 0) == 1 && ur_evq_take(&p->channel, &ev) == 0)
		ur_evq_ack(&p->channel, ev.source, 1);
	assert_int_equal(ur_adapter_qp_destroy(&p->qa), 0);
	if (!p->b_gone)
		pair_destroy_b(p);
	ur_mr_destroy(ur_adapter_mrs(p->a), p->a_mr);
	if (p->b_mr)
		ur_mr_destroy(ur_adapter_mrs(p->a), p->b_mr);
	assert_int_equal(ur_cq_fini(&p->cq), 0);
	ur_evq_fini(&p->channel);
	ur_evq_fini(&p->async);
	ur_adapter_put(p->a);
	free(p->a_buf);
	free(p->b_buf);
	free(p);
	return 0;
}

static void post(struct pair *p, uint8_t opcode, uint32_t len, uint32_t to)
{
	struct ur_sge sge = { (uintptr_t)p->a_buf, len, p->a_mr->key };
	struct rig_wr wr = {
		.sge = &sge,
		.nsge = 1,
		.opcode = opcode,
		.flags = UR_SEND_SIGNALED,
		.remote_addr = (uintptr_t)p->b_buf + to,
		.rkey = atomic_load(&p->b_mr)->key,
	};

	pair_check(p, rig_post_send(&p->qa, &wr) == 0, "room in the queue");
	ur_adapter_doorbell(&p->qa);
}

void pair_post_send(struct pair *p, uint32_t len)
{
	post(p, UR_WR_SEND, len, 0);
}

void pair_post_write(struct pair *p, uint32_t to, uint32_t len)
{
	post(p, UR_WR_RDMA_WRITE, len, to);
}

void pair_post_recv(struct pair *p, uint32_t len)
{
	struct ur_sge sge = { (uintptr_t)p->b_buf, len,
			      atomic_load(&p->b_mr)->key };

	assert_int_equal(rig_post_recv(&p->qb.rq, 0, &sge, 1), 0);
}

void pair_wait(struct pair *p, struct ur_cqe *cqe)
{
	uint64_t end = ur_adapter_now() + 5 * SECOND;

	while (!ur_cq_poll(&p->cq, cqe, 1)) {
		pair_check(p, ur_adapter_now() < end, "completion by polling");
		ur_adapter_poll(p->a, &p->cq);
	}
}

/* As event-driven programs do: poll, arm, poll again, sleep. */
void pair_sleep_for(struct pair *p, struct ur_cqe *cqe)
{
	struct pollfd fd = { .fd = p->channel.fd, .events = POLLIN };
	struct ur_ev ev;

	while (!ur_cq_poll(&p->cq, cqe, 1)) {
		ur_cq_arm(&p->cq, false);
		ur_adapter_arm(p->a, &p->cq);
		if (ur_cq_poll(&p->cq, cqe, 1))
			return;
		pair_check(p, poll(&fd, 1, 10000) == 1, "completion event");
		pair_check(p, ur_evq_take(&p->channel, &ev) == 0, "event");
		ur_evq_ack(&p->channel, ev.source, 1);
	}
}

void pair_drain(struct pair *p)
{
	struct ur_cqe cqe;

	while (p->qa.sq.head != p->qa.sq.tail)
		pair_wait(p, &cqe);
	while (ur_cq_poll(&p->cq, &cqe, 1))
		continue;
}

void pair_destroy_b(struct pair *p)
{
	assert_int_equal(ur_adapter_qp_destroy(&p->qb), 0);
	p->b_gone = true;
}

bool pair_become_poller(struct pair *p)
{
	struct ur_lane *l = p->qa.lane;
	uint64_t end = ur_adapter_now() + 10000000000u;
	bool done = false;

	while (!done && ur_adapter_now() < end) {
		for (int i = 0; i < 100; i++)
			ur_adapter_poll(p->a, &p->cq);
		ur_lane_lock(l);
		done = l->watch == UR_WATCH_TICK;
		ur_lane_unlock(l);
	}
	return done;
}

bool pair_seen_in_memory(struct pair *p, uint8_t v, uint64_t within_ns)
{
	volatile uint8_t *last = p->b_buf + PAIR_BUF - 1;
	uint64_t end = ur_adapter_now() + within_ns;

	while (*last != v && ur_adapter_now() < end)
		sched_yield();
	return *last == v;
}

void pair_write_byte(struct pair *p, uint8_t v)
{
	p->a_buf[0] = v;
	pair_post_write(p, PAIR_BUF - 1, 1);
}

void pair_wait_until_asleep(struct pair *p)
{
	struct ur_lane *l = p->qa.lane;
	const struct timespec ten_ms = { .tv_nsec = 10000000 };
	uint64_t until = 0;

	for (int i = 0; i < 500 && until != UR_NEVER; i++) {
		nanosleep(&ten_ms, NULL);
		ur_lane_lock(l);
		until = l->sleep_until_ns;
		ur_lane_unlock(l);
	}
	assert_true(until == UR_NEVER);
}
