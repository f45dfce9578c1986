/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC requester, receiving side (IBTA 9.7.4 to 9.7.7): acknowledgements, READ
 * and atomic responses, NAKs, timeouts; completes send requests in order.
 *
 * Responses come in PSN order. One that skips over a READ or atomic whose own
 * response is missing means that this was lost: an implied NAK (9.7.5.1.1).
 * With a urnic as its peer only what is lost is then sent again (rc_repair.c).
 *
 * Two timeouts run while something is unacknowledged. The application's ack
 * timeout counts against retry_cnt (IBTA 9.7.6.1.3). Since it is often long, an
 * early retransmission after a few round trips repairs the loss of a last
 * packet or of a NAK; it counts against nothing. To a urnic it is only a probe,
 * one packet, so that it may come sooner.
 */
#include <errno.h>

#include "roce/congestion.h"
#include "roce/dc.h"
#include "roce/masked.h"
#include "roce/selective.h"

/* Scheduling latency of an ordinary thread. */
#define ACK_TIMEOUT_MIN_NS  16000000u
/* The same on a busy machine. */
#define ACK_TIMEOUT_EASY_NS 250000000u
#define EARLY_MIN_NS	    8000000u
#define PROBE_MORE_NS	    500000u
/*
 * The same where timers are late (ur_roce_timers_late()).  32 pairs in epoll on two
 * processors, by sockets: 1.31 (1.01-2.06) times the messages, in seven rounds.
 */
#define PROBE_LATE_NS	    4000000u
#define EARLY_MAX_SHIFT	    6u
/* Implied NAKs within this time are for the same loss. */
#define REWIND_HOLD_NS	    200000u

/* Write the completion of w, if requested or failed, and free its slot. */
void ur_req_complete(struct ur_rqp *q, const struct ur_swqe *w,
		     enum ur_wc_status status)
{
	if (__builtin_expect(w->proto_state == UR_SWQE_OWN, 0)) {
		ur_tm_own_done(q, status);
		return;
	}
	if (status != UR_WC_SUCCESS)
		q->r->cnt.req_cqe_error++;
	if (!ur_qp_complete(q->qp, w, status, q->r->now_ns))
		q->overrun = true;
}

static struct ur_swqe *oldest(struct ur_rqp *q)
{
	struct ur_sq *sq = &q->qp->sq;

	return ur_sq_slot(sq, ur_sq_head(sq));
}

void ur_req_fail(struct ur_rqp *q, enum ur_wc_status status)
{
	ur_record_req_fail(q, oldest(q), status);
	ur_req_complete(q, oldest(q), status);
	ur_rqp_fail(q, -1);
}

static bool has_read_response(const struct ur_swqe *w)
{
	return ur_swqe_is_read(w) || ur_swqe_is_placed(w);
}

void ur_req_consume(struct ur_rqp *q, const struct ur_swqe *w, uint32_t n,
		    uint32_t early)
{
	struct ur_requester *s = &q->req;
	int32_t behind = ur_psn_diff(s->psn, s->una);
	uint32_t flying = behind < 0 ? 0 : (uint32_t)behind;
	bool last = ur_psn_add(s->una, n - 1) == w->last_psn;

	if (flying > n)
		flying = n;
	if (!ur_swqe_is_answered(w) && flying > early)
		ur_cong_acked(q, (uint64_t)ur_swqe_price(w) * (flying - early));
	s->una = ur_psn_add(s->una, n);
	while (s->rd_count && ur_psn_diff(s->una, s->rd_last[s->rd_head]) > 0) {
		s->rd_head = (s->rd_head + 1) % UR_MAX_RD_ATOMIC;
		s->rd_count--;
	}
	if (last)
		ur_req_complete(q, w, UR_WC_SUCCESS);
}

/* A response to packets before a rewind may be ahead of the cursor. */
static void catch_up(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;
	uint32_t head = ur_sq_head(&q->qp->sq);

	if (ur_psn_diff(s->una, s->psn) > 0)
		s->psn = s->una;
	if ((int32_t)(head - s->cur) > 0)
		s->cur = head;
}

