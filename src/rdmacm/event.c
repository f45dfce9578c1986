/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking events.  Some want something done before the application sees them;
 * if that fails they become the error event of their kind, and some are not
 * for the application at all.
 */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm/id.h"
#include "verbs/convert.h"

enum verdict {
	TELL,
	KEEP, /* not for the application */
};

static void turn_into(struct urc_event *e, enum rdma_cm_event_type type, int rc)
{
	e->ev.event = type;
	e->ev.status = rc;
}

static enum verdict on_addr_resolved(struct urc_event *e)
{
	struct urc_id *id = e->owner;
	int rc = urc_id_set_device(id, id->conn[0].device);

	if (rc)
		turn_into(e, RDMA_CM_EVENT_ADDR_ERROR, rc);
	return TELL;
}

static enum verdict on_request(struct urc_event *e)
{
	struct urc_id *child = urc_id(e->ev.id);
	int rc = urc_id_set_device(child, e->device);

	ur_conn_seen(child->conn[0].conn);
	if (rc == 0) {
		urc_fill_route(child);
		if (e->owner->sync)
			rc = urc_id_migrate(child, NULL);
	}
	if (rc == 0)
		return TELL;
	urc_id_abandon(child); /* which rejects */
	return KEEP;
}

/* The peer has accepted.  Ids without a QP are their owner's to go on with. */
static enum verdict on_response(struct urc_event *e)
{
	struct urc_id *id = e->owner;
	int rc;

	id->remote_ece = e->ece;
	if (!id->id.qp)
		return TELL;
	rc = urc_qp_connect(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
	if (rc == 0)
		rc = ur_conn_establish(id->conn[0].conn);
	if (rc == 0) {
		turn_into(e, RDMA_CM_EVENT_ESTABLISHED, 0);
		return TELL;
	}
	urc_qp_error(id);
	id->connect_error = true;
	ur_conn_reject(id->conn[0].conn, 0, NULL, 0);
	turn_into(e, RDMA_CM_EVENT_CONNECT_ERROR, rc);
	return TELL;
}

static enum verdict on_rejected(struct urc_event *e)
{
	struct urc_id *id = e->owner;

	if (id->connect_error)
		return KEEP;
	urc_qp_error(id);
	return TELL;
}

static enum verdict on_joined(struct urc_event *e)
{
	int rc = urc_mc_joined(e);

	if (rc)
		turn_into(e, RDMA_CM_EVENT_MULTICAST_ERROR, rc);
	return TELL;
}

static enum verdict prepare(struct urc_event *e)
{
	switch ((unsigned int)e->ev.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return on_addr_resolved(e);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return on_request(e);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return on_response(e);
	case RDMA_CM_EVENT_ESTABLISHED:
		urc_id_learn_port(e->owner);
		return TELL;
	case RDMA_CM_EVENT_REJECTED:
		return on_rejected(e);
	case RDMA_CM_EVENT_DISCONNECTED:
		return e->owner->connect_error ? KEEP : TELL;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		return on_joined(e);
	default:
		return TELL;
	}
}

int rdma_get_cm_event(struct rdma_event_channel *channel,
		      struct rdma_cm_event **event)
{
	struct urc_event *e;
	int rc;

	if (!channel || !event)
		return urv_minus_one(-EINVAL);
	for (;;) {
		rc = urc_event_take(channel, &e);
		if (rc < 0)
			return urv_minus_one(rc);
		if (prepare(e) == TELL)
			break;
		urc_event_done(e);
	}
	*event = &e->ev;
	return 0;
}

static int status_error(const struct rdma_cm_event *ev)
{
	if (!ev->status)
		return 0;
	if (ev->event == RDMA_CM_EVENT_REJECTED)
		return -ECONNREFUSED;
	return ev->status < 0 ? ev->status : -ev->status;
}

int urc_complete(struct urc_id *id)
{
	struct rdma_cm_id *pub = &id->id;

	if (!id->sync)
		return 0;
	if (pub->event) {
		rdma_ack_cm_event(pub->event);
		pub->event = NULL;
	}
	if (rdma_get_cm_event(pub->channel, &pub->event))
		return -errno;
	return status_error(pub->event);
}

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event,
			int status, uint64_t arg);

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event,
			int status, uint64_t arg)
{
	struct urc_event *e;
	int rc = id ? urc_id_check(urc_id(id)) : -EINVAL;

	if (rc)
		return urv_minus_one(rc);
	if ((unsigned int)event != URC_EVENT_USER &&
	    (unsigned int)event != URC_EVENT_INTERNAL)
		return urv_minus_one(-EINVAL);
	e = urc_event_new(urc_id(id), event, status);
	if (!e)
		return urv_minus_one(-ENOMEM);
	*(uint64_t *)&e->ev.param = arg; /* a member of newer headers */
	urc_event_post(e);
	return 0;
}

static const char *const names[] = {
	"RDMA_CM_EVENT_ADDR_RESOLVED",
	"RDMA_CM_EVENT_ADDR_ERROR",
	"RDMA_CM_EVENT_ROUTE_RESOLVED",
	"RDMA_CM_EVENT_ROUTE_ERROR",
	"RDMA_CM_EVENT_CONNECT_REQUEST",
	"RDMA_CM_EVENT_CONNECT_RESPONSE",
	"RDMA_CM_EVENT_CONNECT_ERROR",
	"RDMA_CM_EVENT_UNREACHABLE",
	"RDMA_CM_EVENT_REJECTED",
	"RDMA_CM_EVENT_ESTABLISHED",
	"RDMA_CM_EVENT_DISCONNECTED",
	"RDMA_CM_EVENT_DEVICE_REMOVAL",
	"RDMA_CM_EVENT_MULTICAST_JOIN",
	"RDMA_CM_EVENT_MULTICAST_ERROR",
	"RDMA_CM_EVENT_ADDR_CHANGE",
	"RDMA_CM_EVENT_TIMEWAIT_EXIT",
	"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
	"RDMA_CM_EVENT_ADDRINFO_ERROR",
	"RDMA_CM_EVENT_USER",
	"RDMA_CM_EVENT_INTERNAL",
};

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	if ((size_t)event >= sizeof(names) / sizeof(names[0]))
		return "UNKNOWN EVENT";
	return names[event];
}
