/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DC (docs/wire/dc.md): one lane with initiators, several with a target each, and
 * a network between them that may drop, keep and change packets.
 */
#ifndef UR_TEST_DC_WORLD_H
#define UR_TEST_DC_WORLD_H

#include <stdlib.h>

#include "roce/dc.h"
#include "roce/fixture.h"

#define TARGETS 3u
#define KEY	0x1122334455667788u
#define RECV	1024u /* bytes of each receive */
#define TAPE	256u

struct node {
	struct rig_host host;
	struct rig_lane lane;
	struct ur_cq cq;
	struct ur_srq srq;
	struct ur_qp qp;
	struct rig_buf buf;
	struct ur_dc_target at; /* its address, if it is a target */
};

static struct world {
	struct node ini;
	struct node tgt[TARGETS];
	struct ur_burst burst;
	uint64_t now_ns;
	/* Packets in the order of sending. */
	struct rig_pkt tape[TAPE];
	uint32_t ntape;
	/* Called for each packet; true: it is lost. */
	bool (*lose)(const struct rig_pkt *p);
	uint32_t nlost;
} w;

static inline void node_init(struct node *n, uint32_t i, enum ur_qp_type type)
{
	struct ur_qp_init init = { .type = type,
				   .send_cq = &n->cq,
				   .recv_cq = &n->cq,
				   .cap = { .max_send_wr = 32,
					    .max_send_sge = 1,
					    .max_inline = 64 } };
	struct rig_link k = { .path_mtu = 1,
			      .timeout = 14,
			      .retry_cnt = 7,
			      .rnr_retry = 2,
			      .min_rnr_timer = 12,
			      .max_rd_atomic = 4,
			      .access = UR_ACCESS_REMOTE_WRITE |
					UR_ACCESS_REMOTE_READ |
					UR_ACCESS_REMOTE_ATOMIC,
			      .dc_key = KEY + i };

	rig_host_init(&n->host, i, false);
	rig_lane_init(&n->lane, &n->host, i + 1, i + 1, 1u << 20);
	assert_int_equal(ur_cq_init(&n->cq, 1024, NULL, &n->host.async, NULL),
			 0);
	assert_int_equal(ur_srq_init(&n->srq, &n->host.pd, 64, 4, 0,
				     &n->host.async, NULL),
			 0);
	init.srq = &n->srq;
	rig_buf_init(&n->buf, &n->host, BUF_LEN,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			     UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC);
	for (uint32_t j = 0; j < BUF_LEN; j++)
		n->buf.p[j] = (uint8_t)(i ? 0 : j * 7 + j / 256);
	rig_qp_create(&n->lane, &n->qp, &init);
	memcpy(k.src, n->host.addr, 16);
	rig_addr(k.dst, 1, false);
	if (type == UR_QPT_DC_INI)
		rig_qp_connect(&n->lane, &n->qp, &k, w.now_ns);
	else
		rig_dct_activate(&n->lane, &n->qp, &k, w.now_ns);
	rig_av(&n->at.av, w.ini.host.addr, n->host.addr);
	n->at.dctn = n->qp.qpn;
	n->at.key = KEY + i;
}

static inline void node_fini(struct node *n)
{
	assert_true(rig_buf_guards_ok(&n->buf));
	rig_qp_destroy(&n->lane, &n->qp);
	rig_buf_fini(&n->buf);
	assert_int_equal(ur_srq_fini(&n->srq), 0);
	assert_int_equal(ur_cq_fini(&n->cq), 0);
	rig_lane_fini(&n->lane);
	rig_host_fini(&n->host);
}

static inline int setup(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.now_ns = 1000 * MS;
	node_init(&w.ini, 0, UR_QPT_DC_INI);
	for (uint32_t i = 0; i < TARGETS; i++)
		node_init(&w.tgt[i], i + 1, UR_QPT_DC_TGT);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < TARGETS; i++)
		node_fini(&w.tgt[i]);
	node_fini(&w.ini);
	return 0;
}

