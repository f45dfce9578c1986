/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of the experimental verbs.  Each looks up its slot in the table that
 * a library with these verbs puts below the context, and needs no symbol of the
 * library: a program with these calls links and runs with any libibverbs, and
 * gets ENOSYS where there is no slot.  Programs include infiniband/verbs_exp.h.
 */
#ifndef INFINIBAND_VERBS_EXP_CALLS_H
#define INFINIBAND_VERBS_EXP_CALLS_H

#include <errno.h>
#include <infiniband/verbs_exp_qp.h>
#include <infiniband/verbs_exp_types.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A slot of a call that this header does not have. */
typedef void (*ibv_exp_no_slot)(void);

/*
 * New slots are added at the front; a slot has a fixed distance from the end.
 * lib_: called by programs; drv_: by the library, or by programs on the data
 * path.
 */
struct verbs_context_exp {
	int (*drv_exp_poll_dc_info)(struct ibv_context *context,
				    struct ibv_exp_dc_info_ent *ents, int nent,
				    int port);
	ibv_exp_no_slot exp_query_intf;
	ibv_exp_no_slot exp_release_intf;
	ibv_exp_no_slot exp_create_res_domain;
	ibv_exp_no_slot exp_destroy_res_domain;
	ibv_exp_no_slot lib_exp_use_priv_env;
	ibv_exp_no_slot lib_exp_setenv;
	void *venv;
	ibv_exp_no_slot drv_exp_dereg_mr;
	ibv_exp_no_slot ABI_placeholder2;
	ibv_exp_no_slot ABI_placeholder1;
	ibv_exp_no_slot drv_exp_prefetch_mr;
	ibv_exp_no_slot lib_exp_prefetch_mr;
	ibv_exp_no_slot drv_exp_alloc_mkey_list_memory;
	struct ibv_exp_mkey_list_container *(*lib_exp_alloc_mkey_list_memory)(
		struct ibv_exp_mkey_list_container_attr *attr);
	ibv_exp_no_slot drv_exp_dealloc_mkey_list_memory;
	int (*lib_exp_dealloc_mkey_list_memory)(
		struct ibv_exp_mkey_list_container *mem);
	ibv_exp_no_slot drv_exp_query_mkey;
	int (*lib_exp_query_mkey)(struct ibv_mr *mr,
				  struct ibv_exp_mkey_attr *attr);
	ibv_exp_no_slot drv_exp_create_mr;
	struct ibv_mr *(*lib_exp_create_mr)(struct ibv_exp_create_mr_in *in);
	ibv_exp_no_slot drv_exp_arm_dct;
	int (*lib_exp_arm_dct)(struct ibv_exp_dct *dct,
			       struct ibv_exp_arm_attr *attr);
	ibv_exp_no_slot drv_exp_bind_mw;
	int (*lib_exp_bind_mw)(struct ibv_exp_mw_bind *bind);
	int (*drv_exp_post_send)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr,
				 struct ibv_exp_send_wr **bad_wr);
	ibv_exp_no_slot drv_exp_reg_mr;
	struct ibv_mr *(*lib_exp_reg_mr)(struct ibv_exp_reg_mr_in *in);
	ibv_exp_no_slot drv_exp_ibv_create_ah;
	ibv_exp_no_slot drv_exp_query_values;
	struct ibv_cq *(*exp_create_cq)(struct ibv_context *context, int cqe,
					struct ibv_comp_channel *channel,
					int comp_vector,
					struct ibv_exp_cq_init_attr *attr);
	int (*drv_exp_ibv_poll_cq)(struct ibv_cq *cq, int num_entries,
				   struct ibv_exp_wc *wc, uint32_t wc_size);
	ibv_exp_no_slot drv_exp_get_legacy_xrc;
	ibv_exp_no_slot drv_exp_set_legacy_xrc;
	ibv_exp_no_slot drv_exp_ibv_reg_shared_mr;
	ibv_exp_no_slot lib_exp_ibv_reg_shared_mr;
	ibv_exp_no_slot drv_exp_modify_qp;
	int (*lib_exp_modify_qp)(struct ibv_qp *qp,
				 struct ibv_exp_qp_attr *attr,
				 uint64_t exp_attr_mask);
	ibv_exp_no_slot drv_exp_post_task;
	int (*lib_exp_post_task)(struct ibv_context *context,
				 struct ibv_exp_task *task,
				 struct ibv_exp_task **bad_task);
	ibv_exp_no_slot drv_exp_modify_cq;
	int (*lib_exp_modify_cq)(struct ibv_cq *cq,
				 struct ibv_exp_cq_attr *attr, int mask);
	ibv_exp_no_slot drv_exp_ibv_destroy_flow;
	ibv_exp_no_slot lib_exp_ibv_destroy_flow;
	ibv_exp_no_slot drv_exp_ibv_create_flow;
	ibv_exp_no_slot lib_exp_ibv_create_flow;
	ibv_exp_no_slot drv_exp_query_port;
	ibv_exp_no_slot lib_exp_query_port;
	struct ibv_exp_dct *(*create_dct)(struct ibv_context *context,
					  struct ibv_exp_dct_init_attr *attr);
	int (*destroy_dct)(struct ibv_exp_dct *dct);
	int (*query_dct)(struct ibv_exp_dct *dct,
			 struct ibv_exp_dct_attr *attr);
	ibv_exp_no_slot drv_exp_query_device;
	int (*lib_exp_query_device)(struct ibv_context *context,
				    struct ibv_exp_device_attr *attr);
	ibv_exp_no_slot drv_exp_create_qp;
	struct ibv_qp *(*lib_exp_create_qp)(struct ibv_context *context,
					    struct ibv_exp_qp_init_attr *attr);
	size_t sz; /* of this structure, as the library has it */
};

