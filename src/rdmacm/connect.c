/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Making and ending connections.  Checks and defaults are those of rdma-core's
 * library and of the kernel's ucma, which applications have come to rely on.
 */
#include <errno.h>

#include "rdmacm/id.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

#define RETRY_MAX 7u /* three bits */

static uint8_t retries(uint8_t n)
{
	return n > RETRY_MAX ? RETRY_MAX : n;
}

/* NULL is for ids that have a QP, and for datagrams. */
static int check_param(const struct urc_id *id, const struct rdma_conn_param *p)
{
	const struct urc_device *d = id->device;

	if (!d)
		return -EINVAL;
	if (id->id.ps != RDMA_PS_TCP)
		return 0;
	if (!p)
		return id->id.qp ? 0 : -EINVAL;
	if (p->responder_resources != RDMA_MAX_RESP_RES &&
	    p->responder_resources > d->max_responder_resources)
		return -EINVAL;
	if (p->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    p->initiator_depth > d->max_initiator_depth)
		return -EINVAL;
	return 0;
}

/* What is asked for, or as much as the device and (for the passive side, whose
 * id knows it) the peer have. */
static uint8_t pick_depth(bool given, uint8_t asked, uint8_t offered,
			  uint8_t limit)
{
	if (given && asked != UINT8_MAX)
		return asked;
	return offered < limit ? offered : limit;
}

static void pick_depths(struct urc_id *id, const struct rdma_conn_param *p)
{
	const struct urc_device *d = id->device;

	id->responder_resources =
		pick_depth(p, p ? p->responder_resources : 0,
			   id->responder_resources, d->max_responder_resources);
	id->initiator_depth =
		pick_depth(p, p ? p->initiator_depth : 0, id->initiator_depth,
			   d->max_initiator_depth);
}

/* An id without a QP names one that the application has made. */
static struct ur_qp *find_qp(struct urc_id *id, uint32_t qpn)
{
	struct ibv_context *verbs = id->id.verbs;
	struct ur_qp *found = NULL;

	if (id->id.qp)
		return &urv_qp(id->id.qp)->core;
	pthread_mutex_lock(&verbs->mutex);
	ur_list_each(struct urv_qp, qp, &urv_context(verbs)->qps, node)
		if (qp->ibv.qp_num == qpn)
			found = &qp->core;
	pthread_mutex_unlock(&verbs->mutex);
	return found;
}

/* Both sides' vendor options, if the QP has any. */
static void fill_ece(struct urc_id *id, struct ur_cm_param *out)
{
	struct ibv_ece ece = id->local_ece;

	if (id->id.qp && !ece.vendor_id && ibv_query_ece(id->id.qp, &ece))
		return;
	out->ece_vendor = ece.vendor_id;
	out->ece_options = ece.options;
}

static void fill_qp(struct urc_id *id, const struct rdma_conn_param *p,
		    struct ur_cm_param *out)
{
	struct ibv_qp *qp = id->id.qp;

	out->qpn = qp ? qp->qp_num : p ? p->qp_num : 0;
	out->srq = qp ? qp->srq != NULL : p ? p->srq : 0;
	out->qp_type = (enum ur_qp_type)(qp ? qp->qp_type : id->id.qp_type);
	if (urc_is_ud(id))
		out->qkey = RDMA_UDP_QKEY;
	else
		out->qp = find_qp(id, out->qpn);
}

static void fill_param(struct urc_id *id, const struct rdma_conn_param *p,
		       struct ur_cm_param *out)
{
	*out = (struct ur_cm_param){
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.retry_count = RETRY_MAX,
		.rnr_retry_count = RETRY_MAX,
	};
	if (p) {
		out->private_data = p->private_data;
		out->private_len = p->private_data ? p->private_data_len : 0;
		out->flow_control = p->flow_control;
		out->retry_count = retries(p->retry_count);
		out->rnr_retry_count = retries(p->rnr_retry_count);
	}
	fill_qp(id, p, out);
	fill_ece(id, out);
}

