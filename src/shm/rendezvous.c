/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large SENDs and WRITEs with one copy of the data.  The requester names the
 * data, and the responder gets it by direct access straight into the receive, or
 * into the target of a WRITE, which the requester cannot access itself (it is an
 * indirect key, say).  It acknowledges only then, so the memory belongs to the
 * requester until its completion, as usual.
 *
 * At first data goes through the ring, and the descriptor of every eighth piece
 * asks about its region: the responder then maps it, if it can, and says
 * RNDV_OK. That may no longer hold when a rendezvous comes.  Then the responder
 * refuses, the wire carries what was refused, and the ring the next pieces.
 */
#include <errno.h>

#include "core/umr.h"
#include "shm/direct.h"
#include "shm/internal.h"

/*
 * Pieces of a region that go through the ring before it is asked about: an
 * answer may cost the process more than some copies.
 */
#define ASK_EVERY 8u
/* Pieces that go through the ring after a refusal, */
#define PAUSE	  16u
/* twice as many after each, */
#define LEVELS	  16u
/* unless so many were got between two refusals. */
#define FORGIVEN  4096u

/*
 * A descriptor is small and can name much.  Requests of other queue pairs wait
 * behind it, so the names cover no more than the ring could hold.
 */
#define NAMED_MOST UR_CHAN_DATA

_Static_assert(UR_SHM_RNDV_MAX == UR_DIRECT_CHUNK, "");

/* --- requester --- */

/* The rest of the element in which the next byte is. */
static void find(const struct ur_swqe *w, uint32_t off,
		 struct ur_shm_rndv_data *out)
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
	if (out->len > UR_SHM_RNDV_MAX)
		out->len = UR_SHM_RNDV_MAX;
}

/* Errors are found where the data is copied. Of an indirect key its first piece
 * is named, by the region that it is in. */
static bool is_ours(struct ur_rqp *q, struct ur_shm_rndv_data *p)
{
	const struct ur_mr *mr =
		ur_mr_lookup_again(q->qp->mrs, p->key, &q->shm->out);

	if (mr && mr->kind == UR_MR_INDIRECT) {
		uint64_t len = p->len;

		mr = ur_umr_region(q->qp->mrs, mr, q->qp->pd, &p->va, &len);
		p->key = mr ? mr->key : 0;
		p->len = (uint32_t)len;
	}
	return mr && mr->kind == UR_MR_MEMORY && p->len >= UR_SHM_RNDV_MIN &&
	       ur_mr_translate(mr, q->qp->pd, p->va, p->len, 0);
}

static bool is_candidate(const struct ur_rqp *q, const struct ur_swqe *w)
{
	return q->r->export && q->qp->type == UR_QPT_RC &&
	       (w->opcode == UR_WR_SEND || w->opcode == UR_WR_SEND_IMM ||
		ur_swqe_is_write(w)) &&
	       !(w->flags & UR_SEND_INLINE);
}

/* True: the peer can get it. Else out->key is the region to ask about. */
static bool is_taken(struct ur_shm_rndv *t, struct ur_shm_rndv_data *out)
{
	uint32_t i = (out->key >> 8) % UR_SHM_RNDV_REGIONS;

	if (t->of[i].key != out->key) {
		t->of[i].key = out->key;
		t->of[i].uses = 0;
		t->of[i].ok = false;
	}
	if (!t->of[i].ok && ++t->of[i].uses % ASK_EVERY)
		out->key = 0;
	return t->of[i].ok;
}

static void open_up(struct ur_rqp *q)
{
	if (q->shm->rndv_open)
		return;
	q->shm->rndv_open = true;
	ur_export_qp_set(q->r->export, ur_export_rndv_key(q->qp->qpn),
			 q->qp->pd, 0, q->qp->attr.dest_qpn, true);
}

void ur_shm_rndv_piece(struct ur_rqp *q, const struct ur_swqe *w,
		       struct ur_shm_rndv_data *out)
{
	struct ur_shm_rndv *t = &q->shm->peer->rndv;
	struct ur_shm_rndv_data p = { .len = 0 };

	if (!is_candidate(q, w))
		return;
	if (t->pause) {
		t->pause--;
		return;
	}
	find(w, q->shm->off, &p);
	if (p.len < UR_SHM_RNDV_MIN || !is_ours(q, &p))
		return;
	if (is_taken(t, &p)) {
		open_up(q);
		t->sent++;
	} else {
		p.len = 0;
	}
	*out = p;
}

/* Release what the peer has taken. */
static bool fits(struct ur_shm_peer *p, uint32_t len)
{
	struct ur_shm_rndv *t = &p->rndv;

	while (t->pending_head != t->pending_tail) {
		uint32_t i = t->pending_tail % UR_CHAN_DESCS;

		if ((int32_t)(p->chan.tx.tail - t->pending[i].at) <= 0)
			break;
		t->pending_bytes -= t->pending[i].len;
		t->pending_tail++;
	}
	return t->pending_bytes + len <= NAMED_MOST;
}

bool ur_shm_rndv_room(struct ur_shm_peer *p, uint32_t len)
{
	if (fits(p, len))
		return true;
	ur_spsc_refresh(&p->chan.tx);
	return fits(p, len);
}

