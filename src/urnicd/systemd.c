/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As a service urnicd gives its slot store (slot_store.h) to the service
 * manager, so that a restart finds it even if no process of its own user lives.
 * The protocol is sd_notify(3) and sd_listen_fds(3).
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/passed.h"
#include "urnicd/server.h"

#define FIRST_FD 3
/* Names in the file descriptor store, which outlives an update. */
#define NAME_RD	 "urnic-keeper-read"
#define NAME_WR	 "urnic-keeper-write"

static int notify_address(struct sockaddr_un *sa, socklen_t *len)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(sa->sun_path))
		return -ENOENT;
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path, path, n);
	if (path[0] == '@')
		sa->sun_path[0] = 0;
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	return 0;
}

static void notify(const char *text, int fd)
{
	UR_FDS_SPACE(1) space;
	struct iovec iov = { .iov_len = strlen(text) };
	struct sockaddr_un sa;
	struct msghdr mh = { .msg_name = &sa, .msg_iov = &iov };
	int sock;

	if (notify_address(&sa, &mh.msg_namelen))
		return;
	iov.iov_base = strdupa(text);
	mh.msg_iovlen = 1;
	ur_fds_put(&mh, &space, &fd, fd >= 0);
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return;
	if (sendmsg(sock, &mh, MSG_NOSIGNAL) < 0)
		ur_warn("service manager: %s", strerror(errno));
	close(sock);
}

void ur_systemd_ready(void)
{
	notify("READY=1", -1);
}

/* A descriptor that is stored already is not stored twice. */
void ur_systemd_put(const struct ur_slot_store *k, bool replaces)
{
	if (replaces) {
		notify("FDSTOREREMOVE=1\nFDNAME=" NAME_RD, -1);
		notify("FDSTOREREMOVE=1\nFDNAME=" NAME_WR, -1);
	}
	notify("FDSTORE=1\nFDPOLL=0\nFDNAME=" NAME_RD, k->rd);
	notify("FDSTORE=1\nFDPOLL=0\nFDNAME=" NAME_WR, k->wr);
}

/* The name of the nth passed descriptor is the nth of LISTEN_FDNAMES. */
static int named_fd(const char *names, int count, const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; i < count && names; i++) {
		if (strcspn(names, ":") == len && !strncmp(names, name, len))
			return FIRST_FD + i;
		names = strchr(names, ':');
		names = names ? names + 1 : NULL;
	}
	return -1;
}

int ur_systemd_get(struct ur_slot_store *k)
{
	const char *pid = getenv("LISTEN_PID");
	const char *count = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	int n = count ? (int)strtol(count, NULL, 10) : 0;

	ur_slot_store_init(k);
	if (!pid || strtol(pid, NULL, 10) != getpid() || n < 2)
		return -ENOENT;
	k->rd = named_fd(names, n, NAME_RD);
	k->wr = named_fd(names, n, NAME_WR);
	if (k->rd < 0 || k->wr < 0) {
		ur_slot_store_init(k);
		return -ENOENT;
	}
	fcntl(k->rd, F_SETFD, FD_CLOEXEC);
	fcntl(k->wr, F_SETFD, FD_CLOEXEC);
	return 0;
}
