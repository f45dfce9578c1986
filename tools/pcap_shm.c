/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests and answers that went through shared memory, as the RoCEv2 packets that
 * they would have been.
 *
 * Shared memory has no PSNs, so they are counted here: from the PSN with which the
 * wire would go on, a request takes as many as its packets, or those of the answer,
 * as in IBTA 9.7.2.  An acknowledgement is a count of requests; it is the ACK of
 * the last of them.  A READ or atomic is acknowledged by its answer, and an ACK
 * does not pass one that is not answered.
 */
#include <stdlib.h>
#include <string.h>

#include "core/qp.h"
#include "pcap_frame.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/masked.h"

#define CONVERSATIONS 4096u
#define REQUESTS      4096u /* outstanding ones of a direction */
#define MTU_MAX	      4096u

struct request {
	uint32_t number;
	uint32_t first; /* PSN */
	uint32_t last;
	uint32_t len;
	uint8_t op;
	bool masked;
	bool answered;
};

/* The requests of one queue pair to another, and their answers. */
struct direction {
	bool begun;
	uint32_t next; /* PSN */
	uint32_t msn;
	uint32_t told; /* requests acknowledged */
	/* The message that is being sent. */
	bool in_message;
	uint32_t off;
	uint32_t held; /* bytes less than a packet */
	uint8_t hold[MTU_MAX];
	uint32_t answer_off; /* bytes of the oldest answer */
	struct request request[REQUESTS];
	uint32_t head;
	uint32_t tail;
};

struct conversation {
	uint32_t source;
	uint32_t qpn;
	uint32_t dqpn;
	uint8_t device;
	struct direction way[2]; /* 1: our requests */
};

struct ur_shm_frames {
	struct conversation *conversation[CONVERSATIONS];
	uint32_t datagrams; /* PSN */
};

/* One record, on its way. */
struct put {
	struct ur_frame_out *out;
	const struct ur_capture_rec *rec;
	struct direction *d;
	bool sent;
	uint32_t mtu;
	enum ur_transport tp;
};

struct ur_shm_frames *ur_shm_frames_create(void)
{
	return calloc(1, sizeof(struct ur_shm_frames));
}

void ur_shm_frames_destroy(struct ur_shm_frames *s)
{
	for (uint32_t i = 0; s && i < CONVERSATIONS; i++)
		free(s->conversation[i]);
	free(s);
}

static bool is_of(const struct conversation *c, const struct ur_frame_out *out,
		  const struct ur_capture_rec *rec)
{
	return c->source == out->source && c->device == rec->device &&
	       c->qpn == rec->qpn && c->dqpn == rec->dqpn;
}

/* Of two that meet in the table the older one is forgotten. */
static struct conversation *find(struct ur_shm_frames *s,
				 const struct ur_frame_out *out,
				 const struct ur_capture_rec *rec)
{
	struct conversation **at =
		&s->conversation[(rec->qpn ^ rec->dqpn << 3 ^ out->source) %
				 CONVERSATIONS];

	if (*at && is_of(*at, out, rec))
		return *at;
	free(*at);
	*at = calloc(1, sizeof(**at));
	if (!*at)
		return NULL;
	(*at)->source = out->source;
	(*at)->device = rec->device;
	(*at)->qpn = rec->qpn;
	(*at)->dqpn = rec->dqpn;
	return *at;
}

static uint32_t dqpn_of(const struct ur_capture_rec *rec, bool sent)
{
	return sent || rec->qp_type == UR_QPT_UD ? rec->dqpn : rec->qpn;
}

static void emit(struct put *p, struct ur_hdr *h, const uint8_t *payload,
		 uint32_t len)
{
	const struct ur_capture_rec *rec = p->rec;
	struct ur_icrc_flow flow = { .sport = rec->sport,
				     .dport = UR_ROCE_PORT };
	struct ur_frame_ends e = ur_frame_ends_of(rec);
	uint8_t pkt[UR_HDR_MAX + MTU_MAX + 4 + UR_ICRC_LEN];
	struct ur_frame f = { .rec = rec,
			      .interface = p->out->interface,
			      .source = p->out->source,
			      .data = p->out->frame,
			      .sent = p->sent };
	size_t at;

	h->bth.pad = (uint8_t)(-len & 3);
	h->bth.pkey = 0xffff;
	h->bth.dqpn = dqpn_of(rec, p->sent);
	at = ur_hdr_encode(h, pkt);
	if (len)
		memcpy(pkt + at, payload, len);
	at += len;
	memset(pkt + at, 0, h->bth.pad);
	at += h->bth.pad + UR_ICRC_LEN;
	memcpy(flow.src, rec->src, 16);
	memcpy(flow.dst, rec->dst, 16);
	ur_icrc_write(&flow, pkt, at);
	f.len = ur_frame_udp(p->out->frame, &e, pkt, at);
	f.dqpn = h->bth.dqpn;
	f.comment = rec->flags & UR_CAP_DIRECT
			    ? "direct access to shared memory"
			    : "shared memory";
	if (f.len)
		p->out->fn(p->out->arg, &f);
}

