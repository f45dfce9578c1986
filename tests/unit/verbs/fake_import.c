/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>

#include "fake_adapter.h"
#include "sharing/import.h"

/* There are no other processes, unless a test says so. */
bool ur_fake_owner;
_Atomic uint32_t ur_fake_shut;

int ur_import_serve(const struct ur_import_hooks *hooks,
		    char name[UR_IMPORT_NAME])
{
	return -EOPNOTSUPP;
}

void (*ur_fake_on_tell)(void);

void ur_import_tell(const uint8_t token[UR_IMPORT_TOKEN],
		    const struct ur_import_object *o, int fd, bool wait)
{
	if (ur_fake_on_tell)
		ur_fake_on_tell();
}

int ur_import_open(const char name[UR_IMPORT_NAME],
		   const uint8_t token[UR_IMPORT_TOKEN],
		   const struct ur_import_hooks *hooks, void *arg,
		   struct ur_import_link **out)
{
	static char link;

	if (!ur_fake_owner)
		return -EOPNOTSUPP;
	*out = (struct ur_import_link *)&link;
	return 0;
}

void ur_import_close(struct ur_import_link *l)
{
}

int ur_import_ask(struct ur_import_link *l, uint32_t kind, uint32_t handle,
		  struct ur_import_object *out, int *fd)
{
	*out = (struct ur_import_object){ .kind = kind,
					  .handle = handle,
					  .flags = UR_IMPORT_NULL,
					  .key = UR_FAKE_FOREIGN_KEY };
	return ur_fake_owner ? 0 : -EIO;
}

int ur_import_end(struct ur_import_link *l, uint32_t kind, uint32_t handle)
{
	return -EIO;
}

const struct ur_owner *ur_import_lender(const struct ur_import_link *l,
					int *may)
{
	static const struct ur_owner owner = { .pidfd = -1,
					       .sock = -1,
					       .shut = &ur_fake_shut };

	*may = 0;
	return &owner;
}
