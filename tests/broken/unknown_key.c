/* SPDX-License-Identifier: BSD-2-Clause */
/* The key of a SEND is no key: the program has mixed up two numbers. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, SIZE), "receive");
	need(!post(p.a, IBV_WR_SEND, p.memory, p.mr->handle, 64,
		   IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
