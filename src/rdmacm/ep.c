/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: ids made from an address and used synchronously. */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm/id.h"
#include "verbs/convert.h"

/* What rdma_get_request() will make queue pairs of. */
static int keep_qp_init(struct urc_id *id, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr,
			enum ibv_qp_type type)
{
	id->ep_pd = pd;
	if (!attr)
		return 0;
	id->qp_init = malloc(sizeof(*attr));
	if (!id->qp_init)
		return -ENOMEM;
	*id->qp_init = *attr;
	id->qp_init->qp_type = type;
	return 0;
}

static int passive(struct urc_id *id, struct rdma_addrinfo *res,
		   struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	if (rdma_bind_addr(&id->id, res->ai_src_addr))
		return -errno;
	return keep_qp_init(id, pd, attr, (enum ibv_qp_type)res->ai_qp_type);
}

static int resolve_route(struct urc_id *id, struct rdma_addrinfo *res)
{
	if (!res->ai_route_len)
		return rdma_resolve_route(&id->id, URC_RESOLVE_MS) ? -errno : 0;
	if (rdma_set_option(&id->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH,
			    res->ai_route, res->ai_route_len))
		return -errno;
	return urc_complete(id);
}

static int active(struct urc_id *id, struct rdma_addrinfo *res,
		  struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int rc;

	if (rdma_resolve_addr(&id->id, res->ai_src_addr, res->ai_dst_addr,
			      URC_RESOLVE_MS))
		return -errno;
	rc = resolve_route(id, res);
	if (rc || !attr)
		return rc;
	attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(&id->id, pd, attr) ? -errno : 0;
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res,
		   struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *id;
	int rc;

	if (rdma_create_id(NULL, &id, NULL,
			   (enum rdma_port_space)res->ai_port_space))
		return -1;
	if (res->ai_qp_type)
		id->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	if (res->ai_flags & RAI_PASSIVE)
		rc = passive(urc_id(id), res, pd, attr);
	else
		rc = active(urc_id(id), res, pd, attr);
	if (rc) {
		rdma_destroy_ep(id);
		return urv_minus_one(rc);
	}
	*out = id;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* The event stays with the listener if nothing comes of it. */
static int take_request(struct urc_id *listener, struct rdma_cm_event *ev)
{
	struct ibv_qp_init_attr attr;

	if (ev->status)
		return ev->status < 0 ? ev->status : -ev->status;
	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return -EINVAL;
	if (!listener->qp_init)
		return 0;
	attr = *listener->qp_init;
	return rdma_create_qp(ev->id, listener->ep_pd, &attr) ? -errno : 0;
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct urc_id *l = urc_id(listen);
	struct rdma_cm_event *ev;
	int rc = urc_id_check(l);

	if (rc == 0 && !l->sync)
		rc = -EINVAL;
	if (rc)
		return urv_minus_one(rc);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &ev))
		return -1;
	rc = take_request(l, ev);
	if (rc) {
		listen->event = ev;
		return urv_minus_one(rc);
	}
	ev->id->event = ev;
	*id = ev->id;
	return 0;
}
