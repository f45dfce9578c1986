/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work of a lane, done by the thread that holds its lock: an application
 * thread in post, poll, arm or a wait for events (wait.c), or the helper
 * (wake.c; docs/decisions/0001).
 *
 * Batching (docs/decisions/0003).  A post sends at once, unless (1) the last
 * burst left within the batching window, (2) requests are outstanding, and (3)
 * the application polls or has more than BATCH_BEHIND of them outstanding.  The batch leaves when it has BATCH_MAX requests or
 * BATCH_MAX_BYTES, at the first post after the window, or at the next poll or
 * arm.  Failing that, the helper sends it after UR_BATCH_LATE_NS.  If the
 * application polled before, the helper sends it at a tick, and no batches are
 * made for some time.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>

#include "base/sys.h"
#include "engine/internal.h"
#include "engine/roce_io.h"
#include "engine/shm_peers.h"

#define BATCH_MAX	 64u /* a burst */
#define MISSES_PER_YIELD 32u
/*
 * If this many threads are in sched_yield() for one queue, cores are short, and
 * further ones nap.  With two cores, 32 pollers and a sender in the same process,
 * 16 messages at a time, this raised 208,000 messages/s to 448,000 (medians of
 * 5; through sockets 173,000 to 344,000); one at a time, 25,000 to 46,000.
 */
#define YIELDERS	 4u
/* Other threads are still in sched_yield() and can take a message, so none waits
 * for a nap to end. */
#define NAP_NS		 500000u
/* With more outstanding on a queue pair, latency no longer matters: batch. */
#define BATCH_BEHIND	 16u
/* A batch of this size leaves with its first signaled request, if more than half
 * of the send queue is outstanding (is_waited_for()). */
#define BATCH_SIGNALED	 8u
#define SKIP_POLLS	 64u
#define READS_PER_POLL	 16u
/* After so many empty reads of a link that urnicd serves, yield to urnicd. */
#define YIELD_READS_MIN	 8u
#define YIELD_READS_MAX	 128u
/*
 * With so many runnable threads for each processor a poller without a packet for
 * DOZE_AFTER_NS may sleep for DOZE_NS (may_doze()).  With 2, short-lived threads made two
 * pollers on two processors sleep: ib_send_lat took 2.6 times as long, ib_send_bw
 * reached 0.64 (decision 0028).
 */
#define DOZE_LOAD	 3u
#define DOZE_AFTER_NS	 25000u
#define DOZE_NS		 100000u

void ur_lane_drain(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_qp *qp, *next;

	if (!ur_doorbell_is_set(&l->doorbell))
		return;
	for (qp = ur_doorbell_take(&l->doorbell); qp; qp = next) {
		next = ur_doorbell_next(qp);
		ur_doorbell_seen(qp);
		ur_lane_kick(l, qp, now_ns);
	}
}

bool ur_lane_send(struct ur_lane *l, uint64_t now_ns)
{
	if (l->batched)
		l->last_batch = l->batched;
	l->batched = 0;
	l->batched_bytes = 0;
	l->batched_signaled = false;
	return l->ops->send(l, now_ns);
}

/*
 * True: a thread waits for any entry of cq, or for a solicited one while no
 * thread polls.  UCX's UD arms for solicited entries and polls all the time.
 */
static bool awaits_event(const struct ur_lane *l, const struct ur_cq *cq)
{
	uint32_t armed =
		cq ? atomic_load_explicit(&cq->armed, memory_order_relaxed)
		   : UR_CQ_IDLE;

	return armed == UR_CQ_ARMED_ANY ||
	       (armed != UR_CQ_IDLE && l->watch != UR_WATCH_TICK);
}

/*
 * An application that signals few requests fills its queue and then waits for
 * the next completion.  If the batch leaves with the first signaled request, the
 * acknowledgement comes while the rest of the queue is being filled.
 */
static bool is_waited_for(struct ur_lane *l, const struct ur_qp *qp,
			  const struct ur_swqe *w, uint32_t outstanding)
{
	bool first = !l->batched_signaled;

	if (!qp->sq_sig_all && !(w->flags & UR_SEND_SIGNALED))
		return false;
	l->batched_signaled = true;
	return first && l->batched >= BATCH_SIGNALED &&
	       outstanding > qp->sq.max_wr / 2;
}

/*
 * True: a thread will soon send what is held back.  If the application polls,
 * its next poll does.  If it only posts, the helper does: the answers wake it, or
 * its deadline.  Threads that share a core poll too rarely to count as pollers;
 * unbatched, each of their requests would cost a datagram and, if the helper has
 * the same core, two context switches.
 */
