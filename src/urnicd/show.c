/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `urnic show`: a round asks all clients for their reports at once and ends
 * when all have answered, or after UR_SHOW_NS; tools that ask meanwhile join
 * it.  Then the tool asks for one process after the other (NEXT), so that its
 * socket never has to hold more than one reply.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/memfile.h"
#include "client/ipc_io.h"
#include "urnicd/server.h"

static void ask_all(struct ur_server *s)
{
	struct ur_ipc_msg m = { .type = UR_IPC_REPORT_GET };

	ur_list_each_safe(struct ur_session, ses, &s->sessions, node) {
		if (ses->role != UR_IPC_ROLE_CLIENT)
			continue;
		ur_ipc_close_fds(&ses->report_fd, 1);
		/* A client that has not answered the last round is not asked
		 * again: the queue of a stopped process must not fill. */
		if (!ses->asked) {
			ses->asked = true;
			ur_session_send(s, ses, &m, NULL, 0);
		}
	}
}

void ur_show_request(struct ur_server *s, struct ur_session *tool,
		     const struct ur_ipc_msg *m, int *fds)
{
	if (tool->show_waiting) {
		ur_session_close(s, tool, "asked twice");
		return;
	}
	tool->show_waiting = true;
	tool->show_seq = m->seq;
	if (s->show_running)
		return;
	s->show_running = true;
	s->show_end_ns = s->now_ns + UR_SHOW_NS;
	ask_all(s);
}

/* Only a file of memory: to read another kind could block the tool. */
void ur_show_report(struct ur_server *s, struct ur_session *ses,
		    const struct ur_ipc_msg *m, int *fds)
{
	if (!ses->asked) {
		ur_session_close(s, ses, "reports unasked");
		return;
	}
	ses->asked = false;
	if (fds[0] < 0)
		return;
	if (!ur_memfile_is(fds[0])) {
		ur_session_close(s, ses, "sent a report that is no memory");
		return;
	}
	ur_ipc_close_fds(&ses->report_fd, 1);
	ses->report_fd = fds[0];
	fds[0] = -1;
}

static void list_slots(const struct ur_server *s, const struct ur_session *ses,
		       struct ur_ipc_msg *m)
{
	const struct ur_slots *slots = &s->group.slots;

	m->nslots = 0;
	for (unsigned int i = 1; i < slots->count; i++) {
		if (slots->slot[i].state == UR_SLOT_USED &&
		    (!ses || slots->slot[i].owner == ses))
			m->slots[m->nslots++] = (uint16_t)i;
	}
}

static void send_summary(struct ur_server *s, struct ur_session *tool)
{
	int fd = s->ports ? s->ports->report(s->ports->arg) : -ENOENT;
	struct ur_ipc_msg m;

	memset(&m, 0, sizeof(m));
	m.type = UR_IPC_SUMMARY;
	m.seq = tool->show_seq;
	m.pid = (uint32_t)getpid();
	m.uid = s->uid;
	m.since_s = s->since_s;
	m.dropped = ur_mads_dropped(s);
	list_slots(s, NULL, &m);
	tool->show_waiting = false;
	ur_session_send(s, tool, &m, &fd, fd < 0 ? 0 : 1);
	if (fd >= 0)
		close(fd);
}

/* Reports are shown to the process' own user and to root. */
static void send_process(struct ur_server *s, struct ur_session *tool,
			 uint32_t seq, const struct ur_session *ses)
{
	bool share = ses->report_fd >= 0 &&
		     (tool->uid == ses->uid || tool->uid == 0);
	struct ur_ipc_msg m;

	memset(&m, 0, sizeof(m));
	m.type = UR_IPC_PROCESS;
	m.seq = seq;
	m.id = ses->id;
	m.pid = (uint32_t)ses->pid;
	m.uid = ses->uid;
	m.since_s = ses->since_s;
	m.answered = !ses->asked;
	memcpy(m.comm, ses->comm, sizeof(m.comm));
	list_slots(s, ses, &m);
	ur_session_send(s, tool, &m, &ses->report_fd, share ? 1 : 0);
}

void ur_show_next(struct ur_server *s, struct ur_session *tool,
		  const struct ur_ipc_msg *m, int *fds)
{
	struct ur_ipc_msg end = { .type = UR_IPC_END, .seq = m->seq };

	ur_list_each(struct ur_session, ses, &s->sessions, node) {
		if (ses->role != UR_IPC_ROLE_CLIENT || ses->id <= m->id)
			continue;
		send_process(s, tool, m->seq, ses);
		return;
	}
	ur_session_send(s, tool, &end, NULL, 0);
}

static bool all_answered(const struct ur_server *s)
{
	ur_list_each(struct ur_session, ses, &s->sessions, node)
		if (ses->asked)
			return false;
	return true;
}

void ur_show_expire(struct ur_server *s)
{
	if (!s->show_running)
		return;
	if (s->now_ns < s->show_end_ns && !all_answered(s))
		return;
	s->show_running = false;
	ur_list_each_safe(struct ur_session, ses, &s->sessions, node)
		if (ses->show_waiting)
			send_summary(s, ses);
}
