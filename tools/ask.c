/* SPDX-License-Identifier: BSD-2-Clause */
#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/ipc_io.h"
#include "client/trust.h"
#include "urnic.h"

#define WAIT_MS	  2000
#define ANSWER_MS 3000
#define WHY_LEN	  256

int ur_ask_with(int conn, struct ur_ipc_msg *m, int with,
		int fds[UR_IPC_MAX_FDS])
{
	struct pollfd p = { .fd = conn, .events = POLLIN };
	static uint32_t seq;
	unsigned int nfds;
	int err, n;

	m->seq = ++seq;
	err = ur_ipc_send(conn, m, &with, with >= 0 ? 1 : 0);
	while (!err) {
		n = poll(&p, 1, WAIT_MS);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -ETIMEDOUT;
		err = ur_ipc_recv(conn, m, fds, &nfds);
		if (!err && m->seq == seq)
			return 0;
		if (!err)
			ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
		else if (err == -EAGAIN)
			err = 0;
	}
	return err;
}

int ur_ask(int conn, struct ur_ipc_msg *m, int fds[UR_IPC_MAX_FDS])
{
	return ur_ask_with(conn, m, -1, fds);
}

static int refused(const struct ur_ipc_msg *m)
{
	ur_tool_error("urnicd: %s", m->text);
	return -EACCES;
}

/* A user may query a daemon that runs as that user or as root. */
static int connect_daemon(int *proof)
{
	int fd = ur_ipc_connect();
	enum ur_trust trust;
	pid_t pid;
	uid_t uid;

	if (fd < 0 || ur_ipc_peer(fd, &pid, &uid))
		return fd;
	*proof = -1;
	trust = ur_trust_urnicd(uid, pid);
	if (trust == UR_TRUST_IF_PROVEN)
		*proof = ur_trust_ask();
	if (trust == UR_TRUST_YES || *proof >= 0 || geteuid() == 0)
		return fd;
	close(fd);
	ur_tool_error("urnicd is run by uid %u (pid %d): %s", (unsigned int)uid,
		      (int)pid, ur_trust_advice(uid));
	return -EACCES;
}

static int hello(int conn, int proof)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_HELLO,
		.version = UR_IPC_VERSION,
		.role = UR_IPC_ROLE_TOOL,
	};
	int fds[UR_IPC_MAX_FDS];
	int err = ur_ask_with(conn, &m, proof, fds);

	if (!err)
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	if (!err && m.type == UR_IPC_ERROR)
		return refused(&m);
	if (!err && proof >= 0 && geteuid() != 0 &&
	    !ur_trust_is_proven(proof)) {
		ur_tool_error("urnicd is not trusted: %s",
			      ur_trust_advice(UR_TRUST_UNKNOWN_UID));
		return -EACCES;
	}
	return err;
}

int ur_ask_open(void)
{
	int proof = -1, conn = connect_daemon(&proof), err;

	if (conn < 0)
		return conn;
	err = hello(conn, proof);
	if (proof >= 0)
		close(proof);
	if (!err)
		return conn;
	close(conn);
	/* It was there. */
	return err == -ECONNREFUSED ? -ECONNRESET : err;
}

/* --- orders --- */

static const char *why_not(uint16_t error)
{
	return error == EPERM	? "it is another user's"
	       : error == ESRCH ? "it has ended"
				: strerror(error);
}

/* The process has answered on its socket: 0, or 1, and why is reported. */
static int take_answer(const struct ur_ipc_msg *m, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char why[WHY_LEN] = "";
	ssize_t n = -1;

	if (poll(&p, 1, ANSWER_MS) <= 0) {
		ur_tool_error("process %u does not answer (stopped?)", m->pid);
		return 1;
	}
	n = recv(fd, why, sizeof(why) - 1, MSG_DONTWAIT);
	if (n <= 0)
		ur_tool_error("process %u has not taken the order", m->pid);
	else if (*why)
		ur_tool_error("process %u: %s", m->pid, why);
	return n <= 0 || *why;
}

int ur_ask_order(int conn, const struct ur_ipc_msg *m, const void *text,
		 size_t len, int *fd)
{
	struct ur_ipc_msg ask = { .type = UR_IPC_FAULT, .id = m->id };
	int fds[UR_IPC_MAX_FDS], pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	if (send(pair[0], text, len, MSG_NOSIGNAL) != (ssize_t)len)
		err = -errno;
	else
		err = ur_ask_with(conn, &ask, pair[1], fds);
	close(pair[1]);
	if (!err)
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
	if (!err && ask.type != UR_IPC_FAULTED)
		err = -EPROTO;
	if (!err && ask.error) {
		ur_tool_error("process %u: %s", m->pid, why_not(ask.error));
		err = 1;
	} else if (!err) {
		err = take_answer(m, pair[0]);
	}
	if (err)
		close(pair[0]);
	else
		*fd = pair[0];
	return err;
}
