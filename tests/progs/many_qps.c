/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process with a thousand QPs (-q) moves data on each of them: every QP of
 * the client SENDs a message that the server sends back changed, and WRITEs a
 * page that the server looks at.  -n rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vt.h"

#define MSG  64u
#define PAGE 4096u

struct side {
	struct vt_args args;
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* per QP: in, out, page */
	struct ibv_qp **qp;
	struct vt_addr *mine;
	struct vt_addr *theirs;
	int fd;
};

static size_t at(int qp, unsigned int offset)
{
	return (size_t)qp * (2 * MSG + 2 * PAGE) + offset;
}

static uint8_t *bytes(struct side *s, int qp, unsigned int offset)
{
	return (uint8_t *)s->mr->addr + at(qp, offset);
}

static void setup(struct side *s)
{
	int n = s->args.qps;

	vt_dev_open(&s->dev, s->args.gid_index);
	s->cq = ibv_create_cq(s->dev.ctx, 8 * n, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, at(n, 0));
	s->qp = calloc((size_t)n, sizeof(struct ibv_qp *));
	s->mine = calloc((size_t)n, sizeof(*s->mine));
	s->theirs = calloc((size_t)n, sizeof(*s->theirs));
	VT_TRUE(s->qp && s->mine && s->theirs);
	for (int i = 0; i < n; i++) {
		s->qp[i] = vt_qp_create(&s->dev, s->cq, s->cq, 8);
		vt_qp_init(s->qp[i]);
		vt_qp_addr(&s->dev, s->qp[i], &s->mine[i]);
		s->mine[i].addr = (uintptr_t)bytes(s, i, 2 * MSG);
		s->mine[i].rkey = s->mr->rkey;
		vt_recv(s->qp[i], s->mr, at(i, 0), MSG, (uint64_t)i);
	}
	s->fd = vt_connect(s->args.host, s->args.port);
	for (int i = 0; i < n; i++) {
		vt_swap(s->fd, &s->mine[i], &s->theirs[i], sizeof(*s->mine));
		vt_qp_connect(&s->dev, s->qp[i], &s->mine[i], &s->theirs[i],
			      &s->args);
	}
	vt_barrier(s->fd);
}

static void teardown(struct side *s)
{
	for (int i = 0; i < s->args.qps; i++)
		VT_TRUE(ibv_destroy_qp(s->qp[i]) == 0);
	VT_TRUE(ibv_destroy_cq(s->cq) == 0);
	VT_TRUE(ibv_dereg_mr(s->mr) == 0);
	vt_dev_close(&s->dev);
	free(s->qp);
	free(s->mine);
	free(s->theirs);
	close(s->fd);
}

static uint64_t seed(int qp, long round, int what)
{
	return ((uint64_t)qp << 32) + ((uint64_t)round << 8) + (uint64_t)what;
}

/* Everything is on its way at once; completions come in any order. */
static void client_round(struct side *s, long round)
{
	int n = s->args.qps;
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		vt_fill(bytes(s, i, 2 * MSG + PAGE), PAGE, seed(i, round, 0));
		vt_rdma(s->qp[i], IBV_WR_RDMA_WRITE, s->mr,
			at(i, 2 * MSG + PAGE), PAGE, s->theirs[i].addr,
			s->theirs[i].rkey);
		vt_fill(bytes(s, i, MSG), MSG, seed(i, round, 1));
		vt_send(s->qp[i], s->mr, at(i, MSG), MSG, (uint64_t)i);
	}
	for (int i = 0; i < 3 * n; i++) {
		vt_poll_ok(s->cq, &wc);
		if (!(wc.opcode & IBV_WC_RECV))
			continue;
		int q = (int)wc.wr_id;

		VT_TRUE(wc.qp_num == s->qp[q]->qp_num);
		VT_TRUE(vt_check(bytes(s, q, 0), MSG, seed(q, round, 2)));
		vt_recv(s->qp[q], s->mr, at(q, 0), MSG, (uint64_t)q);
	}
}

/*
 * Each QP has its own round: one whose peer has not yet acknowledged the last
 * answer does not keep the client from the next round on the others.
 */
static void serve(struct side *s)
{
	long *rounds = calloc((size_t)s->args.qps, sizeof(*rounds));
	struct ibv_wc wc;

	VT_TRUE(rounds);
	for (long left = 2 * s->args.n * s->args.qps; left; left--) {
		vt_poll_ok(s->cq, &wc);
		if (!(wc.opcode & IBV_WC_RECV))
			continue;
		int q = (int)wc.wr_id;
		long round = rounds[q]++;

		VT_TRUE(wc.qp_num == s->qp[q]->qp_num);
		VT_TRUE(vt_check(bytes(s, q, 0), MSG, seed(q, round, 1)));
		VT_TRUE(vt_check(bytes(s, q, 2 * MSG), PAGE,
				 seed(q, round, 0)));
		vt_recv(s->qp[q], s->mr, at(q, 0), MSG, (uint64_t)q);
		vt_fill(bytes(s, q, MSG), MSG, seed(q, round, 2));
		vt_send(s->qp[q], s->mr, at(q, MSG), MSG, (uint64_t)q);
	}
	free(rounds);
}

int main(int argc, char **argv)
{
	struct side s = { .args = { .port = 18600,
				    .gid_index = -1,
				    .n = 5,
				    .qps = 1000,
				    .timeout = 16,
				    .retry = 7 } };

	vt_args(&s.args, argc, argv);
	setup(&s);
	if (!s.args.host)
		serve(&s);
	for (long r = 0; s.args.host && r < s.args.n; r++)
		client_round(&s, r);
	vt_barrier(s.fd);
	teardown(&s);
	printf("%ld rounds on %d QPs\n", s.args.n, s.args.qps);
	return 0;
}
