/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the protocol alone costs per small message: two lanes of two hosts in
 * one process, bursts handed over as the kernel's GRO would deliver them, no
 * socket and no thread.  Nanoseconds per message of each side.
 *
 *	packet_costs [write|send] [SIZE] [QPS] [ROUNDS]
 *
 * Under callgrind the same gives instructions; --toggle-collect=posts,
 * =carry_requests or =carry_answers takes one side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rig/rig.h"

#define QPS_MAX	  64u
#define TRAIN	  64u
/* So many at once fit into the window with which a path begins. */
#define SIZE_MOST 2048u

struct side {
	struct rig_host host;
	struct rig_lane lane;
	struct ur_cq cq;
	struct rig_buf buf;
	struct ur_qp qp[QPS_MAX];
};

struct costs {
	uint64_t post, emit, serve, answer, finish;
};

static struct side side[2];
static struct ur_burst burst;
static uint64_t now_ns = 1000000000;
static uint32_t size = 64, qps = 1;
static bool sends;

static void side_init(struct side *s, uint32_t n)
{
	struct ur_qp_init init = { .type = UR_QPT_RC };

	rig_host_init(&s->host, n, false);
	rig_lane_init(&s->lane, &s->host, 1, n, 1u << 20);
	RIG_CHECK(ur_cq_init(&s->cq, 8192, NULL, &s->host.async, NULL) == 0);
	rig_buf_init(&s->buf, &s->host, 1u << 20,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE);
	init.send_cq = init.recv_cq = &s->cq;
	init.cap = (struct ur_qp_cap){ .max_send_wr = 2 * TRAIN,
				       .max_recv_wr = 4 * TRAIN,
				       .max_send_sge = 1,
				       .max_recv_sge = 1 };
	for (uint32_t i = 0; i < qps; i++)
		rig_qp_create(&s->lane, &s->qp[i], &init);
}

static void side_connect(struct side *s, const struct side *peer)
{
	struct rig_link k = { .sq_psn = 100,
			      .rq_psn = 100,
			      .path_mtu = 5,
			      .access = UR_ACCESS_REMOTE_WRITE,
			      .timeout = 14,
			      .retry_cnt = 7,
			      .rnr_retry = 7,
			      .min_rnr_timer = 12,
			      .max_rd_atomic = 1,
			      .max_dest_rd_atomic = 1 };

	memcpy(k.src, s->host.addr, 16);
	memcpy(k.dst, peer->host.addr, 16);
	for (uint32_t i = 0; i < qps; i++) {
		k.dest_qpn = peer->qp[i].qpn;
		rig_qp_connect(&s->lane, &s->qp[i], &k, now_ns);
	}
}

static void receives(struct side *s, struct ur_qp *qp, uint32_t n)
{
	struct ur_sge sge = rig_sge(&s->buf, 0, size);

	for (uint32_t i = 0; i < n; i++)
		RIG_CHECK(rig_post_recv(&qp->rq, i, &sge, 1) == 0);
}

/* The last of the burst is signaled, as perftest and others do. */
__attribute__((noinline)) static void posts(struct side *s, struct side *peer)
{
	for (uint32_t i = 0; i < TRAIN; i++) {
		struct ur_qp *qp = &s->qp[i * qps / TRAIN];
		struct ur_sge sge = rig_sge(&s->buf, 0, size);
		struct rig_wr wr = { .opcode = sends ? UR_WR_SEND
						     : UR_WR_RDMA_WRITE,
				     .sge = &sge,
				     .nsge = 1,
				     .remote_addr = (uintptr_t)peer->buf.p,
				     .rkey = peer->buf.mr->key };
		bool last = (i + 1) * qps / TRAIN != i * qps / TRAIN;

		wr.flags = last ? UR_SEND_SIGNALED : 0;
		RIG_CHECK(rig_post_send(qp, &wr) == 0);
		ur_roce_kick(s->lane.roce, qp, now_ns);
	}
}

