/* SPDX-License-Identifier: BSD-2-Clause */
#include "connect/conn.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/socket.h"
#include "connect/conn_internal.h"
#include "engine/hooks.h"
#include "engine/internal.h"

static const struct ur_conn_ops *const ops_of[UR_DEV_KINDS] = {
	[UR_DEV_ROCE] = &ur_conn_roce_ops,
	[UR_DEV_IWARP] = &ur_conn_iwarp_ops,
};

static bool is_dead(const struct ur_adapter *a)
{
	return atomic_load_explicit(&a->dead, memory_order_relaxed);
}

bool ur_conn_is_dead(const struct ur_conn *c)
{
	return is_dead(c->adapter);
}

static void init(struct ur_conn *c, struct ur_adapter *a,
		 const struct ur_conn_ops *ops, enum ur_port_space ps)
{
	c->ops = ops;
	c->adapter = a;
	c->ps = ps;
	c->ended = false;
	c->removed = false;
	ur_list_init(&c->events);
	ur_list_init(&c->orphan);
	ur_list_init(&c->of_cmt);
}

int ur_conn_create(struct ur_adapter *a, enum ur_port_space ps,
		   ur_conn_handler handler, void *user, struct ur_conn **out)
{
	const struct ur_conn_ops *ops = ops_of[a->dev.kind];
	struct ur_cmt *cmt;
	struct ur_conn *c;
	int err;

	if (is_dead(a))
		return -ENODEV;
	if (!ops)
		return -EOPNOTSUPP;
	err = ur_cmt_get(&cmt);
	if (!err)
		err = ops->create(a, ps, &c);
	if (err)
		return err;
	init(c, a, ops, ps);
	c->cmt = cmt;
	c->handler = handler;
	c->user = user;
	ur_lock(&cmt->lock);
	ur_list_add_tail(&cmt->conns, &c->of_cmt);
	ur_unlock(&cmt->lock);
	*out = c;
	return 0;
}

void ur_conn_init_child(struct ur_conn *child, const struct ur_conn *listener)
{
	init(child, listener->adapter, listener->ops, listener->ps);
	child->cmt = listener->cmt;
	child->handler = listener->handler;
	child->user = listener->user;
	child->opts = listener->opts;
	ur_list_add_tail(&child->cmt->conns, &child->of_cmt);
}

static void free_grave(struct ur_cmt_grave *g)
{
	free(ur_container_of(g, struct ur_conn, grave));
}

void ur_conn_free(struct ur_conn *c)
{
	ur_list_del(&c->of_cmt);
	ur_cmt_bury(c->cmt, &c->grave, free_grave);
}

static void destroy(struct ur_conn *c, struct ur_list *orphans)
{
	struct ur_cmt *t = c->cmt;

	ur_lock(&t->lock);
	ur_cmt_forget(t, c, orphans);
	ur_conn_search_end(c);
	ur_list_del(&c->of_cmt);
	ur_unlock(&t->lock);
	c->ops->destroy(c);
}

/* In a child of fork() the parent's connections are left as they are. */
void ur_conn_destroy(struct ur_conn *c)
{
	struct ur_list orphans;

	if (is_dead(c->adapter))
		return;
	ur_list_init(&orphans);
	destroy(c, &orphans);
	while (!ur_list_empty(&orphans)) {
		struct ur_list *n = orphans.next;

		ur_list_del(n);
		destroy(ur_container_of(n, struct ur_conn, orphan), &orphans);
	}
}

void ur_conn_set_user(struct ur_conn *c, ur_conn_handler handler, void *user)
{
	if (is_dead(c->adapter))
		return;
	ur_lock(&c->cmt->lock);
	c->handler = handler;
	c->user = user;
	ur_unlock(&c->cmt->lock);
}

void ur_conn_set_opts(struct ur_conn *c, const struct ur_conn_opts *opts)
{
	if (is_dead(c->adapter))
		return;
	ur_lock(&c->cmt->lock);
	c->opts = *opts;
	if (c->ops->options)
		c->ops->options(c);
	ur_unlock(&c->cmt->lock);
}

#define CALL(c, op, ...)                                                       \
	(is_dead((c)->adapter) ? -ENODEV                                       \
	 : (c)->ops->op	       ? (c)->ops->op(__VA_ARGS__)                     \
			       : -EOPNOTSUPP)

int ur_conn_bind(struct ur_conn *c, struct sockaddr_storage *addr)
{
	return CALL(c, bind, c, addr);
}

int ur_conn_port(struct ur_conn *c, uint16_t *port)
{
	return CALL(c, port, c, port);
}

int ur_conn_listen(struct ur_conn *c, int backlog)
{
	return CALL(c, listen, c, backlog);
}

