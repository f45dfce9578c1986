/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/nic.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/log.h"

#define FILE_NAME "liburnic-dpdk.so"
#define PATH_LEN  4096u

/* Where the plugin is installed: relative to the prefix, unless libdir is
 * absolute. */
#ifndef UR_PREFIX
#define UR_PREFIX "/usr"
#define UR_LIBDIR "lib"
#endif
#define IN_LIBDIR UR_LIBDIR "/urnic/" FILE_NAME

/* Seen from the library or the daemon: in the build tree, then installed. */
static const char *const places[] = {
	"link/dpdk/" FILE_NAME,
	"../link/dpdk/" FILE_NAME,
	"../src/link/dpdk/" FILE_NAME,
	FILE_NAME,
	"../" IN_LIBDIR,
};

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ur_nic_plugin *the_plugin; /* load_lock */

static int load(void)
{
	const struct ur_nic_plugin *p;
	char path[PATH_LEN];
	void *lib;

	if (!ur_find_beside(places, places, sizeof(places) / sizeof(places[0]),
			    R_OK, path, sizeof(path)))
		snprintf(path, sizeof(path), "%s",
			 *UR_LIBDIR == '/' ? IN_LIBDIR
					   : UR_PREFIX "/" IN_LIBDIR);
	if (access(path, R_OK)) {
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
