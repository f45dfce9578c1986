/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of urnic that are loaded on demand, since the libraries that they are
 * linked with need not be installed. */
#ifndef UR_PORTS_PLUGIN_H
#define UR_PORTS_PLUGIN_H

#include <stdbool.h>

struct ur_plugin_file {
	const char *dir; /* in the build tree, "ports/dpdk/" */
	const char *name;
	const char *symbol;
	/* Its library's symbols, which have common names, precede others. */
	bool deep;
	/* Its library without a version, which a process can load only once;
	 * or NULL. */
	const char *alone;
};

/* Is it installed, or in the build tree? */
bool ur_plugin_there(const struct ur_plugin_file *f);

/* Its symbol, for good; -ENOENT: not installed, or it cannot be loaded
 * (logged); -EOPNOTSUPP: the process has already loaded the library that is to
 * be `alone` (logged). */
int ur_plugin_load(const struct ur_plugin_file *f, const void **out);

#endif
