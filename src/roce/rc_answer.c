/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of an RC responder: READ and atomic responses in PSN order, then one
 * acknowledgement for everything done (IBTA 9.7.5.1.1: it covers earlier ones).
 *
 * An acknowledgement may be piggybacked on a request in the other direction: in
 * its packet (rc_piggyback.c) or at the end of its burst. In a ping-pong that
 * saves a datagram each way. It is delayed for that only on QPs whose requests
 * have recently followed receives at once, and only for microseconds: longer
 * where the threads that answer sleep (ur_roce_answers_late()), and after a
 * WRITE, which a polling program sees in its memory once the helper
 * thread that placed it has yielded the core.
 */
#include "roce/ecn.h"
#include "roce/full.h"
#include "roce/masked.h"
#include "roce/selective.h"

#define PIGGYBACK_WAIT_NS	4000u
#define PIGGYBACK_WAIT_WRITE_NS 15000u
#define PIGGYBACK_SCORE_MIN	4u
/* Points lost by a miss, of UR_PIGGYBACK_SCORE_MAX: a preempted program soon
 * sends at once again. */
#define PIGGYBACK_SCORE_MISS	3u
/* No thread waits for an unrequested acknowledgement, but windows and queues
 * do. */
#define UNREQUESTED_WAIT_NS	50000u

static uint64_t piggyback_wait_ns(const struct ur_rqp *q)
{
	const struct ur_responder *p = &q->rsp;

	if (q->r->answers_late)
		return UR_LATE_ANSWER_NS;
	return p->wrote_ns > p->recv_ns ? PIGGYBACK_WAIT_WRITE_NS
					: PIGGYBACK_WAIT_NS;
}

void ur_rc_ack_later(struct ur_rqp *q, uint8_t syndrome, uint32_t psn,
		     uint64_t now_ns)
{
	struct ur_responder *p = &q->rsp;
	bool plain = UR_AETH_CLASS(syndrome) == UR_AETH_ACK;
	bool ride = plain && p->piggyback_score >= PIGGYBACK_SCORE_MIN;
	uint64_t at;

	/* A NAK stays until it is sent: it acknowledges what precedes it. */
	if (p->ack_due && UR_AETH_CLASS(p->ack_syndrome) != UR_AETH_ACK &&
	    plain && ur_psn_diff(psn, p->ack_psn) < 0)
		return;
	at = ride ? now_ns + piggyback_wait_ns(q) : now_ns;
	if (!p->ack_due || at < p->ack_at_ns)
		p->ack_at_ns = at;
	p->ack_due = true;
	p->ack_deferred = ride;
	p->ack_syndrome = syndrome;
	p->ack_psn = psn;
	if (p->ack_at_ns > now_ns && p->ack_at_ns < q->r->defer_at_ns)
		q->r->defer_at_ns = p->ack_at_ns;
	ur_rqp_want_ack(q);
}

void ur_rc_ack_now(struct ur_rqp *q, uint8_t syndrome, uint32_t psn,
		   uint64_t now_ns)
{
	ur_rc_ack_later(q, syndrome, psn, now_ns);
	q->rsp.ack_at_ns = now_ns;
	q->rsp.ack_deferred = false;
}

void ur_rc_ack_unrequested(struct ur_rqp *q, uint32_t psn, uint64_t now_ns)
{
	struct ur_responder *p = &q->rsp;

	if (q->peer != UR_PEER_URNIC)
		return;
	if (p->ack_due && UR_AETH_CLASS(p->ack_syndrome) != UR_AETH_ACK) {
		ur_rc_ack_later(q, UR_AETH_ACK | UR_AETH_CREDITS_INVALID, psn,
				now_ns);
		return;
	}
	p->ack_psn = psn;
	if (p->ack_due)
		return;
	p->ack_due = true;
	p->ack_deferred = false;
	p->ack_syndrome = UR_AETH_ACK | UR_AETH_CREDITS_INVALID;
	p->ack_at_ns = now_ns + UNREQUESTED_WAIT_NS;
	if (p->ack_at_ns < q->r->defer_at_ns)
		q->r->defer_at_ns = p->ack_at_ns;
	if (ur_list_empty(&q->acking))
		ur_list_add_tail(&q->r->deferred, &q->acking);
}

static void answer_header(const struct ur_rqp *q, uint8_t opcode, uint32_t psn,
			  uint32_t msn, struct ur_hdr *h)
{
	*h = (struct ur_hdr){ .bth = ur_rc_bth(q, opcode, psn),
			      .syndrome = UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
			      .msn = msn };
}

