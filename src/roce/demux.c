/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a received packet to its QP (IBTA 9.6.1): decode, find the QP, verify
 * that the packet belongs to it, and the ICRC. Invalid packets are dropped and
 * counted; no state changes before the ICRC was verified.
 *
 * Checks come in the order of their cost, since any host on the network can send
 * packets to a QP: number, state and type, partition, peer address and Q_Key
 * are in the header and compared first; the ICRC reads all bytes; receives and
 * memory, some behind locks, come last.
 */
#include "base/bytes.h"
#include "base/remote.h"
#include "roce/dc.h"
#include "roce/ecn.h"
#include "roce/full.h"

/*
 * The packet's destination address. If the link does not provide it, a
 * connected QP uses its own address: a different one would make the ICRC, which
 * covers it, fail.
 */
static const uint8_t *destination(const struct ur_rqp *q,
				  const struct ur_rx *rx)
{
	if (!rx->dst_unknown)
		return rx->dst;
	return q && q->path ? q->path->key.src : NULL;
}

bool ur_roce_destination(const struct ur_roce *r, const struct ur_rx *rx,
			 uint8_t dst[16])
{
	const struct ur_rqp *q =
		rx->len >= UR_BTH_LEN ? ur_rqp_find(r, ur_be24_at(rx->data + 5))
				      : NULL;
	const uint8_t *at = destination(q, rx);

	if (at)
		memcpy(dst, at, 16);
	return at != NULL;
}

static bool is_flow(const struct ur_rx_flow *f, const struct ur_rx *rx,
		    const uint8_t dst[16])
{
	return f->valid && f->flow.sport == rx->sport &&
	       !memcmp(f->flow.src, rx->src, 16) &&
	       !memcmp(f->flow.dst, dst, 16);
}

static struct ur_rx_flow *flow_of(struct ur_roce *r, const struct ur_rx *rx,
				  const uint8_t dst[16])
{
	struct ur_rx_flow *f = &r->flows[r->flow_last];
	uint32_t h = rx->sport;

	/* The packets of a burst are of one flow. */
	if (is_flow(f, rx, dst))
		return f;
	for (int i = 12; i < 16; i++)
		h = h * 31 + rx->src[i];
	r->flow_last = (h ^ h >> 7) % UR_RX_FLOWS;
	f = &r->flows[r->flow_last];
	if (is_flow(f, rx, dst))
		return f;
	*f = (struct ur_rx_flow){ .valid = true };
	memcpy(f->flow.src, rx->src, 16);
	memcpy(f->flow.dst, dst, 16);
	f->flow.sport = rx->sport;
	f->flow.dport = UR_ROCE_PORT;
	return f;
}

/* Packets of a flow have two common lengths: full packets, and the rest. */
static bool icrc_ok(struct ur_roce *r, const struct ur_rx *rx,
		    const uint8_t dst[16])
{
	struct ur_rx_flow *f;
	uint32_t i;

	if (rx->icrc_checked)
		return true;
	f = flow_of(r, rx, dst);
	i = f->len[0] == rx->len ? 0 : 1;
	if (i == 1 && f->len[1] != rx->len) {
		i = f->len[0] ? 1 : 0;
		f->len[i] = rx->len;
		f->prefix[i] = ur_icrc_prefix(&f->flow, rx->len);
	}
	return ur_icrc_check(&f->flow, f->prefix[i], &f->cache[i], rx->data,
			     rx->len, rx->index, NULL);
}

/*
 * As above, also trying the alternate path's address: then *dst becomes that.
 */
static bool intact(struct ur_roce *r, const struct ur_rqp *q,
		   const struct ur_rx *rx, const uint8_t **dst)
{
	if (icrc_ok(r, rx, *dst))
		return true;
	if (!rx->dst_unknown || !q || !q->alt)
		return false;
	*dst = q->alt->key.src;
	return icrc_ok(r, rx, *dst);
}

static bool pkey_ok(uint16_t pkey)
{
	/* Our P_Key is the full member 0xffff, which accepts any member of the
	 * partition. */
	return (pkey & 0x7fffu) == 0x7fffu;
}

enum ur_transport ur_transport_of(const struct ur_qp *qp)
{
	switch (qp->type) {
	case UR_QPT_RC:
		return UR_TP_RC;
	case UR_QPT_UC:
		return UR_TP_UC;
	case UR_QPT_UD:
	case UR_QPT_RAW_PACKET: /* unreachable */
		break;
	case UR_QPT_XRC_SEND:
	case UR_QPT_XRC_RECV:
		return UR_TP_XRC;
	case UR_QPT_DC_INI:
	case UR_QPT_DC_TGT:
		return UR_TP_DC;
	}
	return UR_TP_UD;
}

/* One of the QP's paths leads to the packet's source. For an armed QP, a
 * migration request from elsewhere is reported (ur_mig_admit()). */
