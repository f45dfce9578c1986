/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets of DC (roce/dc.h). The library holds context->mutex in every call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "verbs/convert.h"
#include "verbs/exp.h"
#include "verbs/objects.h"

#define ACCESS                                                                 \
	((uint32_t)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |         \
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))

/* Of 0 or 1, as that of address vectors (core/dev.c) */
#define HOP_LIMIT 64

static int check_parts(const struct ibv_exp_dct_init_attr *a)
{
	int rc = a->pd && a->cq && a->srq ? 0 : -EINVAL;

	if (!rc)
		rc = urv_check(URV_PD, a->pd);
	if (!rc)
		rc = urv_check(URV_CQ, a->cq);
	return rc ? rc : urv_check(URV_SRQ, a->srq);
}

/* The other attributes are checked by the adapter. */
static int check_init(const struct ibv_exp_dct_init_attr *a)
{
	if (a->comp_mask ||
	    a->create_flags & ~(uint32_t)IBV_EXP_DCT_CREATE_FLAGS_MASK ||
	    a->access_flags & ~ACCESS || a->flow_label > 0xfffff)
		return -EINVAL;
	if (a->create_flags)
		return -EOPNOTSUPP;
	return check_parts(a);
}

static int activate(struct urv_dct *dct, struct urv_context *c,
		    const struct ibv_exp_dct_init_attr *a)
{
	struct ur_qp_attr attr = {
		.state = UR_QPS_RTR,
		.path_mtu = a->mtu,
		.access = a->access_flags,
		.pkey_index = a->pkey_index,
		.port_num = a->port,
		.min_rnr_timer = a->min_rnr_timer,
		.dc_key = a->dc_key,
		.av = { .flow_label = a->flow_label,
			.sgid_index = a->gid_index,
			.tclass = a->tclass,
			.hop_limit = a->hop_limit,
			.port_num = a->port,
			.is_global = true },
	};
	const struct ur_dev_spec *spec = &c->dev->spec;
	struct ur_gid gid;
	int rc = ur_dev_gid(c->dev, a->port, a->gid_index, &gid);

	if (rc || ur_addr_is_zero(gid.addr))
		return -EINVAL;
	memcpy(attr.av.sgid, gid.addr, sizeof(gid.addr));
	/* As of address vectors (core/dev.c) */
	if (spec->nports > 1 && ur_dev_bind_is_bound(&spec->ports[a->port - 1]))
		attr.av.scope_id = gid.ifindex;
	if (attr.av.hop_limit <= 1)
		attr.av.hop_limit = HOP_LIMIT;
	return ur_adapter_qp_modify(c->adapter, &dct->core, &attr,
				    UR_QP_STATE | UR_QP_PKEY_INDEX |
					    UR_QP_PORT | UR_QP_ACCESS_FLAGS |
					    UR_QP_AV | UR_QP_PATH_MTU |
					    UR_QP_MIN_RNR_TIMER | UR_QP_DC_KEY);
}

static int make(struct urv_dct *dct, struct urv_context *c,
		const struct ibv_exp_dct_init_attr *a)
{
	struct ur_qp_init init = {
		.type = UR_QPT_DC_TGT,
		.pd = &urv_pd(a->pd)->core,
		.recv_cq = &urv_cq(a->cq)->core,
		.srq = &urv_srq(a->srq)->core,
		.async = &c->async,
		.object = &dct->ibv,
	};
	int rc = ur_adapter_qp_create(c->adapter, &dct->core, &init);

	if (rc)
		return rc;
	rc = activate(dct, c, a);
	if (rc)
		ur_adapter_qp_destroy(&dct->core);
	return rc;
}

static struct urv_dct *handle_new(struct urv_context *c)
{
	/* As of queue pairs (qp.c) */
	const size_t size = (sizeof(struct urv_dct) + 63) & ~(size_t)63;
	struct urv_dct *dct = aligned_alloc(64, size);
	uint32_t handle;

	if (dct)
		memset(dct, 0, size);
	dct = urv_object_new(c, dct, &c->device->qps,
			     c->device->spec->max.max_qp, &handle);
	if (dct)
		dct->ibv.handle = handle;
	return dct;
}

