/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/beside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool ur_find_beside(const void *here, const char *const *places, size_t n,
		    int how, char *path, size_t cap)
{
	Dl_info info;
	const char *slash;

	if (!dladdr(here, &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	if (!slash)
		return false;
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(path, cap, "%.*s/%s",
				   (int)(slash - info.dli_fname),
				   info.dli_fname, places[i]);

		if (len > 0 && (size_t)len < cap && access(path, how) == 0)
			return true;
	}
	return false;
}
