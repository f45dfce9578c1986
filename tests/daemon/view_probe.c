/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Run by `urnic run`: every call that the preload library redirects must see
 * the view, and paths beside the three prefixes must not.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
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
	CHECK(access(IWARP "/ports/1/gid_attrs/types/0", R_OK) == 0);
	CHECK(access(IWARP "/ports/1/gid_attrs/ndevs/0", R_OK) == 0);
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

#define CLASS "/sys/class/infiniband"

/* What programs do that go there: shells, find, systemd. */
static void entered(void)
{
	struct stat st;
	int fd;

	CHECK(chdir(CLASS) == 0);
	CHECK(reads(open("urnic0/node_type", O_RDONLY), "1: CA\n"));
	CHECK(access("../infiniband/urniw0", F_OK) == 0);
	CHECK(access("../../class/infiniband_verbs/uverbs0", F_OK) == 0);
	/* What is above it is not the view's. */
	CHECK(access("../net/lo/mtu", R_OK) == 0);
	CHECK(chdir("..") == 0 && access("net/lo/mtu", R_OK) == 0);
	CHECK(access("infiniband/urnic0", F_OK) == 0);
	CHECK(access("./infiniband//urnic0/", F_OK) == 0);
	CHECK(chdir("/sys/class/net/lo") == 0);
	CHECK(access("device/infiniband/urnic0", F_OK) == 0);
	CHECK(chdir("/dev/infiniband") == 0);
	CHECK(lstat("uverbs0", &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(chdir("/") == 0 && access("dev/infiniband/uverbs0", F_OK) == 0);
	CHECK(access("sys/class/infiniband", F_OK) == 0);
	fd = open(CLASS, O_PATH | O_DIRECTORY);
	CHECK(fd >= 0 && fchdir(fd) == 0 && access("urnic0", F_OK) == 0);
	close(fd);
	CHECK(chdir("/") == 0);
}

static void from_above(void)
{
	int class = open("/sys/class", O_PATH | O_DIRECTORY);
	int dev = open("/dev", O_RDONLY | O_DIRECTORY);
	int sub = openat(class, "infiniband", O_PATH | O_DIRECTORY);
	struct stat64 s64;
	struct statx sx;
	struct stat st;
	char buf[PATH_MAX];

	CHECK(sub >= 0 && faccessat(sub, "urnic0", F_OK, 0) == 0);
	CHECK(reads(openat(class, "infiniband/urnic0/node_type", O_RDONLY),
		    "1: CA\n"));
	CHECK(fstatat(class, "infiniband", &st, 0) == 0);
	CHECK(fstatat64(class, "infiniband", &s64, 0) == 0);
	CHECK(statx(class, "infiniband", 0, STATX_TYPE, &sx) == 0);
	CHECK(fstatat(dev, "infiniband/uverbs0", &st, AT_SYMLINK_NOFOLLOW) ==
		      0 &&
	      S_ISCHR(st.st_mode));
	CHECK(readlinkat(class, "infiniband_verbs/uverbs0/device", buf,
			 sizeof(buf)) > 0);
	/* Out of the view, upwards from its directory. */
	CHECK(faccessat(sub, "../net/lo/mtu", R_OK, 0) == 0);
	CHECK(faccessat(class, "infiniband_mad/none", F_OK, 0) < 0 &&
	      errno == ENOENT);
	close(sub);
	close(dev);
	close(class);
}

/* A name that only looks like it, and links on the way to it. */
static void not_ours(void)
{
	char dir[] = "/tmp/infiniband-XXXXXX", path[64], link[64];

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/infiniband", dir);
	snprintf(link, sizeof(link), "%s/infiniband-link", dir);
	CHECK(mkdir(path, 0700) == 0 && symlink("/usr/bin", link) == 0);
	CHECK(chdir(dir) == 0 && access("infiniband", F_OK) == 0);
	CHECK(access("infiniband/urnic0", F_OK) < 0);
	snprintf(path, sizeof(path), "%s/infiniband-link/../bin", dir);
	CHECK(access(path, F_OK) == 0 &&
	      access("infiniband-link/../bin", F_OK) == 0);
	CHECK(chdir("/") == 0 && unlink(link) == 0);
	snprintf(path, sizeof(path), "%s/infiniband", dir);
	CHECK(rmdir(path) == 0 && rmdir(dir) == 0);
}

static void other_calls(void)
{
	char value[64];
	struct statfs64 f64;
	struct statvfs64 v64;
	struct statfs f;
	struct statvfs v;
	int fd = inotify_init();
	FILE *file = fopen("/dev/null", "r");

	CHECK(statfs(PORT, &f) == 0 && statfs64(PORT, &f64) == 0);
	CHECK(statvfs(PORT, &v) == 0 && statvfs64(PORT, &v64) == 0);
	CHECK(pathconf(PORT, _PC_NAME_MAX) > 0);
	CHECK(listxattr(PORT, value, sizeof(value)) >= 0 || errno == ENOTSUP);
	CHECK(llistxattr(PORT, value, sizeof(value)) >= 0 || errno == ENOTSUP);
	CHECK(inotify_add_watch(fd, PORT, IN_MODIFY) >= 0);
	close(fd);
	file = freopen(DEV "/node_type", "r", file);
	CHECK(file && fgets(value, sizeof(value), file) && *value == '1');
	if (file)
		fclose(file);
}

static int walked;

static int count(const char *path, const struct stat *st, int type)
{
	(void)st;
	walked += type == FTW_F && strstr(path, "node_type") != NULL;
	return 0;
}

static int count_more(const char *path, const struct stat *st, int type,
		      struct FTW *where)
{
	(void)where;
	return count(path, st, type);
}

static void walks(void)
{
	static char top[] = CLASS;
	char *const tops[] = { top, NULL };
	struct dirent **list = NULL;
	glob64_t found64 = { .gl_pathc = 0 };
	glob_t found = { .gl_pathc = 0 };
	int dir = open("/sys/class", O_RDONLY | O_DIRECTORY);
	FTS *fts = fts_open(tops, FTS_PHYSICAL, NULL);
	int n;

	CHECK(ftw(CLASS, count, 8) == 0 && walked == 2);
	CHECK(nftw(CLASS, count_more, 8, FTW_PHYS) == 0 && walked == 4);
	for (FTSENT *e = fts ? fts_read(fts) : NULL; e; e = fts_read(fts))
		walked += !strcmp(e->fts_name, "node_type");
	CHECK(walked == 6);
	if (fts)
		fts_close(fts);
	n = scandirat(dir, "infiniband", &list, NULL, alphasort);
	CHECK(n == 4); /* . .. urnic0 urniw0 */
	while (n > 0)
		free(list[--n]);
	free(list);
	close(dir);
	CHECK(glob(CLASS "/*/node_type", 0, NULL, &found) == 0 &&
	      found.gl_pathc == 2 &&
	      !strcmp(found.gl_pathv[0], DEV "/node_type"));
	globfree(&found);
	CHECK(glob("/dev/infiniband/uverbs?", 0, NULL, &found) == 0 &&
	      found.gl_pathc == 2);
	globfree(&found);
	CHECK(glob64(CLASS "/{urnic0,urniw0}/no*", GLOB_BRACE, NULL,
		     &found64) == 0 &&
	      found64.gl_pathc == 6);
	globfree64(&found64);
}

static void node_types(void)
{
	DIR *d = opendir("/dev/infiniband");

	CHECK(d != NULL);
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		CHECK(*e->d_name == '.' || e->d_type == DT_CHR ||
		      e->d_type == DT_UNKNOWN);
	if (d)
		closedir(d);
}

static void spawned(void)
{
	char *const args[] = { (char *)(uintptr_t) "test",
			       (char *)(uintptr_t) "-d",
			       (char *)(uintptr_t) "urnic0/ports/1", NULL };
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	CHECK(posix_spawn_file_actions_addopen(&actions, 0, DEV "/node_type",
					       O_RDONLY, 0) == 0);
	CHECK(posix_spawn_file_actions_addchdir_np(&actions, CLASS) == 0);
	CHECK(posix_spawnp(&pid, "test", &actions, NULL, args, environ) == 0 &&
	      waitpid(pid, &status, 0) == pid && status == 0);
	posix_spawn_file_actions_destroy(&actions);
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
	entered();
	from_above();
	not_ours();
	other_calls();
	walks();
	node_types();
	spawned();
	nothing_else();
	null_paths();
	creates_files();
	threads_fork_dlsym();
	return failures ? 1 : 0;
}
