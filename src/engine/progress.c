/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work of a lane, done by whoever holds it: the application's threads
 * inside post, poll and arm, or the helper (docs/decisions/0001).
 *
 * Gathering (docs/decisions/0003): a post sends at once, unless the last burst
 * left a moment ago, requests are outstanding and the application is known to
 * poll, or has posted many in a row, or very many are.  Then small requests
 * wait until GATHER_MAX of them are there, the moment is over, or the
 * application polls or arms; the last resort is the helper, within
 * UR_GATHER_LATE_NS, or for a poller its tick, and then gathering pauses.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "engine/shm_peers.h"
#include "ports/port.h"
#include "shm/shm.h"

#define GATHER_MAX	 64u /* a burst */
/* As many left together, this many moments ago at most: more will follow. */
#define GATHER_COMPANY	 8u
#define GATHER_PAUSES	 10u
#define MISSES_PER_YIELD 32u
/*
 * With a core each, threads that poll one queue are seldom in sched_yield() at
 * the same time.  On two cores 32 of them are there nearly always, and a thread
 * of the same process that sends to them, 16 messages at a time, got 208,000
 * messages/s; with naps 448,000 (medians of 5; over sockets 173,000 and
 * 344,000).  Where each message waits for the last: 25,000 and 46,000.
 */
#define YIELDERS	 4u
/* Those that yield stay awake and poll: no message waits for a nap to end. */
#define NAP_NS		 500000u
#define GATHER_MAX_BYTES 32768u
/* So many outstanding on a queue pair: who posts more is not in a hurry. */
#define GATHER_BEHIND	 16u
/* A stream takes it in one call, and has no packets to lose. */
#define GATHER_STREAM	 262144u
/* A burst of this many leaves with a request that is waited for. */
#define GATHER_SIGNALED	 8u
/* Posts without a poll or a pause between them. */
#define BURST_MIN	 64u
#define BURSTS_PER_SEND	 256u
#define SKIP_POLLS	 64u
#define READS_PER_POLL	 16u
#define GLANCES		 4u
/* What a read brings is a burst from so many bytes on; so many of them are
 * taken together. */
#define BURST_BYTES	 16384u
#define BURSTS_AT_ONCE	 4
#define RETRY_SEND_NS	 100000u
#define LATE_NS		 100000u
#define READS_PER_TIMER	 64u
/* A channel that brought something is looked at this many times … */
#define SHM_HOT		 4096u
/* … without more than that but after so many looks and cells, … */
#define SHM_WORK	 128u
/* … and without the link but at times. */
#define SHM_LINK_NS	 8000u
/* Posts between two looks at what peers wish (ur_shm_share()). */
#define SHARE_EVERY	 16u
/* Steps in a row in which it brings something and the link is not read. */
#define SHM_STEPS	 8u
/* Empty looks into a link that urnicd serves, between which it gets the core. */
#define WAY_LOOKS_MIN	 8u
#define WAY_LOOKS_MAX	 128u
/* Packets of any size that a socket's buffer holds, and more. */
#define HELD_MAX	 16384u

static void on_packet(void *arg, const struct ur_rx *rx)
{
	struct ur_lane *l = arg;

	if (l->now_ns == 0)
		l->now_ns = ur_clock_ns();
	l->read_bytes += rx->len;
	if (__builtin_expect(l->serves_qp1, 0) && ur_cm_hook_input(rx))
		return;
	l->heard |= ur_roce_input(l->roce, rx, l->now_ns);
}

static void kick(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	if (l->roce && ur_roce_leaves_wire(qp)) {
		ur_roce_flush_acks(l->roce, now_ns);
		ur_lane_send(l, now_ns);
	}
	ur_lane_kick(l, qp, now_ns);
}

