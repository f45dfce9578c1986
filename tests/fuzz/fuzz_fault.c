/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults and scenarios: whatever the text, it is parsed or refused by one line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fault/spec.h"

static void check_line(const char *why)
{
	size_t n = strnlen(why, UR_FAULT_WHY_LEN);

	if (n == 0 || n == UR_FAULT_WHY_LEN || strchr(why, '\n'))
		abort();
}

static void check(const struct ur_fault_spec *s)
{
	if (s->n > UR_FAULT_RULES)
		abort();
	for (uint32_t i = 0; i < s->n; i++) {
		const struct ur_fault_rule *r = &s->rule[i];

		if (r->kind >= UR_FAULT_KINDS ||
		    r->verb > UR_FAULT_VERB_COUNT ||
		    r->millionths > UR_FAULT_MILLION || !r->millionths ||
		    r->at + r->len > strlen(s->text))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct ur_fault_scenario scenario;
	static struct ur_fault_spec spec;
	char why[UR_FAULT_WHY_LEN] = "";
	char *text = malloc(len + 1);

	if (!text)
		return 0;
	memcpy(text, data, len);
	text[len] = 0;
	if (ur_fault_parse(&spec, text, why))
		check(&spec);
	else
		check_line(why);
	why[0] = 0;
	if (!ur_fault_parse_lines(&scenario, text, why))
		check_line(why);
	for (uint32_t i = 0; i < scenario.n; i++)
		check(&scenario.step[i].spec);
	free(text);
	return 0;
}
