/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * User-mode memory registration: keys over lists of regions (core/umr.h). The
 * list is copied when it is posted, so a container of lists holds no memory, and
 * an inline list differs only in its limit.
 *
 * As with memory windows, posting checks the calling conventions and the list
 * itself. Regions, domain, range and rights are those at the time of execution;
 * errors are reported by the completion (MW_BIND_ERR).
 */
#include <errno.h>
#include <stdlib.h>

#include "core/umr.h"
#include "verbs/convert.h"
#include "verbs/exp.h"
#include "verbs/mr.h"
#include "verbs/send.h"

#define KEY_RIGHTS                                                             \
	((uint64_t)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |         \
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))

#define SEND_FLAGS                                                             \
	((uint64_t)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_INLINE))

void urv_umr_caps(struct ibv_exp_umr_caps *caps)
{
	*caps = (struct ibv_exp_umr_caps){
		.max_klm_list_size = UR_UMR_BLOCKS,
		.max_send_wqe_inline_klms = UR_UMR_INLINE,
		.max_umr_recursion_depth = UR_UMR_DEPTH,
		.max_umr_stride_dimension = 1,
	};
}

static int check_rights(uint64_t exp_access)
{
	uint32_t access;
	int rc = urv_exp_access(exp_access, 0, &access);

	/* A window in an indirect key is not supported. */
	return !rc && (exp_access & ~KEY_RIGHTS) ? -EOPNOTSUPP : rc;
}

struct ibv_mr *urv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	const struct ibv_exp_mr_init_attr *a = &in->attr;
	int rc = check_rights(a->exp_access_flags);
	struct urv_mr *mr;

	if (in->comp_mask ||
	    a->create_flags >= IBV_EXP_MR_FIXED_BUFFER_SIZE * 2)
		rc = -EINVAL;
	else if (a->create_flags != IBV_EXP_MR_INDIRECT_KLMS && !rc)
		rc = a->create_flags ? -EOPNOTSUPP : -EINVAL;
	if (rc)
		return urv_null(rc);
	mr = urv_mr_create(in->pd, &(struct urv_mr_spec){
					   .kind = UR_MR_INDIRECT,
					   .max_list = a->max_klm_list_size });
	return mr ? &mr->ibv : NULL;
}

/* The key as it is now: 0; -EINVAL: not an indirect one of that adapter. */
static int find_key(struct ur_mr_table *t, const struct ibv_mr *mr,
		    struct ur_mr *out)
{
	if (!mr || urv_context(mr->context)->mrs != t ||
	    ur_mr_peek(t, mr->lkey, out) || out->kind != UR_MR_INDIRECT)
		return -EINVAL;
	return 0;
}

int urv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr)
{
	int rc = urv_check(URV_MR, mr);
	struct ur_mr key;

	if (!rc)
		rc = attr->comp_mask ? -EINVAL
				     : find_key(urv_context(mr->context)->mrs,
						mr, &key);
	if (rc)
		return urv_errno(rc);
	attr->max_klm_list_size = key.max_list;
	return 0;
}

struct list_memory {
	struct ibv_exp_mkey_list_container ibv;
	struct ur_pd *pd;
};

/* A container has to be freed before its device is closed: it counts as a user
 * of its protection domain, which belongs to the device's context. */
struct ibv_exp_mkey_list_container *
urv_exp_alloc_mkey_list(struct ibv_exp_mkey_list_container_attr *attr)
{
	int rc = urv_check(URV_PD, attr->pd);
	struct list_memory *m;

	if (!rc && (attr->comp_mask || attr->max_klm_list_size == 0 ||
		    attr->max_klm_list_size > UR_UMR_BLOCKS ||
		    attr->mkey_list_type != IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR))
		rc = -EINVAL;
	if (rc)
		return urv_null(rc);
	m = calloc(1, sizeof(*m));
	if (!m)
		return urv_null(-ENOMEM);
	m->ibv.max_klm_list_size = attr->max_klm_list_size;
	m->ibv.context = attr->pd->context;
	m->pd = &urv_pd(attr->pd)->core;
	atomic_fetch_add(&m->pd->users, 1);
	return &m->ibv;
}

