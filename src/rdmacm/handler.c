/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a connection reports becomes an event of its id.  Runs in the process'
 * CM thread or a thread in ur_conn_wait(), so it does nothing that could wait.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/socket.h"
#include "core/record.h"
#include "rdmacm/addr.h"
#include "rdmacm/id.h"
#include "verbs/convert.h"
#include "verbs/objects.h"

#define REJ_SERVICE 8 /* IBTA 12.6.7.2: invalid service ID */

static const enum rdma_cm_event_type event_of[] = {
	[UR_CONN_REQUEST] = RDMA_CM_EVENT_CONNECT_REQUEST,
	[UR_CONN_RESPONSE] = RDMA_CM_EVENT_CONNECT_RESPONSE,
	[UR_CONN_ESTABLISHED] = RDMA_CM_EVENT_ESTABLISHED,
	[UR_CONN_REJECTED] = RDMA_CM_EVENT_REJECTED,
	[UR_CONN_UNREACHABLE] = RDMA_CM_EVENT_UNREACHABLE,
	[UR_CONN_CONNECT_ERROR] = RDMA_CM_EVENT_CONNECT_ERROR,
	[UR_CONN_DISCONNECTED] = RDMA_CM_EVENT_DISCONNECTED,
	[UR_CONN_TIMEWAIT_EXIT] = RDMA_CM_EVENT_TIMEWAIT_EXIT,
	[UR_CONN_ADDR_RESOLVED] = RDMA_CM_EVENT_ADDR_RESOLVED,
	[UR_CONN_ADDR_CHANGE] = RDMA_CM_EVENT_ADDR_CHANGE,
	[UR_CONN_REMOVED] = RDMA_CM_EVENT_DEVICE_REMOVAL,
};

/* Port and index of a GID of ours as the peer's messages named it. */
static void fill_source(struct ibv_ah_attr *ah, struct ur_dev *dev,
			const struct ur_av *av)
{
	int index;

	ah->port_num = 1;
	index = ur_dev_gid_find(dev, av->sgid, &ah->port_num);
	if (index >= 0)
		ah->grh.sgid_index = (uint8_t)index;
}

static void fill_private(struct urc_event *e, const struct ur_cm_param *p)
{
	if (p->private_len)
		memcpy(e->private_data, p->private_data, p->private_len);
}

static void fill_conn(struct urc_event *e, const struct ur_cm_param *p)
{
	fill_private(e, p);
	e->ev.param.conn = (struct rdma_conn_param){
		.private_data = p->private_len ? e->private_data : NULL,
		.private_data_len = p->private_len,
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control,
		.retry_count = p->retry_count,
		.rnr_retry_count = p->rnr_retry_count,
		.srq = p->srq,
		.qp_num = p->qpn,
	};
	e->ece.vendor_id = p->ece_vendor;
	e->ece.options = p->ece_options;
}

static void fill_ud(struct urc_event *e, const struct ur_conn_event *ev,
		    struct ur_dev *dev)
{
	const struct ur_cm_param *p = &ev->param;
	struct rdma_ud_param *ud = &e->ev.param.ud;

	fill_private(e, p);
	*ud = (struct rdma_ud_param){
		.private_data = p->private_len ? e->private_data : NULL,
		.private_data_len = p->private_len,
		.qp_num = p->qpn,
		.qkey = p->qkey,
	};
	if (ev->type != UR_CONN_ESTABLISHED)
		return;
	urv_av_to_ah(&ud->ah_attr, &ev->av);
	fill_source(&ud->ah_attr, dev, &ev->av);
}

static void fill(struct urc_event *e, const struct ur_conn_event *ev,
		 struct urc_device *d)
{
	if (urc_is_ud(e->owner))
		fill_ud(e, ev, d->dev);
	else
		fill_conn(e, &ev->param);
}

