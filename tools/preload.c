/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburnic-preload.so: programs that look for RDMA devices under
 * /sys/class/infiniband*, /sys/class/net/IF/device/infiniband* and
 * /dev/infiniband find urnic's view ($URNIC_SYSFS) there (view_path.h).
 * Wrapped are the C library's functions that look at a path, or enter it, and
 * those that have it done by others (glob, posix_spawn); what changes files or
 * their modes is not, nor wordexp(), nor a program's own system calls.  A
 * directory that holds a part of the view (/sys/class) is listed as it is.
 *
 * The C library's functions are found on first use: a program may call a
 * wrapper before any constructor of ours has run.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "view_path.h"

/*
 * Our functions have names of their own in C and the C library's as symbols,
 * so that its headers, with their attributes and macros, do not get in the
 * way.
 */
#define SYMBOL(name) __asm__(#name) __attribute__((visibility("default")))

/* A program that could be loaded without us has every function it calls. */
static void *next_symbol(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (!f)
		abort();
	return f;
}

/* The next definition of a function, looked up once per wrapper. */
#define REAL(name)                                                             \
	({                                                                     \
		static __typeof__(&ur_##name) _Atomic real_;                   \
		__typeof__(&ur_##name) f_ = real_;                             \
		if (!f_) {                                                     \
			f_ = (__typeof__(f_))next_symbol(#name);               \
			real_ = f_;                                            \
		}                                                              \
		f_;                                                            \
	})

#define PATH	ur_view_path(AT_FDCWD, path, buf)
#define AT_PATH ur_view_path(dir, path, buf)

static bool has_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name)                                                             \
	int ur_##name(const char *path, int flags, ...) SYMBOL(name);          \
	int ur_##name(const char *path, int flags, ...)                        \
	{                                                                      \
		char buf[PATH_MAX];                                            \
		mode_t mode = 0;                                               \
		va_list ap;                                                    \
                                                                               \
		va_start(ap, flags);                                           \
		if (has_mode(flags))                                           \
			mode = va_arg(ap, mode_t);                             \
		va_end(ap);                                                    \
		return REAL(name)(PATH, flags, mode);                          \
	}

#define OPENAT(name)                                                           \
	int ur_##name(int dir, const char *path, int flags, ...) SYMBOL(name); \
	int ur_##name(int dir, const char *path, int flags, ...)               \
	{                                                                      \
		char buf[PATH_MAX];                                            \
		mode_t mode = 0;                                               \
		va_list ap;                                                    \
                                                                               \
		va_start(ap, flags);                                           \
		if (has_mode(flags))                                           \
			mode = va_arg(ap, mode_t);                             \
		va_end(ap);                                                    \
		return REAL(name)(dir, AT_PATH, flags, mode);                  \
	}

/* A wrapper whose parameters are only handed on but for `path`. */
#define WRAP(type, name, params, ...)                                          \
	type ur_##name params SYMBOL(name);                                    \
	type ur_##name params                                                  \
	{                                                                      \
		char buf[PATH_MAX];                                            \
                                                                               \
		return REAL(name)(__VA_ARGS__);                                \
	}

/* Another name of a function above. */
#define ALIAS(type, name, params, ...)                                         \
	type ur_##name params SYMBOL(name);                                    \
	type ur_##name params                                                  \
	{                                                                      \
		return __VA_ARGS__;                                            \
	}

/* clang-tidy 14 loses va_start() when it looks at several files */
/* NOLINTBEGIN(clang-analyzer-valist.Uninitialized) */
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
/* NOLINTEND(clang-analyzer-valist.Uninitialized) */
WRAP(int, __open_2, (const char *path, int flags), PATH, flags)
WRAP(int, __open64_2, (const char *path, int flags), PATH, flags)
WRAP(int, __openat_2, (int dir, const char *path, int flags), dir, AT_PATH,
     flags)
WRAP(int, __openat64_2, (int dir, const char *path, int flags), dir, AT_PATH,
     flags)
WRAP(int, creat, (const char *path, mode_t mode), PATH, mode)
WRAP(int, creat64, (const char *path, mode_t mode), PATH, mode)
WRAP(FILE *, fopen, (const char *path, const char *mode), PATH, mode)
WRAP(FILE *, fopen64, (const char *path, const char *mode), PATH, mode)
WRAP(FILE *, freopen, (const char *path, const char *mode, FILE *f), PATH, mode,
     f)
WRAP(FILE *, freopen64, (const char *path, const char *mode, FILE *f), PATH,
     mode, f)
WRAP(DIR *, opendir, (const char *path), PATH)
WRAP(int, access, (const char *path, int mode), PATH, mode)
WRAP(int, euidaccess, (const char *path, int mode), PATH, mode)
WRAP(int, eaccess, (const char *path, int mode), PATH, mode)
WRAP(int, faccessat, (int dir, const char *path, int mode, int flags), dir,
     AT_PATH, mode, flags)
WRAP(int, stat, (const char *path, struct stat *st), PATH, st)
WRAP(int, stat64, (const char *path, struct stat64 *st), PATH, st)
WRAP(ssize_t, readlink, (const char *path, char *out, size_t len), PATH, out,
     len)
WRAP(ssize_t, readlinkat, (int dir, const char *path, char *out, size_t len),
     dir, AT_PATH, out, len)
WRAP(ssize_t, __readlink_chk,
     (const char *path, char *out, size_t len, size_t size), PATH, out, len,
     size)
WRAP(ssize_t, __readlinkat_chk,
     (int dir, const char *path, char *out, size_t len, size_t size), dir,
     AT_PATH, out, len, size)
WRAP(ssize_t, getxattr,
     (const char *path, const char *name, void *value, size_t size), PATH, name,
     value, size)
WRAP(ssize_t, lgetxattr,
     (const char *path, const char *name, void *value, size_t size), PATH, name,
     value, size)
WRAP(char *, realpath, (const char *path, char *out), PATH, out)
WRAP(char *, __realpath_chk, (const char *path, char *out, size_t size), PATH,
     out, size)
WRAP(char *, canonicalize_file_name, (const char *path), PATH)
WRAP(int, scandir,
     (const char *path, struct dirent ***list,
      int (*filter)(const struct dirent *),
      int (*compare)(const struct dirent **, const struct dirent **)),
     PATH, list, filter, compare)
WRAP(int, scandir64,
     (const char *path, struct dirent64 ***list,
      int (*filter)(const struct dirent64 *),
      int (*compare)(const struct dirent64 **, const struct dirent64 **)),
     PATH, list, filter, compare)

WRAP(int, scandirat,
     (int dir, const char *path, struct dirent ***list,
      int (*filter)(const struct dirent *),
      int (*compare)(const struct dirent **, const struct dirent **)),
     dir, AT_PATH, list, filter, compare)
WRAP(int, scandirat64,
     (int dir, const char *path, struct dirent64 ***list,
      int (*filter)(const struct dirent64 *),
      int (*compare)(const struct dirent64 **, const struct dirent64 **)),
     dir, AT_PATH, list, filter, compare)
WRAP(int, chdir, (const char *path), PATH)
WRAP(ssize_t, listxattr, (const char *path, char *list, size_t size), PATH,
     list, size)
WRAP(ssize_t, llistxattr, (const char *path, char *list, size_t size), PATH,
     list, size)
WRAP(int, statfs, (const char *path, struct statfs *st), PATH, st)
WRAP(int, statfs64, (const char *path, struct statfs64 *st), PATH, st)
WRAP(int, statvfs, (const char *path, struct statvfs *st), PATH, st)
WRAP(int, statvfs64, (const char *path, struct statvfs64 *st), PATH, st)
WRAP(long, pathconf, (const char *path, int name), PATH, name)
WRAP(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), fd,
     PATH, mask)
WRAP(int, name_to_handle_at,
     (int dir, const char *path, struct file_handle *handle, int *mount,
      int flags),
     dir, AT_PATH, handle, mount, flags)
WRAP(int, posix_spawn_file_actions_addchdir_np,
     (posix_spawn_file_actions_t * actions, const char *path), actions, PATH)
WRAP(int, posix_spawn_file_actions_addopen,
     (posix_spawn_file_actions_t * actions, int fd, const char *path, int flags,
      mode_t mode),
     actions, fd, PATH, flags, mode)

/* Walks.  They name what they find as it is named in the view's directory. */
WRAP(int, ftw, (const char *path, __ftw_func_t visit, int fds), PATH, visit,
     fds)
WRAP(int, ftw64, (const char *path, __ftw64_func_t visit, int fds), PATH, visit,
     fds)
WRAP(int, nftw, (const char *path, __nftw_func_t visit, int fds, int flags),
     PATH, visit, fds, flags)
WRAP(int, nftw64, (const char *path, __nftw64_func_t visit, int fds, int flags),
     PATH, visit, fds, flags)

/* The paths, a NULL behind them; NULL if there is no memory. */
static char **view_list(char *const *paths)
{
	char **list, buf[PATH_MAX];
	size_t n = 0;

	while (paths[n])
		n++;
	list = calloc(n + 1, sizeof(*list));
	for (size_t i = 0; list && i < n; i++) {
		list[i] = strdup(ur_view_path(AT_FDCWD, paths[i], buf));
		if (!list[i])
			break;
	}
	return list;
}

static void free_list(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

#define FTS_OPEN(type, name, entry)                                            \
	type *ur_##name(char *const *paths, int flags,                         \
			int (*compare)(const entry **, const entry **))        \
		SYMBOL(name);                                                  \
	type *ur_##name(char *const *paths, int flags,                         \
			int (*compare)(const entry **, const entry **))        \
	{                                                                      \
		char **list = view_list(paths);                                \
		type *fts = REAL(name)(list ? list : paths, flags, compare);   \
                                                                               \
		free_list(list);                                               \
		return fts;                                                    \
	}

