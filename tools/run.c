/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic run: put a program on our libraries and exec it. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "run.h"
#include "run_chaos.h"
#include "run_check.h"
#include "run_fault.h"
#include "run_misuse.h"
#include "runtime_dir.h"
#include "sysfs_tree.h"
#include "urnic.h"

#define PRELOAD "liburnic-preload.so"
#define CHECK	"liburnic-check.so"

static const char usage[] =
	"usage: urnic run [options] [--] PROGRAM [ARGUMENTS]\n"
	"Runs PROGRAM with urnic's libibverbs.so.1 and its view of /sys.\n"
	"  --fault SPEC  inject faults: drop=1%, fail=reg_mr:3, @FILE\n"
	"                (urnic-fault(7))\n"
	"  --chaos SECONDS\n"
	"                run it again and again with faults drawn by chance, until\n"
	"                one breaks it\n"
	"  --chaos-seed N\n"
	"                run it with the faults that broke it\n"
	"  --check[=all] report misuse of verbs; all: also what a correct program\n"
	"                may do\n"
	"  --check-file FILE\n"
	"                write findings there instead of to stderr (%p: process)\n"
	"  --check-exit N\n"
	"                exit status of a program with findings (99; 0: its own)\n"
	"  --suppress FILE\n"
	"                findings not to report: RULE [FUNCTION [OBJECT]] a line\n"
	"  --json        findings as JSON, one object a line\n"
	"  --no-preload  do not redirect /sys and /dev/infiniband\n"
	"  --env         print the environment instead of running a program\n";

/*
 * Relative to the directory of the executable: installed, build tree.  Below a
 * prefix "../lib" may have the libibverbs.so.1 of another package.
 */
static const char *const lib_places[] = {
	UR_LIB_RELATIVE,
	"../lib",
};

static bool has_file(const char *dir, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", dir, name) <
		       (int)sizeof(path) &&
	       access(path, R_OK) == 0;
}

/* The directory of this executable, or NULL. */
static const char *own_directory(void)
{
	static char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

	if (n <= 0) {
		ur_tool_error("cannot read /proc/self/exe: %s",
			      strerror(errno));
		return NULL;
	}
	dir[n] = 0;
	*strrchr(dir, '/') = 0;
	return dir;
}

int ur_tool_libs(char *dir)
{
	const char *exe = own_directory();
	char tmp[2 * PATH_MAX];

	if (!exe)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(lib_places) / sizeof(*lib_places); i++) {
		snprintf(tmp, sizeof(tmp), "%s/%s", exe, lib_places[i]);
		if (realpath(tmp, dir) && has_file(dir, "libibverbs.so.1") &&
		    has_file(dir, "liburnic.so"))
			return 0;
	}
	ur_tool_error("no libibverbs.so.1 with liburnic.so beside %s: build or "
		      "install urnic",
		      exe);
	return -ENOENT;
}

bool ur_tool_urnicd(char *path)
{
	const char *exe = own_directory();
	char tmp[2 * PATH_MAX];

	if (!exe)
		return false;
	snprintf(tmp, sizeof(tmp), "%s/" UR_URNICD_RELATIVE, exe);
	return realpath(tmp, path);
}

/* Put `first` before what is there already (which a nested run has put). */
static int prepend(const char *name, const char *first)
{
	const char *old = getenv(name);
	size_t len = strlen(first);
	char *value;
	int err;

	if (!old || !*old)
		return setenv(name, first, 1) ? -errno : 0;
	if (!strncmp(old, first, len) && (!old[len] || old[len] == ':'))
		return 0;
	if (asprintf(&value, "%s:%s", first, old) < 0)
		return -ENOMEM;
	err = setenv(name, value, 1) ? -errno : 0;
	free(value);
	return err;
}

/* Last: a sanitizer's or an allocator's library wants to be the first. */
static int append_preload(const char *lib)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;
	int err;

	if (!old || !*old)
		return setenv("LD_PRELOAD", lib, 1) ? -errno : 0;
	if (strstr(old, lib))
		return 0;
	if (asprintf(&value, "%s:%s", old, lib) < 0)
		return -ENOMEM;
	err = setenv("LD_PRELOAD", value, 1) ? -errno : 0;
	free(value);
	return err;
}

/*
 * What ibv_get_device_list() names (ur_adapter_present()): the interface of a
 * RoCE device on a port is made by the process that opens it.
 */
static bool is_listed(struct ur_dev *dev)
{
	return (dev->spec.port && dev->kind == UR_DEV_ROCE) ||
	       ur_dev_present(dev);
}

static int write_device(const char *root, const struct ur_dev_spec *spec)
{
	struct ur_dev dev;
	int err;

	if (!ur_dev_name_enabled(spec->name))
		return 0;
	err = ur_dev_init(&dev, spec);
	if (err)
		return err;
	err = is_listed(&dev) ? ur_sysfs_write(root, &dev)
			      : ur_sysfs_remove(root, &dev);
	ur_dev_fini(&dev);
	return err;
}

/*
 * Programs with other devices (URNIC_DEVICES, URNIC_CONFIG) have another view:
 * what one selection has not, another may be using.
 */
