/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic metrics: OpenMetrics 1.0 text. A counter's family is "urnic_" and the name
 * in the report (roce/counters.h, iwarp/counters.h, raw/counters.h), summed over the
 * lanes of a process and device. Those of a process that has ended are gone, as with
 * any exporter of processes; rates are what to ask for.
 */
#include "metrics.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_put.h"
#include "show.h"
#include "urnic.h"

static const char usage[] =
	"usage: urnic metrics [-w FILE | --listen SOCKET | --listen 127.0.0.1:PORT]\n"
	"Prints the counters of your processes in this network namespace as OpenMetrics\n"
	"text, for Prometheus and Grafana.\n"
	"  -w FILE       write it to the file instead, at once (for a textfile\n"
	"                collector)\n"
	"  --listen ...  answer GET /metrics on a Unix socket, or a port of the\n"
	"                loopback interface, until a signal\n"
	"  --json        the same families and samples as JSON\n"
	"  --help\n";

#define SCHEMA 1

/* --- gauges: of a process and device, or a lane --- */

struct sample {
	char *labels;
	double value;
};

struct family {
	char name[80];
	const char *type;
	const char *unit; /* its suffix; or NULL */
	struct sample *sample;
	size_t n;
};

struct families {
	struct family *f;
	size_t n;
	bool failed; /* no memory */
};

static struct family *family_of(struct families *all, const char *name,
				const char *type, const char *unit)
{
	struct family *more;

	for (size_t i = 0; i < all->n; i++)
		if (!strcmp(all->f[i].name + strlen("urnic_"), name))
			return &all->f[i];
	more = realloc(all->f, (all->n + 1) * sizeof(*more));
	if (!more) {
		all->failed = true;
		return NULL;
	}
	all->f = more;
	more = &more[all->n++];
	*more = (struct family){ .type = type, .unit = unit };
	snprintf(more->name, sizeof(more->name), "urnic_%s", name);
	return more;
}

/* Samples with the same labels add up. */
static void put(struct families *all, const char *name, const char *type,
		const char *unit, const char *labels, double value)
{
	struct family *f = family_of(all, name, type, unit);
	struct sample *more;

	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		if (!strcmp(f->sample[i].labels, labels)) {
			f->sample[i].value += value;
			return;
		}
	}
	more = realloc(f->sample, (f->n + 1) * sizeof(*more));
	if (!more) {
		all->failed = true;
		return;
	}
	f->sample = more;
	more[f->n] = (struct sample){ strdup(labels), value };
	all->failed |= !more[f->n].labels;
	f->n += more[f->n].labels != NULL;
}

static void free_families(struct families *all)
{
	for (size_t i = 0; i < all->n; i++) {
		for (size_t k = 0; k < all->f[i].n; k++)
			free(all->f[i].sample[k].labels);
		free(all->f[i].sample);
	}
	free(all->f);
}

/* --- from the document --- */

#define LABELS 512

/* A label's value: the quote, the backslash and the line feed are escaped, and
 * what is not ASCII is replaced. */
static void escape(const char *from, char *to, size_t size)
{
	size_t n = 0;

	for (; from && *from && n + 3 < size; from++) {
		if (*from == '"' || *from == '\\')
			to[n++] = '\\';
		to[n] = *from;
		if (*from < 0x20 || *from > 0x7e)
			to[n] = '?';
		n++;
	}
	to[n] = 0;
}

static void put_counters(struct families *all, struct json_object *lane,
			 const char *labels)
{
	struct json_object *counters = NULL;

	json_object_object_get_ex(lane, "counters", &counters);
	if (!json_object_is_type(counters, json_type_object))
		return;
	json_object_object_foreach(counters, name, v)
	{
		if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") ==
			    strlen(name) &&
		    strlen(name) < 60)
			put(all, name, "counter", NULL, labels,
			    (double)json_object_get_uint64(v));
	}
}

