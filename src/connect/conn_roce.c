/* SPDX-License-Identifier: BSD-2-Clause */
/* connect/conn.h for RoCE: conversion to and from cm/ib_cm.h, and ports. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/socket.h"
#include "connect/cm_roce.h"
#include "engine/internal.h"
#include "wire/cm_msg.h"

static struct ur_conn_roce *roce_of(struct ur_conn *c)
{
	return ur_container_of(c, struct ur_conn_roce, conn);
}

/* What destroying the connection would send. */
static void encode_end(const struct ur_cm_info *info, bool open,
		       uint8_t mad[UR_CM_MAD_LEN])
{
	struct ur_cm_msg m = {
		.attr = open ? UR_CM_DREQ : UR_CM_REJ,
		.tid = (uint64_t)info->local_id << 32 | info->remote_id,
		.local_id = info->local_id,
		.remote_id = info->remote_id,
	};

	if (open) {
		m.u.dreq.remote_qpn = info->remote_qpn;
	} else {
		m.u.rej.about = UR_CM_ABOUT_OTHER;
		m.u.rej.reason = UR_CM_REJ_CONSUMER;
	}
	ur_cm_msg_encode(&m, mad);
}

/*
 * If this process dies while the peer may wait for it, urnicd sends a DREQ if
 * the connection is open, else a REJ.  Without that, a peer that has received
 * an MRA would notice only after the MRA's timeout.
 */
void ur_conn_roce_on_exit(struct ur_conn_roce *rc, enum ur_conn_exit what)
{
	struct ur_exit_file *f = rc->rt->exit_file;
	struct ur_cm_dgram d = { .scope_id = 0 };
	struct ur_cm_info info;

	if (rc->exit_entry >= 0)
		ur_exit_file_del(f, rc->exit_entry);
	rc->exit_entry = -1;
	if (!f || what == UR_CONN_EXIT_NOTHING)
		return;
	ur_cm_id_info(rc->id, &info);
	if (info.remote_id == 0)
		return;
	memcpy(d.src, info.path.local, sizeof(d.src));
	memcpy(d.dst, info.path.remote, sizeof(d.dst));
	d.scope_id = info.path.scope_id;
	d.tclass = info.path.tclass;
	encode_end(&info, what == UR_CONN_EXIT_DREQ, d.mad);
	rc->exit_entry = ur_exit_file_add(f, &d);
}

static int roce_create(struct ur_adapter *a, enum ur_port_space ps,
		       struct ur_conn **out)
{
	struct ur_cm_roce *rt;
	struct ur_conn_roce *rc;
	int err = ur_cm_roce_get(a, &rt);

	if (err)
		return err;
	rc = calloc(1, sizeof(*rc));
	if (!rc)
		return -ENOMEM;
	rc->rt = rt;
	ur_list_init(&rc->node);
	ur_list_init(&rc->accepted);
	rc->exit_entry = -1;
	ur_lock(&rt->cmt->lock);
	err = ur_cm_id_create(rt->cm, (uint16_t)ps, rc, &rc->id);
	if (!err)
		ur_list_add_tail(&rt->conns, &rc->node);
	ur_unlock(&rt->cmt->lock);
	if (err) {
		free(rc);
		return err;
	}
	*out = &rc->conn;
	return 0;
}

static void roce_destroy(struct ur_conn *c)
{
	struct ur_conn_roce *rc = roce_of(c);
	struct ur_client *client = rc->rt->client;
	uint32_t handle = rc->handle;
	struct ur_cmt *t = c->cmt;
	bool bound = rc->bound;

	ur_lock(&t->lock);
	ur_list_del(&rc->node);
	ur_list_del(&rc->accepted);
	ur_conn_roce_on_exit(rc, UR_CONN_EXIT_NOTHING);
	ur_cm_id_destroy(rc->id, ur_clock_ns());
	ur_cm_roce_flush(rc->rt);
	ur_conn_free(c);
	ur_unlock(&t->lock);
	if (bound)
		ur_client_unbind(client, handle);
}

/* Only addresses of this host; loopback's are in the table as well. */
static bool is_local(struct ur_conn_roce *rc, const uint8_t gid[16])
{
	struct ur_dev *dev = &rc->conn.adapter->dev;

	return ur_bind_is_any(gid) || ur_dev_has_addr(dev, gid);
}

