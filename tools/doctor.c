/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic doctor: what on this machine keeps urnic from working, or slows it. */
#include "doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_put.h"
#include "urnic.h"

#define USAGE_STATUS 3 /* 0 to 2 are results */
#define INDENT	     "             "

static const char usage[] =
	"usage: urnic doctor [--json] [HOST]\n"
	"Says what to change on this machine, in order of effect, and with HOST\n"
	"what its urnicd answers.  Exit status: 0 nothing to do, 1 urnic works\n"
	"but slower, 2 something cannot work, 3 wrong command line.\n";

static const struct {
	const char *json;
	const char *text;
} states[UR_DOCTOR_STATES] = {
	[UR_DOCTOR_FAIL] = { "fail", "cannot work" },
	[UR_DOCTOR_SLOW] = { "slow", "slower" },
	[UR_DOCTOR_UNREAD] = { "unread", "not read" },
	[UR_DOCTOR_NOTE] = { "note", "note" },
	[UR_DOCTOR_OK] = { "ok", "ok" },
};

struct ur_doctor {
	struct json_object *findings[UR_DOCTOR_STATES];
	struct json_object *not_checked;
};

/*
 * Names of processes and of the kernel have any bytes: what is not printable
 * ASCII becomes '?', as escape sequences of a terminal and JSON without UTF-8 do
 * harm.
 */
static struct json_object *printable(const char *s)
{
	char text[1024];
	size_t n = 0;

	for (; s[n] && n < sizeof(text) - 1; n++) {
		text[n] = s[n];
		if (s[n] < 0x20 || s[n] >= 0x7f)
			text[n] = '?';
	}
	text[n] = 0;
	return json_object_new_string(text);
}

void ur_doctor_add(struct ur_doctor *d, enum ur_doctor_state state,
		   const char *check, const char *command, const char *fmt, ...)
{
	struct json_object *o = json_object_new_object();
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): as in urnic.c */
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ur_put_text(o, "check", check);
	ur_put_text(o, "state", states[state].json);
	json_object_object_add(o, "text", printable(text));
	json_object_object_add(o, "command",
			       command ? printable(command) : NULL);
	json_object_array_add(d->findings[state], o);
}

void ur_doctor_not_checked(struct ur_doctor *d, const char *text)
{
	json_object_array_add(d->not_checked, json_object_new_string(text));
}

bool ur_doctor_line(const char *path, char *line, size_t cap)
{
	FILE *f = fopen(path, "re");
	bool read = f && fgets(line, (int)cap, f);

	if (f)
		fclose(f);
	if (read)
		line[strcspn(line, "\n")] = 0;
	return read && *line;
}

static const char *member(struct json_object *o, const char *key)
{
	struct json_object *value = json_object_object_get(o, key);

	return value ? json_object_get_string(value) : NULL;
}

static void print_finding(enum ur_doctor_state state, struct json_object *o)
{
	const char *command = member(o, "command");

	printf("%-11s  %s: %s\n", states[state].text, member(o, "check"),
	       member(o, "text"));
	if (command)
		printf(INDENT "do: %s\n", command);
}

static void print_text(const struct ur_doctor *d)
{
	for (int s = 0; s < UR_DOCTOR_STATES; s++) {
		size_t n = json_object_array_length(d->findings[s]);

		for (size_t i = 0; i < n; i++)
			print_finding(s, json_object_array_get_idx(
						 d->findings[s], i));
	}
	for (size_t i = 0; i < json_object_array_length(d->not_checked); i++)
		printf("not checked  %s\n",
		       json_object_get_string(
			       json_object_array_get_idx(d->not_checked, i)));
}

static void print_json(const struct ur_doctor *d, const char *host, int status)
{
	struct json_object *doc = json_object_new_object();
	struct json_object *all = json_object_new_array();

	ur_put_text(doc, "urnic", UR_VERSION);
	ur_put_int(doc, "status", status);
	json_object_object_add(doc, "host", host ? printable(host) : NULL);
	for (int s = 0; s < UR_DOCTOR_STATES; s++) {
		size_t n = json_object_array_length(d->findings[s]);

		for (size_t i = 0; i < n; i++)
			json_object_array_add(
				all, json_object_get(json_object_array_get_idx(
					     d->findings[s], i)));
	}
	json_object_object_add(doc, "findings", all);
	json_object_object_add(doc, "not_checked",
			       json_object_get(d->not_checked));
	ur_print_json(doc);
	json_object_put(doc);
}

/*
 * The order of the calls is that of the effect: what keeps all programs from the
 * adapter, lost time of CPUs, which becomes retransmissions, then the cost of
 * each packet.
 */
static void examine(struct ur_doctor *d, const char *host)
{
	ur_doctor_port(d);
	ur_doctor_devices(d);
	ur_doctor_firewall(d);
	if (host)
		ur_doctor_peer(d, host);
	ur_doctor_cpu(d);
	ur_doctor_kernel(d);
}

static int status_of(const struct ur_doctor *d)
{
	if (json_object_array_length(d->findings[UR_DOCTOR_FAIL]))
		return 2;
	return json_object_array_length(d->findings[UR_DOCTOR_SLOW]) ? 1 : 0;
}

/* The host is argv[optind], if any; the exit status, or -1. */
static int parse(int argc, char **argv, bool *json)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
		if (c == 'h')
			fputs(usage, stdout);
		if (c != 'j')
			return c == 'h' ? 0 : USAGE_STATUS;
		*json = true;
	}
	if (argc - optind <= 1)
		return -1;
	fputs(usage, stderr);
	return USAGE_STATUS;
}

int ur_cmd_doctor(int argc, char **argv)
{
	bool json = false;
	int status = parse(argc, argv, &json);
	const char *host;
	struct ur_doctor d;

	if (status >= 0)
		return status;
	host = optind < argc ? argv[optind] : NULL;
	for (int s = 0; s < UR_DOCTOR_STATES; s++)
		d.findings[s] = json_object_new_array();
	d.not_checked = json_object_new_array();
	examine(&d, host);
	status = status_of(&d);
	if (json)
		print_json(&d, host, status);
	else
		print_text(&d);
	for (int s = 0; s < UR_DOCTOR_STATES; s++)
		json_object_put(d.findings[s]);
	json_object_put(d.not_checked);
	return status;
}
