/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program forks with an open device and a connected QP.  In the child,
 * calls on inherited objects fail cleanly, then it opens the device itself and
 * moves data; the parent goes on as if nothing had happened, before, during
 * and after the child's life.  -n children one after the other, the last one
 * of which calls exec.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

/* None of these may move data, crash or hang. */
static void inherited(struct vt_dev *d, struct vt_loop *l)
{
	struct ibv_sge sge = { .addr = (uintptr_t)l->mr->addr,
			       .length = 8,
			       .lkey = l->mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_qp_init_attr init = { .send_cq = l->cq,
					 .recv_cq = l->cq,
					 .cap = { .max_send_wr = 1,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_wc wc;

	VT_TRUE(ibv_post_send(l->a, &wr, &bad) != 0);
	VT_TRUE(ibv_poll_cq(l->cq, 1, &wc) <= 0);
	VT_TRUE(ibv_create_qp(d->pd, &init) == NULL);
}

static void child(struct vt_dev *parent_dev, struct vt_loop *parent_loop,
		  const char *self, bool last)
{
	struct vt_dev d;
	struct vt_loop l;

	alarm(20);
	inherited(parent_dev, parent_loop);
	if (last) {
		execl(self, self, "-M", "alone", (char *)NULL);
		VT_FAIL("execl %s", self);
	}
	vt_dev_open(&d, -1);
	vt_loop_open(&d, &l);
	for (uint64_t i = 0; i < 100; i++)
		vt_loop_send(&l, i);
	vt_loop_close(&l);
	vt_dev_close(&d);
	exit(0);
}

static void reap(pid_t pid, struct vt_loop *l)
{
	uint64_t i = 0;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0)
		vt_loop_send(l, ++i);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		VT_FAIL("child ended with status 0x%x", status);
}

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1, .n = 3 };
	struct vt_dev d;
	struct vt_loop l;

	vt_args(&args, argc, argv);
	vt_dev_open(&d, args.gid_index);
	vt_loop_open(&d, &l);
	vt_loop_send(&l, 1);
	for (long i = 0; i < args.n && !args.mode; i++) {
		pid_t pid = fork();

		VT_TRUE(pid >= 0);
		if (pid == 0)
			child(&d, &l, argv[0], i == args.n - 1);
		reap(pid, &l);
	}
	vt_loop_send(&l, 2);
	vt_loop_close(&l);
	vt_dev_close(&d);
	printf("fork survived\n");
	return 0;
}
