/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw packet queue pairs and work queues of one lane: a pure object like those
 * of the protocols. Frames enter by ur_raw_input(); requests become frames by
 * ur_raw_collect(), and complete by ur_raw_sent(), when the network device has
 * accepted them.
 */
#ifndef UR_RAW_RAW_H
#define UR_RAW_RAW_H

#include "core/qp.h"
#include "core/wq.h"
#include "raw/counters.h"
#include "raw/flow.h"
#include "raw/frame.h"

/* Numbers of queue pairs and work queues are in this slot, the last one that
 * lanes of RoCE use; they appear in completions only. */
#define UR_RAW_SLOT 1023u
#define UR_MAX_RAW  8192u /* queue pairs and work queues of a lane */

struct ur_raw;

int ur_raw_create(struct ur_mr_table *mrs, struct ur_raw **out);
void ur_raw_destroy(struct ur_raw *r); /* all queues must be gone */

/* Assign a number. -ENOSPC: UR_MAX_RAW are in use. */
int ur_raw_qp_attach(struct ur_raw *r, struct ur_qp *qp);
/* Also removes its flows. */
void ur_raw_qp_detach(struct ur_raw *r, struct ur_qp *qp);

/* ibv_modify_qp(3): -EINVAL; -ENOSYS for one with an indirection table. */
int ur_raw_qp_modify(struct ur_raw *r, struct ur_qp *qp,
		     const struct ur_qp_attr *attr, uint32_t mask,
		     uint64_t now_ns);
void ur_raw_qp_query(const struct ur_qp *qp, struct ur_qp_attr *attr);

/* The same for work queues. */
int ur_raw_wq_attach(struct ur_raw *r, struct ur_wq *wq);
void ur_raw_wq_detach(struct ur_raw *r, struct ur_wq *wq);
/* -EINVAL: no such transition. */
int ur_raw_wq_modify(struct ur_raw *r, struct ur_wq *wq, enum ur_wq_state to,
		     uint64_t now_ns);
/* Receives were posted on a queue in error. */
void ur_raw_wq_flush(struct ur_raw *r, struct ur_wq *wq, uint64_t now_ns);

struct ur_flow_table *ur_raw_flows(struct ur_raw *r);

/* Requests were committed on qp's queues. */
void ur_raw_kick(struct ur_raw *r, struct ur_qp *qp, uint64_t now_ns);

/* One frame of the device, which may be modified; completes receives. */
void ur_raw_input(struct ur_raw *r, const struct ur_frame_rx *f,
		  uint64_t now_ns);

/*
 * How many frames may be read so that each destination has a receive, at most
 * `max`; 0: no receives are posted, so leave frames in the device. A queue that
 * is not in a receiving state counts as having room: its frames are dropped.
 */
uint32_t ur_raw_room(const struct ur_raw *r, uint32_t max);

/* The next queue pair to send, NULL: none. */
struct ur_qp *ur_raw_next(struct ur_raw *r, uint64_t now_ns);

/* When a QP above its rate may send again; UR_NEVER. */
uint64_t ur_raw_deadline(const struct ur_raw *r);

/*
 * Its next requests as up to `max` frames. They point into the application's
 * memory and are valid while the lane is locked. 0: none, or its rate limit is
 * reached; a request that cannot be sent has completed with an error.
 */
uint32_t ur_raw_collect(struct ur_raw *r, struct ur_qp *qp,
			struct ur_frame_tx *out, uint32_t max, uint64_t now_ns);

/*
 * The device accepted the first n. If err is not 0, the next one cannot be
 * sent: -EMSGSIZE, -EFAULT, -EINVAL stop the queue pair's sending; on other
 * errors that frame is lost, as on a broken wire.
 */
void ur_raw_sent(struct ur_raw *r, struct ur_qp *qp, uint32_t n, int err,
		 uint64_t now_ns);

const struct ur_raw_counters *ur_raw_counters(const struct ur_raw *r);

void ur_raw_for_each_qp(struct ur_raw *r,
			void (*fn)(void *arg, const struct ur_qp *qp),
			void *arg);

#endif
