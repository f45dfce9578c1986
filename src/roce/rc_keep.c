/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC responder with a urnic as its peer: requests that arrive ahead of a lost
 * one are copied and executed when that has arrived, in order and with all
 * checks, as if they arrived then.  An acknowledge packet lists them.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "roce/selective.h"

/* Of all queue pairs of a lane: a few windows of senders that lose packets. */
#define KEPT_BYTES_MAX (8u << 20)
/* Packets behind a gap for each of which the peer's window stays closed. */
#define TELL_EVERY     32u
/* What the ranges of an acknowledge packet can describe. */
#define KEPT_SPAN      65535

static bool make_keeper(struct ur_responder *p)
{
	if (p->keeper)
		return true;
	p->keeper = calloc(1, sizeof(*p->keeper));
	if (!p->keeper)
		return false;
	ur_list_init(&p->keeper->packets);
	return true;
}

static struct ur_kept *kept_of(struct ur_list *l)
{
	return ur_container_of(l, struct ur_kept, node);
}

static size_t cost(const struct ur_kept *k)
{
	return sizeof(*k) + k->rx.len;
}

/* The list's entry after which psn belongs; NULL: it is there already. */
static struct ur_list *place_of(struct ur_list *packets, uint32_t psn)
{
	struct ur_list *at;

	/* Nearly all come in order. */
	for (at = packets->prev; at != packets; at = at->prev) {
		int32_t d = ur_psn_diff(psn, kept_of(at)->psn);

		if (d == 0)
			return NULL;
		if (d > 0)
			break;
	}
	return at;
}

static void insert(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_list *at;
	struct ur_kept *k;

	if (!make_keeper(&q->rsp) ||
	    q->r->kept_bytes + in->rx->len > KEPT_BYTES_MAX ||
	    ur_psn_diff(in->hdr.bth.psn, q->rsp.epsn) > KEPT_SPAN)
		return;
	at = place_of(&q->rsp.keeper->packets, in->hdr.bth.psn);
	if (!at)
		return;
	k = malloc(sizeof(*k) + in->rx->len);
	if (!k)
		return;
	k->psn = in->hdr.bth.psn;
	k->rx = *in->rx;
	k->rx.data = k->data;
	memcpy(k->data, in->rx->data, in->rx->len);
	ur_list_add_head(at, &k->node);
	q->r->kept_bytes += cost(k);
}

/* Only follows what is kept: nothing more is missing than the peer was told. */
static bool is_next(const struct ur_responder *p, uint32_t psn)
{
	return ur_keeper_has_packets(p) &&
	       ur_psn_add(kept_of(p->keeper->packets.prev)->psn, 1) == psn;
}

void ur_keep_request(struct ur_rqp *q, const struct ur_in *in)
{
	struct ur_responder *p = &q->rsp;
	bool next = is_next(p, in->hdr.bth.psn);

	q->r->cnt.rcvd_seq_err += !ur_keeper_has_packets(p);
	insert(q, in);
	if (next && !in->hdr.bth.ackreq && ++p->keeper->untold < TELL_EVERY)
		return;
	ur_rc_ack_now(q, UR_AETH_NAK | UR_NAK_PSN_SEQ, p->epsn, in->now_ns);
}

struct ur_kept *ur_keep_next(struct ur_rqp *q)
{
	ur_list_for_each_safe(pos, tmp, &q->rsp.keeper->packets) {
		struct ur_kept *k = kept_of(pos);
		int32_t d = ur_psn_diff(k->psn, q->rsp.epsn);

		if (d > 0)
			break;
		if (d == 0) {
			ur_list_del(&k->node);
			return k;
		}
		ur_keep_free(q, k);
	}
	return NULL;
}

void ur_keep_free(struct ur_rqp *q, struct ur_kept *k)
{
	ur_list_del(&k->node);
	q->r->kept_bytes -= cost(k);
	free(k);
}

void ur_keep_clear(struct ur_rqp *q)
{
	struct ur_keeper *p = q->rsp.keeper;

	if (!p)
		return;
	ur_list_for_each_safe(pos, tmp, &p->packets)
		ur_keep_free(q, kept_of(pos));
	p->nrepeats = 0;
}

void ur_keep_end(struct ur_rqp *q)
{
	ur_keep_clear(q);
	free(q->rsp.keeper);
	q->rsp.keeper = NULL;
}

/* Packets that our link has lost, of any peer. */
static uint64_t overflow(const struct ur_rqp *q)
{
	return q->r->rx_overflow ? *q->r->rx_overflow : 0;
}

void ur_keep_told(struct ur_rqp *q)
{
	q->rsp.keeper->overflow_told = overflow(q);
	q->rsp.keeper->untold = 0;
}

/* docs/wire/roce.md, "Ranges". */
uint32_t ur_keep_ranges(const struct ur_rqp *q, uint8_t *to)
{
	uint32_t most = q->mtu < UR_RANGES_LEN_MAX ? q->mtu : UR_RANGES_LEN_MAX;
	const struct ur_list *all = &q->rsp.keeper->packets;
	uint32_t end = q->rsp.epsn, len = 4, run = 0;

	for (struct ur_list *l = all->next; l != all; l = l->next) {
		uint32_t psn = kept_of(l)->psn;

		if (run && psn == end) {
			ur_put_be16(to + len - 2, (uint16_t)++run);
		} else if (len + 4 <= most) {
			run = 1;
			ur_put_be16(to + len, (uint16_t)ur_psn_count(end, psn));
			ur_put_be16(to + len + 2, 1);
			len += 4;
		} else {
			break;
		}
		end = ur_psn_add(psn, 1);
	}
	ur_put_be16(to, overflow(q) != q->rsp.keeper->overflow_told);
	ur_put_be16(to + 2, (uint16_t)(len / 4 - 1));
	return len;
}

void ur_keep_repeat(struct ur_rqp *q, uint32_t psn, uint32_t count)
{
	struct ur_keeper *p;

	if (!make_keeper(&q->rsp))
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