static bool from_peer(const struct ur_rqp *q, const struct ur_in *in)
{
	const uint8_t *src = in->rx->src;

	if (q->path && !memcmp(src, q->path->key.dst, 16))
		return true;
	if (q->alt && !memcmp(src, q->alt->key.dst, 16))
		return true;
	return q->qp->attr.path_mig_state == UR_MIG_ARMED && in->hdr.bth.migreq;
}

/* A CNP is of no transport. */
static bool fits_transport(const struct ur_qp *qp, const struct ur_opcode *op)
{
	if (op->kind == UR_OP_CNP)
		return ur_ecn_uses_ect(qp->type);
	return op->transport == ur_transport_of(qp);
}

/* IBTA 9.6.1.2 to 9.6.1.5, as far as the header allows. */
static bool belongs(struct ur_roce *r, const struct ur_rqp *q,
		    const struct ur_in *in)
{
	const struct ur_opcode *op = in->hdr.op;

	if (!ur_rqp_receives(q)) {
		r->cnt.drop_qp_state++;
		ur_record_drop(q->qp, UR_REC_R_STATE, ur_rqp_state(q), 0);
		return false;
	}
	if (!fits_transport(q->qp, op)) {
		r->cnt.drop_transport++;
		ur_record_drop(q->qp, UR_REC_R_TRANSPORT, op->transport, 0);
		return false;
	}
	if (!pkey_ok(in->hdr.bth.pkey)) {
		r->cnt.drop_pkey++;
		ur_record_drop(q->qp, UR_REC_R_PKEY, in->hdr.bth.pkey, 0xffff);
		return false;
	}
	if (op->transport == UR_TP_UD) {
		if (in->hdr.qkey == q->qp->attr.qkey)
			return true;
		r->cnt.drop_qkey++;
		ur_record_drop(q->qp, UR_REC_R_QKEY, in->hdr.qkey,
			       q->qp->attr.qkey);
		return false;
	}
	if (q->qp->type == UR_QPT_DC_TGT)
		return ur_dct_accepts(q, in);
	/* A connected QP accepts packets of its peer only (9.6.1.4.1). */
	if (from_peer(q, in))
		return true;
	r->cnt.drop_peer++;
	ur_record_drop(q->qp, UR_REC_R_PEER, ur_be32_at(in->rx->src + 12), 0);
	return false;
}

/* Path checks, which may migrate the QP, so the ICRC is verified first. */
static bool admit(struct ur_roce *r, struct ur_rqp *q, const struct ur_in *in,
		  const uint8_t dst[16])
{
	if (in->hdr.op->transport == UR_TP_UD || q->qp->type == UR_QPT_DC_TGT ||
	    ur_mig_admit(q, in, dst))
		return true;
	r->cnt.drop_peer++;
	return false;
}

static bool is_response(const struct ur_opcode *op)
{
	return op->kind == UR_OP_ACK || op->kind == UR_OP_ATOMIC_ACK ||
	       op->kind == UR_OP_READ_RESPONSE;
}

void ur_rqp_first_packet(struct ur_rqp *q)
{
	if (ur_rqp_state(q) != UR_QPS_RTR || q->rsp.comm_est ||
	    q->qp->type == UR_QPT_DC_TGT)
		return;
	q->rsp.comm_est = true;
	ur_qp_event(q->qp, UR_EVENT_COMM_EST);
	if (q->r->comm_est)
		q->r->comm_est(q->qp->qpn);
	/* From now on the local peer may access memory directly. */
	ur_shm_export_qp(q);
}

static void dispatch(struct ur_rqp *q, struct ur_in *in)
{
	if (ur_ecn_is_marked(in->rx) && q->qp->type != UR_QPT_UD)
		ur_ecn_received(q, in);
	ur_rqp_first_packet(q);
	switch (q->qp->type) {
	case UR_QPT_RC:
		ur_rc_peer_detect(q, in);
		if (ur_full_is_probe(&in->hdr))
			ur_full_received(q, in);
		else if (is_response(in->hdr.op))
			ur_rc_response(q, in);
		else
			ur_rc_request(q, in);
		break;
	case UR_QPT_DC_INI:
		if (is_response(in->hdr.op))
			ur_dci_response(q, in);
		else
			q->r->cnt.drop_transport++;
		break;
	case UR_QPT_XRC_SEND:
		if (is_response(in->hdr.op))
			ur_rc_response(q, in);
		else
			q->r->cnt.drop_transport++;
		break;
	case UR_QPT_XRC_RECV:
		if (is_response(in->hdr.op))
			q->r->cnt.drop_transport++;
		else if (q->delegation)
			ur_delegation_request(q, in);
		else
			ur_rc_request(q, in);
		break;
	case UR_QPT_DC_TGT:
		ur_dct_request(q, in);
		break;
	case UR_QPT_UC:
		ur_uc_request(q, in);
		break;
	case UR_QPT_UD:
		ur_ud_request(q, in);
		break;
	case UR_QPT_RAW_PACKET: /* unreachable */
		break;
	}
	ur_rqp_check_overrun(q);
}

