/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of iWARP as their owners see them.  The state machine and what
 * the peer does to it are in conn_iwarp_io.c.
 */
#include "connect/conn_iwarp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/socket.h"
#include "engine/internal.h"

#define BACKLOG_DEFAULT 256

static void lock(struct iw_conn *i)
{
	ur_lock(&i->c.cmt->lock);
}

static void unlock(struct iw_conn *i)
{
	ur_unlock(&i->c.cmt->lock);
}

struct iw_conn *iw_conn_new(struct ur_cmt *cmt)
{
	struct iw_conn *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->fd = -1;
	i->source = (struct ur_cmt_source){ .fd = -1, .ready = iw_on_ready };
	i->stream_source = (struct ur_cmt_source){ .fd = -1 };
	ur_list_init(&i->all);
	ur_list_init(&i->down);
	ur_list_init(&i->children);
	ur_list_init(&i->sibling);
	if (iw_leaf_start(cmt) ||
	    ur_cmt_timer_init(cmt, &i->timer, iw_on_timer)) {
		free(i);
		return NULL;
	}
	return i;
}

/* In front of a descriptor's end, so that fork() never sees a number that is
 * not ours any more. */
void iw_conn_set_fd(struct iw_conn *i, int fd)
{
	int old = i->fd;

	if (old >= 0)
		iw_fd_del(i);
	i->fd = fd;
	if (fd >= 0)
		iw_fd_add(i);
	if (old >= 0)
		close(old);
}

void iw_child_leaves(struct iw_conn *i)
{
	struct iw_conn *l = i->listener;

	if (!l)
		return;
	ur_list_del(&i->sibling);
	if (i->state == IW_ASKED)
		l->asked--;
	else
		l->half--;
	i->listener = NULL;
	iw_resume(l);
}

void iw_resume(struct iw_conn *l)
{
	if (!l->paused || l->asked >= l->backlog)
		return;
	if (iw_start_watching(l, EPOLLIN) == 0 && iw_stream_watch(l) == 0)
		l->paused = false;
	else
		iw_pause_listener(l);
}

/* Children that were not reported end with their listener; the others belong
 * to their owners, or will be ended as unseen. */
static void leave_children(struct iw_conn *l)
{
	ur_list_each_safe(struct iw_conn, i, &l->children, sibling) {
		if (i->state == IW_TALKING) {
			iw_fail(i, -ECONNABORTED);
			continue;
		}
		ur_list_del(&i->sibling);
		i->listener = NULL;
	}
}

void iw_disclaim(struct iw_conn *i)
{
	if (i->link)
		ur_iw_link_put(i->link);
	i->link = NULL;
	iw_leaf_forget(i);
}

void iw_conn_release(struct iw_conn *i)
{
	leave_children(i);
	iw_child_leaves(i);
	ur_cmt_unwatch(i->c.cmt, &i->source);
	iw_stream_listen_end(i);
	iw_disclaim(i);
	iw_stream_drop(i);
	iw_conn_set_fd(i, -1);
	ur_cmt_timer_fini(i->c.cmt, &i->timer);
}

static int iw_create(struct ur_adapter *a, enum ur_port_space ps,
		     struct ur_conn **out)
{
	struct ur_cmt *cmt;
	struct iw_conn *i;
	int err;

	if (ps != UR_PS_TCP)
		return -EOPNOTSUPP;
	err = ur_cmt_get(&cmt);
	if (err)
		return err;
	ur_lock(&cmt->lock);
	i = iw_conn_new(cmt);
	ur_unlock(&cmt->lock);
	if (!i)
		return -ENOMEM;
	*out = &i->c;
	return 0;
}

static void iw_destroy(struct ur_conn *c)
{
	struct iw_conn *i = iw_of(c);
	struct ur_cmt *cmt = c->cmt;

	ur_lock(&cmt->lock);
	iw_conn_release(i);
	ur_conn_free(c);
	ur_unlock(&cmt->lock);
}

