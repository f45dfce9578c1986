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
	assert(d->nports >= 1 && d->nports <= UR_DEV_MAX_PORTS);
	for (uint32_t i = 0; i < d->nports; i++) {
		const struct ur_dev_bind *b = &d->ports[i];

		assert(strlen(b->netdev) < sizeof(b->netdev));
		assert(b->naddrs <= UR_GID_TABLE_LEN);
		assert(!b->naddrs || !ur_dev_bind_is_bound(b));
		assert(d->nports == 1 || b->naddrs || ur_dev_bind_is_bound(b));
	}
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
