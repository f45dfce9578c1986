/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment of `urnic run` reaches a program unless something drops it
 * (sudo, env -i) or the loader disregards it (set-uid), and helps only where
 * the loader searches for the libraries at all (not static, not by a path).
 */
#include "run_check.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "elf_look.h"
#include "urnic.h"

#define LINE 256 /* of "#!", as the kernel reads it */
#define DEEP 8	 /* programs that start programs */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++) {
		if (!strcmp(name, *list))
			return true;
	}
	return false;
}

static bool executable(const char *path)
{
	struct stat st;

	return access(path, X_OK) == 0 && stat(path, &st) == 0 &&
	       S_ISREG(st.st_mode);
}

/* As execvp() finds it; false: not there, or nothing that can be executed. */
static bool find_program(const char *name, char path[PATH_MAX])
{
	const char *p = getenv("PATH");

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX &&
		       executable(path);
	p = p ? p : "/bin:/usr/bin";
	for (;;) {
		size_t len = strcspn(p, ":");
		int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)len, p,
				 len ? "/" : "", name);

		if (n < PATH_MAX && executable(path))
			return true;
		if (!p[len])
			return false;
		p += len + 1;
	}
}

/* What execvp() would fail with, told so that one knows what to do. */
static int cannot_execute(const char *name)
{
	struct stat st;

	if (!*name)
		ur_tool_error("the name of the program is empty");
	else if (!strchr(name, '/'))
		ur_tool_error("%s: there is no such program in PATH", name);
	else if (stat(name, &st))
		ur_tool_error("%s: %s", name, strerror(errno));
	else if (S_ISDIR(st.st_mode)) {
		ur_tool_error("%s is a directory, not a program", name);
		return 126;
	} else {
		ur_tool_error("%s may not be executed (chmod +x?)", name);
		return 126;
	}
	return 127;
}

static void warn(const char *path, const char *what, const char *help)
{
	ur_tool_error("warning: %s %s; %s", path, what, help);
}

/* Are privileges of a file of this file system given at all? */
static bool gives_privileges(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) == 0 && !(fs.f_flag & ST_NOSUID);
}

static bool new_privileges(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
}

/*
 * Does the loader take a program for privileged by its capabilities?  Also
 * without new privileges, where it gets none, if they are to be effective
 * (cap_bprm_creds_from_file() in Linux).
 */
static bool has_capabilities(const char *path)
{
	unsigned char caps[64];

	return getuid() != 0 &&
	       getxattr(path, "security.capability", caps, sizeof(caps)) > 0 &&
	       (new_privileges() || (caps[0] & VFS_CAP_FLAGS_EFFECTIVE));
}

static void check_privileges(const struct ur_file *f)
{
	bool suid = (f->st.st_mode & S_ISUID) && f->st.st_uid != getuid();
	/* Without the group's x it asks for locks, not for the group. */
	bool sgid = (f->st.st_mode & S_ISGID) && (f->st.st_mode & S_IXGRP) &&
		    f->st.st_gid != getgid();

	if (!gives_privileges(f->path))
		return;
	if ((suid || sgid) && new_privileges())
		warn(f->path,
		     suid ? "is set-uid, so it sees no device"
			  : "is set-gid, so it sees no device",
		     "run a copy without that bit, or as its owner");
	else if (has_capabilities(f->path))
		warn(f->path, "has file capabilities, so it sees no device",
		     "run a copy, with capabilities by setpriv --ambient-caps");
}

/* A directory of an RPATH that has one of the libraries. */
static bool has_library(const char *program, const char *dir, size_t len,
			char found[PATH_MAX])
{
	static const char *const names[] = { "libibverbs.so.1",
					     "librdmacm.so.1" };
	const char *slash = strrchr(program, '/');
	const char *rest = dir;
	int origin = 0;

	for (size_t i = 0; i < 2; i++) {
		size_t n = i ? strlen("${ORIGIN}") : strlen("$ORIGIN");

		if (len >= n && !strncmp(dir, i ? "${ORIGIN}" : "$ORIGIN", n)) {
			origin = slash ? (int)(slash - program) : 0;
			rest = dir + n;
			len -= n;
		}
	}
	for (size_t i = 0; i < 2; i++) {
		snprintf(found, PATH_MAX, "%.*s%.*s/%s", origin, program,
			 (int)len, rest, names[i]);
		if (access(found, R_OK) == 0)
			return true;
	}
	return false;
}

