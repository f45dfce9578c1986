/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by ordinary and extended completion queues. */
#ifndef UR_VERBS_CQ_H
#define UR_VERBS_CQ_H

#include "verbs/objects.h"

/* NULL and errno; the caller fills in cq_context and the readers. */
struct urv_cq *urv_cq_create(struct urv_context *c, uint32_t cqe,
			     struct ibv_comp_channel *channel,
			     uint32_t comp_vector);

/* Moves a new queue into the parent domain's memory: 0, -ENOMEM. */
int urv_cq_use_domain_memory(struct urv_cq *cq, struct ibv_pd *domain);

/* Is there a completion, after driving the adapter if necessary? */
bool urv_cq_has_work(struct urv_cq *cq);

#endif