struct ibv_exp_dct *urv_exp_create_dct(struct ibv_context *context,
				       struct ibv_exp_dct_init_attr *attr)
{
	struct urv_context *c = urv_context(context);
	int rc = check_init(attr);
	struct urv_dct *dct;

	if (!rc && urv_is_iwarp(c))
		rc = -EOPNOTSUPP;
	if (rc)
		return urv_null(rc);
	dct = handle_new(c);
	if (!dct)
		return NULL;
	rc = make(dct, c, attr);
	if (rc) {
		urv_object_drop(c, dct, &c->device->qps);
		return urv_null(rc);
	}
	dct->ibv.context = context;
	dct->ibv.dct_num = dct->core.qpn;
	dct->ibv.pd = attr->pd;
	dct->ibv.srq = attr->srq;
	dct->ibv.cq = attr->cq;
	pthread_mutex_init(&dct->ibv.mutex, NULL);
	pthread_cond_init(&dct->ibv.cond, NULL);
	ur_list_add_tail(&c->dcts, &dct->node);
	urv_object_add(&dct->entry, URV_DCT, &dct->ibv);
	attr->inline_size = urv_exp_inline_recv(attr->inline_size);
	return &dct->ibv;
}

int urv_exp_destroy_dct(struct ibv_exp_dct *ibdct)
{
	struct urv_dct *dct = urv_dct(ibdct);
	int rc = urv_ending(URV_DCT, ibdct);
	struct urv_context *c;

	if (rc)
		return urv_errno(rc);
	c = urv_context(ibdct->context);
	rc = urv_ended(&dct->entry,
		       dct->gone ? 0 : ur_adapter_qp_destroy(&dct->core));
	if (rc)
		return urv_errno(rc);
	ur_list_del(&dct->node);
	pthread_mutex_destroy(&ibdct->mutex);
	pthread_cond_destroy(&ibdct->cond);
	urv_object_free(c, URV_DCT, dct, &c->device->qps);
	return 0;
}

void urv_dcts_end(struct urv_context *c)
{
	ur_list_each_safe(struct urv_dct, dct, &c->dcts, node) {
		dct->gone = ur_adapter_qp_destroy(&dct->core) == 0;
		ur_list_del(&dct->node);
	}
}

int urv_exp_query_dct(struct ibv_exp_dct *ibdct, struct ibv_exp_dct_attr *attr)
{
	struct urv_dct *dct = urv_dct(ibdct);
	int rc = urv_check(URV_DCT, ibdct);
	struct ur_qp_attr in;

	if (!rc)
		rc = urv_context_check(ibdct->context);
	if (rc)
		return urv_errno(rc);
	if (attr->comp_mask)
		return urv_errno(-EINVAL);
	ur_adapter_qp_query(&dct->core, &in);
	*attr = (struct ibv_exp_dct_attr){
		.dc_key = in.dc_key,
		.port = in.port_num,
		.access_flags = in.access,
		.min_rnr_timer = in.min_rnr_timer,
		.tclass = in.av.tclass,
		.flow_label = in.av.flow_label,
		.mtu = (enum ibv_mtu)in.path_mtu,
		.pkey_index = (uint8_t)in.pkey_index,
		.gid_index = in.av.sgid_index,
		.hop_limit = in.av.hop_limit,
		.key_violations = atomic_load(&dct->core.key_violations),
		.state = IBV_EXP_DCT_STATE_ACTIVE,
		.srq = ibdct->srq,
		.cq = ibdct->cq,
		.pd = ibdct->pd,
	};
	return 0;
}

int urv_exp_arm_dct(struct ibv_exp_dct *ibdct, struct ibv_exp_arm_attr *attr)
{
	int rc = urv_check(URV_DCT, ibdct);

	if (!rc)
		rc = urv_context_check(ibdct->context);
	if (!rc && attr->comp_mask)
		rc = -EINVAL;
	if (rc)
		return urv_errno(rc);
	atomic_store(&urv_dct(ibdct)->core.armed, true);
	return 0;
}
