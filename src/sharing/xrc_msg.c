/* SPDX-License-Identifier: BSD-2-Clause */
#include "sharing/xrc_msg.h"

#include <stddef.h>

void ur_xrc_put_head(struct ur_wr *w, const struct ur_xrc_head *h)
{
	ur_wr_u8(w, (uint8_t)h->type);
	ur_wr_be24(w, h->qpn);
	ur_wr_be32(w, h->seq);
}

bool ur_xrc_get_head(struct ur_rd *r, struct ur_xrc_head *h)
{
	uint8_t type = ur_rd_u8(r);

	if (type == 0 || type >= UR_XRC_TYPES)
		return false;
	h->type = (enum ur_xrc_type)type;
	h->qpn = ur_rd_be24(r);
	h->seq = ur_rd_be32(r);
	return !r->bad;
}

/* How a member stands in a message: bytes as they are, or a number. */
enum kind {
	NUMBER,
	FLAG,
	BYTES,
};

#define FIELD(kind, name)                                                      \
	{                                                                      \
		kind, sizeof(((struct ur_qp_attr *)NULL)->name),               \
			offsetof(struct ur_qp_attr, name)                      \
	}
#define AV_FIELDS(av)                                                          \
	FIELD(BYTES, av.sgid), FIELD(BYTES, av.dgid),                          \
		FIELD(NUMBER, av.scope_id), FIELD(NUMBER, av.flow_label),      \
		FIELD(NUMBER, av.dlid), FIELD(NUMBER, av.sgid_index),          \
		FIELD(NUMBER, av.tclass), FIELD(NUMBER, av.hop_limit),         \
		FIELD(NUMBER, av.sl), FIELD(NUMBER, av.src_path_bits),         \
		FIELD(NUMBER, av.static_rate), FIELD(NUMBER, av.port_num),     \
		FIELD(FLAG, av.is_global)

static const struct field {
	enum kind kind;
	size_t size;
	size_t offset;
} fields[] = {
	FIELD(NUMBER, state),
	FIELD(NUMBER, cur_state),
	FIELD(NUMBER, path_mtu),
	FIELD(NUMBER, path_mig_state),
	FIELD(NUMBER, qkey),
	FIELD(NUMBER, rq_psn),
	FIELD(NUMBER, sq_psn),
	FIELD(NUMBER, dest_qpn),
	FIELD(NUMBER, access),
	AV_FIELDS(av),
	AV_FIELDS(alt_av),
	FIELD(NUMBER, pkey_index),
	FIELD(NUMBER, alt_pkey_index),
	FIELD(FLAG, en_sqd_async_notify),
	FIELD(FLAG, sq_draining),
	FIELD(NUMBER, max_rd_atomic),
	FIELD(NUMBER, max_dest_rd_atomic),
	FIELD(NUMBER, min_rnr_timer),
	FIELD(NUMBER, port_num),
	FIELD(NUMBER, timeout),
	FIELD(NUMBER, retry_cnt),
	FIELD(NUMBER, rnr_retry),
	FIELD(NUMBER, alt_port_num),
	FIELD(NUMBER, alt_timeout),
	FIELD(NUMBER, rate_limit),
	FIELD(NUMBER, rate_burst),
};

void ur_xrc_put_attr(struct ur_wr *w, const struct ur_qp_attr *a)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const uint8_t *at = (const uint8_t *)a + fields[i].offset;

		if (fields[i].kind == BYTES)
			ur_wr_copy(w, at, fields[i].size);
		else
			ur_wr_number(w, at, fields[i].size);
	}
}

static bool get_field(struct ur_rd *r, const struct field *f, uint8_t *at)
{
	if (f->kind != BYTES) {
		ur_rd_number(r, at, f->size);
		return f->kind != FLAG || *at <= 1;
	}
	ur_rd_copy(r, at, f->size);
	return true;
}

bool ur_xrc_get_attr(struct ur_rd *r, struct ur_qp_attr *a)
{
	struct ur_qp_attr t = { 0 };

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!get_field(r, &fields[i], (uint8_t *)&t + fields[i].offset))
			return false;
	}
	if (r->bad || t.state >= UR_QPS_COUNT || t.cur_state >= UR_QPS_COUNT ||
	    t.path_mig_state > UR_MIG_ARMED)
		return false;
	*a = t;
	return true;
}
