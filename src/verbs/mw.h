/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows, for the send calls. */
#ifndef UR_VERBS_MW_H
#define UR_VERBS_MW_H

#include "core/mw.h"
#include "verbs/objects.h"

struct urv_mw {
	struct ibv_mw ibv;
	struct ur_mw *core;
	struct urv_object_entry entry;
};

/* Fill in the bind request of mw, whose next key has the low byte of rkey. 0,
 * or EINVAL without a window. */
int urv_bind_fill(const struct urv_qp *qp, struct ur_mw_bind *b,
		  struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info);

/* The request is posted: its window shows the next key from now on. */
void urv_bind_posted(const struct ur_mw_bind *b);
/* It was not posted after all: the newest first. */
void urv_bind_undo(const struct ur_mw_bind *b);

#endif
