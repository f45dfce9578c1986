/* SPDX-License-Identifier: BSD-2-Clause */
/* $URNIC_CHECK: "certain" or "all", then ",json", ",exit=N", ",file=PATH",
 * ",suppress=PATH". `urnic run` has checked it. */
#include <stdlib.h>
#include <string.h>

#include "check/internal.h"
#include "check/options.h"

struct urk_options urk_options = { .status = 99 };
bool urk_on;

static char text[4096];

static void take(char *word)
{
	urk_options.all |= !strcmp(word, "all");
	urk_options.json |= !strcmp(word, "json");
	if (!strncmp(word, "exit=", 5))
		urk_options.status = (int)strtol(word + 5, NULL, 10) & 0xff;
	if (!strncmp(word, "file=", 5))
		urk_options.file = word + 5;
	if (!strncmp(word, "suppress=", 9))
		urk_options.suppressions = word + 9;
}

bool urk_options_read(void)
{
	const char *value = getenv("URNIC_CHECK");
	char *state = NULL;

	if (!value || !*value || strlen(value) >= sizeof(text))
		return false;
	memcpy(text, value, strlen(value) + 1);
	for (char *w = strtok_r(text, ",", &state); w;
	     w = strtok_r(NULL, ",", &state))
		take(w);
	return true;
}