static inline struct node *node_at(const uint8_t addr[16])
{
	for (uint32_t i = 0; i < TARGETS; i++) {
		if (!memcmp(w.tgt[i].host.addr, addr, 16))
			return &w.tgt[i];
	}
	assert_memory_equal(w.ini.host.addr, addr, 16);
	return &w.ini;
}

static inline void deliver(const struct rig_pkt *p)
{
	rig_pkt_input(&node_at(p->dst)->lane, p, w.now_ns);
}

static inline bool send_all(struct node *n)
{
	static struct rig_pkt p;
	bool any = false;

	while (ur_roce_output(n->lane.roce, &w.burst, w.now_ns)) {
		for (uint32_t i = 0; rig_burst_pkt(&w.burst, i, &p); i++) {
			any = true;
			if (w.ntape < TAPE)
				w.tape[w.ntape++] = p;
			if (w.lose && w.lose(&p))
				w.nlost++;
			else
				deliver(&p);
		}
	}
	return any;
}

/* Until no lane has anything to send. */
static inline void run(void)
{
	bool any = true;

	while (any) {
		w.now_ns += 10 * US;
		any = send_all(&w.ini);
		for (uint32_t i = 0; i < TARGETS; i++)
			any |= send_all(&w.tgt[i]);
	}
}

static inline uint64_t deadline(void)
{
	uint64_t at = ur_roce_deadline(w.ini.lane.roce);

	for (uint32_t i = 0; i < TARGETS; i++) {
		uint64_t t = ur_roce_deadline(w.tgt[i].lane.roce);

		at = t < at ? t : at;
	}
	return at;
}

/* The same with timers, for that long. */
static inline void sleep_for(uint64_t ns)
{
	uint64_t end = w.now_ns + ns, at;

	run();
	while ((at = deadline()) <= end) {
		w.now_ns = at > w.now_ns ? at : w.now_ns;
		ur_roce_expire(w.ini.lane.roce, w.now_ns);
		for (uint32_t i = 0; i < TARGETS; i++)
			ur_roce_expire(w.tgt[i].lane.roce, w.now_ns);
		run();
	}
	w.now_ns = end > w.now_ns ? end : w.now_ns;
}

static inline void receive(struct node *n, uint64_t wr_id)
{
	struct ur_sge sge = rig_sge(&n->buf, 0, RECV);

	assert_int_equal(rig_post_recv(&n->srq.rq, wr_id, &sge, 1), 0);
}

static inline void post_at(const struct ur_dc_target *at, uint8_t opcode,
			   uint64_t wr_id, uint32_t len, uint64_t va,
			   uint32_t rkey)
{
	struct ur_sge sge = rig_sge(&w.ini.buf, 0, len);
	struct rig_wr wr = { .wr_id = wr_id,
			     .sge = &sge,
			     .nsge = 1,
			     .imm_be = 0xaabbccdd,
			     .remote_addr = va,
			     .rkey = rkey,
			     .compare_add = 7,
			     .swap = 9,
			     .opcode = opcode,
			     .flags = UR_SEND_SIGNALED,
			     .dc = at };

	assert_int_equal(rig_post_send(&w.ini.qp, &wr), 0);
	ur_roce_kick(w.ini.lane.roce, &w.ini.qp, w.now_ns);
}

static inline void post(struct node *to, uint8_t opcode, uint64_t wr_id,
			uint32_t len)
{
	post_at(&to->at, opcode, wr_id, len, (uintptr_t)to->buf.p,
		to->buf.mr->key);
}

static inline struct ur_cqe cqe_of(struct node *n, uint64_t wr_id,
				   uint8_t status)
{
	struct ur_cqe c = { 0 };

	assert_int_equal(ur_cq_poll(&n->cq, &c, 1), 1);
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, status);
	assert_ptr_equal(c.qp, &n->qp);
	assert_int_equal(c.qpn, n->qp.qpn);
	return c;
}

static inline void no_cqe(struct node *n)
{
	assert_true(ur_cq_is_empty(&n->cq));
}

static inline const struct ur_roce_counters *cnt(const struct node *n)
{
	return ur_roce_counters(n->lane.roce);
}

#endif
