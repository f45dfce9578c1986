/* SPDX-License-Identifier: BSD-2-Clause */
/* A builder names memory that is deregistered. */
#include "broken.h"

static struct pair p = { .builders = 1 };

int main(void)
{
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint32_t key;

	pair_open(&p);
	mr = ibv_reg_mr(p.pd, p.memory, SIZE, 0);
	need(mr != NULL, "ibv_reg_mr");
	key = mr->lkey;
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	ex = ibv_qp_to_qp_ex(p.a);
	ibv_wr_start(ex);
	ex->wr_id = 7;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, p.mr->rkey, (uintptr_t)p.memory + SIZE);
	ibv_wr_set_sge(ex, key, (uintptr_t)p.memory, 64);
	need(!ibv_wr_complete(ex), "ibv_wr_complete");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
