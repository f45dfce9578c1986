/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work of a lane, done by whoever holds it: the application's threads
 * inside post, poll and arm, or the helper (DESIGN 3).
 *
 * Gathering (DESIGN 5, trains): a post sends at once, unless the last train
 * left a moment ago, requests are outstanding and the application is known to
 * poll.  Then small requests wait until GATHER_MAX of them are there, the
 * moment is over, or the application polls or arms; the helper's tick is the
 * last resort, and if it had to step in, gathering pauses.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "engine/internal.h"

#define GATHER_MAX	32u
#define GATHER_MAX_LEN	1024u
#define TRAINS_PER_SEND 256u
#define READS_PER_POLL	16u
#define RETRY_SEND_NS	100000u

static void on_packet(void *arg, const struct ur_rx *rx)
{
	struct ur_lane *l = arg;

	if (l->now_ns == 0)
		l->now_ns = ur_clock_ns();
	ur_roce_input(l->roce, rx, l->now_ns);
}

void ur_lane_drain(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_qp *qp, *next;

	if (!ur_doorbell_is_rung(&l->doorbell))
		return;
	for (qp = ur_doorbell_take(&l->doorbell); qp; qp = next) {
		next = ur_doorbell_next(qp);
		ur_doorbell_seen(qp);
		ur_roce_kick(l->roce, qp, now_ns);
	}
}

/* What the link cannot take now is kept and goes first the next time; what it
 * cannot send at all is lost, and the protocol finds that out. */
void ur_lane_send(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_train *t = &l->train;
	uint32_t n;

	l->gathered = 0;
	l->retry_ns = UR_NEVER;
	for (n = 0; l->held || ur_roce_output(l->roce, t, now_ns); n++) {
		int err = n < TRAINS_PER_SEND ? l->link->ops->send(l->link, t)
					      : -EAGAIN;

		l->held = err == -EAGAIN;
		if (l->held) {
			l->retry_ns = now_ns + RETRY_SEND_NS;
			break;
		}
		if (err)
			ur_debug("lane %u: train of %u x %u bytes: %s", l->id,
				 t->npkts, t->pkt_len, strerror(-err));
	}
	if (n)
		l->activity_ns = now_ns;
}

/* The bell is answered too: a QP that goes away may stand on it. */
void ur_lane_settle(struct ur_lane *l, uint64_t now_ns)
{
	ur_lane_drain(l, now_ns);
	ur_roce_settle(l->roce, now_ns);
	ur_lane_send(l, now_ns);
}

void ur_lane_drop_held(struct ur_lane *l)
{
	l->held = false;
}

int ur_lane_step(struct ur_lane *l, uint64_t now_ns)
{
	int n;

	l->now_ns = 0;
	n = l->link->ops->recv(l->link, on_packet, l);
	if (l->now_ns)
		now_ns = l->now_ns;
	if (n)
		l->activity_ns = now_ns;
	ur_lane_drain(l, now_ns);
	if (ur_roce_deadline(l->roce) <= now_ns)
		ur_roce_expire(l->roce, now_ns);
	ur_lane_send(l, now_ns);
	return n;
}

static bool is_armed(const struct ur_cq *cq)
{
	return cq && atomic_load_explicit(&cq->armed, memory_order_relaxed) !=
			     UR_CQ_IDLE;
}

/*
 * May the requests just posted on qp wait?  The newest stands for all.  It is
 * not completed (tail is beyond head), so nobody writes its slot.
 */
static bool may_gather(struct ur_lane *l, const struct ur_qp *qp, uint64_t now)
{
	uint32_t tail =
		atomic_load_explicit(&qp->sq.tail, memory_order_acquire);
	uint32_t head =
		atomic_load_explicit(&qp->sq.head, memory_order_relaxed);

	if (l->watch != UR_WATCH_TICK || l->held ||
	    now - l->flush_ns > l->gather_ns || now < l->no_gather_until_ns ||
	    is_armed(qp->send_cq) || is_armed(qp->recv_cq))
		return false;
	/* Reliable requests are outstanding until answered; others complete
	 * as they leave. */
	if (tail == head ||
	    (qp->type == UR_QPT_RC && tail - head <= l->gathered + 1))
		return false;
	if (ur_sq_slot(&qp->sq, tail - 1)->length > GATHER_MAX_LEN)
		return false;
	return ++l->gathered < GATHER_MAX;
}

