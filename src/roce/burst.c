/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building bursts. Headers, ICRCs and small payloads are contiguous in the
 * burst's linear buffer; a large payload in stable memory is referenced, and
 * the trailer of one packet and the header of the next then form one piece.
 */
#include <errno.h>

#include "base/crc.h"
#include "base/guard.h"
#include "base/remote.h"
#include "roce/internal.h"

/* Below this, copying costs less than two more pieces of an iovec, each of
 * which the kernel processes: 9 % of a WRITE of 1 MiB in packets of 1 KiB. */
#define GATHER_MIN 2048u

void ur_burst_start(struct ur_burst *t, const struct ur_path *p)
{
	memcpy(t->src, p->key.src, sizeof(t->src));
	memcpy(t->dst, p->key.dst, sizeof(t->dst));
	t->scope_id = p->key.scope_id;
	t->tclass = p->key.tclass;
	t->hop_limit = p->key.hop_limit;
	t->sport = p->sport;
	t->npkts = 0;
	t->pkt_len = 0;
	t->bytes = 0;
	t->niov = 0;
	t->linear_len = 0;
	t->sent = 0;
	t->may_fragment = false;
	t->fragmenting = false;
	t->alone = false;
}

uint32_t ur_pkt_len(const struct ur_opcode *op, uint32_t payload_len)
{
	return op->hdr_len + ((payload_len + 3u) & ~3u) + UR_ICRC_LEN;
}

bool ur_burst_holds(const struct ur_burst *t, uint32_t pkt_len, uint32_t n)
{
	/* Room for the longest SGE list, and the pieces around it. */
	return t->npkts + n <= UR_BURST_PKTS &&
	       t->bytes + n * pkt_len <= UR_BURST_BYTES &&
	       t->niov + n * (UR_MAX_SGE + 2) <= UR_BURST_IOV;
}

enum ur_fit ur_burst_fits(const struct ur_burst *t, uint32_t pkt_len)
{
	if (t->npkts == 0)
		return UR_FIT_OK;
	/* A shorter packet can only be the last one. */
	if (t->alone || t->bytes != t->npkts * t->pkt_len ||
	    pkt_len > t->pkt_len)
		return UR_FIT_NO;
	return ur_burst_holds(t, pkt_len, 1) ? UR_FIT_OK : UR_FIT_NO;
}

/* Bytes [from, to) of the linear buffer become part of the burst. */
static void linear_piece(struct ur_burst *t, uint32_t from, uint32_t to)
{
	struct iovec *last = t->niov ? &t->iov[t->niov - 1] : NULL;
	uint8_t *p = t->linear + from;

	if (last && (uint8_t *)last->iov_base + last->iov_len == p)
		last->iov_len += to - from;
	else
		t->iov[t->niov++] = (struct iovec){ p, to - from };
}

/* Copies payload into the linear buffer. */
static int payload_copy(uint8_t *to, const struct iovec *iov, uint32_t niov)
{
	for (uint32_t i = 0; i < niov; i++) {
		if (ur_guard_copy(to, iov[i].iov_base, iov[i].iov_len))
			return -EFAULT;
		to += iov[i].iov_len;
	}
	return 0;
}

static int payload_gather(const struct iovec *iov, uint32_t niov, uint32_t *crc)
{
	for (uint32_t i = 0; i < niov; i++) {
		if (ur_guard_crc32(crc, iov[i].iov_base, iov[i].iov_len))
			return -EFAULT;
	}
	return 0;
}

/* A packet that is copied whole: its CRC covers the copy, not memory that the
 * application may change meanwhile, and is computed in one pass. */
static int add_copied(struct ur_burst *t, uint32_t at, const struct iovec *iov,
		      uint32_t niov, uint32_t len, uint32_t crc)
{
	uint32_t start = t->linear_len, end = start + len - UR_ICRC_LEN;

	if (payload_copy(t->linear + at, iov, niov))
		return -EFAULT;
	crc = ur_icrc_run(crc, t->linear + start, end - start);
	ur_icrc_put(t->linear + end, crc);
	linear_piece(t, start, end + UR_ICRC_LEN);
	t->linear_len = end + UR_ICRC_LEN;
	return 0;
}

/* A packet whose payload is referenced, with `pad` bytes after it. */
static int add_gathered(struct ur_burst *t, uint32_t at,
			const struct iovec *iov, uint32_t niov, uint32_t pad,
			uint32_t crc)
{
	uint32_t start = t->linear_len;

	crc = ur_icrc_run(crc, t->linear + start, at - start);
	if (payload_gather(iov, niov, &crc))
		return -EFAULT;
	linear_piece(t, start, at);
	for (uint32_t i = 0; i < niov; i++)
		t->iov[t->niov++] = iov[i];
	memset(t->linear + at, 0, pad);
	if (pad)
		crc = ur_crc32(crc, t->linear + at, pad);
	ur_icrc_put(t->linear + at + pad, crc);
	linear_piece(t, at, at + pad + UR_ICRC_LEN);
	t->linear_len = at + pad + UR_ICRC_LEN;
	return 0;
}

static void appended(struct ur_burst *t, uint32_t dqpn, uint32_t len)
{
	if (t->npkts == 0) {
		t->pkt_len = len;
		t->dqpn = dqpn;
	}
	t->npkts++;
	t->bytes += len;
}

int ur_burst_add(struct ur_burst *t, struct ur_path *p, struct ur_hdr *h,
		 const struct iovec *iov, uint32_t niov, uint32_t payload_len,
		 bool stable)
{
	const struct ur_opcode *op = ur_opcode_get(h->bth.opcode);
	uint32_t len = ur_pkt_len(op, payload_len) + ur_hdr_extra(h);
	uint32_t pad = (4u - (payload_len & 3u)) & 3u;
	uint32_t at = t->linear_len, crc;
	bool gather = stable && payload_len >= GATHER_MIN &&
		      !ur_guard_is_whole() && !ur_remote_any(iov, niov);
	int err;

	h->bth.pad = (uint8_t)pad;
	at += (uint32_t)ur_hdr_encode(h, t->linear + at);
	crc = ur_path_prefix(p, len);
	crc ^= ur_icrc_prefix_id(&p->flow, (uint16_t)t->npkts);
	if (gather) {
		err = add_gathered(t, at, iov, niov, pad, crc);
	} else {
		memset(t->linear + at + payload_len, 0, pad);
		err = add_copied(t, at, iov, niov, len, crc);
	}
	if (err)
		return err;
	appended(t, h->bth.dqpn, len);
	return 0;
}

void ur_burst_put(struct ur_burst *t, struct ur_path *p, uint32_t dqpn,
		  uint32_t len)
{
	uint32_t start = t->linear_len, end = start + len - UR_ICRC_LEN;
	uint32_t crc = ur_path_prefix(p, len);

	crc ^= ur_icrc_prefix_id(&p->flow, (uint16_t)t->npkts);
	crc = ur_icrc_run(crc, t->linear + start, end - start);
	ur_icrc_put(t->linear + end, crc);
	linear_piece(t, start, end + UR_ICRC_LEN);
	t->linear_len = end + UR_ICRC_LEN;
	appended(t, dqpn, len);
}