FTS_OPEN(FTS, fts_open, FTSENT)
FTS_OPEN(FTS64, fts64_open, FTSENT64)

/*
 * Calls that can ask about a link itself: the view's device node is one.
 */
int ur_lstat(const char *path, struct stat *st) SYMBOL(lstat);
int ur_lstat(const char *path, struct stat *st)
{
	char buf[PATH_MAX];

	return ur_view_is_node(AT_FDCWD, path) ? ur_stat(path, st)
					       : REAL(lstat)(PATH, st);
}

int ur_lstat64(const char *path, struct stat64 *st) SYMBOL(lstat64);
int ur_lstat64(const char *path, struct stat64 *st)
{
	char buf[PATH_MAX];

	return ur_view_is_node(AT_FDCWD, path) ? ur_stat64(path, st)
					       : REAL(lstat64)(PATH, st);
}

static int at_flags(int dir, const char *path, int flags)
{
	return (flags & AT_SYMLINK_NOFOLLOW) && ur_view_is_node(dir, path)
		       ? flags & ~AT_SYMLINK_NOFOLLOW
		       : flags;
}

#define FLAGS at_flags(dir, path, flags)

WRAP(int, fstatat, (int dir, const char *path, struct stat *st, int flags), dir,
     AT_PATH, st, FLAGS)