void ur_lane_drain(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_qp *qp, *next;

	if (!ur_doorbell_is_set(&l->doorbell))
		return;
	for (qp = ur_doorbell_take(&l->doorbell); qp; qp = next) {
		next = ur_doorbell_next(qp);
		ur_doorbell_seen(qp);
		kick(l, qp, now_ns);
	}
}

/* What the link cannot take now is kept and goes first the next time; what it
 * cannot send at all is lost, and the protocol finds that out. */
bool ur_lane_send(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_burst *t = &l->burst;
	uint32_t n;

	if (l->gathered)
		l->company = l->gathered;
	l->gathered = 0;
	l->gathered_bytes = 0;
	l->gathered_signaled = false;
	if (!l->roce) {
		l->ops->send(l, now_ns);
		return false;
	}
	l->retry_ns = UR_NEVER;
	for (n = 0; l->held || ur_roce_output(l->roce, t, now_ns); n++) {
		int err = n < BURSTS_PER_SEND ? l->link->ops->send(l->link, t)
					      : -EAGAIN;

		l->held = err == -EAGAIN;
		if (l->held) {
			l->retry_ns = now_ns + RETRY_SEND_NS;
			break;
		}
		if (err)
			ur_debug("lane %u: burst of %u x %u bytes: %s", l->id,
				 t->npkts, t->pkt_len, strerror(-err));
	}
	if (n)
		l->activity_ns = now_ns;
	return n;
}

/*
 * A timer that is this late tells that nobody could work (the process was
 * stopped, the machine busy).  The answer may lie in the socket, so that is
 * read first; but whoever floods us does not stop our timers.
 */
static void expire(struct ur_lane *l, bool dry, uint64_t now_ns)
{
	uint64_t due = ur_roce_deadline(l->roce);

	if (due > now_ns)
		return;
	if (!dry && now_ns - due > LATE_NS &&
	    ++l->timer_waits < READS_PER_TIMER)
		return;
	l->timer_waits = 0;
	ur_roce_expire(l->roce, now_ns);
}

/*
 * A cell waits for packets that were sent before it: they have been read when
 * the link is dry, or as much came as a socket holds.  A port reads the socket
 * of the host's own packets only now and then.
 */
static void note_dry(struct ur_lane *l, int n)
{
	uint32_t looks = l->adapter->dev.spec.port ? UR_PORT_HOST_EVERY : 1;

	l->held_packets += (uint32_t)n;
	l->dry_looks = n ? 0 : l->dry_looks + 1;
	if (l->dry_looks < looks && l->held_packets < HELD_MAX)
		return;
	l->dry_looks = 0;
	l->held_packets = 0;
	ur_shm_link_empty(l->roce);
}

/*
 * Bursts that lie there together are taken together, so that one
 * acknowledgement does for all of them: it costs the receiver a third of what a
 * burst does.  Bursts of small packets are not: it took 11 % of their rate.
 */
static int read_link(struct ur_lane *l)
{
	int n, all = 0;

	for (int i = 0; i < BURSTS_AT_ONCE; i++) {
		l->read_bytes = 0;
		n = l->link->ops->recv(l->link, on_packet, l);
		if (n < 0)
			return i ? all : n;
		all += n;
		if (l->read_bytes < BURST_BYTES)
			break;
	}
	return all;
}

static int receive(struct ur_lane *l)
{
	int n;

	l->now_ns = 0;
	l->heard = false;
	n = read_link(l);
	/* Until memory brings something again; packets that are for nothing
	 * here are no reason to read the link with each poll. */
	if (l->heard)
		l->shm_hot = 0;
	if (l->link->served)
		l->empty_looks = n ? 0 : l->empty_looks + 1;
	if (n >= 0 && ur_shm_waits_link(l->roce))
		note_dry(l, n);
	return n;
}

/* What came through shared memory. */
static int receive_shm(struct ur_lane *l, uint64_t now_ns)
{
	int n;

	if (!ur_shm_any(l->roce))
		return 0;
	n = ur_shm_poll(l->roce, now_ns);
	if (n)
		l->shm_hot = SHM_HOT;
	else
		ur_shm_flush_acks(l->roce);
	return n;
}

