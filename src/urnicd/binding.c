/* SPDX-License-Identifier: BSD-2-Clause */
/* BIND and LISTEN of the clients, on client/binds.h. */
#include <errno.h>

#include "base/log.h"
#include "base/rng.h"
#include "urnicd/server.h"

static void answer(struct ur_server *s, struct ur_session *ses, uint32_t seq,
		   uint32_t handle, uint16_t port, int err)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_BOUND,
		.seq = seq,
		.handle = handle,
		.port = port,
		.error = (uint16_t)-err,
	};

	ur_session_send(s, ses, &m, NULL, 0);
}

/*
 * Claims are checked too, or any process could take a port by a claim.  A
 * process that dropped the capability since it bound the port loses the port
 * when urnicd restarts.
 */
static bool may_have(const struct ur_session *ses, uint16_t port)
{
	return port == 0 || port >= UR_BIND_ROOT_PORT ||
	       (ses->pid > 0 && ur_bind_may_root_port(ses->pid));
}

static void add(struct ur_server *s, struct ur_session *ses, uint32_t seq,
		const struct ur_bind_want *want)
{
	uint16_t port = want->port;
	uint32_t chance;
	int err = 0;

	ur_rng_secret(&chance, sizeof(chance));
	if (!may_have(ses, want->port))
		err = -EACCES;
	if (!err)
		err = ur_quota_take(&s->quota, ses->uid, UR_QUOTA_PORTS, 1);
	if (!err) {
		err = ur_binds_add(&s->binds, &ses->binds, want, chance, &port);
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_PORTS, err != 0);
	}
	/* Thousands of claims may come at once: only errors are answered. */
	if (!err && (want->flags & UR_BIND_CLAIM))
		return;
	if (want->flags & UR_BIND_CLAIM)
		ur_warn_some("pid %d (%s) claims port %u of space %#x: %d",
			     (int)ses->pid, ses->comm, want->port, want->ps,
			     err);
	answer(s, ses, seq, want->handle, port, err);
}

/* In the grace time after a restart a port may belong to a process that has
 * not claimed it yet, so no new binding is made. */
void ur_binding_add(struct ur_server *s, struct ur_session *ses, uint32_t seq,
		    const struct ur_bind_want *want)
{
	bool claim = want->flags & UR_BIND_CLAIM;

	if (!claim && (want->flags & UR_BIND_LISTEN)) {
		ur_session_close(s, ses, "listens without asking");
		return;
	}
	if (claim || s->phase != UR_PHASE_GRACE) {
		add(s, ses, seq, want);
		return;
	}
	ses->bind_waiting = true;
	ses->bind_seq = seq;
	ses->bind_want = *want;
}

void ur_binding_listen(struct ur_server *s, struct ur_session *ses,
		       const struct ur_ipc_msg *m, int *fds)
{
	int err = ur_binds_listen(&s->binds, &ses->binds, m->handle);

	answer(s, ses, m->seq, m->handle, 0, err);
	if (!err)
		ur_relisten_listen(s);
}

void ur_binding_serve_waiting(struct ur_server *s)
{
	ur_list_each_safe(struct ur_session, ses, &s->sessions, node) {
		if (!ses->bind_waiting || ses->dead)
			continue;
		ses->bind_waiting = false;
		add(s, ses, ses->bind_seq, &ses->bind_want);
	}
}
