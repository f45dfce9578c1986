/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conversion between the adapter's conventions and the ABI's. Errors: inside
 * -errno; outside a positive errno, or NULL or -1 with errno set. Enumerations
 * are equal on both sides (abi_check.c).
 */
#ifndef UR_VERBS_CONVERT_H
#define UR_VERBS_CONVERT_H

#include <errno.h>
#include <infiniband/verbs.h>

#include "core/cq.h"
#include "core/qp.h"

/* For calls that return 0 or the value of errno. */
static inline int urv_errno(int rc)
{
	if (rc < 0)
		errno = -rc;
	return -rc;
}

/* For calls that return -1 and set errno. */
static inline int urv_minus_one(int rc)
{
	if (rc >= 0)
		return 0;
	errno = -rc;
	return -1;
}

/* For calls that return a pointer. */
static inline void *urv_null(int rc)
{
	errno = -rc;
	return NULL;
}

/* sgid and other looked-up fields stay zero (ur_dev_resolve_av()). */
void urv_av_from_ah(struct ur_av *av, const struct ibv_ah_attr *ah);
void urv_av_to_ah(struct ibv_ah_attr *ah, const struct ur_av *av);

void urv_cap_from_ibv(struct ur_qp_cap *out, const struct ibv_qp_cap *in);
void urv_cap_to_ibv(struct ibv_qp_cap *out, const struct ur_qp_cap *in);

/* Only members in the mask are read. */
void urv_qp_attr_from_ibv(struct ur_qp_attr *out, const struct ibv_qp_attr *in,
			  uint32_t mask);
void urv_qp_attr_to_ibv(struct ibv_qp_attr *out, const struct ur_qp_attr *in);

static inline void urv_wc_from_cqe(struct ibv_wc *wc, const struct ur_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = (enum ibv_wc_status)cqe->status;
	wc->opcode = (enum ibv_wc_opcode)(cqe->opcode & ~UR_WC_MASKED);
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm_be;
	wc->qp_num = cqe->qpn;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->flags;
	wc->pkey_index = cqe->pkey_index;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = cqe->dlid_path_bits;
}

#endif
