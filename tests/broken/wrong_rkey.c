/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer uses the region of another buffer: its address is outside. */
#include "broken.h"

static struct pair p;

int main(void)
{
	static uint8_t other[SIZE];
	struct ibv_wc wc;

	pair_open(&p);
	need(!post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, 64, other,
		      p.mr->rkey),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
