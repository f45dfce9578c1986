/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/bytes.h"
#include "roce/delegation.h"

enum {
	F_IN_MESSAGE = 1 << 0,
	F_NAK_SENT = 1 << 1,
	F_FLAGS = F_IN_MESSAGE | F_NAK_SENT,
};

enum {
	E_FAILED = 1 << 0,
	E_UNDER_WAY = 1 << 1,
	E_FLAGS = E_FAILED | E_UNDER_WAY,
};

static void put_resource(struct ur_wr *w, const struct ur_resource *x)
{
	ur_wr_u8(w, x->kind);
	ur_wr_be24(w, x->first_psn);
	ur_wr_be24(w, x->last_psn);
	ur_wr_be24(w, x->msn);
	ur_wr_be24(w, x->srqn);
	ur_wr_be32(w, x->rkey);
	ur_wr_be32(w, x->len);
	ur_wr_be64(w, x->va);
	ur_wr_be64(w, x->orig);
}

/* Saved requests and their responses, oldest first. */
static void put_resources(struct ur_wr *w, const struct ur_responder *p)
{
	uint8_t n = 0;

	for (uint32_t i = 0; i < p->res_size; i++)
		n += p->res[i].valid;
	ur_wr_u8(w, n);
	for (uint32_t i = 0; i < p->res_size; i++) {
		const struct ur_resource *x =
			&p->res[(p->res_next + i) % p->res_size];

		if (x->valid)
			put_resource(w, x);
	}
}

void ur_delegation_put_state(struct ur_wr *w, const struct ur_responder *p)
{
	ur_wr_be24(w, p->epsn);
	ur_wr_be24(w, p->msn);
	ur_wr_u8(w, (uint8_t)((p->in_message ? F_IN_MESSAGE : 0) |
			      (p->nak_sent ? F_NAK_SENT : 0)));
	ur_wr_u8(w, p->kind);
	ur_wr_be24(w, p->srqn);
	ur_wr_be32(w, p->received);
	ur_wr_be32(w, p->dma_len);
	ur_wr_be32(w, p->rkey);
	ur_wr_be64(w, p->va);
	put_resources(w, p);
}

/* A READ has as many PSNs as its response has packets, others have one. */
static bool resource_ok(const struct ur_resource *x, uint32_t mtu)
{
	uint32_t n = 1;

	if (!ur_op_has_response(x->kind) || x->len > UR_MAX_MSG_SIZE)
		return false;
	if (x->kind == UR_OP_READ_REQUEST && x->len)
		n = (x->len + mtu - 1) / mtu;
	return x->last_psn == ur_psn_add(x->first_psn, n - 1);
}

static void get_resource(struct ur_rd *r, struct ur_resource *x)
{
	*x = (struct ur_resource){ .valid = true };
	x->kind = ur_rd_u8(r);
	x->first_psn = ur_rd_be24(r);
	x->last_psn = ur_rd_be24(r);
	x->msn = ur_rd_be24(r);
	x->srqn = ur_rd_be24(r);
	x->rkey = ur_rd_be32(r);
	x->len = ur_rd_be32(r);
	x->va = ur_rd_be64(r);
	x->orig = ur_rd_be64(r);
}

/* The ring has the same size on both sides. */
static bool get_resources(struct ur_rd *r, struct ur_responder *p, uint32_t mtu)
{
	struct ur_resource res[UR_MAX_RD_ATOMIC];
	uint32_t n = ur_rd_u8(r);

	if (n > p->res_size)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		get_resource(r, &res[i]);
		if (!resource_ok(&res[i], mtu))
			return false;
		res[i].mtu = mtu;
	}
	if (r->bad || p->res_size == 0)
		return !r->bad;
	memset(p->res, 0, p->res_size * sizeof(*p->res));
	memcpy(p->res, res, n * sizeof(*res));
	p->res_next = n % p->res_size;
	p->res_todo = 0;
	return true;
}