/* In the 64 bits before verbs_context.sz, has_comp_mask of that release and
 * unused by rdma-core: there is a verbs_context_exp below the context. */
#define VERBS_CONTEXT_EXP (1ULL << 62)

/* NULL: the library has no such table. */
static inline struct verbs_context_exp *
verbs_get_exp_ctx(struct ibv_context *context)
{
	struct verbs_context *v = verbs_get_ctx(context);
	uint64_t flags;

	if (!v)
		return NULL;
	/* By its place: its name is not the same in every verbs.h. */
	memcpy(&flags,
	       (const char *)v + offsetof(struct verbs_context, sz) -
		       sizeof(flags),
	       sizeof(flags));
	if (!(flags & VERBS_CONTEXT_EXP))
		return NULL;
	return (struct verbs_context_exp
			*)(void *)((char *)context -
				   (v->sz - sizeof(*context)) -
				   sizeof(struct verbs_context_exp));
}

/* Is there room for a slot at that offset of our structure? */
static inline int ibv_exp_has_slot(const struct verbs_context_exp *exp,
				   size_t offset)
{
	return exp && exp->sz >= sizeof(*exp) - offset;
}

/* The table of a context, if it has the slot; else NULL. */
#define verbs_get_exp_ctx_op(context, slot)                                    \
	__extension__({                                                        \
		struct verbs_context_exp *exp_ctx_ =                           \
			verbs_get_exp_ctx(context);                            \
		(ibv_exp_has_slot(exp_ctx_,                                    \
				  offsetof(struct verbs_context_exp, slot)) && \
		 exp_ctx_->slot)                                               \
			? exp_ctx_                                             \
			: NULL;                                                \
	})

/* EINVAL, and a message, for a comp_mask beyond the known bits; else 0. */
static inline int ibv_exp_check_comp_mask(const char *call, uint64_t mask,
					  uint64_t known)
{
	if (mask <= known)
		return 0;
	fprintf(stderr,
		"urnic: %s: comp_mask 0x%llx has bits this library does not know (known: 0x%llx)\n",
		call, (unsigned long long)mask, (unsigned long long)known);
	errno = EINVAL;
	return EINVAL;
}

static inline int ibv_exp_query_device(struct ibv_context *context,
				       struct ibv_exp_device_attr *attr)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(context, lib_exp_query_device);

	if (!exp)
		return ENOSYS;
	if ((attr->comp_mask & IBV_EXP_DEVICE_ATTR_COMP_MASK_2) &&
	    ibv_exp_check_comp_mask(__func__, attr->comp_mask_2,
				    IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1))
		return EINVAL;
	return exp->lib_exp_query_device(context, attr);
}

static inline struct ibv_qp *
ibv_exp_create_qp(struct ibv_context *context,
		  struct ibv_exp_qp_init_attr *attr)
{
	struct verbs_context_exp *exp;

