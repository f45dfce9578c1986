/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The amount of data in flight to a destination lane. It protects the receive
 * buffer of the lane's socket, whose size is unknown. So the window starts at
 * the smallest common buffer size, grows with acknowledgements (slow start,
 * then one packet per window), and is halved at most once per round trip on
 * loss (in the spirit of RFC 5681). READ responses need no estimate: they go
 * into our own buffer, and the requester requests no more than that holds
 * (ur_roce.rd_window).
 */
#include "roce/congestion.h"

#define CWND_START	  (192u << 10)
#define CWND_MIN	  (8u << 10)
#define CWND_MAX	  (1u << 20)
/* 64 packets of 64 bytes */
#define BURST_ROOM	  (12u << 10)
#define CUT_INTERVAL_NS	  200000u
#define LOSS_SHARE	  8u
/* The minimum duration of a timeout. */
#define STALL_INTERVAL_NS 8000000u

/* UC and UD: a burst of the size of a small socket buffer, then this rate. */
#define PACE_BURST	  (160u << 10)
#define PACE_BYTES_PER_US 4000u

void ur_cong_init(struct ur_path *p)
{
	p->cwnd = CWND_START;
	p->round_size = CWND_START;
	p->ssthresh = CWND_MAX;
}

/*
 * Silly window avoidance (RFC 9293 3.8.6.2): packets leave until the window is
 * full, then none until there is room for a burst of small ones. If each
 * acknowledgement were followed by as much as it makes room for, a short burst
 * would be followed by short ones for ever. The QP that fills the window
 * requests an acknowledgement; others, which stopped for other reasons, may not
 * have. So its acknowledgement opens the window in any case. For the same reason one
 * packet may leave after a reduction to less than what is in flight: it requests
 * an acknowledgement, and fills the window.
 */
bool ur_cong_may_send(const struct ur_path *p)
{
	return !p->filled_by;
}

void ur_cong_sent(struct ur_rqp *q, uint32_t price)
{
	struct ur_path *p = q->path;

	q->req.inflight += price;
	p->inflight += price;
	p->filled_by = p->inflight >= p->cwnd ? q : NULL;
}

static bool has_room(const struct ur_path *p)
{
	uint64_t room = p->cwnd / 2 < BURST_ROOM ? p->cwnd / 2 : BURST_ROOM;

	return p->inflight + room <= p->cwnd;
}

/*
 * QPs that wait for the window are resumed one at a time in their path's turn,
 * while there is room: waking all of many on each acknowledgement would only
 * queue them again. A resumed QP precedes those that came since, which would
 * otherwise take the room each time.
 */
bool ur_cong_wake(struct ur_path *p)
{
	struct ur_rqp *q;

	if (ur_list_empty(&p->waiters) || !ur_cong_may_send(p))
		return false;
	q = ur_container_of(p->waiters.next, struct ur_rqp, sending);
	ur_rqp_want_send(q);
	ur_list_del(&q->sending);
	ur_list_add_head(&p->senders, &q->sending);
	return true;
}

static void release(struct ur_rqp *q, uint64_t price)
{
	struct ur_path *p = q->path;

	q->req.inflight -= price;
	p->inflight -= price;
	p->left += price;
	if (has_room(p) || (p->filled_by == q && !q->req.inflight))
		p->filled_by = NULL;
	if (!ur_list_empty(&p->waiters) && ur_cong_may_send(p))
		ur_path_activate(q->r, p);
}

/*
 * Packets that selective repeat found lost.  Networks lose single packets for
 * many reasons; a full receive buffer is reported by its owner (ur_cong_loss()).
 * A loss of more than an eighth of a window is taken for a full queue on the
 * way, which no report names.
 */
static void judge_losses(struct ur_path *p, uint64_t now_ns)
{
	uint64_t all = p->round_lost + p->round_acked;

	if (all < p->round_size)
		return;
	if (p->round_lost * LOSS_SHARE > all)
		ur_cong_loss(p, now_ns);
	p->round_lost = 0;
	p->round_acked = 0;
	p->round_size = p->cwnd;
}

