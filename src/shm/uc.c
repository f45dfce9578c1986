/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC responder of the channel.  A descriptor is handled like a packet of the
 * wire (roce/uc.c), except that its flags give the position in the message, as
 * PSN and MTU do there.  A message that cannot be placed is dropped here too.
 */
#include "shm/internal.h"

static bool is_first(const struct ur_desc *c)
{
	return c->flags & UR_SHM_FIRST;
}

static uint8_t opcode_of(const struct ur_desc *c)
{
	unsigned int position = (is_first(c) ? UR_POS_FIRST : 0) |
				(c->flags & UR_SHM_LAST ? UR_POS_LAST : 0);

	return ur_opcode_pick(UR_TP_UC,
			      c->kind == UR_SHM_SEND ? UR_OP_SEND : UR_OP_WRITE,
			      position, c->flags & UR_SHM_IMM ? UR_HDR_IMM : 0);
}

/* IBTA 9.8.2.2.2: after a gap, drop until a new message begins. */
static bool in_order(struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_responder *p = &q->rsp;
	bool goes_on =
		p->in_message && p->on_shm && p->kind == in->hdr.op->kind;

	if (in->hdr.op->position & UR_POS_FIRST) {
		q->r->cnt.drop_uc_sequence += p->in_message;
		return true;
	}
	q->r->cnt.drop_uc_sequence += !goes_on;
	return goes_on;
}

/* No piece of a WRITE exceeds the length that the first one named. */
static bool length_ok(const struct ur_rqp *q, const struct ur_in *in)
{
	const struct ur_responder *p = &q->rsp;

	if (!in->payload || in->hdr.op->kind == UR_OP_SEND)
		return in->payload != NULL;
	if (in->hdr.op->position & UR_POS_LAST)
		return p->received + in->payload_len == p->dma_len;
	return p->received + in->payload_len < p->dma_len;
}

/* Export what the peer may do by direct access. */
void ur_shm_uc_join(struct ur_rqp *q)
{
	q->shm->last = q->shm->peer->chan.tx.head;
	q->shm->serves = true;
	ur_shm_export_qp(q);
}

void ur_shm_uc_take(struct ur_rqp *q, const struct ur_desc *c)
{
	struct ur_in in = { .payload_len = c->len, .now_ns = q->r->now_ns };

	if (c->kind != UR_SHM_SEND && c->kind != UR_SHM_WRITE)
		return;
	in.payload = c->len ? ur_shm_payload(q, c) : c->body.bytes;
	in.hdr.op = ur_opcode_get(opcode_of(c));
	in.hdr.bth.solicited = (c->flags & UR_SHM_SOLICITED) != 0;
	in.hdr.imm_be = c->imm_be;
	if (c->kind == UR_SHM_WRITE && is_first(c)) {
		in.hdr.va = c->body.va;
		in.hdr.rkey = c->body.rkey;
		in.hdr.dma_len = c->body.total;
	}
	ur_rqp_first_packet(q);
	if (!in_order(q, &in)) {
		q->rsp.in_message = false;
		return;
	}
	if (is_first(c)) {
		ur_uc_begin(q, &in);
		q->rsp.on_shm = true;
	}
	if (!length_ok(q, &in)) {
		q->r->cnt.drop_length++;
		q->rsp.in_message = false;
		return;
	}
	ur_uc_take(q, &in);
}
