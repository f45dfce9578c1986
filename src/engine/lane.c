/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes: creation, locking.
 *
 * Why no doorbell is lost.  A poster that does not get the lock rings the
 * doorbell, then tries once more by ur_latch_contend().  A holder unlocks, then
 * checks the doorbell.  The two are ordered (base/latch.h).  If the poster is
 * first, the holder sees the doorbell.  If the holder is first, the poster's
 * second try succeeds, or fails because of another holder, which does the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timer.h"
#include "core/cross.h"
#include "engine/internal.h"
#include "engine/timescale.h"
#include "shm/shm.h"
#include "sockets/udp.h"

void ur_lane_lock(struct ur_lane *l)
{
	if (ur_latch_try(&l->lock))
		return;
	atomic_fetch_add_explicit(&l->waiting, 1, memory_order_relaxed);
	ur_latch_lock(&l->lock);
	atomic_fetch_sub_explicit(&l->waiting, 1, memory_order_relaxed);
}

bool ur_lane_ring(struct ur_lane *l, struct ur_qp *qp)
{
	ur_doorbell_ring(&l->doorbell, qp);
	return ur_latch_contend(&l->lock);
}

/* After unlocking: true if there was a doorbell; the lane is locked again. */
static bool serve_doorbell(struct ur_lane *l)
{
	uint64_t now;

	if (!ur_doorbell_is_set(&l->doorbell) || !ur_latch_try(&l->lock))
		return false;
	now = ur_clock_ns();
	ur_lane_drain(l, now);
	ur_lane_send(l, now);
	return true;
}

bool ur_lane_hand(struct ur_lane *l, enum ur_handover event)
{
	struct ur_handed next = ur_handover(l->watch, event);

	if (next.watch != l->watch) {
		l->watch = next.watch;
		if (next.watch != UR_WATCH_WAITER)
			l->chan.q = NULL;
		if (l->ops->watched)
			l->ops->watched(l);
	}
	return next.wake;
}

void ur_lane_unlock(struct ur_lane *l)
{
	do {
		bool late = (l->watch != UR_WATCH_TICK &&
			     ur_helper_is_late(l, ur_tick_ns())) ||
			    ur_helper_leaves_posts(l) ||
			    (l->ops->stalled && l->ops->stalled(l));

		ur_latch_unlock(&l->lock);
		if (late)
			ur_lane_wake(l);
	} while (serve_doorbell(l));
}

/* The holder of a lane's lock serves doorbells before it unlocks; the helper of
 * another lane is woken, since that lane may have no holder. */
static void cross_wake(struct ur_qp *qp, const struct ur_lane *held)
{
	ur_doorbell_ring(&qp->lane->doorbell, qp);
	if (qp->lane != held)
		ur_lane_wake(qp->lane);
}

int ur_adapter_qp_cross(struct ur_qp *qp, uint32_t flags)
{
	int err;

	ur_lane_lock(qp->lane);
	err = ur_cross_create(qp, flags, cross_wake);
	ur_lane_unlock(qp->lane);
	return err;
}

void ur_lane_unlock_same(struct ur_lane *l)
{
	ur_latch_unlock(&l->lock);
	if (serve_doorbell(l))
		ur_lane_unlock(l);
}

static void init_fields(struct ur_lane *l, struct ur_adapter *a,
			const struct ur_lane_ops *ops, uint32_t id)
{
	l->adapter = a;
	l->ops = ops;
	l->id = id;
	l->peer_wakefds = -1;
	l->sole_wakefd = -1;
	ur_latch_init(&l->lock);
	ur_doorbell_init(&l->doorbell);
	l->watch = UR_WATCH_ARMED;
	l->retry_ns = UR_NEVER;
	l->timescale = ur_timescale();
	l->poll_timescale = l->timescale;
	l->batch_window_ns = (uint64_t)UR_BATCH_WINDOW_NS * l->timescale;
	l->streak_need_ns = UR_POLL_STREAK_NS;
}

int ur_lane_create(struct ur_adapter *a, const struct ur_lane_ops *ops,
		   uint32_t id, struct ur_lane **out)
{
	struct ur_lane *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	init_fields(l, a, ops, id);
	err = l->ops->open(l);
	if (err)
		goto free_lane;
	if (l->link && l->link->served)
		l->poll_timescale *= UR_TIMESCALE_SERVED;
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd < 0) {
		err = -errno;
		goto close_protocol;
	}
	l->wait_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wait_fd < 0) {
		err = -errno;
		goto close_wake;
	}
	err = ur_helper_start(l);
	if (err)
		goto close_wait;
	ur_debug("%s lane %u: slot %u, time scale %u", l->ops->name, id,
		 l->slot, l->timescale);
	*out = l;
	return 0;
close_wait:
	close(l->wait_fd);
close_wake:
	close(l->wake_fd);
close_protocol:
	l->ops->close(l);
free_lane:
	free(l);
	return err;
}

void ur_lane_serve_qp1(struct ur_lane *l)
{
	ur_lane_lock(l);
	l->serves_qp1 = true;
	/* QP1 is UD, and answers have the traffic class of the request. */
	l->ud_qps++;
	ur_udp_tell_ip(l->link->udp, true);
	ur_lane_unlock(l);
}

void ur_lane_abandon(struct ur_lane *l)
{
	atomic_store_explicit(&l->dead, true, memory_order_relaxed);
	l->ops->abandon(l);
	close(l->wake_fd);
	close(l->wait_fd);
	if (l->peer_wakefds >= 0)
		close(l->peer_wakefds);
}
