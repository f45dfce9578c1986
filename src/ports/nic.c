/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/nic.h"

#include <errno.h>
#include <pthread.h>

#include "base/log.h"
#include "ports/plugin.h"

static const struct ur_plugin_file file = {
	.dir = "ports/dpdk/",
	.name = "liburnic-dpdk.so",
	.symbol = UR_NIC_SYMBOL,
};

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ur_nic_plugin *the_plugin; /* load_lock */

bool ur_nic_is_there(void)
{
	return ur_plugin_there(&file);
}

static int load(void)
{
	const struct ur_nic_plugin *p;
	const void *sym;
	int err;

	if (!ur_nic_is_there()) {
		ur_err("a port is configured, but urnic was built without DPDK "
		       "(no %s)",
		       file.name);
		return -ENOENT;
	}
	err = ur_plugin_load(&file, &sym);
	if (err)
		return err;
	p = sym;
	if (p->abi != UR_NIC_ABI) {
		ur_err("%s is of another version of urnic", file.name);
		return -EPROTO;
	}
	the_plugin = p;
	return 0;
}

int ur_nic_load(const struct ur_nic_plugin **ops)
{
	int err = 0;

	pthread_mutex_lock(&load_lock);
	if (!the_plugin)
		err = load();
	if (!err)
		*ops = the_plugin;
	pthread_mutex_unlock(&load_lock);
	return err;
}
