/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DPDK's driver for memif does not take over the socket of a server that was
 * killed: its file stays, and the next server cannot bind to it.  So a file
 * that no process is bound to is removed before the driver starts.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "ports/dpdk/internal.h"

#define DEVICE	 "net_memif"
#define VDEV	 "--vdev="
#define PAUSE_NS 20000000 /* longer than bind() takes */

/* Its value in "name,key=value,key=value", of that length; or NULL. */
static const char *value_of(const char *arg, const char *key, size_t *len)
{
	size_t n = strlen(key);

	for (const char *at = strchr(arg, ','); at; at = strchr(at + 1, ',')) {
		if (strncmp(at + 1, key, n) != 0 || at[n + 1] != '=')
			continue;
		at += n + 2;
		*len = strcspn(at, ",");
		return at;
	}
	return NULL;
}

static bool is_value(const char *arg, const char *key, const char *value)
{
	size_t len;
	const char *at = value_of(arg, key, &len);

	return at && len == strlen(value) && strncmp(at, value, len) == 0;
}

/*
 * Is it a socket's file that no process is bound to?  The probe is a socket of
 * another type than the driver's: a bound server refuses it by its type, and
 * does not notice.  A connection that ends at once crashes the driver: it
 * closes a descriptor that its interrupts still wait for, and the environment
 * panics.
 */
static bool is_stale(const struct sockaddr_un *addr, struct stat *st)
{
	int fd, err;

	if (lstat(addr->sun_path, st) || !S_ISSOCK(st->st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	err = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ? errno
									: 0;
	close(fd);
	return err == ECONNREFUSED;
}

/* The same file both times: bind() makes it before the socket is found by it. */
static void clear(const struct sockaddr_un *addr)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct stat st, again;

	if (!is_stale(addr, &st))
		return;
	nanosleep(&pause, NULL);
	if (!is_stale(addr, &again) || st.st_dev != again.st_dev ||
	    st.st_ino != again.st_ino)
		return;
	if (unlink(addr->sun_path))
		ur_warn("memif: cannot remove the unused %s: %s",
			addr->sun_path, strerror(errno));
	else
		ur_info("memif: removed the unused %s", addr->sun_path);
}

void ur_memif_clear(const char *arg)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path;
	size_t len;

	if (!strncmp(arg, VDEV, strlen(VDEV)))
		arg += strlen(VDEV);
	if (strncmp(arg, DEVICE, strlen(DEVICE)) != 0 ||
	    (!is_value(arg, "role", "server") &&
	     !is_value(arg, "role", "master")) ||
	    !is_value(arg, "socket-abstract", "no"))
		return;
	path = value_of(arg, "socket", &len);
	if (!path || len >= sizeof(addr.sun_path))
		return;
	memcpy(addr.sun_path, path, len);
	clear(&addr);
}