/* A port that others may share, or that is named, is asked of urnicd. */
static int take_port(struct ur_conn_roce *rc, const struct ur_bind_want *want,
		     bool active)
{
	struct ur_client *client = rc->rt->client;

	if (active && !want->port && !want->flags)
		return ur_client_lease(client, want->ps, &rc->handle,
				       &rc->port);
	return ur_client_bind(client, want, &rc->handle, &rc->port);
}

static void set_local(struct ur_conn *c, const uint8_t gid[16])
{
	ur_lock(&c->cmt->lock);
	ur_conn_set_local(c, gid);
	ur_unlock(&c->cmt->lock);
}

static int bind_as(struct ur_conn *c, struct sockaddr_storage *addr,
		   bool active)
{
	struct ur_conn_roce *rc = roce_of(c);
	struct ur_bind_want want = { .ps = (uint16_t)c->ps,
				     .port = ur_sockaddr_port(addr) };
	int err;

	if (rc->bound)
		return -EINVAL;
	if (addr->ss_family != AF_INET && addr->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	ur_addr_from_sockaddr(want.addr, addr);
	if (!is_local(rc, want.addr))
		return -EADDRNOTAVAIL;
	if (c->opts.reuseaddr)
		want.flags |= UR_BIND_REUSE;
	if (c->opts.afonly)
		want.flags |= UR_BIND_AFONLY;
	err = take_port(rc, &want, active);
	if (err)
		return err;
	memcpy(rc->addr, want.addr, 16);
	rc->bound = true;
	set_local(c, want.addr);
	ur_sockaddr_set_port(addr, rc->port);
	return 0;
}

static int roce_bind(struct ur_conn *c, struct sockaddr_storage *addr)
{
	return bind_as(c, addr, c->opts.active);
}

static int roce_port(struct ur_conn *c, uint16_t *port)
{
	struct ur_conn_roce *rc = roce_of(c);

	if (!rc->bound)
		return -EINVAL;
	*port = rc->port;
	return 0;
}

static int bind_any(struct ur_conn *c)
{
	struct sockaddr_storage any = { .ss_family = AF_INET };

	return roce_bind(c, &any);
}

/* Listening cannot be taken back: another identity takes its place. */
static void renew(struct ur_conn_roce *rc)
{
	struct ur_cm_id *id;

	if (ur_cm_id_create(rc->rt->cm, (uint16_t)rc->conn.ps, rc, &id))
		return;
	ur_cm_id_destroy(rc->id, ur_clock_ns());
	rc->id = id;
	ur_cm_roce_flush(rc->rt);
}

/* First here, then with urnicd: a request must always find its listener. */
static int roce_listen(struct ur_conn *c, int backlog)
{
	struct ur_conn_roce *rc = roce_of(c);
	bool v6_only;
	int err = rc->bound ? 0 : bind_any(c);

	if (err)
		return err;
	ur_lock(&c->cmt->lock);
	v6_only = c->opts.afonly && !ur_addr_is_v4(rc->addr);
	err = ur_cm_listen(rc->id, rc->addr, rc->port, v6_only, backlog);
	ur_unlock(&c->cmt->lock);
	if (err)
		return err;
	err = ur_client_listen(rc->rt->client, rc->handle);
	if (!err)
		return 0;
	ur_lock(&c->cmt->lock);
	renew(rc);
	ur_unlock(&c->cmt->lock);
	return err;
}

static void roce_seen(struct ur_conn *c)
{
	ur_cm_request_seen(roce_of(c)->id);
}

static enum ur_qp_type default_type(enum ur_port_space ps)
{
	return ps == UR_PS_TCP || ps == UR_PS_IB ? UR_QPT_RC : UR_QPT_UD;
}

static int source_of(const struct ur_conn_roce *rc,
		     const struct sockaddr_storage *src,
		     const struct sockaddr_storage *dst,
		     struct sockaddr_storage *out)
{
	if (dst->ss_family != AF_INET && dst->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (src && src->ss_family == dst->ss_family && !ur_conn_addr_any(src)) {
		*out = *src;
		return 0;
	}
	if (rc->bound && !ur_bind_is_any(rc->addr)) {
		ur_sockaddr_from_gid(rc->addr, 0, rc->port, out);
		return out->ss_family == dst->ss_family ? 0 : -EINVAL;
	}
	return ur_conn_route(dst, out);
}

static uint32_t scope_of(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;

	return addr->ss_family == AF_INET6 ? v6->sin6_scope_id : 0;
}

static int path_of(struct ur_conn_roce *rc, const struct sockaddr_storage *from,
		   const struct sockaddr_storage *dst, struct ur_cm_path *path)
{
	struct ur_dev *dev = &rc->conn.adapter->dev;
	const struct ur_conn_opts *o = &rc->conn.opts;

	*path = (struct ur_cm_path){
		.local_port = rc->port,
		.remote_port = ur_sockaddr_port(dst),
		.scope_id = scope_of(dst) ? scope_of(dst) : scope_of(from),
		.tclass = o->tos_set ? o->tos : 0,
		.ack_timeout = o->ack_timeout,
	};
	ur_addr_from_sockaddr(path->local, from);
	ur_addr_from_sockaddr(path->remote, dst);
	if (!ur_dev_has_addr(dev, path->local))
		return -EADDRNOTAVAIL;
	path->mtu = (uint8_t)ur_dev_path_mtu(dev, path->local);
	return 0;
}

static int roce_connect(struct ur_conn *c, const struct sockaddr_storage *src,
			const struct sockaddr_storage *dst,
			const struct ur_cm_param *param)
{
	struct ur_conn_roce *rc = roce_of(c);
	struct sockaddr_storage from;
	struct ur_cm_path path;
	struct ur_cm_param p = *param;
	int err = source_of(rc, src, dst, &from);

	if (!err && !rc->bound)
		err = bind_as(c, &from, true);
	if (!err)
		err = path_of(rc, &from, dst, &path);
	if (err)
		return err;
	if (!p.qp_type)
		p.qp_type = default_type(c->ps);
	ur_lock(&c->cmt->lock);
	ur_conn_set_local(c, path.local);
	err = ur_cm_connect(rc->id, &path, &p, ur_clock_ns());
	ur_cm_roce_flush(rc->rt);
	ur_unlock(&c->cmt->lock);
	return err;
}

static int roce_establish(struct ur_conn *c)
{
	struct ur_conn_roce *rc = roce_of(c);
	int err;

	ur_lock(&c->cmt->lock);
	err = ur_cm_establish(rc->id, ur_clock_ns());
	/*
	 * The RTU leaves before the DREQ is recorded: the peer of a process
	 * that is killed between them gets a REJ, and never a DREQ for a
	 * connection that was not established.
	 */
	ur_cm_roce_flush(rc->rt);
	if (!err)
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_DREQ);
	ur_unlock(&c->cmt->lock);
	return err;
}

static struct ur_list *bucket_of(struct ur_cm_roce *rt, uint32_t qpn)
{
	return &rt->accepted[qpn % UR_CM_EST_BUCKETS];
}

static int roce_accept(struct ur_conn *c, const struct ur_cm_param *param)
{
	struct ur_conn_roce *rc = roce_of(c);
	struct ur_cm_param p = *param;
	int err;

	if (!p.qp_type)
		p.qp_type = default_type(c->ps);
	ur_lock(&c->cmt->lock);
	err = ur_cm_accept(rc->id, &p, ur_clock_ns());
	if (!err && p.qp_type != UR_QPT_UD) {
		rc->qpn = p.qpn;
		ur_list_del(&rc->accepted);
		ur_list_add_tail(bucket_of(rc->rt, rc->qpn), &rc->accepted);
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_REJ);
	}
	ur_cm_roce_flush(rc->rt);
	ur_unlock(&c->cmt->lock);
	return err;
}