void ur_cong_acked(struct ur_rqp *q, uint64_t price)
{
	struct ur_path *p = q->path;

	if (price == 0)
		return;
	p->round_acked += price;
	judge_losses(p, q->r->now_ns);
	if (p->cwnd < p->ssthresh)
		p->cwnd += price;
	else
		p->cwnd += price * 4096 / p->cwnd;
	if (p->cwnd > CWND_MAX)
		p->cwnd = CWND_MAX;
	release(q, price);
}

void ur_cong_lost(struct ur_rqp *q, uint64_t price)
{
	q->path->round_lost += price;
	judge_losses(q->path, q->r->now_ns);
}

void ur_cong_rewound(struct ur_rqp *q)
{
	if (q->req.inflight)
		release(q, q->req.inflight);
}

void ur_cong_loss(struct ur_path *p, uint64_t now_ns)
{
	uint64_t gap =
		p->srtt_ns > CUT_INTERVAL_NS ? p->srtt_ns : CUT_INTERVAL_NS;

	if (p->cut_at_ns && now_ns - p->cut_at_ns < gap)
		return;
	p->cut_at_ns = now_ns;
	p->marks_end = p->left + p->inflight;
	p->ssthresh = p->cwnd / 2 > CWND_MIN ? p->cwnd / 2 : CWND_MIN;
	p->cwnd = p->ssthresh;
}

/*
 * A CNP.  Marks on what was sent before the last reduction say nothing about it: once
 * per window of data (RFC 3168 6.1.2).  A round trip in time would not do, since the
 * queue that causes the marks lengthens it.
 */
void ur_cong_marked(struct ur_path *p, uint64_t now_ns)
{
	if (p->left >= p->marks_end)
		ur_cong_loss(p, now_ns);
}

/* No response at all: restart with a small window. If the peer stopped, all QPs
 * of the path time out one after the other; they count as one event. */
void ur_cong_timeout(struct ur_path *p, uint64_t now_ns)
{
	if (p->stall_at_ns && now_ns - p->stall_at_ns < STALL_INTERVAL_NS)
		return;
	p->stall_at_ns = now_ns;
	p->ssthresh = p->cwnd / 2 > CWND_MIN ? p->cwnd / 2 : CWND_MIN;
	p->cwnd = CWND_MIN;
}

/* May an unacknowledged packet leave now? If not, sets q's timer for when it
 * may. The path is a token bucket with a fixed rate. */
bool ur_cong_pace(struct ur_rqp *q, uint32_t price, uint64_t now_ns)
{
	struct ur_path *p = q->path;
	uint64_t burst_ns = (uint64_t)PACE_BURST * 1000 / PACE_BYTES_PER_US;

	if (p->pace_at_ns < now_ns)
		p->pace_at_ns = now_ns;
	if (p->pace_at_ns > now_ns + burst_ns) {
		/* Half a bucket at a time, so that bursts stay long. */
		ur_timer_arm(&q->r->timers, &q->timer,
			     p->pace_at_ns - burst_ns / 2);
		return false;
	}
	p->pace_at_ns += (uint64_t)price * 1000 / PACE_BYTES_PER_US;
	return true;
}

/* READ bytes arrived, or are no longer expected. */
void ur_cong_read_done(struct ur_rqp *q, uint64_t bytes)
{
	struct ur_roce *r = q->r;
	uint64_t n = bytes < q->req.rd_inflight ? bytes : q->req.rd_inflight;

	q->req.rd_inflight -= n;
	r->rd_inflight -= n;
	while (!ur_list_empty(&r->rd_waiters) &&
	       r->rd_inflight + r->rd_chunk <= r->rd_window) {
		struct ur_rqp *w = ur_container_of(r->rd_waiters.next,
						   struct ur_rqp, sending);

		ur_rqp_want_send(w);
		if (r->rd_inflight == 0)
			continue;
		break;
	}
}

void ur_cong_rtt(struct ur_path *p, uint64_t rtt_ns)
{
	if (p->srtt_ns == 0)
		p->srtt_ns = rtt_ns;
	else
		p->srtt_ns += rtt_ns / 8 - p->srtt_ns / 8;
}
