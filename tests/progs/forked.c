/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that never forks, but in which something else does (the fault "fork"): it
 * registers memory, sends and compares until there were -n forks.  It must get no
 * SIGCHLD, have no child to wait for, and run its exit handlers once.  A thread
 * allocates memory all the time.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

#define LARGEST (256u << 10)

static _Atomic long forks;
static volatile sig_atomic_t children;

static void before_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

static void on_child(int sig)
{
	children = sig;
}

static void at_exit(void)
{
	printf("exit handler of %s\n", children ? "a child" : "the program");
}

static void *allocate(void *arg)
{
	for (size_t i = 1;; i = i % 5000 + 1) {
		char *volatile p = malloc(i);

		VT_TRUE(p);
		p[i - 1] = 1;
		free(p);
	}
	return arg;
}

static void free_mr(struct ibv_mr *mr)
{
	void *p = mr->addr;
	size_t size = mr->length;

	VT_TRUE(ibv_dereg_mr(mr) == 0);
	VT_TRUE(munmap(p, size) == 0);
}

/* A WRITE of memory that was just registered, into memory that was, too. */
static void write_once(struct vt_dev *d, struct vt_loop *l, uint64_t seed)
{
	uint32_t size = (uint32_t)(1 + seed * 7919 % LARGEST);
	struct ibv_mr *from = vt_mr(d, size), *to = vt_mr(d, size);
	struct ibv_wc wc;

	vt_fill(from->addr, size, seed);
	vt_rdma(l->a, IBV_WR_RDMA_WRITE, from, 0, size, (uintptr_t)to->addr,
		to->rkey);
	vt_poll_ok(l->cq, &wc);
	VT_TRUE(vt_check(to->addr, size, seed));
	free_mr(from);
	free_mr(to);
}

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1, .n = 20 };
	pthread_t thread;
	struct vt_dev d;
	struct vt_loop l;
	uint64_t i = 0;

	vt_args(&args, argc, argv);
	VT_TRUE(atexit(at_exit) == 0);
	VT_TRUE(signal(SIGCHLD, on_child) != SIG_ERR);
	VT_TRUE(pthread_atfork(before_fork, NULL, NULL) == 0);
	VT_TRUE(pthread_create(&thread, NULL, allocate, NULL) == 0);
	vt_dev_open(&d, args.gid_index);
	vt_loop_open(&d, &l);
	for (; atomic_load(&forks) < args.n; i++) {
		vt_loop_send(&l, i);
		write_once(&d, &l, i);
		VT_TRUE(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	}
	vt_loop_close(&l);
	vt_dev_close(&d);
	VT_TRUE(!children);
	printf("%llu rounds\n", (unsigned long long)i);
	return 0;
}