static int connect_id(struct urc_id *id, const struct rdma_conn_param *p)
{
	struct rdma_addr *addr = &id->id.route.addr;
	struct ur_cm_param param;
	int rc = check_param(id, p);

	if (rc)
		return rc;
	if (!urc_move(id, URC_ROUTE_RESOLVED, URC_CONNECT))
		return -EINVAL;
	pick_depths(id, p);
	fill_param(id, p, &param);
	rc = ur_conn_connect(id->conn[0].conn, &addr->src_storage,
			     &addr->dst_storage, &param);
	if (rc) {
		urc_move(id, URC_CONNECT, URC_ROUTE_RESOLVED);
		return rc;
	}
	urc_id_learn_port(id);
	return urc_complete(id);
}

int rdma_connect(struct rdma_cm_id *pub, struct rdma_conn_param *conn_param)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = connect_id(id, conn_param);
	return urv_minus_one(rc);
}

/* iWARP's QP is the connection's to move. */
static bool moves_qp(const struct urc_id *id)
{
	return id->id.qp && !urc_is_ud(id) && !id->device->iwarp;
}

static int accept_id(struct urc_id *id, const struct rdma_conn_param *p)
{
	struct ur_cm_param param;
	int rc = check_param(id, p);

	if (rc)
		return rc;
	if (!id->passive || id->accepted)
		return -EINVAL;
	pick_depths(id, p);
	fill_param(id, p, &param);
	if (moves_qp(id))
		rc = urc_qp_connect(id, id->responder_resources,
				    id->initiator_depth);
	if (rc)
		return rc;
	id->accepted = true;
	rc = ur_conn_accept(id->conn[0].conn, &param);
	if (rc == 0)
		return urc_is_ud(id) ? 0 : urc_complete(id);
	id->accepted = false;
	if (moves_qp(id))
		urc_qp_error(id);
	return rc;
}

int rdma_accept(struct rdma_cm_id *pub, struct rdma_conn_param *conn_param)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = accept_id(id, conn_param);
	return urv_minus_one(rc);
}

int rdma_establish(struct rdma_cm_id *pub)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0 && (pub->qp || !id->conns || id->passive))
		rc = -EINVAL;
	if (rc == 0)
		rc = ur_conn_establish(id->conn[0].conn);
	return urv_minus_one(rc);
}

static int reject(struct rdma_cm_id *pub, uint16_t reason, const void *data,
		  uint8_t len)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0 && (!id->conns || id->state != URC_CONNECT))
		rc = -EINVAL;
	if (rc == 0)
		rc = ur_conn_reject(id->conn[0].conn, reason, data,
				    data ? len : 0);
	return urv_minus_one(rc);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data,
		uint8_t private_data_len)
{
	return reject(id, 0, private_data, private_data_len);
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
		    uint8_t private_data_len)
{
	return reject(id, URC_REJECTED_BY_ECE, private_data, private_data_len);
}

/*
 * On RoCE in any state of the connection, as with the kernel: the side that was
 * disconnected answers by this, and without a connection it has no effect.
 */
static int disconnect(struct urc_id *id)
{
	enum urc_state state = id->state;
	int rc;

	if (!id->conns || !id->device)
		return -EINVAL;
	if (state != URC_CONNECT && state != URC_DISCONNECT)
		return -EINVAL;
	if (moves_qp(id))
		urc_qp_error(id);
	rc = ur_conn_disconnect(id->conn[0].conn);
	if (rc == -EINVAL && !id->device->iwarp)
		rc = 0;
	return rc ? rc : urc_complete(id);
}

int rdma_disconnect(struct rdma_cm_id *pub)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0)
		rc = disconnect(id);
	return urv_minus_one(rc);
}

int rdma_notify(struct rdma_cm_id *pub, enum ibv_event_type event)
{
	struct urc_id *id = urc_id(pub);
	int rc = urc_id_check(id);

	if (rc == 0 && (!id->conns || !id->device))
		rc = -EINVAL;
	if (rc == 0 && !id->device->iwarp)
		rc = ur_conn_notify(id->conn[0].conn,
				    (enum ur_event_type)event);
	return urv_minus_one(rc);
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!ece || ece->comp_mask)
		return urv_minus_one(-EINVAL);
	urc_id(id)->local_ece = *ece;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!ece)
		return urv_minus_one(-EINVAL);
	*ece = urc_id(id)->remote_ece;
	ece->comp_mask = 0;
	return 0;
}
