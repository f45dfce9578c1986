/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures (core/capture.h): passes a tool's ring to a process of its user, or
 * root's to any, and says to the process when the tool has gone.  The packets do
 * not come here.
 */
#include <errno.h>
#include <stddef.h>

#include "urnicd/server.h"

static struct ur_session *find(const struct ur_server *s, uint32_t id)
{
	ur_list_for_each(n, &s->sessions) {
		struct ur_session *ses =
			ur_container_of(n, struct ur_session, node);

		if (ses->id == id && ses->role == UR_IPC_ROLE_CLIENT)
			return ses;
	}
	return NULL;
}

static int check(const struct ur_session *tool, const struct ur_session *ses)
{
	if (!ses)
		return ESRCH;
	if (tool->uid != ses->uid && tool->uid != 0)
		return EPERM;
	return ses->captor && ses->captor != tool ? EBUSY : 0;
}

static void tell(struct ur_server *s, struct ur_session *ses, const int *fd,
		 unsigned int nfds)
{
	const struct ur_ipc_msg m = { .type = UR_IPC_CAPTURE };

	ur_session_send(s, ses, &m, fd, nfds);
}

void ur_captures_ask(struct ur_server *s, struct ur_session *tool,
		     const struct ur_ipc_msg *m, int *fds)
{
	struct ur_session *ses = find(s, m->id);
	struct ur_ipc_msg out = { .type = UR_IPC_CAPTURED,
				  .seq = m->seq,
				  .error = (uint16_t)check(tool, ses) };

	if (!out.error) {
		ses->captor = fds[0] >= 0 ? tool : NULL;
		tell(s, ses, fds, fds[0] >= 0 ? 1 : 0);
	}
	ur_session_send(s, tool, &out, NULL, 0);
}

void ur_captures_forget(struct ur_server *s, const struct ur_session *tool)
{
	ur_list_for_each_safe(n, tmp, &s->sessions) {
		struct ur_session *ses =
			ur_container_of(n, struct ur_session, node);

		if (ses->captor != tool)
			continue;
		ses->captor = NULL;
		tell(s, ses, NULL, 0);
	}
}
