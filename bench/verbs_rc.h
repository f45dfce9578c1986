/* SPDX-License-Identifier: BSD-2-Clause */
/* RC queue pairs on one device, for programs that call verbs themselves. */
#ifndef URNIC_BENCH_VERBS_RC_H
#define URNIC_BENCH_VERBS_RC_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* Dies of what if p is NULL. */
void rc_need(const void *p, const char *what);

/* The device of that name. */
struct ibv_context *rc_open(const char *name);

/* With queues of so many requests of one piece. */
struct ibv_qp *rc_create(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth);

/* Completions taken, at most 16; dies of one that failed. */
unsigned int rc_poll(struct ibv_cq *cq);

/* A protection domain with a thread domain of its own beside pd. */
struct ibv_pd *rc_domain(struct ibv_pd *pd, struct ibv_td **td);

/* Through all states to RTS, to a peer on this host. */
void rc_connect(struct ibv_qp *qp, uint32_t peer);

#endif