bool ur_delegation_get_state(struct ur_rd *r, struct ur_rqp *q)
{
	struct ur_responder t = { .epsn = ur_rd_be24(r) };
	struct ur_responder *p = &q->rsp;
	uint8_t flags;

	t.msn = ur_rd_be24(r);
	flags = ur_rd_u8(r);
	t.kind = ur_rd_u8(r);
	t.srqn = ur_rd_be24(r);
	t.received = ur_rd_be32(r);
	t.dma_len = ur_rd_be32(r);
	t.rkey = ur_rd_be32(r);
	t.va = ur_rd_be64(r);
	if (r->bad || flags & ~F_FLAGS)
		return false;
	if ((flags & F_IN_MESSAGE) && t.kind != UR_OP_SEND &&
	    t.kind != UR_OP_WRITE)
		return false;
	if (!get_resources(r, p, q->mtu))
		return false;
	p->epsn = t.epsn;
	p->msn = t.msn;
	p->in_message = flags & F_IN_MESSAGE;
	p->nak_sent = flags & F_NAK_SENT;
	p->kind = t.kind;
	p->srqn = t.srqn;
	p->received = t.received;
	p->dma_len = t.dma_len;
	p->rkey = t.rkey;
	p->va = t.va;
	return true;
}

void ur_delegation_put_terms(struct ur_wr *w,
			     const struct ur_delegation_terms *t)
{
	ur_wr_be32(w, t->seq);
	ur_wr_copy(w, t->path.src, sizeof(t->path.src));
	ur_wr_copy(w, t->path.dst, sizeof(t->path.dst));
	ur_wr_be32(w, t->path.scope_id);
	ur_wr_u8(w, t->path.tclass);
	ur_wr_u8(w, t->path.hop_limit);
	ur_wr_be24(w, t->dest_qpn);
	ur_wr_be32(w, t->access);
	ur_wr_u8(w, (uint8_t)t->mtu);
	ur_wr_u8(w, (uint8_t)t->resources);
	ur_wr_u8(w, t->min_rnr_timer);
}

bool ur_delegation_get_terms(struct ur_rd *r, struct ur_delegation_terms *t)
{
	memset(t, 0, sizeof(*t));
	t->seq = ur_rd_be32(r);
	ur_rd_copy(r, t->path.src, sizeof(t->path.src));
	ur_rd_copy(r, t->path.dst, sizeof(t->path.dst));
	t->path.scope_id = ur_rd_be32(r);
	t->path.tclass = ur_rd_u8(r);
	t->path.hop_limit = ur_rd_u8(r);
	t->dest_qpn = ur_rd_be24(r);
	t->access = ur_rd_be32(r);
	t->mtu = ur_rd_u8(r);
	t->resources = ur_rd_u8(r);
	t->min_rnr_timer = ur_rd_u8(r);
	return !r->bad && ur_mtu_bytes(t->mtu) &&
	       t->resources <= UR_MAX_RD_ATOMIC && t->min_rnr_timer <= 31;
}

void ur_delegation_put_end(struct ur_wr *w, const struct ur_delegation_end *e)
{
	ur_wr_be32(w, e->seq);
	ur_wr_u8(w, (uint8_t)((e->failed ? E_FAILED : 0) |
			      (e->under_way ? E_UNDER_WAY : 0)));
	ur_wr_u8(w, (uint8_t)(e->event + 1));
}

/* Events that accompany the failure of a target (fault.c). */
static bool event_ok(int event)
{
	return event == -1 || event == UR_EVENT_QP_FATAL ||
	       event == UR_EVENT_QP_REQ_ERR || event == UR_EVENT_QP_ACCESS_ERR;
}

bool ur_delegation_get_end(struct ur_rd *r, struct ur_delegation_end *e)
{
	uint8_t flags;

	e->seq = ur_rd_be32(r);
	flags = ur_rd_u8(r);
	e->event = ur_rd_u8(r) - 1;
	e->failed = flags & E_FAILED;
	e->under_way = flags & E_UNDER_WAY;
	return !r->bad && !(flags & ~E_FLAGS) && event_ok(e->event);
}
