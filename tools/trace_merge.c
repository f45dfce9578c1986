/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic trace --merge: files of --perfetto into one.
 *
 * Files of one host share CLOCK_MONOTONIC.  CLOCK_REALTIME of two hosts differs, and
 * messages say by how much: no message is received before it was posted, so where
 * messages went both ways the difference lies in the middle of what is possible.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"
#include "urnic.h"

struct file {
	struct json_object *root;
	struct json_object *events;
	const char *host;
	const char *boot;
	double shift_us; /* to the first file's time */
	int64_t pid_shift;
	int index;
};

/* An end of a message. */
struct end {
	const char *id;
	double ts;
	bool received;
};

static const char *text_of(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v)
						     : "";
}

static int load(struct file *f, const char *path)
{
	struct json_object *other;

	f->root = json_object_from_file(path);
	if (!f->root ||
	    !json_object_object_get_ex(f->root, "traceEvents", &f->events) ||
	    !json_object_is_type(f->events, json_type_array) ||
	    !json_object_object_get_ex(f->root, "otherData", &other) ||
	    !*text_of(other, "realtime_ns")) {
		ur_tool_error("%s is no file of urnic trace --perfetto", path);
		return -EINVAL;
	}
	f->host = text_of(other, "host");
	f->boot = text_of(other, "boot");
	return 0;
}

static uint64_t time_of(const struct file *f, const char *clock)
{
	struct json_object *other;

	json_object_object_get_ex(f->root, "otherData", &other);
	return strtoull(text_of(other, clock), NULL, 10);
}

static double behind(const struct file *f, const struct file *first,
		     const char *clock)
{
	return (double)(int64_t)(time_of(f, clock) - time_of(first, clock)) /
	       1e3;
}

/* --- clocks --- */

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct end *)a)->id, ((const struct end *)b)->id);
}

/* The file's ends of messages, sorted. */
static struct end *ends_of(const struct file *f, size_t *n)
{
	size_t all = json_object_array_length(f->events);
	struct end *e = calloc(all + 1, sizeof(*e));

	*n = 0;
	for (size_t i = 0; e && i < all; i++) {
		struct json_object *o = json_object_array_get_idx(f->events, i);
		const char *ph = text_of(o, "ph");
		struct json_object *ts;

		if ((*ph != 's' && *ph != 'f') ||
		    !json_object_object_get_ex(o, "ts", &ts))
			continue;
		e[(*n)++] =
			(struct end){ text_of(o, "id"),
				      json_object_get_double(ts), *ph == 'f' };
	}
	if (e)
		qsort(e, *n, sizeof(*e), by_id);
	return e;
}

/* What b's time is behind a's, by messages both ways; shift: the guess. */
static double compare(const struct file *a, const struct file *b, double shift)
{
	double to_b = 1e300, to_a = 1e300;
	size_t na, nb;
	struct end *ea = ends_of(a, &na), *eb = ends_of(b, &nb);

	for (size_t i = 0; ea && eb && i < na; i++) {
		const struct end *e =
			bsearch(&ea[i], eb, nb, sizeof(*eb), by_id);
		double d;

		if (!e || e->received == ea[i].received)
			continue;
		d = e->ts - ea[i].ts;
		if (e->received && d < to_b)
			to_b = d;
		if (!e->received && -d < to_a)
			to_a = -d;
	}
	free(ea);
	free(eb);
	/* a = b + s: to_b = delay - s, to_a = delay + s. */
	if (to_a < 1e299 && to_b < 1e299)
		return (to_a - to_b) / 2;
	return shift;
}

static void align(const struct file *first, struct file *f)
{
	double guess;

	if (!strcmp(f->boot, first->boot)) {
		f->shift_us = behind(f, first, "monotonic_ns");
		return;
	}
	/* Numbers of processes of two hosts may be the same. */
	f->pid_shift = (int64_t)f->index * 10000000;
	guess = behind(f, first, "realtime_ns");
	f->shift_us = compare(first, f, guess);
	fprintf(stderr, "urnic: the clock of %s is corrected by %.3f us%s\n",
		f->host, f->shift_us - guess,
		f->shift_us == guess ? " (no messages both ways)" : "");
}

/* --- writing --- */

static void put_event(struct json_object *o, const struct file *f, FILE *out)
{
	struct json_object *v;
	char text[32];

	if (json_object_object_get_ex(o, "ts", &v)) {
		snprintf(text, sizeof(text), "%.3f",
			 json_object_get_double(v) + f->shift_us);
		json_object_object_add(
			o, "ts",
			json_object_new_double_s(
				json_object_get_double(v) + f->shift_us, text));
	}
	if (f->pid_shift && json_object_object_get_ex(o, "pid", &v))
		json_object_object_add(
			o, "pid",
			json_object_new_int64(json_object_get_int64(v) +
					      f->pid_shift));
	if (*text_of(o, "cat") == 'w' &&
	    json_object_object_get_ex(o, "id", &v)) {
		snprintf(text, sizeof(text), "%s.%d", json_object_get_string(v),
			 f->index);
		json_object_object_add(o, "id", json_object_new_string(text));
	}
	fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), out);
}

static void put_all(struct file *f, int n, FILE *out)
{
	const char *comma = "";

	fprintf(out,
		"{\"otherData\":{\"urnic_trace\":%d,\"realtime_ns\":\"%llu\","
		"\"monotonic_ns\":\"%llu\",\"host\":",
		UR_TRACE_VERSION, (unsigned long long)time_of(f, "realtime_ns"),
		(unsigned long long)time_of(f, "monotonic_ns"));
	ur_trace_quote(out, f->host);
	fputs(",\"boot\":", out);
	ur_trace_quote(out, f->boot);
	fputs("},\n\"displayTimeUnit\":\"ns\",\n\"traceEvents\":[", out);
	for (int k = 0; k < n; k++)
		for (size_t i = 0; i < json_object_array_length(f[k].events);
		     i++) {
			fprintf(out, "%s\n", comma);
			put_event(json_object_array_get_idx(f[k].events, i),
				  &f[k], out);
			comma = ",";
		}
	fputs("\n]}\n", out);
}

int ur_trace_merge(const char *path, int n, char **files)
{
	struct file *f = calloc((size_t)n, sizeof(*f));
	FILE *out = NULL;
	int i, status = 1;

	for (i = 0; f && i < n && !load(&f[i], files[i]); i++) {
		f[i].index = i;
		align(&f[0], &f[i]);
	}
	if (f && i == n) {
		out = path ? fopen(path, "we") : stdout;
		if (!out)
			ur_tool_error("%s: %s", path, strerror(errno));
	}
	if (out) {
		put_all(f, n, out);
		status = (ferror(out) | fflush(out)) != 0;
		if (path && fclose(out))
			status = 1;
	}
	for (i = 0; f && i < n; i++)
		json_object_put(f[i].root);
	free(f);
	return status;
}
