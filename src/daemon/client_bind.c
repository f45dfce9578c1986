/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports of the RDMA port spaces: asked of urnicd, and remembered here so that
 * the next urnicd can be told.  A process that works alone keeps the books
 * itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "daemon/client_conn.h"

#define ASK_NS 20000000000ull

void ur_client_on_mad(struct ur_client *c, ur_client_mad fn, void *arg)
{
	ur_lock(&c->lock);
	c->on_mad = fn;
	c->mad_arg = arg;
	ur_unlock(&c->lock);
}

void ur_client_will(struct ur_client *c, int fd)
{
	struct ur_ipc_msg m = { .type = UR_IPC_WILL };

	ur_lock(&c->lock);
	c->will_fd = fd;
	ur_client_conn_tell(c, &m, &fd, 1);
	ur_unlock(&c->lock);
}

/* Ask, of one daemon or the next. */
static int ask(struct ur_client *c, struct ur_ipc_msg *m)
{
	uint64_t deadline = ur_client_conn_now() + ASK_NS;
	int err;

	do {
		err = c->state == UR_CLIENT_LOST ? ur_client_conn_open(c) : 0;
		if (!err)
			err = ur_client_conn_ask(c, m, deadline);
	} while (err == -ECONNRESET && ur_client_conn_now() < deadline);
	if (!err && c->reply.type != UR_IPC_BOUND)
		err = -EPROTO;
	return err ? err : -(int)c->reply.error;
}

/* Handles only grow, so that a new one stands behind all others. */
static int reserve(struct ur_client *c)
{
	uint32_t cap = c->cap_binds ? 2 * c->cap_binds : 16;
	struct ur_client_bind *binds;

	if (c->last_handle == UINT32_MAX)
		return -ENOSPC;
	if (c->nbinds < c->cap_binds)
		return 0;
	binds = realloc(c->binds, cap * sizeof(*binds));
	if (!binds)
		return -ENOMEM;
	c->binds = binds;
	c->cap_binds = cap;
	return 0;
}

static struct ur_client_bind *find(struct ur_client *c, uint32_t handle)
{
	uint32_t lo = 0, hi = c->nbinds;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (c->binds[mid].want.handle < handle)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == c->nbinds || c->binds[lo].want.handle != handle)
		return NULL;
	return &c->binds[lo];
}

static int own_books(struct ur_client *c)
{
	uint16_t first, last;

	if (c->own_binds)
		return 0;
	c->own_binds = malloc(sizeof(*c->own_binds));
	if (!c->own_binds)
		return -ENOMEM;
	ur_binds_range(&first, &last);
	ur_binds_init(c->own_binds, first, last);
	ur_bind_owner_init(&c->own);
	return 0;
}

static int bind_alone(struct ur_client *c, const struct ur_bind_want *want,
		      uint16_t *port)
{
	uint32_t chance;
	int err = own_books(c);

	if (err)
		return err;
	if (want->port && want->port < UR_BIND_ROOT_PORT &&
	    !ur_bind_may_root_port(0))
		return -EACCES;
	ur_rng_secret(&chance, sizeof(chance));
	return ur_binds_add(c->own_binds, &c->own, want, chance, port);
}

static int bind_by_daemon(struct ur_client *c, const struct ur_bind_want *want,
			  uint16_t *port)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_BIND,
		.handle = want->handle,
		.port_space = want->ps,
		.port = want->port,
		.flags = want->flags,
	};
	int err;

	memcpy(m.addr, want->addr, sizeof(m.addr));
	err = ask(c, &m);
	if (!err)
		*port = c->reply.port;
	return err;
}

static int bind_locked(struct ur_client *c, struct ur_bind_want *w)
{
	int err = reserve(c);

	if (err)
		return err;
	w->handle = ++c->last_handle;
	w->flags &= UR_BIND_REUSE | UR_BIND_AFONLY;
	err = c->state == UR_CLIENT_ALONE ? bind_alone(c, w, &w->port)
					  : bind_by_daemon(c, w, &w->port);
	if (!err)
		c->binds[c->nbinds++] = (struct ur_client_bind){ .want = *w };
	return err;
}

int ur_client_bind(struct ur_client *c, const struct ur_bind_want *want,
		   uint32_t *handle, uint16_t *port)
{
	struct ur_bind_want w = *want;
	int err;

	ur_lock(&c->lock);
	err = bind_locked(c, &w);
	ur_unlock(&c->lock);
	if (err)
		return err;
	*handle = w.handle;
	*port = w.port;
	return 0;
}

int ur_client_listen(struct ur_client *c, uint32_t handle)
{
	struct ur_ipc_msg m = { .type = UR_IPC_LISTEN, .handle = handle };
	struct ur_client_bind *b;
	int err = -ENOENT;

	ur_lock(&c->lock);
	b = find(c, handle);
	if (b)
		err = c->state == UR_CLIENT_ALONE
			      ? ur_binds_listen(c->own_binds, &c->own, handle)
			      : ask(c, &m);
	if (!err)
		b->listens = true;
	ur_unlock(&c->lock);
	return err;
}

void ur_client_unbind(struct ur_client *c, uint32_t handle)
{
	struct ur_ipc_msg m = { .type = UR_IPC_UNBIND, .handle = handle };
	struct ur_client_bind *b;

	ur_lock(&c->lock);
	b = find(c, handle);
	if (!b)
		goto unlock;
	memmove(b, b + 1, (size_t)(c->binds + c->nbinds - b - 1) * sizeof(*b));
	c->nbinds--;
	if (c->state == UR_CLIENT_ALONE)
		ur_binds_del(c->own_binds, &c->own, handle);
	else
		ur_client_conn_tell(c, &m, NULL, 0);
unlock:
	ur_unlock(&c->lock);
}
