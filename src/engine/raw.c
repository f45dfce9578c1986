/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/raw.h"

#include <errno.h>

#include "engine/lane_raw.h"

static bool is_dead(const struct ur_lane *l)
{
	return atomic_load_explicit(&l->dead, memory_order_relaxed);
}

int ur_adapter_flow_create(struct ur_flow *f)
{
	struct ur_lane *l = f->qp->lane;
	struct ur_flow_table *t;
	int err;

	if (is_dead(l))
		return -ENODEV;
	err = ur_packet_allowed();
	if (err)
		return err;
	ur_lane_lock(l);
	t = ur_raw_flows(l->raw->raw);
	err = ur_flow_add(t, f);
	if (!err) {
		err = ur_raw_lane_refilter(l);
		if (err)
			ur_flow_del(t, f);
	}
	ur_lane_unlock(l);
	return err;
}

/* A flow whose queue pair was destroyed is in no list any more. */
void ur_adapter_flow_destroy(struct ur_lane *l, struct ur_flow *f)
{
	if (is_dead(l))
		return;
	ur_lane_lock(l);
	if (!ur_list_empty(&f->node)) {
		ur_flow_del(ur_raw_flows(l->raw->raw), f);
		(void)ur_raw_lane_refilter(l);
	}
	ur_lane_unlock(l);
}

int ur_adapter_wq_create(struct ur_adapter *a, struct ur_wq *wq,
			 const struct ur_wq_init *init)
{
	struct ur_lane *l;
	int err = ur_adapter_raw_lane(a, &l);

	if (!err)
		err = ur_wq_init(wq, init);
	if (err)
		return err == -ENOSPC ? -ENOMEM : err;
	wq->lane = l;
	wq->mrs = &a->mrs;
	ur_lane_lock(l);
	err = ur_raw_wq_attach(l->raw->raw, wq);
	ur_lane_unlock(l);
	if (err) {
		ur_wq_fini(wq);
		return -ENOMEM;
	}
	ur_adapter_feed(wq->cq, l);
	return 0;
}

int ur_adapter_wq_destroy(struct ur_wq *wq)
{
	struct ur_lane *l = wq->lane;

	if (is_dead(l))
		return -ENODEV;
	if (atomic_load(&wq->users))
		return -EBUSY;
	ur_lane_lock(l);
	ur_raw_wq_detach(l->raw->raw, wq);
	ur_lane_unlock(l);
	ur_wq_fini(wq);
	return 0;
}

int ur_adapter_wq_modify(struct ur_wq *wq, enum ur_wq_state to, bool strip_vlan)
{
	struct ur_lane *l = wq->lane;
	int err;

	if (is_dead(l))
		return -ENODEV;
	ur_lane_lock(l);
	err = ur_raw_wq_modify(l->raw->raw, wq, to, ur_clock_ns());
	if (!err)
		wq->strip_vlan = strip_vlan;
	ur_lane_unlock(l);
	return err;
}

void ur_adapter_wq_flush(struct ur_wq *wq)
{
	struct ur_lane *l = wq->lane;

	if (is_dead(l))
		return;
	ur_lane_lock(l);
	ur_raw_wq_flush(l->raw->raw, wq, ur_clock_ns());
	ur_lane_unlock(l);
}