static uint32_t selection(const struct ur_config *config)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (uint32_t i = 0; i < config->count; i++) {
		const struct ur_dev_spec *s = &config->devices[i];
		char text[sizeof(s->name) +
			  (size_t)UR_DEV_MAX_PORTS * (IF_NAMESIZE + 1) + 32];
		size_t n;

		if (!ur_dev_name_enabled(s->name))
			continue;
		n = (size_t)snprintf(text, sizeof(text), "%s/%d/%u", s->name,
				     (int)s->kind, s->index);
		for (uint32_t k = 0; k < s->nports; k++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "/%s",
					      s->ports[k].netdev);
		snprintf(text + n, sizeof(text) - n, "\n");
		for (const char *c = text; *c; c++)
			hash = (hash ^ (uint8_t)*c) * 16777619u;
	}
	return hash;
}

/* Without the view most programs work all the same: a warning is enough. */
static int prepare_view(const char *libs)
{
	char dir[PATH_MAX], root[PATH_MAX + 16], lib[PATH_MAX + 32];
	const struct ur_config *config = ur_config_get();
	int err;

	if (!config)
		return -EINVAL; /* what is wrong was told */
	err = ur_runtime_dir(dir, sizeof(dir));
	if (err)
		return 0;
	snprintf(root, sizeof(root), "%s/sys-%08x", dir, selection(config));
	if (mkdir(root, 0755) && errno != EEXIST)
		err = -errno;
	for (uint32_t i = 0; i < config->count && !err; i++)
		err = write_device(root, &config->devices[i]);
	if (err) {
		ur_tool_error("%s cannot be written: %s", root, strerror(-err));
		return 0;
	}
	if (setenv("URNIC_SYSFS", root, 1))
		return -errno;
	if (!has_file(libs, PRELOAD))
		return 0;
	snprintf(lib, sizeof(lib), "%s/" PRELOAD, libs);
	return append_preload(lib);
}

static int print_environment(void)
{
	static const char *const names[] = { "LD_LIBRARY_PATH", "LD_PRELOAD",
					     "URNIC_SYSFS", "URNIC_FAULT",
					     "URNIC_CHECK" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value)
			printf("%s=%s\n", names[i], value);
	}
	return 0;
}

static bool is_count(const char *s, uint64_t least, uint64_t most, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(s, &end, 10);
	if (*s >= '0' && *s <= '9' && !*end && !errno && *n >= least &&
	    *n <= most)
		return true;
	ur_tool_error("\"%s\" is no number from %llu to %llu", s,
		      (unsigned long long)least, (unsigned long long)most);
	return false;
}

/* chaos: seconds, or 0. */
static int run_program(char **argv, uint64_t chaos)
{
	int code = ur_run_check(argv);

	if (code)
		return code;
	if (chaos)
		return ur_run_chaos(argv, chaos);
	execvp(argv[0], argv);
	code = errno == ENOENT ? 127 : 126; /* as shells do */
	ur_tool_error("%s: %s", argv[0], strerror(errno));
	return code;
}

/* Before libibverbs.so.1 */
static int add_checker(const char *libs)
{
	char lib[PATH_MAX + 32];

	snprintf(lib, sizeof(lib), "%s/" CHECK, libs);
	return append_preload(lib);
}

static int set_up(bool view, bool check)
{
	char libs[PATH_MAX];
	int err = ur_tool_libs(libs);

	if (err)
		return err;
	err = prepend("LD_LIBRARY_PATH", libs);
	if (!err && check)
		err = add_checker(libs);
	if (!err && view)
		err = prepare_view(libs);
	if (err)
		ur_tool_error("environment: %s", strerror(-err));
	return err;
}

int ur_run_environment(const char *preload)
{
	char libs[PATH_MAX], lib[PATH_MAX + 32];
	int err = ur_tool_libs(libs);

	if (!err && !has_file(libs, preload)) {
		ur_tool_error("there is no %s in %s", preload, libs);
		err = -ENOENT;
	}
	if (!err)
		err = set_up(true, false);
	if (err)
		return err;
	snprintf(lib, sizeof(lib), "%s/%s", libs, preload);
	return append_preload(lib);
}

int ur_cmd_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "chaos", required_argument, NULL, 'c' },
		{ "chaos-seed", required_argument, NULL, 's' },
		{ "check", optional_argument, NULL, UR_MISUSE_CHECK },
		{ "check-file", required_argument, NULL, UR_MISUSE_FILE },
		{ "check-exit", required_argument, NULL, UR_MISUSE_EXIT },
		{ "suppress", required_argument, NULL, UR_MISUSE_SUPPRESS },
		{ "json", no_argument, NULL, UR_MISUSE_JSON },
		{ "fault", required_argument, NULL, 'f' },
		{ "no-preload", no_argument, NULL, 'n' },
		{ "env", no_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool view = true, env = false, ok = true, check;
	uint64_t chaos = 0, seed;
	int c, faults = 0;

	while ((c = ur_tool_option(argc, argv, "+h", options, usage)) != -1) {
		if (c == 'f')
			ok = ur_run_fault(optarg);
		if (c == 'c')
			ok = is_count(optarg, 1, 1000000, &chaos);
		if (c == 's' && (ok = is_count(optarg, 0, UINT32_MAX, &seed)))
			ur_run_chaos_seed((uint32_t)seed);
		if (ok)
			ok = ur_run_misuse_option(c, optarg);
		if (!ok)
			return 2;
		view &= c != 'n';
		env |= c == 'e';
		faults += c == 'f' || c == 'c' || c == 's';
	}
	if (faults > 1) {
		ur_tool_error("only one of --fault, --chaos, --chaos-seed");
		return 2;
	}
	if (optind == argc && !env) {
		fputs(usage, stderr);
		return 2;
	}
	if (!ur_run_misuse_set(&check))
		return 2;
	if (set_up(view, check))
		return 125;
	return env ? print_environment() : run_program(argv + optind, chaos);
}
