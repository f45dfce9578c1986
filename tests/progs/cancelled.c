/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs are no cancellation points, but for those that wait for an event
 * (pthreads(7) lists what is one).  So a thread that is to be cancelled goes on
 * until it asks by itself, and leaves the queue pair and all locks as they
 * should be: another thread goes on with them.  First it is to be from the
 * beginning, whatever it calls; then -n times in the middle of many messages.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

static struct vt_dev dev;
static struct vt_args args = {
	.gid_index = -1,
	.n = 200,
};

static void move(struct vt_loop *l, enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_wc wc;

	vt_rdma(l->a, op, l->mr, 0, len, (uintptr_t)l->mr->addr + 4096,
		l->mr->rkey);
	vt_poll_ok(l->cq, &wc);
}

static void try_all(void)
{
	static const uint32_t sizes[] = { 8, 100, 4096 };
	struct vt_loop l;

	vt_loop_open(&dev, &l);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		move(&l, IBV_WR_RDMA_WRITE, sizes[i]);
		move(&l, IBV_WR_RDMA_READ, sizes[i]);
	}
	for (uint64_t i = 0; i < 200; i++)
		vt_loop_send(&l, i);
	VT_TRUE(ibv_req_notify_cq(l.cq, 0) == 0);
	vt_loop_send(&l, 200);
	vt_loop_close(&l);
}

static void *go_on(void *came)
{
	pthread_cancel(pthread_self());
	try_all();
	*(bool *)came = true;
	pthread_testcancel();
	return NULL;
}

static void cancel_before(void)
{
	bool came = false;
	pthread_t t;
	void *end;

	VT_TRUE(pthread_create(&t, NULL, go_on, &came) == 0);
	VT_TRUE(pthread_join(t, &end) == 0);
	VT_TRUE(came && end == PTHREAD_CANCELED);
	try_all();
}

struct sender {
	struct vt_loop loop;
	_Atomic uint64_t sent;
};

static void *send_on(void *arg)
{
	struct sender *s = arg;

	for (;;) {
		vt_loop_send(&s->loop, s->sent++);
		pthread_testcancel();
	}
	return NULL;
}

/* Returns how many it had sent. */
static uint64_t cancel_one(unsigned int moment)
{
	struct sender s = { 0 };
	pthread_t t;
	void *end;

	vt_loop_open(&dev, &s.loop);
	VT_TRUE(pthread_create(&t, NULL, send_on, &s) == 0);
	while (s.sent < 1 + moment % 4)
		;
	for (volatile unsigned int i = 0; i < moment * 37 % 3000; i++)
		;
	VT_TRUE(pthread_cancel(t) == 0);
	VT_TRUE(pthread_join(t, &end) == 0);
	VT_TRUE(end == PTHREAD_CANCELED);
	vt_loop_send(&s.loop, s.sent);
	vt_loop_close(&s.loop);
	return s.sent;
}

static bool may_be_cancelled(void)
{
	int was;

	VT_TRUE(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was) == 0);
	return was == PTHREAD_CANCEL_ENABLE;
}

/* Handlers of fork() take locks as well. */
static void fork_one(void)
{
	pid_t child = fork();
	int status;

	VT_TRUE(child >= 0);
	if (child == 0)
		_exit(may_be_cancelled() ? 0 : 1);
	VT_TRUE(waitpid(child, &status, 0) == child && status == 0);
	VT_TRUE(may_be_cancelled());
}

int main(int argc, char **argv)
{
	uint64_t sent = 0;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	cancel_before();
	for (long i = 0; i < args.n; i++)
		sent += cancel_one((unsigned int)i);
	fork_one();
	vt_dev_close(&dev);
	printf("%ld threads, %lu messages\n", args.n, (unsigned long)sent);
	return 0;
}
