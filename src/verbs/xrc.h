/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains and their target queue pairs.  A domain that was opened with a
 * file is the same for all who open it with that inode; a target ends with its
 * last handle, of which ibv_open_qp(3) makes further ones.
 */
#ifndef UR_VERBS_XRC_H
#define UR_VERBS_XRC_H

#include "core/xrc.h"
#include "verbs/objects.h"

struct urv_domain;

struct urv_xrcd {
	struct ibv_xrcd ibv;
	struct urv_domain *domain;
	_Atomic uint32_t users; /* made with this handle: closing needs 0 */
	uint32_t handle;
};

static inline struct urv_xrcd *urv_xrcd(const struct ibv_xrcd *x)
{
	return (struct urv_xrcd *)(uintptr_t)x;
}

/* What queues and targets of the domain refer to. */
struct ur_xrcd *urv_xrcd_core(const struct urv_xrcd *x);

/* The target becomes that of the handle, which has no core of its own but its
 * place for events: 0 or -errno.  find: -EINVAL: the domain has none with that
 * number; -EOPNOTSUPP: it would be another process' one. */
int urv_target_create(struct urv_qp *qp, struct urv_context *c,
		      struct urv_xrcd *x);
int urv_target_find(struct urv_qp *qp, struct urv_context *c,
		    struct urv_xrcd *x, uint32_t qpn);

/* The handle gives it up; waits for its events to be acknowledged. */
int urv_target_put(struct urv_qp *qp);

#endif
