/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA (RFC 5044), receiving.
 *
 * Bytes are read into one buffer per stream. Once an FPDU is complete there it
 * is checked and its payload copied to its destination. For a large one only
 * the DDP header has to be there: the rest of its payload is then read directly
 * to its destination, except for the last bytes, which are stored after the CRC
 * was checked. So a program that polls on the end of a message sees it last and
 * only if it is valid.
 *
 * With markers (which we do not request by default) everything goes through the
 * buffer, where they are removed. The CRC covers them.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/guard.h"
#include "iwarp/internal.h"

/* Bytes read after a large FPDU: enough to locate the next payload. */
#define READ_AHEAD	 (UR_FPDU_LEN_LEN + UR_DDP_HDR_MAX)
/* Plus this fraction: a short FPDU at the end of the message then comes with
 * the same read; of a large one no more has to be copied. */
#define READ_AHEAD_SHARE 32u

static uint32_t have(const struct ur_iw_rx *rx)
{
	return rx->tail - rx->head;
}

static uint32_t direct_end(const struct ur_iw_rx *rx)
{
	return rx->in.len - UR_IW_DIRECT_HOLD;
}

static void discard(struct ur_iw_rx *rx)
{
	rx->head = 0;
	rx->tail = 0;
	rx->given = 0;
	rx->direct = false;
	rx->waits_for_recv = false;
}

/* MPA transmits the CRC in the byte order of its computation. */
static bool crc_is(const uint8_t *p, uint32_t crc)
{
	return p[0] == (uint8_t)crc && p[1] == (uint8_t)(crc >> 8) &&
	       p[2] == (uint8_t)(crc >> 16) && p[3] == (uint8_t)(crc >> 24);
}

/* RFC 5044, 7.1: from now on the responder may send, and the initiator knows
 * that its stream is read. */
static void got_first_fpdu(struct ur_iwqp *q)
{
	if (q->rx.first_fpdu_seen)
		return;
	q->rx.first_fpdu_seen = true;
	if (!q->tx.hold && !q->tx.rtr_repeats)
		return;
	q->tx.hold = false;
	q->tx.rtr_repeats = 0;
	ur_timer_cancel(&q->w->timers, &q->timer);
	ur_iw_schedule(q);
}

/* A complete segment with a valid CRC. */
static void segment(struct ur_iwqp *q, const uint8_t *seg, uint32_t len)
{
	struct ur_iw_in in = { .seg = seg, .seg_len = len };
	enum ur_iw_fault f;
	uint32_t hdr;

	q->w->cnt.rcvd_fpdus++;
	q->rx.last_direct = false;
	/* RFC 6581, 4.2: an empty FPDU may only be the RTR. */
	if (len == 0 && !q->rx.first_fpdu_seen &&
	    q->params.rtr == UR_IW_RTR_FPDU && !q->params.initiator) {
		got_first_fpdu(q);
		return;
	}
	if (!ur_ddp_decode(&in.h, seg, len)) {
		ur_iw_fault(q, UR_IWF_FRAME, NULL);
		return;
	}
	hdr = ur_ddp_hdr_len(in.h.tagged);
	in.len = len - hdr;
	in.payload = seg + hdr;
	f = ur_ddp_admit(q, &in);
	if (f == UR_IWF_NONE && ur_ddp_places(&in))
		f = ur_ddp_place(q, &in, 0, in.payload, in.len);
	if (f == UR_IWF_NONE)
		f = ur_rdmap_deliver(q, &in);
	got_first_fpdu(q);
	if (f != UR_IWF_NONE)
		ur_iw_fault(q, f, &in);
}

static void crc_add(struct ur_iwqp *q, const void *p, uint32_t len)
{
	if (q->params.crc)
		q->rx.crc = ur_crc32c(q->rx.crc, p, len);
}

