/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and shared receive queues of ids, with the CQs they need. */
#include <errno.h>
#include <string.h>

#include "rdmacm/id.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

#define IW_ACCESS                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/*
 * Before there is a connection.  The kernel's cma gives the same, but no rights
 * on iWARP either, where none are added later: its providers ignore them, ours
 * does not.
 */
static void first_attr(const struct urc_id *id, struct ibv_qp_attr *attr,
		       int *mask)
{
	*mask = IBV_QP_STATE;
	if (id->device->iwarp) {
		attr->qp_access_flags = IW_ACCESS;
		*mask |= IBV_QP_ACCESS_FLAGS;
		return;
	}
	attr->pkey_index = 0;
	attr->port_num = id->id.port_num;
	*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (urc_is_ud(id)) {
		attr->qkey = RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
	} else {
		attr->qp_access_flags = 0;
		*mask |= IBV_QP_ACCESS_FLAGS;
	}
}

static void fill_address(const struct urc_id *id, const struct ur_av *av,
			 struct ibv_ah_attr *ah)
{
	int index;

	ah->port_num = id->id.port_num;
	index = ur_dev_gid_find(id->device->dev, av->sgid, &ah->port_num);
	if (index >= 0)
		ah->grh.sgid_index = (uint8_t)index;
}

static int conn_attr(struct urc_id *id, struct ibv_qp_attr *attr, int *mask)
{
	struct ur_qp_attr in = { .state = UR_QPS_RESET };
	enum ibv_qp_state state = attr->qp_state;
	uint32_t in_mask = 0;
	int rc = ur_conn_qp_attr(id->conn[0].conn, (enum ur_qp_state)state, &in,
				 &in_mask);

	if (rc)
		return rc;
	urv_qp_attr_to_ibv(attr, &in);
	attr->qp_state = state;
	attr->port_num = id->id.port_num;
	*mask = (int)in_mask;
	if (in_mask & IBV_QP_AV)
		fill_address(id, &in.av, &attr->ah_attr);
	return 0;
}

static int get_attr(struct urc_id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum urc_state state = id->state;

	if (!id->device || attr->qp_state > IBV_QPS_ERR)
		return -EINVAL;
	if (!urc_is_ud(id) && (state == URC_CONNECT || state == URC_DISCONNECT))
		return conn_attr(id, attr, mask);
	first_attr(id, attr, mask);
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *pub, struct ibv_qp_attr *qp_attr,
		      int *qp_attr_mask)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = get_attr(id, qp_attr, qp_attr_mask);
	return urv_minus_one(rc);
}

/* On to `state` as the connection says; depth: NULL, or an attribute of that
 * state which the application has limited. */
static int step(struct urc_id *id, enum ibv_qp_state state, uint8_t depth)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;
	int rc = get_attr(id, &attr, &mask);

	if (rc || !mask)
		return rc;
	if (state == IBV_QPS_RTR && depth != RDMA_MAX_RESP_RES)
		attr.max_dest_rd_atomic = depth;
	if (state == IBV_QPS_RTS && depth != RDMA_MAX_INIT_DEPTH)
		attr.max_rd_atomic = depth;
	return -ibv_modify_qp(id->id.qp, &attr, mask);
}

int urc_qp_connect(struct urc_id *id, uint8_t responder_resources,
		   uint8_t initiator_depth)
{
	int rc = step(id, IBV_QPS_INIT, UINT8_MAX);

	if (rc == 0)
		rc = step(id, IBV_QPS_RTR, responder_resources);
	if (rc == 0)
		rc = step(id, IBV_QPS_RTS, initiator_depth);
	return rc;
}

void urc_qp_error(struct urc_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (id->id.qp)
		(void)ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

/* Datagrams can be sent and received from now on. */
static int start_ud(struct urc_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask = 0;
	int rc = get_attr(id, &attr, &mask);

	if (rc == 0)
		rc = -ibv_modify_qp(qp, &attr, mask);
	attr.qp_state = IBV_QPS_RTR;
	if (rc == 0)
		rc = -ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	if (rc == 0)
		rc = -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return rc;
}

/* Receives can be posted from now on. */
static int start_connected(struct urc_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask = 0;
	int rc = get_attr(id, &attr, &mask);

	return rc || !mask ? rc : -ibv_modify_qp(qp, &attr, mask);
}

static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		(void)ibv_destroy_cq(*cq);
	if (*channel)
		(void)ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	destroy_cq(&id->recv_cq, &id->recv_cq_channel);
	destroy_cq(&id->send_cq, &id->send_cq_channel);
}

/* rdma_get_send_comp() and its sister rely on cq_context. */
static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
		     struct ibv_comp_channel **channel)
{
	int rc;

