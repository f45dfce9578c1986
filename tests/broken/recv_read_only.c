/* SPDX-License-Identifier: BSD-2-Clause */
/* A receive has memory that was registered for sending. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;
	struct ibv_mr *mr;

	pair_open(&p);
	mr = ibv_reg_mr(p.pd, p.memory + SIZE, SIZE, 0);
	need(mr != NULL, "ibv_reg_mr");
	need(!receive(p.b, p.memory + SIZE, mr->lkey, SIZE), "receive");
	need(!post(p.a, IBV_WR_SEND, p.memory, p.mr->lkey, 64,
		   IBV_SEND_SIGNALED),
	     "post");
	/* Both ends have a completion. */
	wc = next(p.cq);
	if (wc.qp_num == p.b->qp_num)
		wc = next(p.cq);
	say_status(&wc);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(&p);
	return 0;
}