static uint8_t read_opcode(const struct ur_resource *x)
{
	bool first = x->next_psn == x->start_psn;
	bool last = x->next_psn == x->last_psn;

	if (first)
		return last ? UR_RC_READ_RESP_ONLY : UR_RC_READ_RESP_FIRST;
	return last ? UR_RC_READ_RESP_LAST : UR_RC_READ_RESP_MIDDLE;
}

/*
 * The region or window was removed while its READ was being answered. For a
 * duplicate the requester may be long past this READ and have removed the
 * region itself: then it ignores the NAK, and the QP has no reason to fail.
 */
static enum ur_emit read_fault(struct ur_rqp *q, struct ur_resource *x,
			       uint64_t now_ns)
{
	x->active = false;
	q->r->cnt.resp_remote_access_errors++;
	if (!x->again || !q->rsp.ack_due)
		ur_rc_ack_later(q, UR_AETH_NAK | UR_NAK_REM_ACCESS, x->next_psn,
				now_ns);
	if (x->again)
		return UR_EMIT_OK;
	/* IBTA 9.7.5.2: nothing after it is answered. A READ that leaves as
	 * several requests faults in each, and the first NAK counts. */
	q->rsp.res_todo = 0;
	ur_record_read_fault(q, x->rkey, x->va, x->len);
	if (ur_rqp_state(q) != UR_QPS_ERR)
		ur_rqp_fail(q, UR_EVENT_QP_ACCESS_ERR);
	return UR_EMIT_OK;
}

static enum ur_emit answer_read(struct ur_rqp *q, struct ur_resource *x,
				struct ur_burst *t, uint64_t now_ns)
{
	uint32_t off = ((x->next_psn - x->first_psn) & UR_PSN_MASK) * x->mtu;
	uint32_t len = x->len - off < x->mtu ? x->len - off : x->mtu;
	struct iovec iov[UR_MAX_SGE];
	struct ur_hdr h;
	int n = 0;

	answer_header(q, read_opcode(x), x->next_psn, x->msn, &h);
	if (ur_burst_fits(t, ur_pkt_len(ur_opcode_get(h.bth.opcode), len)) !=
	    UR_FIT_OK)
		return UR_EMIT_FULL;
	if (len) {
		n = ur_resp_pieces(q, x, off, len, iov);
		if (n < 0)
			return read_fault(q, x, now_ns);
	}
	/* The responder's memory may change at any time: always copied. */
	if (ur_burst_add(t, q->path, &h, iov, (uint32_t)n, len, false))
		return read_fault(q, x, now_ns);
	t->may_fragment |= x->mtu > q->mtu;
	x->active = x->next_psn != x->last_psn;
	x->next_psn = ur_psn_add(x->next_psn, 1);
	return UR_EMIT_OK;
}

static enum ur_emit answer_whole(struct ur_rqp *q, struct ur_resource *x,
				 struct ur_burst *t)
{
	bool atomic = ur_op_is_atomic(x->kind);
	struct ur_hdr h;

	if (ur_resource_is_masked(x))
		return ur_masked_answer(q, x, t);
	/* IBTA A19: a FLUSH or ATOMIC WRITE is answered by an empty READ
	 * response. */
	answer_header(q, atomic ? UR_RC_ATOMIC_ACK : UR_RC_READ_RESP_ONLY,
		      x->first_psn, x->msn, &h);
	h.orig = x->orig;
	if (ur_burst_fits(t, ur_pkt_len(ur_opcode_get(h.bth.opcode), 0)) !=
	    UR_FIT_OK)
		return UR_EMIT_FULL;
	ur_burst_add(t, q->path, &h, NULL, 0, 0, false);
	x->active = false;
	return UR_EMIT_OK;
}

/* The active resource with the lowest PSN: entries are in PSN order. */
static struct ur_resource *next_resource(struct ur_rqp *q)
{
	struct ur_responder *p = &q->rsp;

	for (; p->res_todo; p->res_todo--) {
		uint32_t i = p->res_next + p->res_size - p->res_todo;
		struct ur_resource *x = &p->res[i % p->res_size];

		if (x->active)
			return x;
	}
	return NULL;
}

/* Parts of READ responses that were lost. */
static enum ur_emit answer_part(struct ur_rqp *q, struct ur_repeat *a,
				struct ur_burst *t, uint64_t now_ns)
{
	const struct ur_resource *x =
		ur_resp_resource(q, UR_OP_READ_REQUEST, a->psn);
	enum ur_emit e = UR_EMIT_OK;
	struct ur_resource part;

