/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault/state.h"
#include "verbs/convert.h"
#include "verbs/cross.h"
#include "verbs/domain.h"
#include "verbs/objects.h"
#include "verbs/ops.h"
#include "verbs/raw.h"
#include "verbs/send.h"
#include "verbs/xrc.h"

#define MODIFY_MASK                                                            \
	(IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY |        \
	 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | \
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |     \
	 IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |          \
	 IBV_QP_ALT_PATH | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |              \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP |      \
	 IBV_QP_DEST_QPN | IBV_QP_RATE_LIMIT)

static bool type_supported(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       type == IBV_QPT_RAW_PACKET || type == IBV_QPT_XRC_SEND ||
	       type == IBV_EXP_QPT_DC_INI;
}

static enum ur_qp_type type_of(enum ibv_qp_type type)
{
	return type == IBV_EXP_QPT_DC_INI ? UR_QPT_DC_INI
					  : (enum ur_qp_type)type;
}

/* Larger values than urnic's own limit are refused by the adapter, if it has
 * the type. */
static bool exceeds(const struct ibv_qp_cap *cap, uint32_t most_wr)
{
	return most_wr < UR_MAX_WR &&
	       (cap->max_send_wr > most_wr || cap->max_recv_wr > most_wr);
}

static int qp_init(struct urv_qp *qp, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr, const struct ur_qp_raw *raw,
		   uint32_t max_atomic_arg)
{
	struct urv_context *c = urv_context(pd->context);
	struct ur_qp_init init = {
		.type = type_of(attr->qp_type),
		.pd = &urv_pd(pd)->core,
		.send_cq = attr->send_cq ? &urv_cq(attr->send_cq)->core : NULL,
		.recv_cq = attr->recv_cq ? &urv_cq(attr->recv_cq)->core : NULL,
		.srq = attr->srq ? &urv_srq(attr->srq)->core : NULL,
		.sq_sig_all = attr->sq_sig_all != 0,
		.raw = *raw,
		.max_atomic_arg = max_atomic_arg,
		.async = &c->async,
		.object = &qp->ibv,
		.rings = urv_domain_enter(pd),
		.lane = urv_domain_lane(pd),
	};
	int rc;

	if (exceeds(&attr->cap, c->device->spec->max.max_qp_wr)) {
		urv_domain_leave(pd);
		return -EINVAL;
	}
	if (max_atomic_arg > 8)
		urv_inline_whole = true;
	urv_cap_from_ibv(&init.cap, &attr->cap);
	rc = ur_adapter_qp_create(c->adapter, &qp->core, &init);
	if (rc) {
		urv_domain_leave(pd);
		return rc;
	}
	qp->domain = urv_domain_of(pd);
	urv_cap_to_ibv(&attr->cap, &init.cap);
	qp->op_type = urv_is_iwarp(c) ? URV_OPS_IWARP : init.type;
	return 0;
}

static void qp_publish(struct urv_qp *qp, struct urv_context *c,
		       struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *ibv = &qp->ibv;

	ibv->context = &c->ibv.context;
	ibv->qp_context = attr->qp_context;
	ibv->pd = pd;
	ibv->send_cq = attr->send_cq;
	ibv->recv_cq = attr->recv_cq;
	ibv->srq = attr->srq;
	ibv->state = IBV_QPS_RESET;
	ibv->qp_type = attr->qp_type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	pthread_mutex_lock(&ibv->context->mutex);
	ur_list_add_tail(&c->qps, &qp->node);
	pthread_mutex_unlock(&ibv->context->mutex);
	urv_object_add(&qp->entry, URV_QP, ibv);
}

/* By default the limit is per lane, and the number of lanes is open. */
static uint32_t most_qps(const struct ur_dev_spec *s)
{
	return s->max.max_qp < UR_MAX_QP_PER_LANE ? s->max.max_qp : UINT32_MAX;
}

static struct urv_qp *handle_new(struct urv_context *c)
{
	/* The ring heads inside need cache lines of their own. */
	const size_t size = (sizeof(struct urv_qp) + 63) & ~(size_t)63;
	struct urv_qp *qp = aligned_alloc(64, size);
	uint32_t handle;

	if (qp)
		memset(qp, 0, size);
	qp = urv_object_new(c, qp, &c->device->qps, most_qps(c->device->spec),
			    &handle);
	if (!qp)
		return NULL;
	qp->ibv.handle = handle;
	qp->generation = c->generation;
	return qp;
}

