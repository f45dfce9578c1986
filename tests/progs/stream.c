/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream of WRITEs of -s bytes from the client to the server, followed by
 * READs that fetch them back for comparison, until -n rounds are done (0:
 * until killed).  For tests that kill or stop one side in the middle.
 *
 * An error completion ends the client with code 3 after one line:
 *   error STATUS after MS ms: TEXT
 * where MS counts from the last success.  The server only waits: until the
 * client closes its TCP connection, or -M idle: in ibv_get_cq_event() for ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "vt.h"

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct vt_addr theirs;
	int fd;
	uint64_t last_ok;
};

static void setup(struct side *s)
{
	struct vt_addr mine;

	vt_dev_open(&s->dev, s->args.gid_index);
	s->ch = ibv_create_comp_channel(s->dev.ctx);
	VT_TRUE(s->ch);
	s->cq = ibv_create_cq(s->dev.ctx, 64, NULL, s->ch, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, 2 * (size_t)s->args.size);
	s->qp = vt_qp_create(&s->dev, s->cq, s->cq, 16);
	vt_qp_init(s->qp);
	vt_qp_addr(&s->dev, s->qp, &mine);
	mine.addr = (uintptr_t)s->mr->addr;
	mine.rkey = s->mr->rkey;
	s->fd = vt_connect(s->args.host, s->args.port);
	vt_swap(s->fd, &mine, &s->theirs, sizeof(mine));
	vt_qp_connect(&s->dev, s->qp, &mine, &s->theirs, &s->args);
	vt_barrier(s->fd);
}

/* One completion, however long it takes. */
static void complete(struct side *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0)
		;
	VT_TRUE(n == 1);
	if (wc.status == IBV_WC_SUCCESS) {
		s->last_ok = vt_now_ms();
		return;
	}
	printf("error %d after %llu ms: %s\n", wc.status,
	       (unsigned long long)(vt_now_ms() - s->last_ok),
	       ibv_wc_status_str(wc.status));
	exit(3);
}

static void client(struct side *s)
{
	uint32_t size = (uint32_t)s->args.size;
	uint8_t *p = s->mr->addr;

	s->last_ok = vt_now_ms();
	for (long r = 0; s->args.n == 0 || r < s->args.n; r++) {
		vt_fill(p, size, (uint64_t)r);
		vt_rdma(s->qp, IBV_WR_RDMA_WRITE, s->mr, 0, size,
			s->theirs.addr, s->theirs.rkey);
		vt_rdma(s->qp, IBV_WR_RDMA_READ, s->mr, size, size,
			s->theirs.addr, s->theirs.rkey);
		complete(s);
		complete(s);
		VT_TRUE(vt_check(p + size, size, (uint64_t)r));
		if (r == 10) {
			printf("running\n");
			fflush(stdout);
		}
	}
	printf("done\n");
}

/* Nothing ever completes here: the thread has to sleep without CPU time. */
static void idle(struct side *s)
{
	struct ibv_cq *cq;
	void *ctx;

	VT_TRUE(ibv_req_notify_cq(s->cq, 0) == 0);
	printf("idle\n");
	fflush(stdout);
	ibv_get_cq_event(s->ch, &cq, &ctx);
	VT_FAIL("an event out of nothing");
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18602,
				    .gid_index = -1,
				    .size = 65536,
				    .timeout = 14,
				    .retry = 7 } };
	char c;

	vt_args(&s.args, argc, argv);
	setup(&s);
	if (s.args.mode)
		idle(&s);
	if (s.args.host)
		client(&s);
	else
		while (recv(s.fd, &c, 1, 0) > 0)
			;
	return 0;
}
