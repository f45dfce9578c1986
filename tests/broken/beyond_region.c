/* SPDX-License-Identifier: BSD-2-Clause */
/* A SEND begins at a header that was not counted: it ends beyond its region. */
#include "broken.h"

#define HEADER 16u

static struct pair p;

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	need(!receive(p.b, p.memory, p.mr->lkey, SIZE), "receive");
	need(!post(p.a, IBV_WR_SEND, p.memory + SIZE + HEADER, p.mr->lkey, SIZE,
		   IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