static void handle_free(struct urv_qp *qp, struct urv_context *c)
{
	qp->generation = URV_DESTROYED;
	qp->core.sq.max_own = 0; /* sends no internal requests */
	urv_object_free(c, URV_QP, qp, &c->device->qps);
}

/* Objects that the type requires. */
static int check_parts(const struct ibv_qp_init_attr *attr,
		       const struct ur_qp_raw *raw)
{
	if (attr->qp_type == IBV_QPT_XRC_RECV) /* without a domain */
		return -EINVAL;
	if (!type_supported(attr->qp_type))
		return -EOPNOTSUPP;
	if (raw->rss.table)
		return 0;
	if (!attr->send_cq ||
	    (!attr->recv_cq && ur_qp_type_receives(type_of(attr->qp_type))))
		return -EINVAL;
	return attr->qp_type == IBV_QPT_RAW_PACKET && attr->srq ? -EINVAL : 0;
}

/* Do the referenced objects exist? */
static int check_known(const struct ibv_pd *pd,
		       const struct ibv_qp_init_attr *attr)
{
	int rc = urv_check(URV_PD, pd);

	if (!rc && attr->send_cq)
		rc = urv_check(URV_CQ, attr->send_cq);
	if (!rc && attr->recv_cq)
		rc = urv_check(URV_CQ, attr->recv_cq);
	if (!rc && attr->srq)
		rc = urv_check(URV_SRQ, attr->srq);
	return rc;
}

static struct urv_qp *qp_create(struct ibv_pd *pd,
				struct ibv_qp_init_attr *attr,
				const struct ur_qp_raw *raw,
				uint32_t max_atomic_arg)
{
	int rc = check_parts(attr, raw);
	struct urv_context *c;
	struct urv_qp *qp;

	if (!rc)
		rc = check_known(pd, attr);
	if (!rc)
		rc = ur_fault_call(UR_FAULT_create_qp);
	if (rc)
		return urv_null(rc);
	c = urv_context(pd->context);
	qp = handle_new(c);
	if (!qp)
		return NULL;
	rc = qp_init(qp, pd, attr, raw, max_atomic_arg);
	if (rc) {
		handle_free(qp, c);
		return urv_null(rc);
	}
	qp->ibv.qp_num = qp->core.qpn;
	qp_publish(qp, c, pd, attr);
	return qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static const struct ur_qp_raw plain;
	struct urv_qp *qp = qp_create(pd, attr, &plain, 0);

	return qp ? &qp->ibv : NULL;
}

/* A target has neither protection domain nor queues: only its first handle
 * creates it. */
static struct ibv_qp *target_publish(struct urv_qp *qp, struct urv_context *c,
				     void *qp_context)
{
	const struct ibv_qp_init_attr attr = { .qp_context = qp_context,
					       .qp_type = IBV_QPT_XRC_RECV };

	qp->op_type = UR_QPT_XRC_RECV;
	qp->ibv.qp_num = urv_core(qp)->qpn;
	qp_publish(qp, c, NULL, &attr);
	return &qp->ibv;
}

static struct ibv_qp *target_create(struct urv_context *c,
				    struct ibv_qp_init_attr_ex *ex)
{
	struct urv_qp *qp;
	int rc;

	if (!(ex->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !ex->xrcd)
		return urv_null(-EINVAL);
	rc = urv_check(URV_XRCD, ex->xrcd);
	if (rc)
		return urv_null(rc);
	qp = handle_new(c);
	if (!qp)
		return NULL;
	rc = urv_target_create(qp, c, urv_xrcd(ex->xrcd));
	if (rc) {
		handle_free(qp, c);
		return urv_null(rc);
	}
	memset(&ex->cap, 0, sizeof(ex->cap));
	return target_publish(qp, c, ex->qp_context);
}

static int check_open(const struct ibv_qp_open_attr *attr)
{
	const uint32_t need = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			      IBV_QP_OPEN_ATTR_TYPE;

	if (attr->comp_mask & ~(need | IBV_QP_OPEN_ATTR_CONTEXT))
		return -EOPNOTSUPP;
	if ((attr->comp_mask & need) != need || !attr->xrcd ||
	    attr->qp_type != IBV_QPT_XRC_RECV)
		return -EINVAL;
	return 0;
}

struct ibv_qp *urv_open_qp(struct ibv_context *context,
			   struct ibv_qp_open_attr *attr)
{
	struct urv_context *c = urv_context(context);
	int rc = check_open(attr);
	struct urv_qp *qp;

