/* SPDX-License-Identifier: BSD-2-Clause */
#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "client/ipc_io.h"
#include "client/trust.h"
#include "urnic.h"

#define WAIT_MS 2000

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
