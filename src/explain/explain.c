/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a ring to one cause: the evidence is the first fault since the queue pair
 * was last in INIT.  If that is only an answer of the peer, the evidence is
 * looked for in the peer's ring.  Without a fault a queue pair may still have
 * been ended, or be stalled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "explain/internal.h"

static uint32_t rings_of(const struct ur_record_file *f)
{
	uint32_t n = atomic_load_explicit(&f->head.qps, memory_order_acquire);

	return n < UR_RECORD_QPS ? n : UR_RECORD_QPS;
}

static int by_number(const void *a, const void *b)
{
	const struct ur_record_event *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static bool load(struct ur_xp_qp *to, uint32_t process,
		 const struct ur_record_ring *ring)
{
	to->process = process;
	to->n = 0;
	if (!ur_record_read_qp(&ring->qp, &to->qp))
		return false;
	for (uint32_t i = 0; i < UR_RECORD_EVENTS; i++)
		if (ur_record_read(&ring->event[i], &to->event[to->n]))
			to->n++;
	qsort(to->event, to->n, sizeof(to->event[0]), by_number);
	return true;
}

uint32_t ur_xp_life(const struct ur_xp_qp *q)
{
	for (uint32_t i = q->n; i-- > 0;)
		if (q->event[i].type == UR_REC_STATE &&
		    q->event[i].code <= UR_QPS_INIT)
			return i;
	return 0;
}

static bool is_flush(const struct ur_record_event *e)
{
	return (e->type == UR_REC_WC || e->type == UR_REC_RECV_WC) &&
	       e->code == UR_WC_WR_FLUSH_ERR;
}

static bool is_fault(const struct ur_record_event *e)
{
	switch ((enum ur_record_type)e->type) {
	case UR_REC_KEY:
	case UR_REC_REFUSED:
	case UR_REC_WC:
	case UR_REC_RECV_WC:
		return !is_flush(e);
	case UR_REC_TERMINATED:
		return true;
	case UR_REC_EVENT:
		return e->code == UR_EVENT_QP_FATAL ||
		       e->code == UR_EVENT_CQ_ERR;
	case UR_REC_NONE:
	case UR_REC_STATE:
	case UR_REC_NAK_SENT:
	case UR_REC_NAK_RCVD:
	case UR_REC_TIMEOUT:
	case UR_REC_DROP:
	case UR_REC_MODIFY:
	case UR_REC_POST:
	case UR_REC_CM:
	case UR_REC_FAULT:
	case UR_REC_TYPES:
		break;
	}
	return false;
}

/* The first fault has ended a queue pair.  A target of DC goes on, so its last one
 * is of interest; of a receive that failed, the reason comes before. */
static const struct ur_record_event *fault_of(const struct ur_xp_qp *q)
{
	const struct ur_record_event *found = NULL;

	for (uint32_t i = ur_xp_life(q); i < q->n; i++) {
		const struct ur_record_event *e = &q->event[i];

		if (!is_fault(e))
			continue;
		if (!found ||
		    (q->qp.type == UR_QPT_DC_TGT && e->type != UR_REC_RECV_WC &&
		     e->last_ns >= found->last_ns))
			found = e;
	}
	return found;
}

static const struct ur_record_event *last_of(const struct ur_xp_qp *q,
					     enum ur_record_type type)
{
	for (uint32_t i = q->n; i-- > ur_xp_life(q);)
		if (q->event[i].type == type)
			return &q->event[i];
	return NULL;
}

/* --- the other end --- */

/* The type that the other end of a queue pair has. */
static uint8_t type_of_peer(uint8_t type)
{
	if (type == UR_QPT_DC_INI)
		return UR_QPT_DC_TGT;
	if (type == UR_QPT_DC_TGT)
		return UR_QPT_DC_INI;
	if (type == UR_QPT_XRC_SEND)
		return UR_QPT_XRC_RECV;
	return type == UR_QPT_XRC_RECV ? UR_QPT_XRC_SEND : type;
}

/* How well a queue pair fits as the other end; 0: it is not.  A target of DC
 * receives at its own GID only, and is connected to none. */
static uint32_t match_score(const struct ur_record_qp *own,
			    const struct ur_record_qp *q)
{
	if (q->qpn != own->dest_qpn || !own->dest_qpn ||
	    q->type != type_of_peer(own->type))
		return 0;
	if (own->type == UR_QPT_DC_TGT)
		return memcmp(q->sgid + 12, own->dgid + 12, 4)
			       ? 0
			       : 1 + (q->gone_ns == 0);
	if (own->type == UR_QPT_DC_INI)
		return memcmp(q->sgid, own->dgid, sizeof(q->sgid))
			       ? 0
			       : 1 + (q->gone_ns == 0);
	return 1 + 2 * (q->dest_qpn == own->qpn) + (q->gone_ns == 0);
}

static uint64_t end_of(const struct ur_xp_process *p,
		       const struct ur_record_qp *q)
{
	if (q->gone_ns)
		return q->gone_ns;
	return !p->runs && p->file->head.end_ns ? p->file->head.end_ns
						: UINT64_MAX;
}

/* QP numbers are reused: were both there at some time? */
static bool overlaps(const struct ur_xp *x, uint32_t p,
		     const struct ur_record_qp *q)
{
	const struct ur_record_qp *own = &x->own.qp;

	return q->made_ns <= end_of(&x->set->process[x->own.process], own) &&
	       own->made_ns <= end_of(&x->set->process[p], q);
}

/* Thousands of queue pairs may be there: most are passed by their number. */
static void find_peer_in(struct ur_xp *x, uint32_t p, uint32_t *best)
{
	const struct ur_record_file *f = x->set->process[p].file;

	for (uint32_t i = 0; i < rings_of(f); i++) {
		struct ur_record_qp q;
		uint32_t like;

		if (f->ring[i].qp.qpn != x->own.qp.dest_qpn ||
		    !ur_record_read_qp(&f->ring[i].qp, &q))
			continue;
		like = match_score(&x->own.qp, &q);
		if (like < *best || !like || !overlaps(x, p, &q) ||
		    (like == *best && q.made_ns <= x->peer.qp.made_ns))
			continue;
		if (load(&x->peer, p, &f->ring[i])) {
			*best = like;
			x->has_peer = true;
		}
	}
}

/* Is the peer's address one of this host?  Each host may have a queue pair of
 * the peer's number. */
static bool is_here(const struct ur_xp *x)
{
	static const uint8_t none[16];
	const uint8_t *dgid = x->own.qp.dgid;

	if (!memcmp(dgid, none, sizeof(none)))
		return false;
	if (!memcmp(dgid, x->own.qp.sgid, sizeof(none)))
		return true;
	for (uint32_t p = 0; p < x->set->n; p++) {
		const struct ur_record_file *f = x->set->process[p].file;

		for (uint32_t i = 0; i < rings_of(f); i++)
			if (!memcmp(dgid, f->ring[i].qp.sgid, sizeof(none)))
				return true;
	}
	return false;
}

static void find_peer(struct ur_xp *x)
{
	uint32_t best = 0;

	x->peer_here = is_here(x);
	for (uint32_t p = 0; x->peer_here && p < x->set->n; p++)
		find_peer_in(x, p, &best);
}

/* Of a target of DC: the initiator that has caused the evidence.  The record has the
 * last four bytes of its address. */
static void find_initiator(struct ur_xp *x)
{
	uint64_t from = x->e.arg[UR_RECORD_FROM];
	uint32_t best = 0;

	x->own.qp.dest_qpn = (uint32_t)from;
	for (int i = 0; i < 4; i++)
		x->own.qp.dgid[12 + i] = (uint8_t)(from >> (56 - 8 * i));
	for (uint32_t p = 0; p < x->set->n; p++)
		find_peer_in(x, p, &best);
}

/* --- keys --- */

static bool matches(const struct ur_record_key *k, uint32_t key)
{
	return k->key == key ||
	       (k->why == UR_REC_UNBOUND && k->key >> 8 == key >> 8);
}

static void find_key_in(struct ur_xp *x, uint32_t p, uint32_t key)
{
	const struct ur_record_file *f = x->set->process[p].file;

	for (uint32_t i = 0; i < UR_RECORD_KEYS; i++) {
		struct ur_record_key k;

		if (ur_record_read_key(&f->key[i], &k) && matches(&k, key) &&
		    k.gone_ns >= x->key.gone_ns) {
			x->key = k;
			x->key_process = p;
		}
	}
}

static void find_key(struct ur_xp *x)
{
	uint32_t key = (uint32_t)x->e.arg[UR_RECK_KEY];
	uint32_t at = ur_xp_at(x)->process;

	x->key.key = 0;
	x->key.gone_ns = 0;
	if (x->e.type != UR_REC_KEY || !key)
		return;
	find_key_in(x, at, key);
	for (uint32_t p = 0; p < x->set->n && x->e.code == ENOENT; p++)
		if (!x->key.key && p != at)
			find_key_in(x, p, key);
}

/* --- evidence --- */

static bool is_remote(uint8_t status)
{
	return status == UR_WC_REM_ACCESS_ERR ||
	       status == UR_WC_REM_INV_REQ_ERR || status == UR_WC_REM_OP_ERR;
}

static bool is_refusal(const struct ur_record_event *e)
{
	return e->type == UR_REC_KEY || e->type == UR_REC_REFUSED;
}

/* What a target of DC has refused last of this initiator, since that was in INIT
 * and before its failure. */
static const struct ur_record_event *ask_target(const struct ur_xp *x)
{
	uint64_t from = ur_record_from(x->own.qp.sgid, x->own.qp.qpn);
	uint64_t since = x->own.event[ur_xp_life(&x->own)].first_ns;
	const struct ur_record_event *found = NULL;

	for (uint32_t i = 0; i < x->peer.n; i++) {
		const struct ur_record_event *e = &x->peer.event[i];

		if (is_refusal(e) && e->arg[UR_RECORD_FROM] == from &&
		    e->first_ns <= x->e.first_ns && e->last_ns >= since &&
		    (!found || e->last_ns >= found->last_ns))
			found = e;
	}
	return found;
}

/* A target of XRC delegates requests for queues of other processes, which have a
 * record of its number if one failed.  Is there one, connected as q is? */
static bool find_delegate(const struct ur_xp *x, const struct ur_xp_qp *q,
			  struct ur_xp_qp *delegate)
{
	for (uint32_t p = 0; p < x->set->n; p++) {
		const struct ur_record_file *f = x->set->process[p].file;

		for (uint32_t i = 0; p != q->process && i < rings_of(f); i++) {
			const struct ur_record_event *e;

			if (f->ring[i].qp.qpn != q->qp.qpn ||
			    !load(delegate, p, &f->ring[i]) ||
			    delegate->qp.type != UR_QPT_XRC_RECV ||
			    delegate->qp.dest_qpn != q->qp.dest_qpn ||
			    delegate->qp.made_ns < q->qp.made_ns)
				continue;
			e = fault_of(delegate);
			if (e && is_refusal(e))
				return true;
		}
	}
	return false;
}

static const struct ur_record_event *ask_connected(struct ur_xp *x)
{
	const struct ur_record_event *e = fault_of(&x->peer);
	struct ur_xp_qp delegate;

	if (!e && x->peer.qp.type == UR_QPT_XRC_RECV &&
	    find_delegate(x, &x->peer, &delegate)) {
		x->peer = delegate;
		e = fault_of(&x->peer);
	}
	if (!e || !is_refusal(e) || e->first_ns > x->e.first_ns ||
	    x->peer.qp.dest_qpn != x->own.qp.qpn)
		return NULL;
	return e;
}

/* The peer's first fault that is not itself an answer, if it is before ours and
 * of this connection. */
static void ask_peer(struct ur_xp *x)
{
	const struct ur_record_event *e;

	if (!x->has_peer)
		return;
	e = x->own.qp.type == UR_QPT_DC_INI ? ask_target(x) : ask_connected(x);
	if (!e)
		return;
	x->e = *e;
	x->of_peer = true;
}

static bool by_fault(struct ur_xp *x)
{
	const struct ur_record_event *e = fault_of(&x->own);

	if (!e)
		return false;
	x->e = *e;
	for (uint32_t i = ur_xp_life(&x->own); i < x->own.n; i++) {
		const struct ur_record_event *c = &x->own.event[i];

		if ((c->type == UR_REC_WC || c->type == UR_REC_RECV_WC) &&
		    !is_flush(c) && !x->seen.number &&
		    c->arg[UR_RECORD_FROM] == e->arg[UR_RECORD_FROM])
			x->seen = *c;
	}
	if ((e->type == UR_REC_WC && is_remote(e->code)) ||
	    e->type == UR_REC_TERMINATED)
		ask_peer(x);
	return true;
}

/* Is the request of this event still outstanding? */
static bool is_stalled(const struct ur_xp *x, const struct ur_record_event *e)
{
	return e && x->own.qp.sends && !x->own.qp.gone_ns &&
	       x->own.qp.state != UR_QPS_ERR &&
	       (uint32_t)e->arg[0] == x->own.qp.una;
}

static bool by_stall(struct ur_xp *x)
{
	const struct ur_record_event *nak = last_of(&x->own, UR_REC_NAK_RCVD);
	const struct ur_record_event *out = last_of(&x->own, UR_REC_TIMEOUT);

	if (is_stalled(x, nak) && (nak->code & 0x60u) == 0x20u &&
	    (!is_stalled(x, out) || nak->last_ns > out->last_ns))
		x->e = *nak;
	else if (is_stalled(x, out))
		x->e = *out;
	else
		return false;
	return true;
}

/* Initiators of DC that wait for a receive send again within 0.66 s; which PSN each
 * connection expects is not recorded. */
#define DC_RNR_NS 2000000000ull

static bool is_still_refused(const struct ur_xp *x,
			     const struct ur_record_event *e)
{
	if (x->own.qp.type == UR_QPT_DC_TGT)
		return x->set->now_ns < e->last_ns + DC_RNR_NS;
	return (uint32_t)e->arg[0] == x->own.qp.epsn;
}

/* Has the refused packet of the peer still not been accepted? */
static bool by_rnr(struct ur_xp *x)
{
	const struct ur_record_event *e = last_of(&x->own, UR_REC_NAK_SENT);

	if (!e || (e->code & 0x60u) != 0x20u || x->own.qp.gone_ns ||
	    x->own.qp.state == UR_QPS_ERR || x->own.qp.receives ||
	    !is_still_refused(x, e))
		return false;
	x->e = *e;
	return true;
}

static bool by_state(struct ur_xp *x)
{
	const struct ur_record_event *e = last_of(&x->own, UR_REC_STATE);

	struct ur_xp_qp delegate;

	if (!e || e->code != UR_QPS_ERR)
		return false;
	x->e = *e;
	x->delegated = x->own.qp.type == UR_QPT_XRC_RECV &&
		       find_delegate(x, &x->own, &delegate);
	return true;
}

static bool by_last(struct ur_xp *x, enum ur_record_type type)
{
	const struct ur_record_event *e = last_of(&x->own, type);

	if (!e)
		return false;
	x->e = *e;
	return true;
}

/* A refused change that was made later is of no interest. */
static bool by_modify(struct ur_xp *x)
{
	return x->own.n && x->own.event[x->own.n - 1].type == UR_REC_MODIFY &&
	       by_last(x, UR_REC_MODIFY);
}

static bool note_about(const struct ur_xp_process *p, uint32_t qpn,
		       enum ur_record_type type, uint8_t code, bool any,
		       struct ur_record_event *out)
{
	bool found = false;

	for (uint32_t i = 0; i < UR_RECORD_NOTES; i++) {
		struct ur_record_event e;

		if (!ur_record_read(&p->file->note[i], &e) || e.type != type ||
		    (uint32_t)e.arg[0] != qpn || (!any && e.code != code) ||
		    (found && e.number < out->number))
			continue;
		*out = e;
		found = true;
	}
	return found;
}

bool ur_xp_note_of(const struct ur_xp_process *p, uint32_t qpn,
		   enum ur_record_cm what, struct ur_record_event *out)
{
	return note_about(p, qpn, UR_REC_CM, (uint8_t)what, false, out);
}

/* The queue pair is not in a state in which it could have had such a fault
 * before. */
static bool by_post(struct ur_xp *x)
{
	struct ur_record_event e;

	if (!note_about(&x->set->process[x->own.process], x->own.qp.qpn,
			UR_REC_POST, 0, true, &e) ||
	    e.last_ns < x->own.qp.made_ns)
		return false;
	x->e = e;
	return true;
}

static bool find_evidence(struct ur_xp *x)
{
	return by_fault(x) || by_stall(x) || by_rnr(x) || by_state(x) ||
	       by_modify(x) || by_post(x) || by_last(x, UR_REC_DROP);
}

/* --- verdicts --- */

static enum ur_xp_where turned(enum ur_xp_where w)
{
	if (w == UR_XP_HERE)
		return UR_XP_PEER;
	return w == UR_XP_PEER ? UR_XP_HERE : w;
}

static void conclude(const struct ur_xp *x, struct ur_verdict *v)
{
	v->cause = ur_cause_find(x);
	v->pid = x->set->process[x->own.process].pid;
	v->qpn = x->own.qp.qpn;
	v->peer_qpn = x->own.qp.dest_qpn;
	if (x->has_peer)
		v->peer_pid = x->set->process[x->peer.process].pid;
	if (v->cause) {
		v->where = (enum ur_xp_where)v->cause->where;
		if (x->of_peer)
			v->where = turned(v->where);
	}
	v->at_ns = x->seen.number ? x->seen.first_ns : x->e.first_ns;
	ur_xp_words(x, v);
}

bool ur_explain_qp(const struct ur_xp_set *set, uint32_t p,
		   const struct ur_record_ring *ring, struct ur_verdict *v)
{
	struct ur_xp x = { .set = set };

	*v = (struct ur_verdict){ .cause = NULL };
	if (!load(&x.own, p, ring))
		return false;
	find_peer(&x);
	if (!find_evidence(&x))
		x.e.type = UR_REC_NONE;
	else if (x.own.qp.type == UR_QPT_DC_TGT)
		find_initiator(&x);
	find_key(&x);
	conclude(&x, v);
	return v->cause != NULL;
}

bool ur_explain_note(const struct ur_xp_set *set, uint32_t p,
		     const struct ur_record_event *e, struct ur_verdict *v)
{
	struct ur_xp x = { .set = set, .own = { .process = p } };

	*v = (struct ur_verdict){ .cause = NULL };
	if (!ur_record_read(e, &x.e) ||
	    (x.e.type != UR_REC_CM && x.e.type != UR_REC_FAULT))
		return false;
	conclude(&x, v);
	if (v->cause) {
		v->qpn = (uint32_t)x.e.arg[0];
		return true;
	}
	/* An injected fault, or an orderly disconnect. */
	v->why[0] = 0;
	if (x.e.type != UR_REC_FAULT)
		v->what[0] = 0;
	return false;
}

void ur_explain_own(const struct ur_record_file *file,
		    const struct ur_record_ring *ring, uint64_t now_ns,
		    struct ur_verdict *v)
{
	struct ur_xp_process p = { .file = file,
				   .pid = file->head.pid,
				   .runs = true };
	const struct ur_xp_set set = { &p, 1, now_ns };

	(void)ur_explain_qp(&set, 0, ring, v);
}