	/* The standard call has all of it: any library serves. */
	if (attr->comp_mask == IBV_EXP_QP_INIT_ATTR_PD)
		return ibv_create_qp(attr->pd,
				     (struct ibv_qp_init_attr *)(void *)attr);
	exp = verbs_get_exp_ctx_op(context, lib_exp_create_qp);
	if (!exp) {
		errno = ENOSYS;
		return NULL;
	}
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_QP_INIT_ATTR_RESERVED1 - 1))
		return NULL;
	return exp->lib_exp_create_qp(context, attr);
}

static inline int ibv_exp_modify_qp(struct ibv_qp *qp,
				    struct ibv_exp_qp_attr *attr,
				    uint64_t exp_attr_mask)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(qp->context, lib_exp_modify_qp);

	if (!exp)
		return errno = ENOSYS;
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_QP_ATTR_RESERVED - 1))
		return EINVAL;
	return exp->lib_exp_modify_qp(qp, attr, exp_attr_mask);
}

static inline struct ibv_cq *
ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
		  struct ibv_comp_channel *channel, int comp_vector,
		  struct ibv_exp_cq_init_attr *attr)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(context, exp_create_cq);
	struct ibv_cq *cq;

	if (!exp) {
		errno = ENOSYS;
		return NULL;
	}
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_CQ_INIT_ATTR_RESERVED1 - 1))
		return NULL;
	pthread_mutex_lock(&context->mutex);
	cq = exp->exp_create_cq(context, cqe, channel, comp_vector, attr);
	if (cq) {
		cq->context = context;
		cq->channel = channel;
		cq->cq_context = cq_context;
		cq->comp_events_completed = 0;
		cq->async_events_completed = 0;
		pthread_mutex_init(&cq->mutex, NULL);
		pthread_cond_init(&cq->cond, NULL);
		if (channel)
			channel->refcnt++;
	}
	pthread_mutex_unlock(&context->mutex);
	return cq;
}

static inline int ibv_exp_modify_cq(struct ibv_cq *cq,
				    struct ibv_exp_cq_attr *cq_attr,
				    int cq_attr_mask)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(cq->context, lib_exp_modify_cq);

	if (!exp)
		return ENOSYS;
	if (ibv_exp_check_comp_mask(__func__, cq_attr->comp_mask,
				    IBV_EXP_CQ_ATTR_RESERVED - 1))
		return EINVAL;
	return exp->lib_exp_modify_cq(cq, cq_attr, cq_attr_mask);
}

/* wc_size: bytes of an element of wc, as the program was compiled */
static inline int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries,
				  struct ibv_exp_wc *wc, uint32_t wc_size)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(cq->context, drv_exp_ibv_poll_cq);

	return exp ? exp->drv_exp_ibv_poll_cq(cq, num_entries, wc, wc_size)
		   : -ENOSYS;
}

static inline int ibv_exp_post_send(struct ibv_qp *qp,
				    struct ibv_exp_send_wr *wr,
				    struct ibv_exp_send_wr **bad_wr)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(qp->context, drv_exp_post_send);

	return exp ? exp->drv_exp_post_send(qp, wr, bad_wr) : -ENOSYS;
}

static inline int ibv_exp_post_task(struct ibv_context *context,
				    struct ibv_exp_task *task,
				    struct ibv_exp_task **bad_task)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(context, lib_exp_post_task);

	if (!exp)
		return ENOSYS;
	if (ibv_exp_check_comp_mask(__func__, task->comp_mask,
				    IBV_EXP_TASK_RESERVED - 1))
		return EINVAL;
	return exp->lib_exp_post_task(context, task, bad_task);
}

static inline struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(in->pd->context, lib_exp_reg_mr);

	if (!exp) {
		errno = ENOSYS;
		return NULL;
	}
	if (ibv_exp_check_comp_mask(__func__, in->comp_mask,
				    IBV_EXP_REG_MR_RESERVED - 1))
		return NULL;
	return exp->lib_exp_reg_mr(in);
}

static inline int ibv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(mw_bind->mw->context, lib_exp_bind_mw);

	if (!exp)
		return errno = ENOSYS;
	if (ibv_exp_check_comp_mask(__func__, mw_bind->comp_mask,
				    IBV_EXP_BIND_MW_RESERVED - 1))
		return EINVAL;
	return exp->lib_exp_bind_mw(mw_bind);
}

