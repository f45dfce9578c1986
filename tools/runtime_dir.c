/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "urnic.h"

/* Never through a link, which another user may have put into /tmp. */
static int own_directory(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	if (lstat(path, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return -EPERM;
	if ((st.st_mode & 077) && chmod(path, 0700))
		return -errno;
	return 0;
}

static int try_base(const char *base, char *path, size_t cap)
{
	struct stat ns;
	int err = own_directory(base);

	if (err)
		return err;
	if (stat("/proc/self/ns/net", &ns))
		ns.st_ino = 0;
	snprintf(path, cap, "%s/net-%lu", base, (unsigned long)ns.st_ino);
	return own_directory(path);
}

int ur_runtime_dir(char *path, size_t cap)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char base[2048];
	int err = -ENOENT;

	if (geteuid() == 0)
		err = try_base("/run/urnic", path, cap);
	else if (xdg && xdg[0] == '/') {
		snprintf(base, sizeof(base), "%s/urnic", xdg);
		err = try_base(base, path, cap);
	}
	if (!err)
		return 0;
	snprintf(base, sizeof(base), "/tmp/urnic-%u", (unsigned int)geteuid());
	err = try_base(base, path, cap);
	if (err)
		ur_tool_error("%s: %s", base,
			      err == -EPERM ? "belongs to somebody else: "
					      "set XDG_RUNTIME_DIR"
					    : strerror(-err));
	return err;
}
