/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of IBVERBS_1.0: one at a time, since their structures are shorter.
 */
#include "verbs/compat_post.h"

#include <string.h>

int urv_old_poll_cq(struct old_cq *cq, int n, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq->real, n, wc);
}

int urv_old_req_notify_cq(struct old_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq->real, solicited_only);
}

static struct ibv_recv_wr recv_from(const struct old_recv_wr *old)
{
	return (struct ibv_recv_wr){
		.wr_id = old->wr_id,
		.sg_list = old->sg_list,
		.num_sge = old->num_sge,
	};
}

int urv_old_post_srq_recv(struct old_srq *srq, struct old_recv_wr *wr,
			  struct old_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct ibv_recv_wr now = recv_from(wr), *ignored;
		int rc = ibv_post_srq_recv(srq->real, &now, &ignored);

		if (rc) {
			*bad = wr;
			return rc;
		}
	}
	return 0;
}

int urv_old_post_recv(struct old_qp *qp, struct old_recv_wr *wr,
		      struct old_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct ibv_recv_wr now = recv_from(wr), *ignored;
		int rc = ibv_post_recv(qp->real, &now, &ignored);

		if (rc) {
			*bad = wr;
			return rc;
		}
	}
	return 0;
}

/* The union has the same members, but may be at another offset. */
static void send_from(struct ibv_send_wr *now, const struct old_send_wr *old,
		      enum ibv_qp_type type)
{
	memset(now, 0, sizeof(*now));
	now->wr_id = old->wr_id;
	now->sg_list = old->sg_list;
	now->num_sge = old->num_sge;
	now->opcode = old->opcode;
	now->send_flags = (unsigned int)old->send_flags;
	now->imm_data = old->imm_data;
	if (type == IBV_QPT_UD) {
		now->wr.ud.ah = old->wr.ud.ah ? old->wr.ud.ah->real : NULL;
		now->wr.ud.remote_qpn = old->wr.ud.remote_qpn;
		now->wr.ud.remote_qkey = old->wr.ud.remote_qkey;
	} else if (old->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   old->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		now->wr.atomic.remote_addr = old->wr.atomic.remote_addr;
		now->wr.atomic.compare_add = old->wr.atomic.compare_add;
		now->wr.atomic.swap = old->wr.atomic.swap;
		now->wr.atomic.rkey = old->wr.atomic.rkey;
	} else {
		now->wr.rdma.remote_addr = old->wr.rdma.remote_addr;
		now->wr.rdma.rkey = old->wr.rdma.rkey;
	}
}

int urv_old_post_send(struct old_qp *qp, struct old_send_wr *wr,
		      struct old_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct ibv_send_wr now, *ignored;
		int rc;

		send_from(&now, wr, qp->qp_type);
		rc = ibv_post_send(qp->real, &now, &ignored);
		if (rc) {
			*bad = wr;
			return rc;
		}
	}
	return 0;
}
