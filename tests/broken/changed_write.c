/* SPDX-License-Identifier: BSD-2-Clause */
/* The source of a WRITE is overwritten before the completion was polled. */
#include <string.h>

#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	need(!post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, SIZE,
		      p.memory + SIZE, p.mr->rkey),
	     "post");
	memset(p.memory, 1, SIZE);
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