/* The id of a connection that a peer has asked for. */
static struct urc_id *child_create(struct urc_conn *listener,
				   const struct ur_conn_event *ev,
				   struct urc_device *d)
{
	struct urc_id *l = listener->id;
	struct urc_id *id;

	if (urc_id_create(l->id.channel, l->id.context, l->id.ps, l->id.qp_type,
			  &id))
		return NULL;
	id->passive = true;
	id->state = URC_CONNECT;
	id->opts = l->opts;
	id->conns = 1;
	id->conn[0] = (struct urc_conn){ id, d, ev->conn };
	urc_device_ref(d);
	id->responder_resources = ev->param.responder_resources;
	id->initiator_depth = ev->param.initiator_depth;
	id->remote_ece.vendor_id = ev->param.ece_vendor;
	id->remote_ece.options = ev->param.ece_options;
	id->id.route.addr.src_storage = ev->src;
	id->id.route.addr.dst_storage = ev->dst;
	return id;
}

/* As the kernel's: a listener for one kind of connection gets no other. */
static bool is_wanted(const struct urc_id *l, const struct ur_conn_event *ev)
{
	return urc_is_ud(l) ||
	       ev->param.qp_type == (enum ur_qp_type)l->id.qp_type;
}

/* A listener on a wildcard address gets those of all devices of the kind. */
static struct urc_device *device_of(const struct urc_conn *listener,
				    const struct ur_conn_event *ev)
{
	if (listener->device->adapter == ev->adapter &&
	    !listener->device->stale)
		return listener->device;
	return urc_device_of(ev->adapter);
}

