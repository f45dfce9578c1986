/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic fault: faults in running processes.  The scenario goes through urnicd to each
 * process (docs/wire/daemon.md, "Orders"), which says when it is in force.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "base/rng.h"
#include "client/ipc_io.h"
#include "fault/spec.h"
#include "json_put.h"
#include "show.h"
#include "urnic.h"

#define SCHEMA 1

static const char usage[] =
	"usage: urnic fault [--json] [PID]\n"
	"       urnic fault PID SPEC|@FILE\n"
	"       urnic fault [PID] --device NAME|--peer ADDR SPEC|@FILE\n"
	"       urnic fault [PID] --clear\n"
	"Injects faults into running processes of yours (urnic-fault(7)), instead of\n"
	"those that are in force there, or shows these and what they have done.\n"
	"  --device NAME  on this device only; without PID in all your processes\n"
	"  --peer ADDR    of packets to and from this address only; the same\n"
	"  --clear        no faults any more; without PID in all your processes\n"
	"  --json         what is in force, as JSON\n"
	"  --help\n";

struct fault {
	uint64_t pid; /* 0: all of this user's */
	const char *device;
	const char *peer;
	const char *spec;
	bool clear;
	bool json;
	int conn;
	size_t len; /* of the text, with its zero */
	char text[UR_FAULT_ORDER];
	struct ur_fault_scenario scenario;
};

/* --- the text that is sent --- */

static bool put(struct fault *f, const char *text, size_t len)
{
	if (len >= sizeof(f->text) - f->len) {
		ur_tool_error("the faults are too long");
		return false;
	}
	memcpy(f->text + f->len, text, len);
	f->len += len;
	return true;
}

static bool put_text(struct fault *f, const char *text)
{
	return put(f, text, strlen(text));
}

/* A fault, restricted as the options say. */
static bool put_rule(struct fault *f, const struct ur_fault_spec *s, uint32_t i)
{
	const struct ur_fault_rule *r = &s->rule[i];

	if (!put_text(f, i ? "," : "") || !put(f, s->text + r->at, r->len))
		return false;
	return (!f->device ||
		(put_text(f, "/device=") && put_text(f, f->device))) &&
	       (!f->peer || (put_text(f, "/peer=") && put_text(f, f->peer)));
}

/* One line of the scenario; the same seed gives the same faults in a process. */
static bool put_step(struct fault *f, const struct ur_fault_step *x)
{
	char text[48];
	uint32_t drawn;
	uint64_t seed = x->spec.seed;

	if (!x->spec.has_seed) {
		ur_rng_secret(&drawn, sizeof(drawn));
		seed = drawn;
	}
	snprintf(text, sizeof(text), "%llu%s ", (unsigned long long)x->at_ns,
		 x->at_ns ? "ns" : "");
	if (!put_text(f, text))
		return false;
	for (uint32_t i = 0; i < x->spec.n; i++)
		if (!put_rule(f, &x->spec, i))
			return false;
	snprintf(text, sizeof(text), ",seed=%llu\n", (unsigned long long)seed);
	return put_text(f, x->spec.n ? text : "none\n");
}

static bool make_text(struct fault *f)
{
	char why[UR_FAULT_WHY_LEN];

	if (!ur_fault_parse_arg(&f->scenario, f->clear ? "none" : f->spec,
				why)) {
		ur_tool_error("%s", why);
		return false;
	}
	f->len = 0;
	for (uint32_t i = 0; i < f->scenario.n; i++)
		if (!put_step(f, &f->scenario.step[i]))
			return false;
	if (!put(f, "", 1))
		return false;
	/* What the options name may be wrong, or make it too long. */
	if (ur_fault_parse_lines(&f->scenario, f->text, why))
		return true;
	ur_tool_error("%s", why);
	return false;
}

/* --- processes --- */

/* With the seeds, so that they can be given again. */
static void report_taken(const struct fault *f, const struct ur_ipc_msg *m)
{
	const char *text = f->text;

	/* A single line that begins at once is what the option was. */
	if (f->scenario.n == 1 && !f->scenario.step[0].at_ns)
		text += 2;
	printf("process %u (%s): %s%s", m->pid, m->comm,
	       f->scenario.n > 1 ? "\n" : "", text);
}

/* 0, 1: reported; else -errno, of urnicd. */
static int send_to(const struct fault *f, const struct ur_ipc_msg *m)
{
	int fd, err = ur_ask_order(f->conn, m, f->text, f->len, &fd);

	if (err)
		return err;
	close(fd);
	report_taken(f, m);
	return 0;
}

static bool is_wanted(const struct fault *f, const struct ur_ipc_msg *m)
{
	return f->pid ? m->pid == f->pid
		      : m->uid == geteuid() || geteuid() == 0;
}

/* As send_to(); *n: processes. */
static int send_to_all(const struct fault *f, unsigned int *n)
{
	struct ur_ipc_msg m = { .id = 0 };
	int fds[UR_IPC_MAX_FDS], err, worst = 0;

	for (;;) {
		m.type = UR_IPC_NEXT;
		err = ur_ask(f->conn, &m, fds);
		if (err)
			return err;
		ur_ipc_close_fds(fds, UR_IPC_MAX_FDS);
		if (m.type == UR_IPC_END)
			return worst;
		if (m.type != UR_IPC_PROCESS)
			return -EPROTO;
		if (!is_wanted(f, &m))
			continue;
		++*n;
		err = send_to(f, &m);
		/* urnicd may be gone now, which is a fault, too. */
		if (err < 0 || f->pid)
			return err;
		worst |= err;
	}
}