static inline struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(in->pd->context, lib_exp_create_mr);
	struct ibv_mr *mr;

	if (!exp) {
		errno = ENOSYS;
		return NULL;
	}
	if (ibv_exp_check_comp_mask(__func__, in->comp_mask,
				    IBV_EXP_CREATE_MR_IN_RESERVED - 1))
		return NULL;
	mr = exp->lib_exp_create_mr(in);
	if (mr)
		mr->pd = in->pd;
	return mr;
}

static inline int ibv_exp_query_mkey(struct ibv_mr *mr,
				     struct ibv_exp_mkey_attr *attr)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(mr->context, lib_exp_query_mkey);

	if (!exp)
		return errno = ENOSYS;
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_MKEY_ATTR_RESERVED - 1))
		return EINVAL;
	return exp->lib_exp_query_mkey(mr, attr);
}

static inline struct ibv_exp_mkey_list_container *
ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr)
{
	struct verbs_context_exp *exp = verbs_get_exp_ctx_op(
		attr->pd->context, lib_exp_alloc_mkey_list_memory);

	if (!exp) {
		errno = ENOSYS;
		return NULL;
	}
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_MKEY_LIST_CONTAINER_RESERVED - 1))
		return NULL;
	return exp->lib_exp_alloc_mkey_list_memory(attr);
}

static inline int
ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem)
{
	struct verbs_context_exp *exp = verbs_get_exp_ctx_op(
		mem->context, lib_exp_dealloc_mkey_list_memory);

	return exp ? exp->lib_exp_dealloc_mkey_list_memory(mem)
		   : (errno = ENOSYS);
}

static inline struct ibv_exp_dct *
ibv_exp_create_dct(struct ibv_context *context,
		   struct ibv_exp_dct_init_attr *attr)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(context, create_dct);
	struct ibv_exp_dct *dct;

	if (!exp) {
		errno = ENOSYS;
		return NULL;
	}
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_DCT_INIT_ATTR_RESERVED - 1))
		return NULL;
	pthread_mutex_lock(&context->mutex);
	dct = exp->create_dct(context, attr);
	if (dct)
		dct->context = context;
	pthread_mutex_unlock(&context->mutex);
	return dct;
}

static inline int ibv_exp_destroy_dct(struct ibv_exp_dct *dct)
{
	struct ibv_context *context = dct->context;
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(context, destroy_dct);
	int rc;

	if (!exp)
		return errno = ENOSYS;
	pthread_mutex_lock(&context->mutex);
	rc = exp->destroy_dct(dct);
	pthread_mutex_unlock(&context->mutex);
	return rc;
}

static inline int ibv_exp_query_dct(struct ibv_exp_dct *dct,
				    struct ibv_exp_dct_attr *attr)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(dct->context, query_dct);
	int rc;

	if (!exp)
		return errno = ENOSYS;
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_DCT_ATTR_RESERVED - 1))
		return EINVAL;
	pthread_mutex_lock(&dct->context->mutex);
	rc = exp->query_dct(dct, attr);
	pthread_mutex_unlock(&dct->context->mutex);
	return rc;
}

static inline int ibv_exp_arm_dct(struct ibv_exp_dct *dct,
				  struct ibv_exp_arm_attr *attr)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(dct->context, lib_exp_arm_dct);
	int rc;

	if (!exp)
		return errno = ENOSYS;
	if (ibv_exp_check_comp_mask(__func__, attr->comp_mask,
				    IBV_EXP_ARM_ATTR_RESERVED - 1))
		return EINVAL;
	pthread_mutex_lock(&dct->context->mutex);
	rc = exp->lib_exp_arm_dct(dct, attr);
	pthread_mutex_unlock(&dct->context->mutex);
	return rc;
}

/* The number of entries; -1 and errno.  Not thread-safe. */
static inline int ibv_exp_poll_dc_info(struct ibv_context *context,
				       struct ibv_exp_dc_info_ent *ents,
				       int nent, int port)
{
	struct verbs_context_exp *exp =
		verbs_get_exp_ctx_op(context, drv_exp_poll_dc_info);

	if (!exp) {
		errno = ENOSYS;
		return -1;
	}
	return exp->drv_exp_poll_dc_info(context, ents, nent, port);
}

#ifdef __cplusplus
}
#endif

#endif
