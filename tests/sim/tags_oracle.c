/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants: each message of a sender arrives once, in order, in a matching
 * buffer of the list if there was one, else in a receive; no message overtakes
 * an earlier one of its sender that would have matched as well; the data of a
 * rendezvous is in place before its sender is informed.
 */
#include <string.h>

#include "sim/tags.h"

static uint32_t get_be(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

void tags_take_queue(struct sim_tags *t)
{
	struct ur_cqe c;

	while (!ur_cq_is_empty(&t->cq) && ur_cq_poll(&t->cq, &c, 1)) {
		RIG_CHECK(t->tail - t->head < TAGS_FIFO);
		t->fifo[t->tail++ % TAGS_FIFO] = c;
	}
}

static struct tags_sender *sender_of(struct sim_tags *t, uint32_t qpn)
{
	for (uint32_t i = 0; i < t->nsenders; i++) {
		if (t->sender[i].peer.qpn == qpn)
			return &t->sender[i];
	}
	sim_fail(t->w, "tags: a completion of no QP (%x)", qpn);
	return NULL;
}

static void join(struct sim_tags *t, uint32_t want, uint32_t sender,
		 uint32_t msg)
{
	SIM_TRACEF(t->w, "want %u gets message %u of %x", want, msg,
		   t->sender[sender].qp.qpn);
	t->want[want].sender = sender;
	t->want[want].msg = msg;
	t->sender[sender].msg[msg].want = (int32_t)want;
	t->sender[sender].msg[msg].waiting = false;
}

void tags_take(struct sim_tags *t, uint32_t want, uint32_t sender, uint32_t msg)
{
	join(t, want, sender, msg);
	t->want[want].state = TAGS_DONE;
}

/* The next message due from there. */
static uint32_t next_msg(struct tags_sender *s)
{
	if (s->arrived == s->posted) {
		sim_fail(s->t->w, "tags: %x got a message that was never sent",
			 s->peer.qpn);
		return 0;
	}
	return s->arrived++;
}

static bool data_ok(struct sim_tags *t, uint32_t want)
{
	struct tags_want *r = &t->want[want];
	struct tags_sender *s = &t->sender[r->sender];
	struct tags_msg *m = &s->msg[r->msg];
	const uint8_t *from =
		m->kind == TAGS_EAGER
			? tags_at(&s->src, r->msg, t->slot) + TAGS_TMH
			: tags_at(&s->data, r->msg, t->slot);

	return memcmp(tags_at(&t->dst, want, t->slot), from, m->len) == 0;
}

/* Sometimes the list can be brought up to date now. */
static void settle(struct sim_tags *t)
{
	if (t->need_sync && t->told != t->seen)
		tags_sync(t);
}

static void matched(struct sim_tags *t, const struct ur_cqe *c)
{
	uint32_t want = (uint32_t)(c->wr_id & ~TAGS_WANT_ID);
	struct tags_sender *s = sender_of(t, c->qpn);
	struct tags_want *r = &t->want[want];
	struct tags_msg *m;
	uint32_t i;
	bool rndv;

	if (!s || want >= t->nwants || r->state != TAGS_LISTED) {
		sim_fail(t->w, "tags: want %u is matched though not listed",
			 want);
		return;
	}
	i = next_msg(s);
	m = &s->msg[i];
	rndv = m->kind == TAGS_RNDV;
	join(t, want, (uint32_t)(s - t->sender), i);
	r->state = rndv && m->len <= r->len ? TAGS_READING : TAGS_DONE;
	m->owed = r->state == TAGS_READING;
	if (!tags_matchable(m) || !tags_fit(r, m->tag))
		sim_fail(t->w, "tags: want %u does not fit message %u", want,
			 i);
	else if (c->tm_tag != m->tag || c->tm_priv != i ||
		 c->byte_len != m->len)
		sim_fail(t->w, "tags: message %u is labelled %lx/%u/%u", i,
			 c->tm_tag, c->tm_priv, c->byte_len);
	else if (rndv == !!(c->flags & UR_WC_TM_DATA_VALID))
		sim_fail(t->w, "tags: message %u has flags %x", i, c->flags);
	else if (c->status != (rndv && m->len > r->len
				       ? UR_WC_TM_RNDV_INCOMPLETE
				       : UR_WC_SUCCESS))
		sim_fail(t->w, "tags: message %u has status %u", i, c->status);
	else if (!rndv && !data_ok(t, want))
		sim_fail(t->w, "tags: message %u brought wrong data", i);
}

static void rendezvous_over(struct sim_tags *t, const struct ur_cqe *c)
{
	uint32_t want = (uint32_t)(c->wr_id & ~TAGS_WANT_ID);
	struct tags_want *r = &t->want[want];

	if (want >= t->nwants || r->state != TAGS_READING || c->status ||
	    c->byte_len != t->sender[r->sender].msg[r->msg].len)
		sim_fail(t->w, "tags: want %u is read, status %u", want,
			 c->status);
	else if (!data_ok(t, want))
		sim_fail(t->w, "tags: want %u was filled with wrong data",
			 want);
	else
		r->state = TAGS_DONE;
}

/*
 * It may match a buffer that was added before it was seen, which the list then
 * has held back; or one taken by another sender's message that is not complete
 * yet.
 */
static void unexpected(struct sim_tags *t, uint32_t sender, uint32_t msg)
{
	struct tags_msg *m = &t->sender[sender].msg[msg];

	t->waiting[t->nwaiting][0] = sender;
	t->waiting[t->nwaiting++][1] = msg;
	m->waiting = true;
	t->seen++;
	for (uint32_t i = 0; i < t->nwants; i++) {
		struct tags_want *r = &t->want[i];

		if (r->state != TAGS_LISTED || r->gone || !tags_fit(r, m->tag))
			continue;
		if (tags_delete(t, i)) {
			tags_take(t, i, sender, msg);
			return;
		}
	}
}

static void received(struct sim_tags *t, const struct ur_cqe *c)
{
	static const uint8_t opcode[] = {
		[TAGS_EAGER] = UR_WC_TM_RECV,
		[TAGS_RNDV] = UR_WC_TM_RECV,
		[TAGS_RNDV_LONG] = UR_WC_TM_RECV,
		[TAGS_NO_TAG] = UR_WC_TM_NO_TAG,
		[TAGS_BARE] = UR_WC_TM_NO_TAG,
		[TAGS_IMM] = UR_WC_RECV_RDMA_WITH_IMM,
	};
	uint32_t slot = (uint32_t)(c->wr_id & ~SIM_RECV_ID), i;
	struct tags_sender *s = sender_of(t, c->qpn);
	struct tags_msg *m;

	if (!s || slot >= SIM_SLOTS || t->free_recv & 1u << slot) {
		sim_fail(t->w, "tags: receive %u was not posted", slot);
		return;
	}
	t->free_recv |= 1u << slot;
	i = next_msg(s);
	m = &s->msg[i];
	if (c->status || c->opcode != opcode[m->kind] ||
	    c->byte_len != m->size ||
	    c->flags != (m->kind == TAGS_IMM ? UR_WC_WITH_IMM : 0) ||
	    (m->kind == TAGS_IMM && c->imm_be != i))
		sim_fail(t->w,
			 "tags: message %u of kind %u has status %u, opcode "
			 "%u, %u bytes, flags %x",
			 i, m->kind, c->status, c->opcode, c->byte_len,
			 c->flags);
	else if (memcmp(tags_at(&t->recv, slot, t->slot),
			tags_at(&s->src, i, t->slot), m->size) != 0)
		sim_fail(t->w, "tags: message %u is not what was sent", i);
	else if (opcode[m->kind] == UR_WC_TM_RECV)
		unexpected(t, (uint32_t)(s - t->sender), i);
}

static void queue_completion(struct sim_tags *t, const struct ur_cqe *c)
{
	SIM_TRACEF(t->w, "SRQ completes %lx status %u opcode %u flags %x",
		   c->wr_id, c->status, c->opcode, c->flags);
	if (c->wr_id & TAGS_OP_ID) {
		if (c->status)
			sim_fail(t->w, "tags: operation %u has status %u",
				 c->opcode, c->status);
		t->need_sync |= !!(c->flags & UR_WC_TM_SYNC_REQ);
	} else if (c->wr_id & SIM_RECV_ID) {
		received(t, c);
	} else if (c->flags & UR_WC_TM_MATCH) {
		matched(t, c);
	} else {
		rendezvous_over(t, c);
	}
}

/* The adapter reports the end of a rendezvous; both headers come back. */
static void finished(struct tags_sender *s, const uint8_t *p)
{
	struct sim_tags *t = s->t;
	uint32_t i = get_be(p + 4);
	struct tags_msg *m = &s->msg[i % TAGS_MSGS];

	if (i >= s->posted || m->kind != TAGS_RNDV || m->fin)
		sim_fail(t->w, "tags: a FIN for message %u", i);
	else if (memcmp(p + 4, tags_at(&s->src, i, t->slot) + 4,
			TAGS_RVH - 4) != 0)
		sim_fail(t->w, "tags: the FIN of message %u is wrong", i);
	else if (m->want >= 0 && !data_ok(t, (uint32_t)m->want))
		sim_fail(t->w, "tags: the FIN of message %u is early", i);
	m->fin = true;
}

static void sender_received(struct tags_sender *s, const struct ur_cqe *c)
{
	uint32_t slot = (uint32_t)(c->wr_id & ~SIM_RECV_ID);
	const uint8_t *p = tags_at(&s->rq, slot, 64);

	if (c->status || slot >= TAGS_SLOTS)
		sim_fail(s->t->w, "tags: receive %u has status %u", slot,
			 c->status);
	else if (c->byte_len == TAGS_RVH && p[0] == 2)
		finished(s, p);
	else if (c->byte_len != TAGS_NOTE || p[0] != TAGS_NOTE_BYTE ||
		 get_be(p + 4) != s->notes_seen++)
		sim_fail(s->t->w,
			 "tags: an ordinary message of %u bytes out of order",
			 c->byte_len);
	if (slot < TAGS_SLOTS)
		tags_recv_sender(s, slot);
}

static void poll_sender(struct tags_sender *s)
{
	struct sim_world *w = s->t->w;
	struct ur_cqe c;

	while (!w->failed && ur_cq_poll(&s->cq, &c, 1)) {
		if (c.wr_id & SIM_RECV_ID)
			sender_received(s, &c);
		else if (c.status || c.wr_id != s->retired++)
			sim_fail(w, "tags: message %lu has status %u", c.wr_id,
				 c.status);
	}
}

static void poll_notes(struct sim_tags *t)
{
	struct tags_sender *s;
	struct ur_cqe c;

	while (!t->w->failed && ur_cq_poll(&t->notes_cq, &c, 1)) {
		s = sender_of(t, c.qpn);
		if (s && (c.status || c.opcode != UR_WC_SEND ||
			  c.wr_id != s->notes_retired++))
			sim_fail(t->w, "tags: note %lu has status %u", c.wr_id,
				 c.status);
	}
}

void sim_tags_poll(struct sim_lane *l)
{
	struct sim_tags *t = l->w->tags;

	if (!t)
		return;
	for (uint32_t i = 0; i < t->nsenders; i++) {
		if (t->sender[i].lane == l)
			poll_sender(&t->sender[i]);
	}
	if (t->lane != l)
		return;
	poll_notes(t);
	for (tags_take_queue(t); t->head != t->tail && !t->w->failed;
	     tags_take_queue(t)) {
		struct ur_cqe c = t->fifo[t->head++ % TAGS_FIFO];

		queue_completion(t, &c);
		if (t->head == t->tail)
			settle(t);
	}
}

static bool sender_done(const struct tags_sender *s, uint32_t ops)
{
	for (uint32_t i = 0; i < s->posted; i++) {
		if (s->msg[i].owed && !s->msg[i].fin)
			return false;
	}
	return s->posted == ops && s->retired == ops && s->arrived == ops &&
	       s->notes_retired == s->notes_posted &&
	       s->notes_seen == s->notes_posted;
}

bool sim_tags_done(const struct sim_world *w)
{
	const struct sim_tags *t = w->tags;

	if (!t)
		return true;
	for (uint32_t i = 0; i < t->nwants; i++) {
		if (t->want[i].state == TAGS_READING)
			return false;
	}
	for (uint32_t i = 0; i < t->nsenders; i++) {
		if (!sender_done(&t->sender[i], w->p.ops))
			return false;
	}
	return true;
}

/* Nothing overtook message i of s that its want would have matched too. */
static void check_order(struct tags_sender *s, uint32_t i)
{
	const struct tags_msg *m = &s->msg[i];

	if (!tags_matchable(m))
		return;
	for (uint32_t k = i + 1; k < s->posted; k++) {
		const struct tags_msg *late = &s->msg[k];

		if (late->want < 0 ||
		    !tags_fit(&s->t->want[late->want], m->tag))
			continue;
		if (m->want < 0 || m->want > late->want)
			sim_fail(s->t->w,
				 "tags: message %u of %x overtook %u at want "
				 "%d",
				 k, s->qp.qpn, i, late->want);
	}
}

/* A listed buffer missed nothing that a later one took. */
static void check_listed(struct sim_tags *t, uint32_t want)
{
	const struct tags_want *r = &t->want[want];

	for (uint32_t i = 0; i < t->nsenders; i++) {
		for (uint32_t k = 0; k < t->sender[i].posted; k++) {
			const struct tags_msg *m = &t->sender[i].msg[k];

			if (tags_matchable(m) && tags_fit(r, m->tag) &&
			    (m->waiting || m->want > (int32_t)want))
				sim_fail(t->w,
					 "tags: want %u is left, message %u "
					 "went to %d",
					 want, k, m->want);
		}
	}
	if (r->gone)
		sim_fail(t->w, "tags: want %u was matched and never filled",
			 want);
}

void sim_tags_check_final(struct sim_world *w)
{
	struct sim_tags *t = w->tags;

	if (!t)
		return;
	for (uint32_t i = 0; i < t->nsenders; i++) {
		for (uint32_t k = 0; k < t->sender[i].posted; k++)
			check_order(&t->sender[i], k);
	}
	for (uint32_t i = 0; i < t->nwants; i++) {
		if (t->want[i].state == TAGS_LISTED)
			check_listed(t, i);
		else if (t->want[i].state == TAGS_CANCELLED &&
			 *tags_at(&t->dst, i, t->slot) != SIM_BLANK)
			sim_fail(w, "tags: want %u was given up and filled", i);
	}
	for (uint32_t i = 0; i < t->nsenders; i++) {
		if (t->sender[i].peer.sq.own)
			sim_fail(w, "tags: %u requests are left in a queue",
				 t->sender[i].peer.sq.own);
	}
}