static uint32_t cut(const struct side *from, struct side *to,
		    const uint8_t *bytes)
{
	struct ur_rx rx = { .sport = burst.sport, .hop_limit = 64 };
	uint32_t n = 0;

	memcpy(rx.src, from->host.addr, 16);
	memcpy(rx.dst, to->host.addr, 16);
	for (uint32_t off = 0; off < burst.bytes; off += burst.pkt_len) {
		rx.data = bytes + off;
		rx.len = burst.bytes - off < burst.pkt_len ? burst.bytes - off
							   : burst.pkt_len;
		rx.index = (uint16_t)n++;
		ur_roce_input(to->lane.roce, &rx, now_ns);
	}
	return n;
}

/* The link copies a burst, and so does this. */
static uint32_t carry(struct side *from, struct side *to, uint64_t *out_ns,
		      uint64_t *in_ns)
{
	static uint8_t bytes[UR_BURST_BYTES];
	uint64_t t0 = ur_clock_ns(), t1;
	uint32_t n = 0;

	while (ur_roce_output(from->lane.roce, &burst, now_ns)) {
		uint32_t at = 0;

		for (uint32_t i = 0; i < burst.niov; i++) {
			memcpy(bytes + at, burst.iov[i].iov_base,
			       burst.iov[i].iov_len);
			at += (uint32_t)burst.iov[i].iov_len;
		}
		t1 = ur_clock_ns();
		*out_ns += t1 - t0;
		n += cut(from, to, bytes);
		t0 = ur_clock_ns();
		*in_ns += t0 - t1;
	}
	*out_ns += ur_clock_ns() - t0;
	return n;
}

__attribute__((noinline)) static void carry_requests(struct costs *c)
{
	RIG_CHECK(carry(&side[0], &side[1], &c->emit, &c->serve) == TRAIN);
}

__attribute__((noinline)) static void carry_answers(struct costs *c)
{
	carry(&side[1], &side[0], &c->answer, &c->finish);
}

static uint32_t take(struct side *s)
{
	uint32_t n = ur_cq_open(&s->cq);

	ur_cq_close(&s->cq, n);
	return n;
}

static void round_trip(struct costs *c)
{
	uint64_t t = ur_clock_ns();
	uint32_t done = 0;

	posts(&side[0], &side[1]);
	c->post += ur_clock_ns() - t;
	carry_requests(c);
	now_ns += 60000; /* acknowledgements that were not requested are due */
	ur_roce_expire(side[1].lane.roce, now_ns);
	while (done < qps) {
		uint32_t n;

		carry_answers(c);
		n = take(&side[0]);
		RIG_CHECK(n > 0);
		done += n;
	}
	if (sends) {
		RIG_CHECK(take(&side[1]) == TRAIN);
		for (uint32_t i = 0; i < qps; i++)
			receives(&side[1], &side[1].qp[i], TRAIN / qps);
	}
}

int main(int argc, char **argv)
{
	uint32_t rounds =
		argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 20000;
	struct costs c = { 0 };
	double n = (double)rounds * TRAIN;

	sends = argc > 1 && !strcmp(argv[1], "send");
	if (argc > 2)
		size = (uint32_t)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		qps = (uint32_t)strtoul(argv[3], NULL, 10);
	if (qps == 0 || TRAIN % qps || size > SIZE_MOST) {
		fprintf(stderr, "packet_costs: QPS divides %u, SIZE <= %u\n",
			TRAIN, SIZE_MOST);
		return 2;
	}
	for (uint32_t i = 0; i < 2; i++)
		side_init(&side[i], i);
	for (uint32_t i = 0; i < 2; i++)
		side_connect(&side[i], &side[1 - i]);
	for (uint32_t i = 0; i < qps; i++)
		receives(&side[1], &side[1].qp[i], TRAIN / qps);
	for (uint32_t i = 0; i < 100; i++)
		round_trip(&c);
	c = (struct costs){ 0 };
	for (uint32_t i = 0; i < rounds; i++)
		round_trip(&c);
	printf("%s %u B, %u queue pairs: ns per message: post %.1f, emit %.1f, "
	       "serve %.1f, answer %.1f, finish %.1f\n",
	       sends ? "send" : "write", size, qps, (double)c.post / n,
	       (double)c.emit / n, (double)c.serve / n, (double)c.answer / n,
	       (double)c.finish / n);
	return 0;
}
