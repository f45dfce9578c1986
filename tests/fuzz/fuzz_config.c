/* SPDX-License-Identifier: BSD-2-Clause */
/* A configuration file is accepted, or refused with its error in one line; an
 * accepted one is within its bounds. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config/config.h"
#include "core/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct ur_dev_spec *d, uint32_t index)
{
	assert(d->index == index && d->rank <= index);
	assert(*d->name && strlen(d->name) < sizeof(d->name));
	assert(strlen(d->netdev) < sizeof(d->netdev));
	assert(d->naddrs <= UR_GID_TABLE_LEN);
	assert(!d->naddrs || !ur_dev_spec_is_bound(d));
	assert(ur_mtu_bytes(d->max_mtu) != 0);
#define CHECK(name, most) assert(d->max.name >= 1 && d->max.name <= (most));
	UR_DEV_LIMITS(CHECK)
#undef CHECK
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ur_config c;
	char why[UR_CONFIG_WHY_LEN] = "";

	if (ur_config_parse(&c, "F", (const char *)data, size, why)) {
		assert(strncmp(why, "F:", 2) == 0 && !strchr(why, '\n'));
		return 0;
	}
	assert(c.count >= 1 && c.count <= UR_MAX_DEVICES);
	for (uint32_t i = 0; i < c.count; i++)
		check(&c.devices[i], i);
	return 0;
}