/* n payload bytes of the direct segment that are in the buffer. */
static bool place_buffered(struct ur_iwqp *q, uint32_t n)
{
	struct ur_iw_rx *rx = &q->rx;
	const uint8_t *p = rx->buf + rx->head;
	enum ur_iw_fault f = ur_ddp_place(q, &rx->in, rx->placed, p, n);

	crc_add(q, p, n);
	rx->placed += n;
	rx->head += n;
	rx->pos += n;
	if (f != UR_IWF_NONE)
		ur_iw_fault(q, f, &rx->in);
	return f == UR_IWF_NONE;
}

/* The header of a large segment is complete: start to place its payload. */
static bool direct_begin(struct ur_iwqp *q, const struct ur_iw_in *in,
			 uint32_t ulpdu_len)
{
	struct ur_iw_rx *rx = &q->rx;
	uint32_t hdr = ur_ddp_hdr_len(in->h.tagged);
	uint32_t n;

	rx->direct = true;
	rx->placed = 0;
	rx->crc = 0;
	rx->ulpdu_len = ulpdu_len;
	rx->in = *in;
	memcpy(rx->direct_seg, in->seg, hdr);
	rx->in.seg = rx->direct_seg;
	crc_add(q, rx->buf + rx->head, UR_FPDU_LEN_LEN + hdr);
	rx->head += UR_FPDU_LEN_LEN + hdr;
	rx->pos += UR_FPDU_LEN_LEN + hdr;
	n = have(rx) < direct_end(rx) ? have(rx) : direct_end(rx);
	return n == 0 || place_buffered(q, n);
}

/* False: more bytes are needed. */
static bool direct_try(struct ur_iwqp *q, uint32_t ulpdu_len)
{
	struct ur_iw_rx *rx = &q->rx;
	struct ur_iw_in in = { .seg = rx->buf + rx->head + UR_FPDU_LEN_LEN };
	enum ur_iw_fault f;

	if (ulpdu_len < UR_IW_DIRECT_MIN + UR_DDP_HDR_MAX ||
	    ur_guard_is_whole() || /* or a read could end inside an operand */
	    have(rx) < READ_AHEAD)
		return false;
	in.seg_len = have(rx) - UR_FPDU_LEN_LEN;
	if (!ur_ddp_decode(&in.h, in.seg, in.seg_len))
		return false;
	in.len = ulpdu_len - ur_ddp_hdr_len(in.h.tagged);
	f = ur_ddp_admit(q, &in);
	if (f == UR_IWF_NONE && !ur_ddp_places(&in))
		f = UR_IWF_FRAME;
	if (f == UR_IWF_NONE)
		return direct_begin(q, &in, ulpdu_len);
	ur_iw_fault(q, f, &in);
	return false;
}

/* All but the end of the payload is placed: check the CRC, place the rest. */
static bool direct_end_try(struct ur_iwqp *q)
{
	struct ur_iw_rx *rx = &q->rx;
	uint32_t rest = UR_IW_DIRECT_HOLD + ur_fpdu_pad(rx->ulpdu_len);
	const uint8_t *p = rx->buf + rx->head;
	enum ur_iw_fault f;

	if (rx->placed < direct_end(rx) || have(rx) < rest + UR_FPDU_CRC_LEN)
		return false;
	crc_add(q, p, rest);
	rx->head += rest + UR_FPDU_CRC_LEN;
	rx->pos += rest + UR_FPDU_CRC_LEN;
	rx->direct = false;
	rx->last_direct = true;
	q->w->cnt.rcvd_fpdus++;
	if (q->params.crc && !crc_is(p + rest, rx->crc)) {
		ur_iw_fault(q, UR_IWF_CRC, NULL);
		return false;
	}
	f = ur_ddp_place(q, &rx->in, rx->placed, p, UR_IW_DIRECT_HOLD);
	if (f == UR_IWF_NONE)
		f = ur_rdmap_deliver(q, &rx->in);
	got_first_fpdu(q);
	if (f != UR_IWF_NONE)
		ur_iw_fault(q, f, &rx->in);
	return true;
}

