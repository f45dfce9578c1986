/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic explain: why a queue pair or connection failed, or does not go on. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/qp.h"
#include "explain_file.h"
#include "json_put.h"
#include "urnic.h"

#define SCHEMA 1

static const char usage[] =
	"usage: urnic explain [--json] [--events] [-w FILE] [PID | QPN | FILE]\n"
	"       urnic explain --causes\n"
	"Says why completions failed, queue pairs ended, connections were refused,\n"
	"or nothing moves, for your processes in this network namespace, running\n"
	"or ended: of one process, of one queue pair (0x and hexadecimal digits, or\n"
	"a number that is no PID), or of records that -w has saved.\n"
	"  --events     the recorded events, too\n"
	"  --causes     list the causes that it knows\n"
	"  -w FILE      save the records instead\n"
	"  --json, --help\n";

struct ask {
	bool json;
	bool events;
	bool causes;
	const char *save;
	const char *of; /* PID, QPN or file */
	uint32_t pid;	/* 0: all */
	uint32_t qpn;	/* the same */
	struct ur_xp_set set;
	struct json_object *list; /* verdicts */
	uint32_t found;
};

static const char *where_name(enum ur_xp_where w)
{
	static const char *const names[] = {
		[UR_XP_HERE] = "this side",
		[UR_XP_PEER] = "the peer",
		[UR_XP_BOTH] = "both sides together",
		[UR_XP_NETWORK] = "the peer or the network",
	};

	return names[w];
}

static void print_causes(void)
{
	for (size_t i = 0; i < ur_cause_count; i++)
		printf("%-28s %s\n", ur_causes[i].name, ur_causes[i].why);
}

/* --- text --- */

static void line(const char *name, const char *text)
{
	if (*text)
		printf("  %-9s %s\n", name, text);
}

static void print_ago(uint64_t then_ns, uint64_t now_ns)
{
	printf("%.3f s ago",
	       now_ns > then_ns ? (double)(now_ns - then_ns) / 1e9 : 0.0);
}

static void print_events(const struct ask *a, const struct ur_record_event *e,
			 uint32_t n)
{
	char text[512];

	for (uint32_t done = 0, last = 0; done < n; done++) {
		struct ur_record_event x, next = { .number = UINT32_MAX };

		for (uint32_t i = 0; i < n; i++)
			if (ur_record_read(&e[i], &x) && x.number > last &&
			    x.number < next.number)
				next = x;
		if (next.number == UINT32_MAX)
			return;
		last = next.number;
		ur_explain_event(&next, a->set.now_ns, text, sizeof(text));
		printf("    %s\n", text);
	}
}

/* A name that a process has given itself: nothing may move the cursor. */
static void print_name(const char *s)
{
	for (; *s; s++)
		putchar(*s >= 0x20 && *s < 0x7f ? *s : '?');
}

static void print_peer(const struct ur_verdict *v)
{
	if (!v->peer_qpn)
		return;
	if (v->peer_pid)
		printf("  %-9s QP 0x%06x of process %u, looked at as well\n",
		       "peer", v->peer_qpn, v->peer_pid);
	else
		printf("  %-9s QP 0x%06x, not of your processes here: \"urnic "
		       "explain 0x%06x\" there\n",
		       "peer", v->peer_qpn, v->peer_qpn);
}

static void print_verdict(const struct ask *a, const struct ur_xp_process *p,
			  const struct ur_record_ring *ring,
			  const struct ur_verdict *v)
{
	if (v->qpn)
		printf("QP 0x%06x%s%s of process %u (", v->qpn,
		       ring ? ", " : "",
		       ring ? ur_qp_type_name(ring->qp.type) : "", p->pid);
	else
		printf("process %u (", p->pid);
	print_name(p->comm);
	printf(")%s:\n", p->runs ? "" : ", which has ended");
	line("what", v->what);
	if (v->cause) {
		printf("  %-9s ", "when");
		print_ago(v->at_ns, a->set.now_ns);
		putchar('\n');
		printf("  %-9s %s [%s]\n", "cause", v->why, v->cause->name);
		line("where", where_name(v->where));
	}
	line("expected", v->expected);
	line("found", v->found);
	line("before", v->before);
	line("change", v->change);
	print_peer(v);
	if (a->events && ring)
		print_events(a, ring->event, UR_RECORD_EVENTS);
}

/* --- JSON --- */

static void add_text(struct json_object *o, const char *key, const char *s)
{
	if (*s)
		ur_put_text(o, key, s);
}

static struct json_object *events_json(const struct ask *a,
				       const struct ur_record_ring *ring)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < UR_RECORD_EVENTS; i++) {
		struct json_object *o;
		struct ur_record_event e;
		char text[512];

		if (!ur_record_read(&ring->event[i], &e))
			continue;
		ur_explain_event(&e, a->set.now_ns, text, sizeof(text));
		o = json_object_new_object();
		ur_put_int(o, "number", e.number);
		ur_put_int(o, "first_ns", e.first_ns);
		ur_put_int(o, "last_ns", e.last_ns);
		ur_put_int(o, "count", e.count);
		add_text(o, "text", text);
		json_object_array_add(list, o);
	}
	return list;
}

