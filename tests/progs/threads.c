/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads in one process.  First every thread (-q) has a QP pair and a CQ
 * of its own; then all of them post to one QP and poll one CQ, which verbs
 * allows without a lock.  No completion is lost or seen twice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "vt.h"

#define DEPTH 16

static struct vt_dev dev;
static struct vt_args args = {
	.gid_index = -1,
	.n = 2000,
	.qps = 8,
};

/* ---- each thread alone ---- */

static void *alone(void *arg)
{
	struct vt_loop l;

	vt_loop_open(&dev, &l);
	for (long i = 0; i < args.n; i++)
		vt_loop_send(&l, (uintptr_t)arg + (uint64_t)i);
	vt_loop_close(&l);
	return NULL;
}

/* ---- all on one QP ---- */

static struct vt_loop one;
static _Atomic long credits = DEPTH; /* free places in the send queue */
static _Atomic long posted;
static _Atomic uint8_t *seen; /* completions by wr_id */

static bool take_credit(void)
{
	if (atomic_fetch_sub(&credits, 1) > 0)
		return true;
	atomic_fetch_add(&credits, 1);
	return false;
}

static void post_one(long id)
{
	struct ibv_sge sge = { (uintptr_t)one.mr->addr, 64, one.mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .wr_id = (uint64_t)id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)one.mr->addr + 4096;
	wr.wr.rdma.rkey = one.mr->rkey;
	VT_TRUE(ibv_post_send(one.a, &wr, &bad) == 0);
}

static long poll_some(void)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(one.cq, 4, wc);

	VT_TRUE(n >= 0);
	for (int i = 0; i < n; i++) {
		VT_TRUE(wc[i].status == IBV_WC_SUCCESS);
		VT_TRUE(atomic_fetch_add(&seen[wc[i].wr_id], 1) == 0);
	}
	atomic_fetch_add(&credits, n);
	return n;
}

static _Atomic long done;

static void *together(void *arg)
{
	long total = args.n * args.qps;
	uint64_t end = vt_now_ms() + 60000;

	(void)arg;
	while (atomic_load(&done) < total) {
		if (atomic_load(&posted) < total && take_credit()) {
			long id = atomic_fetch_add(&posted, 1);

			if (id < total)
				post_one(id);
			else
				atomic_fetch_add(&credits, 1);
		}
		atomic_fetch_add(&done, poll_some());
		if (vt_now_ms() > end)
			VT_FAIL("%ld of %ld completions", atomic_load(&done),
				total);
	}
	return NULL;
}

static void all(void *(*fn)(void *))
{
	pthread_t *t = calloc((size_t)args.qps, sizeof(*t));
	char *seeds = calloc((size_t)args.qps, 1); /* one address each */

	VT_TRUE(t && seeds);
	for (int i = 0; i < args.qps; i++)
		VT_TRUE(pthread_create(&t[i], NULL, fn, &seeds[i]) == 0);
	for (int i = 0; i < args.qps; i++)
		VT_TRUE(pthread_join(t[i], NULL) == 0);
	free(t);
	free(seeds);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	all(alone);
	printf("alone\n");
	void *mem = calloc((size_t)(args.n * args.qps), 1);

	VT_TRUE(mem);
	seen = mem;
	vt_loop_open(&dev, &one);
	all(together);
	vt_loop_close(&one);
	printf("together\n");
	vt_dev_close(&dev);
	free(mem);
	return 0;
}
