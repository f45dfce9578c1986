/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm_mad.h"

#include <assert.h>

#include "base/bytes.h"

void ur_mad_decode(struct ur_mad_hdr *h, const uint8_t mad[UR_MAD_LEN])
{
	struct ur_rd r = ur_rd_init(mad, UR_MAD_HDR_LEN);

	h->base_version = ur_rd_u8(&r);
	h->mgmt_class = ur_rd_u8(&r);
	h->class_version = ur_rd_u8(&r);
	h->method = ur_rd_u8(&r);
	h->status = ur_rd_be16(&r);
	h->class_specific = ur_rd_be16(&r);
	h->tid = ur_rd_be64(&r);
	h->attr_id = ur_rd_be16(&r);
	ur_rd_be16(&r); /* reserved */
	h->attr_mod = ur_rd_be32(&r);
	assert(!r.bad);
}

void ur_mad_encode(const struct ur_mad_hdr *h, uint8_t mad[UR_MAD_LEN])
{
	struct ur_wr w = ur_wr_init(mad, UR_MAD_HDR_LEN);

	ur_wr_u8(&w, h->base_version);
	ur_wr_u8(&w, h->mgmt_class);
	ur_wr_u8(&w, h->class_version);
	ur_wr_u8(&w, h->method);
	ur_wr_be16(&w, h->status);
	ur_wr_be16(&w, h->class_specific);
	ur_wr_be64(&w, h->tid);
	ur_wr_be16(&w, h->attr_id);
	ur_wr_be16(&w, 0);
	ur_wr_be32(&w, h->attr_mod);
	assert(!w.bad);
}
