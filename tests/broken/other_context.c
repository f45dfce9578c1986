/* SPDX-License-Identifier: BSD-2-Clause */
/* The region is of another context of the same device. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *other;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct ibv_wc wc;

	pair_open(&p);
	need(list && list[0], "ibv_get_device_list");
	other = ibv_open_device(list[0]);
	need(other != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(other);
	mr = pd ? ibv_reg_mr(pd, p.memory, SIZE, 0) : NULL;
	need(mr != NULL, "ibv_reg_mr");
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, SIZE), "receive");
	need(!post(p.a, IBV_WR_SEND, p.memory, mr->lkey, 64, IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	need(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) &&
		     !ibv_close_device(other),
	     "other context");
	pair_close(&p);
	return 0;
}
