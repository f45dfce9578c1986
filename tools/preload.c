/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * liburnic-preload.so: programs that look for RDMA devices under
 * /sys/class/infiniband*, /sys/class/net/IF/device/infiniband* and
 * /dev/infiniband find urnic's view ($URNIC_SYSFS) there.  Every wrapper hands
 * on at once if the path does not begin with one of these; nothing else is
 * changed, and a path that is relative to a directory of the view needs no
 * help because the directory is real.
 *
 * The C library's functions are found on first use: a program may call a
 * wrapper before any constructor of ours has run.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * Our functions have names of their own in C and the C library's as symbols,
 * so that its headers, with their attributes and macros, do not get in the
 * way.
 */
#define SYMBOL(name) __asm__(#name) __attribute__((visibility("default")))

/* The environment is read once; setenv() by the program changes nothing. */
static const char *view_root(void)
{
	static _Atomic(const char *) root;
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

/* /sys/class/net/IF/device/infiniband… */
static bool is_netdev_path(const char *path)
{
	const char *slash;

	if (!starts(path, "/sys/class/net/"))
		return false;
	slash = strchr(path + strlen("/sys/class/net/"), '/');
	return slash && starts(slash, "/device/infiniband");
}

/* The part of a path that is appended to the root, or NULL: not ours. */
static const char *view_part(const char *path)
{
	static const char dev[] = "/dev/infiniband";

	if (starts(path, dev)) {
		char end = path[sizeof(dev) - 1];

		return end == 0 || end == '/' ? path : NULL;
	}
	if (starts(path, "/sys/class/infiniband") || is_netdev_path(path))
		return path + strlen("/sys");
	return NULL;
}

/* The path to use.  A NULL must reach the kernel, which answers EFAULT. */
static const char *view(const char *path, char buf[PATH_MAX])
{
	const char *part, *root;
	int len;

	if (!path || path[0] != '/' || (path[1] != 's' && path[1] != 'd'))
		return path;
	part = view_part(path);
	if (!part)
		return path;
	root = view_root();
	if (!*root)
		return path;
	len = snprintf(buf, PATH_MAX, "%s%s", root, part);
	return len < PATH_MAX ? buf : path;
}

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
		return REAL(name)(view(path, buf), flags, mode);               \
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
		return REAL(name)(dir, view(path, buf), flags, mode);          \
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

#define PATH view(path, buf)

/* clang-tidy 14 loses va_start() when it looks at several files */
/* NOLINTBEGIN(clang-analyzer-valist.Uninitialized) */
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
/* NOLINTEND(clang-analyzer-valist.Uninitialized) */
WRAP(int, __open_2, (const char *path, int flags), PATH, flags)
WRAP(int, __open64_2, (const char *path, int flags), PATH, flags)
WRAP(int, __openat_2, (int dir, const char *path, int flags), dir, PATH, flags)
WRAP(int, __openat64_2, (int dir, const char *path, int flags), dir, PATH,
     flags)
WRAP(FILE *, fopen, (const char *path, const char *mode), PATH, mode)
WRAP(FILE *, fopen64, (const char *path, const char *mode), PATH, mode)
WRAP(DIR *, opendir, (const char *path), PATH)
WRAP(int, access, (const char *path, int mode), PATH, mode)
WRAP(int, euidaccess, (const char *path, int mode), PATH, mode)
WRAP(int, eaccess, (const char *path, int mode), PATH, mode)
WRAP(int, faccessat, (int dir, const char *path, int mode, int flags), dir,
     PATH, mode, flags)
WRAP(int, stat, (const char *path, struct stat *st), PATH, st)
WRAP(int, stat64, (const char *path, struct stat64 *st), PATH, st)
WRAP(ssize_t, readlink, (const char *path, char *out, size_t len), PATH, out,
     len)
WRAP(ssize_t, readlinkat, (int dir, const char *path, char *out, size_t len),
     dir, PATH, out, len)
WRAP(ssize_t, __readlink_chk,
     (const char *path, char *out, size_t len, size_t size), PATH, out, len,
     size)
WRAP(ssize_t, __readlinkat_chk,
     (int dir, const char *path, char *out, size_t len, size_t size), dir, PATH,
     out, len, size)
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

/*
 * Calls that can ask about a link itself.  The view's device node is a link
 * to /dev/null; it has to look like the node.
 */
static bool is_node(const char *path)
{
	return path && starts(path, "/dev/infiniband/");
}

int ur_lstat(const char *path, struct stat *st) SYMBOL(lstat);
int ur_lstat(const char *path, struct stat *st)
{
	char buf[PATH_MAX];

	return is_node(path) ? ur_stat(path, st)
			     : REAL(lstat)(view(path, buf), st);
}

int ur_lstat64(const char *path, struct stat64 *st) SYMBOL(lstat64);
int ur_lstat64(const char *path, struct stat64 *st)
{
	char buf[PATH_MAX];

	return is_node(path) ? ur_stat64(path, st)
			     : REAL(lstat64)(view(path, buf), st);
}

static int at_flags(const char *path, int flags)
{
	return is_node(path) ? flags & ~AT_SYMLINK_NOFOLLOW : flags;
}

#define FLAGS at_flags(path, flags)

WRAP(int, fstatat, (int dir, const char *path, struct stat *st, int flags), dir,
     PATH, st, FLAGS)
WRAP(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
     dir, PATH, st, FLAGS)
WRAP(int, statx,
     (int dir, const char *path, int flags, unsigned int mask,
      struct statx *st),
     dir, PATH, FLAGS, mask, st)

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
