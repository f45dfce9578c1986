/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffer of a posted receive is used to build a message. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	need(!receive(p.a, p.memory, p.mr->lkey, 64), "receive");
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, 64), "receive");
	p.memory[0] = 1;
	need(!post(p.a, IBV_WR_SEND, p.memory, p.mr->lkey, 64,
		   IBV_SEND_SIGNALED),
	     "post");
	do
		wc = next(p.cq);
	while (wc.qp_num != p.a->qp_num);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