static int roce_reject(struct ur_conn *c, uint16_t reason, const void *data,
		       uint8_t len)
{
	struct ur_conn_roce *rc = roce_of(c);
	int err;

	ur_lock(&c->cmt->lock);
	err = ur_cm_reject(rc->id, reason, data, len, ur_clock_ns());
	if (!err)
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_NOTHING);
	ur_cm_roce_flush(rc->rt);
	ur_unlock(&c->cmt->lock);
	return err;
}

static int roce_disconnect(struct ur_conn *c)
{
	struct ur_conn_roce *rc = roce_of(c);
	int err;

	ur_lock(&c->cmt->lock);
	ur_list_del(&rc->accepted);
	ur_conn_roce_on_exit(rc, UR_CONN_EXIT_NOTHING);
	err = ur_cm_disconnect(rc->id, ur_clock_ns());
	ur_cm_roce_flush(rc->rt);
	ur_unlock(&c->cmt->lock);
	return err;
}

/* Of a migration: that our messages had better take the new path too. */
static int migrated(struct ur_conn_roce *rc)
{
	int err;

	ur_lock(&rc->conn.cmt->lock);
	err = ur_cm_migrate(rc->id);
	if (!err && rc->exit_entry >= 0)
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_DREQ);
	ur_unlock(&rc->conn.cmt->lock);
	return err;
}

