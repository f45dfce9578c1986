/* SPDX-License-Identifier: BSD-2-Clause */
/* The completion queue has fewer entries than requests are posted. */
#include <unistd.h>

#include "broken.h"

static struct pair p = { .cqe = 16, .depth = 64, .all_signaled = 1 };

int main(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	pair_open(&p);
	for (int i = 0; i < 64; i++)
		if (post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, 64,
			    p.memory + SIZE, p.mr->rkey))
			break;
	for (int i = 0; i < 1000; i++) {
		need(!ibv_query_qp(p.a, &a, IBV_QP_STATE, &init),
		     "ibv_query_qp");
		if (a.qp_state == IBV_QPS_ERR)
			break;
		usleep(1000);
	}
	say(a.qp_state == IBV_QPS_ERR ? "the queue pair is in ERR" : "nothing");
	pair_close(&p);
	return 0;
}