void ur_conn_seen(struct ur_conn *c)
{
	if (is_dead(c->adapter))
		return;
	ur_lock(&c->cmt->lock);
	c->ops->seen(c);
	ur_unlock(&c->cmt->lock);
}

int ur_conn_connect(struct ur_conn *c, const struct sockaddr_storage *src,
		    const struct sockaddr_storage *dst,
		    const struct ur_cm_param *param)
{
	return CALL(c, connect, c, src, dst, param);
}

int ur_conn_establish(struct ur_conn *c)
{
	return CALL(c, establish, c);
}

int ur_conn_accept(struct ur_conn *c, const struct ur_cm_param *param)
{
	return CALL(c, accept, c, param);
}

int ur_conn_reject(struct ur_conn *c, uint16_t reason, const void *private_data,
		   uint8_t private_len)
{
	return CALL(c, reject, c, reason, private_data, private_len);
}

int ur_conn_disconnect(struct ur_conn *c)
{
	return CALL(c, disconnect, c);
}

int ur_conn_notify(struct ur_conn *c, enum ur_event_type event)
{
	return CALL(c, notify, c, event);
}

int ur_conn_qp_attr(struct ur_conn *c, enum ur_qp_state state,
		    struct ur_qp_attr *attr, uint32_t *mask)
{
	return CALL(c, qp_attr, c, state, attr, mask);
}

bool ur_conn_addr_any(const struct sockaddr_storage *addr)
{
	uint8_t gid[16];

	ur_addr_from_sockaddr(gid, addr);
	return ur_bind_is_any(gid);
}

/* An unbound device has all addresses, even those too new for its GID table. */
static bool has_addr(struct ur_adapter *a, const uint8_t gid[16])
{
	return ur_dev_spec_takes_all(&a->dev.spec) ||
	       ur_dev_has_addr(&a->dev, gid);
}

struct ur_adapter *ur_conn_owner(const struct ur_conn *listener,
				 const uint8_t gid[16])
{
	enum ur_dev_kind kind = listener->adapter->dev.kind;

	if (has_addr(listener->adapter, gid))
		return listener->adapter;
	for (uint32_t i = 0; i < UR_MAX_DEVICES; i++) {
		struct ur_adapter *a = ur_process_adapter(i);

		if (a && a->dev.kind == kind && has_addr(a, gid))
			return a;
	}
	return NULL;
}

void ur_conn_set_local(struct ur_conn *c, const uint8_t gid[16])
{
	memset(c->local, 0, sizeof(c->local));
	if (!ur_bind_is_any(gid))
		memcpy(c->local, gid, sizeof(c->local));
	c->moved = false;
}

/* Once for each time that the address goes. */
static void check_address(struct ur_conn *c)
{
	struct ur_conn_event ev = { .type = UR_CONN_ADDR_CHANGE };
	bool gone = !ur_dev_has_addr(&c->adapter->dev, c->local);

	if (gone && !c->moved && ur_conn_post(c, &ev))
		return;
	c->moved = gone;
}

void ur_cm_hook_addresses(struct ur_adapter *a)
{
	struct ur_cmt *t = ur_cmt_started();

	if (!t)
		return;
	ur_lock(&t->lock);
	ur_list_each(struct ur_conn, c, &t->conns, of_cmt)
		if (c->adapter == a && !ur_bind_is_any(c->local))
			check_address(c);
	ur_unlock(&t->lock);
}

/* As the kernel: a listener on a wildcard belongs to no device. */
void ur_cm_hook_removed(struct ur_adapter *a)
{
	const struct ur_conn_event ev = { .type = UR_CONN_REMOVED };
	struct ur_cmt *t = ur_cmt_started();

	if (!t)
		return;
	ur_lock(&t->lock);
	ur_list_each(struct ur_conn, c, &t->conns, of_cmt) {
		if (c->adapter != a || c->removed || ur_bind_is_any(c->local))
			continue;
		if (ur_conn_post(c, &ev))
			ur_err("out of memory: the removal of %s is not reported",
			       a->dev.name);
		c->removed = true;
	}
	ur_unlock(&t->lock);
}

/* Connecting a datagram socket asks the routing table and sends nothing. */
int ur_conn_route(const struct sockaddr_storage *dst,
		  struct sockaddr_storage *src)
{
	struct sockaddr_storage to = *dst;
	socklen_t len = sizeof(*src);
	int fd, err = 0;

	if (dst->ss_family != AF_INET && dst->ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (ur_sockaddr_port(&to) == 0)
		ur_sockaddr_set_port(&to, 1);
	fd = socket(dst->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	memset(src, 0, sizeof(*src));
	if (connect(fd, (struct sockaddr *)&to, ur_sockaddr_len(&to)) ||
	    getsockname(fd, (struct sockaddr *)src, &len))
		err = -errno;
	close(fd);
	if (!err)
		ur_sockaddr_set_port(src, 0);
	return err;
}
