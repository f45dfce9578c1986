/* SPDX-License-Identifier: BSD-2-Clause */
/* Two places of the program think that the region is theirs. */
#include "broken.h"

static struct pair p;

static void release(struct ibv_mr *mr)
{
	int rc = ibv_dereg_mr(mr);

	if (rc)
		say_error("ibv_dereg_mr", rc);
}

int main(void)
{
	struct ibv_mr *mr;

	pair_open(&p);
	mr = ibv_reg_mr(p.pd, p.memory, SIZE, RIGHTS);
	need(mr != NULL, "ibv_reg_mr");
	release(mr);
	release(mr);
	pair_close(&p);
	return 0;
}
