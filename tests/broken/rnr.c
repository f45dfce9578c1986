/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer sends before a receive is posted. */
#include "broken.h"

static struct pair p = { .rnr_retry = 1 };

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	need(!post(p.a, IBV_WR_SEND, p.memory, p.mr->lkey, 64,
		   IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
