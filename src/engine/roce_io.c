/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a lane of RoCE does for each message: it reads the link and the shared
 * memory of peers, and sends; lane_roce.c has the rest of the lane.
 */
#include "engine/roce_io.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "engine/capture.h"
#include "engine/faulty_link.h"
#include "engine/hooks.h"
#include "engine/shm_peers.h"
#include "ports/port.h"
#include "shm/shm.h"

#define BURSTS_PER_SEND 256u
/* After a read of BURST_BYTES or more, read again: at most BURSTS_AT_ONCE reads. */
#define BURST_BYTES	16384u
#define BURSTS_AT_ONCE	4
#define RETRY_SEND_NS	100000u
#define LATE_NS		100000u
#define READS_PER_TIMER 64u
/*
 * After shared memory brought something, the next SHM_HOT polls read only that:
 * otherwise an 8 B SEND takes 0.9 us instead of 0.2, and 64 B SENDs have 0.62 of
 * the rate (three rounds in turn).  Every SHM_WORK polls and descriptors they read the clock, and every
 * SHM_LINK_NS the link.
 */
#define SHM_HOT		4096u
#define SHM_WORK	128u
#define SHM_LINK_NS	8000u
/* Posts between two checks of peers' requests (ur_shm_share()). */
#define SHARE_EVERY	16u
/* While steps find descriptors, every SHM_STEPS-th also reads the link. */
#define SHM_STEPS	8u

static void input(struct ur_lane *l, const struct ur_rx *rx)
{
	if (__builtin_expect(l->serves_qp1, 0) && ur_cm_hook_input(rx))
		return;
	l->accepted |= ur_roce_input(l->roce, rx, l->now_ns);
}

static void on_packet(void *arg, const struct ur_rx *rx)
{
	struct ur_lane *l = arg;

	if (l->now_ns == 0)
		l->now_ns = ur_clock_ns();
	l->read_bytes += rx->len;
	if (__builtin_expect(l->tap != NULL, 0))
		ur_tap_packet(l, rx, input);
	else
		input(l, rx);
}

void ur_roce_io_kick(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	if (ur_roce_leaves_wire(qp)) {
		ur_roce_flush_acks(l->roce, now_ns);
		ur_lane_send(l, now_ns);
	}
	ur_roce_kick(l->roce, qp, now_ns);
}

/* What the link cannot take now is kept and goes first the next time; what it
 * cannot send at all is lost, and the protocol finds that out. */
bool ur_roce_io_send(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_burst *t = &l->burst;
	uint32_t n;

	l->retry_ns = UR_NEVER;
	for (n = 0; l->held || ur_roce_output(l->roce, t, now_ns); n++) {
		int err = n < BURSTS_PER_SEND ? l->link->ops->send(l->link, t)
					      : -EAGAIN;

		l->held = err == -EAGAIN;
		if (l->held) {
			l->retry_ns = now_ns + RETRY_SEND_NS;
			break;
		}
		if (__builtin_expect(l->tap != NULL, 0) &&
		    !ur_faulty_link_is(l->link))
			ur_tap_burst(l->tap, t, err);
		if (err)
			ur_debug("lane %u: burst of %u x %u bytes: %s", l->id,
				 t->npkts, t->pkt_len, strerror(-err));
	}
	if (n)
		l->activity_ns = now_ns;
	return n;
}

/*
 * A timer this late means that no thread could run (the process was stopped,
 * the machine was busy).  The answer may be in the socket, so read that first;
 * but not for ever, or a flood of packets would stop the timers.  dry: no packet
 * was read just now, so expire at once.
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
	ur_roce_set_load(l->roce, ur_sched_last_load());
	ur_roce_expire(l->roce, now_ns);
}

/*
 * A ring descriptor marked BEHIND waits until all packets sent before it were
 * read: the link was empty, or as many packets came as a socket buffer holds.  A
 * DPDK port reads the host's sockets once in UR_PORT_HOST_EVERY reads, so there
 * so many in a row must be empty.
 */
