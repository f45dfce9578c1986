/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tools send to processes.  Captures (core/capture.h): passes a tool's ring to a process of its user, or
 * root's to any, and says to the process when the tool has gone.  The packets do
 * not come here.  Faults: passes the socket on which the tool and the process speak.
 */
#include <errno.h>
#include <stddef.h>

#include "urnicd/server.h"

static struct ur_session *find(const struct ur_server *s, uint32_t id)
{
	ur_list_each(struct ur_session, ses, &s->sessions, node)
		if (ses->id == id && ses->role == UR_IPC_ROLE_CLIENT)
			return ses;
	return NULL;
}

/* May the tool act on that process? */
static int check(const struct ur_session *tool, const struct ur_session *ses)
{
	if (!ses)
		return ESRCH;
	return tool->uid != ses->uid && tool->uid != 0 ? EPERM : 0;
}

static int check_captor(const struct ur_session *tool,
			const struct ur_session *ses)
{
	int err = check(tool, ses);

	return !err && ses->captor && ses->captor != tool ? EBUSY : err;
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
				  .error = (uint16_t)check_captor(tool, ses) };

	if (!out.error) {
		ses->captor = fds[0] >= 0 ? tool : NULL;
		tell(s, ses, fds, fds[0] >= 0 ? 1 : 0);
	}
	ur_session_send(s, tool, &out, NULL, 0);
}

void ur_captures_forget(struct ur_server *s, const struct ur_session *tool)
{
	ur_list_each_safe(struct ur_session, ses, &s->sessions, node) {
		if (ses->captor != tool)
			continue;
		ses->captor = NULL;
		tell(s, ses, NULL, 0);
	}
}

void ur_faults_ask(struct ur_server *s, struct ur_session *tool,
		   const struct ur_ipc_msg *m, int *fds)
{
	const struct ur_ipc_msg fault = { .type = UR_IPC_FAULT };
	struct ur_session *ses = find(s, m->id);
	struct ur_ipc_msg out = { .type = UR_IPC_FAULTED,
				  .seq = m->seq,
				  .error = (uint16_t)check(tool, ses) };

	/* First, since the process may kill us at once. */
	ur_session_send(s, tool, &out, NULL, 0);
	if (!out.error)
		ur_session_send(s, ses, &fault, fds, 1);
}
