/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a correct program may do with memory that it never wrote: hand it to
 * the device, and look at it once a peer has written there.  Runs under
 * memcheck, which must have nothing to say.  -M fault looks too early, which
 * memcheck must see.
 */
#include <stdlib.h>
#include <string.h>

#include "vt.h"

#define RIGHTS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define SIZE  6000u
#define PIECE 1500u

static struct vt_dev dev;

/* Fresh from malloc(): undefined. */
static struct ibv_mr *fresh(void)
{
	void *p = malloc(SIZE);

	VT_TRUE(p);
	struct ibv_mr *mr = ibv_reg_mr(dev.pd, p, SIZE, RIGHTS);

	VT_TRUE(mr);
	return mr;
}

static void drop(struct ibv_mr *mr)
{
	void *p = mr->addr;

	VT_TRUE(ibv_dereg_mr(mr) == 0);
	free(p);
}

static __attribute__((noinline)) unsigned int count(unsigned int n)
{
	return n + 1;
}

/* Every byte of it decides where the program goes. */
static unsigned int look(const struct ibv_mr *mr, size_t offset, size_t size)
{
	/* Not to be taken for needless. */
	const volatile uint8_t *p = (const uint8_t *)mr->addr + offset;
	unsigned int odd = 0;

	for (size_t i = 0; i < size; i++)
		if (p[i] & 1)
			odd = count(odd);
	return odd;
}

/* The message has holes that the program does not care about. */
static void send_holes(struct vt_loop *l)
{
	struct ibv_mr *from = fresh(), *to = fresh();
	struct ibv_wc wc;

	memset(from->addr, 1, PIECE);
	vt_recv(l->b, to, 0, 2 * PIECE, 1);
	vt_send(l->a, from, 0, 2 * PIECE, 2);
	vt_poll_ok(l->cq, &wc);
	vt_poll_ok(l->cq, &wc);
	VT_TRUE(look(to, 0, PIECE) == PIECE);
	(void)look(to, PIECE, PIECE);
	drop(from);
	drop(to);
}

static void write_and_read(struct vt_loop *l)
{
	struct ibv_mr *here = fresh(), *there = fresh();
	uint64_t at = (uintptr_t)there->addr;
	struct ibv_wc wc;

	vt_rdma(l->a, IBV_WR_RDMA_WRITE, here, 0, SIZE, at, there->rkey);
	vt_poll_ok(l->cq, &wc);
	(void)look(there, 0, SIZE);
	drop(here);
	here = fresh();
	vt_rdma(l->a, IBV_WR_RDMA_READ, here, 0, SIZE, at, there->rkey);
	vt_poll_ok(l->cq, &wc);
	(void)look(here, 0, SIZE);
	drop(here);
	drop(there);
}

static void fetch_and_add(struct vt_loop *l)
{
	struct ibv_mr *here = fresh(), *there = fresh();
	struct ibv_sge sge = { (uintptr_t)here->addr, 8, here->lkey };
	struct ibv_send_wr *bad;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	memset(there->addr, 1, 8);
	wr.wr.atomic.remote_addr = (uintptr_t)there->addr;
	wr.wr.atomic.rkey = there->rkey;
	wr.wr.atomic.compare_add = 2;
	VT_TRUE(ibv_post_send(l->a, &wr, &bad) == 0);
	vt_poll_ok(l->cq, &wc);
	VT_TRUE(look(here, 0, 8) == 8);
	VT_TRUE(look(there, 0, 8) == 8);
	drop(here);
	drop(there);
}

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1 };
	struct vt_loop l;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	vt_loop_open(&dev, &l);
	send_holes(&l);
	write_and_read(&l);
	fetch_and_add(&l);
	if (args.mode && strcmp(args.mode, "fault") == 0) {
		struct ibv_mr *mr = fresh();

		(void)look(mr, 0, SIZE);
		drop(mr);
	}
	vt_loop_close(&l);
	vt_dev_close(&dev);
	return 0;
}
