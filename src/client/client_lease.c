/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports to connect from.  Asking urnicd for each costs two system calls on
 * either side and a change of threads, more than the rest of the work of the
 * connecting side.  So a port that was given back is kept for the next
 * connection, and when none is left, some more are asked for without waiting:
 * one at first, twice as many each time.  A process with few connections has
 * few spare ports.
 */
#include "client/client_conn.h"

static void remove_spare(struct ur_client_lease *l, uint32_t i)
{
	l->nspares--;
	for (; i < l->nspares; i++)
		l->spare[i] = l->spare[i + 1];
}

struct ur_client_bind *ur_client_lease_take(struct ur_client *c, uint16_t ps)
{
	struct ur_client_lease *l = &c->lease;

	for (uint32_t i = 0; i < l->nspares; i++) {
		struct ur_client_bind *b = ur_client_bind_find(c, l->spare[i]);

		if (b->want.ps != ps)
			continue;
		remove_spare(l, i);
		b->use = UR_CLIENT_BOUND;
		return b;
	}
	return NULL;
}

static void keep(struct ur_client *c, struct ur_client_bind *b)
{
	b->use = UR_CLIENT_SPARE;
	c->lease.spare[c->lease.nspares++] = b->want.handle;
}

bool ur_client_lease_keep(struct ur_client *c, struct ur_client_bind *b)
{
	struct ur_client_lease *l = &c->lease;

	if (!b->leased || c->state == UR_CLIENT_ALONE ||
	    l->nspares + l->asked >= UR_CLIENT_SPARES)
		return false;
	keep(c, b);
	return true;
}

static void ask_one(struct ur_client *c, uint16_t ps)
{
	struct ur_bind_want any = { .ps = ps };
	struct ur_client_bind *b = ur_client_bind_enter(c, &any);
	struct ur_ipc_msg m = { .type = UR_IPC_BIND, .port_space = ps };

	if (!b)
		return;
	b->use = UR_CLIENT_ASKED;
	b->leased = true;
	m.handle = b->want.handle;
	c->lease.asked++;
	ur_client_conn_tell(c, &m, NULL, 0);
}

void ur_client_lease_ahead(struct ur_client *c, uint16_t ps)
{
	struct ur_client_lease *l = &c->lease;
	uint32_t n = l->ahead;

	l->ahead = n ? 2 * n : 1;
	if (l->ahead > UR_CLIENT_AHEAD)
		l->ahead = UR_CLIENT_AHEAD;
	while (n-- && l->safe && l->nspares + l->asked < UR_CLIENT_SPARES)
		ask_one(c, ps);
}

void ur_client_lease_yield(struct ur_client *c, uint16_t ps, uint16_t port)
{
	struct ur_client_lease *l = &c->lease;

	for (uint32_t i = 0; i < l->nspares; i++) {
		struct ur_client_bind *b = ur_client_bind_find(c, l->spare[i]);

		if (b->want.ps != ps || b->want.port != port)
			continue;
		remove_spare(l, i);
		ur_client_bind_drop(c, b, true);
		return;
	}
}

bool ur_client_lease_bound(struct ur_client *c, const struct ur_ipc_msg *m)
{
	struct ur_client_bind *b = ur_client_bind_find(c, m->handle);

	if (!b || b->use != UR_CLIENT_ASKED || !b->leased)
		return false;
	c->lease.asked--;
	b->want.port = m->port;
	if (m->error)
		ur_client_bind_drop(c, b, false);
	else
		keep(c, b);
	return true;
}

void ur_client_lease_lost(struct ur_client *c)
{
	for (uint32_t i = c->nbinds; i-- > 0;) {
		struct ur_client_bind *b = &c->binds[i];

		if (b->use == UR_CLIENT_ASKED && b->leased)
			ur_client_bind_drop(c, b, false);
	}
	c->lease.asked = 0;
	c->lease.safe = false;
}
