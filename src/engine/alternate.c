/* SPDX-License-Identifier: BSD-2-Clause */
/* The alternate path that the peer of a connection has offered (LAP). */
#include <errno.h>

#include "engine/internal.h"

int ur_adapter_qp_alternate(struct ur_adapter *a, uint32_t qpn,
			    uint32_t dest_qpn, const struct ur_av *av,
			    uint8_t timeout)
{
	struct ur_qp_attr attr = { .path_mig_state = UR_MIG_REARM,
				   .alt_av = *av,
				   .alt_port_num = av->port_num,
				   .alt_timeout = timeout };
	struct ur_lane *l = ur_adapter_lane_of(a, qpn);
	int err = -ENOENT;
	struct ur_qp *qp;

	if (!l || atomic_load_explicit(&l->dead, memory_order_relaxed))
		return -ENOENT;
	ur_lane_lock(l);
	qp = ur_roce_qp_find(l->roce, qpn);
	if (qp && qp->attr.dest_qpn == dest_qpn)
		err = l->ops->modify(l, qp, &attr,
				     UR_QP_ALT_PATH | UR_QP_PATH_MIG_STATE,
				     ur_clock_ns());
	ur_lane_unlock(l);
	return err;
}
