/* SPDX-License-Identifier: BSD-2-Clause */
/* The region of a SEND is of another protection domain. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	pair_open(&p);
	pd = ibv_alloc_pd(p.context);
	mr = ibv_reg_mr(pd, p.memory, SIZE, RIGHTS);
	need(mr != NULL, "ibv_reg_mr");
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, SIZE), "receive");
	need(!post(p.a, IBV_WR_SEND, p.memory, mr->lkey, 64, IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	need(!ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	pair_close(&p);
	return 0;
}
