/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/stack.h"

#include <errno.h>

#include "base/log.h"
#include "link/plugin.h"

static const struct ur_plugin_file file = {
	.dir = "link/lwip/",
	.name = "liburnic-lwip.so",
	.symbol = UR_STACK_SYMBOL,
	.deep = true,
};

bool ur_stack_is_there(void)
{
	return ur_plugin_there(&file);
}

int ur_stack_load(const struct ur_stack_plugin **out)
{
	const void *p;
	int err = ur_plugin_load(&file, &p);

	if (err)
		return err;
	*out = p;
	if ((*out)->abi == UR_STACK_ABI)
		return 0;
	ur_err("%s is of another version of urnic", file.name);
	return -EPROTO;
}
