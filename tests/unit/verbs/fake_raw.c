/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows and work queues of the adapter without lanes: recorded only. */
#include <errno.h>

#include "engine/raw.h"
#include "fake_raw.h"

struct ur_flow *ur_fake_flow;

int ur_adapter_flow_create(struct ur_flow *f)
{
	ur_fake_flow = f;
	return 0;
}

void ur_adapter_flow_destroy(struct ur_lane *l, struct ur_flow *f)
{
	if (ur_fake_flow == f)
		ur_fake_flow = NULL;
}

int ur_adapter_wq_create(struct ur_adapter *a, struct ur_wq *wq,
			 const struct ur_wq_init *init)
{
	return ur_wq_init(wq, init);
}

int ur_adapter_wq_destroy(struct ur_wq *wq)
{
	if (atomic_load(&wq->users))
		return -EBUSY;
	ur_wq_fini(wq);
	return 0;
}

int ur_adapter_wq_modify(struct ur_wq *wq, enum ur_wq_state to, bool strip_vlan)
{
	if (!ur_wq_may_become(atomic_load(&wq->state), to))
		return -EINVAL;
	atomic_store(&wq->state, to);
	wq->strip_vlan = strip_vlan;
	return 0;
}

void ur_adapter_wq_flush(struct ur_wq *wq)
{
}
