/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a message costs where one thread has both ends (under `urnic run`): SENDs
 * or WRITEs between two RC queue pairs of urnic0, in bursts (of 32 messages, or -w) of
 * which one is signalled.
 *
 *     verbs_alone -t SECONDS -s BYTES [-m write] [-w MESSAGES]
 *
 * Nanoseconds of processor time of the process for a message: other programs on
 * the machine change it less than they change rates.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "verbs_rc.h"

#define MAX_BURST 32u
#define MAX_BYTES 65536ul

struct ends {
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
	struct ibv_sge source, target;
	uint32_t rkey;
	bool writes;
	unsigned int burst;
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void open_ends(struct ends *e, size_t size)
{
	struct ibv_context *context = rc_open("urnic0");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr;

	rc_need(pd, "ibv_alloc_pd");
	e->cq = ibv_create_cq(context, 4 * MAX_BURST, NULL, NULL, 0);
	rc_need(e->cq, "ibv_create_cq");
	e->from = rc_create(pd, e->cq, MAX_BURST);
	e->to = rc_create(pd, e->cq, MAX_BURST);
	rc_connect(e->to, e->from->qp_num);
	rc_connect(e->from, e->to->qp_num);
	mr = ibv_reg_mr(pd, private_bytes(2 * MAX_BYTES), 2 * MAX_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	rc_need(mr, "ibv_reg_mr");
	e->rkey = mr->rkey;
	e->source = (struct ibv_sge){ (uintptr_t)mr->addr, (uint32_t)size,
				      mr->lkey };
	e->target = e->source;
	e->target.addr += MAX_BYTES;
}

static void move_burst(struct ends *e)
{
	struct ibv_recv_wr recv = { .sg_list = &e->target, .num_sge = 1 },
			   *bad_r;
	struct ibv_send_wr send = { .sg_list = &e->source,
				    .num_sge = 1,
				    .opcode = e->writes ? IBV_WR_RDMA_WRITE
							: IBV_WR_SEND,
				    .wr.rdma = { e->target.addr, e->rkey } },
			   *bad_s;
	unsigned int received = e->writes ? 0 : e->burst, left = received + 1;

	for (unsigned int i = 0; i < received; i++)
		if (ibv_post_recv(e->to, &recv, &bad_r))
			die("ibv_post_recv");
	for (unsigned int i = 1; i <= e->burst; i++) {
		send.send_flags = i == e->burst ? IBV_SEND_SIGNALED : 0;
		if (ibv_post_send(e->from, &send, &bad_s))
			die("ibv_post_send");
	}
	while (left)
		left -= rc_poll(e->cq);
}

int main(int argc, char **argv)
{
	struct options o = { .seconds = 1, .size = 64, .window = MAX_BURST };
	uint64_t until, since, n = 0;
	struct ends e = { 0 };

	options(&o, argc, argv);
	if (o.size > MAX_BYTES)
		die("-s: at most 65536");
	if (!o.window || o.window > MAX_BURST)
		die("-w: 1 to 32");
	e.burst = (unsigned int)o.window;
	e.writes = o.mode && !strcmp(o.mode, "write");
	open_ends(&e, o.size);
	for (unsigned int i = 0; i < 1000; i++)
		move_burst(&e);
	since = cpu_ns();
	until = now_ns() + (uint64_t)(o.seconds * 1e9);
	do {
		move_burst(&e);
		n += e.burst;
	} while (now_ns() < until);
	printf("{\"cpu_ns\": %.2f}\n", (double)(cpu_ns() - since) / (double)n);
	return 0;
}
