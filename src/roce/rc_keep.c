/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC responder with a urnic as its peer: requests that arrive ahead of a lost
 * one are copied and executed when that has arrived, in order and with all
 * checks, as if they arrived then.  An acknowledge packet lists them.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "roce/selective.h"

/* Limit on buffered out-of-order bytes; packets that fill a gap may use twice that,
 * so the gap can close. */
#define KEPT_BYTES_OF_QP   (4u << 20)
#define KEPT_BYTES_OF_LANE (32u << 20)
/* A report of our full buffer concerns losses of this time. */
#define OVERFLOW_NS	   1000000u
/* Send ranges at least every 32 packets: unreported ones still count against the
 * peer's window. */
#define REPORT_EVERY	   32u

static bool make_keeper(struct ur_rqp *q)
{
	if (q->rsp.keeper)
		return true;
	q->rsp.keeper = calloc(1, sizeof(*q->rsp.keeper));
	if (!q->rsp.keeper)
		return false;
	return true;
}

static uint32_t cost(const struct ur_kept *k)
{
	return (uint32_t)sizeof(*k) + k->rx.len;
}

static struct ur_kept **place_of(struct ur_keeper *p, uint32_t psn)
{
	return &p->packets[psn % UR_KEPT_SPAN];
}

static struct ur_kept *take_out(struct ur_rqp *q, uint32_t psn)
{
	struct ur_keeper *p = q->rsp.keeper;
	struct ur_kept *k = *place_of(p, psn);

	q->r->kept_bytes -= cost(k);
	p->bytes -= cost(k);
	return k;
}

/* What is before that PSN cannot be executed any more. */
static void drop_before(struct ur_rqp *q, uint32_t end)
{
	struct ur_keeper *p = q->rsp.keeper;
	uint32_t psn = p->have.low;

	for (; p->have.n && ur_psn_before(psn, ur_psn_min(end, p->have.high));
	     psn = ur_psn_add(psn, 1)) {
		if (ur_psn_set_has(&p->have, psn))
			free(take_out(q, psn));
	}
	ur_psn_set_trim(&p->have, end);
}

static bool has_room(const struct ur_rqp *q, uint32_t psn, uint32_t size)
{
	const struct ur_keeper *p = q->rsp.keeper;
	bool fills = p->have.n && ur_psn_before(psn, p->have.high);

	return ur_psn_count(q->rsp.epsn, psn) < UR_KEPT_SPAN &&
	       p->bytes + size <= KEPT_BYTES_OF_QP * (fills ? 2 : 1) &&
	       q->r->kept_bytes + size <= KEPT_BYTES_OF_LANE;
}

static bool insert(struct ur_rqp *q, const struct ur_in *in)
{
	uint32_t psn = in->hdr.bth.psn, len = in->rx->len;
	uint32_t size = (uint32_t)sizeof(struct ur_kept) + len;
	struct ur_keeper *p;
	struct ur_kept *k;

	if (!make_keeper(q))
		return false;
	p = q->rsp.keeper;
	if (p->have.n)
		drop_before(q, q->rsp.epsn);
	else
		ur_psn_set_start(&p->have, q->rsp.epsn);
	if (ur_psn_set_has(&p->have, psn))
		return true;
	if (!has_room(q, psn, size))
		return false;
	k = malloc(size);
	if (!k)
		return false;
	k->rx = *in->rx;
	k->rx.data = k->data;
	memcpy(k->data, in->rx->data, len);
	*place_of(p, psn) = k;
	p->bytes += size;
	q->r->kept_bytes += size;
	return ur_psn_set_add(&p->have, psn, ur_psn_add(psn, 1));
}

/* Only follows what is kept: nothing more is missing than was reported. */
static bool is_next(const struct ur_responder *p, uint32_t psn)
{
	return ur_keeper_has_packets(p) && p->keeper->have.high == psn;
}

void ur_keep_request(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	bool first = !ur_keeper_has_packets(p);
	bool next = is_next(p, in->hdr.bth.psn);

	if (!insert(q, in) && first) {
		/* As if nothing could be kept ever: one NAK for a gap. */
		if (p->nak_sent)
			return;
		p->nak_sent = true;
	}
	q->r->cnt.rcvd_seq_err += first;
	if (next && !in->hdr.bth.ackreq &&
	    ++p->keeper->unreported < REPORT_EVERY)
		return;
	ur_rc_ack_now(q, UR_AETH_NAK | UR_NAK_PSN_SEQ, p->epsn, in->now_ns);
}

struct ur_kept *ur_keep_next(struct ur_rqp *q)
{
	struct ur_keeper *p = q->rsp.keeper;
	uint32_t epsn = q->rsp.epsn;
	struct ur_kept *k;

	drop_before(q, epsn);
	if (!ur_psn_set_has(&p->have, epsn))
		return NULL;
	k = take_out(q, epsn);
	ur_psn_set_trim(&p->have, ur_psn_add(epsn, 1));
	return k;
}

void ur_keep_clear(struct ur_rqp *q)
{
	struct ur_keeper *p = q->rsp.keeper;

	if (!p)
		return;
	drop_before(q, p->have.high);
	p->nrepeats = 0;
}

void ur_keep_end(struct ur_rqp *q)
{
	ur_keep_clear(q);
	free(q->rsp.keeper);
	q->rsp.keeper = NULL;
}

/* Has our link lost packets, of any peer, just now? */
static bool has_overflowed(struct ur_roce *r)
{
	if (r->rx_overflow && *r->rx_overflow != r->overflow_seen) {
		r->overflow_seen = *r->rx_overflow;
		r->overflow_ns = r->now_ns;
	}
	return r->overflow_ns && r->now_ns - r->overflow_ns < OVERFLOW_NS;
}

/* docs/wire/roce.md, "Ranges". */
uint32_t ur_keep_ranges(struct ur_rqp *q, uint8_t *to)
{
	uint32_t most = q->mtu < UR_RANGES_LEN_MAX ? q->mtu : UR_RANGES_LEN_MAX;
	const struct ur_psn_set *have = &q->rsp.keeper->have;
	uint32_t at = q->rsp.epsn, len = 4;
	struct ur_psn_range gap;

	while (len + 4 <= most && ur_psn_set_gap(have, at, have->high, &gap)) {
		struct ur_psn_range next;
		uint32_t end = have->high;

		if (ur_psn_set_gap(have, gap.to, end, &next))
			end = next.from;
		ur_put_be16(to + len, (uint16_t)ur_psn_count(at, gap.to));
		ur_put_be16(to + len + 2, (uint16_t)ur_psn_count(gap.to, end));
		at = end;
		len += 4;
	}
	ur_put_be16(to, has_overflowed(q->r));
	ur_put_be16(to + 2, (uint16_t)(len / 4 - 1));
	return len;
}

void ur_keep_repeat(struct ur_rqp *q, uint32_t psn, uint32_t count)
{
	struct ur_keeper *p;

	if (!make_keeper(q))
		return;
	p = q->rsp.keeper;
	for (uint32_t i = 0; i < p->nrepeats; i++) {
		if (p->repeats[i].psn == psn && p->repeats[i].count == count)
			return;
	}
	if (p->nrepeats == UR_REPEATS_MAX)
		return;
	p->repeats[p->nrepeats++] = (struct ur_repeat){ psn, count };
	ur_rqp_want_ack(q);
}
