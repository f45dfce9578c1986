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
	return w->mtu > q->mtu;
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
