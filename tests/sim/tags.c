/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/tags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t tag_values[] = { 0x10, 0x11, 0x20, 0x21 };

/* Only rendezvous use it, so that a short buffer is no failure. */
#define RNDV_TAG 0x300u

static void put_be(uint8_t *p, uint64_t v, uint32_t n)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

static void make_qp(struct sim_lane *l, struct ur_qp *qp, struct ur_cq *cq,
		    struct ur_srq *srq)
{
	struct sim_world *w = l->w;
	struct ur_qp_init init = {
		.type = UR_QPT_RC, .send_cq = cq, .recv_cq = cq, .srq = srq
	};

	init.cap = (struct ur_qp_cap){
		.max_send_wr = sim_range(w, 2, 16),
		.max_recv_wr = srq ? 0 : TAGS_SLOTS,
		.max_send_sge = 2,
		.max_recv_sge = srq ? 0 : 1,
		.max_inline = sim_below(w, 129),
	};
	rig_qp_create(&l->rig, qp, &init);
}

static void fill_link(struct sim_world *w, struct rig_link *k,
		      const struct sim_lane *from, const struct sim_lane *to,
		      uint32_t dest_qpn)
{
	*k = (struct rig_link){
		.dest_qpn = dest_qpn,
		.sq_psn = (UR_PSN_MASK - sim_below(w, 64)) & UR_PSN_MASK,
		.access = UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_WRITE,
		.timeout = w->p.timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = w->p.min_rnr_timer,
	};
	memcpy(k->src, from->rig.host->addr, 16);
	memcpy(k->dst, to->rig.host->addr, 16);
}

static void connect_ends(struct tags_sender *s, struct sim_lane *to)
{
	struct sim_world *w = s->t->w;
	struct rig_link *a = &s->link, *b = &s->peer_link;
	uint8_t reads = (uint8_t)sim_range(w, 1, 16);
	uint32_t mtu = sim_range(w, 1, 5);

	fill_link(w, a, s->lane, to, s->peer.qpn);
	fill_link(w, b, to, s->lane, s->qp.qpn);
	a->rq_psn = b->sq_psn;
	b->rq_psn = a->sq_psn;
	a->path_mtu = b->path_mtu = mtu;
	a->max_dest_rd_atomic = b->max_rd_atomic = reads;
	a->max_rd_atomic = b->max_dest_rd_atomic = 1;
	s->mtu = ur_mtu_bytes(mtu);
	rig_qp_connect(&s->lane->rig, &s->qp, a, w->now_ns);
	rig_qp_connect(&to->rig, &s->peer, b, w->now_ns);
}

void tags_recv_sender(struct tags_sender *s, uint32_t slot)
{
	struct ur_sge sge = rig_sge(&s->rq, slot * 64, 64);

	memset(tags_at(&s->rq, slot, 64), SIM_BLANK, 64);
	RIG_CHECK(rig_post_recv(&s->qp.rq, SIM_RECV_ID | slot, &sge, 1) == 0);
}

static void sender_create(struct sim_tags *t, struct tags_sender *s,
			  struct sim_lane *l)
{
	struct rig_host *h = l->rig.host;

	s->t = t;
	s->lane = l;
	RIG_CHECK(ur_cq_init(&s->cq, 512, NULL, &h->async, NULL) == 0);
	make_qp(l, &s->qp, &s->cq, NULL);
	make_qp(t->lane, &s->peer, &t->notes_cq, &t->srq);
	rig_buf_init(&s->src, h, t->slot * TAGS_MSGS, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&s->data, h, t->slot * TAGS_MSGS,
		     UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_READ);
	rig_buf_init(&s->rq, h, TAGS_SLOTS * 64, UR_ACCESS_LOCAL_WRITE);
	connect_ends(s, t->lane);
	for (uint32_t i = 0; i < TAGS_SLOTS; i++)
		tags_recv_sender(s, i);
}

static void queue_create(struct sim_tags *t)
{
	struct sim_world *w = t->w;
	struct rig_host *h = t->lane->rig.host;

	RIG_CHECK(ur_cq_init(&t->cq, 2048, NULL, &h->async, NULL) == 0);
	RIG_CHECK(ur_cq_init(&t->notes_cq, 512, NULL, &h->async, NULL) == 0);
	RIG_CHECK(ur_srq_init(&t->srq, &h->pd, SIM_SLOTS, 1, 0, &h->async,
			      NULL) == 0);
	RIG_CHECK(ur_tm_init(&t->srq, sim_range(w, 1, 16)) == 0);
	ur_srq_set_cq(&t->srq, &t->cq, NULL);
	/* The counters wrap. */
	t->seen = (uint16_t)(sim_chance(w, SIM_PROB / 2) ? 65535 : 0);
	t->srq.tm->seen = t->srq.tm->unexpected = t->told = t->seen;
	rig_buf_init(&t->recv, h, t->slot * SIM_SLOTS, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&t->dst, h, t->slot * TAGS_WANTS, UR_ACCESS_LOCAL_WRITE);
	rig_buf_init(&t->notes, h, TAGS_NOTE * TAGS_SENDERS * TAGS_MSGS,
		     UR_ACCESS_LOCAL_WRITE);
	memset(t->dst.p, SIM_BLANK, t->dst.len);
	t->free_recv = (1u << SIM_SLOTS) - 1;
}

