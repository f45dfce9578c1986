/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains.  A parent domain stands for a protection
 * domain and adds to what is made with it: a lane of its own, by a thread
 * domain, and memory of the application's choice for queues.
 */
#ifndef UR_VERBS_DOMAIN_H
#define UR_VERBS_DOMAIN_H

#include "verbs/objects.h"

/*
 * One object with queues more, which keeps a parent domain from being freed.
 * Returns where it wants its queues, or NULL.  Any pd, NULL included.
 */
const struct ur_ring_source *urv_domain_enter(const struct ibv_pd *pd);
void urv_domain_leave(const struct ibv_pd *pd);
/* What to keep for leaving: pd if it is a parent domain, which then stays,
 * else NULL.  Another handle may be gone before the objects made with it. */
const struct ibv_pd *urv_domain_of(const struct ibv_pd *pd);

/* The lane of its queue pairs, made by the first; NULL: any. */
struct ur_lane *urv_domain_lane(const struct ibv_pd *pd);

/* pd.c.  A reference less to a protection domain. */
void urv_pd_put(struct urv_pd *root);
/* Destroy it, whatever handles there are: 0, or -EBUSY; tells importers. */
int urv_pd_end(struct urv_pd *root, bool wait);

/* The handle is of a parent domain.  May it go: 0, or -EBUSY; and its end. */
int urv_parent_end(const struct urv_pd *pd);
void urv_parent_free(struct urv_pd *pd);

#endif
