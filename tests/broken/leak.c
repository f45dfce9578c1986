/* SPDX-License-Identifier: BSD-2-Clause */
/* The device is closed, and a region, and with it its protection domain, is forgotten. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_mr *forgotten;

	pair_open(&p);
	forgotten = ibv_reg_mr(p.pd, p.memory, SIZE, RIGHTS);
	need(forgotten != NULL, "ibv_reg_mr");
	need(!ibv_destroy_qp(p.a), "ibv_destroy_qp");
	need(!ibv_destroy_qp(p.b), "ibv_destroy_qp");
	need(!ibv_dereg_mr(p.mr), "ibv_dereg_mr");
	need(!ibv_destroy_cq(p.cq), "ibv_destroy_cq");
	say_error("ibv_close_device", ibv_close_device(p.context));
	return 0;
}