static void check_rpath(const struct ur_file *f, const char *rpath)
{
	char found[PATH_MAX], what[PATH_MAX + 64];

	for (;;) {
		size_t len = strcspn(rpath, ":");

		if (has_library(f->path, rpath, len, found)) {
			snprintf(what, sizeof(what),
				 "has an RPATH and takes %s for urnic's",
				 found);
			warn(f->path, what,
			     "remove it from a copy: patchelf --remove-rpath");
			return;
		}
		if (!rpath[len])
			return;
		rpath += len + 1;
	}
}

/* A library that is there, and is not urnic's own. */
static bool is_foreign(const char *library)
{
	char path[PATH_MAX], real[PATH_MAX];

	if (!realpath(library, real))
		return false;
	*strrchr(real, '/') = 0;
	return snprintf(path, sizeof(path), "%s/liburnic.so", real) >=
		       (int)sizeof(path) ||
	       access(path, F_OK) != 0;
}

static void check_names(const struct ur_file *f, const char *needed)
{
	char name[PATH_MAX], what[PATH_MAX + 64];

	if (needed)
		snprintf(name, sizeof(name), "%s", needed);
	else if (!ur_file_names_library(f, name, sizeof(name)))
		return;
	if (!is_foreign(name))
		return;
	snprintf(what, sizeof(what), "names %s by its path", name);
	warn(f->path, what,
	     "with that one it sees no device: have it load the bare name");
}

static void warn_static(const struct ur_file *f)
{
	const char *view = ur_file_names_view(f);
	char what[128];

	snprintf(what, sizeof(what),
		 view ? "is statically linked, so it sees no device and no %s, "
			"which it names"
		      : "is statically linked, so it sees no device%s",
		 view ? view : "");
	warn(f->path, what, "link it with the shared libibverbs.so.1");
}

/* The view of /sys and /dev is made of functions of the C library. */
static void check_view(const struct ur_file *f)
{
	const char *view = ur_file_is_go(f) ? ur_file_names_view(f) : NULL;
	char what[128];

	if (!view)
		return;
	snprintf(what, sizeof(what),
		 "is a program of Go and opens %s by system calls of its own, "
		 "so it sees the system's",
		 view);
	warn(f->path, what,
	     "have it read below $URNIC_SYSFS, or open devices "
	     "by libibverbs.so.1");
}

/* 0, or the exit status if its loader is missing. */
static int check_elf(const struct ur_file *f, const struct ur_elf *elf)
{
	if (!elf->is_64) {
		warn(f->path, "is no 64-bit program of this machine's kind",
		     "urnic's libraries are: use a build for this machine");
		return 0;
	}
	if (!*elf->loader) {
		warn_static(f);
		return 0;
	}
	if (access(elf->loader, X_OK)) {
		ur_tool_error("%s: its loader %s is not on this machine",
			      f->path, elf->loader);
		return 127;
	}
	if (strstr(elf->loader, "ld-musl"))
		warn(f->path, "uses musl, which cannot load urnic's libraries",
		     "use a build for glibc");
	check_privileges(f);
	if (elf->rpath)
		check_rpath(f, elf->rpath);
	check_names(f, elf->needed);
	check_view(f);
	return 0;
}

/* Has the option before its first argument that is none: -i, -li, --login */
static bool has_option(char **argv, char letter, const char *word)
{
	for (argv++; *argv && **argv == '-'; argv++) {
		const char *arg = *argv;

		if (!arg[1]) /* env - */
			return letter == 'i' || letter == 'l';
		if (arg[1] == '-' ? !strcmp(arg, word)
				  : strchr(arg, letter) != NULL)
			return true;
	}
	return false;
}

