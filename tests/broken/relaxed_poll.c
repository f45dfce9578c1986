/* SPDX-License-Identifier: BSD-2-Clause */
/* The last byte of a WRITE is polled in memory with relaxed ordering. */
#include "broken.h"

static struct pair p;
static uint8_t inbox[SIZE];

int main(void)
{
	struct ibv_mr *mr;
	struct ibv_wc wc;

	pair_open(&p);
	mr = ibv_reg_mr(p.pd, inbox, SIZE,
			RIGHTS | IBV_ACCESS_RELAXED_ORDERING);
	need(mr != NULL, "ibv_reg_mr");
	p.memory[SIZE - 1] = 1;
	need(!post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, SIZE, inbox,
		      mr->rkey),
	     "post");
	while (!((volatile uint8_t *)inbox)[SIZE - 1])
		;
	wc = next(p.cq);
	say_status(&wc);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(&p);
	return 0;
}
