/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bandwidth over a link that loses packets, in virtual time: two lanes, between
 * them a link of 400 MB/s with a delay, and a program that keeps its send queue
 * filled.  The same seed gives the same losses, so the result is always the same.
 */
#include <stdlib.h>

#include "base/rng.h"
#include "roce/fixture.h"

#define MESSAGE	   (1u << 20)
#define DEPTH	   16u
#define PATH_MTU   3u /* 1,024 */
#define PKTS	   32768u
#define HEADERS	   50u	 /* Ethernet, IP and UDP, and what a wire adds */
#define PS_OF_BYTE 2500u /* 400 MB/s */
#define RUN_NS	   (400 * MS)

struct flying {
	struct rig_pkt *pkt;
	uint64_t at_ns;
};

/* One direction: packets arrive in the order of sending. */
struct way {
	struct flying q[PKTS];
	uint32_t head, tail;
	uint64_t free_ns; /* when the link has sent all before */
};

struct end {
	struct rig_host host;
	struct rig_lane lane;
	struct ur_cq cq;
	struct ur_qp qp;
	struct rig_link link;
	struct rig_buf buf;
	struct way out;
};

static struct world {
	struct end end[2];
	struct ur_burst burst;
	struct ur_rng rng;
	uint64_t now_ns;
	uint64_t delay_ns;
	uint32_t loss; /* of 1,000 */
	uint64_t lost;
	uint32_t done; /* messages */
} w;

static uint32_t interface_mtu; /* 0: packets as long as the path MTU */
static uint64_t seed = 1;

static void end_init(struct end *e, uint32_t n)
{
	struct ur_qp_init init = { .type = UR_QPT_RC,
				   .send_cq = &e->cq,
				   .recv_cq = &e->cq,
				   .cap = { .max_send_wr = DEPTH,
					    .max_recv_wr = DEPTH,
					    .max_send_sge = 1,
					    .max_recv_sge = 1 } };

	rig_host_init(&e->host, n, false);
	rig_lane_init(&e->lane, &e->host, n + 1, 1 + n, 8u << 20);
	assert_int_equal(
		ur_cq_init(&e->cq, 4 * DEPTH, NULL, &e->host.async, NULL), 0);
	rig_qp_create(&e->lane, &e->qp, &init);
	rig_buf_init(&e->buf, &e->host, MESSAGE,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
			     UR_ACCESS_REMOTE_READ);
}

static void end_connect(struct end *e, const struct end *peer)
{
	e->link = (struct rig_link){ .dest_qpn = peer->qp.qpn,
				     .sq_psn = 100,
				     .rq_psn = 100,
				     .path_mtu = PATH_MTU,
				     .interface_mtu = interface_mtu,
				     .access = UR_ACCESS_REMOTE_WRITE |
					       UR_ACCESS_REMOTE_READ,
				     .timeout = 18,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .min_rnr_timer = 1,
				     .max_rd_atomic = 16,
				     .max_dest_rd_atomic = 16 };
	memcpy(e->link.src, e->host.addr, 16);
	memcpy(e->link.dst, peer->host.addr, 16);
	rig_qp_connect(&e->lane, &e->qp, &e->link, w.now_ns);
}

static void world_init(uint64_t delay_ns, uint32_t loss)
{
	memset(&w, 0, sizeof(w));
	ur_rng_seed(&w.rng, seed);
	w.now_ns = 1 * MS;
	w.delay_ns = delay_ns;
	w.loss = loss;
	for (uint32_t i = 0; i < 2; i++)
		end_init(&w.end[i], i);
	for (uint32_t i = 0; i < 2; i++)
		end_connect(&w.end[i], &w.end[!i]);
}

static void world_fini(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct end *e = &w.end[i];

		for (; e->out.head != e->out.tail; e->out.head++)
			free(e->out.q[e->out.head % PKTS].pkt);
		rig_qp_destroy(&e->lane, &e->qp);
		rig_buf_fini(&e->buf);
		assert_int_equal(ur_cq_fini(&e->cq), 0);
		rig_lane_fini(&e->lane);
		rig_host_fini(&e->host);
	}
}

static void put(struct end *e, const struct rig_pkt *p)
{
	struct way *o = &e->out;
	struct flying *f = &o->q[o->tail % PKTS];

	if (o->free_ns < w.now_ns)
		o->free_ns = w.now_ns;
	o->free_ns += (uint64_t)(p->len + HEADERS) * PS_OF_BYTE / 1000;
	if (ur_rng_below(&w.rng, 1000) < w.loss) {
		w.lost++;
		return;
	}
	assert_true(o->tail - o->head < PKTS);
	f->pkt = malloc(sizeof(*p));
	assert_non_null(f->pkt);
	*f->pkt = *p;
	f->at_ns = o->free_ns + w.delay_ns;
	o->tail++;
}

