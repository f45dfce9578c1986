/* SPDX-License-Identifier: BSD-2-Clause */
/* An asynchronous event is not acknowledged: the SRQ cannot be destroyed. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_async_event event;
	struct ibv_srq *srq;

	pair_open(&p);
	srq = ibv_create_srq(p.pd, &init);
	need(srq != NULL, "ibv_create_srq");
	/* It is empty: the event comes at once. */
	need(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "ibv_modify_srq");
	need(!ibv_get_async_event(p.context, &event), "ibv_get_async_event");
	hangs_in("ibv_destroy_srq");
	need(!ibv_destroy_srq(srq), "ibv_destroy_srq");
	pair_close(&p);
	return 0;
}
