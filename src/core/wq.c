/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ur_wq_init(struct ur_wq *wq, const struct ur_wq_init *init)
{
	int err;

	memset(wq, 0, sizeof(*wq));
	if (init->max_wr == 0)
		return -EINVAL;
	err = ur_rq_init(&wq->rq, init->max_wr, init->max_sge, UR_MAX_WR);
	if (err)
		return err;
	wq->pd = init->pd;
	wq->cq = init->cq;
	wq->strip_vlan = init->strip_vlan;
	wq->async = init->async;
	wq->object = init->object;
	atomic_fetch_add(&wq->pd->users, 1);
	atomic_fetch_add(&wq->cq->users, 1);
	return 0;
}

void ur_wq_fini(struct ur_wq *wq)
{
	ur_cq_purge(wq->cq, wq);
	if (wq->async)
		ur_evq_drain(wq->async, &wq->async_source);
	ur_rq_fini(&wq->rq);
	atomic_fetch_sub(&wq->cq->users, 1);
	atomic_fetch_sub(&wq->pd->users, 1);
}

bool ur_wq_may_become(enum ur_wq_state from, enum ur_wq_state to)
{
	static const bool table[3][3] = {
		[UR_WQS_RESET] = { [UR_WQS_RESET] = true, [UR_WQS_RDY] = true },
		[UR_WQS_RDY] = { true, true, true },
		[UR_WQS_ERR] = { [UR_WQS_RESET] = true, [UR_WQS_ERR] = true },
	};

	return (unsigned int)from < 3 && (unsigned int)to < 3 &&
	       table[from][to];
}

struct ur_wq_table *ur_wq_table_create(struct ur_wq *const *wqs, uint32_t log)
{
	uint32_t n = 1u << log;
	struct ur_wq_table *t = calloc(1, sizeof(*t) + n * sizeof(t->wqs[0]));

	if (!t)
		return NULL;
	t->mask = n - 1;
	for (uint32_t i = 0; i < n; i++) {
		t->wqs[i] = wqs[i];
		atomic_fetch_add(&wqs[i]->users, 1);
	}
	return t;
}

int ur_wq_table_destroy(struct ur_wq_table *t)
{
	if (atomic_load(&t->users))
		return -EBUSY;
	for (uint32_t i = 0; i <= t->mask; i++)
		atomic_fetch_sub(&t->wqs[i]->users, 1);
	free(t);
	return 0;
}