static void send_all(struct end *e)
{
	struct rig_pkt p;

	while (ur_roce_output(e->lane.roce, &w.burst, w.now_ns)) {
		for (uint32_t i = 0; rig_burst_pkt(&w.burst, i, &p); i++)
			put(e, &p);
	}
}

/* Everything that has arrived, and expired timers. */
static void serve(struct end *e, struct way *in)
{
	while (in->head != in->tail &&
	       in->q[in->head % PKTS].at_ns <= w.now_ns) {
		struct rig_pkt *p = in->q[in->head++ % PKTS].pkt;

		rig_pkt_input(&e->lane, p, w.now_ns);
		free(p);
	}
	if (ur_roce_deadline(e->lane.roce) <= w.now_ns)
		ur_roce_expire(e->lane.roce, w.now_ns);
	send_all(e);
}

static void post(uint8_t opcode)
{
	struct end *e = &w.end[0];
	struct ur_sge sge = rig_sge(&e->buf, 0, MESSAGE);
	struct rig_wr wr = { .sge = &sge,
			     .nsge = 1,
			     .remote_addr = (uintptr_t)w.end[1].buf.p,
			     .rkey = w.end[1].buf.mr->key,
			     .opcode = opcode,
			     .flags = UR_SEND_SIGNALED };

	while (rig_post_send(&e->qp, &wr) == 0)
		;
	ur_roce_kick(e->lane.roce, &e->qp, w.now_ns);
	send_all(e);
}

static uint64_t next_event(void)
{
	uint64_t at = UR_NEVER;

	for (uint32_t i = 0; i < 2; i++) {
		const struct way *o = &w.end[i].out;
		uint64_t t = ur_roce_deadline(w.end[i].lane.roce);

		if (o->head != o->tail && o->q[o->head % PKTS].at_ns < t)
			t = o->q[o->head % PKTS].at_ns;
		at = t < at ? t : at;
	}
	return at;
}

/* MB/s of messages in RUN_NS. */
static uint32_t bandwidth(uint8_t opcode, uint64_t delay_ns, uint32_t loss)
{
	struct ur_cqe c;

	world_init(delay_ns, loss);
	post(opcode);
	while (w.now_ns < RUN_NS) {
		uint64_t at = next_event();

		assert_true(at != UR_NEVER);
		if (at > w.now_ns)
			w.now_ns = at;
		serve(&w.end[0], &w.end[1].out);
		serve(&w.end[1], &w.end[0].out);
		while (ur_cq_poll(&w.end[0].cq, &c, 1)) {
			assert_int_equal(c.status, UR_WC_SUCCESS);
			w.done++;
			post(opcode);
		}
	}
	assert_int_equal(w.lost != 0, loss != 0);
	world_fini();
	return (uint32_t)((uint64_t)w.done * MESSAGE * 1000 / RUN_NS);
}

/* What is to be left of the bandwidth without loss, at 0.1, 1 and 5 %. */
static const uint32_t left[] = { 95, 90, 60 };
/* READs beyond max_rd_atomic wait until a gap in the responses is closed. */
static const uint32_t left_of_long_reads[] = { 95, 70, 50 };

static void check(uint8_t opcode, uint64_t delay_ns, const uint32_t *percent)
{
	static const uint32_t loss[] = { 1, 10, 50 };
	uint32_t clean = bandwidth(opcode, delay_ns, 0);

	print_message("delay %lu us: without loss %u MB/s\n", delay_ns / US,
		      clean);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t got = bandwidth(opcode, delay_ns, loss[i]);

		print_message("  %u of 1,000 lost: %u MB/s\n", loss[i], got);
		assert_true(got * 100 >= clean * percent[i]);
	}
}

static void writes_on_a_short_link(void **state)
{
	check(UR_WR_RDMA_WRITE, 20 * US, left);
}

static void writes_on_a_long_link(void **state)
{
	check(UR_WR_RDMA_WRITE, 5 * MS, left);
}

static void reads_on_a_short_link(void **state)
{
	check(UR_WR_RDMA_READ, 20 * US, left);
}

static void reads_on_a_long_link(void **state)
{
	check(UR_WR_RDMA_READ, 5 * MS, left_of_long_reads);
}

/* With packets of 1,436 instead of 1,024 bytes, less of the link is headers. */
static void full_packets(void **state)
{
	uint32_t without = bandwidth(UR_WR_RDMA_WRITE, 20 * US, 0);

	interface_mtu = 1500;
	assert_true(bandwidth(UR_WR_RDMA_WRITE, 20 * US, 0) > without);
	check(UR_WR_RDMA_WRITE, 20 * US, left);
	check(UR_WR_RDMA_WRITE, 5 * MS, left);
	check(UR_WR_RDMA_READ, 20 * US, left);
	interface_mtu = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_on_a_short_link),
		cmocka_unit_test(writes_on_a_long_link),
		cmocka_unit_test(reads_on_a_short_link),
		cmocka_unit_test(reads_on_a_long_link),
		cmocka_unit_test(full_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
