/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a SEND is deregistered before the SEND is posted. */
#include "broken.h"

static struct pair p;

/* Returns the key of memory that it has used and given back. */
static uint32_t prepare(void)
{
	struct ibv_mr *mr = ibv_reg_mr(p.pd, p.memory, SIZE, 0);
	uint32_t key;

	need(mr != NULL, "ibv_reg_mr");
	key = mr->lkey;
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	return key;
}

int main(void)
{
	struct ibv_wc wc;
	uint32_t key;

	pair_open(&p);
	key = prepare();
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, SIZE), "receive");
	need(!post(p.a, IBV_WR_SEND, p.memory, key, 64, IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
