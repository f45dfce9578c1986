/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mpa.h"

#include "base/bytes.h"

#define KEY_LEN 16u

static const char *const keys[] = {
	[UR_MPA_REQUEST] = "MPA ID Req Frame",
	[UR_MPA_REPLY_FRAME] = "MPA ID Rep Frame",
};

bool ur_mpa_frame_decode(struct ur_mpa_frame *f, const uint8_t *buf, size_t len)
{
	struct ur_rd r = ur_rd_init(buf, len);
	const uint8_t *key = ur_rd_bytes(&r, KEY_LEN);
	struct ur_mpa_frame got = { .kind = UR_MPA_REQUEST };

	got.flags = ur_rd_u8(&r);
	got.rev = ur_rd_u8(&r);
	got.pd_len = ur_rd_be16(&r);
	if (r.bad || got.pd_len > UR_MPA_PD_MAX)
		return false;
	if (memcmp(key, keys[UR_MPA_REQUEST], KEY_LEN) != 0) {
		if (memcmp(key, keys[UR_MPA_REPLY_FRAME], KEY_LEN) != 0)
			return false;
		got.kind = UR_MPA_REPLY_FRAME;
	}
	*f = got;
	return true;
}

bool ur_mpa_frame_decode_v2(struct ur_mpa_frame *f, const uint8_t *pd,
			    size_t len)
{
	struct ur_rd r = ur_rd_init(pd, len);
	uint16_t ird = ur_rd_be16(&r);
	uint16_t ord = ur_rd_be16(&r);

	if (r.bad)
		return false;
	f->ird_word = ird;
	f->ord_word = ord;
	return true;
}

size_t ur_mpa_frame_encode(const struct ur_mpa_frame *f,
			   uint8_t buf[UR_MPA_HDR_LEN + UR_MPA_V2_LEN])
{
	struct ur_wr w = ur_wr_init(buf, UR_MPA_HDR_LEN + UR_MPA_V2_LEN);
	uint8_t *key = ur_wr_bytes(&w, KEY_LEN);

	memcpy(key, keys[f->kind], KEY_LEN);
	ur_wr_u8(&w, f->flags);
	ur_wr_u8(&w, f->rev);
	ur_wr_be16(&w, f->pd_len);
	if (f->flags & UR_MPA_ENHANCED) {
		ur_wr_be16(&w, f->ird_word);
		ur_wr_be16(&w, f->ord_word);
	}
	return (size_t)(w.p - buf);
}