/* What follows on n packets received.  Returns when it was done. */
static uint64_t respond(struct ur_lane *l, int n, uint64_t now_ns)
{
	uint64_t done_ns;

	if (l->now_ns)
		now_ns = l->now_ns;
	if (n)
		l->activity_ns = now_ns;
	ur_lane_drain(l, now_ns);
	expire(l, n == 0, now_ns);
	if (!ur_lane_send(l, now_ns) || n == 0)
		return now_ns;
	done_ns = ur_clock_ns();
	ur_roce_replies_sent(l->roce, now_ns, done_ns);
	return done_ns;
}

int ur_lane_step(struct ur_lane *l, uint64_t now_ns)
{
	int n;

	if (!l->roce)
		return l->ops->step(l, now_ns);
	n = receive_shm(l, now_ns);
	/* The link costs a system call to look at; but it gets its turns. */
	if (n == 0 || ++l->shm_steps % SHM_STEPS == 0)
		n += receive(l);
	else
		l->now_ns = 0;
	respond(l, n, now_ns);
	return n;
}

static bool is_armed(const struct ur_cq *cq)
{
	return cq && atomic_load_explicit(&cq->armed, memory_order_relaxed) !=
			     UR_CQ_IDLE;
}

/*
 * Somebody waits for the next entry, whatever it is, or may sleep until one that
 * is solicited comes.  A program that polls all the time may have armed the
 * queue for the latter as well, as UCX does for its UD interface.
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
 * An application that asks for few completions fills its queue and then waits
 * for the next one.  If the burst leaves with the request that is to bring it,
 * the answer comes while the rest of the queue is being filled.
 */
static bool is_waited_for(struct ur_lane *l, const struct ur_qp *qp,
			  const struct ur_swqe *w, uint32_t outstanding)
{
	bool first = !l->gathered_signaled;

	if (!qp->sq_sig_all && !(w->flags & UR_SEND_SIGNALED))
		return false;
	l->gathered_signaled = true;
	return first && l->gathered >= GATHER_SIGNALED &&
	       outstanding > qp->sq.max_wr / 2;
}

/*
 * Will somebody come by soon who sends what waits?  The application that polls;
 * or, where it only posts, and that again and again, or where much is under way
 * that will be answered, the helper, which the answer wakes or, if that is late,
 * its deadline.  Threads that share a core have it too seldom to count as pollers
 * of lanes of their own, but what each posts is a stream all the same.  Sent one
 * by one, the requests of such a burst would cost as many datagrams and, where
 * the helper has the same core, two changes of threads for each.
 */
static bool is_attended(const struct ur_lane *l, const struct ur_qp *qp,
			uint32_t outstanding)
{
	if (l->watch == UR_WATCH_TICK)
		return true;
	return l->roce && ur_qp_type_reliable(qp->type) &&
	       (l->post_streak >= BURST_MIN || outstanding > GATHER_BEHIND);
}

/*
 * Is the last burst, or the first request that waits, a moment old at most?
 * Who got completions for many fills his queue again, with many: then the
 * moment begins with the first of them, which else would leave alone.
 */
static bool is_moment(struct ur_lane *l)
{
	uint64_t now = ur_ticks(), moment = l->gather_ns * UR_TICKS_PER_NS;

	if (now - l->flush_ticks <= moment)
		return true;
	if (l->gathered || l->company < GATHER_COMPANY ||
	    now - l->flush_ticks > GATHER_PAUSES * moment)
		return false;
	l->flush_ticks = now;
	return true;
}

/*
 * May the requests just posted on qp wait?  The newest stands for all.  It is
 * not completed (tail is beyond head), so nobody writes its slot.
 */
