/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer has destroyed its queue pair, without a word to this side. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	need(!ibv_destroy_qp(p.b), "ibv_destroy_qp");
	p.b = NULL;
	need(!post(p.a, IBV_WR_SEND, p.memory, p.mr->lkey, 64,
		   IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
