/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/log.h"

#define PATH_LEN 4096u
#define NAME_LEN 128u

/* Where plugins are installed: relative to the prefix, unless libdir is
 * absolute. */
#ifndef UR_PREFIX
#define UR_PREFIX "/usr"
#define UR_LIBDIR "lib"
#endif
#define IN_LIBDIR UR_LIBDIR "/urnic/"

/* Seen from the library or the daemon: in the build tree, with the plugin's
 * directory, then installed. */
static const char *const trees[] = { "", "../", "../src/" };
static const char *const installed[] = { "", "../" IN_LIBDIR };

#define TREES	  (sizeof(trees) / sizeof(trees[0]))
#define INSTALLED (sizeof(installed) / sizeof(installed[0]))

static bool find(const struct ur_plugin_file *f, char *path)
{
	char names[TREES + INSTALLED][NAME_LEN];
	const char *places[TREES + INSTALLED];
	size_t n = 0;

	for (size_t i = 0; i < TREES; i++, n++)
		snprintf(names[n], NAME_LEN, "%s%s%s", trees[i], f->dir,
			 f->name);
	for (size_t i = 0; i < INSTALLED; i++, n++)
		snprintf(names[n], NAME_LEN, "%s%s", installed[i], f->name);
	for (size_t i = 0; i < n; i++)
		places[i] = names[i];
	if (ur_find_beside(trees, places, n, R_OK, path, PATH_LEN))
		return true;
	snprintf(path, PATH_LEN, "%s%s%s",
		 *UR_LIBDIR == '/' ? "" : UR_PREFIX "/", IN_LIBDIR, f->name);
	return access(path, R_OK) == 0;
}

bool ur_plugin_there(const struct ur_plugin_file *f)
{
	char path[PATH_LEN];

	return find(f, path);
}

/* The address sanitizer does not allow RTLD_DEEPBIND. */
static int flags(const struct ur_plugin_file *f)
{
	int always = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return always;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return always;
#else
	return always | (f->deep ? RTLD_DEEPBIND : 0);
#endif
#else
	return always | (f->deep ? RTLD_DEEPBIND : 0);
#endif
}

static int is_of(struct dl_phdr_info *object, size_t size, void *library)
{
	const char *name = strrchr(object->dlpi_name, '/');
	size_t len = strlen(library);

	(void)size;
	name = name ? name + 1 : object->dlpi_name;
	return strncmp(name, library, len) == 0 &&
	       (name[len] == '\0' || name[len] == '.');
}

/* Of any version: "liblwip.so" is also liblwip.so.0 and liblwip.so.2. */
static bool is_loaded(const char *library)
{
	return dl_iterate_phdr(is_of, (void *)(uintptr_t)library) != 0;
}

int ur_plugin_load(const struct ur_plugin_file *f, const void **out)
{
	char path[PATH_LEN];
	void *lib, *sym;

	if (!find(f, path))
		return -ENOENT;
	if (f->alone && is_loaded(f->alone)) {
		ur_err("%s: the program has %s itself, and cannot load "
		       "it twice",
		       f->name, f->alone);
		return -EOPNOTSUPP;
	}
	lib = dlopen(path, flags(f));
	sym = lib ? dlsym(lib, f->symbol) : NULL;
	if (!sym) {
		ur_err("%s", dlerror());
		return -ENOENT;
	}
	*out = sym;
	return 0;
}
