/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: each request is one frame. For checksum or segmentation offload the
 * headers are copied and prepared; everything else is sent from the
 * application's memory.
 */
#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "base/timer.h"
#include "core/rate.h"
#include "core/sge.h"
#include "raw/csum.h"
#include "raw/internal.h"

void ur_raw_complete(struct ur_rawqp *q, enum ur_wc_status status,
		     uint64_t now_ns)
{
	struct ur_qp *qp = q->qp;
	const struct ur_swqe *w = ur_sq_slot(&qp->sq, ur_sq_head(&qp->sq));

	q->r->cnt.req_cqe_error += status != UR_WC_SUCCESS;
	if (!ur_qp_complete(qp, w, status, now_ns)) {
		ur_record_code(qp, UR_REC_EVENT, UR_EVENT_CQ_ERR, 0);
		ur_rawqp_fail(q, UR_EVENT_QP_FATAL, now_ns);
	}
}

/* The request's bytes as pieces of memory; negative as ur_sge_gather(). */
static int payload(const struct ur_raw *r, const struct ur_qp *qp,
		   struct ur_swqe *w, struct iovec *iov)
{
	if (w->flags & UR_SEND_INLINE) {
		iov[0].iov_base = w->data.inline_data;
		iov[0].iov_len = w->length;
		return w->length > 0;
	}
	return ur_sge_gather(r->mrs, qp->pd, w->data.sge, w->num_sge, 0,
			     w->length, iov, UR_MAX_SGE);
}

/* Move the first n bytes of the pieces of *f into its own header. */
static int pull_header(struct ur_frame_tx *f, uint32_t n)
{
	struct iovec *iov = f->iov + 1;
	uint32_t done = 0, i = 0;

	memmove(iov, f->iov, f->niov * sizeof(*iov));
	while (done < n) {
		uint32_t part = n - done < iov[i].iov_len
					? n - done
					: (uint32_t)iov[i].iov_len;

		if (ur_guard_copy(f->hdr + done, iov[i].iov_base, part))
			return -EFAULT;
		done += part;
		iov[i].iov_base = (uint8_t *)iov[i].iov_base + part;
		iov[i].iov_len -= part;
		if (iov[i].iov_len == 0)
			i++;
	}
	f->niov = f->niov - i + 1;
	memmove(f->iov + 1, f->iov + 1 + i, (f->niov - 1) * sizeof(*iov));
	f->iov[0].iov_base = f->hdr;
	f->iov[0].iov_len = n;
	return 0;
}

/* Offset of IP after VLAN tags; 0: the header is too short. */
static uint32_t l3_offset(const uint8_t *hdr, uint32_t len)
{
	uint32_t at = UR_MACS_LEN;

	while (at + 4 <= len && (ur_be16_at(hdr + at) == UR_ETHERTYPE_VLAN ||
				 ur_be16_at(hdr + at) == UR_ETHERTYPE_QINQ))
		at += UR_VLAN_LEN;
	return at + 2 <= len ? at + 2 : 0;
}

/*
 * Fill in the IP checksum, and request offload of the transport's: the device
 * adds the bytes to the pseudo header's sum stored in the field. `rest` bytes
 * of the frame follow the header. False: no IPv4 or IPv6 with TCP or UDP; then
 * there is nothing to do.
 */
static bool offload_sums(struct ur_frame_tx *f, uint32_t hdr_len, uint32_t rest)
{
	struct ur_pkt p;
	const struct ur_hdrs *h = &p.outer;
	uint32_t l4, l4_len;

	if (!ur_pkt_parse(&p, f->hdr, hdr_len, 0, 0) || (!h->ipv4 && !h->ipv6))
		return false;
	if (h->ipv4)
		ur_csum_ipv4(f->hdr + (h->ipv4 - f->hdr));
	if (!h->l4 || !ur_csum_offset(h->proto))
		return false;
	l4 = (uint32_t)(h->l4 - f->hdr);
	l4_len =
		h->ipv4 ? ur_be16_at(h->ipv4 + 2) + (uint32_t)(h->ipv4 - f->hdr)
			: ur_be16_at(h->ipv6 + 4) + UR_IPV6_LEN +
				  (uint32_t)(h->ipv6 - f->hdr);
	/* Padding after the packet would be summed too. */
	if (l4_len != hdr_len + rest)
		return false;
	l4_len -= l4;
	f->csum_partial = true;
	f->csum_start = (uint16_t)l4;
	f->csum_offset = (uint16_t)ur_csum_offset(h->proto);
	ur_put_be16(f->hdr + l4 + f->csum_offset,
		    (uint16_t)~ur_csum_fold(ur_csum_pseudo(h, l4_len)));
	return true;
}

