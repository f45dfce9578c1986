/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter as the driver side (verbs/) sees it.
 *
 * One struct ur_adapter per device and process; it lives from the first open
 * to the end of the process.  A child after fork() does not own it: calls that
 * need a lane return -ENODEV there until it opens the device itself, which
 * gives it an adapter of its own.
 *
 * All functions return 0 or -errno unless said otherwise and may be called
 * from any thread.
 */
#ifndef UR_ENGINE_ENGINE_H
#define UR_ENGINE_ENGINE_H

#include <stdint.h>

#include "config/config.h"
#include "core/dev.h"
#include "core/qp.h"

struct ur_adapter;
struct ur_lane;

/* The process' adapter of the device of that index (ur_config_get()), with one
 * more reference.  Starts no daemon and no lane until one is needed (the first
 * QP).  -ENODEV: there is no such device. */
int ur_adapter_get_at(uint32_t index, struct ur_adapter **out);
void ur_adapter_put(struct ur_adapter *a);

/*
 * May it be opened?  Opening it also runs the port that it is on, unless
 * another process does: 0 or -errno; -ENODEV: its interface is not there.
 */
bool ur_adapter_present(struct ur_adapter *a);
int ur_adapter_open(struct ur_adapter *a);

struct ur_dev *ur_adapter_dev(struct ur_adapter *a);
struct ur_mr_table *ur_adapter_mrs(struct ur_adapter *a);

/*
 * A lane for the queue pairs of one thread domain alone (ur_qp_init.lane), and
 * back when the domain has none any more.  -ENOSPC: there are no more, and the
 * domain has to share the others.
 */
int ur_adapter_lane_take(struct ur_adapter *a, struct ur_lane **out);
void ur_adapter_lane_give(struct ur_adapter *a, const struct ur_lane *l);

/* Queue pairs.  create: memory of qp is the caller's, *init is as for
 * ur_qp_init().  destroy: no completion of it is left in its CQs.
 * -EOPNOTSUPP: the device has no such type (iWARP: RC only). */
int ur_adapter_qp_create(struct ur_adapter *a, struct ur_qp *qp,
			 struct ur_qp_init *init);
int ur_adapter_qp_destroy(struct ur_qp *qp);

/* Fills av's open fields, checks limits and MTU, runs the state machine.
 * -EINVAL as ibv_modify_qp(3).  iWARP: states before RTS take any attributes,
 * RTS comes by a connection alone (conn.h), SQD and ERR close it. */
int ur_adapter_qp_modify(struct ur_adapter *a, struct ur_qp *qp,
			 const struct ur_qp_attr *attr, uint32_t mask);
void ur_adapter_qp_query(struct ur_qp *qp, struct ur_qp_attr *attr);

/*
 * A queue that ur_srq_set_cq() has made one of XRC or of tag matching gets its
 * number, and lanes find it; remove: none does any more, nor is one using it.
 * -EOPNOTSUPP: the device has no XRC; -EBUSY: QPs are attached.
 */
int ur_adapter_srq_publish(struct ur_adapter *a, struct ur_srq *srq);
int ur_adapter_srq_remove(struct ur_adapter *a, struct ur_srq *srq);

/*
 * Loads an alternate path, on which the connection managers have agreed, into
 * the connected queue pair of that number and rearms it.  av.sgid_index and
 * av.port_num are set.
 * -ENOENT: not one of this process with that peer; -EINVAL: not in its state.
 */
int ur_adapter_qp_alternate(struct ur_adapter *a, uint32_t qpn,
			    uint32_t dest_qpn, const struct ur_av *av,
			    uint8_t timeout);

/* Has a queue pair of this process this number? */
bool ur_adapter_has_qpn(const struct ur_adapter *a, uint32_t qpn);

int ur_adapter_mcast(struct ur_adapter *a, struct ur_qp *qp,
		     const uint8_t gid[16], bool attach);

/*
 * After ur_sq_commit(), with qp->sq.lock released: run the requester here if
 * the lane is free, else leave a doorbell that the lock's holder serves.
 */
void ur_adapter_doorbell(struct ur_qp *qp);

/* Make a new queue pair one of core/cross.h; flags: UR_CROSS_. Result: that of
 * ur_cross_create(). */
int ur_adapter_qp_cross(struct ur_qp *qp, uint32_t flags);

/* cq was found empty: drives the lanes that feed it, for a bounded time. */
void ur_adapter_poll(struct ur_adapter *a, struct ur_cq *cq);

/* cq was armed: sends all that waits.  If only polls read the link until now,
 * the helper watches it again, or a thread that is expected to wait (wait.c). */
void ur_adapter_arm(struct ur_adapter *a, struct ur_cq *cq);

/*
 * Events of cq wait for `count` completions or `period_us` (ur_cq_moderate());
 * either 0: no longer.  A moderated queue must be set to 0 before it is freed.
 */
void ur_adapter_cq_moderate(struct ur_adapter *a, struct ur_cq *cq,
			    uint32_t count, uint32_t period_us);

/* `urnic show` lists the queue, under the name cq->handle, or no longer. */
void ur_adapter_cq_list(struct ur_adapter *a, struct ur_cq *cq);
void ur_adapter_cq_unlist(struct ur_adapter *a, struct ur_cq *cq);

/* Packets with a foreign P_Key or Q_Key that this process has seen. */
void ur_adapter_violations(struct ur_adapter *a, uint32_t *pkeys,
			   uint32_t *qkeys);

/* Nanoseconds of the clock that stamps completions (CLOCK_MONOTONIC). */
uint64_t ur_adapter_now(void);

#endif