static int roce_notify(struct ur_conn *c, enum ur_event_type event)
{
	struct ur_conn_roce *rc = roce_of(c);
	int err;

	if (event == UR_EVENT_PATH_MIG)
		return migrated(rc);
	if (event != UR_EVENT_COMM_EST)
		return -EINVAL;
	ur_lock(&c->cmt->lock);
	err = ur_cm_notify(rc->id, ur_clock_ns());
	ur_cm_roce_flush(rc->rt);
	ur_unlock(&c->cmt->lock);
	return err;
}

/* -EINVAL: the RTU was faster. */
void ur_conn_roce_established(struct ur_cm_roce *rt, uint32_t qpn)
{
	ur_list_each_safe(struct ur_conn_roce, rc, bucket_of(rt, qpn),
			  accepted) {
		if (rc->qpn != qpn)
			continue;
		ur_list_del(&rc->accepted);
		(void)ur_cm_notify(rc->id, ur_clock_ns());
	}
	ur_cm_roce_flush(rt);
}

/* An address that has gone counts as one of port 1. */
static void complete_av(struct ur_conn_roce *rc, struct ur_av *av)
{
	int index;

	av->port_num = 1;
	index = ur_dev_gid_find(&rc->conn.adapter->dev, av->sgid,
				&av->port_num);
	av->sgid_index = index < 0 ? 0 : (uint8_t)index;
	av->is_global = true;
}

static int roce_qp_attr(struct ur_conn *c, enum ur_qp_state state,
			struct ur_qp_attr *attr, uint32_t *mask)
{
	struct ur_conn_roce *rc = roce_of(c);
	int err;

	ur_lock(&c->cmt->lock);
	err = ur_cm_qp_attr(rc->id, state, attr, mask);
	ur_unlock(&c->cmt->lock);
	if (!err && (*mask & UR_QP_AV))
		complete_av(rc, &attr->av);
	if (!err && (*mask & UR_QP_ALT_PATH)) {
		complete_av(rc, &attr->alt_av);
		attr->alt_port_num = attr->alt_av.port_num;
	}
	return err;
}

static void roce_options(struct ur_conn *c)
{
	if (c->opts.ack_timeout)
		ur_cm_id_set_ack_timeout(roce_of(c)->id, c->opts.ack_timeout);
}

/* A new connection, or none: then the protocol refuses it. */
static struct ur_conn_roce *make_child(struct ur_conn_roce *listener,
				       const struct ur_cm_event *ev)
{
	struct ur_adapter *a = ur_conn_owner(&listener->conn, ev->path.local);
	struct ur_conn_roce *rc;

	if (listener->conn.ended || !a)
		return NULL;
	rc = calloc(1, sizeof(*rc));
	if (!rc)
		return NULL;
	rc->rt = listener->rt;
	rc->id = ev->id;
	ur_list_init(&rc->node);
	ur_list_init(&rc->accepted);
	rc->exit_entry = -1;
	ur_conn_init_child(&rc->conn, &listener->conn);
	rc->conn.adapter = a;
	return rc;
}

static void on_request(struct ur_conn_roce *listener, struct ur_cm_event *ev,
		       struct ur_conn_event *out)
{
	struct ur_conn_roce *rc = make_child(listener, ev);
	const struct ur_cm_path *p = &ev->path;

	if (!rc) {
		ur_cm_id_destroy(ev->id, ur_clock_ns());
		return;
	}
	out->type = UR_CONN_REQUEST;
	out->conn = &rc->conn;
	out->adapter = rc->conn.adapter;
	ur_sockaddr_from_gid(p->local, p->scope_id, p->local_port, &out->src);
	ur_sockaddr_from_gid(p->remote, p->scope_id, p->remote_port, &out->dst);
	if (ur_conn_post(&listener->conn, out)) {
		ur_cm_id_destroy(ev->id, ur_clock_ns());
		ur_conn_free(&rc->conn);
		return;
	}
	ur_conn_set_local(&rc->conn, p->local);
	ur_cm_id_set_user(ev->id, rc);
	ur_list_add_tail(&rc->rt->conns, &rc->node);
	if (ev->param.qp_type != UR_QPT_UD)
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_REJ);
}

