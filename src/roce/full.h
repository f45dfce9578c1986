/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that fill the interface's MTU instead of the path MTU, the next power
 * of two below (docs/wire/roce.md, "Full packets"), between two urnics on RC.
 *
 * A message keeps the payload per packet that it began with (ur_swqe.mtu, and
 * ur_resource.mtu for READ responses): the path MTU, or the agreed size.  So both
 * sizes may be in flight together.
 */
#ifndef UR_ROCE_FULL_H
#define UR_ROCE_FULL_H

#include "roce/internal.h"

/* The payload per packet in frames of 9,216 bytes on IPv4, the largest of common
 * interfaces except loopback (65,536), where larger packets changed the bandwidth
 * by less than the noise. */
#define UR_FULL_MAX 9152u

/* The path was replaced: there is no agreement, and no probe was sent.  The peer
 * may still send packets of the size agreed before. */
void ur_full_restart(struct ur_rqp *q);

/* May a message that begins now have full packets? */
bool ur_full_is_agreed(const struct ur_rqp *q);

/* The payload per packet of w, which has no PSNs yet. */
static inline uint16_t ur_full_size(const struct ur_rqp *q,
				    const struct ur_swqe *w)
{
	return w->length > q->mtu && ur_full_is_agreed(q) ? q->full.size
							  : (uint16_t)q->mtu;
}

static inline bool ur_swqe_is_full(const struct ur_rqp *q,
				   const struct ur_swqe *w)
{
	return w->even || w->mtu > q->mtu;
}

/*
 * The packets of a full SEND or WRITE have one length, if they can: a burst then
 * holds packets of several messages, while a shorter one can only be its last.
 * Headers behind the BTH count as payload, and up to three bytes of pad even out
 * the rest: packets have w->mtu bytes, the last ones may have one more.  _divide:
 * the number of packets of w, which would be n of w->mtu; sets w->even, and then
 * w->mtu.  _offset: where the payload of packet i of n begins.
 */
uint32_t ur_full_split(struct ur_swqe *w, uint32_t n, uint32_t path_mtu);
static inline uint32_t ur_full_divide(struct ur_swqe *w, uint32_t n,
				      uint32_t path_mtu)
{
	w->even = false;
	return n > 1 && w->mtu > path_mtu ? ur_full_split(w, n, path_mtu) : n;
}
uint32_t ur_full_carried(const struct ur_swqe *w);
static inline uint32_t ur_full_offset(const struct ur_swqe *w, uint32_t i,
				      uint32_t n)
{
	uint32_t off = i * w->mtu, shorter;

	if (!w->even || i == 0)
		return off;
	shorter = n - (ur_full_carried(w) - n * w->mtu);
	return off + (i > shorter ? i - shorter : 0) -
	       (ur_swqe_is_write(w) ? UR_RETH_LEN : 0);
}

/* The smallest payload of a full packet that is not the last of its message. */
static inline uint32_t ur_full_least(uint32_t path_mtu)
{
	return path_mtu / 2;
}

/* The largest payload that is accepted in a full packet. */
static inline uint32_t ur_full_most(const struct ur_rqp *q)
{
	return q->full.most ? q->full.most : q->mtu;
}

/* Requester: may a probe be sent now?  _wants: before a packet of w. */
bool ur_full_may_probe(const struct ur_rqp *q, uint64_t now_ns);
static inline bool ur_full_wants_probe(const struct ur_rqp *q,
				       const struct ur_swqe *w, uint64_t now_ns)
{
	return w->length > q->mtu && ur_full_may_probe(q, now_ns);
}
enum ur_emit ur_full_emit_probe(struct ur_rqp *q, struct ur_burst *t,
				uint64_t now_ns);

/* An inbound probe, answer or end. */
static inline bool ur_full_is_probe(const struct ur_hdr *h)
{
	return h->op->kind == UR_OP_ACK && h->bth.full;
}
void ur_full_received(struct ur_rqp *q, const struct ur_in *in);

/* Responder: a new READ request with that PSN asks for full responses. */
void ur_full_read(struct ur_rqp *q, uint32_t psn);

/* Responder: is an answer or end to be sent?  _emit_due: sends them. */
static inline bool ur_full_is_due(const struct ur_rqp *q)
{
	return q->full.answer_due || q->full.end_due;
}
enum ur_emit ur_full_emit_due(struct ur_rqp *q, struct ur_burst *t);

#endif
