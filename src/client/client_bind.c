/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports of the RDMA port spaces: requested from urnicd, and kept here to be
 * claimed from the next urnicd.  A process that works alone has a table of its
 * own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "client/client_conn.h"

#define ASK_NS 20000000000ull

void ur_client_on_mad(struct ur_client *c, ur_client_mad fn, void *arg)
{
	ur_lock(&c->lock);
	c->on_mad = fn;
	c->mad_arg = arg;
	ur_unlock(&c->lock);
}

static int ask(struct ur_client *c, struct ur_ipc_msg *m)
{
	int err = ur_client_conn_ask_again(c, m, -1, ur_clock_ns() + ASK_NS);

	if (!err && c->reply.type != UR_IPC_BOUND)
		err = -EPROTO;
	return err ? err : ur_client_conn_error(c->reply.error, "RDMA ports");
}

/* Handles only grow, so a new one goes to the end. */
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

struct ur_client_bind *ur_client_bind_enter(struct ur_client *c,
					    const struct ur_bind_want *want)
{
	struct ur_client_bind *b;

	if (reserve(c))
		return NULL;
	b = &c->binds[c->nbinds++];
	*b = (struct ur_client_bind){ .want = *want };
	b->want.handle = ++c->last_handle;
	return b;
}

struct ur_client_bind *ur_client_bind_find(struct ur_client *c, uint32_t handle)
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

void ur_client_bind_drop(struct ur_client *c, struct ur_client_bind *b,
			 bool tell)
{
	struct ur_ipc_msg m = { .type = UR_IPC_UNBIND,
				.handle = b->want.handle };

	memmove(b, b + 1, (size_t)(c->binds + c->nbinds - b - 1) * sizeof(*b));
	c->nbinds--;
	if (c->own_binds)
		ur_binds_del(c->own_binds, &c->own, m.handle);
	else if (tell)
		ur_client_conn_tell(c, &m, NULL, 0);
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

/* `want` is copied: the table of bindings may move while we wait. */
static int bind_by_daemon(struct ur_client *c, struct ur_bind_want want,
			  bool leased, uint16_t *port)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_BIND,
		.handle = want.handle,
		.port_space = want.ps,
		.port = want.port,
		.flags = want.flags,
	};
	int err;

	memcpy(m.addr, want.addr, sizeof(m.addr));
	err = ask(c, &m);
	if (err)
		return err;
	*port = c->reply.port;
	c->lease.safe = true;
	if (leased)
		ur_client_lease_ahead(c, want.ps);
	return 0;
}

/* The binding is not claimed from a new daemon before this one has it. */
static int bind_locked(struct ur_client *c, const struct ur_bind_want *want,
		       bool leased, uint32_t *handle, uint16_t *port)
{
	struct ur_client_bind *b;
	int err;

	if (want->port)
		ur_client_lease_yield(c, want->ps, want->port);
	b = ur_client_bind_enter(c, want);
	if (!b)
		return -ENOMEM;
	b->use = UR_CLIENT_ASKED;
	b->want.flags &= UR_BIND_REUSE | UR_BIND_AFONLY;
	*handle = b->want.handle;
	err = c->state == UR_CLIENT_ALONE
		      ? bind_alone(c, &b->want, port)
		      : bind_by_daemon(c, b->want, leased, port);
	b = ur_client_bind_find(c, *handle);
	if (err) {
		ur_client_bind_drop(c, b, false);
		return err;
	}
	b->want.port = *port;
	b->use = UR_CLIENT_BOUND;
	b->leased = leased;
	return 0;
}

int ur_client_bind(struct ur_client *c, const struct ur_bind_want *want,
		   uint32_t *handle, uint16_t *port)
{
	int err;

	ur_lock(&c->lock);
	err = bind_locked(c, want, false, handle, port);
	ur_unlock(&c->lock);
	return err;
}

int ur_client_lease(struct ur_client *c, uint16_t ps, uint32_t *handle,
		    uint16_t *port)
{
	struct ur_bind_want any = { .ps = ps };
	struct ur_client_bind *b;
	int err = 0;

	ur_lock(&c->lock);
	b = ur_client_lease_take(c, ps);
	if (b) {
		*handle = b->want.handle;
		*port = b->want.port;
	} else {
		err = bind_locked(c, &any, true, handle, port);
	}
	ur_unlock(&c->lock);
	return err;
}

static int listen_locked(struct ur_client *c, uint32_t handle)
{
	struct ur_ipc_msg m = { .type = UR_IPC_LISTEN, .handle = handle };
	struct ur_client_bind *b = ur_client_bind_find(c, handle);
	int err;

	if (!b)
		return -ENOENT;
	if (b->leased)
		return -EINVAL;
	err = c->state == UR_CLIENT_ALONE
		      ? ur_binds_listen(c->own_binds, &c->own, handle)
		      : ask(c, &m);
	b = ur_client_bind_find(c, handle);
	if (!err && b)
		b->listens = true;
	return err;
}

int ur_client_listen(struct ur_client *c, uint32_t handle)
{
	int err;

	ur_lock(&c->lock);
	err = listen_locked(c, handle);
	ur_unlock(&c->lock);
	return err;
}

void ur_client_unbind(struct ur_client *c, uint32_t handle)
{
	struct ur_client_bind *b;

	ur_lock(&c->lock);
	b = ur_client_bind_find(c, handle);
	if (b && !ur_client_lease_keep(c, b))
		ur_client_bind_drop(c, b, true);
	ur_unlock(&c->lock);
}
