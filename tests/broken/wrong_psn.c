/* SPDX-License-Identifier: BSD-2-Clause */
/* The two sides do not agree on the first PSN. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_qp *a, *b;
	struct ibv_wc wc;

	pair_open(&p);
	a = make_qp(&p);
	b = make_qp(&p);
	to_init(a);
	to_init(b);
	to_rtr(&p, a, b->qp_num, 1);
	to_rtr(&p, b, a->qp_num, 5000000);
	to_rts(&p, a, 2);
	to_rts(&p, b, 1);
	show_qp(a);
	need(!receive(b, p.memory + SIZE, p.mr->lkey, SIZE), "receive");
	need(!post(a, IBV_WR_SEND, p.memory, p.mr->lkey, 64, IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	need(!ibv_destroy_qp(a), "ibv_destroy_qp");
	need(!ibv_destroy_qp(b), "ibv_destroy_qp");
	pair_close(&p);
	return 0;
}
