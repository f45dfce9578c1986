/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable datagram (IBTA 9.8.3): each request has its own destination, each
 * message is one packet, the receiver gets a 40-byte GRH before it. With RoCEv2
 * over IPv4 the last 20 bytes of that area are the IPv4 header (IBTA A17.4.5),
 * from which ibv_create_ah_from_wc() makes the reply's address.
 */
#include "base/addr.h"
#include "roce/congestion.h"
#include "roce/internal.h"

static struct ur_swqe *next_request(struct ur_rqp *q)
{
	struct ur_sq *sq = &q->qp->sq;

	if (q->req.cur == ur_sq_tail(sq))
		return NULL;
	return ur_sq_slot(sq, q->req.cur);
}

/* Set q->path to that of the next request (NULL: none). */
void ur_ud_route(struct ur_rqp *q)
{
	struct ur_swqe *w = next_request(q);
	struct ur_path *old = q->path;

	q->path = w ? ur_path_get(q->r, &w->wr.ud.av, w->wr.ud.dqpn, false)
		    : NULL;
	if (old)
		ur_path_put(q->r, old);
}

void ur_ud_complete(struct ur_rqp *q, struct ur_swqe *w,
		    enum ur_wc_status status)
{
	q->req.cur++;
	q->req.fresh = q->req.cur;
	ur_req_complete(q, w, status);
	if (status != UR_WC_SUCCESS) {
		/* IBTA 10.3.1: a UD send error stops only the send queue. */
		ur_qp_set_state(q->qp, UR_QPS_SQE);
		ur_rqp_flush(q);
	}
	ur_rc_check_drained(q);
}

static void ud_header(const struct ur_rqp *q, const struct ur_swqe *w,
		      struct ur_hdr *h)
{
	bool imm = w->opcode == UR_WR_SEND_IMM;
	uint32_t qkey = w->wr.ud.qkey;

	*h = (struct ur_hdr){
		.bth = { .opcode = imm ? UR_UD_SEND_ONLY_IMM : UR_UD_SEND_ONLY,
			 .solicited = (w->flags & UR_SEND_SOLICITED) != 0,
			 .migreq = true,
			 .pkey = 0xffff,
			 .dqpn = w->wr.ud.dqpn,
			 .psn = q->req.psn },
		/* IBTA 10.2.5: the high bit asks for the QP's own Q_Key. */
		.qkey = qkey & 0x80000000u ? q->qp->attr.qkey : qkey,
		.sqpn = q->qp->source_qpn ? q->qp->source_qpn : q->qp->qpn,
		.imm_be = w->imm_be,
	};
}

static enum ur_emit emit_one(struct ur_rqp *q, struct ur_swqe *w,
			     struct ur_burst *t, uint64_t now_ns)
{
	struct ur_hdr h;
	uint32_t pkt_len;

	if (!ur_ud_fits(w)) {
		ur_ud_complete(q, w, UR_WC_LOC_LEN_ERR);
		return UR_EMIT_OK;
	}
	ud_header(q, w, &h);
	pkt_len = ur_pkt_len(ur_opcode_get(h.bth.opcode), w->length);
	if (ur_burst_fits(t, pkt_len) != UR_FIT_OK)
		return UR_EMIT_FULL;
	if (!ur_rate_allows(q, now_ns) ||
	    !ur_cong_pace(q, w->length + UR_PKT_OVERHEAD, now_ns))
		return UR_EMIT_DEFER;
	/*
	 * Copied: the request completes now, and another thread may reuse its
	 * memory before the link has sent the burst.
	 */
	if (ur_req_add_packet(q, t, q->path, w, &h, 0, w->length, false)) {
		ur_ud_complete(q, w, UR_WC_LOC_PROT_ERR);
		return UR_EMIT_OK;
	}
	ur_rate_spend(q, pkt_len, now_ns);
	q->req.psn = ur_psn_add(q->req.psn, 1);
	q->req.una = q->req.psn;
	q->req.end = q->req.psn;
	if (w->wr.ud.av.is_local)
		ur_shm_ud_wired(q, w->wr.ud.dqpn);
	ur_ud_complete(q, w, UR_WC_SUCCESS);
	return UR_EMIT_OK;
}

