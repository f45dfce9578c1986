/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbered messages that two sides send each other over one queue pair, while
 * something happens to it; each is checked, and comes once and in order. */
#ifndef URNIC_TESTS_FLOW_H
#define URNIC_TESTS_FLOW_H

#include "vt.h"

#define FLOW_DEPTH 16u
#define FLOW_SIZE  4096u

struct flow {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* FLOW_DEPTH messages to send, as many received */
	bool server;
	uint64_t posted;
	uint64_t sent;
	uint64_t received;
};

/* The first receives: qp is in INIT. */
void flow_begin(struct flow *f);
void flow_post(struct flow *f);
/* Takes one completion. */
void flow_complete(struct flow *f);
/* n more messages each way; both sides call it. */
void flow_exchange(struct flow *f, uint64_t n);

#endif
