/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define PATH_LEN 4096u

#ifndef UR_PLUGIN_DIR
#define UR_PLUGIN_DIR "/usr/lib/urnic"
#endif

/* Where it is seen from the library or the daemon: in the build tree (with its
 * directory), then installed. */
static const char *const places[] = { "", "../", "../src/" };
static const char *const installed[] = { "", "../lib/urnic/" };

static bool try_path(char *path, const char *near, const char *place,
		     const char *dir, const char *name)
{
	const char *slash = strrchr(near, '/');
	int n;

	if (!slash)
		return false;
	n = snprintf(path, PATH_LEN, "%.*s/%s%s%s", (int)(slash - near), near,
		     place, dir, name);
	return n > 0 && (size_t)n < PATH_LEN && access(path, R_OK) == 0;
}

static bool find(const struct ur_plugin_file *f, char *path)
{
	Dl_info info;

	if (dladdr((const void *)places, &info) && info.dli_fname) {
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
			if (try_path(path, info.dli_fname, places[i], f->dir,
				     f->name))
				return true;
		for (size_t i = 0; i < sizeof(installed) / sizeof(installed[0]);
		     i++)
			if (try_path(path, info.dli_fname, installed[i], "",
				     f->name))
				return true;
	}
	snprintf(path, PATH_LEN, "%s/%s", UR_PLUGIN_DIR, f->name);
	return access(path, R_OK) == 0;
}

bool ur_plugin_there(const struct ur_plugin_file *f)
{
	char path[PATH_LEN];

	return find(f, path);
}

/* The address sanitizer does not let itself be passed over. */
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

int ur_plugin_load(const struct ur_plugin_file *f, const void **out)
{
	char path[PATH_LEN];
	void *lib, *sym;

	if (!find(f, path))
		return -ENOENT;
	lib = dlopen(path, flags(f));
	sym = lib ? dlsym(lib, f->symbol) : NULL;
	if (!sym) {
		ur_err("%s", dlerror());
		return -ENOENT;
	}
	*out = sym;
	return 0;
}
