/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket of urnic trace.  A tool that is killed leaves it, and the next one
 * removes it.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime_dir.h"
#include "trace.h"
#include "urnic.h"

#define PREFIX	"trace-"
#define BACKLOG 4096

_Static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == UR_TRACE_PATH,
	       "a path fits");

static struct sockaddr_un path_in(const char *dir, const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", dir, name) >=
	    (int)sizeof(a.sun_path))
		a.sun_path[0] = 0;
	return a;
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void sweep(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		struct sockaddr_un a = path_in(dir, e->d_name);
		int fd;

		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 ||
		    !a.sun_path[0])
			continue;
		fd = new_socket();
		if (fd < 0)
			break;
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) &&
		    errno == ECONNREFUSED)
			(void)unlink(a.sun_path);
		close(fd);
	}
	if (d)
		closedir(d);
}

/* It gets its name when it listens: until then another sweep would remove it. */
static int listen_at(const struct sockaddr_un *made, const char *path)
{
	int fd = new_socket(), err;

	if (fd >= 0 &&
	    !bind(fd, (const struct sockaddr *)made, sizeof(*made)) &&
	    !listen(fd, BACKLOG) && !rename(made->sun_path, path))
		return fd;
	err = -errno;
	(void)unlink(made->sun_path);
	if (fd >= 0)
		close(fd);
	return err;
}

int ur_trace_listen(struct ur_trace_sources *s, char path[UR_TRACE_PATH])
{
	char dir[PATH_MAX], name[64];
	struct sockaddr_un made, a;
	uint64_t chance;
	int fd;

	if (ur_runtime_dir(dir, sizeof(dir)))
		return -EACCES;
	sweep(dir);
	if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
		return -EIO;
	snprintf(name, sizeof(name), PREFIX "%016lx", chance);
	a = path_in(dir, name);
	name[0] = '.';
	made = path_in(dir, name);
	if (!a.sun_path[0]) {
		ur_tool_error("%s: too long for a socket", dir);
		return -ENAMETOOLONG;
	}
	fd = listen_at(&made, a.sun_path);
	if (fd < 0) {
		ur_tool_error("%s: %s", a.sun_path, strerror(-fd));
		return fd;
	}
	s->listener = fd;
	memcpy(path, a.sun_path, UR_TRACE_PATH);
	return 0;
}