/* Whether a program drops the environment; argv[0] is its name. */
static bool drops_environment(char **argv)
{
	static const char *const always[] = { "sudo",	     "doas",
					      "pkexec",	     "machinectl",
					      "systemd-run", NULL };
	static const char *const at_login[] = { "su", "runuser", NULL };
	const char *name = base_name(argv[0]);

	/* The environment is made again where it is needed. */
	for (char **arg = argv + 1; *arg && arg[1]; arg++) {
		if (!strcmp(base_name(*arg), "urnic") && !strcmp(arg[1], "run"))
			return false;
	}
	if (is_one_of(name, always))
		return true;
	if (is_one_of(name, at_login))
		return has_option(argv, 'l', "--login");
	if (!strcmp(name, "setpriv"))
		return has_option(argv, '\n', "--reset-env");
	return !strcmp(name, "env") &&
	       has_option(argv, 'i', "--ignore-environment");
}

/* The program that another one runs, or NULL. */
static char **wrapped(char **argv)
{
	static const char *const wrappers[] = {
		"chrt",	   "env",      "ionice",   "ltrace", "nice", "nohup",
		"numactl", "setsid",   "stdbuf",   "strace", "time", "timeout",
		"taskset", "unbuffer", "valgrind", NULL
	};
	char path[PATH_MAX];

	if (!is_one_of(base_name(*argv), wrappers))
		return NULL;
	while (*++argv) {
		if (**argv != '-' && !strchr(*argv, '=') &&
		    find_program(*argv, path))
			return argv;
	}
	return NULL;
}

/*
 * The interpreter of a script and its argument, into line, as a list of
 * arguments; false: it is no script.
 */
static bool interpreter(const struct ur_file *f, char line[LINE], char *argv[3])
{
	size_t n = f->len < LINE - 1 ? f->len : LINE - 1;
	char *save = NULL;

	if (n < 3 || f->data[0] != '#' || f->data[1] != '!')
		return false;
	memcpy(line, f->data, n);
	line[n] = 0;
	line[strcspn(line, "\n")] = 0;
	argv[0] = strtok_r(line + 2, " \t", &save);
	argv[1] = argv[0] ? strtok_r(NULL, " \t", &save) : NULL;
	argv[2] = NULL;
	return argv[0] != NULL;
}

/* A program to look at; a script's interpreter with its argument is another. */
struct step {
	char **argv;
	char line[LINE];
	char *script[3];
};

/* 0, or the exit status if the interpreter is missing. */
static int check_interpreter(const struct ur_file *f, char **argv)
{
	if (access(argv[0], X_OK)) {
		ur_tool_error("%s: its interpreter %s: %s", f->path, argv[0],
			      strerror(errno));
		return errno == ENOENT ? 127 : 126;
	}
	check_names(f, NULL);
	return 0;
}

/* As check_program(), of what the file holds. */
static int check_file(struct step *s, const struct ur_file *f, char ***next)
{
	struct ur_elf elf;

	ur_elf_look(f, &elf);
	if (elf.is_elf)
		return check_elf(f, &elf);
	if (!interpreter(f, s->line, s->script))
		return 0; /* execvp() has the shell read it */
	*next = s->script;
	return check_interpreter(f, s->script);
}

/*
 * 0, and in *next the arguments of the program that this one runs, if there is
 * one; or the exit status.
 */
static int check_program(struct step *s, char ***next)
{
	char path[PATH_MAX];
	struct ur_file f;
	int status;

	if (!find_program(s->argv[0], path))
		return cannot_execute(s->argv[0]);
	/* It looks at what it runs. */
	if (!strcmp(base_name(path), "urnic"))
		return 0;
	if (drops_environment(s->argv)) {
		warn(s->argv[0], "drops urnic's environment",
		     "put `urnic run --` behind it, before the program");
		return 0;
	}
	*next = wrapped(s->argv);
	if (*next)
		return 0;
	if (ur_file_open(&f, path)) {
		/* It may be executed, but not be read. */
		f.path = path;
		if (stat(path, &f.st) == 0)
			check_privileges(&f);
		return 0;
	}
	status = check_file(s, &f, next);
	ur_file_close(&f);
	return status;
}

int ur_run_check(char **argv)
{
	struct step steps[DEEP];
	int status = 0;

	for (int i = 0; i < DEEP && argv && !status; i++) {
		steps[i].argv = argv;
		argv = NULL;
		status = check_program(&steps[i], &argv);
	}
	return status;
}