/* Load the path that the peer offers, if it is one of ours. */
static enum ur_cm_apr take_alt_path(struct ur_conn_roce *rc,
				    const struct ur_cm_event *ev)
{
	struct ur_av av = { .scope_id = ev->path.scope_id,
			    .tclass = ev->path.tclass,
			    .hop_limit = ev->path.hop_limit };
	struct ur_cm_info info;

	if (!ur_dev_has_addr(&rc->conn.adapter->dev, ev->path.local))
		return UR_CM_APR_INVALID_GID;
	memcpy(av.sgid, ev->path.local, 16);
	memcpy(av.dgid, ev->path.remote, 16);
	complete_av(rc, &av);
	ur_cm_id_info(ev->id, &info);
	switch (ur_adapter_qp_alternate(rc->conn.adapter, info.local_qpn,
					info.remote_qpn, &av,
					ev->path.ack_timeout)) {
	case 0:
		return UR_CM_APR_SUCCESS;
	case -ENOENT: /* a number that the program uses as it likes */
		return UR_CM_APR_UNSUPPORTED;
	default:
		return UR_CM_APR_REJECT;
	}
}

/*
 * librdmacm has no call for it: neither the kernel's manager nor ours offers
 * paths, but the peer may be a manager that does.
 */
static void on_alt_path(struct ur_conn_roce *rc, const struct ur_cm_event *ev)
{
	(void)ur_cm_apr(ev->id, take_alt_path(rc, ev), NULL, 0, ur_clock_ns());
}

static void report(struct ur_conn_roce *rc, enum ur_conn_event_type type,
		   struct ur_conn_event *out)
{
	out->type = type;
	if (type != UR_CONN_RESPONSE)
		ur_list_del(&rc->accepted);
	if (type == UR_CONN_ESTABLISHED && rc->exit_entry >= 0)
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_DREQ);
	else if (type == UR_CONN_RESPONSE)
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_REJ);
	else
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_NOTHING);
	if (ur_conn_post(&rc->conn, out))
		ur_err("out of memory: an event of a connection is lost");
}

void ur_conn_roce_event(struct ur_cm_roce *rt, struct ur_cm_event *ev)
{
	struct ur_conn_roce *rc = ev->user;
	struct ur_conn_event out = { .status = ev->status,
				     .param = ev->param,
				     .av = ev->av };

	switch (ev->type) {
	case UR_CM_REQUEST:
		on_request(rc, ev, &out);
		break;
	case UR_CM_RESPONSE:
		report(rc, UR_CONN_RESPONSE, &out);
		break;
	case UR_CM_ESTABLISHED:
		complete_av(rc, &out.av);
		report(rc, UR_CONN_ESTABLISHED, &out);
		break;
	case UR_CM_REJECTED:
		report(rc, UR_CONN_REJECTED, &out);
		break;
	case UR_CM_UNREACHABLE:
		report(rc, UR_CONN_UNREACHABLE, &out);
		break;
	case UR_CM_DISCONNECTED:
		report(rc, UR_CONN_DISCONNECTED, &out);
		break;
	case UR_CM_TIMEWAIT_EXIT:
		report(rc, UR_CONN_TIMEWAIT_EXIT, &out);
		break;
	case UR_CM_ALT_PATH:
		on_alt_path(rc, ev);
		break;
	case UR_CM_ALT_PATH_RESULT:
		break;
	}
}

const struct ur_conn_ops ur_conn_roce_ops = {
	.create = roce_create,
	.destroy = roce_destroy,
	.options = roce_options,
	.bind = roce_bind,
	.port = roce_port,
	.listen = roce_listen,
	.seen = roce_seen,
	.connect = roce_connect,
	.establish = roce_establish,
	.accept = roce_accept,
	.reject = roce_reject,
	.disconnect = roce_disconnect,
	.notify = roce_notify,
	.qp_attr = roce_qp_attr,
};