/* Does the segment need a receive where there is none, and may it wait? */
static bool must_wait(struct ur_iwqp *q, const uint8_t *seg, uint32_t len)
{
	struct ur_ddp_hdr h;

	if (!q->w->patient || q->rx.wait_expired || q->rx.rwqe ||
	    !ur_ddp_decode(&h, seg, len) || h.tagged || h.qn != UR_QN_SEND)
		return false;
	q->rx.waits_for_recv = !ur_iw_recv_take(q);
	return q->rx.waits_for_recv;
}

static bool plain_fpdu(struct ur_iwqp *q)
{
	struct ur_iw_rx *rx = &q->rx;
	uint8_t *p = rx->buf + rx->head;
	uint32_t ulpdu_len, total;

	if (have(rx) < UR_FPDU_LEN_LEN)
		return false;
	ulpdu_len = ur_be16_at(p);
	total = ur_fpdu_len(ulpdu_len);
	if (must_wait(q, p + UR_FPDU_LEN_LEN,
		      (have(rx) < total ? have(rx) - UR_FPDU_LEN_LEN
					: ulpdu_len)))
		return false;
	if (have(rx) < total)
		return direct_try(q, ulpdu_len);
	rx->head += total;
	rx->pos += total;
	if (q->params.crc && !crc_is(p + total - UR_FPDU_CRC_LEN,
				     ur_crc32c(0, p, total - UR_FPDU_CRC_LEN)))
		ur_iw_fault(q, UR_IWF_CRC, NULL);
	else
		segment(q, p + UR_FPDU_LEN_LEN, ulpdu_len);
	return true;
}

static bool is_marker(uint64_t pos)
{
	return pos % UR_MPA_MARKER_GAP == 0;
}

/* Length in the stream, from pos on, of n bytes and their markers. */
static uint32_t marked_len(uint64_t pos, uint32_t n)
{
	uint32_t raw = 0;

	while (n) {
		uint32_t run = (uint32_t)(UR_MPA_MARKER_GAP -
					  (pos + raw) % UR_MPA_MARKER_GAP);

		if (run == UR_MPA_MARKER_GAP) {
			raw += UR_MPA_MARKER_LEN;
			run -= UR_MPA_MARKER_LEN;
		}
		if (run > n)
			run = n;
		raw += run;
		n -= run;
	}
	return raw;
}

/* Remove the markers from the FPDU at p, n bytes without them. Each gives its
 * distance from the start of the FPDU; false if it is wrong. */
static bool unmark(uint8_t *p, uint64_t pos, uint32_t n)
{
	uint32_t lead = is_marker(pos) ? UR_MPA_MARKER_LEN : 0;
	uint32_t raw = 0, to = 0;

	while (to < n) {
		if (is_marker(pos + raw)) {
			if (ur_be16_at(p + raw + 2) != (raw ? raw - lead : 0))
				return false;
			raw += UR_MPA_MARKER_LEN;
		}
		/* FPDUs and markers are aligned to four bytes. */
		memmove(p + to, p + raw, 4);
		to += 4;
		raw += 4;
	}
	return true;
}

static bool marked_fpdu(struct ur_iwqp *q)
{
	struct ur_iw_rx *rx = &q->rx;
	uint8_t *p = rx->buf + rx->head;
	uint32_t lead = is_marker(rx->pos) ? UR_MPA_MARKER_LEN : 0;
	uint64_t pos = rx->pos;
	uint32_t ulpdu_len, total, raw;

	if (have(rx) < lead + UR_FPDU_LEN_LEN)
		return false;
	ulpdu_len = ur_be16_at(p + lead);
	total = ur_fpdu_len(ulpdu_len);
	raw = marked_len(pos, total);
	if (have(rx) < raw)
		return false;
	rx->head += raw;
	rx->pos += raw;
	if (q->params.crc && !crc_is(p + raw - UR_FPDU_CRC_LEN,
				     ur_crc32c(0, p, raw - UR_FPDU_CRC_LEN)))
		ur_iw_fault(q, UR_IWF_CRC, NULL);
	else if (!unmark(p, pos, total))
		ur_iw_fault(q, UR_IWF_MARKER, NULL);
	else
		segment(q, p + UR_FPDU_LEN_LEN, ulpdu_len);
	return true;
}

