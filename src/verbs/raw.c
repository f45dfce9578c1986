/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet attributes of ibv_create_qp_ex(3). */
#include "verbs/raw.h"

#include <errno.h>
#include <string.h>

static int hash_attrs(struct ur_rss *rss, const struct ibv_qp_init_attr_ex *ex)
{
	const struct ibv_rx_hash_conf *h = &ex->rx_hash_conf;

	if (h->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ)
		return -EOPNOTSUPP;
	if (h->rx_hash_key_len != UR_RSS_KEY_LEN || !h->rx_hash_key)
		return -EINVAL;
	if (h->rx_hash_fields_mask & ~(uint64_t)UR_RSS_FIELDS)
		return -EOPNOTSUPP;
	rss->fields = h->rx_hash_fields_mask;
	memcpy(rss->key, h->rx_hash_key, UR_RSS_KEY_LEN);
	return 0;
}

/* A queue pair with RSS only receives. */
static int rss_attrs(struct ur_rss *rss, const struct ibv_qp_init_attr_ex *ex)
{
	const uint32_t both =
		IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	int rc;

	if (!(ex->comp_mask & both))
		return 0;
	if ((ex->comp_mask & both) != both || !ex->rwq_ind_tbl || ex->send_cq ||
	    ex->recv_cq || ex->srq || ex->cap.max_send_wr ||
	    ex->cap.max_recv_wr ||
	    ex->comp_mask & (IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return -EINVAL;
	rc = hash_attrs(rss, ex);
	if (!rc)
		rc = urv_check(URV_RWQ_TABLE, ex->rwq_ind_tbl);
	if (!rc)
		rss->table = urv_rwq_table_core(ex->rwq_ind_tbl);
	return rc;
}

static int flag_attrs(struct ur_qp_raw *raw,
		      const struct ibv_qp_init_attr_ex *ex)
{
	if (!(ex->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return 0;
	if (ex->create_flags & ~(uint32_t)IBV_QP_CREATE_CVLAN_STRIPPING)
		return -EOPNOTSUPP;
	raw->strip_vlan = ex->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING;
	/* With a table the work queues strip tags. */
	if (raw->strip_vlan && ex->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE)
		return -EINVAL;
	return 0;
}

int urv_raw_attrs(struct ur_qp_raw *raw, const struct ibv_qp_init_attr_ex *ex)
{
	int rc;

	memset(raw, 0, sizeof(*raw));
	if (ex->qp_type != IBV_QPT_RAW_PACKET)
		return ex->comp_mask & URV_RAW_COMP_MASK ? -EINVAL : 0;
	rc = flag_attrs(raw, ex);
	if (rc)
		return rc;
	if (ex->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) {
		if (ex->max_tso_header > UR_MAX_TSO_HDR)
			return -EINVAL;
		raw->max_tso_header = ex->max_tso_header;
	}
	return rss_attrs(&raw->rss, ex);
}
