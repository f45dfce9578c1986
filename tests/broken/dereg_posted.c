/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a posted receive is deregistered. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_mr *mr;

	pair_open(&p);
	mr = ibv_reg_mr(p.pd, p.memory, SIZE, IBV_ACCESS_LOCAL_WRITE);
	need(mr != NULL, "ibv_reg_mr");
	need(!receive(p.a, p.memory, mr->lkey, 64), "receive");
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	say("nothing");
	pair_close(&p);
	return 0;
}