static void request(struct urc_conn *listener, const struct ur_conn_event *ev)
{
	struct urc_device *d = device_of(listener, ev);
	struct urc_id *child;
	struct urc_event *e;

	if (!d || !is_wanted(listener->id, ev)) {
		ur_conn_destroy(ev->conn);
		return;
	}
	child = child_create(listener, ev, d);
	if (!child) {
		ur_err("rdma_cm: no memory, connection request lost");
		ur_conn_destroy(ev->conn);
		return;
	}
	e = urc_event_new(listener->id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (!e) {
		urc_id_abandon(child);
		return;
	}
	fill(e, ev, d);
	e->ev.id = &child->id;
	e->ev.listen_id = &listener->id->id;
	e->device = d;
	ur_conn_set_user(ev->conn, urc_handle, &child->conn[0]);
	urc_event_post(e);
}

/* May the application be told?  Follows what happens to the connection. */
static bool is_news(struct urc_id *id, enum ur_conn_event_type type)
{
	if (type == UR_CONN_REMOVED)
		return id->device != NULL; /* the application has it */
	/* Nothing before accept: it will fail, and so be told (rdma_cm). */
	if (id->passive && !id->accepted)
		return false;
	if (type == UR_CONN_ALT_PATH)
		return false;
	if (type == UR_CONN_DISCONNECTED)
		return urc_move(id, URC_CONNECT, URC_DISCONNECT);
	return true;
}

/* For `urnic explain`: how a connection of this side ended, or was not made.
 * status: -errno, or the reason of a REJ.  The application may destroy the queue
 * pair meanwhile, so only its number is read. */
static void record(const struct urc_id *id, enum ur_record_cm what, int status)
{
	const struct sockaddr *to = &id->id.route.addr.dst_addr;
	struct ur_record e = {
		.type = UR_REC_CM,
		.code = (uint8_t)what,
		.side = status > UINT8_MAX ? UINT8_MAX /* none has that */
			: status > 0	   ? (uint8_t)status
					   : 0,
		.arg = { atomic_load_explicit(&id->qpn, memory_order_relaxed),
			 0, status < 0 ? (uint64_t)-status : 0 },
	};
	uint8_t gid[16];

	/* iWARP has no reasons: the kernel refuses. */
	if (what == UR_REC_CM_REJECTED && status == -ECONNREFUSED)
		e.side = REJ_SERVICE;
	ur_addr_from_sockaddr(gid, to);
	memcpy(&e.arg[3], gid, sizeof(gid));
	e.arg[5] = ntohs(urc_addr_port(to));
	ur_record_note(&e);
	if (what != UR_REC_CM_DISCONNECTED)
		ur_record_failure();
}

static void record_event(const struct urc_id *id,
			 const struct ur_conn_event *ev)
{
	if (ev->type == UR_CONN_REJECTED)
		record(id, UR_REC_CM_REJECTED, ev->status);
	else if (ev->type == UR_CONN_UNREACHABLE)
		record(id, UR_REC_CM_UNREACHABLE, ev->status);
	else if (ev->type == UR_CONN_CONNECT_ERROR)
		record(id, UR_REC_CM_ERROR, ev->status);
	else if (ev->type == UR_CONN_DISCONNECTED)
		record(id, UR_REC_CM_DISCONNECTED, ev->status);
}

/* The next hop is found, or not: then the id may try again. */
static void resolved(struct urc_id *id, int status)
{
	unsigned int type =
		status ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED;

	if (status && !id->quiet)
		ur_warn_some("rdma_cm: the next hop does not answer ARP or "
			     "neighbour discovery: is the host down?");
	if (status)
		record(id, UR_REC_CM_RESOLVE, status);

	if (urc_move(id, URC_ADDR_QUERY,
		     status ? URC_BOUND : URC_ADDR_RESOLVED))
		(void)urc_tell(id, type, status);
}

/* Why a call failed, in words; NULL: it is no failure, or the peer's program
 * has decided so. */
static const char *reason_of(const struct urc_conn *c,
			     const struct ur_conn_event *ev)
{
	bool iwarp = c->device->iwarp;

	if (ev->type == UR_CONN_REJECTED &&
	    ev->status == (iwarp ? -ECONNREFUSED : REJ_SERVICE))
		return "connection refused: no program listens on the port";
	if (ev->type == UR_CONN_UNREACHABLE && ev->status == -ETIMEDOUT)
		return iwarp ? "no answer: a packet filter drops TCP, or the "
			       "host is down"
			     : "no answer: a packet filter drops UDP port "
			       "4791, or the host has no RoCE or is down";
	if (ev->type == UR_CONN_CONNECT_ERROR)
		return strerrordesc_np(-ev->status);
	return NULL;
}

/* Of a call that was not taken up: the program may not say more than a number. */
static void warn(const struct urc_conn *c, const struct ur_conn_event *ev)
{
	const struct sockaddr *to = &c->id->id.route.addr.dst_addr;
	const char *reason = reason_of(c, ev);
	char text[INET6_ADDRSTRLEN] = "?";
	const void *raw;

	if (!reason || c->id->passive || c->id->quiet)
		return;
	raw = to->sa_family == AF_INET6
		      ? (const void *)&((const struct sockaddr_in6 *)to)
				->sin6_addr
		      : &((const struct sockaddr_in *)to)->sin_addr;
	(void)inet_ntop(to->sa_family, raw, text, sizeof(text));
	ur_warn_some("rdma_cm: %s: %s port %u: %s", c->device->dev->name, text,
		     ntohs(urc_addr_port(to)), reason);
}

void urc_handle(void *user, const struct ur_conn_event *ev)
{
	struct urc_conn *c = user;
	struct urc_event *e;

	if (ev->type == UR_CONN_REQUEST) {
		request(c, ev);
		return;
	}
	if (ev->type == UR_CONN_ADDR_RESOLVED) {
		resolved(c->id, ev->status);
		return;
	}
	if (!is_news(c->id, ev->type))
		return;
	warn(c, ev);
	record_event(c->id, ev);
	e = urc_event_new(c->id, event_of[ev->type], ev->status);
	if (!e)
		return;
	fill(e, ev, c->device);
	urc_event_post(e);
}