static int put_in_force(struct fault *f)
{
	unsigned int n = 0;
	int err;

	if (!make_text(f))
		return 2;
	f->conn = ur_ask_open();
	if (f->conn == -ECONNREFUSED)
		ur_tool_error("no urnicd runs in this network namespace: no "
			      "process uses urnic");
	else if (f->conn < 0 && f->conn != -EACCES)
		ur_tool_error("urnicd does not answer: %s", strerror(-f->conn));
	if (f->conn < 0)
		return 1;
	err = send_to_all(f, &n);
	close(f->conn);
	if (err < 0)
		ur_tool_error("urnicd does not answer: %s", strerror(-err));
	else if (!n && f->pid)
		ur_tool_error("no process %lu uses urnic in this network "
			      "namespace",
			      (unsigned long)f->pid);
	else if (!n)
		ur_tool_error("no process of yours uses urnic in this network "
			      "namespace");
	return err || !n;
}

/* --- what is in force --- */

static struct json_object *faults_of(struct json_object *process)
{
	struct json_object *o = NULL;

	if (json_object_object_get_ex(process, "report", &o) &&
	    json_object_object_get_ex(o, "faults", &o))
		return o;
	return NULL;
}

static void print(struct json_object *process, struct json_object *faults)
{
	struct json_object *rules = ur_show_list(faults, "rules");

	printf("%lu %s: %s\n", (unsigned long)ur_show_int(process, "pid"),
	       ur_show_text_of(process, "comm"),
	       ur_show_text_of(faults, "spec"));
	for (size_t i = 0; i < json_object_array_length(rules); i++) {
		struct json_object *r = json_object_array_get_idx(rules, i);

		printf("  %-40s %lu of %lu\n", ur_show_text_of(r, "fault"),
		       (unsigned long)ur_show_int(r, "done"),
		       (unsigned long)ur_show_int(r, "seen"));
	}
}

static struct json_object *as_json(struct json_object *process,
				   struct json_object *faults)
{
	struct json_object *o = json_object_new_object();

	ur_put_int(o, "pid", ur_show_int(process, "pid"));
	ur_put_text(o, "comm", ur_show_text_of(process, "comm"));
	json_object_object_add(o, "faults", json_object_get(faults));
	return o;
}

static void show(const struct fault *f, struct json_object *doc)
{
	struct json_object *all = ur_show_list(doc, "processes"), *list, *root;

	list = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(all); i++) {
		struct json_object *p = json_object_array_get_idx(all, i);
		struct json_object *faults = faults_of(p);

		if ((f->pid && ur_show_int(p, "pid") != f->pid) || !faults)
			continue;
		if (f->json)
			json_object_array_add(list, as_json(p, faults));
		else
			print(p, faults);
	}
	root = json_object_new_object();
	ur_put_int(root, "schema", SCHEMA);
	json_object_object_add(root, "processes", list);
	if (f->json)
		ur_print_json(root);
	json_object_put(root);
}

static int show_all(const struct fault *f)
{
	struct json_object *doc;
	int err = ur_show_collect(&doc);

	if (err)
		return 1;
	err = ur_show_check(doc, f->pid);
	if (!err)
		show(f, doc);
	json_object_put(doc);
	return err ? 1 : 0;
}

/* --- options --- */

static bool is_pid(const char *text, uint64_t *pid)
{
	char *end;

	*pid = strtoull(text, &end, 10);
	return *text >= '1' && *text <= '9' && !*end && *pid <= INT32_MAX;
}

static bool arguments(struct fault *f, int n, char **text)
{
	int i = n > 0 && is_pid(text[0], &f->pid);

	if (!i)
		f->pid = 0;
	if (i < n)
		f->spec = text[i++];
	if (i < n) {
		ur_tool_error("fault takes no argument \"%s\"", text[i]);
		return false;
	}
	if (f->clear && (f->spec || f->device || f->peer)) {
		ur_tool_error("--clear ends all faults of a process: it takes "
			      "none, and no --device or --peer");
		return false;
	}
	if (f->json && (f->clear || f->spec)) {
		ur_tool_error("--json shows faults, and takes none");
		return false;
	}
	if ((f->device || f->peer) && !f->spec) {
		ur_tool_error("which faults? (urnic fault --help)");
		return false;
	}
	if (f->spec && !f->pid && !f->device && !f->peer) {
		ur_tool_error("\"%s\": in which process? Give its number, "
			      "--device or --peer",
			      f->spec);
		return false;
	}
	return true;
}

static bool parse(struct fault *f, int argc, char **argv)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "peer", required_argument, NULL, 'p' },
		{ "clear", no_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = ur_tool_option(argc, argv, "jh", options, usage)) != -1) {
		if (c == 'd')
			f->device = optarg;
		else if (c == 'p')
			f->peer = optarg;
		else if (c == 'c')
			f->clear = true;
		else
			f->json = true;
	}
	return arguments(f, argc - optind, argv + optind);
}

int ur_cmd_fault(int argc, char **argv)
{
	struct fault *f = calloc(1, sizeof(*f));
	int status = 1;

	if (f && !parse(f, argc, argv))
		status = 2;
	else if (f)
		status = f->clear || f->spec ? put_in_force(f) : show_all(f);
	free(f);
	return status;
}