static void note_dry(struct ur_lane *l, int n)
{
	uint32_t looks = l->adapter->dev.spec.port ? UR_PORT_HOST_EVERY : 1;

	l->link_wait_packets += (uint32_t)n;
	l->link_wait_empty = n ? 0 : l->link_wait_empty + 1;
	if (l->link_wait_empty < looks &&
	    l->link_wait_packets < UR_SOCKET_PACKETS)
		return;
	l->link_wait_empty = 0;
	l->link_wait_packets = 0;
	ur_shm_link_empty(l->roce);
}

/*
 * An acknowledgement costs the receiver a third of a burst, so several large
 * bursts are read before one is sent.  Bursts of small packets are read one at a
 * time: together they were 11 % slower.
 */
static int read_link(struct ur_lane *l)
{
	int n = 0;

	for (int i = 0; i < BURSTS_AT_ONCE; i++) {
		l->read_bytes = 0;
		n += l->link->ops->recv(l->link, on_packet, l);
		if (l->read_bytes < BURST_BYTES)
			break;
	}
	return n;
}

/* A due timer may be about an answer that has come since the link was empty. */
static int receive(struct ur_lane *l, uint64_t now_ns)
{
	int n;

	l->now_ns = 0;
	if (l->link_dry && !ur_shm_waits_link(l->roce) &&
	    ur_roce_deadline(l->roce) > now_ns)
		return 0;
	l->accepted = false;
	n = read_link(l);
	/* A QP took a packet: polls read the link again, until shared memory
	 * brings something. */
	if (l->accepted)
		l->shm_hot = 0;
	if (l->link->served)
		l->empty_reads = n ? 0 : l->empty_reads + 1;
	if (ur_shm_waits_link(l->roce))
		note_dry(l, n);
	return n;
}

/* Reads descriptors from shared memory; returns their number. */
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

/* After n packets or descriptors were read: doorbells, timers, sending.  Returns
 * the time, read again if anything was sent. */
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

int ur_roce_io_step(struct ur_lane *l, uint64_t now_ns)
{
	int n;

	n = receive_shm(l, now_ns);
	/* Reading the link is a system call: not in each step. */
	if (n == 0 || ++l->shm_steps % SHM_STEPS == 0) {
		n += receive(l, now_ns);
		l->link_ns = now_ns;
	} else {
		l->now_ns = 0;
	}
	respond(l, n, now_ns);
	return n;
}

/*
 * While the application polls, the time of its last post or poll is precise
 * enough for timers, but not for completions that are stamped with it.
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
 * May completions of qp use an old time?  Yes, if no CQ stamps them and the send
 * CQ is not armed.  If another thread arms it at this instant, a moderated event
 * may come too early.
 */
static bool needs_no_time(const struct ur_lane *l, const struct ur_qp *qp)
{
	return !atomic_load_explicit(&l->stamps, memory_order_relaxed) &&
	       !ur_cq_is_armed(qp->send_cq);
}

/*
 * Through shared memory, without building a burst.  True: done, and the lane is
 * unlocked.  False: there is more to do, and the lane is still locked.
 */
bool ur_roce_io_post_shm(struct ur_lane *l, struct ur_qp *qp)
{
	bool direct = (needs_no_time(l, qp) && ur_shm_kick_direct(qp)) ||
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

/*
 * While messages come through shared memory, most polls look only there:
 * reading the clock or the link costs more than the message.  False: this poll
 * has to do more.
 */
static bool poll_shm(struct ur_lane *l)
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

/*
 * Few polls read the clock.  If the link was read lately, such a poll runs timers
 * and sends.  False: it is time to read the link as well.
 */
static bool poll_without_link(struct ur_lane *l, uint64_t *now)
{
	*now = ur_clock_ns();
	l->shm_work = 0;
	if (*now - l->link_ns > (uint64_t)SHM_LINK_NS * l->timescale)
		return false;
	(void)ur_lane_note_poll(l, *now); /* TICK: watch stays */
	expire(l, true, *now);
	ur_lane_send(l, *now);
	return true;
}

bool ur_roce_io_quick_poll(struct ur_lane *l, uint64_t *now)
{
	int n;

	if (l->shm_hot)
		return poll_shm(l) || poll_without_link(l, now);
	if (ur_lane_full_poll_is_due(l))
		return false;
	n = receive(l, 0);
	if (n == 0)
		return true;
	/* Our own work is no gap between polls. */
	*now = respond(l, n, l->now_ns ? l->now_ns : ur_clock_ns());
	return false;
}