/* NULL: no such QP, or a packet for another slot that GRO merged into ours. */
static struct ur_rqp *find(struct ur_roce *r, uint32_t dqpn)
{
	bool ours = dqpn >> UR_SLOT_SHIFT == r->slot;
	struct ur_rqp *q = ours ? r->qps[dqpn & UR_QP_INDEX_MASK] : NULL;

	r->cnt.drop_foreign += !ours;
	r->cnt.drop_no_qp += ours && !q;
	return q;
}

/* Between two urnics, to the full member of the partition, without pad,
 * migration request, piggybacked acknowledgement or repetition (wire/bth.c). */
static bool is_plain_bth(const uint8_t *p)
{
	return (p[1] & 0x3f) == 0 && p[2] == 0xff && p[3] == 0xff &&
	       (p[8] & 0x38) == 0x10;
}

/* A connected queue pair without special state. */
static bool is_settled(const struct ur_rqp *q, const struct ur_rx *rx,
		       const uint8_t dst[16])
{
	enum ur_qp_state state = ur_rqp_state(q);

	return q->qp->type == UR_QPT_RC &&
	       (state == UR_QPS_RTS ||
		(state == UR_QPS_RTR && q->rsp.comm_est)) &&
	       q->peer == UR_PEER_URNIC &&
	       q->qp->attr.path_mig_state == UR_MIG_MIGRATED &&
	       !memcmp(rx->src, q->path->key.dst, 16) &&
	       !memcmp(dst, q->path->key.src, 16);
}

/*
 * Fast path: in-order SENDs and WRITEs of one small packet, to a queue pair in
 * its normal state. False: the packet does not qualify, and nothing was done;
 * the functions above handle all cases, and give the same result for such a
 * packet.
 */
static bool input_plain(struct ur_roce *r, const struct ur_rx *rx)
{
	const uint8_t *p = rx->data;
	struct ur_plain in;
	struct ur_rqp *q;
	const uint8_t *dst;
	uint32_t dqpn;

	if (!ur_plain_parse(&in, rx) || !is_plain_bth(p) ||
	    !ur_remote_is_none())
		return false;
	dqpn = ur_be24_at(p + 5);
	if (dqpn >> UR_SLOT_SHIFT != r->slot)
		return false;
	q = r->qps[dqpn & UR_QP_INDEX_MASK];
	if (!q || !q->path)
		return false;
	dst = destination(q, rx);
	return is_settled(q, rx, dst) && ur_rc_awaits_plain(q, &in) &&
	       icrc_ok(r, rx, dst) && ur_rc_request_plain(q, &in);
}

/*
 * Packets of a burst after the first skip the checks that they share with it.
 */
bool ur_roce_input(struct ur_roce *r, const struct ur_rx *rx, uint64_t now_ns)
{
	struct ur_in in;
	struct ur_rqp *q = NULL;
	const uint8_t *dst;

	r->now_ns = now_ns;
	r->cnt.rcvd_pkts++;
	r->cnt.rcvd_bytes += rx->len;
	if (rx->index && !ur_ecn_is_marked(rx) && input_plain(r, rx))
		return true;
	in = (struct ur_in){ .rx = rx, .now_ns = now_ns };
	if (ur_hdr_decode(&in.hdr, rx->data, rx->len, &in.payload,
			  &in.payload_len) ||
	    in.hdr.bth.tver != 0) {
		r->cnt.drop_malformed++;
		return false;
	}
	if (in.hdr.bth.dqpn != UR_QPN_MULTICAST) {
		q = find(r, in.hdr.bth.dqpn);
		if (!q) {
			if (r->timewait)
				ur_timewait_input(r, rx, in.hdr.bth.dqpn);
			return false;
		}
	} else if (in.hdr.op->transport != UR_TP_UD ||
		   !pkey_ok(in.hdr.bth.pkey)) {
		r->cnt.drop_transport++;
		return false;
	}
	if (q && !belongs(r, q, &in))
		return false;
	dst = destination(q, rx);
	if (!dst) {
		r->cnt.drop_peer++;
		return false;
	}
	if (!intact(r, q, rx, &dst)) {
		r->cnt.drop_icrc++;
		return false;
	}
	if (q && in.hdr.op->kind == UR_OP_CNP)
		return ur_ecn_notified(q, &in, dst);
	if (!q)
		ur_mcast_deliver(r, &in);
	else if (admit(r, q, &in, dst))
		dispatch(q, &in);
	else
		return false;
	return true;
}
