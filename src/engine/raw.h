/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows and work queues of an adapter, as the driver side sees them; threads and
 * return values as in engine.h.
 */
#ifndef UR_ENGINE_RAW_H
#define UR_ENGINE_RAW_H

#include "core/qp.h"
#include "core/wq.h"
#include "raw/flow.h"

struct ur_adapter;

/*
 * Steers the packets that f->qp's flow describes.  -EPERM: no CAP_NET_RAW;
 * -EINVAL: no packet matches; -ENOMEM.  The flow stays the caller's, unchanged,
 * until it is destroyed on the same lane (f->qp->lane), perhaps after its QP.
 */
int ur_adapter_flow_create(struct ur_flow *f);
void ur_adapter_flow_destroy(struct ur_lane *l, struct ur_flow *f);

/* -EOPNOTSUPP: the device has none; else as ur_wq_init(). */
int ur_adapter_wq_create(struct ur_adapter *a, struct ur_wq *wq,
			 const struct ur_wq_init *init);
int ur_adapter_wq_destroy(struct ur_wq *wq);

/* Into a state, with its tags stripped or not. */
int ur_adapter_wq_modify(struct ur_wq *wq, enum ur_wq_state to,
			 bool strip_vlan);

/* Receives were posted to a queue in error. */
void ur_adapter_wq_flush(struct ur_wq *wq);

#endif