static uint32_t packets(uint32_t len, uint32_t mtu)
{
	return len ? (len + mtu - 1) / mtu : 1;
}

static struct request *request_at(struct direction *d, uint32_t i)
{
	return &d->request[i % REQUESTS];
}

/* The wire may have been used meanwhile. */
static uint32_t take_psns(struct put *p, uint32_t n)
{
	struct direction *d = p->d;
	uint32_t first;

	if (!d->begun || ur_psn_diff(p->rec->psn, d->next) > 0)
		d->next = p->rec->psn & UR_PSN_MASK;
	d->begun = true;
	first = d->next;
	d->next = ur_psn_add(first, n);
	return first;
}

static struct request *add_request(struct put *p, uint8_t op, uint32_t len)
{
	struct direction *d = p->d;
	struct request *x;

	if (d->head - d->tail == REQUESTS)
		d->tail++;
	x = request_at(d, d->head++);
	x->number = p->rec->number;
	x->op = op;
	x->len = len;
	x->masked = false;
	x->answered = false;
	x->first = take_psns(p, packets(ur_op_is_atomic(op) ? 0 : len, p->mtu));
	x->last = ur_psn_add(d->next, UR_PSN_MASK);
	return x;
}

/* --- SEND and WRITE --- */

static void emit_piece(struct put *p, const uint8_t *from, uint32_t len)
{
	const struct ur_capture_rec *rec = p->rec;
	struct direction *d = p->d;
	const struct request *x = request_at(d, d->head - 1);
	bool last = d->off + len == x->len;
	unsigned int position =
		(d->off ? 0 : UR_POS_FIRST) | (last ? UR_POS_LAST : 0);
	struct ur_hdr h = {
		.bth = { .opcode = ur_opcode_pick(
				 p->tp, (enum ur_op_kind)x->op, position,
				 rec->flags & UR_CAP_IMM ? UR_HDR_IMM : 0),
			 .solicited = last && (rec->flags & UR_CAP_SOLICITED),
			 .ackreq = last && p->tp == UR_TP_RC,
			 .migreq = true,
			 .psn = ur_psn_add(x->first, d->off / p->mtu) },
		.va = rec->va,
		.rkey = rec->rkey,
		.dma_len = x->len,
		.imm_be = rec->imm_be,
	};

	emit(p, &h, from, len);
	d->off += len;
}

/* Whole packets, and at the end of the message the rest. */
static void put_message(struct put *p, const uint8_t *from)
{
	const struct ur_capture_rec *rec = p->rec;
	struct direction *d = p->d;
	uint32_t len = rec->len, end;

	if (rec->flags & UR_CAP_FIRST) {
		(void)add_request(p, rec->op, rec->total);
		d->in_message = true;
		d->off = 0;
		d->held = 0;
	}
	if (!d->in_message)
		return; /* its beginning is not in the capture */
	end = request_at(d, d->head - 1)->len;
	while (d->in_message) {
		uint32_t want = end - d->off < p->mtu ? end - d->off : p->mtu;
		uint32_t n;

		if (d->held > want) { /* the MTU or the request has changed */
			d->in_message = false;
			return;
		}
		n = want - d->held < len ? want - d->held : len;
		memcpy(d->hold + d->held, from, n);
		d->held += n;
		from += n;
		len -= n;
		if (d->held < want)
			return;
		emit_piece(p, d->hold, want);
		d->held = 0;
		d->in_message = d->off < end;
	}
}

/* --- READ and atomics --- */

static void put_read(struct put *p)
{
	const struct ur_capture_rec *rec = p->rec;
	const struct request *x = add_request(p, rec->op, rec->total);
	struct ur_hdr h = { .bth = { .opcode = UR_RC_READ_REQUEST,
				     .ackreq = true,
				     .migreq = true,
				     .psn = x->first },
			    .va = rec->va,
			    .rkey = rec->rkey,
			    .dma_len = rec->total };

	emit(p, &h, NULL, 0);
}