void sim_tags_create(struct sim_world *w)
{
	struct sim_tags *t = calloc(1, sizeof(*t));

	RIG_CHECK(t != NULL);
	w->tags = t;
	t->w = w;
	t->lane = &w->lanes[0];
	t->slot = (w->p.max_msg + TAGS_RVH + SIM_SGE_GAP + 63) & ~63u;
	t->nsenders = w->p.tag_senders;
	t->planned_wants = t->nsenders * w->p.ops;
	queue_create(t);
	for (uint32_t i = 0; i < t->nsenders; i++)
		sender_create(t, &t->sender[i],
			      &w->lanes[(1 + sim_below(w, w->p.hosts - 1)) *
					w->p.lanes_per_host]);
	sim_event_add(w, w->now_ns, SIM_EV_TAGS, t);
}

static void buf_destroy(struct sim_tags *t, struct rig_buf *b)
{
	if (!rig_buf_guards_ok(b))
		sim_fail(t->w, "tags: written outside of a buffer");
	rig_buf_fini(b);
}

void sim_tags_destroy(struct sim_world *w)
{
	struct sim_tags *t = w->tags;

	if (!t)
		return;
	for (uint32_t i = 0; i < t->nsenders; i++) {
		struct tags_sender *s = &t->sender[i];

		rig_qp_destroy(&s->lane->rig, &s->qp);
		rig_qp_destroy(&t->lane->rig, &s->peer);
		RIG_CHECK(ur_cq_fini(&s->cq) == 0);
		buf_destroy(t, &s->src);
		buf_destroy(t, &s->data);
		buf_destroy(t, &s->rq);
	}
	RIG_CHECK(ur_srq_fini(&t->srq) == 0);
	RIG_CHECK(ur_cq_fini(&t->cq) == 0);
	RIG_CHECK(ur_cq_fini(&t->notes_cq) == 0);
	buf_destroy(t, &t->recv);
	buf_destroy(t, &t->dst);
	buf_destroy(t, &t->notes);
	free(t);
	w->tags = NULL;
}

static void draw_msg(struct tags_sender *s, struct tags_msg *m)
{
	static const enum tags_kind kinds[] = {
		TAGS_EAGER,	TAGS_EAGER,  TAGS_EAGER, TAGS_RNDV, TAGS_RNDV,
		TAGS_RNDV_LONG, TAGS_NO_TAG, TAGS_BARE,	 TAGS_IMM,
	};
	struct sim_world *w = s->t->w;
	uint32_t most = w->p.max_msg;

	*m = (struct tags_msg){ .want = -1 };
	m->kind = kinds[sim_below(w, sizeof(kinds) / sizeof(kinds[0]))];
	m->tag = tag_values[sim_below(w, 4)];
	if (sim_chance(w, SIM_PROB / 2))
		most = most < 100 ? most : 100;
	m->len = sim_below(w, most + 1);
	m->size = TAGS_TMH + m->len;
	if (m->kind == TAGS_RNDV_LONG && w->p.max_msg < s->mtu)
		m->kind = TAGS_RNDV;
	if (m->kind == TAGS_RNDV) {
		if (sim_chance(w, SIM_PROB / 4))
			m->tag = RNDV_TAG;
		m->size = TAGS_RVH;
	} else if (m->kind == TAGS_RNDV_LONG) {
		m->size = TAGS_RVH +
			  sim_range(w, s->mtu - TAGS_RVH + 1, w->p.max_msg);
	} else if (m->kind == TAGS_BARE) {
		m->size = sim_below(w, TAGS_TMH);
	} else if (m->kind == TAGS_IMM) {
		m->size = 0;
	}
}