/* What the application may have said of the connection's packets. */
static void apply_options(const struct iw_conn *i, int family)
{
	int tos = i->c.opts.tos;

	if (i->fd < 0 || !i->c.opts.tos_set)
		return;
	(void)ur_sockopt_set(i->fd, IPPROTO_IP, IP_TOS, tos);
	if (family == AF_INET6)
		(void)ur_sockopt_set(i->fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
}

static void iw_options(struct ur_conn *c)
{
	struct iw_conn *i = iw_of(c);

	if (i->fd >= 0)
		apply_options(i, ur_sockopt_get(i->fd, SOL_SOCKET, SO_DOMAIN));
}

/*
 * Always SO_REUSEADDR, as the kernel's driver: a server that starts again
 * must not wait for old connections; two that listen still exclude each other.
 */
static int set_up(struct iw_conn *i, const struct sockaddr_storage *a,
		  bool port)
{
	bool late = !port && ur_sockaddr_port(a) == 0;
	bool early = false;
	int err = ur_sockopt_set(i->fd, SOL_SOCKET, SO_REUSEADDR, 1);

	if (!err && a->ss_family == AF_INET6)
		err = ur_sockopt_set(i->fd, IPPROTO_IPV6, IPV6_V6ONLY,
				     i->c.opts.afonly);
	if (err)
		return err;
	apply_options(i, a->ss_family);
	i->port = ur_sockaddr_port(a);
	if (late && ur_conn_addr_any(a))
		return 0;
	if (late)
		early = ur_sockopt_set(i->fd, IPPROTO_IP,
				       IP_BIND_ADDRESS_NO_PORT, 1) != 0;
	if (bind(i->fd, (const struct sockaddr *)a, ur_sockaddr_len(a)))
		return -errno;
	if (early) /* the kernel has chosen a port now */
		iw_learn_address(i);
	return 0;
}

int iw_open_socket(struct iw_conn *i, const struct sockaddr_storage *a,
		   bool port)
{
	int fd, err;

	if (a->ss_family != AF_INET && a->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
		    0);
	if (fd < 0)
		return -errno;
	iw_conn_set_fd(i, fd);
	err = set_up(i, a, port);
	if (err)
		iw_conn_set_fd(i, -1);
	return err;
}

void iw_set_local(struct iw_conn *i, const struct sockaddr_storage *a)
{
	uint8_t gid[16];

	ur_addr_from_sockaddr(gid, a);
	ur_conn_set_local(&i->c, gid);
}

void iw_learn_address(struct iw_conn *i)
{
	struct sockaddr_storage a = { .ss_family = 0 };

	iw_ends(i, &a, NULL);
	if (!a.ss_family)
		return;
	i->port = ur_sockaddr_port(&a);
	iw_set_local(i, &a);
}

/* A port for the address that the socket has. */
int iw_take_port(struct iw_conn *i)
{
	(void)ur_sockopt_set(i->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 0);
	if (bind(i->fd, (struct sockaddr *)&i->from, ur_sockaddr_len(&i->from)))
		return -errno;
	iw_learn_address(i);
	ur_sockaddr_set_port(&i->from, i->port);
	return 0;
}

/*
 * The kernel's rdma_cm keeps the ports of its ids apart from those of sockets:
 * there binding to a port that a TCP socket holds succeeds, and siw finds the
 * conflict when it makes its socket, in rdma_listen().
 */
static int bind_late(struct iw_conn *i, const struct sockaddr_storage *addr)
{
	uint16_t port = ur_sockaddr_port(addr);

	if (!i->c.opts.late_port || !iw_is_program_port(port))
		return -EADDRINUSE;
	i->port = port;
	iw_set_local(i, addr);
	return 0;
}

static int bind_locked(struct iw_conn *i, struct sockaddr_storage *addr)
{
	int err;

	if (i->state != IW_IDLE)
		return -EINVAL;
	err = iw_open_socket(i, addr, !i->c.opts.active);
	if (err == -EADDRINUSE)
		err = bind_late(i, addr);
	if (err)
		return err;
	if (i->fd >= 0 && i->c.opts.active)
		iw_set_local(i, addr); /* the port: iw_open_socket() */
	else if (i->fd >= 0)
		iw_learn_address(i);
	ur_sockaddr_set_port(addr, i->port);
	i->from = *addr;
	i->state = IW_BOUND;
	return 0;
}

static int iw_bind(struct ur_conn *c, struct sockaddr_storage *addr)
{
	struct iw_conn *i = iw_of(c);
	int err;

	lock(i);
	err = bind_locked(i, addr);
	unlock(i);
	return err;
}

/*
 * Searching for a free port is slow when thousands of connections have just
 * ended, and a port that is chosen before the peer is known may be in TIME-WAIT
 * towards that peer.  So the kernel chooses the port of an active side in
 * connect(2), unless the application asks for it earlier.
 */
static int port_locked(struct iw_conn *i, uint16_t *port)
{
	int err = i->state == IW_IDLE ? -EINVAL : 0;

	if (i->state == IW_BOUND && i->port == 0)
		err = iw_take_port(i);
	if (err)
		return err;
	*port = i->port;
	return 0;
}

static int iw_port(struct ur_conn *c, uint16_t *port)
{
	struct iw_conn *i = iw_of(c);
	int err;

	lock(i);
	err = port_locked(i, port);
	unlock(i);
	return err;
}

static int listen_locked(struct iw_conn *i, int backlog)
{
	int err;

	if (i->state != IW_BOUND)
		return -EINVAL;
	if (backlog <= 0)
		backlog = BACKLOG_DEFAULT;
	err = i->fd < 0 ? iw_open_socket(i, &i->from, true) : 0;
	if (err)
		return err;
	/* Before the kernel's, which shows others that this process listens. */
	err = iw_stream_listen(i);
	if (!err && listen(i->fd, IW_QUEUE_MAX))
		err = -errno;
	if (!err)
		err = iw_start_watching(i, EPOLLIN);
	if (err) {
		iw_stream_listen_end(i);
		ur_cmt_unwatch(i->c.cmt, &i->source);
		return err;
	}
	iw_stream_claim(i);
	i->backlog = (uint32_t)backlog;
	i->state = IW_LISTENING;
	return 0;
}

static int iw_listen(struct ur_conn *c, int backlog)
{
	struct iw_conn *i = iw_of(c);
	int err;

	lock(i);
	err = listen_locked(i, backlog);
	unlock(i);
	/* For tools alone, which find no process that urnicd does not know. */
	if (!err)
		(void)ur_process_client_open(c->adapter);
	return err;
}

static void iw_seen(struct ur_conn *c)
{
	struct iw_conn *i = iw_of(c);

	if (i->state == IW_ASKED)
		iw_child_leaves(i);
}

static int claim(struct iw_conn *i, const struct ur_cm_param *p)
{
	if (p->qp)
		return ur_iw_link_claim(p->qp, iw_leaf_down, i, &i->link);
	return ur_iw_link_claim_qpn(i->c.adapter, p->qpn, iw_leaf_down, i,
				    &i->link);
}

/* Where to call from: as the application says, else the kernel's choice. */
static void set_source(struct iw_conn *i, const struct sockaddr_storage *src)
{
	memset(&i->from, 0, sizeof(i->from));
	i->from.ss_family = i->to.ss_family;
	if (src && src->ss_family == i->to.ss_family)
		i->from = *src;
}

static int connect_locked(struct iw_conn *i, const struct sockaddr_storage *src,
			  const struct sockaddr_storage *dst,
			  const struct ur_cm_param *p)
{
	enum iw_state before = i->state;
	int err;

	if (before != IW_IDLE && before != IW_BOUND)
		return -EINVAL;
	err = claim(i, p);
	if (err)
		return err;
	i->is_active = true;
	i->to = *dst;
	if (before == IW_IDLE)
		set_source(i, src);
	i->private_len = p->private_data ? p->private_len : 0;
	if (i->private_len)
		memcpy(i->private_data, p->private_data, i->private_len);
	i->mpa.cfg.ird = p->responder_resources;
	i->mpa.cfg.ord = p->initiator_depth;
	err = iw_call(i, 2);
	if (!err)
		return 0;
	iw_disclaim(i);
	iw_stream_drop(i);
	if (before == IW_IDLE)
		iw_conn_set_fd(i, -1);
	i->state = before;
	return err;
}

static int iw_connect(struct ur_conn *c, const struct sockaddr_storage *src,
		      const struct sockaddr_storage *dst,
		      const struct ur_cm_param *param)
{
	struct iw_conn *i = iw_of(c);
	int err;

	lock(i);
	err = connect_locked(i, src, dst, param);
	unlock(i);
	return err;
}

/* Answered: from now on the negotiation goes on by itself. */
static void go_on(struct iw_conn *i)
{
	iw_child_leaves(i);
	i->state = IW_TALKING;
	iw_converse(i);
}

static int accept_locked(struct iw_conn *i, const struct ur_cm_param *p)
{
	int err;

	if (i->state != IW_ASKED)
		return -EINVAL;
	err = claim(i, p);
	if (err)
		return err;
	err = ur_mpa_conn_accept(&i->mpa, p->responder_resources,
				 p->initiator_depth, p->private_data,
				 p->private_data ? p->private_len : 0);
	if (err) {
		iw_disclaim(i);
		return err;
	}
	go_on(i);
	return 0;
}

static int iw_accept(struct ur_conn *c, const struct ur_cm_param *param)
{
	struct iw_conn *i = iw_of(c);
	int err;

	lock(i);
	err = accept_locked(i, param);
	unlock(i);
	return err;
}

static int iw_reject(struct ur_conn *c, uint16_t reason, const void *data,
		     uint8_t len)
{
	struct iw_conn *i = iw_of(c);
	int err = -EINVAL;

	lock(i);
	if (i->state == IW_ASKED)
		err = ur_mpa_conn_reject(&i->mpa, data, data ? len : 0);
	if (!err)
		go_on(i);
	unlock(i);
	return err;
}

static int iw_disconnect(struct ur_conn *c)
{
	struct iw_conn *i = iw_of(c);
	int err = -EINVAL;

	lock(i);
	if (i->link && (i->state == IW_OPEN || i->state == IW_CLOSED))
		err = ur_iw_link_disconnect(i->link);
	unlock(i);
	return err;
}

/* Nothing that the queue pair would need to know. */
static int iw_notify(struct ur_conn *c, enum ur_event_type event)
{
	return 0;
}

/* As the kernel's iw_cm: rights only, and RTS comes by itself. */
static int iw_qp_attr(struct ur_conn *c, enum ur_qp_state state,
		      struct ur_qp_attr *attr, uint32_t *mask)
{
	memset(attr, 0, sizeof(*attr));
	attr->state = state;
	*mask = 0;
	if (state != UR_QPS_INIT && state != UR_QPS_RTR)
		return state == UR_QPS_RTS ? 0 : -EINVAL;
	attr->access = UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |
		       UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC;
	*mask = UR_QP_STATE | UR_QP_ACCESS_FLAGS;
	return 0;
}

const struct ur_conn_ops ur_conn_iwarp_ops = {
	.create = iw_create,
	.destroy = iw_destroy,
	.options = iw_options,
	.bind = iw_bind,
	.port = iw_port,
	.listen = iw_listen,
	.seen = iw_seen,
	.connect = iw_connect,
	.accept = iw_accept,
	.reject = iw_reject,
	.disconnect = iw_disconnect,
	.notify = iw_notify,
	.qp_attr = iw_qp_attr,
};
