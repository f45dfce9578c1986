/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC requester with a urnic as its peer: which packets are lost, and sending
 * them again.
 *
 * A PSN is done when its response is here, or, of a SEND or WRITE, when the
 * responder has it.  Three positions move with what the peer reports:
 *
 *  reached   the responder has executed all requests before it
 *  scanned   SENDs and WRITEs before it are done, or were found to be lost
 *  answered  likewise, responses to READs and atomics
 *
 * Both sides send in order, so a PSN that is not done while a later one is was
 * lost.  The same holds for what was sent again: it is lost again when anything
 * that was sent after it has arrived (as in RACK, RFC 8985, by the order of
 * sending instead of time).  Networks that reorder cost packets sent twice, but
 * no correctness.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "roce/congestion.h"
#include "roce/selective.h"

/* Lost ranges in progress; further ones wait. */
#define RESENDS_MAX 384u

/* PSNs that are lost, all of SENDs and WRITEs or all of other requests. */
struct resend {
	uint32_t psn;
	uint32_t count;
	uint32_t before; /* new PSNs from here on were sent after it */
	bool answered;	 /* of READs and atomics: lost responses */
	bool request;	 /* of these: the request, which may be what is lost */
};

struct ur_repair {
	struct ur_psn_set done;
	uint32_t reached;
	uint32_t scanned;
	uint32_t answered;
	/* The first `sent` were sent again, in that order; the rest will be. */
	uint32_t sent;
	uint32_t n;
	struct resend resends[RESENDS_MAX];
};

static void forget(struct ur_rqp *q)
{
	struct ur_repair *p = q->req.repair;
	uint32_t una = q->req.una;

	p->sent = 0;
	p->n = 0;
	p->scanned = una;
	p->answered = una;
}

static bool begin(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;

	if (s->repairing)
		return true;
	if (!s->repair)
		s->repair = malloc(sizeof(*s->repair));
	if (!s->repair)
		return false;
	s->repairing = true;
	ur_psn_set_start(&s->repair->done, s->una);
	s->repair->reached = s->una;
	forget(q);
	return true;
}

void ur_repair_clear(struct ur_rqp *q)
{
	q->req.repairing = false;
}

void ur_repair_end(struct ur_rqp *q)
{
	q->req.repairing = false;
	free(q->req.repair);
	q->req.repair = NULL;
}

/* The request with that PSN, which is in flight. */
static struct ur_swqe *request_at(struct ur_rqp *q, uint32_t psn)
{
	struct ur_sq *sq = &q->qp->sq;
	uint32_t head = ur_sq_head(sq), lo = 0, hi = q->req.fresh - head;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ur_psn_before(psn, ur_sq_slot(sq, head + mid)->first_psn))
			hi = mid;
		else
			lo = mid;
	}
	return ur_sq_slot(sq, head + lo);
}

static uint32_t end_of(const struct ur_swqe *w)
{
	return ur_psn_add(w->last_psn, 1);
}

static bool is_done(const struct ur_rqp *q, const struct resend *e,
		    uint32_t psn)
{
	const struct ur_repair *p = q->req.repair;

	return ur_psn_before(psn, q->req.una) ||
	       ur_psn_set_has(&p->done, psn) ||
	       (!e->answered && ur_psn_before(psn, p->reached));
}

/* False: too many are in progress. */
static bool lose(struct ur_rqp *q, uint32_t psn, uint32_t count, bool answered,
		 bool request)
{
	struct ur_repair *p = q->req.repair;
	struct resend *last = p->n > p->sent ? &p->resends[p->n - 1] : NULL;

	if (last && ur_psn_add(last->psn, last->count) == psn && !request &&
	    last->answered == answered && !last->request) {
		last->count += count;
		return true;
	}
	/* One stays free for the rest of an entry that is sent in part. */
	if (p->n >= RESENDS_MAX - 1)
		return false;
	p->resends[p->n++] = (struct resend){ .psn = psn,
					      .count = count,
					      .answered = answered,
					      .request = request };
	return true;
}

/*
 * Finds what is lost in [from, to): of SENDs and WRITEs, or of responses.
 * Returns the position up to which it looked.
 */