static bool may_gather(struct ur_lane *l, const struct ur_qp *qp)
{
	uint32_t tail =
		atomic_load_explicit(&qp->sq.tail, memory_order_acquire);
	uint32_t head =
		atomic_load_explicit(&qp->sq.head, memory_order_relaxed);
	const struct ur_swqe *w;

	l->post_streak++;
	if (!is_attended(l, qp, tail - head) || l->held || !is_moment(l) ||
	    awaits_event(l, qp->send_cq) || awaits_event(l, qp->recv_cq))
		return false;
	/* Reliable requests are outstanding until answered; others complete
	 * as they leave, those of iWARP as well. */
	if (tail == head || (l->roce && ur_qp_type_reliable(qp->type) &&
			     !ur_roce_is_under_way(qp)))
		return false;
	w = ur_sq_slot(&qp->sq, tail - 1);
	l->gathered_bytes += w->length;
	return ++l->gathered < GATHER_MAX &&
	       l->gathered_bytes <
		       (l->roce ? GATHER_MAX_BYTES : GATHER_STREAM) &&
	       !is_waited_for(l, qp, w, tail - head);
}

/*
 * The application posts or polls.  Both count: a streaming program fills its
 * queue for longer than a pause may be before it polls again.  What the helper
 * took of its time, if they share a core, is no pause; and what it hears of a
 * poll that found the lane taken may be older than the last one that did not.
 */
static void note_activity(struct ur_lane *l, uint64_t now)
{
	uint64_t last = l->app_ns > l->excuse_ns ? l->app_ns : l->excuse_ns;

	if (now > last &&
	    now - last > (uint64_t)UR_POLL_GAP_NS * l->poll_timescale) {
		l->streak_ns = now;
		l->post_streak = 0;
	}
	if (now > l->app_ns)
		l->app_ns = now;
}

/*
 * While somebody polls, the time of his last look at the clock is good enough
 * for timers; not for completions that are stamped with it.
 */
static uint64_t coarse_now(const struct ur_lane *l)
{
	return l->watch == UR_WATCH_TICK &&
			       !atomic_load_explicit(&l->stamps,
						     memory_order_relaxed)
		       ? l->app_ns
		       : ur_clock_ns();
}

/*
 * Nobody looks at the time with which completions of qp are stamped.  Who arms
 * the queue just now may have one event too early, if he has it moderated.
 */
static bool is_timeless(const struct ur_lane *l, const struct ur_qp *qp)
{
	return !atomic_load_explicit(&l->stamps, memory_order_relaxed) &&
	       !is_armed(qp->send_cq);
}

/*
 * The request leaves by memory, and nothing else is to be done: no clock is
 * read, no burst is built.  False: there is more, the lane is still held.
 */
static bool kick_shm(struct ur_lane *l, struct ur_qp *qp)
{
	bool direct = (is_timeless(l, qp) && ur_shm_kick_direct(qp)) ||
		      ur_shm_kick_small(qp);
	bool share;

	if (!direct) {
		ur_roce_kick(l->roce, qp, coarse_now(l));
		ur_shm_signal(l->roce);
	}
	if (!qp->on_shm || ur_doorbell_is_set(&l->doorbell))
		return false;
	share = ++l->shm_posts % SHARE_EVERY == 0;
	if (direct)
		ur_lane_unlock_same(l);
	else
		ur_lane_unlock(l);
	if (share)
		ur_shm_share(l->adapter);
	return true;
}

static void flush(struct ur_lane *l, uint64_t now)
{
	if (!l->gathered)
		l->company = 0;
	ur_lane_send(l, now);
	/* Not when it began: the call is as long as the moment. */
	l->flush_ticks = ur_ticks();
	l->app_ns = ur_clock_ns();
}

/*
 * One more request for a burst that waits: no clock is read, which would cost
 * more than all else.  False: there is more to do, the lane is still held.
 */
