/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc_io.h"
#include "client/trust.h"
#include "urnicd/server.h"

/* Messages of one client per round, so that others are served between. */
#define READ_BURST 16

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static void close_source(struct ur_server *s, struct ur_source *src)
{
	ur_server_unwatch(s, src);
	ur_ipc_close_fds(&src->fd, 1);
}

void ur_session_close(struct ur_server *s, struct ur_session *ses,
		      const char *why)
{
	unsigned int slots;

	if (ses->dead)
		return;
	ses->dead = true;
	close_source(s, &ses->conn);
	close_source(s, &ses->process);
	ur_ipc_close_fds(&ses->report_fd, 1);
	ur_list_del(&ses->node);
	ur_list_add_tail(&s->dead, &ses->node);
	s->nsessions--;
	s->idle_since_ns = s->now_ns;
	ur_mads_forget(s, ses);
	if (ses->role == UR_IPC_ROLE_TOOL)
		ur_captures_forget(s, ses);
	ur_quota_give(&s->quota, ses->uid, UR_QUOTA_PORTS, ses->binds.count);
	ur_binds_drop(&s->binds, &ses->binds);
	ur_xrcd_forget(s, ses);
	ur_tcp_forget(s, ses);
	ur_exits_open(s, ses);
	ur_ipc_close_fds(&ses->exit_fd, 1);
	ur_records_keep(s, ses);
	ur_ipc_close_fds(&ses->record_fd, 1);
	slots = ur_port_reclaim(s, ses);
	ur_quota_give(&s->quota, ses->uid, UR_QUOTA_SESSIONS, ses->counted);
	if (slots)
		ur_info_some("pid %d (%s) %s: %u slots reclaimed",
			     (int)ses->pid, ses->comm, why, slots);
	else
		ur_debug("pid %d (%s) %s", (int)ses->pid, ses->comm, why);
}

void ur_session_reap(struct ur_server *s)
{
	ur_list_each_safe(struct ur_session, ses, &s->dead, node) {
		ur_list_del(&ses->node);
		free(ses->claims);
		free(ses);
	}
}

void ur_session_send(struct ur_server *s, struct ur_session *ses,
		     const struct ur_ipc_msg *m, const int *fds,
		     unsigned int nfds)
{
	int err;

	if (ses->dead)
		return;
	err = ur_ipc_send(ses->conn.fd, m, fds, nfds);
	if (err)
		ur_session_close(s, ses, strerror(-err));
}

void ur_session_refuse(struct ur_server *s, struct ur_session *ses,
		       uint32_t seq, int err, const char *text)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_ERROR,
		.seq = seq,
		.error = (uint16_t)-err,
	};

	snprintf(m.text, sizeof(m.text), "%s", text);
	ur_session_send(s, ses, &m, NULL, 0);
}

void ur_session_welcome(struct ur_server *s, struct ur_session *ses,
			uint32_t seq)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_WELCOME,
		.seq = seq,
		.version = UR_IPC_VERSION,
		.pid = (uint32_t)getpid(),
	};
	int fds[2] = { s->group.store.rd, s->group.store.wr };
	/* The store has the sockets of all users: only for our own user. */
	bool share = ses->role == UR_IPC_ROLE_CLIENT && ses->uid == s->uid &&
		     fds[0] >= 0;

	ses->store = s->group.stores;
	ur_session_send(s, ses, &m, fds, share ? 2 : 0);
}

static void on_hello(struct ur_server *s, struct ur_session *ses,
		     const struct ur_ipc_msg *m, int *fds)
{
	if (m->version != UR_IPC_VERSION) {
		ur_session_refuse(s, ses, m->seq, -EPROTO,
				  "this urnicd is of another version: stop "
				  "it, or use the library installed with it");
		ur_session_close(s, ses, "has another version");
		return;
	}
	ses->role = m->role;
	if (fds[1] >= 0)
		ur_port_store(s, ses, fds);
	else if (fds[0] >= 0)
		ur_trust_prove(fds[0]);
	ur_session_welcome(s, ses, m->seq);
}

static void on_slot_get(struct ur_server *s, struct ur_session *ses,
			const struct ur_ipc_msg *m, int *fds)
{
	if (ses->slot_waiting) {
		ur_session_close(s, ses,
				 "sent a second request before the answer");
		return;
	}
	ur_port_request(s, ses, m->seq);
}