int urv_exp_dealloc_mkey_list(struct ibv_exp_mkey_list_container *list)
{
	struct list_memory *m = ur_container_of(list, struct list_memory, ibv);

	atomic_fetch_sub(&m->pd->users, 1);
	free(m);
	return 0;
}

/* --- requests --- */

static int set_block(const struct urv_qp *qp, struct ur_umr_block *b,
		     const struct ibv_mr *mr, uint64_t va, size_t bytes)
{
	if (!mr || urv_context(mr->context)->mrs != qp->core.mrs)
		return EINVAL;
	b->lkey = mr->lkey;
	b->va = va;
	b->bytes = bytes;
	return 0;
}

static int set_regions(const struct urv_qp *qp, struct ur_umr_list *list,
		       const struct ibv_exp_mem_region *r)
{
	int rc = r ? 0 : EINVAL;

	list->repeats = 1;
	for (uint32_t i = 0; i < list->n && !rc; i++)
		rc = set_block(qp, &list->block[i], r[i].mr, r[i].base_addr,
			       r[i].length);
	return rc;
}

static int set_repeats(const struct urv_qp *qp, struct ur_umr_list *list,
		       const struct ibv_exp_mem_repeat_block *r,
		       const size_t *repeat_count)
{
	int rc = r && repeat_count ? 0 : EINVAL;

	if (!rc)
		list->repeats = repeat_count[0];
	for (uint32_t i = 0; i < list->n && !rc; i++) {
		if (!r[i].byte_count || !r[i].stride)
			return EINVAL;
		rc = set_block(qp, &list->block[i], r[i].mr, r[i].base_addr,
			       r[i].byte_count[0]);
		list->block[i].stride = r[i].stride[0];
	}
	return rc;
}

static int set_blocks(const struct urv_qp *qp, struct ur_umr_list *list,
		      const struct ibv_exp_send_wr *x)
{
	int rc = EINVAL;

	switch ((enum ibv_exp_umr_wr_type)x->ext_op.umr.umr_type) {
	case IBV_EXP_UMR_MR_LIST:
		rc = set_regions(qp, list, x->ext_op.umr.mem_list.mem_reg_list);
		break;
	case IBV_EXP_UMR_REPEAT:
		rc = set_repeats(
			qp, list,
			x->ext_op.umr.mem_list.rb.mem_repeat_block_list,
			x->ext_op.umr.mem_list.rb.repeat_count);
		break;
	case IBV_EXP_UMR_MR_LIST_FIXED_SIZE:
		rc = EOPNOTSUPP;
		break;
	}
	return rc ? rc : -ur_umr_list_check(list);
}

/* Reports the same errors as mlx5. */
static int check_fill(const struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		      const struct ur_mr *key)
{
	const struct ibv_exp_mkey_list_container *m =
		x->ext_op.umr.memory_objects;
	uint32_t n = x->ext_op.umr.num_mrs;

	if (x->exp_send_flags & IBV_EXP_SEND_INLINE) {
		if (n > qp->max_inline_blocks)
			return EINVAL;
	} else if (!m || n > m->max_klm_list_size) {
		return EINVAL;
	}
	if (n == 0 || n > key->max_list)
		return EINVAL;
	if (x->ext_op.umr.umr_type == IBV_EXP_UMR_REPEAT &&
	    x->ext_op.umr.mem_list.rb.stride_dim != 1)
		return ENOMEM;
	return -check_rights(x->ext_op.umr.exp_access);
}

static int make_list(const struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		     const struct ur_mr *key, struct ur_umr_list **out)
{
	struct ur_umr_list *list;
	int rc = check_fill(qp, x, key);

	if (rc)
		return rc;
	list = ur_umr_list_new(x->ext_op.umr.num_mrs);
	if (!list)
		return ENOMEM;
	list->key = key->key;
	list->access = (uint32_t)x->ext_op.umr.exp_access;
	list->iova = x->ext_op.umr.base_addr;
	rc = set_blocks(qp, list, x);
	if (rc)
		free(list);
	else
		*out = list;
	return rc;
}

