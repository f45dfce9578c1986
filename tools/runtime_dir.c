/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime_sweep.h"
#include "urnic.h"

#define LOCK_TRIES   200
#define LOCK_STEP_NS 10000000 /* so 2 s in all */

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

/* All processes of the user share the lock, and its holder may be stopped. */
static bool take_lock(int fd)
{
	const struct timespec step = { .tv_nsec = LOCK_STEP_NS };

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

/*
 * The lock keeps a directory that is made here from being taken for one of the
 * namespace that had this number before.  Without it nothing is removed.
 */
static int try_base(const char *base, char *path, size_t cap)
{
	int err = own_directory(base), lock;
	bool locked;
	struct stat ns;

	if (err)
		return err;
	lock = open(base, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	locked = lock >= 0 && take_lock(lock);
	if (stat("/proc/self/ns/net", &ns))
		ns.st_ino = 0;
	snprintf(path, cap, "%s/net-%lu", base, (unsigned long)ns.st_ino);
	err = own_directory(path);
	if (!err)
		err = ur_runtime_mark(path);
	if (!err && locked)
		ur_runtime_sweep(base, ns.st_ino, lock);
	if (lock >= 0)
		close(lock);
	return err;
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
			      err == -EPERM ? "belongs to another user: "
					      "set XDG_RUNTIME_DIR"
					    : strerror(-err));
	return err;
}