static void rx_process(struct ur_iwqp *q)
{
	bool more = true;

	while (more && ur_iwqp_open(q) && !q->overrun) {
		if (q->params.rx_markers)
			more = marked_fpdu(q);
		else if (q->rx.direct)
			more = direct_end_try(q);
		else
			more = plain_fpdu(q);
	}
	ur_iwqp_check_overrun(q);
	if (ur_iwqp_open(q))
		ur_iwqp_check_drained(q);
	else
		discard(&q->rx);
}

/* How many bytes to read into the buffer. */
static uint32_t stage_want(const struct ur_iwqp *q)
{
	const struct ur_iw_rx *rx = &q->rx;
	uint32_t room = rx->cap - rx->tail;
	uint32_t most = room;

	/* Large FPDUs in sequence: do not read the next one into the buffer,
	 * nor the one after a short one. */
	if (rx->direct)
		most = UR_IW_DIRECT_HOLD + ur_fpdu_pad(rx->ulpdu_len) +
		       UR_FPDU_CRC_LEN + READ_AHEAD +
		       rx->ulpdu_len / READ_AHEAD_SHARE - have(rx);
	else if (rx->last_direct && have(rx) < READ_AHEAD)
		most = READ_AHEAD - have(rx);
	else if (rx->last_direct)
		most = ur_fpdu_len(ur_be16_at(rx->buf + rx->head)) +
		       READ_AHEAD - have(rx);
	return most < room ? most : room;
}

static void compact(struct ur_iw_rx *rx)
{
	if (rx->head == 0)
		return;
	memmove(rx->buf, rx->buf + rx->head, have(rx));
	rx->tail -= rx->head;
	rx->head = 0;
}

/* Pieces of the direct segment that are still missing. */
static uint32_t direct_want(struct ur_iwqp *q, struct iovec *iov, uint32_t max)
{
	struct ur_iw_rx *rx = &q->rx;
	enum ur_iw_fault f;
	int n;

	if (rx->placed == direct_end(rx))
		return 0;
	n = ur_ddp_locate(q, &rx->in, rx->placed, direct_end(rx) - rx->placed,
			  iov, max, &f);
	if (n < 0) {
		ur_iw_fault(q, f, &rx->in);
		discard(rx);
		return 0;
	}
	for (int i = 0; i < n; i++)
		rx->given += (uint32_t)iov[i].iov_len;
	return (uint32_t)n;
}

uint32_t ur_iwarp_rx_want(struct ur_iwarp *w, struct ur_qp *qp,
			  struct iovec *iov, uint32_t max)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);
	struct ur_iw_rx *rx = &q->rx;
	uint32_t n = 0;

	rx->given = 0;
	if (!q->link || (rx->waits_for_recv && ur_iwqp_open(q)))
		return 0;
	if (max > UR_IW_RX_IOV)
		max = UR_IW_RX_IOV;
	if (!ur_iwqp_open(q))
		discard(rx);
	else if (rx->direct)
		n = direct_want(q, iov, max - 1);
	/* Not all of the pieces: nothing may be read beyond the gap. */
	if (rx->direct && rx->placed + rx->given < direct_end(rx))
		return n;
	compact(rx);
	iov[n] = (struct iovec){ .iov_base = rx->buf + rx->tail,
				 .iov_len = stage_want(q) };
	return n + 1;
}

/* Of the next k bytes of the direct segment, where they are. A link may have
 * read more pieces at once than are located here. */
static enum ur_iw_fault direct_crc(struct ur_iwqp *q, uint32_t k)
{
	struct ur_iw_rx *rx = &q->rx;
	uint32_t off = rx->placed, end = rx->placed + k;