static uint32_t scan(struct ur_rqp *q, uint32_t from, uint32_t to,
		     bool answered, uint64_t *bytes)
{
	struct ur_psn_range gap;

	while (ur_psn_set_gap(&q->req.repair->done, from, to, &gap)) {
		const struct ur_swqe *w = request_at(q, gap.from);
		uint32_t end = ur_psn_min(gap.to, end_of(w));
		uint32_t n = ur_psn_count(gap.from, end);

		if (ur_swqe_is_answered(w) == answered) {
			if (!lose(q, gap.from, n, answered, false))
				return gap.from;
			*bytes += (uint64_t)n * ur_swqe_price(w);
		}
		from = end;
	}
	return to;
}

static void scan_requests(struct ur_rqp *q, uint32_t to)
{
	struct ur_repair *p = q->req.repair;
	uint32_t from = ur_psn_max(p->scanned, p->reached);
	uint64_t lost = 0;

	if (!ur_psn_before(from, to))
		return;
	p->scanned = scan(q, from, to, false, &lost);
	ur_cong_lost(q, lost);
}

static void scan_responses(struct ur_rqp *q, uint32_t to)
{
	struct ur_repair *p = q->req.repair;
	uint32_t from = ur_psn_max(p->answered, q->req.una);
	uint64_t lost = 0;

	/* What comes after that will be sent again anyway. */
	to = ur_psn_min(to, q->req.psn);
	if (!ur_psn_before(from, to))
		return;
	p->answered = scan(q, from, to, true, &lost);
	q->r->cnt.implied_nak_seq_err += lost != 0;
}

/* Is the request that the responder waits for in progress, as a lost one? */
static bool is_expected_lost(const struct ur_repair *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		if (p->resends[i].request && p->resends[i].psn == p->reached)
			return true;
	}
	return false;
}

/* A READ or atomic that the responder waits for: nothing after it is executed,
 * so it is looked for only there. */
static void scan_expected(struct ur_rqp *q)
{
	struct ur_repair *p = q->req.repair;

	if (!ur_psn_before(p->reached, q->req.psn) ||
	    !ur_swqe_is_answered(request_at(q, p->reached)) ||
	    is_expected_lost(p))
		return;
	(void)lose(q, p->reached, 1, true, true);
}

/* The highest PSN of e that is done. */
static bool highest_done(const struct ur_rqp *q, const struct resend *e,
			 uint32_t *psn)
{
	for (uint32_t i = e->count; i; i--) {
		*psn = ur_psn_add(e->psn, i - 1);
		if (is_done(q, e, *psn))
			return true;
	}
	return false;
}

/* Has anything of e, which was sent again, arrived? */
static bool has_arrived(const struct ur_rqp *q, const struct resend *e)
{
	uint32_t psn;

	if (e->request)
		return ur_psn_before(e->psn, q->req.repair->reached);
	return highest_done(q, e, &psn);
}

static uint64_t price_of(struct ur_rqp *q, uint32_t psn, uint32_t n)
{
	uint32_t to = ur_psn_add(psn, n), end;
	uint64_t price = 0;

	for (; psn != to; psn = end) {
		const struct ur_swqe *w = request_at(q, psn);

		end = ur_psn_min(to, end_of(w));
		price += (uint64_t)ur_psn_count(psn, end) * ur_swqe_price(w);
	}
	return price;
}

/* What of [psn, psn + count) is not done is lost again. */
static bool lose_again(struct ur_rqp *q, const struct resend *e, uint32_t count)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i += n ? n : 1) {
		for (n = 0; i + n < count; n++) {
			if (is_done(q, e, ur_psn_add(e->psn, i + n)))
				break;
		}
		if (!n)
			continue;
		if (!lose(q, ur_psn_add(e->psn, i), n, e->answered, e->request))
			return false;
		if (!e->answered)
			ur_cong_lost(q, price_of(q, ur_psn_add(e->psn, i), n));
	}
	return true;
}

/* e was sent again, behind everything that was. */
static void insert_sent(struct ur_repair *p, const struct resend *e)
{
	memmove(&p->resends[p->sent + 1], &p->resends[p->sent],
		(p->n - p->sent) * sizeof(*e));
	p->resends[p->sent++] = *e;
	p->n++;
}

/* e may still be on its way: stays, without what has arrived of it. */
static bool wait_for(struct ur_rqp *q, struct resend e)
{
	struct ur_repair *p = q->req.repair;
	uint32_t psn, past;

	if (!e.request && highest_done(q, &e, &psn)) {
		past = ur_psn_count(e.psn, psn) + 1;
		if (!lose_again(q, &e, past))
			return false;
		e.psn = ur_psn_add(psn, 1);
		e.count -= past;
	}
	if (!e.count)
		return true;
	if (p->n == RESENDS_MAX)
		return false;
	insert_sent(p, &e);
	return true;
}