static bool gather_more(struct ur_lane *l, struct ur_qp *qp)
{
	if (ur_doorbell_is_set(&l->doorbell))
		return false;
	ur_lane_kick(l, qp, l->app_ns);
	if (!may_gather(l, qp))
		flush(l, ur_clock_ns());
	ur_lane_unlock(l);
	return true;
}

/*
 * Who finds completions when he polls does not come to the lane; that he takes
 * some again and again between his requests says that he polls.  Else a helper
 * on the core of the application, which has done the work each time before the
 * application looks, would never learn that it is not needed.  A queue that may
 * overrun moves its head by itself.
 */
static bool note_taken(struct ur_lane *l, struct ur_qp *qp, uint64_t now)
{
	const struct ur_cq *cq = qp->send_cq;
	uint64_t last = l->taken_ns;
	uint32_t head;

	if (!cq || cq->ignore_overrun || is_armed(cq) || is_armed(qp->recv_cq))
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
	if (ur_latch_try(&l->lock)) {
		if (qp->on_shm && kick_shm(l, qp))
			return;
		if (l->gathered && gather_more(l, qp))
			return;
		now = ur_clock_ns();
		kick(l, qp, now);
	} else {
		if (!ur_lane_ring(l, qp))
			return;
		now = ur_clock_ns();
	}
	ur_lane_drain(l, now);
	note_activity(l, now);
	if (l->watch == UR_WATCH_ARMED)
		wake = note_taken(l, qp, now);
	if (now < l->no_gather_until_ns || !may_gather(l, qp))
		flush(l, now);
	ur_lane_unlock(l);
	if (wake)
		ur_lane_hand_over(l);
}

bool ur_lane_note_poll(struct ur_lane *l, uint64_t now)
{
	note_activity(l, now);
	l->post_streak = 0;
	if (l->watch == UR_WATCH_TICK || now < l->streak_ns + l->streak_need_ns)
		return false;
	l->watch = UR_WATCH_TICK;
	if (l->roce)
		ur_shm_polled(l->roce);
	l->shm_polled = true;
	l->tick_since_ns = now;
	return true;
}

/*
 * The lock is not fair, so those asleep on it need it to be free most of the
 * time; but not all the time, since on a busy machine they may come only
 * after milliseconds, and the lane must not stand still for that long.
 */
static bool make_way(struct ur_lane *l)
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
 * The holder is told that somebody polls.  It may be a helper that shares our
 * core and was interrupted: then polling on only keeps it from finishing.
 *
 * Threads that poll one queue are interchangeable.  When some of them yield
 * already, the cores are short, and the others sleep instead of taking turns
 * with the holder and with the threads that send.
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

/* Nothing waits that a poll would have to look after first. */
static bool may_glance(struct ur_lane *l)
{
	return l->watch == UR_WATCH_TICK && (l->roce || l->ops->glance) &&
	       !l->held && !l->gathered && !ur_doorbell_is_set(&l->doorbell);
}

/*
 * While messages come through memory, most polls look there alone: a look at
 * the clock or into the link costs more than the message.  False: this one is
 * to do more.
 */
static bool glance_shm(struct ur_lane *l)
{
	uint64_t now;
	int n;

	l->shm_hot--;
	if (ur_shm_waits_link(l->roce)) {
		l->link_ns = 0;
		return false;
	}
	l->shm_polls++;
	if (!ur_shm_pending(l->roce)) {
		ur_shm_idle(l->roce);
		return ++l->shm_work < SHM_WORK;
	}
	now = coarse_now(l);
	n = receive_shm(l, now);
	if (n)
		l->activity_ns = now;
	if (!ur_roce_is_quiet(l->roce))
		ur_lane_send(l, now);
	l->shm_work += (uint32_t)n + 1;
	return l->shm_work < SHM_WORK;
}

/* The rest of what a poll does, but for the link.  False: its turn has come. */
static bool look_up(struct ur_lane *l, uint64_t now)
{
	l->shm_work = 0;
	if (now - l->link_ns > (uint64_t)SHM_LINK_NS * l->timescale)
		return false;
	expire(l, true, now);
	ur_lane_send(l, now);
	return true;
}

