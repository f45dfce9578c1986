/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ddp.h"

#include "base/bytes.h"

#define TAGGED	   0x80u
#define LAST	   0x40u
#define RSVD_SHIFT 2u
#define RSVD_MASK  0x0fu
#define VERSION	   0x03u

bool ur_ddp_decode(struct ur_ddp_hdr *h, const uint8_t *buf, size_t len)
{
	struct ur_rd r = ur_rd_init(buf, len);
	uint8_t control = ur_rd_u8(&r);
	struct ur_ddp_hdr got = { .tagged = control & TAGGED,
				  .last = control & LAST,
				  .rsvd = (control >> RSVD_SHIFT) & RSVD_MASK,
				  .version = control & VERSION };

	got.ulp = ur_rd_u8(&r);
	if (got.tagged) {
		got.stag = ur_rd_be32(&r);
		got.to = ur_rd_be64(&r);
	} else {
		got.ulp_word = ur_rd_be32(&r);
		got.qn = ur_rd_be32(&r);
		got.msn = ur_rd_be32(&r);
		got.mo = ur_rd_be32(&r);
	}
	if (r.bad)
		return false;
	*h = got;
	return true;
}

uint32_t ur_ddp_encode(const struct ur_ddp_hdr *h, uint8_t buf[UR_DDP_HDR_MAX])
{
	struct ur_wr w = ur_wr_init(buf, UR_DDP_HDR_MAX);

	ur_wr_u8(&w, (uint8_t)((h->tagged ? TAGGED : 0) | (h->last ? LAST : 0) |
			       (h->rsvd & RSVD_MASK) << RSVD_SHIFT |
			       (h->version & VERSION)));
	ur_wr_u8(&w, h->ulp);
	if (h->tagged) {
		ur_wr_be32(&w, h->stag);
		ur_wr_be64(&w, h->to);
	} else {
		ur_wr_be32(&w, h->ulp_word);
		ur_wr_be32(&w, h->qn);
		ur_wr_be32(&w, h->msn);
		ur_wr_be32(&w, h->mo);
	}
	return (uint32_t)(w.p - buf);
}
