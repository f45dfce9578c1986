/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic enable, disable: which libibverbs.so.1 all programs load. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "enable.h"
#include "urnic.h"

#define CONF	 UR_ENABLE_CONF
/* Neither is read: ldconfig reads *.conf. */
#define TEMP	 CONF ".new"
#define EARLIER	 CONF ".old"
#define LDCONFIG "/sbin/ldconfig"

static const char usage[] =
	"usage: urnic enable | disable\n"
	"  enable   all programs load urnic's libibverbs.so.1 and librdmacm.so.1\n"
	"  disable  they load the distribution's again\n"
	"Both need root; running programs keep what they have loaded.\n";

static int write_conf(const char *dir)
{
	FILE *f = fopen(TEMP, "we");
	bool bad;

	if (!f) {
		ur_tool_error("%s: %s", TEMP, strerror(errno));
		return -EIO;
	}
	bad = fprintf(f, "# By urnic enable; urnic disable removes it.\n%s\n",
		      dir) < 0;
	bad |= fchmod(fileno(f), 0644) != 0;
	bad |= fflush(f) || fsync(fileno(f));
	bad |= fclose(f) != 0;
	if (bad || rename(TEMP, CONF)) {
		ur_tool_error("%s: %s", CONF, strerror(errno));
		unlink(TEMP);
		return -EIO;
	}
	return 0;
}

static int run_ldconfig(void)
{
	char *argv[] = { (char[]){ LDCONFIG }, NULL };
	int status, err;
	pid_t pid;

	err = posix_spawn(&pid, LDCONFIG, NULL, NULL, argv, environ);
	if (err) {
		ur_tool_error("%s: %s", LDCONFIG, strerror(err));
		return -EIO;
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -EIO;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		ur_tool_error("%s failed", LDCONFIG);
		return -EIO;
	}
	return 0;
}

/* What was enabled stays so if ldconfig fails. */
static int put_conf(const char *dir)
{
	bool earlier;

	unlink(EARLIER);
	earlier = !link(CONF, EARLIER);
	if (!earlier && errno != ENOENT) {
		ur_tool_error("%s: %s", EARLIER, strerror(errno));
		return -EIO;
	}
	if (write_conf(dir)) {
		unlink(EARLIER);
		return -EIO;
	}
	if (!run_ldconfig()) {
		unlink(EARLIER);
		return 0;
	}
	if (earlier ? rename(EARLIER, CONF) : unlink(CONF))
		ur_tool_error("%s: %s", CONF, strerror(errno));
	return -EIO;
}

/* 0: a right command line by root; else the exit status. */
static int check_call(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};

	(void)ur_tool_option(argc, argv, "h", options, usage);
	if (optind < argc) {
		ur_tool_error("%s takes no argument \"%s\"", argv[0],
			      argv[optind]);
		return 2;
	}
	if (geteuid()) {
		ur_tool_error("%s changes the whole system and needs root; "
			      "\"urnic run\" does not",
			      argv[0]);
		return 1;
	}
	return 0;
}

int ur_cmd_enable(int argc, char **argv)
{
	char dir[PATH_MAX];
	int code = check_call(argc, argv);

	if (code)
		return code;
	if (ur_tool_libs(dir) || ur_enable_check_files(dir) ||
	    ur_enable_check_include() || put_conf(dir))
		return 1;
	printf("enabled: programs load the libraries of %s from now on\n", dir);
	return 0;
}

int ur_cmd_disable(int argc, char **argv)
{
	int code = check_call(argc, argv);
	bool enabled;

	if (code)
		return code;
	enabled = !unlink(CONF);
	if (!enabled && errno != ENOENT) {
		ur_tool_error("%s: %s", CONF, strerror(errno));
		return 1;
	}
	/* Without the file too: an earlier call may have failed here. */
	if (run_ldconfig())
		return 1;
	puts(enabled ? "disabled: programs load the distribution's libraries "
		       "from now on"
		     : "urnic is not enabled");
	return 0;
}