static bool will_be_flushed(const struct ur_lane *l, const struct ur_qp *qp,
			    uint32_t outstanding)
{
	if (l->watch == UR_WATCH_TICK)
		return true;
	return l->ops->acknowledged && ur_qp_type_reliable(qp->type) &&
	       outstanding > BATCH_BEHIND;
}

static bool in_batch_window(const struct ur_lane *l)
{
	return ur_ticks() - l->flush_ticks <=
	       l->batch_window_ns * UR_TICKS_PER_NS;
}

/*
 * May the requests just posted on qp wait?  The newest one
 * decides.  Its slot is stable: it is not complete (tail is beyond head).
 */
static bool may_batch(struct ur_lane *l, const struct ur_qp *qp)
{
	uint32_t tail =
		atomic_load_explicit(&qp->sq.tail, memory_order_acquire);
	uint32_t head =
		atomic_load_explicit(&qp->sq.head, memory_order_relaxed);
	const struct ur_swqe *w;

	if (!will_be_flushed(l, qp, tail - head) || l->held ||
	    !in_batch_window(l) || awaits_event(l, qp->send_cq) ||
	    awaits_event(l, qp->recv_cq))
		return false;
	/* Reliable requests are outstanding until answered; others complete
	 * as they leave, those of iWARP as well. */
	if (tail == head ||
	    (l->ops->acknowledged && ur_qp_type_reliable(qp->type) &&
	     !ur_roce_is_under_way(qp)))
		return false;
	w = ur_sq_slot(&qp->sq, tail - 1);
	l->batched_bytes += w->length;
	return ++l->batched < BATCH_MAX &&
	       l->batched_bytes < l->ops->batch_bytes &&
	       !is_waited_for(l, qp, w, tail - head);
}

/*
 * The application posts or polls.  Both count, since a streaming program fills
 * its queue for longer than UR_POLL_GAP_NS before it polls again.  Time in which
 * the helper ran does not count as a gap: they may share a core.  `now` may be
 * before app_ns: the helper reports a missed poll later.
 */
static void note_activity(struct ur_lane *l, uint64_t now)
{
	uint64_t last =
		l->app_ns > l->helper_ran_ns ? l->app_ns : l->helper_ran_ns;

	if (now > last &&
	    now - last > (uint64_t)UR_POLL_GAP_NS * l->poll_timescale) {
		l->streak_ns = now;
	}
	if (now > l->app_ns)
		l->app_ns = now;
}

static void flush(struct ur_lane *l, uint64_t now)
{
	if (!l->batched)
		l->last_batch = 0;
	ur_lane_send(l, now);
	/* The send takes about as long as the window: read the time after it. */
	l->flush_ticks = ur_ticks();
	l->app_ns = ur_clock_ns();
}

/*
 * Adds a request to the batch without reading the clock, which would cost more
 * than all the rest.  True: done, and the lane is unlocked.  False: there is more
 * to do, and the lane is still locked.
 */
static bool batch_more(struct ur_lane *l, struct ur_qp *qp)
{
	if (ur_doorbell_is_set(&l->doorbell))
		return false;
	ur_lane_kick(l, qp, l->app_ns);
	if (!may_batch(l, qp))
		flush(l, ur_clock_ns());
	ur_lane_unlock(l);
	return true;
}

/*
 * A poll that finds completions does not reach the lane.  So a post looks whether
 * some were taken since the last post, and counts that as a poll if it happened
 * within the last UR_TICK_NS as well.  Otherwise a helper on the same core would
 * go on working for a program that polls.  The head of a CQ that ignores overrun
 * moves by itself, so it says nothing.
 */
static bool note_taken(struct ur_lane *l, struct ur_qp *qp, uint64_t now)
{
	const struct ur_cq *cq = qp->send_cq;
	uint64_t last = l->taken_ns;
	uint32_t head;

	if (!cq || cq->ignore_overrun || ur_cq_is_armed(cq) ||
	    ur_cq_is_armed(qp->recv_cq))
		return false;
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	if (head == qp->sends_taken)
		return false;
	qp->sends_taken = head;
	l->taken_ns = now;
	return now - last < UR_TICK_NS && ur_lane_note_poll(l, now);
}

