/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues (IBTA 10.2.9): a receive queue that several QPs
 * consume. */
#ifndef UR_CORE_SRQ_H
#define UR_CORE_SRQ_H

#include "core/cq.h"
#include "core/event.h"
#include "core/mr.h"
#include "core/wqe.h"

struct ur_tm;
struct ur_xrcd;

struct ur_srq {
	struct ur_rq rq; /* rq.lock guards every field */
	struct ur_pd *pd;
	uint32_t limit; /* SRQ_LIMIT_REACHED below this; 0: off (one shot) */
	struct ur_evq *async;
	struct ur_ev_source async_source;
	void *object;
	_Atomic uint32_t users; /* QPs attached */
	/* Constant once it is in use. */
	struct ur_cq *cq; /* its receives complete on it; NULL: on the QP's */
	/* XRC: the domain whose targets may use it; else NULL. */
	struct ur_xrcd *xrcd;
	struct ur_tm *tm; /* tag matching (core/tm.h); else NULL */
	uint32_t number;  /* XRC: its number for peers (core/xrc.h) */
};

/* 0, -EINVAL, -ENOMEM */
int ur_srq_init(struct ur_srq *srq, struct ur_pd *pd, uint32_t max_wr,
		uint32_t max_sge, uint32_t limit, struct ur_evq *async,
		void *object);

/* Makes a new queue one of XRC (xrcd not NULL) or of tag matching: takes
 * references on cq and xrcd, which ur_srq_fini() drops. */
void ur_srq_set_cq(struct ur_srq *srq, struct ur_cq *cq, struct ur_xrcd *xrcd);

/* -EBUSY while QPs are attached.  Waits for unacknowledged events. */
int ur_srq_fini(struct ur_srq *srq);

/* Resize; -EINVAL above the limits or below what is posted. */
int ur_srq_resize(struct ur_srq *srq, uint32_t max_wr);

/*
 * Arm the limit event; 0 disarms. -EINVAL above max_wr. If fewer receives are
 * posted already, the event is raised at once, as mlx5 does: an empty queue
 * consumes nothing that could raise it later.
 */
int ur_srq_set_limit(struct ur_srq *srq, uint32_t limit);

/*
 * Copy the oldest receive into *out (room for UR_MAX_SGE entries) and free its
 * slot.  False if there is none.  Raises the limit event.
 */
bool ur_srq_take(struct ur_srq *srq, struct ur_rwqe *out);
bool ur_srq_take_locked(struct ur_srq *srq, struct ur_rwqe *out);

#endif
