/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread sends numbered messages (-n, of -s bytes) from one queue pair to
 * another, whose receives come from an SRQ; many threads (-q) poll the CQ of
 * the latter, and each posts a receive again for every message that it gets.
 * Every message arrives once, whichever thread gets it.  All of them share the
 * progress of one process.  With -M turns a message is sent when the last one
 * has arrived, else 16 are outstanding.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vt.h"

#define RECEIVES 512u
#define WINDOW	 16
#define BATCH	 4
#define WORK_US	 60000000u

static struct vt_args args = { .gid_index = -1,
			       .n = 20000,
			       .size = 64,
			       .qps = 32,
			       .timeout = 16,
			       .retry = 7 };
static struct vt_dev dev;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_srq *srq;
static struct ibv_qp *from, *to;
static struct ibv_mr *mr; /* those of the receives, then of the sends */

static _Atomic uint8_t *seen; /* by a message's number */
static _Atomic long arrived;

static uint64_t now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Time of the core, not of the clock, as vt_poll(). */
static void check_patience(uint64_t *polls)
{
	if (++*polls % 1024 == 0 && now_us(CLOCK_THREAD_CPUTIME_ID) > WORK_US)
		VT_FAIL("%ld of %ld messages", atomic_load(&arrived), args.n);
}

static uint64_t *place(uint64_t i)
{
	return (uint64_t *)((char *)mr->addr + i * (uint64_t)args.size);
}

static void post_receive(uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)place(id), (uint32_t)args.size,
			       mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	VT_TRUE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
}

static void take(const struct ibv_wc *wc)
{
	uint64_t number = *place(wc->wr_id);

	VT_TRUE(wc->status == IBV_WC_SUCCESS);
	VT_TRUE(wc->opcode == IBV_WC_RECV && wc->byte_len == args.size);
	VT_TRUE(number < (uint64_t)args.n);
	VT_TRUE(atomic_fetch_add(&seen[number], 1) == 0);
	post_receive(wc->wr_id);
	atomic_fetch_add(&arrived, 1);
}

static void *poller(void *arg)
{
	struct ibv_wc wc[BATCH];
	uint64_t polls = 0;

	(void)arg;
	while (atomic_load(&arrived) < args.n) {
		int n = ibv_poll_cq(recv_cq, BATCH, wc);

		VT_TRUE(n >= 0);
		for (int i = 0; i < n; i++)
			take(&wc[i]);
		check_patience(&polls);
	}
	return NULL;
}

static void send_one(uint64_t number)
{
	size_t at = RECEIVES + number % WINDOW;

	*place(at) = number;
	vt_send(from, mr, at * (size_t)args.size, (uint32_t)args.size, number);
}

static void send_all(bool turns)
{
	struct ibv_wc wc[BATCH];
	long window = turns ? 1 : WINDOW, sent = 0, done = 0;
	uint64_t polls = 0;

	while (done < args.n || atomic_load(&arrived) < args.n) {
		int n;

		while (sent < args.n && sent - done < window &&
		       !(turns && sent > atomic_load(&arrived)))
			send_one((uint64_t)sent++);
		n = ibv_poll_cq(send_cq, BATCH, wc);
		VT_TRUE(n >= 0);
		for (int i = 0; i < n; i++) {
			VT_TRUE(wc[i].status == IBV_WC_SUCCESS);
			VT_TRUE(wc[i].wr_id == (uint64_t)done++);
		}
		check_patience(&polls);
	}
}

static struct ibv_qp *make_qp(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = WINDOW, .max_send_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(dev.pd, &attr);

	VT_TRUE(qp);
	vt_qp_init(qp);
	return qp;
}

static void open_all(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RECEIVES,
						    .max_sge = 1 } };
	struct vt_addr a, b;

	vt_dev_open(&dev, args.gid_index);
	send_cq = ibv_create_cq(dev.ctx, WINDOW, NULL, NULL, 0);
	recv_cq = ibv_create_cq(dev.ctx, RECEIVES, NULL, NULL, 0);
	srq = ibv_create_srq(dev.pd, &attr);
	VT_TRUE(send_cq && recv_cq && srq);
	mr = vt_mr(&dev, (RECEIVES + WINDOW) * (size_t)args.size);
	from = make_qp(send_cq);
	to = make_qp(recv_cq);
	vt_qp_addr(&dev, from, &a);
	vt_qp_addr(&dev, to, &b);
	vt_qp_connect(&dev, from, &a, &b, &args);
	vt_qp_connect(&dev, to, &b, &a, &args);
	for (uint32_t i = 0; i < RECEIVES; i++)
		post_receive(i);
}

static void close_all(void)
{
	VT_TRUE(ibv_destroy_qp(from) == 0);
	VT_TRUE(ibv_destroy_qp(to) == 0);
	VT_TRUE(ibv_destroy_srq(srq) == 0);
	VT_TRUE(ibv_destroy_cq(send_cq) == 0);
	VT_TRUE(ibv_destroy_cq(recv_cq) == 0);
	VT_TRUE(ibv_dereg_mr(mr) == 0);
	vt_dev_close(&dev);
}

static void run(void)
{
	pthread_t *t = calloc((size_t)args.qps, sizeof(*t));
	uint64_t start = now_us(CLOCK_MONOTONIC);

	VT_TRUE(t);
	for (int i = 0; i < args.qps; i++)
		VT_TRUE(pthread_create(&t[i], NULL, poller, NULL) == 0);
	send_all(args.mode && strcmp(args.mode, "turns") == 0);
	for (int i = 0; i < args.qps; i++)
		VT_TRUE(pthread_join(t[i], NULL) == 0);
	start = now_us(CLOCK_MONOTONIC) - start;
	VT_TRUE(atomic_load(&arrived) == args.n);
	for (long i = 0; i < args.n; i++)
		VT_TRUE(atomic_load(&seen[i]) == 1);
	printf("%d threads: %.0f messages/s\n", args.qps,
	       (double)args.n * 1e6 / (double)start);
	free(t);
}

int main(int argc, char **argv)
{
	void *mem;

	vt_args(&args, argc, argv);
	VT_TRUE(args.n > 0 && args.qps > 0 && args.size >= 8 &&
		args.size % 8 == 0);
	mem = calloc((size_t)args.n, 1);
	VT_TRUE(mem);
	seen = mem;
	open_all();
	run();
	close_all();
	free(mem);
	return 0;
}