void ur_adapter_doorbell(struct ur_qp *qp)
{
	struct ur_lane *l = qp->lane;
	uint64_t now;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return;
	if (ur_trylock(&l->lock)) {
		now = ur_clock_ns();
		ur_roce_kick(l->roce, qp, now);
	} else {
		if (!ur_lane_ring(l, qp))
			return;
		now = ur_clock_ns();
	}
	ur_lane_drain(l, now);
	if (!may_gather(l, qp, now)) {
		l->flush_ns = now;
		ur_lane_send(l, now);
	}
	ur_lane_unlock(l);
}

/* Keep account of polling; true: the helper can be told to let go. */
static bool note_poll(struct ur_lane *l, uint64_t now)
{
	uint64_t gap = now - l->poll_ns;

	l->poll_ns = now;
	if (gap > UR_POLL_GAP_NS) {
		l->streak_ns = now;
		return false;
	}
	if (l->watch == UR_WATCH_TICK || now - l->streak_ns < l->streak_need_ns)
		return false;
	l->watch = UR_WATCH_TICK;
	l->tick_since_ns = now;
	return true;
}

/* One read is enough if it completed something: the application has work
 * then, and a further read that finds nothing would only delay it. */
static void poll_lane(struct ur_lane *l, const struct ur_cq *cq)
{
	bool wake;
	uint64_t now;

	/* Who has armed the queue waits for an event, and the helper works: a
	 * completion made here would leave an event that finds nothing. */
	if (is_armed(cq) ||
	    atomic_load_explicit(&l->waiting, memory_order_relaxed) ||
	    !ur_trylock(&l->lock))
		return;
	now = ur_clock_ns();
	wake = note_poll(l, now);
	for (uint32_t i = 0; i < READS_PER_POLL; i++) {
		if (!ur_lane_step(l, now) || !ur_cq_is_empty(cq))
			break;
		now = l->now_ns ? l->now_ns : now;
	}
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
}

static struct ur_lane *next_lane(struct ur_adapter *a, uint64_t *lanes)
{
	uint32_t i = (uint32_t)__builtin_ctzll(*lanes);

	*lanes &= *lanes - 1;
	return atomic_load_explicit(&a->lanes[i], memory_order_acquire);
}

void ur_adapter_poll(struct ur_adapter *a, struct ur_cq *cq)
{
	uint64_t lanes = atomic_load_explicit(&cq->lanes, memory_order_acquire);

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	while (lanes)
		poll_lane(next_lane(a, &lanes), cq);
}

/*
 * Somebody is about to sleep until the helper wakes him: everything leaves
 * now, and the helper takes over the link if it has left it to a poller.
 */
static void arm_lane(struct ur_lane *l)
{
	uint64_t now;
	bool wake;

	ur_lane_lock(l);
	now = ur_clock_ns();
	ur_lane_drain(l, now);
	ur_lane_send(l, now);
	l->poll_ns = 0;
	wake = l->watch == UR_WATCH_TICK || ur_helper_is_late(l, 0);
	l->watch = UR_WATCH_ARMED;
	ur_lane_unlock(l);
	if (wake)
		ur_helper_wake(l);
}

void ur_adapter_arm(struct ur_adapter *a, struct ur_cq *cq)
{
	uint64_t lanes = atomic_load_explicit(&cq->lanes, memory_order_acquire);

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	while (lanes)
		arm_lane(next_lane(a, &lanes));
}

uint64_t ur_adapter_now(void)
{
	return ur_clock_ns();
}