/* The message and its data; constant from now on. */
static void write_msg(struct tags_sender *s, uint32_t i)
{
	static const uint8_t others[] = { 0, 2, 4, 77 };
	struct tags_msg *m = &s->msg[i];
	uint8_t *p = tags_at(&s->src, i, s->t->slot);
	struct sim_world *w = s->t->w;

	sim_fill(p, ++w->next_id, 0, s->t->slot);
	sim_fill(tags_at(&s->data, i, s->t->slot), ++w->next_id, 0, s->t->slot);
	p[0] = m->kind == TAGS_EAGER	? 3
	       : m->kind == TAGS_NO_TAG ? others[sim_below(w, 4)]
					: 1;
	put_be(p + 4, i, 4);
	put_be(p + 8, m->tag, 8);
	if (m->kind != TAGS_RNDV && m->kind != TAGS_RNDV_LONG)
		return;
	put_be(p + 16, (uintptr_t)tags_at(&s->data, i, s->t->slot), 8);
	put_be(p + 24, s->data.mr->key, 4);
	put_be(p + 28, m->len, 4);
}

static bool post_msg(struct tags_sender *s)
{
	struct sim_world *w = s->t->w;
	struct tags_msg *m = &s->msg[s->posted];
	uint32_t at = s->posted * s->t->slot, cut;
	struct ur_sge sge[2];
	struct rig_wr wr;

	draw_msg(s, m);
	write_msg(s, s->posted);
	cut = sim_below(w, m->size + 1);
	sge[0] = rig_sge(&s->src, at, cut);
	sge[1] = rig_sge(&s->src, at + cut, m->size - cut);
	wr = (struct rig_wr){ .wr_id = s->posted,
			      .sge = sge,
			      .nsge = 2,
			      .opcode = UR_WR_SEND,
			      .flags = UR_SEND_SIGNALED };
	if (m->size <= s->qp.sq.max_inline && sim_chance(w, SIM_PROB / 2))
		wr.flags |= UR_SEND_INLINE;
	if (m->kind == TAGS_IMM) {
		wr.opcode = UR_WR_RDMA_WRITE_IMM;
		wr.imm_be = s->posted;
	}
	if (rig_post_send(&s->qp, &wr))
		return false;
	SIM_TRACEF(w, "qp %x posts message %u: kind %u tag %lx len %u",
		   s->qp.qpn, s->posted, m->kind, m->tag, m->len);
	s->posted++;
	w->work_ops++;
	w->work_bytes += m->size + m->len;
	return true;
}

/* A message of the application beside those of the adapter. */
static void post_note(struct tags_sender *s)
{
	struct sim_tags *t = s->t;
	uint32_t at = (uint32_t)(s - t->sender) * TAGS_MSGS + s->notes_posted;
	uint8_t *p = tags_at(&t->notes, at, TAGS_NOTE);
	struct ur_sge sge = rig_sge(&t->notes, at * TAGS_NOTE, TAGS_NOTE);
	struct rig_wr wr = { .wr_id = s->notes_posted,
			     .sge = &sge,
			     .nsge = 1,
			     .opcode = UR_WR_SEND,
			     .flags = UR_SEND_SIGNALED };

	memset(p, TAGS_NOTE_BYTE, TAGS_NOTE);
	put_be(p + 4, s->notes_posted, 4);
	if (rig_post_send(&s->peer, &wr) == 0) {
		s->notes_posted++;
		t->w->work_ops++;
	}
}

static void post_receives(struct sim_tags *t)
{
	for (uint32_t i = 0; i < SIM_SLOTS; i++) {
		struct ur_sge sge =
			rig_sge(&t->recv, i * t->slot, t->slot - SIM_SGE_GAP);

		if (!(t->free_recv & 1u << i) || sim_chance(t->w, SIM_PROB / 2))
			continue;
		sim_slot_blank(&t->recv, i * t->slot, t->slot);
		if (rig_post_recv(&t->srq.rq, SIM_RECV_ID | i, &sge, 1))
			return;
		t->free_recv &= ~(1u << i);
	}
}

static int list_op(struct sim_tags *t, struct ur_tm_wr *wr)
{
	int err;

	/* An operation may report the count seen. */
	wr->sync |= sim_chance(t->w, SIM_PROB / 2);
	wr->seen = t->seen;
	wr->wr_id = TAGS_OP_ID | wr->op;
	wr->signaled |= sim_chance(t->w, SIM_PROB / 2);
	err = ur_tm_post(&t->srq, wr, t->w->now_ns);
	if (!err && wr->sync)
		t->told = t->seen;
	if (err && err != -ENOMEM)
		sim_fail(t->w, "tags: operation %u: error %d", wr->op, -err);
	return err;
}

void tags_sync(struct sim_tags *t)
{
	struct ur_tm_wr wr = { .op = UR_TM_SYNC,
			       .sync = true,
			       .signaled = true };

	t->need_sync = false;
	(void)list_op(t, &wr);
}

