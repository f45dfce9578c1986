/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows, as the send calls see them. */
#ifndef UR_VERBS_MW_H
#define UR_VERBS_MW_H

#include "core/mw.h"
#include "verbs/objects.h"

struct urv_mw {
	struct ibv_mw ibv;
	struct ur_mw *core;
};

/*
 * Fill in the request to bind mw, which must be of that type, and whose next
 * key has the low byte of rkey.  0, or EINVAL for what can never succeed.
 */
int urv_bind_fill(const struct urv_qp *qp, struct ur_mw_bind *b,
		  enum ur_mw_type type, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info);

#endif