	while (off < end) {
		struct iovec iov[UR_MAX_SGE];
		enum ur_iw_fault f = UR_IWF_NONE;
		int n = ur_ddp_locate(q, &rx->in, off, end - off, iov,
				      UR_MAX_SGE, &f);

		if (n < 0)
			return f != UR_IWF_NONE ? f : UR_IWF_T_BOUNDS;
		for (int i = 0; i < n; i++) {
			if (ur_guard_crc32c(&rx->crc, iov[i].iov_base,
					    iov[i].iov_len))
				return UR_IWF_T_BOUNDS;
			off += (uint32_t)iov[i].iov_len;
		}
	}
	return UR_IWF_NONE;
}

/* k bytes of the direct segment were read to their destination. */
static void direct_read(struct ur_iwqp *q, uint32_t k)
{
	struct ur_iw_rx *rx = &q->rx;
	enum ur_iw_fault f = q->params.crc ? direct_crc(q, k) : UR_IWF_NONE;

	q->w->cnt.placed_direct_bytes += k;
	rx->placed += k;
	if (f != UR_IWF_NONE)
		ur_iw_fault(q, f, &rx->in);
}

void ur_iwarp_rx_done(struct ur_iwarp *w, struct ur_qp *qp, uint32_t len,
		      uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);
	struct ur_iw_rx *rx = &q->rx;
	uint32_t k = len < rx->given ? len : rx->given;

	w->now_ns = now_ns;
	w->cnt.rcvd_bytes += len;
	rx->given = 0;
	if (!ur_iwqp_open(q)) {
		w->cnt.drop_after_error += len;
		discard(rx);
		return;
	}
	if (k)
		direct_read(q, k);
	rx->tail += len - k;
	rx_process(q);
}

bool ur_iwarp_rx_starved(const struct ur_qp *qp)
{
	return ur_iwqp_of(qp)->rx.waits_for_recv;
}

bool ur_iwarp_rx_retry(struct ur_iwarp *w, struct ur_qp *qp, bool give_up,
		       uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);

	w->now_ns = now_ns;
	if (!ur_iwqp_open(q))
		discard(&q->rx);
	if (!q->rx.waits_for_recv)
		return true;
	if (!ur_iw_recv_take(q) && !give_up)
		return false;
	q->rx.waits_for_recv = false;
	q->rx.wait_expired = give_up;
	rx_process(q);
	q->rx.wait_expired = false;
	return !q->rx.waits_for_recv;
}

uint32_t ur_iwarp_input(struct ur_iwarp *w, struct ur_qp *qp, const void *data,
			uint32_t len, uint64_t now_ns)
{
	const uint8_t *from = data;
	uint32_t left = len;

	while (left) {
		struct iovec iov[UR_IW_RX_IOV];
		uint32_t n = ur_iwarp_rx_want(w, qp, iov, UR_IW_RX_IOV);
		uint32_t took = 0;

		if (n == 0)
			break;
		for (uint32_t i = 0; i < n && took < left; i++) {
			uint32_t k = (uint32_t)iov[i].iov_len;

			k = k < left - took ? k : left - took;
			if (ur_guard_copy(iov[i].iov_base, from, k)) {
				ur_iwarp_rx_fault(w, qp, now_ns);
				return len;
			}
			from += k;
			took += k;
		}
		left -= took;
		ur_iwarp_rx_done(w, qp, took, now_ns);
	}
	return len - left;
}

void ur_iwarp_rx_fault(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_iwqp *q = ur_iwqp_of(qp);
	enum ur_iw_fault f = UR_IWF_LOCAL_RECV;

	w->now_ns = now_ns;
	if (!ur_iwqp_open(q) || !q->rx.direct)
		return;
	if (q->rx.in.opcode == UR_RDMAP_WRITE)
		f = UR_IWF_T_BOUNDS;
	else if (q->rx.in.opcode == UR_RDMAP_READ_RESPONSE)
		f = UR_IWF_LOCAL_READ;
	ur_iw_fault(q, f, &q->rx.in);
	discard(&q->rx);
}