void ur_shm_rndv_sent(struct ur_shm_peer *p, uint32_t len)
{
	struct ur_shm_rndv *t = &p->rndv;
	uint32_t i = t->pending_head++ % UR_CHAN_DESCS;

	t->pending[i].at = p->chan.tx.head - 1;
	t->pending[i].len = len;
	t->pending_bytes += len;
}

void ur_shm_rndv_take_ok(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_rndv *t = &q->shm->peer->rndv;
	uint32_t i = (c->body.rkey >> 8) % UR_SHM_RNDV_REGIONS;

	if (t->of[i].key == c->body.rkey)
		t->of[i].ok = true;
}

void ur_shm_rndv_refused(struct ur_rqp *q)
{
	struct ur_shm_rndv *t = &q->shm->peer->rndv;

	if (t->sent > FORGIVEN)
		t->level = 0;
	t->pause = PAUSE << t->level;
	t->level += t->level < LEVELS;
	t->sent = 0;
	memset(t->of, 0, sizeof(t->of));
}

void ur_shm_rndv_end(struct ur_rqp *q)
{
	if (!q->shm->rndv_open)
		return;
	q->shm->rndv_open = false;
	ur_export_qp_set(q->r->export, ur_export_rndv_key(q->qp->qpn),
			 q->qp->pd, 0, 0, false);
}

/* --- responder --- */

void ur_shm_rndv_asked(struct ur_rqp *q, uint32_t key)
{
	struct ur_shm_qp *n = q->shm;

	if (!key || !n->peer->direct ||
	    !ur_direct_has_mapped(n->peer->direct, key))
		return;
	n->rndv_key = key;
	ur_shm_send_due(q, UR_SHM_DUE_RNDV_OK);
}

int ur_shm_rndv_target(const struct ur_rqp *q, const struct ur_desc *c,
		       uint32_t done, uint32_t len, struct iovec *out)
{
	const struct ur_shm_qp *n = q->shm;
	uint32_t at = n->received + done;
	struct ur_mr_ref to = ur_shm_memory(q, n->rkey, n->va + at);
	int pieces = c->kind == UR_SHM_RNDV
			     ? ur_recv_locate(q, at, len, out, UR_DIRECT_PIECES)
			     : ur_mr_pieces(&to, len, UR_ACCESS_REMOTE_WRITE,
					    out, UR_DIRECT_PIECES);

	return pieces == -E2BIG ? (int)UR_DIRECT_PIECES : pieces;
}

uint32_t ur_shm_rndv_size(const struct iovec *iov, int pieces)
{
	uint32_t size = 0;

	for (int i = 0; i < pieces; i++)
		size += (uint32_t)iov[i].iov_len;
	return size;
}

/*
 * What came too late is refused, and the request is done again as packets.  A
 * program that waits for the last byte of a WRITE in its memory must not see it
 * twice: the last bytes are placed when they are certain.
 * As many as an operand of an atomic has, which must not be divided.
 */
#define LAST_BYTES 16u

/* From byte `done` on, as many pieces of the target as one call takes: how many
 * bytes, or an error. */
static int get_some(struct ur_rqp *q, const struct ur_desc *c, uint32_t done)
{
	const struct ur_shm_qp *n = q->shm;
	bool write = c->kind == UR_SHM_RNDV_WRITE;
	uint32_t left = c->body.index - done, size;
	uint32_t kept = write && (c->flags & UR_SHM_LAST) ? LAST_BYTES : 0;
	struct ur_mr_ref to =
		ur_shm_memory(q, n->rkey, n->va + n->received + done);
	struct iovec iov[UR_DIRECT_PIECES];
	uint8_t last[LAST_BYTES];
	int pieces = 1, err;

	if (left <= kept)
		iov[0] = (struct iovec){ last, left };
	else
		pieces = ur_shm_rndv_target(q, c, done, left - kept, iov);
	if (pieces < 0)
		return pieces;
	size = ur_shm_rndv_size(iov, pieces);
	err = ur_direct_get(n->peer->direct, c->from, q->qp->qpn,
			    write ? c->body.at : c->body.rkey,
			    (write ? c->body.value[0] : c->body.va) + done, iov,
			    pieces, size);
	if (!err && left <= kept)
		err = ur_mr_put(&to, last, left);
	return err ? err : (int)size;
}

/* Fetch all that is named. */
static int get(struct ur_rqp *q, const struct ur_desc *c)
{
	uint32_t done = 0, turn = 0;

	while (done < c->body.index) {
		int ret = get_some(q, c, done);

		/* The target's list may be another after the wait. */
		if (ret == -EBUSY && ur_direct_wait(turn++))
			continue;
		if (ret < 0)
			return ret;
		turn = 0;
		done += (uint32_t)ret;
	}
	return 0;
}

bool ur_shm_rndv_place(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_shm_qp *n = q->shm;
	uint32_t len = c->body.index;
	int err;

	if (len == 0 || len > UR_SHM_RNDV_MAX)
		return false;
	q->r->shm->rndv_bytes += len;
	/* CMA costs more than the two copies of the ring. */
	if (n->peer->direct)
		ur_direct_allow_cma(n->peer->direct, false);
	err = n->peer->direct ? get(q, c) : -EAGAIN;
	/* Errors of the target say nothing about the way. */
	n->rndv_failed = err == -EAGAIN || err == -EBUSY;
	if (err)
		return false;
	q->r->cnt.shm_pulled++;
	if (q->r->tap)
		ur_shm_tap_fetched(q, c);
	return true;
}