static void put_queues(struct families *all, struct json_object *lane,
		       const char *labels)
{
	struct json_object *qps = ur_show_list(lane, "qps");
	size_t n = qps ? json_object_array_length(qps) : 0;
	char with[LABELS + 64], path[48];

	for (size_t i = 0; i < n; i++) {
		struct json_object *qp = json_object_array_get_idx(qps, i);

		escape(ur_show_text_of(qp, "path"), path, sizeof(path));
		snprintf(with, sizeof(with), "%s,path=\"%s\"", labels, path);
		put(all, "queue_pairs", "gauge", NULL, with, 1);
		put(all, "send_requests_outstanding", "gauge", NULL, labels,
		    (double)ur_show_int(qp, "sq_outstanding"));
		put(all, "receives_posted", "gauge", NULL, labels,
		    (double)ur_show_int(qp, "rq_posted"));
	}
}

/* Of the requests that were timed since the last report; the lane is a label,
 * since quantiles do not add up. */
static void put_latency(struct families *all, struct json_object *lane,
			const char *labels)
{
	static const struct {
		const char *name;
		const char *quantile;
	} q[] = { { "p50_ns", "0.5" },
		  { "p90_ns", "0.9" },
		  { "p99_ns", "0.99" } };
	struct json_object *latency = NULL;
	char with[LABELS + 64];

	json_object_object_get_ex(lane, "latency", &latency);
	if (!ur_show_int(latency, "samples"))
		return;
	for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++) {
		snprintf(with, sizeof(with), "%s,lane=\"%lu\",quantile=\"%s\"",
			 labels, (unsigned long)ur_show_int(lane, "id"),
			 q[i].quantile);
		put(all, "request_latency_seconds", "summary", "seconds", with,
		    (double)ur_show_int(latency, q[i].name) / 1e9);
	}
}

static void put_devices(struct families *all, struct json_object *report,
			const char *process)
{
	struct json_object *list = ur_show_list(report, "devices");
	size_t n = list ? json_object_array_length(list) : 0;
	char labels[LABELS], device[64];

	for (size_t i = 0; i < n; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		struct json_object *cqs = ur_show_list(o, "cqs");

		escape(ur_show_text_of(o, "device"), device, sizeof(device));
		snprintf(labels, sizeof(labels), "%s,device=\"%s\"", process,
			 device);
		put(all, "memory_regions", "gauge", NULL, labels,
		    (double)ur_show_int(o, "mr_count"));
		put(all, "registered_bytes", "gauge", "bytes", labels,
		    (double)ur_show_int(o, "mr_bytes"));
		put(all, "completion_queues", "gauge", NULL, labels,
		    cqs ? (double)json_object_array_length(cqs) : 0);
	}
}

static void put_process(struct families *all, struct json_object *process)
{
	struct json_object *report = NULL, *lanes;
	char labels[LABELS], who[128], comm[40], device[64];

	if (!json_object_object_get_ex(process, "report", &report))
		return;
	escape(ur_show_text_of(process, "comm"), comm, sizeof(comm));
	snprintf(who, sizeof(who), "pid=\"%lu\",comm=\"%s\"",
		 (unsigned long)ur_show_int(process, "pid"), comm);
	lanes = ur_show_list(report, "lanes");
	for (size_t i = 0; lanes && i < json_object_array_length(lanes); i++) {
		struct json_object *lane = json_object_array_get_idx(lanes, i);

		escape(ur_show_text_of(lane, "device"), device, sizeof(device));
		snprintf(labels, sizeof(labels), "%s,device=\"%s\"", who,
			 device);
		put_counters(all, lane, labels);
		put_queues(all, lane, labels);
		put_latency(all, lane, labels);
	}
	put_devices(all, report, who);
}