/*
 * Who waits for a message polls until it is there, and what a poll costs that
 * finds nothing delays it by half.  So most polls only look into the link; the
 * clock, the timers and what waits to be sent have to do with one of
 * GLANCES.  True: nothing was there; else *now is told, if it is known.
 */
static bool glance(struct ur_lane *l, uint64_t *now)
{
	int n;

	if (++l->glances % GLANCES == 0)
		return false;
	n = l->roce ? receive(l) : l->ops->glance(l);
	if (n == 0)
		return true;
	if (n == -EAGAIN && !l->roce)
		return false;
	*now = l->now_ns ? l->now_ns : ur_clock_ns();
	/* Our own work is no pause of the application. */
	if (l->roce)
		*now = respond(l, n, *now);
	return false;
}

/*
 * Not while the lane is held: the core may come back late.  Where nobody wants
 * it the next time is later.
 */
static void give_way(struct ur_lane *l)
{
	struct ur_yield way = l->way;
	bool taken;

	l->empty_looks = 0;
	ur_lane_unlock(l);
	if (!ur_yield_allowed(&way, ur_clock_ns()))
		return;
	taken = ur_yield_cpu(&way);
	if (!ur_latch_try(&l->lock))
		return;
	l->way = way;
	l->way_looks = taken ? WAY_LOOKS_MIN : l->way_looks * 2;
	if (l->way_looks < WAY_LOOKS_MIN)
		l->way_looks = WAY_LOOKS_MIN;
	if (l->way_looks > WAY_LOOKS_MAX)
		l->way_looks = WAY_LOOKS_MAX;
	ur_lane_unlock(l);
}

/* A helper that is told to tick comes first: till then it sleeps on the link,
 * and nobody looks after what becomes due. */
static void end_poll(struct ur_lane *l, bool wake)
{
	if (!wake && l->empty_looks > l->way_looks)
		give_way(l);
	else
		ur_lane_unlock(l);
	if (wake)
		ur_lane_hand_over(l);
}

/*
 * One read is enough if it completed something: the application has work
 * then, and a further read that finds nothing would only delay it.  True: it
 * was more than a glance.
 */
static bool poll_lane(struct ur_lane *l, struct ur_cq *cq)
{
	uint64_t now = 0;
	bool wake, glances;

	/* Armed for any entry, it is not polled but waited for, and the helper
	 * works: a completion made here would leave an event that finds
	 * nothing.  Armed for solicited ones it may be polled for the others,
	 * and the helper would need a core for each packet. */
	if (atomic_load_explicit(&cq->armed, memory_order_relaxed) ==
	    UR_CQ_ARMED_ANY)
		return true;
	if (make_way(l) || !ur_latch_try(&l->lock)) {
		missed(l, cq);
		return true;
	}
	atomic_store_explicit(
		&l->polls,
		atomic_load_explicit(&l->polls, memory_order_relaxed) + 1,
		memory_order_relaxed);
	glances = may_glance(l);
	if (glances && (l->shm_hot ? glance_shm(l) : glance(l, &now))) {
		end_poll(l, false);
		return false;
	}
	if (!now)
		now = ur_clock_ns();
	wake = ur_lane_note_poll(l, now);
	/* A helper that is told to tick comes first: it sleeps on the link. */
	if (!wake && glances && l->shm_hot && look_up(l, now)) {
		end_poll(l, false);
		return true;
	}
	l->link_ns = now;
	for (uint32_t i = 0; i < READS_PER_POLL && ur_cq_is_empty(cq); i++) {
		if (!ur_lane_step(l, now))
			break;
		/* Our own work is no pause of the application. */
		now = ur_clock_ns();
		l->app_ns = now;
	}
	end_poll(l, wake);
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
