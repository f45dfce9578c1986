/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic run --fault */
#include "run_fault.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fault/spec.h"
#include "urnic.h"

static bool put(const char *value)
{
	if (setenv("URNIC_FAULT", value, 1) == 0)
		return true;
	ur_tool_error("environment: %s", strerror(errno));
	return false;
}

/* The line that was given stays as it is, so that a seed can be added to it. */
static bool put_with_seed(const char *arg)
{
	char text[UR_FAULT_TEXT + 32];
	uint32_t seed;

	ur_rng_secret(&seed, sizeof(seed));
	snprintf(text, sizeof(text), "%s,seed=%u", arg, seed);
	fprintf(stderr, "urnic: --fault '%s'\n", text);
	return put(text);
}

bool ur_run_fault(const char *arg)
{
	struct ur_fault_scenario *s = calloc(1, sizeof(*s));
	char why[UR_FAULT_WHY_LEN] = "out of memory";
	char path[PATH_MAX + 1] = "@";
	bool ok = s && ur_fault_parse_arg(s, arg, why), seeded;

	seeded = ok && (*arg == '@' || !s->step[0].spec.n ||
			s->step[0].spec.has_seed);
	free(s);
	if (!ok) {
		ur_tool_error("--fault: %s", why);
		return false;
	}
	if (*arg != '@')
		return seeded ? put(arg) : put_with_seed(arg);
	/* The program may change its directory. */
	if (!realpath(arg + 1, path + 1)) {
		ur_tool_error("%s: %s", arg + 1, strerror(errno));
		return false;
	}
	return put(path);
}
