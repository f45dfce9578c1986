/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction of a connection is held up: the client's SENDs find no
 * receives.  The server's SENDs complete all the same, though the client only
 * waits and does not poll: acknowledgements do not wait for what stands in the
 * other direction.  Then the server posts receives, and all is delivered.
 */
#include <stdio.h>

#include "vt.h"

#define DEPTH	600u /* of 8 KiB: more than a ring of shared memory holds */
#define WARM_UP 300u

static struct vt_args args = { .port = 18700,
			       .gid_index = -1,
			       .n = 2,
			       .size = 8192,
			       .timeout = 14,
			       .retry = 7 };
static struct vt_dev dev;
static struct vt_addr mine, theirs;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static int fd;

/* One at a time in turn, after which they pass through memory. */
static void warm_up(void)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < WARM_UP; i++) {
		bool sends = i % 2 == (args.host != NULL);

		if (!sends)
			vt_recv(qp, mr, 0, 8, i);
		vt_barrier(fd);
		if (sends)
			vt_send(qp, mr, 0, 8, i);
		vt_poll_ok(cq, &wc);
		VT_TRUE(wc.wr_id == i);
	}
}

static void post_receives(void)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		vt_recv(qp, mr, (size_t)args.size, (uint32_t)args.size,
			DEPTH + i);
}

static void post_sends(void)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		vt_send(qp, mr, 0, (uint32_t)args.size, i);
}

/* Completions in order, those of SENDs or of receives or of both. */
static void take(uint32_t sends, uint32_t receives)
{
	uint32_t sent = 0, received = 0;
	struct ibv_wc wc;

	while (sent < sends || received < receives) {
		vt_poll_ok(cq, &wc);
		if (wc.wr_id < DEPTH)
			VT_TRUE(wc.wr_id == sent++);
		else
			VT_TRUE(wc.wr_id == DEPTH + received++);
	}
}

static void client(void)
{
	post_receives();
	post_sends();
	vt_barrier(fd);
	vt_barrier(fd);
	take(DEPTH, DEPTH);
}

static void server(void)
{
	vt_barrier(fd);
	post_sends();
	take(DEPTH, 0);
	vt_barrier(fd);
	post_receives();
	take(0, DEPTH);
}

int main(int argc, char **argv)
{
	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	cq = ibv_create_cq(dev.ctx, 4 * DEPTH, NULL, NULL, 0);
	VT_TRUE(cq);
	mr = vt_mr(&dev, 2 * (size_t)args.size);
	fd = vt_connect(args.host, args.port);
	qp = vt_qp_create(&dev, cq, cq, DEPTH);
	vt_qp_init(qp);
	vt_qp_addr(&dev, qp, &mine);
	vt_swap(fd, &mine, &theirs, sizeof(mine));
	vt_qp_connect(&dev, qp, &mine, &theirs, &args);
	vt_barrier(fd);
	warm_up();
	for (long i = 0; i < args.n; i++) {
		vt_barrier(fd);
		if (args.host)
			client();
		else
			server();
	}
	vt_end(&dev, qp, cq, mr, fd);
	printf("%ld rounds\n", args.n);
	return 0;
}
