/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations on the list of a tag matching queue. */
#include <errno.h>

#include "core/tm.h"
#include "verbs/objects.h"
#include "verbs/ops.h"

#define FLAGS (IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC)

static int fill_add(struct ur_tm_wr *to, const struct ibv_ops_wr *wr)
{
	const struct ibv_sge *s = wr->tm.add.sg_list;

	if (wr->tm.add.num_sge < 0 ||
	    (uint32_t)wr->tm.add.num_sge > UR_TM_MAX_SGE)
		return EINVAL;
	to->op = UR_TM_ADD;
	to->recv_wr_id = wr->tm.add.recv_wr_id;
	to->tag = wr->tm.add.tag;
	to->mask = wr->tm.add.mask;
	if (wr->tm.add.num_sge)
		to->sge = (struct ur_sge){ s->addr, s->length, s->lkey };
	return 0;
}

static int fill(struct ur_tm_wr *to, const struct ibv_ops_wr *wr)
{
	if (wr->flags & ~FLAGS)
		return EINVAL;
	*to = (struct ur_tm_wr){
		.wr_id = wr->wr_id,
		.signaled = wr->flags & IBV_OPS_SIGNALED,
		.sync = wr->flags & IBV_OPS_TM_SYNC,
		.seen = (uint16_t)wr->tm.unexpected_cnt,
		.handle = wr->tm.handle,
	};
	switch (wr->opcode) {
	case IBV_WR_TAG_ADD:
		return fill_add(to, wr);
	case IBV_WR_TAG_DEL:
		to->op = UR_TM_DEL;
		return 0;
	case IBV_WR_TAG_SYNC:
		to->op = UR_TM_SYNC;
		to->sync = true;
		return 0;
	}
	return EINVAL;
}

static int post_one(struct urv_srq *srq, struct ibv_ops_wr *wr)
{
	struct ur_tm_wr to;
	int rc = fill(&to, wr);

	if (rc)
		return rc;
	rc = -ur_tm_post(&srq->core, &to, ur_adapter_now());
	if (!rc && to.op == UR_TM_ADD)
		wr->tm.handle = to.handle;
	return rc;
}

int urv_post_srq_ops(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr,
		     struct ibv_ops_wr **bad_wr)
{
	struct urv_srq *srq = urv_srq(ibsrq);
	int rc = 0;

	if (srq->generation != urv_generation)
		rc = ENODEV;
	else if (!srq->core.tm)
		rc = EINVAL;
	for (; !rc && wr; wr = wr->next) {
		rc = post_one(srq, wr);
		if (rc)
			break;
	}
	if (rc)
		*bad_wr = wr;
	return rc;
}