void ur_req_progress(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;

	catch_up(q);
	s->retries = q->qp->attr.retry_cnt;
	s->rnr_retries = q->qp->attr.rnr_retry;
	/*
	 * Packets that were in flight then may be retransmitted early only once
	 * more, after twice the time: slow responses are no reason to repeat
	 * everything.
	 */
	if (ur_psn_diff(s->una, s->recover) >= 0) {
		s->early = 0;
		s->probed = false;
	}
	s->retry_ns = now_ns;
	s->early_from_ns = now_ns;
	s->rewound = false;
	if (s->rtt_sent_ns && ur_psn_diff(s->una, s->rtt_psn) > 0) {
		ur_cong_rtt(q->path, now_ns - s->rtt_sent_ns);
		s->rtt_sent_ns = 0;
	}
	ur_tm_kick(q);
	if (q->shm)
		ur_shm_wire_done(q);
	if (s->cur != ur_sq_tail(&q->qp->sq) && !s->window_wait &&
	    ur_list_empty(&q->sending))
		ur_rqp_want_send(q);
	ur_rc_check_drained(q);
}

/* Everything before `upto` is acknowledged, except READs and atomics, which
 * only their own responses complete. Stops before such a request. */
static void advance(struct ur_rqp *q, uint32_t upto, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	uint32_t before = s->una;

	if (s->repairing) {
		(void)ur_repair_reached(q, upto, now_ns);
		return;
	}
	while (ur_psn_diff(upto, s->una) > 0) {
		const struct ur_swqe *w = oldest(q);
		uint32_t left = ur_psn_add(w->last_psn, 1);

		if (ur_swqe_is_answered(w))
			break;
		if (ur_psn_diff(left, upto) > 0)
			left = upto;
		ur_req_consume(q, w, (left - s->una) & UR_PSN_MASK, 0);
	}
	if (s->una != before)
		ur_req_progress(q, now_ns);
}

void ur_req_go_back(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;

	ur_repair_clear(q);
	s->probing = false;
	s->asked = false;
	ur_cong_rewound(q);
	ur_cong_read_done(q, s->rd_inflight);
	s->rd_count = 0;
	s->psn = s->una;
	s->cur = ur_sq_head(&q->qp->sq);
	s->rtt_sent_ns = 0;
	if (!s->rnr_wait)
		ur_rqp_want_send(q);
}

/* Uses one retry; false: none was left, and the QP migrated to its alternate
 * path, where it retransmits, or failed. */
static bool spend_retry(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;

	if (s->retries == 0) {
		if (ur_mig_escape(q))
			return false;
		q->r->cnt.retry_exceeded_err++;
		ur_req_fail(q, UR_WC_RETRY_EXC_ERR);
		return false;
	}
	s->retries--;
	return true;
}

/* Everything before psn is acknowledged, and a response before it is missing. */
static void implied_nak(struct ur_rqp *q, uint32_t psn, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;

	if (ur_rc_is_selective(q) && ur_repair_reached(q, psn, now_ns))
		return;
	/* Packets in flight at a rewind still arrive and report the same loss;
	 * a second loss is left to the timers. */
	if (s->rewound ||
	    (s->rewind_ns && now_ns - s->rewind_ns < REWIND_HOLD_NS))
		return;
	s->rewound = true;
	s->rewind_ns = now_ns;
	q->r->cnt.implied_nak_seq_err++;
	ur_cong_loss(q->path, now_ns);
	if (spend_retry(q))
		ur_req_go_back(q);
}

static void sequence_nak(struct ur_rqp *q, uint64_t now_ns)
{
	q->r->cnt.packet_seq_err++;
	q->req.rewind_ns = now_ns;
	ur_cong_loss(q->path, now_ns);
	if (spend_retry(q))
		ur_req_go_back(q);
}

