/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains. A parent domain is a handle of a
 * protection domain with attributes for objects created with it: a lane of its
 * own, by a thread domain, and memory of the application's choice for queues.
 */
#ifndef UR_VERBS_DOMAIN_H
#define UR_VERBS_DOMAIN_H

#include "verbs/objects.h"

/* Count an object with queues, which keeps a parent domain from being freed.
 * Returns the source of its queues' memory, or NULL. Any pd, including NULL. */
const struct ur_ring_source *urv_domain_enter(const struct ibv_pd *pd);
void urv_domain_leave(const struct ibv_pd *pd);
/* What to keep for leaving: pd if it is a parent domain, which then stays, else
 * NULL. Another handle may be freed before the objects created with it. */
const struct ibv_pd *urv_domain_of(const struct ibv_pd *pd);

/* The lane of its queue pairs, created by the first; NULL: any. */
struct ur_lane *urv_domain_lane(const struct ibv_pd *pd);

/* pd.c, for export.c. */
int urv_pd_end(struct urv_shared *s, bool wait);
void urv_pd_free(struct urv_shared *s);

/* For a handle of a parent domain. May it be freed: 0, or -EBUSY; free it. */
int urv_parent_end(const struct urv_pd *pd);
void urv_parent_free(struct urv_pd *pd);

#endif
