/* SPDX-License-Identifier: BSD-2-Clause */
/* What has to hold before "urnic enable" changes the system. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "enable.h"
#include "urnic.h"

#define LD_SO_CONF "/etc/ld.so.conf"

/*
 * Programs of root will load or execute the file: no other user may replace it.
 * Programs of other users will too: they must get at it.
 */
static int check_path(const char *file)
{
	char path[PATH_MAX];
	mode_t need = S_IROTH;
	struct stat st;

	if (!realpath(file, path) || stat(path, &st)) {
		ur_tool_error("%s: %s", file, strerror(errno));
		return -EACCES;
	}
	for (;;) {
		char *slash = strrchr(path, '/');

		if (st.st_uid || st.st_mode & (S_IWGRP | S_IWOTH)) {
			ur_tool_error("users other than root can change %s: "
				      "install urnic as root first",
				      path);
			return -EACCES;
		}
		if (!(st.st_mode & need)) {
			ur_tool_error("users other than root have no access to "
				      "%s: install urnic elsewhere",
				      path);
			return -EACCES;
		}
		if (!path[1])
			return 0;
		slash[slash == path] = 0; /* the parent, at last "/" */
		need = S_IXOTH;
		if (stat(path, &st)) {
			ur_tool_error("%s: %s", path, strerror(errno));
			return -EACCES;
		}
	}
}

int ur_enable_check_files(const char *dir)
{
	char path[PATH_MAX + NAME_MAX + 2];
	int err = 0;
	DIR *d = opendir(dir);

	if (!d) {
		ur_tool_error("%s: %s", dir, strerror(errno));
		return -EACCES;
	}
	for (struct dirent *e; !err && (e = readdir(d));) {
		if (!strstr(e->d_name, ".so"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		err = check_path(path);
	}
	closedir(d);
	if (!err && ur_tool_urnicd(path))
		err = check_path(path);
	return err;
}

static bool includes_conf(char *line)
{
	static const char blank[] = " \t\n";
	char pattern[PATH_MAX], *save;
	const char *word;

	line[strcspn(line, "#")] = 0;
	word = strtok_r(line, blank, &save);
	if (!word || strcmp(word, "include") != 0)
		return false;
	while ((word = strtok_r(NULL, blank, &save))) {
		snprintf(pattern, sizeof(pattern), "%s%s",
			 *word == '/' ? "" : "/etc/", word);
		if (!fnmatch(pattern, UR_ENABLE_CONF, FNM_PATHNAME))
			return true;
	}
	return false;
}

int ur_enable_check_include(void)
{
	FILE *f = fopen(LD_SO_CONF, "re");
	bool found = false;
	size_t size = 0;
	char *line = NULL;

	while (f && !found && getline(&line, &size, f) >= 0)
		found = includes_conf(line);
	free(line);
	if (f)
		fclose(f);
	if (found)
		return 0;
	ur_tool_error(LD_SO_CONF " does not include " UR_ENABLE_CONF
				 ": add \"include /etc/ld.so.conf.d/*.conf\"");
	return -EINVAL;
}
