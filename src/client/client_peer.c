/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/client_conn.h"

void ur_client_peer(struct ur_client *c, uint16_t slot, uint16_t from,
		    const int fds[2])
{
	struct ur_ipc_msg m = { .type = UR_IPC_PEER,
				.slot = slot,
				.handle = from };

	ur_lock(&c->lock);
	if (c->state == UR_CLIENT_UP)
		ur_client_conn_tell(c, &m, fds, fds ? 2 : 0);
	ur_unlock(&c->lock);
}

void ur_client_on_peer(struct ur_client *c, ur_client_on_peer_fn fn, void *arg)
{
	ur_lock(&c->lock);
	c->on_peer = fn;
	c->peer_arg = arg;
	ur_unlock(&c->lock);
}

void ur_client_peer_came(struct ur_client *c, const struct ur_ipc_msg *m,
			 int *fds)
{
	struct ur_client_peer_note n = { .slot = m->slot,
					 .from = (uint16_t)m->handle,
					 .error = m->error,
					 .fds = { fds[0], fds[1] } };

	if (!c->on_peer || m->handle >= UR_SLOTS)
		return;
	fds[0] = -1;
	fds[1] = -1;
	c->on_peer(c->peer_arg, &n);
}
