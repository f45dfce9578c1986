/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bursts of RoCEv2, as the process gave them to its link or got them.  A request
 * whose PSN was sent before is a retransmission.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pcap_frame.h"
#include "roce/counters.h"
#include "wire/bth.h"
#include "wire/icrc.h"

#define SENDERS 4096u
#define COMMENT 160u

/* The requests to one queue pair. */
struct sender {
	uint8_t dst[16];
	uint32_t source;
	uint32_t dqpn;
	uint32_t last; /* PSN */
	uint64_t va;   /* what it reads */
	uint32_t len;
	bool used;
};

struct ur_roce_frames {
	struct sender sender[SENDERS];
};

struct ur_roce_frames *ur_roce_frames_create(void)
{
	return calloc(1, sizeof(struct ur_roce_frames));
}

void ur_roce_frames_destroy(struct ur_roce_frames *s)
{
	free(s);
}

static const char *const verdicts[] = {
#define TEXT(name, text) text,
	UR_ROCE_VERDICTS(TEXT)
#undef TEXT
};

static const char *verdict_text(uint16_t verdict)
{
	return verdict && verdict <= sizeof(verdicts) / sizeof(verdicts[0])
		       ? verdicts[verdict - 1]
		       : NULL;
}

static const char *const injected[] = { "dropped", "corrupted", "made a NAK",
					"a second copy", "delayed" };

/* What faults did, and what became of the packet. */
static void add_injected(uint8_t set, char text[COMMENT], const char *comment)
{
	const char *before = "injected: ";
	size_t n = 0;

	for (unsigned int i = 0; i < sizeof(injected) / sizeof(*injected);
	     i++) {
		if (!(set & 1u << i))
			continue;
		n += (size_t)snprintf(text + n, COMMENT - n, "%s%s", before,
				      injected[i]);
		before = ", ";
	}
	n += (size_t)snprintf(text + n, COMMENT - n, " by fault");
	if (comment)
		snprintf(text + n, COMMENT - n, "; %s", comment);
}

static bool is_request(const struct ur_opcode *op)
{
	return op && op->transport == UR_TP_RC && op->kind != UR_OP_ACK &&
	       op->kind != UR_OP_ATOMIC_ACK && op->kind != UR_OP_READ_RESPONSE;
}

static struct sender *sender_of(struct ur_roce_frames *s, uint32_t source,
				const uint8_t dst[16], uint32_t dqpn)
{
	struct sender *x =
		&s->sender[(dqpn ^ dqpn >> 12 ^ dst[15] << 4 ^ source) %
			   SENDERS];

	if (x->used && x->source == source && x->dqpn == dqpn &&
	    !memcmp(x->dst, dst, 16))
		return x;
	x->used = false;
	x->source = source;
	x->dqpn = dqpn;
	memcpy(x->dst, dst, 16);
	return x;
}

/* The rest of the newest READ, from one of its PSNs on. */
static bool is_rest(const struct sender *x, const struct ur_hdr *h)
{
	uint64_t off = h->va - x->va;
	uint32_t psns = (uint32_t)ur_psn_diff(h->bth.psn, x->last), mtu;

	if (h->op->kind != UR_OP_READ_REQUEST || off >= x->len ||
	    off + h->dma_len != x->len || off % psns)
		return false;
	mtu = (uint32_t)(off / psns);
	return mtu >= 256 && mtu <= 4096 && (mtu & (mtu - 1)) == 0;
}

static bool was_sent(struct ur_roce_frames *s, const struct ur_frame_out *out,
		     const struct ur_capture_rec *rec, const struct ur_hdr *h)
{
	struct sender *x;

	if (!is_request(h->op))
		return false;
	x = sender_of(s, out->source, rec->dst, h->bth.dqpn);
	if (x->used && (ur_psn_diff(h->bth.psn, x->last) <= 0 || is_rest(x, h)))
		return true;
	x->used = true;
	x->last = h->bth.psn;
	x->va = h->va;
	x->len = h->op->kind == UR_OP_READ_REQUEST ? h->dma_len : 0;
	return false;
}

/*
 * A socket hides the identification of a received packet, which the ICRC of IPv4
 * covers: find the one that makes it right.  The CRC is linear in its bits.
 */
static uint16_t find_id(const struct ur_frame_ends *e, const uint8_t *pkt,
			size_t len, uint16_t likely)
{
	struct ur_icrc_flow flow = { .sport = e->sport, .dport = e->dport };
	uint32_t prefix, crc, want, row[16];
	uint16_t id[16], found = 0;

	if (len < UR_BTH_LEN + UR_ICRC_LEN)
		return likely;
	memcpy(flow.src, e->src, 16);
	memcpy(flow.dst, e->dst, 16);
	prefix = ur_icrc_prefix(&flow, len);
	memcpy(&want, pkt + len - UR_ICRC_LEN, sizeof(want));
	crc = ur_icrc_run(prefix ^ ur_icrc_prefix_id(&flow, likely), pkt,
			  len - UR_ICRC_LEN);
	if (crc == le32toh(want))
		return likely;
	crc = ur_icrc_run(prefix, pkt, len - UR_ICRC_LEN);
	want = le32toh(want) ^ crc;
	for (unsigned int i = 0; i < 16; i++) {
		id[i] = (uint16_t)(1u << i);
		row[i] = ur_icrc_run(prefix ^ ur_icrc_prefix_id(&flow, id[i]),
				     pkt, len - UR_ICRC_LEN) ^
			 crc;
		for (unsigned int k = 0; k < i; k++) {
			if ((row[i] ^ row[k]) < row[i]) {
				row[i] ^= row[k];
				id[i] ^= id[k];
			}
		}
		if ((want ^ row[i]) < want) {
			want ^= row[i];
			found ^= id[i];
		}
	}
	return want ? likely : found;
}

void ur_roce_frames_put(struct ur_roce_frames *s, struct ur_frame_out *out,
			const struct ur_capture_rec *rec,
			const uint8_t *payload)
{
	bool sent = rec->flags & UR_CAP_OUT;
	struct ur_frame_ends e = ur_frame_ends_of(rec);
	char text[COMMENT], marked[COMMENT];
	uint16_t n = 0;

	for (uint32_t off = 0; off < rec->len && rec->pkt_len; n++) {
		uint32_t left = rec->len - off;
		uint32_t len = left < rec->pkt_len ? left : rec->pkt_len;
		struct ur_frame f = { .rec = rec,
				      .interface = out->interface,
				      .source = out->source,
				      .data = out->frame,
				      .dqpn = UINT32_MAX,
				      .sent = sent };
		const uint8_t *data;
		size_t data_len;
		struct ur_hdr h;
		bool ok = !ur_hdr_decode(&h, payload + off, len, &data,
					 &data_len);

		if (ok)
			f.dqpn = h.bth.dqpn;
		if (!sent)
			f.comment = verdict_text(rec->verdict);
		else if (ok && was_sent(s, out, rec, &h))
			f.comment = "retransmission";
		if (sent && rec->verdict) {
			snprintf(text, sizeof(text), "not sent: %s",
				 strerror(rec->verdict));
			f.comment = text;
		}
		if (rec->injected) {
			add_injected(rec->injected, marked, f.comment);
			f.comment = marked;
		}
		e.id = sent ? n : find_id(&e, payload + off, len, rec->index);
		f.len = ur_frame_udp(out->frame, &e, payload + off, len);
		if (f.len)
			out->fn(out->arg, &f);
		off += len;
	}
}
