/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PEER: urnicd knows which process has a slot.  It passes the offer of one lane
 * to the process of another lane, if both processes are of one user.
 */
#include <errno.h>

#include "client/ipc_io.h"
#include "urnicd/server.h"

static const void *owner_of(const struct ur_server *s, uint32_t slot)
{
	const struct ur_slot *at;

	if (slot >= UR_SLOTS)
		return NULL;
	at = &s->group.slots.slot[slot];
	return at->state == UR_SLOT_USED ? at->owner : NULL;
}

/* The sessions are few, and a slot's owner is known by address only. */
static struct ur_session *session_of(struct ur_server *s, uint32_t slot)
{
	const void *owner = owner_of(s, slot);

	ur_list_each(struct ur_session, ses, &s->sessions, node)
		if (ses == owner)
			return ses;
	return NULL;
}

/* A process that does not read is left alone: it may be stopped. */
static int pass(struct ur_server *s, uid_t uid, const struct ur_ipc_msg *m,
		const int *fds)
{
	const struct ur_session *to = session_of(s, m->slot);
	struct ur_ipc_msg out = { .type = UR_IPC_PEER,
				  .slot = m->slot,
				  .handle = m->handle };

	if (!to)
		return ENOENT;
	if (to->uid != uid)
		return EPERM;
	return -ur_ipc_send(to->conn.fd, &out, fds, fds[0] >= 0 ? 2 : 0);
}

void ur_peers_pass(struct ur_server *s, struct ur_session *ses,
		   const struct ur_ipc_msg *m, int *fds)
{
	uid_t uid = ses->uid;
	struct ur_ipc_msg no = { .type = UR_IPC_PEER,
				 .slot = m->slot,
				 .handle = m->handle };

	if (s->phase == UR_PHASE_GRACE) { /* the owners are not known yet */
		no.error = EAGAIN;
		ur_session_send(s, ses, &no, NULL, 0);
		return;
	}
	if (owner_of(s, m->handle) != ses) {
		ur_session_close(s, ses, "spoke for another's slot");
		return;
	}
	no.error = (uint16_t)pass(s, uid, m, fds);
	if (no.error)
		ur_session_send(s, ses, &no, NULL, 0);
}
