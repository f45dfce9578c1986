/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report of a process is a JSON object of the engine's making.  It is
 * printed by its shape, so that a new member needs no change here: plain
 * members side by side, a list of plain objects (QPs) as a table with a column
 * per member, a plain object (counters) as its non-zero members line by line,
 * what has lists inside (lanes) as a block of these.
 */
#include "show_text.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_COLUMNS 40
#define STEP	    2

/* From a process: nothing that moves a terminal's cursor may get through. */
static void print_clean(const char *s, int width)
{
	int n = 0;

	for (; *s; s++, n++)
		putchar(*s >= 0x20 && *s < 0x7f ? *s : '?');
	for (; n < width; n++)
		putchar(' ');
}

static const char *text_of(struct json_object *v)
{
	return v ? json_object_get_string(v) : "-";
}

static bool is_plain(struct json_object *v)
{
	return !json_object_is_type(v, json_type_object) &&
	       !json_object_is_type(v, json_type_array);
}

struct table {
	const char *name[MAX_COLUMNS];
	int width[MAX_COLUMNS];
	int n;
};

static int column(struct table *t, const char *name)
{
	for (int i = 0; i < t->n; i++) {
		if (!strcmp(t->name[i], name))
			return i;
	}
	if (t->n == MAX_COLUMNS)
		return -1;
	t->name[t->n] = name;
	t->width[t->n] = (int)strlen(name);
	return t->n++;
}

static void measure(struct table *t, struct json_object *rows)
{
	for (size_t r = 0; r < json_object_array_length(rows); r++) {
		struct json_object *row = json_object_array_get_idx(rows, r);

		if (!json_object_is_type(row, json_type_object))
			continue;
		json_object_object_foreach(row, key, value)
		{
			int c = column(t, key);
			int len = (int)strlen(text_of(value));

			if (c >= 0 && len > t->width[c])
				t->width[c] = len;
		}
	}
}

static void print_indent(int indent)
{
	printf("%*s", indent, "");
}

static void print_table(const char *title, struct json_object *rows, int indent)
{
	struct table t = { .n = 0 };

	measure(&t, rows);
	print_indent(indent);
	print_clean(title, 0);
	printf(" (%zu)\n", json_object_array_length(rows));
	print_indent(indent + STEP);
	for (int c = 0; c < t.n; c++)
		print_clean(t.name[c], t.width[c] + 2);
	putchar('\n');
	for (size_t r = 0; r < json_object_array_length(rows); r++) {
		struct json_object *row = json_object_array_get_idx(rows, r);

		print_indent(indent + STEP);
		for (int c = 0; c < t.n; c++) {
			struct json_object *v = NULL;

			json_object_object_get_ex(row, t.name[c], &v);
			print_clean(text_of(v), t.width[c] + 2);
		}
		putchar('\n');
	}
}

/* Counters: there are many, and most are zero. */
static void print_members(const char *title, struct json_object *o, int indent)
{
	bool any = false;

	json_object_object_foreach(o, key, value)
	{
		if (!strcmp(text_of(value), "0"))
			continue;
		if (!any) {
			print_indent(indent);
			print_clean(title, 0);
			putchar('\n');
		}
		any = true;
		print_indent(indent + STEP);
		print_clean(key, 28);
		print_clean(text_of(value), 0);
		putchar('\n');
	}
}

static bool all_plain(struct json_object *o)
{
	json_object_object_foreach(o, key, value)
	{
		(void)key;
		if (!is_plain(value))
			return false;
	}
	return true;
}

static void print_plain(const char *title, struct json_object *o, int indent)
{
	print_indent(indent);
	print_clean(title, 0);
	json_object_object_foreach(o, key, value)
	{
		if (!is_plain(value))
			continue;
		printf("  ");
		print_clean(key, 0);
		putchar(' ');
		print_clean(text_of(value), 0);
	}
	putchar('\n');
}

static bool is_table(struct json_object *list)
{
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		if (!json_object_is_type(o, json_type_object) || !all_plain(o))
			return false;
	}
	return json_object_array_length(list) > 0;
}

/* A lane: what stands deeper is for --json. */
static void print_inner(const char *title, struct json_object *o, int indent)
{
	if (!json_object_is_type(o, json_type_object))
		return;
	print_plain(title, o, indent);
	json_object_object_foreach(o, key, value)
	{
		if (json_object_is_type(value, json_type_array)) {
			if (is_table(value))
				print_table(key, value, indent + STEP);
		} else if (!is_plain(value)) {
			print_members(key, value, indent + STEP);
		}
	}
}

static void print_list(const char *title, struct json_object *list, int indent)
{
	if (is_table(list)) {
		print_table(title, list, indent);
		return;
	}
	for (size_t i = 0; i < json_object_array_length(list); i++)
		print_inner(title, json_object_array_get_idx(list, i), indent);
}

static void print_report(struct json_object *report)
{
	print_plain("report", report, STEP);
	json_object_object_foreach(report, key, value)
	{
		if (json_object_is_type(value, json_type_array))
			print_list(key, value, 2 * STEP);
		else if (!is_plain(value) && all_plain(value))
			print_members(key, value, 2 * STEP);
		else if (!is_plain(value))
			print_inner(key, value, 2 * STEP);
	}
}

static const char *member(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	json_object_object_get_ex(o, name, &v);
	return text_of(v);
}

static void print_slots(struct json_object *o)
{
	struct json_object *slots = NULL;

	json_object_object_get_ex(o, "slots", &slots);
	printf("slots");
	for (size_t i = 0; slots && i < json_object_array_length(slots); i++)
		printf(" %s", text_of(json_object_array_get_idx(slots, i)));
}

static void print_process(struct json_object *o)
{
	struct json_object *report = NULL, *answers = NULL;

	json_object_object_get_ex(o, "report", &report);
	json_object_object_get_ex(o, "answers", &answers);
	printf("\n%s  pid %s  uid %s  since %s  ", member(o, "comm"),
	       member(o, "pid"), member(o, "uid"), member(o, "since"));
	print_slots(o);
	putchar('\n');
	if (!json_object_get_boolean(answers))
		puts("  does not answer (stopped or busy)");
	else if (report)
		print_report(report);
}

void ur_show_text(struct json_object *doc)
{
	struct json_object *daemon = NULL, *list = NULL, *slots = NULL;
	struct json_object *ports = NULL;
	size_t n;

	json_object_object_get_ex(doc, "daemon", &daemon);
	json_object_object_get_ex(doc, "processes", &list);
	if (!daemon) {
		puts("no urnicd runs: no process of this network namespace "
		     "uses urnic");
		return;
	}
	n = json_object_array_length(list);
	json_object_object_get_ex(daemon, "slots", &slots);
	printf("urnicd  pid %s  uid %s  since %s  %zu processes, %zu slots\n",
	       member(daemon, "pid"), member(daemon, "uid"),
	       member(daemon, "since"), n, json_object_array_length(slots));
	if (json_object_object_get_ex(daemon, "ports", &ports))
		print_list("port", ports, STEP);
	for (size_t i = 0; i < n; i++)
		print_process(json_object_array_get_idx(list, i));
}