/* What arrived last, of all that was sent. */
static uint32_t highest(const struct ur_repair *p)
{
	return ur_psn_max(p->reached, p->done.high);
}

static bool sort_out(struct ur_rqp *q, const struct resend *old, uint32_t n)
{
	uint32_t high = highest(q->req.repair), later = 0;

	for (uint32_t i = n; i; i--) {
		if (has_arrived(q, &old[i - 1])) {
			later = i - 1;
			break;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct resend *e = &old[i];
		bool lost = i < later || ur_psn_before(e->before, high);

		if (e->request && has_arrived(q, e))
			continue;
		if (!(lost ? lose_again(q, e, e->count) : wait_for(q, *e)))
			return false;
	}
	return true;
}

/* Which of the packets that were sent again have arrived, or are lost again? */
static void review(struct ur_rqp *q)
{
	struct ur_repair *p = q->req.repair;
	struct resend old[RESENDS_MAX];
	uint32_t n = p->sent;

	if (!n)
		return;
	memcpy(old, p->resends, n * sizeof(old[0]));
	p->n -= n;
	memmove(p->resends, &p->resends[n], p->n * sizeof(old[0]));
	p->sent = 0;
	if (!sort_out(q, old, n))
		forget(q);
}

/*
 * The PSNs from una on that are complete, of the oldest request.  A SEND or WRITE
 * that the responder only keeps may still be refused when it is executed.
 */
static uint32_t complete_from_una(const struct ur_rqp *q,
				  const struct ur_swqe *w)
{
	const struct ur_repair *p = q->req.repair;
	uint32_t una = q->req.una;
	struct ur_psn_range gap;

	if (!ur_swqe_is_answered(w))
		return ur_psn_before(una, p->reached)
			       ? ur_psn_count(una,
					      ur_psn_min(p->reached, end_of(w)))
			       : 0;
	if (ur_psn_set_gap(&p->done, una, end_of(w), &gap))
		return ur_psn_count(una, gap.from);
	return ur_psn_count(una, end_of(w));
}

static bool advance(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;
	uint32_t before = s->una, n;

	while (ur_sq_head(&q->qp->sq) != s->fresh) {
		const struct ur_swqe *w =
			ur_sq_slot(&q->qp->sq, ur_sq_head(&q->qp->sq));

		n = complete_from_una(q, w);
		if (!n)
			break;
		ur_req_consume(q, w, n,
			       ur_psn_set_overlap(&s->repair->done, s->una,
						  ur_psn_add(s->una, n)));
	}
	ur_psn_set_trim(&s->repair->done, s->una);
	return s->una != before;
}

/* The oldest entry that is to be sent and not done; NULL: none. */
static struct resend *next_unsent(struct ur_rqp *q)
{
	struct ur_repair *p = q->req.repair;

	while (p->sent < p->n) {
		struct resend *e = &p->resends[p->sent];

		while (e->count && is_done(q, e, e->psn)) {
			e->psn = ur_psn_add(e->psn, 1);
			e->count--;
		}
		if (e->count && !(e->request && has_arrived(q, e)))
			return e;
		memmove(e, e + 1, (--p->n - p->sent) * sizeof(*e));
	}
	return NULL;
}

void ur_repair_expected(struct ur_rqp *q, uint32_t psn)
{
	const struct ur_repair *p = q->req.repair;

	if (q->req.repairing && psn == p->reached &&
	    ur_psn_before(psn, q->req.psn) && ur_psn_set_has(&p->done, psn) &&
	    !ur_swqe_is_answered(request_at(q, psn)))
		ur_req_go_back(q);
}

/* After a report of the peer, with news or not. */
static void settle(struct ur_rqp *q, bool news, uint64_t now_ns)
{
	struct ur_requester *s = &q->req;
	struct ur_repair *p = s->repair;

	if (news) {
		s->retry_ns = now_ns;
		s->early_from_ns = now_ns;
	}
	if (advance(q))
		ur_req_progress(q, now_ns);
	if (next_unsent(q) && !s->rnr_wait)
		ur_rqp_want_send(q);
	if (!p->done.n && !p->n && !ur_psn_before(s->una, p->reached))
		s->repairing = false;
}

bool ur_repair_reached(struct ur_rqp *q, uint32_t psn, uint64_t now_ns)
{
	struct ur_repair *p;
	bool news;

	if (!begin(q))
		return false;
	p = q->req.repair;
	news = ur_psn_before(p->reached, psn);
	p->reached = ur_psn_max(p->reached, psn);
	scan_responses(q, psn);
	/* Within the response to one READ request there is no news. */
	if (news)
		review(q);
	settle(q, news, now_ns);
	return true;
}

/* The responder has these, of which READs and atomics only wait there. */
static bool received(struct ur_rqp *q, uint32_t from, uint32_t to)
{
	struct ur_psn_set *done = &q->req.repair->done;
	struct ur_psn_range gap;
	bool news = false;

	while (ur_psn_set_gap(done, from, to, &gap)) {
		const struct ur_swqe *w = request_at(q, gap.from);
		uint32_t end = ur_psn_min(gap.to, end_of(w));

		from = end;
		if (ur_swqe_is_answered(w))
			continue;
		if (!ur_psn_set_add(done, gap.from, end))
			break;
		news = true;
		ur_cong_acked(q, (uint64_t)ur_swqe_price(w) *
					 ur_psn_count(gap.from, end));
	}
	return news;
}

/* docs/wire/roce.md, "Ranges".  Reads them as far as they make sense. */
bool ur_repair_ranges(struct ur_rqp *q, const struct ur_in *in)
{
	const uint8_t *p = in->payload;
	uint32_t at = in->hdr.bth.psn, n;
	struct ur_repair *r;
	bool news;

	if (in->payload_len < 4 || !begin(q))
		return false;
	r = q->req.repair;
	if (ur_be16_at(p) & 1u)
		ur_cong_loss(q->path, in->now_ns);
	n = ur_be16_at(p + 2);
	if (n > (in->payload_len - 4) / 4)
		n = (uint32_t)(in->payload_len - 4) / 4;
	news = ur_psn_before(r->reached, at);
	r->reached = ur_psn_max(r->reached, at);
	scan_responses(q, at);
	for (; n; n--) {
		uint32_t from = ur_psn_add(at, ur_be16_at(p += 4));
		uint32_t to = ur_psn_add(from, ur_be16_at(p + 2));

		if (ur_psn_before(q->req.psn, to) || ur_psn_before(to, from))
			break;
		news |= received(q, ur_psn_max(from, r->reached), to);
		at = to;
	}
	/* Something after the first PSN has arrived, or there were no ranges. */
	at = ur_psn_max(at, ur_psn_add(in->hdr.bth.psn, 1));
	scan_requests(q, ur_psn_min(at, q->req.psn));
	scan_expected(q);
	review(q);
	settle(q, news, in->now_ns);
	ur_repair_expected(q, in->hdr.bth.psn);
	return true;
}

struct ur_swqe *ur_repair_awaiting(struct ur_rqp *q, uint32_t psn)
{
	if (!ur_psn_before(psn, q->req.psn) || ur_psn_before(psn, q->req.una) ||
	    ur_psn_set_has(&q->req.repair->done, psn))
		return NULL;
	return request_at(q, psn);
}

void ur_repair_response(struct ur_rqp *q, const struct ur_swqe *w, uint32_t psn,
			uint64_t now_ns)
{
	struct ur_repair *p = q->req.repair;
	uint32_t next = ur_psn_add(psn, 1);
	bool first = p->answered == psn;

	(void)ur_psn_set_add(&p->done, psn, next);
	if (first)
		p->answered = next;
	p->reached = ur_psn_max(p->reached, ur_req_chunk_end(q, w, psn));
	/* One of a stream says nothing of what was sent again after it. */
	if (!first || (p->sent && ur_psn_before(p->resends[0].before, next)))
		review(q);
	settle(q, true, now_ns);
}

/* The first n PSNs of the oldest unsent entry have left. */
static void mark_sent(struct ur_rqp *q, uint32_t n)
{
	struct ur_requester *s = &q->req;
	struct ur_repair *p = s->repair;
	struct resend *e = &p->resends[p->sent];
	struct resend *last = p->sent ? e - 1 : NULL;
	struct resend sent = *e;

	if (s->rtt_sent_ns && !ur_psn_before(s->rtt_psn, e->psn) &&
	    ur_psn_before(s->rtt_psn, ur_psn_add(e->psn, n)))
		s->rtt_sent_ns = 0;
	sent.count = n;
	sent.before = s->psn;
	e->psn = ur_psn_add(e->psn, n);
	e->count -= n;
	if (last && ur_psn_add(last->psn, last->count) == sent.psn &&
	    last->before == sent.before && last->answered == sent.answered &&
	    !last->request && !sent.request) {
		last->count += n;
		if (!e->count)
			memmove(e, e + 1, (--p->n - p->sent) * sizeof(*e));
		return;
	}
	if (e->count) {
		memmove(e + 1, e, (p->n++ - p->sent) * sizeof(*e));
	}
	*e = sent;
	p->sent++;
}

/* How many PSNs of e are sent as one packet. */
static uint32_t packet_of(const struct ur_rqp *q, const struct ur_swqe *w,
			  const struct resend *e)
{
	uint32_t n;

	if (!ur_swqe_is_read(w))
		return 1;
	n = ur_psn_count(e->psn, ur_req_chunk_end(q, w, e->psn));
	return e->request || e->count > n ? n : e->count;
}

/*
 * The PSN to send again as a probe: the READ or atomic that the responder waits for,
 * since no report says that its repetition was lost if nothing was sent after that.
 * Otherwise the highest PSN in flight that is not done, else the oldest.
 */
static uint32_t probe_psn(const struct ur_rqp *q)
{
	const struct ur_psn_set *done = &q->req.repair->done;
	uint32_t psn = q->req.psn;

	if (is_expected_lost(q->req.repair))
		return q->req.repair->reached;
	do {
		psn = ur_psn_add(psn, UR_PSN_MASK);
	} while (ur_psn_before(q->req.una, psn) && ur_psn_set_has(done, psn));
	return psn;
}

static enum ur_emit probe_urnic(struct ur_rqp *q, struct ur_burst *t)
{
	struct ur_repair *p = q->req.repair;
	uint32_t psn = probe_psn(q);
	struct ur_swqe *w = request_at(q, psn);
	bool answered = ur_swqe_is_answered(w);
	struct resend e = { .psn = psn,
			    .count = 1,
			    .before = q->req.psn,
			    .answered = answered,
			    .request = answered &&
				       !ur_psn_before(psn, p->reached) };
	enum ur_emit r;

	if (e.request)
		e.psn = ur_req_chunk_start(q, w, psn);
	r = ur_req_emit_again(q, w, t, e.psn, packet_of(q, w, &e));
	if (r == UR_EMIT_OK && p->n < RESENDS_MAX - 1 && !is_done(q, &e, e.psn))
		insert_sent(p, &e);
	return r;
}

enum ur_emit ur_repair_emit_probe(struct ur_rqp *q, struct ur_burst *t)
{
	struct ur_requester *s = &q->req;
	uint32_t last = ur_psn_add(s->psn, UR_PSN_MASK);
	enum ur_emit r = UR_EMIT_OK;

	if (s->una == s->psn)
		s->probing = false;
	else if (ur_rc_is_selective(q) && begin(q))
		r = probe_urnic(q, t);
	else
		r = ur_req_emit_again(q, request_at(q, last), t, last, 1);
	if (r == UR_EMIT_FULL || !s->probing)
		return r;
	s->probing = false;
	s->rtt_sent_ns = 0;
	q->r->cnt.probes_sent += r == UR_EMIT_OK;
	return UR_EMIT_OK;
}

/* Others do not expect a READ or atomic twice while the first is answered. */
bool ur_repair_may_probe(struct ur_rqp *q)
{
	struct ur_requester *s = &q->req;

	/* At a limited rate answers take longer than two round trips. */
	if (q->qp->attr.rate_limit)
		return false;
	if (ur_rc_is_selective(q))
		return true;
	return !s->probed && s->una != s->psn && s->psn == s->end &&
	       !ur_swqe_is_answered(
		       request_at(q, ur_psn_add(s->psn, UR_PSN_MASK)));
}

enum ur_emit ur_repair_emit(struct ur_rqp *q, struct ur_burst *t,
			    uint64_t now_ns)
{
	struct resend *e;

	while ((e = next_unsent(q)) && q->req.repair->n < RESENDS_MAX) {
		struct ur_swqe *w = request_at(q, e->psn);
		uint32_t n = packet_of(q, w, e);
		enum ur_emit r = ur_req_emit_again(q, w, t, e->psn, n);

		/* Its memory is gone: it fails when all before it is done. */
		if (r == UR_EMIT_IDLE && !ur_req_fail_if_oldest(q, w))
			ur_req_go_back(q);
		if (r != UR_EMIT_OK)
			return r;
		mark_sent(q, e->request ? 1 : n);
		q->req.early_from_ns = now_ns;
	}
	return UR_EMIT_OK;
}
