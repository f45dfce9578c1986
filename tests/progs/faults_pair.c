/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same between two processes, over whichever path they choose, after
 * requests that succeeded:
 *
 * -M deregistered: the server deregisters the region that the client writes to.
 * -M stall: the client sends, and the server posts no receive; both stay.
 * -M killed: the server is killed.
 *
 * Both print "qpn NUMBER".
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

#define SIZE 4096u
/* Writes, after which two processes of a host use shared memory. */
#define WARM 2000

/* Timeouts of about a second: a busy machine answers within that. */
static struct vt_args args = {
	.port = 18700, .gid_index = -1, .timeout = 14, .retry = 5
};
static struct vt_dev dev;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct vt_addr mine, theirs;
static int fd;

static bool mode(const char *name)
{
	return !strcmp(args.mode, name);
}

static void serve(void)
{
	vt_barrier(fd); /* the client has written */
	if (mode("deregistered"))
		VT_TRUE(ibv_dereg_mr(mr) == 0);
	vt_barrier(fd);
	if (mode("killed"))
		kill(getpid(), SIGKILL);
	if (mode("stall"))
		pause();
	vt_barrier(fd); /* the client has seen what it gets */
}

static void write_once(struct ibv_wc *wc)
{
	vt_rdma(qp, IBV_WR_RDMA_WRITE, mr, 0, 64, theirs.addr, theirs.rkey);
	vt_poll(cq, wc);
}

static void request(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < WARM; i++) {
		write_once(&wc);
		VT_TRUE(wc.status == IBV_WC_SUCCESS);
	}
	vt_barrier(fd);
	vt_barrier(fd);
	if (mode("stall")) {
		vt_send(qp, mr, 0, 64, 4);
		for (;;)
			VT_TRUE(ibv_poll_cq(cq, 1, &wc) == 0);
	}
	if (mode("killed")) {
		char c;

		/* The socket ends with the server. */
		while (read(fd, &c, 1) > 0)
			;
	}
	/* Memory of a process that was just killed can still be written. */
	for (uint64_t end = vt_now_ms() + 10000; vt_now_ms() < end;) {
		write_once(&wc);
		if (wc.status != IBV_WC_SUCCESS)
			break;
	}
	VT_TRUE(wc.status != IBV_WC_SUCCESS);
	if (!mode("killed"))
		vt_barrier(fd);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	VT_TRUE(args.mode);
	vt_dev_open(&dev, args.gid_index);
	cq = ibv_create_cq(dev.ctx, 16, NULL, NULL, 0);
	VT_TRUE(cq);
	qp = vt_qp_create(&dev, cq, cq, 8);
	vt_qp_init(qp);
	mr = vt_mr(&dev, SIZE);
	vt_qp_addr(&dev, qp, &mine);
	mine.addr = (uintptr_t)mr->addr;
	mine.rkey = mr->rkey;
	printf("qpn %u\n", qp->qp_num);
	fflush(stdout);
	fd = vt_connect(args.host, args.port);
	vt_swap(fd, &mine, &theirs, sizeof(mine));
	vt_qp_connect(&dev, qp, &mine, &theirs, &args);
	vt_barrier(fd);
	if (args.host)
		request();
	else
		serve();
	return 0;
}