static void on_slot_put(struct ur_server *s, struct ur_session *ses,
			const struct ur_ipc_msg *m, int *fds)
{
	if (ur_port_put(s, ses, m->slot))
		ur_session_close(s, ses, "gave back a slot that it has not");
}

static void on_bind(struct ur_server *s, struct ur_session *ses,
		    const struct ur_ipc_msg *m, int *fds)
{
	struct ur_bind_want want = {
		.handle = m->handle,
		.ps = m->port_space,
		.port = m->port,
		.flags = m->flags,
	};

	memcpy(want.addr, m->addr, sizeof(want.addr));
	if (ses->bind_waiting)
		ur_session_close(s, ses,
				 "sent a second request before the answer");
	else
		ur_binding_add(s, ses, m->seq, &want);
}

static void on_unbind(struct ur_server *s, struct ur_session *ses,
		      const struct ur_ipc_msg *m, int *fds)
{
	/* It may be one whose claim was refused. */
	ur_relisten_unbind(s, ses, m->handle);
	if (!ur_binds_del(&s->binds, &ses->binds, m->handle))
		ur_quota_give(&s->quota, ses->uid, UR_QUOTA_PORTS, 1);
}

/* Which messages each role may send. */
static const struct {
	uint8_t role;
	ur_message_fn *handle;
} handlers[UR_IPC_TYPES] = {
	[UR_IPC_HELLO] = { 0, on_hello },
	[UR_IPC_SLOT_GET] = { UR_IPC_ROLE_CLIENT, on_slot_get },
	[UR_IPC_SLOT_PUT] = { UR_IPC_ROLE_CLIENT, on_slot_put },
	[UR_IPC_CLAIM] = { UR_IPC_ROLE_CLIENT, ur_port_claim },
	[UR_IPC_REPORT] = { UR_IPC_ROLE_CLIENT, ur_show_report },
	[UR_IPC_SHOW] = { UR_IPC_ROLE_TOOL, ur_show_request },
	[UR_IPC_NEXT] = { UR_IPC_ROLE_TOOL, ur_show_next },
	[UR_IPC_BIND] = { UR_IPC_ROLE_CLIENT, on_bind },
	[UR_IPC_LISTEN] = { UR_IPC_ROLE_CLIENT, ur_binding_listen },
	[UR_IPC_EXIT_FILE] = { UR_IPC_ROLE_CLIENT, ur_exits_take },
	[UR_IPC_RECORD] = { UR_IPC_ROLE_CLIENT, ur_records_take },
	[UR_IPC_RECORD_NEXT] = { UR_IPC_ROLE_TOOL, ur_records_next },
	[UR_IPC_CAPTURE] = { UR_IPC_ROLE_TOOL, ur_captures_ask },
	[UR_IPC_FAULT] = { UR_IPC_ROLE_TOOL, ur_faults_ask },
	[UR_IPC_PEER] = { UR_IPC_ROLE_CLIENT, ur_peers_pass },
	[UR_IPC_RING_GET] = { UR_IPC_ROLE_CLIENT, ur_port_ring },
	[UR_IPC_TCP_RING_GET] = { UR_IPC_ROLE_CLIENT, ur_tcp_ring },
	[UR_IPC_TCP_LEASE] = { UR_IPC_ROLE_CLIENT, ur_tcp_lease },
	[UR_IPC_TCP_PUT] = { UR_IPC_ROLE_CLIENT, ur_tcp_put },
	[UR_IPC_UNBIND] = { UR_IPC_ROLE_CLIENT, on_unbind },
	[UR_IPC_XRCD_OPEN] = { UR_IPC_ROLE_CLIENT, ur_xrcd_join },
	[UR_IPC_XRCD_CLOSE] = { UR_IPC_ROLE_CLIENT, ur_xrcd_leave },
	[UR_IPC_XRC_GET] = { UR_IPC_ROLE_CLIENT, ur_xrcd_connect },
};

