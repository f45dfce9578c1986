/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet that decodes has its payload inside of it and encodes to the same
 * header, except for reserved bits, which are sent as zeros. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/bth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void clear_reserved(uint8_t *header, const struct ur_hdr *h)
{
	header[4] &= 0xc0;
	header[8] &= (uint8_t)(0x98 | (h->bth.has_ack ? 0x20 : 0) |
			       (h->bth.full ? 0x04 : 0) |
			       (h->bth.masked ? 0x02 : 0));
	if (!h->bth.urnic)
		header[8] &= 0xf0;
	if (h->op->headers & UR_HDR_XRCETH)
		header[UR_BTH_LEN] = 0;
	if (h->op->headers & UR_HDR_FETH) {
		memset(header + UR_BTH_LEN, 0, 3);
		header[UR_BTH_LEN + 3] &= 0x3f;
	}
	if (h->op->headers & UR_HDR_DETH)
		header[UR_BTH_LEN + 4] = 0;
	if (h->bth.has_ack)
		header[h->op->hdr_len + 4] = 0;
	if (ur_op_has_size(h->op, h->bth.full))
		header[h->op->hdr_len + 1] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *payload;
	uint8_t want[UR_HDR_MAX];
	uint8_t got[UR_HDR_MAX];
	struct ur_hdr h;
	size_t n, hdr_len;

	if (ur_hdr_decode(&h, data, len, &payload, &n))
		return 0;
	hdr_len = h.op->hdr_len + ur_hdr_extra(&h);
	assert(payload == data + hdr_len);
	assert(hdr_len + n + h.bth.pad + UR_ICRC_LEN == len);
	assert(h.op->payload || !n ||
	       (h.op->kind == UR_OP_ACK && h.bth.urnic &&
		(h.bth.selective || h.bth.full)));
	memcpy(want, data, hdr_len);
	clear_reserved(want, &h);
	assert(ur_hdr_encode(&h, got) == hdr_len);
	assert(!memcmp(want, got, hdr_len));
	return 0;
}
