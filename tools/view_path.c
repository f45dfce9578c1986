/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paths of the view all have a component that begins with "infiniband": a path
 * without it is handed on at once, unless it leads upwards from a directory of
 * the view (whose parents are those of /sys and /dev for the program).  A path
 * below a directory of the view needs no help, since the directory is real.
 */
#include "view_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYS_NET "/sys/class/net/"

/* The environment is read once; setenv() by the program changes nothing. */
static const char *view_root(void)
{
	static _Atomic(const char *) root = NULL;
	const char *r = root;

	if (!r) {
		r = secure_getenv("URNIC_SYSFS");
		r = strdup(r ? r : "");
		root = r ? r : "";
	}
	return r;
}

static bool starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* `name` is the name of an interface and what follows it. */
static bool is_netdev(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && slash != name && starts(slash, "/device/infiniband");
}

/*
 * The part of an absolute path without "." and ".." that is appended to the
 * root, with what stands before it; NULL: not of the view.
 */
static const char *view_part(const char *path, const char **before)
{
	static const char dev[] = "/dev/infiniband";
	const char *net;

	*before = "";
	if (starts(path, dev)) {
		char end = path[sizeof(dev) - 1];

		return end == 0 || end == '/' ? path : NULL;
	}
	if (starts(path, "/sys/class/infiniband") ||
	    (starts(path, SYS_NET) && is_netdev(path + strlen(SYS_NET))))
		return path + strlen("/sys");
	/* Where the links of /sys/class/net lead to. */
	if (!starts(path, "/sys/devices/"))
		return NULL;
	for (net = strstr(path, "/net/"); net; net = strstr(net + 1, "/net/")) {
		if (!is_netdev(net + strlen("/net/")))
			continue;
		*before = "/class";
		return net;
	}
	return NULL;
}

static bool of_view(const char *path)
{
	const char *before;

	return view_part(path, &before) != NULL;
}

/* Where the program believes a directory of the view to be; false: another. */
static bool believed(const char *real, char out[PATH_MAX])
{
	const char *root = view_root();
	size_t len = strlen(root);
	const char *rest = real + len;

	if (!len || strncmp(real, root, len) != 0 || (*rest && *rest != '/'))
		return false;
	if (starts(rest, "/dev/"))
		snprintf(out, PATH_MAX, "%s", rest);
	else
		snprintf(out, PATH_MAX, "/sys%s", rest);
	return true;
}

static bool directory(int dir, char out[PATH_MAX])
{
	char name[32];
	ssize_t n;

	if (dir == AT_FDCWD)
		return getcwd(out, PATH_MAX) != NULL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", dir);
	n = readlink(name, out, PATH_MAX - 1);
	if (n <= 0)
		return false;
	out[n] = 0;
	return *out == '/';
}

/* One component more, or less; false: too long. */
static bool step(char out[PATH_MAX], const char *name, size_t len)
{
	size_t old = strlen(out);

	if (len == 0 || (len == 1 && *name == '.'))
		return true;
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		char *last = strrchr(out, '/');

		if (last)
			*last = 0;
		return true;
	}
	if (old + len + 2 > PATH_MAX)
		return false;
	out[old] = '/';
	memcpy(out + old + 1, name, len);
	out[old + 1 + len] = 0;
	return true;
}

static bool leads_up(const char *rest)
{
	rest += strspn(rest, "/");
	return starts(rest, "..") && (!rest[2] || rest[2] == '/');
}

/*
 * Append `path` to `out`, and take out "." and ".." up to where the view
 * begins: what follows is the kernel's, which knows the view's links.
 * *through: it enters the view and leaves it again.
 */
static bool append(char out[PATH_MAX], const char *path, bool *through)
{
	while (*path) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (!step(out, path, len))
			return false;
		path += len;
		if (!of_view(out))
			continue;
		if (leads_up(path)) {
			*through = true;
		} else {
			size_t old = strlen(out);

			return snprintf(out + old, PATH_MAX - old, "%s", path) <
			       (int)(PATH_MAX - old);
		}
	}
	return true;
}

/*
 * The absolute path that the program means, if it could be of the view.
 * *inside: it comes from a directory of the view, or leads through one.
 */
static bool meant(int dir, const char *path, char out[PATH_MAX], bool *inside)
{
	char real[PATH_MAX];

	*inside = false;
	*out = 0;
	if (*path != '/') {
		if (!directory(dir, real))
			return false;
		*inside = believed(real, out);
		if (!*inside)
			snprintf(out, PATH_MAX, "%s", real);
		if (out[0] == '/' && out[1] == 0)
			*out = 0;
	}
	return append(out, path, inside);
}

static bool redirect(int dir, const char *path, char buf[PATH_MAX])
{
	char abs[PATH_MAX] = "";
	const char *part, *before;
	bool inside;

	if (!meant(dir, path, abs, &inside))
		return false;
	part = view_part(abs, &before);
	if (part)
		return snprintf(buf, PATH_MAX, "%s%s%s", view_root(), before,
				part) < PATH_MAX;
	return inside &&
	       snprintf(buf, PATH_MAX, "%s", *abs ? abs : "/") < PATH_MAX;
}

const char *ur_view_path(int dir, const char *path, char buf[PATH_MAX])
{
	int saved = errno;
	bool found;

	if (!path || !(strstr(path, "infiniband") || leads_up(path)))
		return path;
	if (*path == '/' && path[1] != '/' && path[1] != 's' &&
	    path[1] != 'd' && path[1] != '.')
		return path;
	if (!*view_root())
		return path;
	found = redirect(dir, path, buf);
	errno = saved;
	return found ? buf : path;
}

bool ur_view_is_node(int dir, const char *path)
{
	char abs[PATH_MAX] = "";
	bool inside, is;
	int saved = errno;

	if (!path || !strstr(path, "uverbs") || !*view_root())
		return false;
	is = meant(dir, path, abs, &inside) &&
	     starts(abs, "/dev/infiniband/uverbs");
	errno = saved;
	return is;
}