/* Its completion is there when the call returns: look for it. */
bool tags_delete(struct sim_tags *t, uint32_t want)
{
	struct ur_tm_wr wr = { .op = UR_TM_DEL,
			       .handle = t->want[want].handle,
			       .signaled = true };
	uint32_t to = t->tail;
	bool ok = false, found = false;

	(void)list_op(t, &wr);
	tags_take_queue(t);
	for (uint32_t i = to; i != t->tail; i++) {
		struct ur_cqe *c = &t->fifo[i % TAGS_FIFO];

		if (c->wr_id == (TAGS_OP_ID | UR_TM_DEL)) {
			ok = c->status == UR_WC_SUCCESS;
			found = true;
			t->need_sync |= !!(c->flags & UR_WC_TM_SYNC_REQ);
			if (c->opcode != UR_WC_TM_DEL ||
			    (!ok && c->status != UR_WC_TM_ERR))
				sim_fail(t->w, "tags: deleting gives %u/%u",
					 c->opcode, c->status);
			continue;
		}
		t->fifo[to++ % TAGS_FIFO] = *c;
	}
	t->tail = to;
	if (!found)
		sim_fail(t->w, "tags: a deletion does not complete");
	SIM_TRACEF(t->w, "want %u deleted: %d", want, ok);
	if (!ok)
		t->want[want].gone = true;
	return ok;
}

static void draw_want(struct sim_tags *t, struct tags_want *r)
{
	struct sim_world *w = t->w;

	*r = (struct tags_want){ .mask = UINT64_MAX, .len = w->p.max_msg };
	r->tag = tag_values[sim_below(w, 4)];
	switch (sim_below(w, 8)) {
	case 0:
		r->mask = 0;
		break;
	case 1:
		r->mask = 0xf0;
		break;
	case 2:
		r->tag = RNDV_TAG;
		r->len = sim_below(w, w->p.max_msg + 1);
		break;
	default:
		break;
	}
}

/*
 * The oldest unexpected message that matches, as the list would have taken it.
 */
static bool take_waiting(struct sim_tags *t, uint32_t want)
{
	for (uint32_t i = 0; i < t->nwaiting; i++) {
		uint32_t s = t->waiting[i][0], k = t->waiting[i][1];

		if (!t->sender[s].msg[k].waiting ||
		    !tags_fit(&t->want[want], t->sender[s].msg[k].tag))
			continue;
		tags_take(t, want, s, k);
		return true;
	}
	return false;
}

static void post_want(struct sim_tags *t)
{
	struct tags_want *r = &t->want[t->nwants];
	struct ur_tm_wr wr = { .op = UR_TM_ADD };

	draw_want(t, r);
	t->nwants++;
	if (take_waiting(t, t->nwants - 1))
		return;
	wr.recv_wr_id = TAGS_WANT_ID | (t->nwants - 1);
	wr.tag = r->tag;
	wr.mask = r->mask;
	wr.sge = rig_sge(&t->dst, (t->nwants - 1) * t->slot, r->len);
	if (list_op(t, &wr)) {
		t->nwants--; /* the list is full */
		return;
	}
	r->handle = wr.handle;
	SIM_TRACEF(t->w, "want %u: tag %lx mask %lx len %u", t->nwants - 1,
		   r->tag, r->mask, r->len);
}

static void cancel(struct sim_tags *t)
{
	uint32_t i = sim_below(t->w, t->nwants);

	if (t->want[i].state != TAGS_LISTED || t->want[i].gone)
		return;
	if (tags_delete(t, i)) {
		t->want[i].state = TAGS_CANCELLED;
		if (t->planned_wants < TAGS_WANTS)
			t->planned_wants++;
	}
}

void sim_tags_turn(struct sim_world *w)
{
	struct sim_tags *t = w->tags;
	uint32_t n = 1 + sim_below(w, 6);

	post_receives(t);
	while (n--) {
		struct tags_sender *s = &t->sender[sim_below(w, t->nsenders)];

		if (s->posted < w->p.ops)
			(void)post_msg(s);
		if (t->nwants < t->planned_wants)
			post_want(t);
		if (t->nwants && sim_chance(w, SIM_PROB / 16))
			cancel(t);
		if (s->notes_posted < w->p.ops && sim_chance(w, SIM_PROB / 4))
			post_note(s);
		ur_roce_kick(s->lane->rig.roce, &s->qp, w->now_ns);
		ur_roce_kick(t->lane->rig.roce, &s->peer, w->now_ns);
		sim_lane_wake(s->lane, 0);
	}
	sim_lane_wake(t->lane, 0);
	if (!sim_tags_done(w))
		sim_event_add(w,
			      w->now_ns + SIM_US +
				      sim_below(w, (uint32_t)w->p.gap_ns),
			      SIM_EV_TAGS, t);
}