/* Remove the padding after the IP packet. */
static void drop_padding(struct ur_frame_tx *f, uint32_t hdr_len)
{
	uint32_t l3 = l3_offset(f->hdr, hdr_len), end, keep;
	const uint8_t *ip = f->hdr + l3;

	if (!l3 || l3 + 6 > hdr_len)
		return;
	if (ur_be16_at(ip - 2) == UR_ETHERTYPE_IP)
		end = l3 + ur_be16_at(ip + 2);
	else if (ur_be16_at(ip - 2) == UR_ETHERTYPE_IPV6)
		end = l3 + UR_IPV6_LEN + ur_be16_at(ip + 4);
	else
		return;
	if (end < l3 + UR_IPV4_LEN || end >= f->len)
		return;
	f->len = end;
	for (uint32_t i = 0; i < f->niov; i++) {
		keep = end < f->iov[i].iov_len ? end
					       : (uint32_t)f->iov[i].iov_len;
		f->iov[i].iov_len = keep;
		end -= keep;
	}
}

static int with_sums(struct ur_frame_tx *f)
{
	uint32_t n = f->len < UR_FRAME_HDR_MAX ? f->len : UR_FRAME_HDR_MAX;
	int err = pull_header(f, n);

	if (err)
		return err;
	drop_padding(f, n);
	n = (uint32_t)f->iov[0].iov_len;
	(void)offload_sums(f, n, f->len - n);
	return 0;
}

/* Lengths in the header are those of the whole, as the kernel's TCP sets them;
 * segmentation sets those of each packet. */
static bool set_length(uint8_t *hdr, uint32_t hdr_len, uint32_t total)
{
	uint32_t l3 = l3_offset(hdr, hdr_len);

	if (!l3 || l3 + UR_IPV4_LEN > hdr_len)
		return false;
	if (ur_be16_at(hdr + l3 - 2) == UR_ETHERTYPE_IP)
		ur_put_be16(hdr + l3 + 2, (uint16_t)(total - l3));
	else if (ur_be16_at(hdr + l3 - 2) == UR_ETHERTYPE_IPV6)
		ur_put_be16(hdr + l3 + 4, (uint16_t)(total - l3 - UR_IPV6_LEN));
	else
		return false;
	return total - l3 <= 0xffff;
}

/* The header follows the slot's scatter/gather list (ur_swqe_tso_hdr()). */
static int build_tso(const struct ur_qp *qp, struct ur_frame_tx *f,
		     struct ur_swqe *w)
{
	uint32_t hdr_len = w->wr.tso.hdr_len;
	bool ipv4;

	memmove(f->iov + 1, f->iov, f->niov * sizeof(f->iov[0]));
	memcpy(f->hdr, ur_swqe_tso_hdr(&qp->sq, w), hdr_len);
	f->iov[0].iov_base = f->hdr;
	f->iov[0].iov_len = hdr_len;
	f->niov++;
	f->len = hdr_len + w->length;
	if (!set_length(f->hdr, hdr_len, f->len) ||
	    !offload_sums(f, hdr_len, w->length) ||
	    f->csum_offset != ur_csum_offset(UR_IPPROTO_TCP))
		return -EPROTOTYPE;
	ipv4 = ur_be16_at(f->hdr + l3_offset(f->hdr, hdr_len) - 2) ==
	       UR_ETHERTYPE_IP;
	f->hdr_len = (uint16_t)hdr_len;
	if (w->length > w->wr.tso.mss) {
		f->gso = ipv4 ? UR_GSO_TCP4 : UR_GSO_TCP6;
		f->gso_size = w->wr.tso.mss;
	}
	return 0;
}

static int build(const struct ur_raw *r, const struct ur_qp *qp,
		 struct ur_frame_tx *f, struct ur_swqe *w)
{
	int n;

	f->csum_partial = false;
	f->csum_start = 0;
	f->csum_offset = 0;
	f->gso = UR_GSO_NONE;
	f->gso_size = 0;
	f->hdr_len = 0;
	n = payload(r, qp, w, f->iov);
	if (n < 0)
		return n;
	f->niov = (uint32_t)n;
	f->len = w->length;
	if (w->opcode == UR_WR_TSO)
		return build_tso(qp, f, w);
	if (f->len < UR_ETH_LEN || f->len > UR_FRAME_MAX)
		return -EMSGSIZE;
	return w->flags & UR_SEND_IP_CSUM ? with_sums(f) : 0;
}