static int collect(struct families *all)
{
	struct json_object *doc, *list;
	int err = ur_show_collect(&doc);
	size_t n = 0;

	if (err)
		return err;
	list = ur_show_list(doc, "processes");
	put(all, "processes", "gauge", NULL, "", 0);
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		n += json_object_object_get_ex(o, "report", NULL);
		put_process(all, o);
	}
	put(all, "processes", "gauge", NULL, "", (double)n);
	json_object_put(doc);
	return all->failed ? -ENOMEM : 0;
}

/* --- output --- */

static void print_text(FILE *out, const struct families *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct family *f = &all->f[i];
		bool counts = !strcmp(f->type, "counter");

		fprintf(out, "# TYPE %s %s\n", f->name, f->type);
		if (f->unit)
			fprintf(out, "# UNIT %s %s\n", f->name, f->unit);
		for (size_t k = 0; k < f->n; k++) {
			const struct sample *s = &f->sample[k];

			fprintf(out,
				*s->labels ? "%s%s{%s} %.17g\n"
					   : "%s%s%s %.17g\n",
				f->name, counts ? "_total" : "", s->labels,
				s->value);
		}
	}
	fputs("# EOF\n", out);
}

static void print_json(const struct families *all)
{
	struct json_object *doc = json_object_new_object();
	struct json_object *list = json_object_new_array();

	ur_put_int(doc, "schema", SCHEMA);
	for (size_t i = 0; i < all->n; i++) {
		const struct family *f = &all->f[i];

		for (size_t k = 0; k < f->n; k++) {
			struct json_object *o = json_object_new_object();

			ur_put_text(o, "name", f->name);
			ur_put_text(o, "type", f->type);
			ur_put_text(o, "labels", f->sample[k].labels);
			json_object_object_add(
				o, "value",
				json_object_new_double(f->sample[k].value));
			json_object_array_add(list, o);
		}
	}
	json_object_object_add(doc, "samples", list);
	ur_print_json(doc);
	json_object_put(doc);
}

char *ur_metrics_text(size_t *len)
{
	struct families all = { 0 };
	char *text = NULL;
	FILE *out;

	if (!collect(&all)) {
		out = open_memstream(&text, len);
		if (out) {
			print_text(out, &all);
			fclose(out);
		}
	}
	free_families(&all);
	return text;
}

/* A reader sees the old file or the new one. */
static int write_file(const char *path, const char *text, size_t len)
{
	char tmp[4096];
	FILE *out;
	int err = 0;

	snprintf(tmp, sizeof(tmp), "%s.%d", path, (int)getpid());
	out = fopen(tmp, "wxe");
	if (!out || fwrite(text, len, 1, out) != 1)
		err = -errno;
	if (out && fclose(out) && !err)
		err = -errno;
	if (!err && rename(tmp, path))
		err = -errno;
	if (err) {
		ur_tool_error("%s: %s", path, strerror(-err));
		if (out)
			unlink(tmp);
	}
	return err;
}

static int print_once(const char *file, bool json)
{
	struct families all = { 0 };
	size_t len = 0;
	char *text;
	int err;

	if (json) {
		err = collect(&all);
		if (!err)
			print_json(&all);
		free_families(&all);
		return err ? 1 : 0;
	}
	text = ur_metrics_text(&len);
	err = !text;
	if (text && file)
		err = write_file(file, text, len);
	else if (text)
		err = fwrite(text, len, 1, stdout) != 1 || fflush(stdout);
	free(text);
	return err ? 1 : 0;
}

int ur_cmd_metrics(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "listen", required_argument, NULL, 'l' },
		{ "write", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *file = NULL, *where = NULL;
	bool json = false;
	int c;

	while ((c = ur_tool_option(argc, argv, "jhw:", options, usage)) != -1) {
		if (c == 'l')
			where = optarg;
		else if (c == 'w')
			file = optarg;
		else
			json = true;
	}
	if (optind != argc || (file != NULL) + (where != NULL) + json > 1) {
		fputs(usage, stderr);
		return 2;
	}
	return where ? ur_metrics_listen(where) : print_once(file, json);
}
