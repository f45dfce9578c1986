/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/stack.h"

#include <errno.h>

#include "base/log.h"
#include "ports/plugin.h"

static const struct ur_plugin_file file = {
	.dir = "ports/lwip/",
	.name = "liburnic-lwip.so",
	.symbol = UR_STACK_SYMBOL,
	.deep = true,
	.alone = "liblwip.so",
};

bool ur_stack_is_there(void)
{
	return ur_plugin_there(&file);
}

int ur_stack_load(const struct ur_stack_plugin **out)
{
	static const struct ur_stack_plugin *loaded;
	const void *p;
	int err = 0;

	if (!loaded) {
		err = ur_plugin_load(&file, &p);
		loaded = err ? NULL : p;
	}
	if (err)
		return err;
	*out = loaded;
	if (loaded->abi == UR_STACK_ABI)
		return 0;
	ur_err("%s is of another version of urnic", file.name);
	return -EPROTO;
}
