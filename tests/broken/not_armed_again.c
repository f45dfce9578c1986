/* SPDX-License-Identifier: BSD-2-Clause */
/* After an event the queue is not armed again. */
#include "broken.h"

static struct pair p = { .channel_wanted = 1 };

int main(void)
{
	struct ibv_cq *cq;
	void *context;

	pair_open(&p);
	need(!ibv_req_notify_cq(p.cq, 0), "ibv_req_notify_cq");
	hangs_in("ibv_get_cq_event");
	for (int i = 0; i < 2; i++) {
		need(!post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, 64,
			      p.memory + SIZE, p.mr->rkey),
		     "post");
		need(!ibv_get_cq_event(p.channel, &cq, &context),
		     "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		next(p.cq);
	}
	pair_close(&p);
	return 0;
}
