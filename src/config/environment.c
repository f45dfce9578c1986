/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "fault/spec.h"

#define PREFIX	   "URNIC"
#define NAME_LEN   32u
/* Shorter names are taken for those of other programs, as are names that differ
 * from ours in more than one of SOME_CHARS characters. */
#define NAME_MIN   7u
#define SOME_CHARS 6u

enum kind { TEXT, NUMBER, LEVEL, DEVICES, FAULTS };

/* Ranges and defaults are those of the files that read the variables. */
static const struct variable {
	const char *name;
	enum kind kind;
	long min, max, otherwise; /* of a number */
} variables[] = {
	{ .name = "URNIC_CONFIG" },
	{ "URNIC_DEVICES", DEVICES, 0, 0, 0 },
	{ .name = "URNIC_RDMACM_DEVICE" },
	{ "URNIC_LOG", LEVEL, 0, 0, 0 },
	{ .name = "URNIC_LOG_FILE" },
	{ "URNIC_SHM", NUMBER, 0, 1, 1 },
	{ .name = "URNIC_SHARE" },
	{ "URNIC_LANES", NUMBER, 1, 64, 1 },
	{ "URNIC_MPA_CRC", NUMBER, 0, 1, 1 },
	{ .name = "URNIC_RAW_NETDEV" },
	{ "URNIC_DAEMON", NUMBER, 0, 1, 1 },
	{ .name = "URNICD" },
	{ "URNIC_IDLE", NUMBER, 0, 86400, 10 },
	{ .name = "URNIC_USERS" },
	{ .name = "URNIC_DAEMON_LOG" },
	{ .name = "URNIC_SYSFS" },
	{ "URNIC_FAULT", FAULTS, 0, 0, 0 },
	{ .name = "URNIC_CHECK" },
	{ .name = "URNIC_TRACE" },
};

#define COUNT (sizeof(variables) / sizeof(*variables))

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Characters to insert, delete or replace (Levenshtein distance). */
static uint32_t distance(const char *a, const char *b)
{
	uint32_t row[NAME_LEN + 1], n = (uint32_t)strlen(b);

	for (uint32_t j = 0; j <= n; j++)
		row[j] = j;
	for (uint32_t i = 1; *a; a++, i++) {
		uint32_t corner = row[0];

		row[0] = i;
		for (uint32_t j = 1; j <= n; j++) {
			uint32_t change = corner + (*a != b[j - 1]);

			corner = row[j];
			row[j] = least(change, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[n];
}

static bool is_similar(const char *name, char why[UR_ENVIRONMENT_WHY_LEN])
{
	for (size_t i = 0; i < COUNT; i++) {
		const char *ours = variables[i].name;

		if (distance(name, ours) > strlen(ours) / SOME_CHARS)
			continue;
		snprintf(why, UR_ENVIRONMENT_WHY_LEN,
			 "%s is no variable of urnic and ignored; %s is one",
			 name, ours);
		return true;
	}
	return false;
}

static bool is_number(const struct variable *v, const char *value,
		      char why[UR_ENVIRONMENT_WHY_LEN])
{
	char *end;
	long n = strtol(value, &end, 10);

	if (end != value && !*end && n >= v->min && n <= v->max)
		return true;
	snprintf(why, UR_ENVIRONMENT_WHY_LEN,
		 "%s=%.64s is no number from %ld to %ld: %ld is used", v->name,
		 value, v->min, v->max, v->otherwise);
	return false;
}

static bool is_level(const char *value, char why[UR_ENVIRONMENT_WHY_LEN])
{
	if (ur_log_level_of(value) >= 0)
		return true;
	snprintf(why, UR_ENVIRONMENT_WHY_LEN,
		 "URNIC_LOG=%.64s is none of error, warn, info, debug and "
		 "trace, and ignored",
		 value);
	return false;
}

static bool has_device(const struct ur_config *c, const char *name, size_t len)
{
	for (uint32_t i = 0; i < c->count; i++) {
		const char *d = c->devices[i].name;

		if (strlen(d) == len && !memcmp(d, name, len))
			return true;
	}
	return false;
}

static bool are_devices(const struct ur_config *c, const char *list,
			char why[UR_ENVIRONMENT_WHY_LEN])
{
	for (const char *at = list; *list; at++) {
		size_t n = strcspn(at, ",");

		if (!has_device(c, at, n)) {
			snprintf(why, UR_ENVIRONMENT_WHY_LEN,
				 "URNIC_DEVICES: there is no device \"%.*s\" "
				 "(urnic devices lists them)",
				 n < 64 ? (int)n : 64, at);
			return false;
		}
		at += n;
		if (!*at)
			break;
	}
	return true;
}

static bool are_faults(const char *value, char why[UR_ENVIRONMENT_WHY_LEN])
{
	struct ur_fault_scenario *s = malloc(sizeof(*s));
	char what[UR_FAULT_WHY_LEN];
	bool ok = !*value || !s || ur_fault_parse_arg(s, value, what);

	free(s);
	if (!ok)
		snprintf(why, UR_ENVIRONMENT_WHY_LEN, "URNIC_FAULT: %.200s",
			 what);
	return ok;
}

bool ur_environment_check(const struct ur_config *c, const char *variable,
			  char why[UR_ENVIRONMENT_WHY_LEN])
{
	const char *value = strchr(variable, '=');
	char name[NAME_LEN];
	size_t len = value ? (size_t)(value - variable) : 0;

	if (strncmp(variable, PREFIX, strlen(PREFIX)) != 0 || !len ||
	    len >= sizeof(name))
		return true;
	memcpy(name, variable, len);
	name[len] = '\0';
	value++;
	for (size_t i = 0; i < COUNT; i++) {
		const struct variable *v = &variables[i];

		if (strcmp(name, v->name) != 0)
			continue;
		return v->kind == NUMBER    ? is_number(v, value, why)
		       : v->kind == LEVEL   ? is_level(value, why)
		       : v->kind == FAULTS  ? are_faults(value, why)
		       : v->kind == DEVICES ? are_devices(c, value, why)
					    : true;
	}
	return len < NAME_MIN || !is_similar(name, why);
}

void ur_environment_warn(const struct ur_config *c)
{
	char why[UR_ENVIRONMENT_WHY_LEN];

	for (char **v = environ; *v; v++) {
		if (!ur_environment_check(c, *v, why))
			ur_warn("%s", why);
	}
}
