/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/nic.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define FILE_NAME "liburnic-dpdk.so"
#define PATH_LEN  4096u

#ifndef UR_PLUGIN_DIR
#define UR_PLUGIN_DIR "/usr/lib/urnic"
#endif

/* Seen from the library or the daemon: in the build tree, then installed. */
static const char *const places[] = {
	"link/dpdk/", "../link/dpdk/", "../src/link/dpdk/", "", "../lib/urnic/",
};

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ur_nic_plugin *the_plugin; /* load_lock */

static bool readable(const char *path)
{
	return access(path, R_OK) == 0;
}

static bool find_near(char *path)
{
	Dl_info info;
	const char *slash;

	if (!dladdr((const void *)places, &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	if (!slash)
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int n = snprintf(path, PATH_LEN, "%.*s/%s" FILE_NAME,
				 (int)(slash - info.dli_fname), info.dli_fname,
				 places[i]);

		if (n > 0 && (size_t)n < PATH_LEN && readable(path))
			return true;
	}
	return false;
}

static int load(void)
{
	const struct ur_nic_plugin *p;
	char path[PATH_LEN];
	void *lib;

	if (!find_near(path))
		snprintf(path, sizeof(path), "%s/%s", UR_PLUGIN_DIR, FILE_NAME);
	if (!readable(path)) {
		ur_err("a port is configured, but urnic was built without DPDK "
		       "(no %s)",
		       FILE_NAME);
		return -ENOENT;
	}
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!lib) {
		ur_err("%s", dlerror());
		return -ENOENT;
	}
	p = dlsym(lib, UR_NIC_SYMBOL);
	if (!p || p->abi != UR_NIC_ABI) {
		ur_err("%s is of another version of urnic", path);
		return -EPROTO;
	}
	the_plugin = p;
	return 0;
}

int ur_nic_load(const struct ur_nic_plugin **out)
{
	int err = 0;

	pthread_mutex_lock(&load_lock);
	if (!the_plugin)
		err = load();
	if (!err)
		*out = the_plugin;
	pthread_mutex_unlock(&load_lock);
	return err;
}