static enum ur_wc_status status_of(int err)
{
	switch (err) {
	case -EMSGSIZE:
		return UR_WC_LOC_LEN_ERR;
	case -EINVAL:
	case -EPROTOTYPE:
		return UR_WC_LOC_QP_OP_ERR;
	default:
		return UR_WC_LOC_PROT_ERR;
	}
}

static void fail_send(struct ur_rawqp *q, int err, uint64_t now_ns)
{
	ur_raw_complete(q, status_of(err), now_ns);
	if (ur_rawqp_state(q->qp) == UR_QPS_RTS)
		ur_rawqp_stop(q, now_ns);
}

uint64_t ur_raw_deadline(const struct ur_raw *r)
{
	uint64_t at = UR_NEVER;

	ur_list_each(const struct ur_rawqp, q, &r->paced, sending)
		at = q->rate_at_ns < at ? q->rate_at_ns : at;
	return at;
}

static void end_pauses(struct ur_raw *r, uint64_t now_ns)
{
	ur_list_each_safe(struct ur_rawqp, q, &r->paced, sending) {
		if (q->rate_at_ns > now_ns)
			continue;
		ur_list_del(&q->sending);
		ur_list_add_tail(&r->senders, &q->sending);
	}
}

struct ur_qp *ur_raw_next(struct ur_raw *r, uint64_t now_ns)
{
	end_pauses(r, now_ns);
	if (ur_list_empty(&r->senders))
		return NULL;
	return ur_container_of(r->senders.next, struct ur_rawqp, sending)->qp;
}

/* With a rate limit, one frame at a time: the next one may have to wait. */
static uint32_t may_send(struct ur_rawqp *q, uint32_t max, uint64_t now_ns)
{
	if (!q->qp->attr.rate_limit)
		return max;
	if (q->rate_at_ns <= now_ns)
		return 1;
	ur_list_del(&q->sending);
	ur_list_add_tail(&q->r->paced, &q->sending);
	return 0;
}

uint32_t ur_raw_collect(struct ur_raw *r, struct ur_qp *qp,
			struct ur_frame_tx *out, uint32_t max, uint64_t now_ns)
{
	struct ur_rawqp *q = ur_rawqp(qp);
	uint32_t head = ur_sq_head(&qp->sq);
	uint32_t tail = ur_sq_tail(&qp->sq);
	uint32_t n = 0;

	max = may_send(q, max, now_ns);
	if (max == 0)
		return 0;
	while (n < max && head + n != tail &&
	       ur_rawqp_state(qp) == UR_QPS_RTS) {
		int err = build(r, qp, &out[n], ur_sq_slot(&qp->sq, head + n));

		if (!err) {
			n++;
			continue;
		}
		/* Earlier frames leave first; this one is tried again. */
		if (n == 0)
			fail_send(q, err, now_ns);
		break;
	}
	if (n == 0)
		ur_list_del(&q->sending);
	q->collected = n;
	return n;
}

void ur_raw_sent(struct ur_raw *r, struct ur_qp *qp, uint32_t n, int err,
		 uint64_t now_ns)
{
	struct ur_rawqp *q = ur_rawqp(qp);

	for (uint32_t i = 0; i < n && ur_rawqp_state(qp) == UR_QPS_RTS; i++) {
		const struct ur_swqe *w =
			ur_sq_slot(&qp->sq, ur_sq_head(&qp->sq));

		r->cnt.sent_pkts++;
		r->cnt.sent_bytes += w->length;
		r->cnt.sent_tso += w->opcode == UR_WR_TSO;
		if (qp->attr.rate_limit)
			q->rate_at_ns = ur_rate_after(&qp->attr, q->rate_at_ns,
						      w->length, now_ns);
		ur_raw_complete(q, UR_WC_SUCCESS, now_ns);
	}
	if (err && n < q->collected && ur_rawqp_state(qp) == UR_QPS_RTS) {
		if (err == -EMSGSIZE || err == -EFAULT || err == -EINVAL) {
			fail_send(q, err, now_ns);
		} else {
			r->cnt.tx_lost++;
			ur_raw_complete(q, UR_WC_SUCCESS, now_ns);
		}
	}
	q->collected = 0;
	/* Round-robin: the next one's turn. */
	if (!ur_list_empty(&q->sending)) {
		ur_list_del(&q->sending);
		ur_raw_kick(r, qp, now_ns);
	}
}
