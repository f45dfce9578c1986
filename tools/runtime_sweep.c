/* SPDX-License-Identifier: BSD-2-Clause */
#include "runtime_sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK	     "pidns"
#define PREFIX	     "net-"
#define MOUNTED	     " net:["
#define INITIAL_PIDS 0xeffffffcul /* the kernel's PROC_PID_INIT_INO */
#define MANY	     0u		  /* of a mark: several PID namespaces */
#define GONE_MAX     256u	  /* looked at in one run */
#define REMOVE_MAX   2u		  /* in one run, which makes one at most */
#define DEPTH_MAX    16
#define LINE_LEN     4096

static unsigned long inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (unsigned long)st.st_ino;
}

static bool read_mark(int dir, unsigned long *pids)
{
	int fd = openat(dir, MARK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*pids = strtoul(text, NULL, 10);
	return true;
}

int ur_runtime_mark(const char *path)
{
	unsigned long own = inode_of("/proc/self/ns/pid"), was;
	int dir = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd;

	if (dir < 0)
		return -errno;
	if (read_mark(dir, &was) && was != own)
		own = MANY;
	fd = openat(dir, MARK,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0 || dprintf(fd, "%lu\n", own) < 0) {
		int err = -errno;

		close(dir);
		if (fd >= 0)
			close(fd);
		return err;
	}
	close(fd);
	close(dir);
	return 0;
}

/* One that has no mark was made by an earlier version. */
static bool see_its_users(int base, const char *name)
{
	unsigned long own = inode_of("/proc/self/ns/pid"), mark = MANY;
	int dir = openat(base, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return false;
	(void)read_mark(dir, &mark);
	close(dir);
	return own && (own == INITIAL_PIDS || own == mark);
}

struct gone {
	unsigned long ns[GONE_MAX];
	unsigned int n;
};

static unsigned long ns_of(const char *name)
{
	char *end;
	unsigned long ns;

	if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0)
		return 0;
	ns = strtoul(name + sizeof(PREFIX) - 1, &end, 10);
	return *end ? 0 : ns;
}

static void candidates(int base, ino_t own, struct gone *g)
{
	int fd = openat(base, ".", O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(d)) && g->n < GONE_MAX) {
		unsigned long ns = ns_of(e->d_name);

		if (ns && ns != (unsigned long)own &&
		    see_its_users(base, e->d_name))
			g->ns[g->n++] = ns;
	}
	closedir(d);
}

static void is_there(struct gone *g, unsigned long ns)
{
	for (unsigned int i = 0; i < g->n; i++) {
		if (g->ns[i] == ns)
			g->ns[i--] = g->ns[--g->n];
	}
}

/* A process that has more capabilities than we may not be looked at; but each
 * network namespace has files of its own. */
static bool is_with_us(const char *pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/net/dev", pid);
	return inode_of(path) == inode_of("/proc/self/net/dev");
}

/* A user may inspect only its own processes, and only they use its views. */
static bool ask_processes(struct gone *g)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	char path[64];
	bool ok = d != NULL;

	while (ok && g->n && (e = readdir(d))) {
		unsigned long ns;

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/ns/net", e->d_name);
		ns = inode_of(path);
		if (ns)
			is_there(g, ns);
		else if (geteuid() == 0 && errno == EACCES)
			ok = is_with_us(e->d_name);
	}
	if (d)
		closedir(d);
	return ok;
}

static bool ask_mounts(struct gone *g)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[LINE_LEN];

	if (!f)
		return false;
	while (g->n && fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, MOUNTED);

		if (at)
			is_there(g,
				 strtoul(at + sizeof(MOUNTED) - 1, NULL, 10));
	}
	fclose(f);
	return true;
}

/* Links are removed, never followed; DEPTH_MAX bounds it. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void remove_tree(int at, const char *name, int depth)
{
	int fd = openat(at, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		(void)unlinkat(at, name, 0);
		return;
	}
	while (depth < DEPTH_MAX && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			remove_tree(dirfd(d), e->d_name, depth + 1);
	}
	closedir(d);
	(void)unlinkat(at, name, AT_REMOVEDIR);
}

static void name_away(char *away, size_t cap, unsigned long ns)
{
	snprintf(away, cap, "gone-%lu-%d", ns, (int)getpid());
}

/* A process that makes the directory again makes another.  What could not be
 * renamed, or is more than a program is to wait for, stays for the next run. */
static void rename_views(int base, struct gone *g)
{
	char name[64], away[64];
	unsigned int n = 0;

	for (unsigned int i = 0; i < g->n && n < REMOVE_MAX; i++) {
		snprintf(name, sizeof(name), PREFIX "%lu", g->ns[i]);
		name_away(away, sizeof(away), g->ns[i]);
		if (!renameat(base, name, base, away))
			g->ns[n++] = g->ns[i];
	}
	g->n = n;
}

static void remove_views(int base, const struct gone *g)
{
	char away[64];

	for (unsigned int i = 0; i < g->n; i++) {
		name_away(away, sizeof(away), g->ns[i]);
		remove_tree(base, away, 0);
	}
}

void ur_runtime_sweep(const char *base, ino_t own, int lock)
{
	int fd = open(base, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct gone g = { .n = 0 };

	if (fd < 0)
		return;
	candidates(fd, own, &g);
	if (g.n && ask_processes(&g) && ask_mounts(&g)) {
		rename_views(fd, &g);
		(void)flock(lock, LOCK_UN);
		remove_views(fd, &g);
	}
	close(fd);
}
