/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams in a channel: one descriptor each, with the fields of the packet's
 * headers.  The receiver makes the GRH from them and continues as with a packet
 * (roce/ud.c).
 *
 *      to    number of the QP, traffic class in the upper byte
 *      from  number of the sender, hop limit in the upper byte
 *      ack   Q_Key
 *      body  IPv4: source, destination, payload if it fits there;
 *            IPv6: source, `at`, destination
 */
#include <errno.h>

#include "base/addr.h"
#include "shm/internal.h"

/*
 * Datagrams to a slot after which a channel is requested; again each time the
 * number has doubled.
 */
#define MANY 8u

#define BYTE_SHIFT 24u
#define V4_SRC	   0u
#define V4_DST	   4u
#define V4_DATA	   8u
#define V4_ROOM	   (UR_CHAN_BODY - V4_DATA)
#define V6_SRC	   0u
#define V6_DST	   24u

_Static_assert(offsetof(struct ur_desc, body.at) -
			       offsetof(struct ur_desc, body) ==
		       20,
	       "between the addresses");

/* --- requester --- */

static uint16_t slot_of(uint32_t dqpn)
{
	return (uint16_t)(dqpn >> UR_SLOT_SHIFT & (UR_SHM_SLOTS - 1));
}

void ur_shm_ud_wired(struct ur_rqp *q, uint32_t dqpn)
{
	struct ur_roce *r = q->r;
	uint32_t n = ++r->shm->ud[slot_of(dqpn)];

	ur_shm_sent_by_wire(q);
	if (r->want_peer && n >= MANY && (n & (n - 1)) == 0)
		r->want_peer(r->want_arg, slot_of(dqpn));
}

bool ur_shm_ud_wants(const struct ur_roce *r, uint16_t slot)
{
	return r->shm->ud[slot % UR_SHM_SLOTS] >= MANY;
}

static struct ur_shm_peer *find(const struct ur_roce *r, uint16_t slot)
{
	ur_list_each(struct ur_shm_peer, p, &r->shm->peers, node)
		if (p->slot == slot && !p->broken)
			return p;
	return NULL;
}

/* q is on the list of the peer that it sent to last, and waits for no other. */
struct ur_shm_peer *ur_shm_ud_peer(struct ur_rqp *q, const struct ur_swqe *w)
{
	uint16_t slot = slot_of(w->wr.ud.dqpn);
	struct ur_shm_peer *p = ur_shm_peer_of(q);
	struct ur_shm_qp *n;

	if (!w->wr.ud.av.is_local || w->wr.ud.dqpn == UR_QPN_MULTICAST ||
	    q->qp->attr.rate_limit || q->wire_only)
		return NULL;
	if (p && p->slot == slot && !p->broken)
		return p;
	p = find(q->r, slot);
	if (!p || !ur_shm_qp_make(q))
		return NULL;
	n = q->shm;
	ur_list_del(&n->node);
	ur_list_del(&n->full);
	ur_list_add_tail(&p->qps, &n->node);
	n->peer = p;
	n->last = p->chan.tx.head;
	return p;
}

static void put_addresses(struct ur_desc *c, const struct ur_av *av)
{
	if (ur_addr_is_v4(av->dgid)) {
		memcpy(c->body.bytes + V4_SRC, av->sgid + 12, 4);
		memcpy(c->body.bytes + V4_DST, av->dgid + 12, 4);
		return;
	}
	c->flags |= UR_SHM_V6;
	memcpy(c->body.bytes + V6_SRC, av->sgid, 16);
	memcpy(c->body.bytes + V6_DST, av->dgid, 16);
}

/* In the body if it fits; otherwise beside the ring. */
static int put_payload(struct ur_rqp *q, const struct ur_swqe *w,
		       struct ur_desc *c)
{
	struct ur_chan *chan = &q->shm->peer->chan;
	uint32_t len = w->length, at = 0;
	uint8_t *to;

	c->len = (uint16_t)len;
	if (len == 0)
		return 0;
	if (len <= V4_ROOM && !(c->flags & UR_SHM_V6)) {
		c->flags |= UR_SHM_IN_BODY;
		return ur_shm_copy_out(q, w, 0, len, c->body.bytes + V4_DATA);
	}
	to = ur_spsc_data(&chan->tx, len, &at);
	if (!to)
		return -EAGAIN;
	if (ur_shm_copy_out(q, w, 0, len, to))
		return -EFAULT;
	c->body.at = at;
	ur_spsc_data_used(&chan->tx, at, len);
	return 0;
}

