/* SPDX-License-Identifier: BSD-2-Clause */
/* Nothing is pinned and no device writes without the kernel's knowledge, so
 * copy-on-write pages stay correct in parent and child. */
#include <infiniband/verbs.h>

#include "verbs/exports.h"

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
