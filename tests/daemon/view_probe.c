/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Run by `urnic run`: every call that the preload library redirects must see
 * the view, and paths beside the three prefixes must not.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEV   "/sys/class/infiniband/urnic0"
#define IWARP "/sys/class/infiniband/urniw0"
#define PORT  DEV "/ports/1"
#define NODE  "/dev/infiniband/uverbs0"

static _Atomic int failures;

static void check(bool ok, int line, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "line %d: %s (%s)\n", line, what, strerror(errno));
	failures++;
}

#define CHECK(cond) check(cond, __LINE__, #cond)

static bool reads(int fd, const char *text)
{
	char buf[256];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return false;
	buf[n] = 0;
	return !strcmp(buf, text);
}

static void files(void)
{
	char line[64] = "";
	FILE *f;
	int dir;

	CHECK(reads(open(PORT "/state", O_RDONLY), "4: ACTIVE\n"));
	CHECK(reads(open64(PORT "/state", O_RDONLY), "4: ACTIVE\n"));
	CHECK(reads(openat(AT_FDCWD, DEV "/node_type", O_RDONLY), "1: CA\n"));
	CHECK(reads(openat64(-1, DEV "/node_type", O_RDONLY), "1: CA\n"));
	CHECK(reads(open(IWARP "/node_type", O_RDONLY), "4: RNIC\n"));
	CHECK(open(IWARP "/ports/1/gids/1", O_RDONLY) < 0);
	CHECK(reads(open("/sys/class/infiniband_verbs/uverbs0/ibdev", O_RDONLY),
		    "urnic0\n"));
	CHECK(reads(open(PORT "/gid_attrs/types/0", O_RDONLY), "RoCE v2\n"));
	CHECK(open(PORT "/gid_attrs/types/63", O_RDONLY) < 0);
	dir = open(PORT, O_RDONLY | O_DIRECTORY);
	CHECK(reads(openat(dir, "link_layer", O_RDONLY), "Ethernet\n"));
	close(dir);
	f = fopen(PORT "/pkeys/0", "r");
	CHECK(f && fgets(line, sizeof(line), f) && !strcmp(line, "0xffff\n"));
	if (f)
		fclose(f);
}

static void directories(void)
{
	struct dirent **list = NULL;
	int found = 0;
	DIR *d = opendir("/sys/class/infiniband");
	int n;

	CHECK(d != NULL);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		found += !strcmp(e->d_name, "urnic0") ||
			 !strcmp(e->d_name, "urniw0");
	CHECK(found == 2);
	if (d)
		closedir(d);
	n = scandir("/sys/class/infiniband_verbs", &list, NULL, alphasort);
	CHECK(n == 5); /* . .. abi_version uverbs0 uverbs1 */
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

static void attributes(void)
{
	struct statx sx;
	struct stat64 s64;
	struct stat st;

	CHECK(stat(NODE, &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(lstat(NODE, &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(stat64(NODE, &s64) == 0 && S_ISCHR(s64.st_mode));
	CHECK(lstat64(NODE, &s64) == 0 && S_ISCHR(s64.st_mode));
	CHECK(fstatat(AT_FDCWD, NODE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	      S_ISCHR(st.st_mode));
	CHECK(statx(AT_FDCWD, NODE, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &sx) ==
		      0 &&
	      S_ISCHR(sx.stx_mode));
	CHECK(access(NODE, R_OK | W_OK) == 0);
	CHECK(faccessat(AT_FDCWD, NODE, R_OK | W_OK, 0) == 0);
	CHECK(euidaccess(NODE, R_OK | W_OK) == 0);
	CHECK(stat("/sys/class/infiniband", &st) == 0 && S_ISDIR(st.st_mode));
	CHECK(access("/sys/class/infiniband_mad", F_OK) < 0);
}

static void links(void)
{
	static const char link[] = "/sys/class/infiniband_verbs/uverbs0/device";
	char buf[PATH_MAX], real[PATH_MAX];
	struct stat st;

	CHECK(readlink(link, buf, sizeof(buf)) > 0);
	CHECK(readlinkat(AT_FDCWD, link, buf, sizeof(buf)) > 0);
	CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	/* What realpath() says must be usable. */
	CHECK(realpath(DEV "/device", real) != NULL);
	snprintf(buf, sizeof(buf), "%.4000s/vendor", real);
	CHECK(access(buf, R_OK) == 0);
}

static void nothing_else(void)
{
	struct stat st;

	CHECK(stat("/sys/class/net/lo", &st) == 0);
	CHECK(access("/sys/class/net/lo/mtu", R_OK) == 0);
	CHECK(access("/sys/class/net/lo/device/infiniband", F_OK) == 0);
	CHECK(access("/sys/class/net/lo/device/infiniband/urnic0", F_OK) == 0);
	CHECK(access("/sys/class/net/none/device/infiniband", F_OK) < 0);
	CHECK(access("/dev/infinibandx", F_OK) < 0);
	CHECK(access("/dev/null", W_OK) == 0);
	CHECK(stat("/sys/class/tty", &st) < 0 || S_ISDIR(st.st_mode));
	CHECK(open("/nonexistent", O_RDONLY) < 0 && errno == ENOENT);
}

/* Through a variable: the compiler knows that a literal NULL is wrong. */
static void null_paths(void)
{
	const char *volatile none = NULL;
	struct stat st;

	CHECK(stat(none, &st) < 0 && errno == EFAULT);
	CHECK(open(none, O_RDONLY) < 0 && errno == EFAULT);
	CHECK(access(none, F_OK) < 0 && errno == EFAULT);
}

/* A mode must still arrive. */
static void creates_files(void)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/tmp/urnic-view-%d", (int)getpid());
	umask(0022);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0640);
	CHECK(fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0640);
	close(fd);
	CHECK(unlink(path) == 0);
}

static void *many(void *arg)
{
	for (int i = 0; i < 300; i++)
		CHECK(reads(open(PORT "/state", O_RDONLY), "4: ACTIVE\n"));
	return NULL;
}

static void threads_fork_dlsym(void)
{
	int (*by_name)(const char *, int) =
		(int (*)(const char *, int))dlsym(RTLD_DEFAULT, "access");
	pthread_t t[4];
	int status;
	pid_t pid;

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many, NULL);
	pid = fork();
	if (pid == 0)
		_exit(access(NODE, W_OK) ? 1 : 0);
	waitpid(pid, &status, 0);
	CHECK(status == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(by_name && by_name(NODE, W_OK) == 0);
}

int main(void)
{
	files();
	directories();
	attributes();
	links();
	nothing_else();
	null_paths();
	creates_files();
	threads_fork_dlsym();
	return failures ? 1 : 0;
}