/* Requests for this burst's path; other paths are scheduled on their own. */
enum ur_emit ur_ud_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns)
{
	const struct ur_path *p = q->path;

	if (ur_shm_unreliable_takes(q))
		return UR_EMIT_IDLE;
	if (q->path != p)
		return q->path ? UR_EMIT_FULL : UR_EMIT_IDLE;
	for (;;) {
		struct ur_swqe *w = next_request(q);
		enum ur_emit e;

		if (!w || ur_rqp_state(q) != UR_QPS_RTS)
			return UR_EMIT_IDLE;
		e = emit_one(q, w, t, now_ns);
		if (e != UR_EMIT_OK)
			return e;
		ur_ud_route(q);
		if (q->path != p)
			return q->path ? UR_EMIT_FULL : UR_EMIT_IDLE;
		/* After this burst has left. */
		if (ur_shm_unreliable_may(q))
			return UR_EMIT_FULL;
	}
}

static void ipv4_header(uint8_t *p, const struct ur_rx *rx)
{
	uint32_t sum = 0;
	uint16_t total = (uint16_t)(20u + 8u + rx->len);

	memset(p, 0, 20);
	p[0] = 0x45;
	p[1] = rx->tclass;
	p[2] = (uint8_t)(total >> 8);
	p[3] = (uint8_t)total;
	p[6] = 0x40; /* DF */
	p[8] = rx->hop_limit;
	p[9] = 17;
	memcpy(p + 12, rx->src + 12, 4);
	memcpy(p + 16, rx->dst + 12, 4);
	for (uint32_t i = 0; i < 20; i += 2)
		sum += (uint32_t)(p[i] << 8) | p[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	p[10] = (uint8_t)(sum >> 8);
	p[11] = (uint8_t)sum;
}

static void make_grh(uint8_t grh[UR_GRH_LEN], const struct ur_rx *rx)
{
	uint16_t len = (uint16_t)(8u + rx->len);

	memset(grh, 0, UR_GRH_LEN);
	if (ur_addr_is_v4(rx->dst)) {
		ipv4_header(grh + 20, rx);
		return;
	}
	grh[0] = (uint8_t)(0x60 | rx->tclass >> 4);
	grh[1] = (uint8_t)(rx->tclass << 4);
	grh[4] = (uint8_t)(len >> 8);
	grh[5] = (uint8_t)len;
	grh[6] = 17;
	grh[7] = rx->hop_limit;
	memcpy(grh + 8, rx->src, 16);
	memcpy(grh + 24, rx->dst, 16);
}

void ur_ud_request(struct ur_rqp *q, struct ur_in *in)
{
	uint8_t grh[UR_GRH_LEN];
	uint32_t len = (uint32_t)in->payload_len;

	if (in->hdr.qkey != q->qp->attr.qkey) {
		q->r->cnt.drop_qkey++;
		ur_record_drop(q->qp, UR_REC_R_QKEY, in->hdr.qkey,
			       q->qp->attr.qkey);
		return;
	}
	if (!ur_recv_take(q)) {
		q->r->cnt.drop_no_recv++;
		ur_record_drop(q->qp, UR_REC_R_NO_RECV, in->hdr.sqpn, 0);
		return;
	}
	/* IBTA 9.8.3.2.2: a message that does not fit is dropped, the receive
	 * stays. */
	if (len + UR_GRH_LEN > q->rsp.rwqe->length) {
		q->r->cnt.drop_length++;
		ur_record_drop(q->qp, UR_REC_R_UD_LENGTH, len + UR_GRH_LEN,
			       q->rsp.rwqe->length);
		return;
	}
	make_grh(grh, in->rx);
	if (ur_recv_place(q, 0, grh, UR_GRH_LEN) ||
	    ur_recv_place(q, UR_GRH_LEN, in->payload, len)) {
		ur_recv_fail(q, UR_WC_LOC_PROT_ERR);
		ur_rqp_fail(q, -1);
		return;
	}
	q->r->cnt.rx_send_requests++;
	ur_recv_complete(q, in, UR_WC_RECV, len + UR_GRH_LEN);
}
