/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc_io.h"

#define ANSWER_MS 200

/* Was the process started with that argument? */
static bool has_argument(pid_t pid, const char *arg)
{
	char path[32], text[1024];
	ssize_t len, at = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = '\0';
	while (at < len && strcmp(text + at, arg) != 0)
		at += (ssize_t)strlen(text + at) + 1;
	return at < len;
}

/* It gives its slot store to clients of its user. */
static bool ask_store(int fd, struct ur_slot_store *store)
{
	struct ur_ipc_msg m = {
		.type = UR_IPC_HELLO,
		.seq = 1,
		.version = UR_IPC_VERSION,
		.role = UR_IPC_ROLE_CLIENT,
	};
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[UR_IPC_MAX_FDS];
	unsigned int n = 0;

	if (ur_ipc_send(fd, &m, NULL, 0) || poll(&p, 1, ANSWER_MS) != 1 ||
	    ur_ipc_recv(fd, &m, fds, &n))
		return false;
	if (m.type != UR_IPC_WELCOME || (n != 0 && n != 2)) {
		ur_ipc_close_fds(fds, n);
		return false;
	}
	ur_slot_store_init(store);
	if (n == 2)
		*store = (struct ur_slot_store){ fds[0], fds[1] };
	return true;
}

bool ur_takeover(struct ur_slot_store *store)
{
	static pid_t told;
	struct ur_slot_store is;
	int fd = ur_ipc_connect();
	bool goes = false;
	pid_t pid;
	uid_t uid;

	if (fd < 0)
		return fd == -ECONNREFUSED; /* it has ended meanwhile */
	if (!ur_ipc_peer(fd, &pid, &uid) && uid == geteuid() && pid != told &&
	    has_argument(pid, "--on-demand") && ask_store(fd, &is)) {
		goes = kill(pid, SIGTERM) == 0;
		ur_slot_store_close(goes ? store : &is);
		if (goes) {
			*store = is;
			told = pid;
			ur_info("takes over from urnicd %d, which a program "
				"started",
				(int)pid);
		}
	}
	close(fd);
	return goes;
}
