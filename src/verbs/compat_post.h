/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations that programs of IBVERBS_1.0 call through their context. */
#ifndef UR_VERBS_COMPAT_POST_H
#define UR_VERBS_COMPAT_POST_H

#include "verbs/compat.h"

int urv_old_poll_cq(struct old_cq *cq, int n, struct ibv_wc *wc);
int urv_old_req_notify_cq(struct old_cq *cq, int solicited_only);
int urv_old_post_srq_recv(struct old_srq *srq, struct old_recv_wr *wr,
			  struct old_recv_wr **bad);
int urv_old_post_send(struct old_qp *qp, struct old_send_wr *wr,
		      struct old_send_wr **bad);
int urv_old_post_recv(struct old_qp *qp, struct old_recv_wr *wr,
		      struct old_recv_wr **bad);

#endif
