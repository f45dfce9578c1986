/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of raw/. */
#ifndef UR_RAW_INTERNAL_H
#define UR_RAW_INTERNAL_H

#include "raw/raw.h"

struct ur_rawqp {
	struct ur_raw *r;
	struct ur_qp *qp;
	/* In ur_raw.senders, or in .paced: above its rate. */
	struct ur_list sending;
	uint32_t collected;  /* frames collected and not yet sent */
	uint64_t rate_at_ns; /* core/rate.h */
};

/* An entry of the number table: a queue pair or a work queue. */
struct ur_rawnum {
	struct ur_rawqp *qp;
	struct ur_wq *wq;
};

struct ur_raw {
	struct ur_mr_table *mrs;
	struct ur_flow_table flows;
	struct ur_list senders;
	struct ur_list paced;
	struct ur_raw_counters cnt;
	uint32_t used;
	uint32_t next;
	struct ur_rawnum nums[UR_MAX_RAW];
	uint8_t cut[UR_FRAME_MAX]; /* a packet cut off a larger one */
};

static inline struct ur_rawqp *ur_rawqp(const struct ur_qp *qp)
{
	return qp->proto;
}

static inline enum ur_qp_state ur_rawqp_state(const struct ur_qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed);
}

/* tx.c: complete the oldest send; false: CQ overrun. */
void ur_raw_complete(struct ur_rawqp *q, enum ur_wc_status status,
		     uint64_t now_ns);

/* qp.c: a send has failed: only the send queue stops, as for datagrams. */
void ur_rawqp_stop(struct ur_rawqp *q, uint64_t now_ns);
/* A completion queue has overrun, or receiving has failed. */
void ur_rawqp_fail(struct ur_rawqp *q, enum ur_event_type event,
		   uint64_t now_ns);
void ur_raw_wq_fail(struct ur_wq *wq, uint64_t now_ns);

/* rx.c: complete posted receives as flushed; false: CQ overrun. */
bool ur_raw_flush_rq(struct ur_rq *rq, struct ur_cq *cq, const void *owner,
		     uint32_t num, uint64_t now_ns);

#endif