static void add_verdict(const struct ask *a, const struct ur_xp_process *p,
			const struct ur_record_ring *ring,
			const struct ur_verdict *v)
{
	struct json_object *o = json_object_new_object();

	ur_put_int(o, "pid", p->pid);
	add_text(o, "comm", p->comm);
	ur_put_bool(o, "runs", p->runs);
	if (v->qpn)
		ur_put_int(o, "qpn", v->qpn);
	if (ring)
		add_text(o, "type", ur_qp_type_name(ring->qp.type));
	if (v->peer_qpn)
		ur_put_int(o, "peer_qpn", v->peer_qpn);
	if (v->peer_pid)
		ur_put_int(o, "peer_pid", v->peer_pid);
	add_text(o, "what", v->what);
	if (v->cause) {
		add_text(o, "cause", v->cause->name);
		add_text(o, "where", where_name(v->where));
		ur_put_int(o, "at_ns", v->at_ns);
	}
	add_text(o, "why", v->why);
	add_text(o, "expected", v->expected);
	add_text(o, "found", v->found);
	add_text(o, "before", v->before);
	add_text(o, "change", v->change);
	if (a->events && ring)
		json_object_object_add(o, "events", events_json(a, ring));
	json_object_array_add(a->list, o);
}

static void put(struct ask *a, const struct ur_xp_process *p,
		const struct ur_record_ring *ring, const struct ur_verdict *v)
{
	if (a->json)
		add_verdict(a, p, ring, v);
	else
		print_verdict(a, p, ring, v);
	a->found++;
}

/* --- what is asked for --- */

/* Without a QPN or PID only what has a cause, of which an ordinary end is
 * none. */
static bool is_wanted(const struct ask *a, const struct ur_verdict *v)
{
	if (a->qpn || a->pid)
		return true;
	return v->cause && v->cause->type != UR_REC_STATE;
}

static void explain_qps(struct ask *a, uint32_t p)
{
	const struct ur_record_file *f = a->set.process[p].file;
	uint32_t n = f->head.qps;

	for (uint32_t i = 0; i < n && i < UR_RECORD_QPS; i++) {
		const struct ur_record_ring *ring = &f->ring[i];
		struct ur_verdict v;

		if (!ring->qp.serial || (a->qpn && ring->qp.qpn != a->qpn))
			continue;
		(void)ur_explain_qp(&a->set, p, ring, &v);
		if (v.what[0] && is_wanted(a, &v))
			put(a, &a->set.process[p], ring, &v);
	}
}

static void explain_notes(struct ask *a, uint32_t p)
{
	const struct ur_record_file *f = a->set.process[p].file;

	for (uint32_t i = 0; i < UR_RECORD_NOTES; i++) {
		struct ur_verdict v;

		if ((ur_explain_note(&a->set, p, &f->note[i], &v) ||
		     (a->events && v.what[0])) &&
		    (!a->qpn || v.qpn == a->qpn))
			put(a, &a->set.process[p], NULL, &v);
	}
}

static void explain_all(struct ask *a)
{
	for (uint32_t p = 0; p < a->set.n; p++) {
		if (a->pid && a->set.process[p].pid != a->pid)
			continue;
		explain_qps(a, p);
		explain_notes(a, p);
	}
}

static bool has_pid(const struct ur_xp_set *set, uint32_t pid)
{
	for (uint32_t i = 0; i < set->n; i++)
		if (set->process[i].pid == pid)
			return true;
	return false;
}

static int get_records(struct ask *a)
{
	uint64_t n = 0;
	int err;

	if (a->of && !ur_tool_number(a->of, 0, UINT32_MAX, &n))
		return ur_records_load(&a->set, a->of);
	err = ur_records_ask(&a->set);
	if (err || !a->of)
		return err;
	if (strncmp(a->of, "0x", 2) != 0 && has_pid(&a->set, (uint32_t)n))
		a->pid = (uint32_t)n;
	else
		a->qpn = (uint32_t)n;
	return 0;
}

_Static_assert(UR_RECORD_QPS == 2048, "the text below");

static const char *unrecorded(const struct ask *a)
{
	for (uint32_t p = 0; p < a->set.n; p++)
		if (a->set.process[p].file->head.unrecorded &&
		    (!a->pid || a->set.process[p].pid == a->pid))
			return "; of a process with more than 2048, the others "
			       "are not recorded";
	return "";
}

static int report(struct ask *a)
{
	struct json_object *doc = json_object_new_object();

	a->list = json_object_new_array();
	ur_put_int(doc, "schema", SCHEMA);
	json_object_object_add(doc, "verdicts", a->list);
	explain_all(a);
	if (a->json)
		ur_print_json(doc);
	json_object_put(doc);
	if (a->found)
		return 0;
	if (a->qpn) {
		ur_tool_error("%s is neither a process nor a queue pair of "
			      "yours that is recorded%s",
			      a->of, unrecorded(a));
		return 1;
	}
	if (!a->json)
		printf("no failure is recorded (of %u processes%s)\n", a->set.n,
		       unrecorded(a));
	return 0;
}

static bool parse(struct ask *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "events", no_argument, NULL, 'e' },
		{ "causes", no_argument, NULL, 'c' },
		{ "write", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = ur_tool_option(argc, argv, "jecw:h", options, usage)) !=
	       -1) {
		a->json |= c == 'j';
		a->events |= c == 'e';
		a->causes |= c == 'c';
		if (c == 'w')
			a->save = optarg;
	}
	if (optind < argc)
		a->of = argv[optind++];
	if (optind == argc)
		return true;
	ur_tool_error("explain takes one argument");
	return false;
}

int ur_cmd_explain(int argc, char **argv)
{
	struct ask a = { .json = false };
	int status = 1;

	if (!parse(&a, argc, argv))
		return 2;
	if (a.causes) {
		print_causes();
		return 0;
	}
	if (!get_records(&a))
		status = a.save ? ur_records_save(&a.set, a.save) != 0
				: report(&a);
	ur_records_free(&a.set);
	return status;
}
