/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <poll.h>

#include "rig/rig.h"

#define SECOND 1000000000ull

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
		uint32_t mtu)
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
		assert_int_equal(ur_dev_gid(ur_adapter_dev(a), (uint32_t)i, &g),
				 0);
		if (g.ifindex)
			break;
	}
	attr.av.sgid_index = (uint8_t)i;
	memcpy(attr.av.dgid, g.addr, 16);
	return ur_adapter_qp_modify(a, qp, &attr,
				    UR_QP_STATE | UR_QP_AV | UR_QP_PATH_MTU |
					    UR_QP_DEST_QPN | UR_QP_RQ_PSN |
					    UR_QP_MAX_DEST_RD_ATOMIC |
					    UR_QP_MIN_RNR_TIMER);
}

static void to_rts(struct ur_adapter *a, struct ur_qp *qp)
{
	struct ur_qp_attr attr = {
		.state = UR_QPS_RTS,
		.sq_psn = 7,
		.timeout = 12,
		.retry_cnt = 3,
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

void pair_connect(struct ur_adapter *a, struct ur_qp *qp, uint32_t dest)
{
	pair_to_init(a, qp);
	assert_int_equal(pair_to_rtr(a, qp, dest, 3), 0);
	to_rts(a, qp);
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

	assert_int_equal(ur_adapter_get(&p->a), 0);
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
	pair_connect(p->a, &p->qa, p->qb.qpn);
	pair_connect(p->a, &p->qb, p->qa.qpn);
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
		.rkey = p->b_mr->key,
	};

	assert_int_equal(rig_post_send(&p->qa, &wr), 0);
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
	struct ur_sge sge = { (uintptr_t)p->b_buf, len, p->b_mr->key };

	assert_int_equal(rig_post_recv(&p->qb.rq, 0, &sge, 1), 0);
}

void pair_wait(struct pair *p, struct ur_cqe *cqe)
{
	uint64_t end = ur_adapter_now() + 5 * SECOND;

	while (!ur_cq_poll(&p->cq, cqe, 1)) {
		assert_true(ur_adapter_now() < end);
		ur_adapter_poll(p->a, &p->cq);
	}
}

/* As every event-driven program: look, arm, look again, sleep. */
void pair_sleep_for(struct pair *p, struct ur_cqe *cqe)
{
	struct pollfd fd = { .fd = p->channel.fd, .events = POLLIN };
	struct ur_ev ev;

	while (!ur_cq_poll(&p->cq, cqe, 1)) {
		ur_cq_arm(&p->cq, false);
		ur_adapter_arm(p->a, &p->cq);
		if (ur_cq_poll(&p->cq, cqe, 1))
			return;
		assert_int_equal(poll(&fd, 1, 10000), 1);
		assert_int_equal(ur_evq_take(&p->channel, &ev), 0);
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