	if (!size || *cq)
		return 0;
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -errno;
	*cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
	if (*cq)
		return 0;
	rc = -errno;
	destroy_cq(cq, channel);
	return rc;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send, uint32_t recv)
{
	int rc = create_cq(id, recv, &id->recv_cq, &id->recv_cq_channel);

	if (rc == 0)
		rc = create_cq(id, send, &id->send_cq, &id->send_cq_channel);
	if (rc)
		destroy_cqs(id);
	return rc;
}

/* What the application gives must be what the id has, if it has some. */
static int check_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (id->qp || !id->verbs)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	} else if (attr->pd->context != id->verbs) {
		return -EINVAL;
	}
	if (id->recv_cq && attr->recv_cq && id->recv_cq != attr->recv_cq)
		return -EINVAL;
	if (id->send_cq && attr->send_cq && id->send_cq != attr->send_cq)
		return -EINVAL;
	if (id->srq && attr->srq && id->srq != attr->srq)
		return -EINVAL;
	return 0;
}

/*
 * Adapters round inline data up to what a request has room for anyway, and
 * rdma_xclient, for one, sends 16 bytes inline without asking for any.
 */
static void round_inline(struct ibv_qp_cap *cap)
{
	uint32_t room = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge);

	if (cap->max_inline_data < room)
		cap->max_inline_data = room;
}

static int fill_xrcd(struct urc_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type != IBV_QPT_XRC_RECV ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD))
		return 0;
	attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	return urc_device_xrcd(id->device, &attr->xrcd);
}

static int make_qp(struct urc_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = ibv_create_qp_ex(id->id.verbs, attr);
	int rc;

	if (!qp)
		return -errno;
	rc = urc_is_ud(id) ? start_ud(id, qp) : start_connected(id, qp);
	if (rc) {
		ibv_destroy_qp(qp);
		return rc;
	}
	if (qp->pd) /* which an XRC target has not */
		id->id.pd = qp->pd;
	id->id.qp = qp;
	atomic_store_explicit(&id->qpn, qp->qp_num, memory_order_relaxed);
	return 0;
}

static int create_qp(struct urc_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_cm_id *pub = &id->id;
	bool had_cqs = pub->recv_cq || pub->send_cq;
	int rc = check_qp(pub, attr);

	if (rc == 0)
		rc = fill_xrcd(id, attr);
	if (rc == 0)
		rc = create_cqs(pub, attr->send_cq ? 0 : attr->cap.max_send_wr,
				attr->recv_cq ? 0 : attr->cap.max_recv_wr);
	if (rc)
		return rc;
	if (!attr->send_cq)
		attr->send_cq = pub->send_cq ? pub->send_cq : pub->recv_cq;
	if (!attr->recv_cq)
		attr->recv_cq = pub->recv_cq ? pub->recv_cq : attr->send_cq;
	if (!attr->srq)
		attr->srq = pub->srq;
	round_inline(&attr->cap);
	rc = make_qp(id, attr);
	if (rc && !had_cqs)
		destroy_cqs(pub);
	return rc;
}

int rdma_create_qp_ex(struct rdma_cm_id *pub, struct ibv_qp_init_attr_ex *attr)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = create_qp(id, attr);
	return urv_minus_one(rc);
}

/* The extended attributes begin with the ordinary ones (verbs.h). */
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = { .comp_mask = 0 };

	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd;
	if (rdma_create_qp_ex(id, &ex))
		return -1;
	memcpy(attr, &ex, sizeof(*attr));
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	/* The SRQ of an XRC target uses them until rdma_destroy_srq(). */
	if (id->qp_type != IBV_QPT_XRC_RECV || !id->srq)
		destroy_cqs(id);
}

static int fill_srq(struct urc_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct rdma_cm_id *pub = &id->id;
	int rc;

	if (!pub->verbs || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = pub->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->srq_type != IBV_SRQT_XRC)
		return 0;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		rc = urc_device_xrcd(id->device, &attr->xrcd);
		if (rc)
			return rc;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		rc = create_cqs(pub, 0, attr->attr.max_wr);
		if (rc)
			return rc;
		attr->cq = pub->recv_cq;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	}
	return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *pub,
		       struct ibv_srq_init_attr_ex *attr)
{
	struct urc_id *id = urc_id(pub);
	struct ibv_srq *srq;
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = fill_srq(id, attr);
	if (rc)
		return urv_minus_one(rc);
	srq = ibv_create_srq_ex(pub->verbs, attr);
	if (!srq) {
		rc = -errno;
		if (attr->srq_type == IBV_SRQT_XRC)
			destroy_cqs(pub);
		return urv_minus_one(rc);
	}
	if (!pub->pd)
		pub->pd = attr->pd;
	pub->srq = srq;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
		    struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = { .comp_mask = 0 };

	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	ex.srq_type =
		id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	ex.pd = pd;
	if (rdma_create_srq_ex(id, &ex))
		return -1;
	memcpy(attr, &ex, sizeof(*attr));
	return 0;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}
