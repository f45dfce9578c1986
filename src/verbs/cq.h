/* SPDX-License-Identifier: BSD-2-Clause */
/* What ordinary and extended completion queues share. */
#ifndef UR_VERBS_CQ_H
#define UR_VERBS_CQ_H

#include "verbs/objects.h"

/* NULL and errno; cq_context and the readers are the caller's to fill in. */
struct urv_cq *urv_cq_create(struct urv_context *c, uint32_t cqe,
			     struct ibv_comp_channel *channel,
			     uint32_t comp_vector);

/* A new queue goes where the parent domain wants it: 0, -ENOMEM. */
int urv_cq_use_domain_memory(struct urv_cq *cq, struct ibv_pd *domain);

/* Is there something to take, after driving the adapter if need be? */
bool urv_cq_has_work(struct urv_cq *cq);

#endif