int ur_shm_ud_send(struct ur_rqp *q, const struct ur_swqe *w)
{
	const struct ur_av *av = &w->wr.ud.av;
	uint32_t qkey = w->wr.ud.qkey;
	struct ur_desc *c = ur_shm_desc(q, UR_SHM_DATAGRAM, true);
	int err;

	if (!c)
		return -EAGAIN;
	c->to = w->wr.ud.dqpn | (uint32_t)av->tclass << BYTE_SHIFT;
	c->from = (q->qp->source_qpn ? q->qp->source_qpn : q->qp->qpn) |
		  (uint32_t)av->hop_limit << BYTE_SHIFT;
	/* IBTA 10.2.5: the high bit asks for the QP's own Q_Key. */
	c->ack = qkey & 0x80000000u ? q->qp->attr.qkey : qkey;
	c->imm_be = w->imm_be;
	c->flags = (uint8_t)((w->opcode == UR_WR_SEND_IMM ? UR_SHM_IMM : 0) |
			     (w->flags & UR_SEND_SOLICITED ? UR_SHM_SOLICITED
							   : 0));
	put_addresses(c, av);
	err = put_payload(q, w, c);
	if (!err)
		ur_shm_send(q, c);
	return err == -EAGAIN ? err : err ? -EFAULT : 0;
}

/* --- responder --- */

void ur_shm_ud_addresses(const struct ur_desc *c, uint8_t src[16],
			 uint8_t dst[16])
{
	if (c->flags & UR_SHM_V6) {
		memcpy(src, c->body.bytes + V6_SRC, 16);
		memcpy(dst, c->body.bytes + V6_DST, 16);
		return;
	}
	ur_addr_from_v4(src, c->body.bytes + V4_SRC);
	ur_addr_from_v4(dst, c->body.bytes + V4_DST);
}

const uint8_t *ur_shm_ud_body(const struct ur_desc *c)
{
	return (c->flags & UR_SHM_IN_BODY) && c->len <= V4_ROOM &&
			       !(c->flags & UR_SHM_V6)
		       ? c->body.bytes + V4_DATA
		       : NULL;
}

/* Where the payload is; NULL: the descriptor violates the protocol. */
static const uint8_t *payload_of(const struct ur_roce *r,
				 const struct ur_desc *c)
{
	if (c->len > UR_UD_MTU)
		return NULL;
	if (!c->len)
		return c->body.bytes;
	if (!(c->flags & UR_SHM_IN_BODY))
		return ur_spsc_payload(&r->shm->from->rx, c->body.at, c->len);
	return ur_shm_ud_body(c);
}

static void receive(struct ur_rqp *q, const struct ur_desc *c)
{
	bool imm = c->flags & UR_SHM_IMM;
	struct ur_rx rx = { .tclass = (uint8_t)(c->to >> BYTE_SHIFT),
			    .hop_limit = (uint8_t)(c->from >> BYTE_SHIFT) };
	struct ur_in in = { .rx = &rx,
			    .payload = payload_of(q->r, c),
			    .payload_len = c->len,
			    .now_ns = q->r->now_ns };

	if (!in.payload) {
		q->r->cnt.drop_malformed++;
		return;
	}
	ur_shm_ud_addresses(c, rx.src, rx.dst);
	in.hdr.op = ur_opcode_get(imm ? UR_UD_SEND_ONLY_IMM : UR_UD_SEND_ONLY);
	in.hdr.bth.solicited = (c->flags & UR_SHM_SOLICITED) != 0;
	in.hdr.qkey = c->ack;
	in.hdr.sqpn = c->from & UR_QPN_MASK;
	in.hdr.imm_be = c->imm_be;
	rx.len = ur_pkt_len(in.hdr.op, c->len);
	ur_rqp_first_packet(q);
	ur_ud_request(q, &in);
	ur_rqp_check_overrun(q);
}

void ur_shm_ud_take(struct ur_roce *r, const struct ur_desc *c)
{
	struct ur_rqp *q = ur_rqp_find(r, c->to & UR_QPN_MASK);

	if (!q)
		r->cnt.drop_no_qp++;
	else if (!ur_rqp_receives(q))
		r->cnt.drop_qp_state++;
	else if (q->qp->type != UR_QPT_UD)
		r->cnt.drop_transport++;
	else
		receive(q, c);
}
