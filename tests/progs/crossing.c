/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of one thread send to each other, and nothing is polled
 * meanwhile.  Then one of them is moved to ERR.  An adapter in hardware would
 * long have delivered and acknowledged what the other one posted: all of that
 * completes with success, and not after retries.
 */
#include <stdio.h>
#include <string.h>

#include "vt.h"

#define DEPTH	256u
#define SLOT	8192u
#define WARM_UP 1000u

static struct vt_args args = {
	.gid_index = -1, .n = 3, .size = SLOT, .timeout = 14, .retry = 3
};

struct side {
	struct vt_dev dev;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct vt_addr addr;
};

static void open_side(struct side *s)
{
	vt_dev_open(&s->dev, args.gid_index);
	s->cq = ibv_create_cq(s->dev.ctx, 4 * DEPTH, NULL, NULL, 0);
	VT_TRUE(s->cq);
	s->mr = vt_mr(&s->dev, 2 * (size_t)args.size);
}

static void close_side(struct side *s)
{
	VT_TRUE(ibv_dereg_mr(s->mr) == 0);
	VT_TRUE(ibv_destroy_cq(s->cq) == 0);
	vt_dev_close(&s->dev);
}

static void make_qp(struct side *s)
{
	s->qp = vt_qp_create(&s->dev, s->cq, s->cq, DEPTH);
	vt_qp_init(s->qp);
	vt_qp_addr(&s->dev, s->qp, &s->addr);
}

static void post_receives(const struct side *s)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		vt_recv(s->qp, s->mr, (size_t)args.size, (uint32_t)args.size,
			DEPTH + i);
}

/* Some messages back and forth, after which they pass through memory. */
static void warm_up(struct side *a, struct side *b)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < WARM_UP; i++) {
		struct side *from = i % 2 ? a : b, *to = i % 2 ? b : a;

		vt_recv(to->qp, to->mr, 0, SLOT, i);
		vt_send(from->qp, from->mr, 0, 8, i);
		vt_poll_ok(to->cq, &wc);
		vt_poll_ok(from->cq, &wc);
	}
}

/* Its SENDs complete in order, all with success. */
static void take_all(struct side *s)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < DEPTH;) {
		vt_poll_ok(s->cq, &wc);
		if (wc.wr_id < DEPTH)
			VT_TRUE(wc.wr_id == i++);
	}
}

/* How many of the SENDs that were under way were flushed is its own affair. */
static void drain(struct side *s)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < 2 * DEPTH; i++)
		vt_poll(s->cq, &wc);
}

static void cross(struct side *a, struct side *b)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	make_qp(a);
	make_qp(b);
	vt_qp_connect(&a->dev, a->qp, &a->addr, &b->addr, &args);
	vt_qp_connect(&b->dev, b->qp, &b->addr, &a->addr, &args);
	warm_up(a, b);
	post_receives(a);
	post_receives(b);
	for (uint32_t i = 0; i < DEPTH; i++) {
		vt_send(a->qp, a->mr, 0, (uint32_t)args.size, i);
		vt_send(b->qp, b->mr, 0, (uint32_t)args.size, i);
	}
	VT_TRUE(ibv_modify_qp(a->qp, &error, IBV_QP_STATE) == 0);
	drain(a);
	take_all(b);
	VT_TRUE(ibv_destroy_qp(a->qp) == 0);
	VT_TRUE(ibv_destroy_qp(b->qp) == 0);
}

int main(int argc, char **argv)
{
	static struct side a, b;

	vt_args(&args, argc, argv);
	open_side(&a);
	open_side(&b);
	for (long i = 0; i < args.n; i++)
		cross(&a, &b);
	close_side(&b);
	close_side(&a);
	printf("%ld rounds\n", args.n);
	return 0;
}