WRAP(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
     dir, AT_PATH, st, FLAGS)
WRAP(int, statx,
     (int dir, const char *path, int flags, unsigned int mask,
      struct statx *st),
     dir, AT_PATH, FLAGS, mask, st)

#define READDIR(entry, name)                                                   \
	entry *ur_##name(DIR *d) SYMBOL(name);                                 \
	entry *ur_##name(DIR *d)                                               \
	{                                                                      \
		entry *e = REAL(name)(d);                                      \
                                                                               \
		if (e && e->d_type == DT_LNK &&                                \
		    ur_view_is_node(dirfd(d), e->d_name))                      \
			e->d_type = DT_CHR;                                    \
		return e;                                                      \
	}

READDIR(struct dirent, readdir)
READDIR(struct dirent64, readdir64)

/*
 * glob() walks by itself, unless it is given functions to walk with: ours.
 * So it finds what is in the view, by the names that the program knows.
 */
static void *glob_opendir(const char *path)
{
	return ur_opendir(path);
}

static struct dirent *glob_readdir(void *d)
{
	return ur_readdir(d);
}

static struct dirent64 *glob_readdir64(void *d)
{
	return ur_readdir64(d);
}

static void glob_closedir(void *d)
{
	closedir(d);
}

#define GLOB(name, type, read_entry, lstat_, stat_)                            \
	int ur_##name(const char *pattern, int flags,                          \
		      int (*failed)(const char *, int), type *found)           \
		SYMBOL(name);                                                  \
	int ur_##name(const char *pattern, int flags,                          \
		      int (*failed)(const char *, int), type *found)           \
	{                                                                      \
		int err;                                                       \
                                                                               \
		if (!found || (flags & GLOB_ALTDIRFUNC))                       \
			return REAL(name)(pattern, flags, failed, found);      \
		found->gl_opendir = glob_opendir;                              \
		found->gl_readdir = read_entry;                                \
		found->gl_closedir = glob_closedir;                            \
		found->gl_lstat = lstat_;                                      \
		found->gl_stat = stat_;                                        \
		err = REAL(name)(pattern, flags | GLOB_ALTDIRFUNC, failed,     \
				 found);                                       \
		found->gl_flags &= ~GLOB_ALTDIRFUNC;                           \
		return err;                                                    \
	}

GLOB(glob, glob_t, glob_readdir, ur_lstat, ur_stat)
GLOB(glob64, glob64_t, glob_readdir64, ur_lstat64, ur_stat64)

/*
 * What stat() was called in programs linked before glibc 2.33.  dlsym() does
 * not find these any more; on 64-bit machines the structure is the same.
 */
ALIAS(int, __xstat, (int version, const char *path, struct stat *st),
      ur_stat(path, st))
ALIAS(int, __xstat64, (int version, const char *path, struct stat64 *st),
      ur_stat64(path, st))
ALIAS(int, __lxstat, (int version, const char *path, struct stat *st),
      ur_lstat(path, st))
ALIAS(int, __lxstat64, (int version, const char *path, struct stat64 *st),
      ur_lstat64(path, st))
ALIAS(int, __fxstatat,
      (int version, int dir, const char *path, struct stat *st, int flags),
      ur_fstatat(dir, path, st, flags))
ALIAS(int, __fxstatat64,
      (int version, int dir, const char *path, struct stat64 *st, int flags),
      ur_fstatat64(dir, path, st, flags))