static int check_request(const struct urv_qp *qp,
			 const struct ibv_exp_send_wr *x, struct ur_mr *key)
{
	if (!qp->core.umr || x->exp_send_flags & ~SEND_FLAGS)
		return EINVAL;
	return -find_key(qp->core.mrs, x->ext_op.umr.modified_mr, key);
}

static int prepare(struct urv_umr_lists *lists, const struct urv_qp *qp,
		   const struct ibv_exp_send_wr *x)
{
	struct ur_umr_list *list;
	struct ur_mr key;
	int rc = check_request(qp, x, &key);

	if (rc || x->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE)
		return rc;
	rc = make_list(qp, x, &key, &list);
	if (rc)
		return rc;
	if (lists->ready)
		lists->last->next = list;
	else
		lists->ready = list;
	lists->last = list;
	return 0;
}

void urv_umr_prepare(struct urv_umr_lists *lists, const struct urv_qp *qp,
		     const struct ibv_exp_send_wr *x)
{
	if (!qp->core.umr)
		return; /* _stage() refuses them */
	for (; x && !lists->rc; x = x->next) {
		if (x->exp_opcode != IBV_EXP_WR_UMR_FILL &&
		    x->exp_opcode != IBV_EXP_WR_UMR_INVALIDATE)
			continue;
		lists->rc = prepare(lists, qp, x);
		if (lists->rc)
			lists->bad = x;
	}
}

void urv_umr_end(struct urv_umr_lists *lists)
{
	ur_umr_free_all(lists->ready);
	ur_umr_free_all(lists->left);
}

static void post_list(struct urv_qp *qp, const struct ur_swqe *w,
		      struct urv_umr_lists *lists)
{
	struct ur_umr_list *list = lists->ready, *was;

	lists->ready = list->next;
	list->next = NULL;
	was = ur_umr_post(&qp->core, w, list);
	if (!was)
		return;
	was->next = lists->left;
	lists->left = was;
}

int urv_umr_stage(struct urv_qp *qp, const struct ibv_exp_send_wr *x,
		  struct urv_umr_lists *lists)
{
	bool is_fill = x->exp_opcode == IBV_EXP_WR_UMR_FILL;
	struct ur_swqe *w;

	if (x == lists->bad)
		return lists->rc;
	if (!qp->core.umr || (is_fill && !lists->ready))
		return EINVAL;
	w = ur_sq_stage(&qp->core.sq);
	if (!w)
		return ENOMEM;
	w->wr_id = x->wr_id;
	w->opcode = is_fill ? UR_WR_UMR_FILL : UR_WR_UMR_INVALIDATE;
	/* Inline is the list, which the slot does not hold. */
	w->flags = (uint8_t)(x->exp_send_flags &
			     (UR_SEND_FENCE | UR_SEND_SIGNALED));
	w->num_sge = 0;
	w->length = 0;
	w->imm_be = x->ext_op.umr.modified_mr->lkey;
	if (is_fill)
		post_list(qp, w, lists);
	return 0;
}

/* --- queue pairs --- */

static bool wants(const struct ibv_exp_qp_init_attr *a)
{
	return (a->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS) &&
	       (a->exp_create_flags & IBV_EXP_QP_CREATE_UMR);
}

/* As mlx5 */
int urv_umr_check_qp(const struct ibv_exp_qp_init_attr *a)
{
	bool with_inline = a->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;

	if (with_inline && (!wants(a) || a->max_inl_send_klms > UR_UMR_INLINE))
		return -EINVAL;
	return 0;
}

int urv_umr_enable(struct urv_qp *qp, const struct ibv_exp_qp_init_attr *a)
{
	if (!wants(a))
		return 0;
	if (urv_op_kind(qp->op_type, UR_WR_UMR_FILL) == URV_OP_NONE)
		return -EINVAL;
	if (a->comp_mask & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS)
		qp->max_inline_blocks = a->max_inl_send_klms;
	return ur_umr_enable(&qp->core);
}