	if (!rc)
		rc = urv_check(URV_XRCD, attr->xrcd);
	if (rc)
		return urv_null(rc);
	qp = handle_new(c);
	if (!qp)
		return NULL;
	rc = urv_target_find(qp, c, urv_xrcd(attr->xrcd), attr->qp_num);
	if (rc) {
		handle_free(qp, c);
		return urv_null(rc);
	}
	return target_publish(qp, c,
			      attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT
				      ? attr->qp_context
				      : NULL);
}

static bool has_source_qpn(const struct ibv_qp_init_attr_ex *ex)
{
	return (ex->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	       (ex->create_flags & IBV_QP_CREATE_SOURCE_QPN);
}

/* Sending with another QP number requires the right to forge packets anyway. */
static bool may_forge(void)
{
	struct __user_cap_header_struct h = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &h, d) == 0 &&
	       (d[0].effective & 1u << CAP_NET_RAW);
}

static int check_source_qpn(const struct ibv_qp_init_attr_ex *ex)
{
	if (ex->create_flags != IBV_QP_CREATE_SOURCE_QPN ||
	    ex->qp_type != IBV_QPT_UD)
		return -EOPNOTSUPP;
	if (ex->source_qpn & ~0xffffffu)
		return -EINVAL;
	return may_forge() ? 0 : -EPERM;
}

static int check_ex(const struct ibv_qp_init_attr_ex *ex)
{
	if (ex->comp_mask &
	    ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			IBV_QP_INIT_ATTR_XRCD | URV_RAW_COMP_MASK |
			IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return -EOPNOTSUPP;
	if (has_source_qpn(ex)) {
		int rc = check_source_qpn(ex);

		if (rc)
			return rc;
	} else if ((ex->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
		   ex->create_flags && ex->qp_type != IBV_QPT_RAW_PACKET) {
		return -EOPNOTSUPP;
	}
	/* The builders cannot name a target of DC. */
	if (ex->qp_type == IBV_EXP_QPT_DC_INI &&
	    (ex->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return -EOPNOTSUPP;
	if (ex->qp_type == IBV_QPT_XRC_RECV)
		return ex->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
			       ? -EOPNOTSUPP
			       : 0;
	if (!(ex->comp_mask & IBV_QP_INIT_ATTR_PD) || !ex->pd ||
	    ex->comp_mask & IBV_QP_INIT_ATTR_XRCD)
		return -EINVAL;
	return 0;
}

/* The extended attributes begin with the ordinary ones (verbs.h). */
struct ibv_qp *urv_create_qp_ex(struct ibv_context *context,
				struct ibv_qp_init_attr_ex *ex)
{
	return urv_create_qp_sized(context, ex, 0);
}

struct ibv_qp *urv_create_qp_sized(struct ibv_context *context,
				   struct ibv_qp_init_attr_ex *ex,
				   uint32_t max_atomic_arg)
{
	struct ibv_qp_init_attr attr;
	struct ur_qp_raw raw;
	struct urv_qp *qp;
	int rc = check_ex(ex);

	if (!rc)
		rc = urv_raw_attrs(&raw, ex);
	if (rc)
		return urv_null(rc);
	if (ex->qp_type == IBV_QPT_XRC_RECV)
		return target_create(urv_context(context), ex);
	memcpy(&attr, ex, sizeof(attr));
	qp = qp_create(ex->pd, &attr, &raw, max_atomic_arg);
	if (!qp)
		return NULL;
	if (ex->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		rc = urv_wr_init(qp, ex->send_ops_flags);
		if (rc) {
			ibv_destroy_qp(&qp->ibv);
			return urv_null(rc);
		}
	}
	if (has_source_qpn(ex))
		qp->core.source_qpn = ex->source_qpn;
	ex->cap = attr.cap;
	return &qp->ibv;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibqp)
{
	struct urv_qp *qp = urv_qp(ibqp);

	return qp->has_builders ? &qp->ex : NULL;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	return urv_modify_qp(ibqp, attr, (uint32_t)attr_mask, NULL);
}

int urv_modify_qp(struct ibv_qp *ibqp, const struct ibv_qp_attr *attr,
		  uint32_t mask, const uint64_t *dc_key)
{
	struct urv_qp *qp = urv_qp(ibqp);
	int rc = urv_check(URV_QP, ibqp);
	struct urv_context *c;
	struct ur_qp_attr in;

	if (!rc)
		rc = urv_context_check(ibqp->context);
	if (!rc)
		rc = ur_fault_call(UR_FAULT_modify_qp);
	if (rc)
		return urv_errno(rc);
	c = urv_context(ibqp->context);
	/* RoCE refuses a change of capabilities by its table of states. */
	if ((mask & ~(uint32_t)MODIFY_MASK) ||
	    ((mask & (IBV_QP_RATE_LIMIT | IBV_QP_CAP)) && urv_is_iwarp(c)))
		return urv_errno(-EOPNOTSUPP);
	urv_qp_attr_from_ibv(&in, attr, mask);
	if (dc_key) {
		in.dc_key = *dc_key;
		mask |= UR_QP_DC_KEY;
	}
	rc = qp->target
		     ? urv_target_modify(qp, c->adapter, &in, mask)
		     : ur_adapter_qp_modify(c->adapter, &qp->core, &in, mask);
	if (rc)
		return urv_errno(rc);
	if (mask & IBV_QP_STATE)
		ibqp->state = attr->qp_state;
	if (qp->core.cross && (mask & IBV_QP_STATE) &&
	    attr->qp_state == IBV_QPS_RESET)
		urv_cross_reset(qp);
	return 0;
}

/* iWARP has no RESET; its states before a connection are shown as INIT. */
static enum ibv_qp_state shown_state(const struct urv_qp *qp,
				     enum ur_qp_state state)
{
	if (qp->op_type == URV_OPS_IWARP && state == UR_QPS_RESET)
		return IBV_QPS_INIT;
	return (enum ibv_qp_state)state;
}

/*
 * Everything is filled in, whatever is requested: some programs pass no mask.
 * The handle's own state changes only if the state was requested, as in
 * rdma-core: programs keep their own value there.
 */
int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init)
{
	struct urv_qp *qp = urv_qp(ibqp);
	int rc = urv_check(URV_QP, ibqp);
	struct ur_qp_attr out;

	if (rc)
		return urv_errno(rc);
	rc = urv_context_check(ibqp->context);
	if (qp->generation != urv_generation)
		return urv_errno(-ENODEV);
	if (rc)
		return urv_errno(rc);
	if (qp->core.raw.rss
		    .table) /* as mlx5: it has neither state nor queues */
		return urv_errno(-ENOSYS);
	if (qp->target)
		rc = urv_target_query(qp, &out);
	else
		ur_adapter_qp_query(&qp->core, &out);
	if (rc)
		return urv_errno(rc);
	urv_qp_attr_to_ibv(attr, &out);
	attr->qp_state = shown_state(qp, out.state);
	attr->cur_qp_state = shown_state(qp, out.cur_state);
	if (attr_mask & IBV_QP_STATE)
		ibqp->state = attr->qp_state;
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = attr->cap,
		.qp_type = ibqp->qp_type,
		.sq_sig_all = qp->core.sq_sig_all,
	};
	return 0;
}

int urv_qp_end(struct urv_qp *qp)
{
	return qp->target ? urv_target_put(qp)
			  : ur_adapter_qp_destroy(&qp->core);
}

static int end(struct urv_qp *qp, struct ibv_context *context)
{
	int rc;

	if (atomic_load(&qp->flows))
		return -EBUSY;
	if (qp->gone)
		return 0;
	rc = urv_qp_end(qp);
	if (rc)
		return rc;
	pthread_mutex_lock(&context->mutex);
	ur_list_del(&qp->node);
	pthread_mutex_unlock(&context->mutex);
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct urv_qp *qp = urv_qp(ibqp);
	int rc = urv_ending(URV_QP, ibqp);
	struct ibv_context *context;

	if (rc)
		return urv_errno(rc);
	context = ibqp->context;
	rc = urv_ended(&qp->entry, end(qp, context));
	if (rc)
		return urv_errno(rc);
	urv_domain_leave(qp->domain);
	pthread_mutex_destroy(&ibqp->mutex);
	pthread_cond_destroy(&ibqp->cond);
	handle_free(qp, urv_context(context));
	return 0;
}

/* As a provider without ECE answers. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return urv_errno(-EOPNOTSUPP);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return urv_errno(-EOPNOTSUPP);
}

/* Retransmission may write parts of a message twice: no guarantee. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
			       uint32_t flags)
{
	return 0;
}