static void dispatch(struct ur_server *s, struct ur_session *ses,
		     const struct ur_ipc_msg *m, int *fds)
{
	if (!handlers[m->type].handle || handlers[m->type].role != ses->role)
		ur_session_close(s, ses, "broke the protocol");
	else
		handlers[m->type].handle(s, ses, m, fds);
}

static void conn_ready(struct ur_server *s, struct ur_source *src,
		       uint32_t events)
{
	struct ur_session *ses = ur_container_of(src, struct ur_session, conn);
	int fds[UR_IPC_MAX_FDS], err;
	struct ur_ipc_msg m;
	unsigned int nfds;

	if (events & EPOLLOUT)
		ur_mads_flush(s, ses);
	for (int i = 0; i < READ_BURST && !ses->dead; i++) {
		err = ur_ipc_recv(src->fd, &m, fds, &nfds);
		if (err == -EAGAIN)
			return;
		if (err == -EMFILE) {
			ur_warn_some("pid %d (%s) is refused: %s",
				     (int)ses->pid, ses->comm, UR_NO_FILES);
			ur_session_refuse(s, ses, 0, err, UR_NO_FILES);
		}
		if (err) {
			ur_session_close(s, ses,
					 err == -ECONNRESET ? "ended"
							    : strerror(-err));
			return;
		}
		dispatch(s, ses, &m, fds);
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	}
}

static void process_ready(struct ur_server *s, struct ur_source *src,
			  uint32_t events)
{
	struct ur_session *ses =
		ur_container_of(src, struct ur_session, process);

	ur_session_close(s, ses, "exited");
}

static void read_comm(struct ur_session *ses)
{
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)ses->pid);
	f = fopen(path, "re");
	if (!f || !fgets(ses->comm, sizeof(ses->comm), f))
		snprintf(ses->comm, sizeof(ses->comm), "?");
	ses->comm[strcspn(ses->comm, "\n")] = 0;
	if (f)
		fclose(f);
}

/* urnicd of root serves all users, that of a user this user and root. */
static const char *why_not(struct ur_server *s, struct ur_session *ses)
{
	if (s->uid != 0 && ses->uid != s->uid && ses->uid != 0 &&
	    !ur_trust_is_listed(ses->uid))
		return "this urnicd serves another user only: let root run it "
		       "for all users (systemctl start urnicd), or start it "
		       "with URNIC_USERS, the users that trust each other";
	if (s->nsessions >= UR_SESSIONS_MAX)
		return "too many connections";
	if (ur_quota_take(&s->quota, ses->uid, UR_QUOTA_SESSIONS, 1))
		return "this user has its share of connections to urnicd "
		       "(urnicd(8), --user-share)";
	ses->counted = true;
	return NULL;
}

static void watch_session(struct ur_server *s, struct ur_session *ses)
{
	if (ses->pid > 0)
		ses->process.fd = (int)syscall(SYS_pidfd_open, ses->pid, 0);
	if (ses->process.fd >= 0 && ur_server_watch(s, &ses->process))
		ur_ipc_close_fds(&ses->process.fd, 1);
	if (ur_server_watch(s, &ses->conn))
		ur_session_close(s, ses, "cannot be watched");
}

void ur_session_open(struct ur_server *s, int fd)
{
	struct ur_session *ses = calloc(1, sizeof(*ses));
	struct timespec ts;
	const char *why;

	if (!ses || ur_ipc_peer(fd, &ses->pid, &ses->uid)) {
		free(ses);
		close(fd);
		return;
	}
	ses->conn = (struct ur_source){ fd, conn_ready };
	ses->process = (struct ur_source){ -1, process_ready };
	ses->report_fd = -1;
	ses->exit_fd = -1;
	ses->record_fd = -1;
	ur_bind_owner_init(&ses->binds);
	ur_list_init(&ses->mads);
	ses->id = ++s->last_id;
	ses->opened_ns = s->now_ns;
	clock_gettime(CLOCK_REALTIME, &ts);
	ses->since_s = (uint64_t)ts.tv_sec;
	read_comm(ses);
	why = why_not(s, ses);
	ur_list_add_tail(&s->sessions, &ses->node);
	s->nsessions++;
	if (why) {
		ur_session_refuse(s, ses, 0, -EPERM, why);
		ur_session_close(s, ses, "is refused");
		return;
	}
	watch_session(s, ses);
}
