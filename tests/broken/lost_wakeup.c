/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue is armed after it was polled, and the thread sleeps at once. */
#include <unistd.h>

#include "broken.h"

static struct pair p = { .channel_wanted = 1 };

int main(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	pair_open(&p);
	need(ibv_poll_cq(p.cq, 1, &wc) == 0, "ibv_poll_cq");
	need(!post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, 64,
		      p.memory + SIZE, p.mr->rkey),
	     "post");
	/* Here, between poll and arm, the completion comes. */
	usleep(100000);
	need(!ibv_req_notify_cq(p.cq, 0), "ibv_req_notify_cq");
	hangs_in("ibv_get_cq_event");
	need(!ibv_get_cq_event(p.channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	pair_close(&p);
	return 0;
}
