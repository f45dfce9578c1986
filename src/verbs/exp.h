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
#include <stdbool.h>

#include "core/types.h"

struct urv_context;
struct urv_qp;

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
/* Inline receive: data is in the buffers of a receive before its completion, whatever
 * its length, so the size granted is the one asked for, up to the one reported. */
static inline uint32_t urv_exp_inline_recv(uint32_t asked)
{
	return asked < UR_MAX_INLINE ? asked : UR_MAX_INLINE;
}
/* Extended atomics: the largest operand of the device, in bytes.  _stage: 0 or
 * positive errno. */
uint32_t urv_exp_max_atomic_arg(const struct urv_context *c);
bool urv_exp_is_masked(const struct ibv_exp_send_wr *wr);
int urv_exp_stage_masked(struct urv_qp *qp, const struct ibv_exp_send_wr *wr);

/* exp_dct.c: targets of DC. Called with context->mutex; _end: of a context that
 * is closed. */
struct ibv_exp_dct *urv_exp_create_dct(struct ibv_context *context,
				       struct ibv_exp_dct_init_attr *attr);
int urv_exp_destroy_dct(struct ibv_exp_dct *dct);
int urv_exp_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr);
int urv_exp_arm_dct(struct ibv_exp_dct *dct, struct ibv_exp_arm_attr *attr);
void urv_dcts_end(struct urv_context *c);

int urv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind);

struct ibv_mr *urv_exp_reg_mr(struct ibv_exp_reg_mr_in *in);

/* exp_umr.c. _stage: under the lock of the send queue; 0 or positive errno. */
struct urv_qp;
struct ibv_mr *urv_exp_create_mr(struct ibv_exp_create_mr_in *in);
int urv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr);
struct ibv_exp_mkey_list_container *
urv_exp_alloc_mkey_list(struct ibv_exp_mkey_list_container_attr *attr);
int urv_exp_dealloc_mkey_list(struct ibv_exp_mkey_list_container *list);

/*
 * UMR requests that are about to be staged: checked, with their lists, before
 * the queues are locked. _prepare: may be called for several queue pairs, in
 * the order in which their requests will be staged; it remembers the first bad
 * request. _end: what was not used is freed; hold no lock.
 */
struct urv_umr_lists {
	struct ur_umr_list *ready, *last; /* of the next FILL, by `next` */
	struct ur_umr_list *left;	  /* of flushed requests, to free */
	const struct ibv_exp_send_wr *bad;
	int rc; /* of `bad` */
};
void urv_umr_prepare(struct urv_umr_lists *lists, const struct urv_qp *qp,
		     const struct ibv_exp_send_wr *x);
int urv_umr_stage(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		  struct urv_umr_lists *lists);
void urv_umr_end(struct urv_umr_lists *lists);
void urv_umr_caps(struct ibv_exp_umr_caps *caps);
/* The attributes of a queue pair that concern UMR: 0 or negative errno. _enable
 * changes a new queue pair as they say. */
int urv_umr_check_qp(const struct ibv_exp_qp_init_attr *attr);
int urv_umr_enable(struct urv_qp *qp, const struct ibv_exp_qp_init_attr *attr);

/* IBV_ACCESS_ of IBV_EXP_ACCESS_ flags.  `also`: flags that the call supports
 * beyond the standard rights; only ZERO_BASED and ON_DEMAND are converted.  0,
 * -EINVAL, -EOPNOTSUPP. */
int urv_exp_access(uint64_t flags, uint64_t also, uint32_t *out);

#endif
