/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The experimental verbs (infiniband/verbs_exp.h).  Programs find them in a
 * table below the context.  A call has a slot only if it works here: without
 * one the program gets ENOSYS.
 *
 * EINVAL: a bit that the release lacks, or a value that its manual forbids;
 * EOPNOTSUPP: a feature that the release has and urnic lacks.
 */
#ifndef UR_VERBS_EXP_H
#define UR_VERBS_EXP_H

#include <infiniband/verbs_exp.h>

/* Call it for a new context after the other operations are set. */
void urv_exp_fill(struct verbs_context *v, struct verbs_context_exp *exp);

int urv_exp_query_device(struct ibv_context *context,
			 struct ibv_exp_device_attr *attr);

struct ibv_qp *urv_exp_create_qp(struct ibv_context *context,
				 struct ibv_exp_qp_init_attr *attr);
int urv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
		      uint64_t exp_mask);

/* Called with context->mutex; the caller counts the use of the channel. */
struct ibv_cq *urv_exp_create_cq(struct ibv_context *context, int cqe,
				 struct ibv_comp_channel *channel,
				 int comp_vector,
				 struct ibv_exp_cq_init_attr *attr);
int urv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr,
		      int mask);
int urv_exp_poll_cq(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc,
		    uint32_t wc_size);

int urv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
		      struct ibv_exp_send_wr **bad_wr);
int urv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind);

struct ibv_mr *urv_exp_reg_mr(struct ibv_exp_reg_mr_in *in);

/* IBV_ACCESS_ of IBV_EXP_ACCESS_ flags.  `also`: flags that the call supports
 * beyond the standard rights; only ZERO_BASED and ON_DEMAND are converted.  0,
 * -EINVAL, -EOPNOTSUPP. */
int urv_exp_access(uint64_t flags, uint64_t also, uint32_t *out);

#endif