	if (!x)
		return UR_EMIT_OK;
	part = *x;
	part.active = true;
	part.again = true;
	part.start_psn = a->psn;
	part.next_psn = a->psn;
	part.last_psn =
		ur_psn_min(ur_psn_add(a->psn, a->count - 1), x->last_psn);
	while (part.active && e == UR_EMIT_OK)
		e = answer_read(q, &part, t, now_ns);
	a->count -= ur_psn_count(a->psn, part.next_psn);
	a->psn = part.next_psn;
	return e;
}

static enum ur_emit answer_parts(struct ur_rqp *q, struct ur_burst *t,
				 uint64_t now_ns)
{
	struct ur_keeper *k = q->rsp.keeper;

	while (k && k->nrepeats) {
		enum ur_emit e = answer_part(q, &k->repeats[0], t, now_ns);

		if (e != UR_EMIT_OK)
			return e;
		memmove(&k->repeats[0], &k->repeats[1],
			--k->nrepeats * sizeof(k->repeats[0]));
	}
	return UR_EMIT_OK;
}

static void piggyback_missed(struct ur_responder *p)
{
	for (uint32_t i = 0; i < PIGGYBACK_SCORE_MISS && p->piggyback_score;
	     i++)
		p->piggyback_score--;
}

/* A request is missing, and its requester can send just that again. */
static bool has_gap(const struct ur_rqp *q)
{
	const struct ur_responder *p = &q->rsp;

	return ur_rc_is_selective(q) && ur_keeper_has_packets(p) &&
	       (UR_AETH_CLASS(p->ack_syndrome) == UR_AETH_ACK ||
		p->ack_syndrome == (UR_AETH_NAK | UR_NAK_PSN_SEQ));
}

static enum ur_emit answer_ack(struct ur_rqp *q, struct ur_burst *t,
			       uint64_t now_ns)
{
	struct ur_responder *p = &q->rsp;
	uint8_t ranges[UR_RANGES_LEN_MAX];
	struct iovec iov = { .iov_base = ranges };
	struct ur_hdr h;
	uint32_t len = 0;

	if (t->npkts == 0 && now_ns < p->ack_at_ns) {
		if (p->ack_at_ns < q->r->defer_at_ns)
			q->r->defer_at_ns = p->ack_at_ns;
		return UR_EMIT_DEFER;
	}
	if (t->npkts == 0 && p->ack_deferred)
		piggyback_missed(p);
	answer_header(q, UR_RC_ACK, p->ack_psn, p->msn, &h);
	h.syndrome = p->ack_syndrome;
	if (has_gap(q)) {
		h.bth.psn = p->epsn;
		h.bth.selective = true;
		h.syndrome = UR_AETH_NAK | UR_NAK_PSN_SEQ;
		len = ur_keep_ranges(q, ranges);
	}
	iov.iov_len = len;
	if (ur_burst_fits(t, ur_pkt_len(ur_opcode_get(h.bth.opcode), len)) !=
	    UR_FIT_OK)
		return UR_EMIT_FULL;
	ur_burst_add(t, q->path, &h, &iov, len ? 1 : 0, len, false);
	if (len)
		p->keeper->unreported = 0;
	p->ack_due = false;
	q->r->cnt.acks_sent++;
	return UR_EMIT_OK;
}

enum ur_emit ur_rc_answer(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns)
{
	enum ur_emit again =
		ur_full_is_due(q) ? ur_full_emit_due(q, t) : UR_EMIT_OK;
	struct ur_resource *x;

	if (again == UR_EMIT_OK && q->rsp.cnp_due)
		again = ur_ecn_emit_cnp(q, t);
	if (again == UR_EMIT_OK)
		again = answer_parts(q, t, now_ns);
	if (again != UR_EMIT_OK)
		return again;
	while ((x = next_resource(q))) {
		enum ur_emit e = x->kind == UR_OP_READ_REQUEST
					 ? answer_read(q, x, t, now_ns)
					 : answer_whole(q, x, t);

		if (e != UR_EMIT_OK)
			return e;
	}
	if (q->rsp.ack_due) {
		enum ur_emit e = answer_ack(q, t, now_ns);

		if (e != UR_EMIT_OK)
			return e;
	}
	return UR_EMIT_IDLE;
}
