/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic run --check */
#include "run_misuse.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "urnic.h"

static struct {
	bool check;
	bool other; /* an option that needs --check */
	const char *rules;
	bool json;
	int status; /* -1: the default */
	char file[PATH_MAX];
	char suppressions[PATH_MAX];
} given = { .rules = "certain", .status = -1 };

/* Commas separate the parts of the variable. */
static bool is_path(const char *path)
{
	if (*path && strlen(path) < PATH_MAX / 2 && !strchr(path, ','))
		return true;
	ur_tool_error("\"%s\": the name of a file, without commas, is needed",
		      path);
	return false;
}

/* The program may change its directory. */
static bool take_file(const char *path)
{
	char dir[PATH_MAX / 2];

	if (!is_path(path))
		return false;
	if (*path == '/' || !getcwd(dir, sizeof(dir)))
		snprintf(given.file, sizeof(given.file), "%s", path);
	else
		snprintf(given.file, sizeof(given.file), "%s/%s", dir, path);
	return is_path(given.file);
}

static bool take_suppressions(const char *path)
{
	if (realpath(path, given.suppressions) &&
	    access(given.suppressions, R_OK) == 0)
		return is_path(given.suppressions);
	ur_tool_error("%s: %s", path, strerror(errno));
	return false;
}

static bool take_status(const char *arg)
{
	char *end;
	long n = strtol(arg, &end, 10);

	if (*arg >= '0' && *arg <= '9' && !*end && n <= 255) {
		given.status = (int)n;
		return true;
	}
	ur_tool_error("--check-exit: \"%s\" is no number from 0 to 255", arg);
	return false;
}

static bool take_rules(const char *arg)
{
	given.check = true;
	if (!arg)
		return true;
	given.rules = arg;
	if (!strcmp(arg, "certain") || !strcmp(arg, "all"))
		return true;
	ur_tool_error("--check=%s: it is \"certain\" or \"all\"", arg);
	return false;
}

bool ur_run_misuse_option(int option, const char *arg)
{
	switch (option) {
	case UR_MISUSE_CHECK:
		return take_rules(arg);
	case UR_MISUSE_FILE:
		given.other = true;
		return take_file(arg);
	case UR_MISUSE_EXIT:
		given.other = true;
		return take_status(arg);
	case UR_MISUSE_SUPPRESS:
		given.other = true;
		return take_suppressions(arg);
	case UR_MISUSE_JSON:
		given.other = true;
		given.json = true;
		return true;
	default:
		return true;
	}
}

bool ur_run_misuse_set(bool *wanted)
{
	char status[16] = "", *value;
	int err;

	*wanted = given.check;
	if (!given.check && given.other)
		ur_tool_error("--check-file, --check-exit, --suppress and "
			      "--json need --check");
	if (!given.check)
		return !given.other;
	if (given.status >= 0)
		snprintf(status, sizeof(status), ",exit=%u",
			 (unsigned int)given.status & 0xff);
	if (asprintf(&value, "%s%s%s%s%s%s%s", given.rules,
		     given.json ? ",json" : "", status,
		     given.file[0] ? ",file=" : "", given.file,
		     given.suppressions[0] ? ",suppress=" : "",
		     given.suppressions) < 0)
		return false;
	err = setenv("URNIC_CHECK", value, 1) ? errno : 0;
	free(value);
	if (err)
		ur_tool_error("environment: %s", strerror(err));
	return !err;
}