static void put_masked(struct put *p, const struct request *x,
		       const uint8_t *payload)
{
	bool cas = x->op == UR_OP_CMP_SWAP;
	struct ur_hdr h = { .bth = { .opcode = cas ? UR_RC_MASKED_CMP_SWAP
						   : UR_RC_MASKED_FETCH_ADD,
				     .ackreq = true,
				     .migreq = true,
				     .psn = x->first },
			    .va = p->rec->va,
			    .rkey = p->rec->rkey,
			    .dma_len = x->len };
	uint8_t operands[UR_MASKED_LEN_MAX];
	struct ur_masked m;

	memcpy(&m, payload, sizeof(m));
	ur_masked_encode(&m, cas, x->len, operands);
	emit(p, &h, operands, ur_masked_wire_len(cas, x->len));
}

static void put_atomic(struct put *p, const uint8_t *payload)
{
	const struct ur_capture_rec *rec = p->rec;
	struct request *x = add_request(p, rec->op, rec->total);
	bool cas = rec->op == UR_OP_CMP_SWAP;
	uint64_t v[2] = { 0 };
	struct ur_hdr h = { .bth = { .opcode = cas ? UR_RC_CMP_SWAP
						   : UR_RC_FETCH_ADD,
				     .ackreq = true,
				     .migreq = true,
				     .psn = x->first },
			    .va = rec->va,
			    .rkey = rec->rkey };

	x->masked =
		rec->len == sizeof(struct ur_masked) && x->len <= UR_MASKED_MAX;
	if (x->masked) {
		put_masked(p, x, payload);
		return;
	}
	if (rec->len < sizeof(v))
		return;
	memcpy(v, payload, sizeof(v));
	h.swap_add = v[cas];
	h.compare = cas ? v[0] : 0;
	emit(p, &h, NULL, 0);
}

/* --- answers --- */

static struct ur_hdr answer_of(const struct direction *d, uint8_t opcode,
			       uint32_t psn)
{
	return (struct ur_hdr){
		.bth = { .opcode = opcode, .migreq = true, .psn = psn },
		.syndrome = UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
		.msn = d->msn & UR_PSN_MASK
	};
}

/*
 * Forget requests that are done.  The last plain one gets an ACK, unless the answer
 * to a later one says that too.
 */
static void settle(struct put *p, bool direct)
{
	struct direction *d = p->d;
	const struct request *plain = NULL;
	struct ur_hdr h;

	while (d->tail != d->head) {
		const struct request *x = request_at(d, d->tail);
		bool asks = ur_op_has_response(x->op);

		if (!direct && (int32_t)(d->told - x->number) <= 0)
			break;
		if (asks && !x->answered)
			break;
		plain = asks ? NULL : x;
		d->msn += !asks;
		d->tail++;
	}
	if (!plain)
		return;
	h = answer_of(d, UR_RC_ACK, plain->last);
	emit(p, &h, NULL, 0);
}

/* The oldest request that is not answered; NULL: it is not in the capture. */
static struct request *asked(struct direction *d)
{
	for (uint32_t i = d->tail; i != d->head; i++) {
		struct request *x = request_at(d, i);

		if (ur_op_has_response(x->op) && !x->answered)
			return x;
	}
	return NULL;
}

static void answered(struct put *p, struct request *x)
{
	x->answered = true;
	p->d->answer_off = 0;
	settle(p, p->rec->flags & UR_CAP_DIRECT);
}

static uint8_t response_opcode(bool first, bool last)
{
	if (first)
		return last ? UR_RC_READ_RESP_ONLY : UR_RC_READ_RESP_FIRST;
	return last ? UR_RC_READ_RESP_LAST : UR_RC_READ_RESP_MIDDLE;
}

/* Records hold whole packets, but for the last. */
static void put_read_data(struct put *p, const uint8_t *from)
{
	struct direction *d = p->d;
	struct request *x = asked(d);
	uint32_t left = p->rec->len;

	if (!x || x->op != UR_OP_READ_REQUEST || left > x->len - d->answer_off)
		return;
	do {
		uint32_t n = left < p->mtu ? left : p->mtu;
		uint32_t at = d->answer_off;
		bool last = at + n == x->len;
		struct ur_hdr h = answer_of(d, response_opcode(at == 0, last),
					    ur_psn_add(x->first, at / p->mtu));

		d->msn += last;
		h.msn = d->msn & UR_PSN_MASK;
		emit(p, &h, from, n);
		d->answer_off += n;
		from += n;
		left -= n;
	} while (left);
	if (d->answer_off == x->len)
		answered(p, x);
}

