/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets built and decoded by hand. */
#include <stdlib.h>
#include <string.h>

#include "rig/rig.h"
#include "wire/icrc.h"

struct ur_hdr rig_hdr(uint8_t opcode, uint32_t dqpn, uint32_t psn)
{
	struct ur_hdr h = { .op = ur_opcode_get(opcode) };

	h.bth.opcode = opcode;
	h.bth.dqpn = dqpn;
	h.bth.psn = psn & UR_PSN_MASK;
	h.bth.pkey = 0xffff;
	return h;
}

void rig_pkt_seal(struct rig_pkt *p)
{
	struct ur_icrc_flow flow = { .sport = p->sport, .dport = UR_ROCE_PORT };
	uint32_t end = p->len - UR_ICRC_LEN;
	uint32_t crc;

	memcpy(flow.src, p->src, 16);
	memcpy(flow.dst, p->dst, 16);
	crc = ur_icrc_prefix(&flow, p->len);
	crc = ur_icrc_run(crc, p->data, end);
	for (uint32_t i = 0; i < UR_ICRC_LEN; i++)
		p->data[end + i] = (uint8_t)(crc >> (8 * i));
	p->index = 0;
}

void rig_pkt_build(struct rig_pkt *p, struct ur_hdr *h, const void *payload,
		   uint32_t len)
{
	uint32_t pad = (4 - (len & 3)) & 3;
	uint32_t at;

	h->bth.pad = (uint8_t)pad;
	at = (uint32_t)ur_hdr_encode(h, p->data);
	if (len)
		memcpy(p->data + at, payload, len);
	memset(p->data + at + len, 0, pad);
	p->len = at + len + pad + UR_ICRC_LEN;
	rig_pkt_seal(p);
}

bool rig_pkt_input(struct rig_lane *l, const struct rig_pkt *p, uint64_t now_ns)
{
	struct ur_rx rx = { .len = p->len,
			    .sport = p->sport,
			    .index = p->index,
			    .tclass = p->tclass,
			    .scope_id = p->scope_id,
			    .hop_limit = 64 };
	uint8_t *copy = malloc(p->len ? p->len : 1);
	bool heard;

	/* A copy of the exact size: a sanitizer sees reads beyond it. */
	RIG_CHECK(copy != NULL);
	memcpy(copy, p->data, p->len);
	memcpy(rx.src, p->src, 16);
	memcpy(rx.dst, p->dst, 16);
	rx.data = copy;
	heard = ur_roce_input(l->roce, &rx, now_ns);
	free(copy);
	return heard;
}

/* Copy [off, off + len) of the burst's pieces. */
static void burst_copy(const struct ur_burst *t, uint32_t off, uint32_t len,
		       uint8_t *to)
{
	for (uint32_t i = 0; i < t->niov && len; i++) {
		uint32_t have = (uint32_t)t->iov[i].iov_len;
		uint32_t n;

		if (off >= have) {
			off -= have;
			continue;
		}
		n = have - off < len ? have - off : len;
		memcpy(to, (uint8_t *)t->iov[i].iov_base + off, n);
		to += n;
		len -= n;
		off = 0;
	}
	RIG_CHECK(len == 0);
}

bool rig_burst_pkt(const struct ur_burst *t, uint32_t i, struct rig_pkt *p)
{
	uint32_t off = i * t->pkt_len;

	if (i >= t->npkts)
		return false;
	p->len = i + 1 < t->npkts ? t->pkt_len : t->bytes - off;
	RIG_CHECK(p->len >= UR_BTH_LEN + UR_ICRC_LEN && p->len <= RIG_PKT_MAX);
	burst_copy(t, off, p->len, p->data);
	memcpy(p->src, t->src, 16);
	memcpy(p->dst, t->dst, 16);
	p->sport = t->sport;
	p->index = (uint16_t)i;
	p->tclass = t->tclass;
	p->scope_id = t->scope_id;
	return true;
}
