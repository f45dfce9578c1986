/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory is unmapped, but not deregistered, and then sent. */
#include <sys/mman.h>

#include "broken.h"

static struct pair p;

int main(void)
{
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	struct ibv_wc wc;

	pair_open(&p);
	need(at != MAP_FAILED, "mmap");
	mr = ibv_reg_mr(p.pd, at, SIZE, 0);
	need(mr != NULL, "ibv_reg_mr");
	need(!munmap(at, SIZE), "munmap");
	need(!receive(p.b, p.memory, p.mr->lkey, SIZE), "receive");
	need(!post(p.a, IBV_WR_SEND, at, mr->lkey, 64, IBV_SEND_SIGNALED),
	     "post");
	wc = next(p.cq);
	say_status(&wc);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(&p);
	return 0;
}
