/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/dev_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/types.h"

#define VENDOR_ID      0x75726eu /* "urn"; an unassigned OUI */
#define VENDOR_PART_ID 4119u	 /* perftest enables inline sends for it */

const char *ur_dev_default_name(enum ur_dev_kind kind)
{
	static const char *const names[UR_DEV_KINDS] = {
		[UR_DEV_ROCE] = "urnic0",
		[UR_DEV_IWARP] = "urniw0",
	};

	return names[kind];
}

void ur_dev_spec_default(struct ur_dev_spec *s, enum ur_dev_kind kind)
{
	*s = (struct ur_dev_spec){ .kind = kind,
				   .index = kind,
				   .nports = 1,
				   .max_mtu = UR_MTU_CODE_MAX,
				   .vendor_id = VENDOR_ID,
				   .vendor_part_id = VENDOR_PART_ID,
#define MOST(name, most) .max.name = (most),
				   UR_DEV_LIMITS(MOST)
#undef MOST
	};
	snprintf(s->name, sizeof(s->name), "%s", ur_dev_default_name(kind));
}

bool ur_dev_name_enabled(const char *name)
{
	const char *list = getenv("URNIC_DEVICES");
	size_t len = strlen(name);

	if (!list)
		return true;
	for (;;) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, name, len))
			return true;
		if (!list[n])
			return false;
		list += n + 1;
	}
}