void ur_adapter_doorbell(struct ur_qp *qp)
{
	struct ur_lane *l = qp->lane;
	bool wake = false;
	uint64_t now;

	if (atomic_load_explicit(&l->dead, memory_order_relaxed))
		return;
	if (ur_qp_is_aside(qp))
		ur_watch_posted(qp);
	if (ur_latch_try(&l->lock)) {
		if (qp->on_shm && !qp->cross && ur_roce_io_post_shm(l, qp))
			return;
		if (l->batched && batch_more(l, qp))
			return;
		now = ur_clock_ns();
		ur_lane_kick(l, qp, now);
	} else {
		if (!ur_lane_ring(l, qp))
			return;
		now = ur_clock_ns();
	}
	ur_lane_drain(l, now);
	note_activity(l, now);
	if (l->watch == UR_WATCH_ARMED)
		wake = note_taken(l, qp, now);
	if (now < l->no_batch_until_ns || !may_batch(l, qp))
		flush(l, now);
	ur_lane_unlock(l);
	if (wake)
		ur_lane_hand_over(l);
}

bool ur_lane_note_poll(struct ur_lane *l, uint64_t now)
{
	note_activity(l, now);
	if (l->watch == UR_WATCH_TICK || now < l->streak_ns + l->streak_need_ns)
		return false;
	l->tick_since_ns = now;
	return ur_lane_hand(l, UR_HANDOVER_POLLED);
}

/*
 * True: skip this poll, so that threads asleep on the unfair lock can get it.
 * One poll in SKIP_POLLS works even so: a sleeper may need milliseconds to get a
 * core, and the lane must not stand still for that long.
 */
static bool skip_for_sleepers(struct ur_lane *l)
{
	if (!atomic_load_explicit(&l->waiting, memory_order_relaxed))
		return false;
	return atomic_fetch_add_explicit(&l->skips, 1, memory_order_relaxed) %
		       SKIP_POLLS !=
	       0;
}

static void nap(void)
{
	const struct timespec t = { .tv_nsec = NAP_NS };
	int saved = errno;

	ur_sys_nanosleep(&t);
	errno = saved;
}

/*
 * Tells the holder that a thread polls.  The holder may be a helper that was
 * preempted on this core: then it needs the core to finish.
 *
 * Threads that poll one queue are interchangeable.  If YIELDERS of them yield
 * already, cores are short, and the others sleep instead of alternating with
 * the holder and with the threads that send.
 */
static void missed(struct ur_lane *l, struct ur_cq *cq)
{
	bool crowded;

	atomic_store_explicit(&l->missed_ns, ur_clock_ns(),
			      memory_order_relaxed);
	if (atomic_fetch_add_explicit(&l->misses, 1, memory_order_relaxed) %
		    MISSES_PER_YIELD !=
	    MISSES_PER_YIELD - 1)
		return;
	crowded = atomic_fetch_add_explicit(&cq->yielders, 1,
					    memory_order_relaxed) >= YIELDERS;
	if (!crowded)
		sched_yield();
	atomic_fetch_sub_explicit(&cq->yielders, 1, memory_order_relaxed);
	if (crowded)
		nap();
}

/* The application polls, and the lane has nothing unsent. */
static bool may_quick_poll(struct ur_lane *l)
{
	return l->watch == UR_WATCH_TICK && l->ops->quick_poll && !l->held &&
	       !l->batched && !ur_doorbell_is_set(&l->doorbell);
}

/*
 * Unlocks the lane, then yields to urnicd: the core may come back late.  While
 * no thread takes it, the next yield comes after twice as many empty reads.
 */
static void yield_core(struct ur_lane *l)
{
	struct ur_yield yield = l->yield;
	bool taken;

	l->empty_reads = 0;
	ur_lane_unlock(l);
	if (!ur_yield_allowed(&yield, ur_clock_ns()))
		return;
	taken = ur_yield_cpu(&yield);
	if (!ur_latch_try(&l->lock))
		return;
	l->yield = yield;
	l->yield_reads = taken ? YIELD_READS_MIN : l->yield_reads * 2;
	if (l->yield_reads < YIELD_READS_MIN)
		l->yield_reads = YIELD_READS_MIN;
	if (l->yield_reads > YIELD_READS_MAX)
		l->yield_reads = YIELD_READS_MAX;
	ur_lane_unlock(l);
}

/* If the helper must be woken, do not yield: until it ticks it sleeps on the
 * link, and if this thread loses the core no thread expires timers. */