/* IBTA 9.7.5.2.8: wait, then retransmit from the refused packet. */
static void rnr_nak(struct ur_rqp *q, uint8_t code, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;

	q->r->cnt.rcvd_rnr_err++;
	q->qp->rnr_received++;
	if (s->rnr_wait)
		return;
	if (s->rnr_retries == 0) {
		q->r->cnt.retry_rnr_exceeded_err++;
		ur_req_fail(q, UR_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	if (s->rnr_retries != 7) /* 7: infinite */
		s->rnr_retries--;
	s->rnr_wait = true;
	s->rnr_until_ns = now_ns + ur_rnr_timer_ns(code);
	ur_req_go_back(q);
	ur_list_del(&q->sending);
}

static void fatal_nak(struct ur_rqp *q, enum ur_nak code)
{
	struct ur_roce_counters *c = &q->r->cnt;

	switch (code) {
	case UR_NAK_INV_REQ:
		c->req_remote_invalid_request++;
		ur_req_fail(q, UR_WC_REM_INV_REQ_ERR);
		return;
	case UR_NAK_REM_ACCESS:
		c->req_remote_access_errors++;
		ur_req_fail(q, UR_WC_REM_ACCESS_ERR);
		return;
	case UR_NAK_REM_OP:
		c->req_remote_op_errors++;
		ur_req_fail(q, UR_WC_REM_OP_ERR);
		return;
	case UR_NAK_PSN_SEQ:
	case UR_NAK_INV_RD:
		break;
	}
	ur_req_fail(q, UR_WC_BAD_RESP_ERR);
}

static void nak(struct ur_rqp *q, const struct ur_in *in)
{
	uint8_t value = UR_AETH_VALUE(in->hdr.syndrome);

	ur_record_code(q->qp, UR_REC_NAK_RCVD, in->hdr.syndrome,
		       in->hdr.bth.psn);
	if (in->hdr.bth.selective && ur_rc_is_selective(q) &&
	    ur_repair_ranges(q, in)) {
		q->r->cnt.packet_seq_err++;
		return;
	}
	/* A NAK acknowledges everything before its PSN. */
	advance(q, in->hdr.bth.psn, in->now_ns);
	/* A urnic may have reported before that it keeps what it refuses now. */
	if (UR_AETH_CLASS(in->hdr.syndrome) == UR_AETH_RNR &&
	    (q->req.una == in->hdr.bth.psn || q->req.repairing))
		rnr_nak(q, value, in->now_ns);
	else if (q->req.una != in->hdr.bth.psn)
		implied_nak(q, in->hdr.bth.psn, in->now_ns);
	else if (value == UR_NAK_PSN_SEQ)
		sequence_nak(q, in->now_ns);
	else
		fatal_nak(q, (enum ur_nak)value);
}

static void ack(struct ur_rqp *q, uint32_t psn, uint64_t now_ns)
{
	uint32_t upto = ur_psn_add(psn, 1);

	q->r->cnt.acks_rcvd++;
	advance(q, upto, now_ns);
	if (ur_psn_diff(upto, q->req.una) > 0 && !q->req.repairing)
		implied_nak(q, upto, now_ns);
	ur_repair_expected(q, upto);
}

/* The request that waits for the response with this PSN; NULL: none. */
static struct ur_swqe *awaiting(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_swqe *w;

	advance(q, in->hdr.bth.psn, in->now_ns);
	if (q->req.una != in->hdr.bth.psn && !q->req.repairing)
		implied_nak(q, in->hdr.bth.psn, in->now_ns);
	if (q->req.una == in->hdr.bth.psn)
		w = oldest(q);
	else if (q->req.repairing)
		w = ur_repair_awaiting(q, in->hdr.bth.psn);
	else
		return NULL;
	if (!w)
		return NULL;
	if (in->hdr.op->kind == UR_OP_READ_RESPONSE ? !has_read_response(w)
						    : !ur_swqe_is_atomic(w)) {
		q->r->cnt.drop_ghost_ack++;
		return NULL;
	}
	return w;
}

static void response_fault(struct ur_rqp *q, int err)
{
	ur_req_fail(q,
		    err == -EMSGSIZE ? UR_WC_LOC_LEN_ERR : UR_WC_LOC_PROT_ERR);
}

/* The response of w with that PSN is in place. */
static void responded(struct ur_rqp *q, const struct ur_swqe *w, uint32_t psn,
		      uint64_t now_ns)
{
	if (q->req.repairing) {
		ur_repair_response(q, w, psn, now_ns);
		return;
	}
	ur_req_consume(q, w, 1, 0);
	ur_req_progress(q, now_ns);
}

/* Of a FLUSH or ATOMIC WRITE. */
static void placed_response(struct ur_rqp *q, const struct ur_swqe *w,
			    const struct ur_in *in)
{
	if (in->payload_len || in->hdr.op->position != UR_POS_ONLY) {
		ur_req_fail(q, UR_WC_BAD_RESP_ERR);
		return;
	}
	responded(q, w, in->hdr.bth.psn, in->now_ns);
}

static void read_response(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_swqe *w = awaiting(q, in);
	const struct ur_pd *pd;
	uint32_t off, len;
	int err;

	if (!w)
		return;
	if (w->opcode != UR_WR_RDMA_READ) {
		placed_response(q, w, in);
		return;
	}
	off = ((in->hdr.bth.psn - w->first_psn) & UR_PSN_MASK) * w->mtu;
	len = w->length - off < w->mtu ? w->length - off : w->mtu;
	if (in->payload_len != len) {
		ur_req_fail(q, UR_WC_BAD_RESP_ERR);
		return;
	}
	/* A tagged buffer is registered in its queue's PD. */
	pd = w->proto_state == UR_SWQE_OWN ? q->qp->srq->pd : q->qp->pd;
	err = ur_sge_scatter(q->qp->mrs, pd, w->data.sge, w->num_sge, off,
			     in->payload, len);
	if (err) {
		response_fault(q, err);
		return;
	}
	ur_cong_read_done(q, len);
	responded(q, w, in->hdr.bth.psn, in->now_ns);
}

static void atomic_response(struct ur_rqp *q, struct ur_in *in)
{
	struct ur_swqe *w = awaiting(q, in);
	uint8_t old[UR_MASKED_MAX];
	uint32_t len;
	int err;

	if (!w)
		return;
	len = ur_atomic_old(w, in, old);
	if (!len) {
		ur_req_fail(q, UR_WC_BAD_RESP_ERR);
		return;
	}
	err = ur_sge_scatter(q->qp->mrs, q->qp->pd, w->data.sge, w->num_sge, 0,
			     old, len);
	if (err) {
		response_fault(q, err);
		return;
	}
	responded(q, w, in->hdr.bth.psn, in->now_ns);
}

/* Is a request outstanding that a response with this PSN can be for? */
static bool is_awaited(struct ur_rqp *q, uint32_t psn)
{
	const struct ur_requester *s = &q->req;
	enum ur_qp_state state = ur_rqp_state(q);

	if ((state == UR_QPS_RTS || state == UR_QPS_SQD) &&
	    ur_psn_diff(psn, s->una) >= 0 && ur_psn_diff(psn, s->end) < 0)
		return true;
	q->r->cnt.drop_ghost_ack++;
	return false;
}

void ur_rc_acked(struct ur_rqp *q, uint32_t psn, uint64_t now_ns)
{
	if (!is_awaited(q, psn))
		return;
	ack(q, psn, now_ns);
	if (ur_rqp_state(q) != UR_QPS_ERR)
		ur_rc_timer_update(q, now_ns);
}

void ur_rc_response(struct ur_rqp *q, struct ur_in *in)
{
	if (!is_awaited(q, in->hdr.bth.psn))
		return;
	if (in->hdr.op->kind == UR_OP_READ_RESPONSE)
		read_response(q, in);
	else if (in->hdr.op->kind == UR_OP_ATOMIC_ACK)
		atomic_response(q, in);
	else if (UR_AETH_CLASS(in->hdr.syndrome) == UR_AETH_ACK)
		ack(q, in->hdr.bth.psn, in->now_ns);
	else
		nak(q, in);
	if (ur_rqp_state(q) != UR_QPS_ERR)
		ur_rc_timer_update(q, in->now_ns);
}

static uint64_t at_least(uint64_t t, uint64_t least)
{
	return t < least ? least : t;
}

/*
 * IBTA 9.7.6.1.3: 4.096 us * 2^timeout; 0: no timeout. C9-141 allows up to four
 * times that. Short ones are stretched: the peer's acknowledgements wait for a
 * CPU, unlike those of hardware. So are all where threads wait for processors
 * (ur_roce_set_load()): eight pollers on two processors were seen without one for
 * 4.3 s, as long as the eight timeouts of a connection of librdmacm.
 */
uint64_t ur_rc_ack_timeout_ns(const struct ur_rqp *q)
{
	uint64_t t, easy, load = at_least(q->r->load, 1);

	if (q->qp->attr.timeout == 0)
		return UR_NEVER;
	t = UINT64_C(4096) << q->qp->attr.timeout;
	if (t < ACK_TIMEOUT_MIN_NS)
		return ACK_TIMEOUT_MIN_NS * load;
	easy = 3 * t < ACK_TIMEOUT_EASY_NS ? 3 * t : ACK_TIMEOUT_EASY_NS;
	return at_least(t * load, easy);
}

static uint64_t early_delay_ns(struct ur_rqp *q)
{
	uint64_t rtt = q->path->srtt_ns, d;
	uint8_t shift =
		q->req.early < EARLY_MAX_SHIFT ? q->req.early : EARLY_MAX_SHIFT;

	if (rtt && ur_repair_may_probe(q))
		d = 2 * rtt +
		    (q->r->timers_late ? PROBE_LATE_NS : PROBE_MORE_NS);
	else
		d = at_least(4 * rtt, EARLY_MIN_NS);
	d <<= shift;
	return q->dci && d > UR_DC_EARLY_MAX_NS ? UR_DC_EARLY_MAX_NS : d;
}

void ur_rc_timer_update(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	uint64_t t, at;

	if (s->rnr_wait) {
		ur_timer_arm(&q->r->timers, &q->timer, s->rnr_until_ns);
		return;
	}
	if (s->una == s->end) {
		/* The timer of requests on the channel is the same. */
		if (!ur_shm_busy(q))
			ur_timer_cancel(&q->r->timers, &q->timer);
		return;
	}
	t = ur_rc_ack_timeout_ns(q);
	at = s->early_from_ns + early_delay_ns(q);
	if (t != UR_NEVER && s->retry_ns + t < at)
		at = s->retry_ns + t;
	ur_timer_arm(&q->r->timers, &q->timer, at > now_ns ? at : now_ns + 1);
}

/* One of the timeouts has expired; `over`: that of the application. */
static void early_repair(struct ur_rqp *q, bool over, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	bool probe = !over && ur_repair_may_probe(q);

	s->recover = s->end;
	if (!probe || ur_rc_is_selective(q))
		s->early++;
	if (probe) {
		s->probing = true;
		s->probed = true;
		ur_rqp_want_send(q);
		return;
	}
	ur_cong_timeout(q->path, now_ns);
	ur_req_go_back(q);
}

void ur_rc_timeout(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	uint64_t t = ur_rc_ack_timeout_ns(q);

	if (ur_shm_busy(q)) {
		(void)ur_shm_timeout(q);
		return;
	}
	if (s->rnr_wait) {
		s->rnr_wait = false;
		s->retry_ns = now_ns;
		s->early_from_ns = now_ns;
		q->r->cnt.rnr_nak_retry_err++;
		ur_rqp_want_send(q);
	} else if (s->parked_ns) {
		s->retry_ns += now_ns - s->parked_ns;
		s->early_from_ns += now_ns - s->parked_ns;
		s->parked_ns = now_ns;
	} else if (q->dci && ur_dci_gives_up(q, now_ns)) {
		return;
	} else if (s->una != s->end) {
		bool over = t != UR_NEVER && now_ns - s->retry_ns >= t;

		if (over) {
			q->r->cnt.local_ack_timeout_err++;
			ur_record_code(q->qp, UR_REC_TIMEOUT, 0, s->una);
			if (!spend_retry(q))
				return;
			s->retry_ns = now_ns;
		}
		s->early_from_ns = now_ns;
		early_repair(q, over, now_ns);
	}
	ur_rc_timer_update(q, now_ns);
}

void ur_rc_restart(struct ur_rqp *q, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;

	if (q->qp->on_shm)
		return; /* it is on no path's list */
	s->retries = q->qp->attr.retry_cnt;
	s->early = 0;
	/* A response that skips over a READ then indicates no loss on this
	 * path. */
	s->rewound = true;
	s->rewind_ns = now_ns;
	s->parked_ns = 0;
	s->retry_ns = now_ns;
	s->early_from_ns = now_ns;
	ur_req_go_back(q);
	ur_rc_timer_update(q, now_ns);
}

/* A message has been sent in part, which may be acknowledged. */
static bool is_under_way(const struct ur_rqp *q)
{
	return ur_qp_type_reliable(q->qp->type) &&
	       ur_sq_head(&q->qp->sq) != q->req.fresh;
}

/* SQD: all begun messages are complete (IBTA 10.3.1, SQ_DRAINED). */
void ur_rc_check_drained(struct ur_rqp *q)
{
	if (ur_rqp_state(q) != UR_QPS_SQD || q->req.una != q->req.end ||
	    is_under_way(q) || ur_shm_busy(q))
		return;
	q->qp->attr.sq_draining = false;
	if (!q->req.sqd_reported) {
		q->req.sqd_reported = true;
		ur_qp_event(q->qp, UR_EVENT_SQ_DRAINED);
	}
}
