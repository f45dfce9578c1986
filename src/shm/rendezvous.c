/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large SENDs whose data is copied once: the requester names it, and the
 * responder takes it from there into the receive, as it would do a READ
 * (shm/).  It counts the request only then, so the memory is the requester's
 * until its completion, as ever.
 *
 * At first data goes through the channel, and a cell now and then asks about
 * its region; that has the responder map it, if it can, and say so.
 * What it said may not hold any more when a PULL comes.  Then it refuses, the
 * wire carries what was refused, and the channel what comes next.
 */
#include "shm/direct.h"
#include "shm/internal.h"

/* Pieces of a region that go through the channel before it is asked about: a
 * question may cost a process more than some copies. */
#define ASK_EVERY 8u
/* Pieces that go through the channel after a refusal, … */
#define PAUSE	  16u
/* … more and more of them, … */
#define LEVELS	  16u
/* … if not so many were taken between two. */
#define FORGIVEN  4096u

/* A cell is small and can name much.  What others ask for comes behind it, so
 * it is no more than would be in the channel. */
#define NAMED_MOST UR_CHAN_DATA

_Static_assert(UR_SHM_PULL_MAX == UR_DIRECT_CHUNK, "");

/* --- requester --- */

/* What is left of the element that the next byte lies in. */
static void find(const struct ur_swqe *w, uint32_t off,
		 struct ur_shm_named *out)
{
	const struct ur_sge *s = w->data.sge;
	uint32_t n = w->num_sge;

	for (; n && off >= s->length; n--, s++)
		off -= s->length;
	if (!n)
		return;
	out->key = s->lkey;
	out->va = s->addr + off;
	out->len = s->length - off;
	if (out->len > UR_SHM_PULL_MAX)
		out->len = UR_SHM_PULL_MAX;
}

/* What is not in order is found out where it is copied. */
static bool is_ours(struct ur_rqp *q, const struct ur_shm_named *p)
{
	const struct ur_mr *mr =
		ur_mr_lookup_again(q->qp->mrs, p->key, &q->shm->out);

	return mr && mr->kind == UR_MR_MEMORY &&
	       ur_mr_translate(mr, q->qp->pd, p->va, p->len, 0);
}

static bool is_candidate(const struct ur_rqp *q, const struct ur_swqe *w)
{
	return q->r->export && q->qp->type == UR_QPT_RC &&
	       (w->opcode == UR_WR_SEND || w->opcode == UR_WR_SEND_IMM) &&
	       !(w->flags & UR_SEND_INLINE);
}

/* True: the peer takes it.  Else out->key is what it is asked about. */
static bool is_taken(struct ur_shm_pulled *t, struct ur_shm_named *out)
{
	uint32_t i = (out->key >> 8) % UR_SHM_PULLED;

	if (t->of[i].key != out->key) {
		t->of[i].key = out->key;
		t->of[i].uses = 0;
		t->of[i].taken = false;
	}
	if (!t->of[i].taken && ++t->of[i].uses % ASK_EVERY)
		out->key = 0;
	return t->of[i].taken;
}

static void open_up(struct ur_rqp *q)
{
	if (q->shm->open_to_pull)
		return;
	q->shm->open_to_pull = true;
	ur_export_qp_set(q->r->export, ur_export_pull_key(q->qp->qpn),
			 q->qp->pd, 0, q->qp->attr.dest_qpn, true);
}

void ur_shm_pull_piece(struct ur_rqp *q, const struct ur_swqe *w,
		       struct ur_shm_named *out)
{
	struct ur_shm_pulled *t = &q->shm->peer->pulled;
	struct ur_shm_named p = { .len = 0 };

	if (!is_candidate(q, w))
		return;
	if (t->pause) {
		t->pause--;
		return;
	}
	find(w, q->shm->off, &p);
	if (p.len < UR_SHM_PULL_MIN || !is_ours(q, &p))
		return;
	if (is_taken(t, &p)) {
		open_up(q);
		t->sent++;
	} else {
		p.len = 0;
	}
	*out = p;
}

/* What the peer has taken is not on its way any more. */
static bool fits(struct ur_shm_peer *p, uint32_t len)
{
	struct ur_shm_pulled *t = &p->pulled;

	while (t->named_head != t->named_tail) {
		uint32_t i = t->named_tail % UR_CHAN_CELLS;

		if ((int32_t)(p->chan.tx_tail - t->named[i].at) <= 0)
			break;
		t->named_bytes -= t->named[i].len;
		t->named_tail++;
	}
	return t->named_bytes + len <= NAMED_MOST;
}

bool ur_shm_pull_room(struct ur_shm_peer *p, uint32_t len)
{
	if (fits(p, len))
		return true;
	ur_chan_refresh(&p->chan);
	return fits(p, len);
}

void ur_shm_pull_named(struct ur_shm_peer *p, uint32_t len)
{
	struct ur_shm_pulled *t = &p->pulled;
	uint32_t i = t->named_head++ % UR_CHAN_CELLS;

	t->named[i].at = p->chan.tx_head - 1;
	t->named[i].len = len;
	t->named_bytes += len;
}

void ur_shm_take_pulls(struct ur_rqp *q, const struct ur_cell *c)
{
	struct ur_shm_pulled *t = &q->shm->peer->pulled;
	uint32_t i = (c->body.rkey >> 8) % UR_SHM_PULLED;

	if (t->of[i].key == c->body.rkey)
		t->of[i].taken = true;
}

void ur_shm_pull_refused(struct ur_rqp *q)
{
	struct ur_shm_pulled *t = &q->shm->peer->pulled;

	if (t->sent > FORGIVEN)
		t->level = 0;
	t->pause = PAUSE << t->level;
	t->level += t->level < LEVELS;
	t->sent = 0;
	memset(t->of, 0, sizeof(t->of));
}

void ur_shm_pull_end(struct ur_rqp *q)
{
	if (!q->shm->open_to_pull)
		return;
	q->shm->open_to_pull = false;
	ur_export_qp_set(q->r->export, ur_export_pull_key(q->qp->qpn),
			 q->qp->pd, 0, 0, false);
}

/* --- responder --- */

void ur_shm_pull_asked(struct ur_rqp *q, uint32_t key)
{
	struct ur_shm_qp *n = q->shm;
	if (!n->peer->direct || !ur_direct_has_mapped(n->peer->direct, key))
		return;
	n->pulls_key = key;
	ur_shm_owe(q, UR_SHM_DUE_PULLS);
}

/* A null region is so many pieces. */
#define PIECES (UR_MAX_SGE + 8)

bool ur_shm_pull_place(struct ur_rqp *q, const struct ur_cell *c)
{
	struct ur_shm_qp *n = q->shm;
	uint32_t len = c->body.index;
	struct iovec iov[PIECES];
	int pieces;

	if (len == 0 || len > UR_SHM_PULL_MAX)
		return false;
	pieces = ur_recv_locate(q, n->received, len, iov, PIECES);
	if (pieces < 0)
		return false;
	q->r->shm->pulled += len;
	/* The kernel's calls cost more than the ring's two copies. */
	if (n->peer->direct)
		ur_direct_by_kernel(n->peer->direct, false);
	n->no_pull = !n->peer->direct ||
		     ur_direct_pull(n->peer->direct, c->from, q->qp->qpn,
				    c->body.rkey, c->body.va, iov, pieces, len);
	q->r->cnt.shm_pulled += !n->no_pull;
	return !n->no_pull;
}
