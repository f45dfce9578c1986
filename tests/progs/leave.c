/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways to end without destroying anything, with data in flight and a thread
 * asleep in ibv_get_cq_event() and another in ibv_get_async_event():
 * -M return | exit | _exit | thread (pthread_exit of main) | abort | close
 * (ibv_close_device with everything still there).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

static struct vt_dev dev;

static void *sleep_for_cq(void *arg)
{
	struct ibv_comp_channel *ch = arg;
	struct ibv_cq *cq;
	void *ctx;

	ibv_get_cq_event(ch, &cq, &ctx);
	return NULL;
}

static void *sleep_for_async(void *arg)
{
	struct ibv_async_event ev;

	(void)arg;
	ibv_get_async_event(dev.ctx, &ev);
	return NULL;
}

static void *leave_later(void *arg)
{
	(void)arg;
	usleep(100000);
	exit(0);
}

static void start(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	VT_TRUE(pthread_create(&t, NULL, fn, arg) == 0);
}

/* More WRITEs than are done at once; the program does not wait for them. */
static void in_flight(struct vt_loop *l)
{
	struct ibv_mr *big = vt_mr(&dev, 16 << 20);

	for (int i = 0; i < 8; i++)
		vt_rdma(l->a, IBV_WR_RDMA_WRITE, big, 0, 8 << 20,
			(uintptr_t)big->addr + (8 << 20), big->rkey);
}

static int leave(const char *mode)
{
	if (strcmp(mode, "_exit") == 0)
		_exit(0);
	if (strcmp(mode, "exit") == 0)
		exit(0);
	if (strcmp(mode, "abort") == 0)
		abort();
	if (strcmp(mode, "close") == 0)
		ibv_close_device(dev.ctx);
	if (strcmp(mode, "thread") == 0) {
		start(leave_later, NULL);
		pthread_exit(NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1, .mode = "return" };
	struct ibv_comp_channel *ch;
	struct vt_loop l;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	ch = ibv_create_comp_channel(dev.ctx);
	VT_TRUE(ch);
	vt_loop_open(&dev, &l);
	vt_loop_send(&l, 1);
	start(sleep_for_cq, ch);
	start(sleep_for_async, NULL);
	in_flight(&l);
	printf("leaving by %s\n", args.mode);
	fflush(stdout);
	return leave(args.mode);
}