static void end_poll(struct ur_lane *l, bool wake)
{
	if (!wake && l->empty_reads > l->yield_reads)
		yield_core(l);
	else
		ur_lane_unlock(l);
	if (wake)
		ur_lane_hand_over(l);
}

/*
 * Where many threads wait for processors, a poller without a packet for
 * DOZE_AFTER_NS sleeps until the link has one: otherwise it keeps the processor from the thread
 * that will send the packet.  Not for long, nor beyond a timer: it may poll for
 * other things, and peers of this host signal no lane that is polled.
 */
static bool may_doze(const struct ur_lane *l, const struct ur_cq *cq,
		     uint64_t now)
{
	uint64_t lanes = atomic_load_explicit(&cq->lanes, memory_order_relaxed);
	uint64_t since =
		l->dozed_ns > l->activity_ns ? l->dozed_ns : l->activity_ns;

	if (l->streak_ns > since)
		since = l->streak_ns;
	return now >= since + DOZE_AFTER_NS && ur_cq_is_empty(cq) &&
	       !(lanes & (lanes - 1)) && !ur_cq_is_armed(cq) &&
	       !l->adapter->dev.spec.port &&
	       ur_lane_earliest(l) > now + DOZE_NS &&
	       ur_sched_load(now) >= DOZE_LOAD;
}

/* Sets app_ns, so that the helper does not take the sleep for a gap between polls. */
static void doze(struct ur_lane *l, int link_fd)
{
	struct pollfd fd = { .fd = link_fd, .events = POLLIN };
	struct timespec t = { .tv_nsec = DOZE_NS };
	int saved = errno;

	(void)ur_sys_ppoll(&fd, 1, &t);
	errno = saved;
	if (!ur_latch_try(&l->lock))
		return;
	l->dozed_ns = ur_clock_ns();
	l->app_ns = l->dozed_ns;
	ur_lane_unlock(l);
}

/*
 * Reads until cq has an entry: the application has work then, and a further
 * read that finds nothing would only delay it.  True: it was more than a quick
 * poll.
 */
static bool poll_lane(struct ur_lane *l, struct ur_cq *cq)
{
	uint64_t now = 0;
	int doze_fd = -1;
	bool wake;

	/* Armed for any entry: the helper or a waiting thread does the work.
	 * Were the entry pushed and polled here, the event would later find an
	 * empty queue.  Armed for solicited entries only: go on, since the
	 * program may poll for the others. */
	if (atomic_load_explicit(&cq->armed, memory_order_relaxed) ==
	    UR_CQ_ARMED_ANY) {
		if (atomic_load_explicit(&cq->channel->polled_lanes,
					 memory_order_relaxed))
			ur_chanpoll_spin(l, cq->channel);
		return true;
	}
	if (skip_for_sleepers(l) || !ur_latch_try(&l->lock)) {
		missed(l, cq);
		return true;
	}
	atomic_store_explicit(
		&l->polls,
		atomic_load_explicit(&l->polls, memory_order_relaxed) + 1,
		memory_order_relaxed);
	if (may_quick_poll(l) && l->ops->quick_poll(l, &now)) {
		end_poll(l, false);
		return false;
	}
	if (!now)
		now = ur_clock_ns();
	wake = ur_lane_note_poll(l, now);
	/* First poll after a wait (wait.c) that ended with an empty link: do
	 * not read it again. */
	l->link_dry = l->left_dry;
	l->left_dry = false;
	for (uint32_t i = 0; i < READS_PER_POLL && ur_cq_is_empty(cq); i++) {
		if (!l->ops->step(l, now))
			break;
		/* Our own work is no gap between polls. */
		now = ur_clock_ns();
		l->app_ns = now;
	}
	l->link_dry = false;
	if (may_doze(l, cq, now)) {
		doze_fd = l->ops->wait_fd(l);
		if (doze_fd >= 0)
			l->doze_until_ns = now + DOZE_NS;
	}
	end_poll(l, wake);
	if (doze_fd >= 0)
		doze(l, doze_fd);
	return true;
}

void ur_adapter_poll(struct ur_adapter *a, struct ur_cq *cq)
{
	uint64_t lanes = atomic_load_explicit(&cq->lanes, memory_order_acquire);
	bool more = false;

	if (atomic_load_explicit(&a->dead, memory_order_relaxed))
		return;
	while (lanes)
		more |= poll_lane(ur_adapter_next_lane(a, &lanes), cq);
	if (more)
		ur_shm_share(a);
}

uint64_t ur_adapter_now(void)
{
	return ur_clock_ns();
}
