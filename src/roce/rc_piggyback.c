/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An acknowledgement in the packet of a request in the other direction
 * (docs/wire/roce.md). In a ping-pong each burst then is one packet, which
 * saves the kernel about an eighth of its time.
 *
 * Support is detected without a handshake: every packet of a urnic has a
 * reserved bit of the BTH set, which is zero from others and ignored by them.
 * After a packet without it we clear it as well.
 */
#include "roce/full.h"
#include "roce/masked.h"
#include "roce/selective.h"

void ur_rc_peer_detect(struct ur_rqp *q, const struct ur_in *in)
{
	/* A peer that has not seen our bit clears its own, too. */
	if (q->peer == UR_PEER_UNKNOWN || !in->hdr.bth.urnic) {
		q->peer = in->hdr.bth.urnic ? UR_PEER_URNIC : UR_PEER_OTHER;
		q->peer_masked = in->hdr.bth.masked;
	}
	if (q->req.asked)
		ur_masked_peer_known(q, in->now_ns);
}

/* No packet follows that would not fit into the burst after a longer one. */
static bool is_last_to_send(const struct ur_rqp *q)
{
	uint32_t tail = ur_sq_tail(&q->qp->sq);

	return q->req.cur + 1 == tail && ur_path_is_exclusive(q->path);
}

void ur_rc_piggyback_attach(const struct ur_rqp *q, const struct ur_burst *t,
			    uint32_t payload_len, struct ur_hdr *h)
{
	const struct ur_opcode *op = ur_opcode_get(h->bth.opcode);
	const struct ur_responder *p = &q->rsp;
	uint32_t len = ur_pkt_len(op, payload_len) + UR_PIGGYBACK_LEN;

	/* Responses to READs and atomics precede it. So does a CNP, which leaves
	 * with an acknowledgement. */
	if (q->peer != UR_PEER_URNIC || p->res_todo || ur_keeper_is_busy(p) ||
	    ur_full_is_due(q) || p->cnp_due ||
	    UR_AETH_CLASS(p->ack_syndrome) != UR_AETH_ACK ||
	    !ur_op_may_piggyback(op) ||
	    payload_len + UR_PIGGYBACK_LEN > q->mtu || !is_last_to_send(q) ||
	    ur_burst_fits(t, len) != UR_FIT_OK)
		return;
	h->bth.has_ack = true;
	h->syndrome = p->ack_syndrome;
	h->msn = p->msn;
	h->ack_psn = p->ack_psn;
}

void ur_rc_piggyback_sent(struct ur_rqp *q)
{
	q->rsp.ack_due = false;
	ur_list_del(&q->acking);
	q->r->cnt.acks_sent++;
	q->r->cnt.acks_carried++;
}

void ur_rc_piggyback_received(struct ur_rqp *q, const struct ur_in *in)
{
	if (UR_AETH_CLASS(in->hdr.syndrome) == UR_AETH_ACK)
		ur_rc_acked(q, in->hdr.ack_psn, in->now_ns);
}