static void put_old(struct put *p, const uint8_t *payload)
{
	struct request *x = asked(p->d);
	uint64_t old[2] = { 0 };
	uint8_t bytes[UR_MASKED_MAX];
	struct ur_hdr h;

	if (!x || !ur_op_is_atomic(x->op))
		return;
	memcpy(old, payload,
	       p->rec->len < sizeof(old) ? p->rec->len : sizeof(old));
	p->d->msn++;
	h = answer_of(p->d, x->masked ? UR_RC_MASKED_ACK : UR_RC_ATOMIC_ACK,
		      x->first);
	h.orig = old[0];
	if (x->masked)
		ur_masked_put(bytes, x->len, old);
	emit(p, &h, bytes, x->masked ? x->len : 0);
	answered(p, x);
}

static void put_nak(struct put *p)
{
	struct direction *d = p->d;
	struct ur_hdr h;

	if (d->tail == d->head)
		return;
	h = answer_of(d, UR_RC_ACK, request_at(d, d->tail)->first);
	h.syndrome = UR_AETH_NAK | UR_NAK_REM_ACCESS;
	emit(p, &h, NULL, 0);
}

/* --- what a record is --- */

static void put_datagram(struct ur_shm_frames *s, struct put *p,
			 const uint8_t *payload)
{
	const struct ur_capture_rec *rec = p->rec;
	bool imm = rec->flags & UR_CAP_IMM;
	struct ur_hdr h = { .bth = { .opcode = imm ? UR_UD_SEND_ONLY_IMM
						   : UR_UD_SEND_ONLY,
				     .solicited = rec->flags & UR_CAP_SOLICITED,
				     .migreq = true,
				     .psn = s->datagrams++ & UR_PSN_MASK },
			    .qkey = rec->rkey,
			    .sqpn = (uint32_t)rec->va & UR_QPN_MASK,
			    .imm_be = rec->imm_be };

	if (rec->len <= MTU_MAX)
		emit(p, &h, payload, rec->len);
}

static void put_op(struct put *p, struct conversation *c,
		   const uint8_t *payload)
{
	struct direction *asks = &c->way[p->sent], *answers = &c->way[!p->sent];

	p->d = asks;
	switch (p->rec->op) {
	case UR_OP_SEND:
	case UR_OP_WRITE:
		put_message(p, payload);
		return;
	case UR_OP_READ_REQUEST:
		put_read(p);
		return;
	case UR_OP_CMP_SWAP:
	case UR_OP_FETCH_ADD:
		put_atomic(p, payload);
		return;
	default:
		break;
	}
	p->d = answers;
	if (p->rec->op == UR_OP_READ_RESPONSE)
		put_read_data(p, payload);
	else if (p->rec->op == UR_OP_ATOMIC_ACK)
		put_old(p, payload);
	else if (p->rec->op == UR_CAP_OP_NAK)
		put_nak(p);
	else if (p->rec->flags & UR_CAP_DIRECT)
		settle(p, true);
}

/* Requests of before are done, or go by the wire. */
static void restart(struct direction *d)
{
	d->tail = d->head;
	d->told = 0;
	d->in_message = false;
	d->answer_off = 0;
}

void ur_shm_frames_put(struct ur_shm_frames *s, struct ur_frame_out *out,
		       const struct ur_capture_rec *rec, const uint8_t *payload)
{
	struct put p = { .out = out,
			 .rec = rec,
			 .sent = rec->flags & UR_CAP_OUT,
			 .mtu = 128u << (rec->mtu ? rec->mtu & 7 : 1),
			 .tp = rec->qp_type == UR_QPT_UC ? UR_TP_UC
							 : UR_TP_RC };
	struct conversation *c;

	if (p.mtu > MTU_MAX)
		return;
	if (rec->qp_type == UR_QPT_UD) {
		put_datagram(s, &p, payload);
		return;
	}
	c = find(s, out, rec);
	if (!c)
		return;
	if (rec->flags & UR_CAP_RESTART)
		restart(&c->way[p.sent]);
	if (rec->flags & UR_CAP_ACK) {
		p.d = &c->way[!p.sent];
		p.d->told = rec->ack;
		settle(&p, false);
	}
	put_op(&p, c, payload);
}
