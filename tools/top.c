/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic top: rates, latencies and paths of the processes that use the adapter. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "json_put.h"
#include "show.h"
#include "top_rows.h"
#include "urnic.h"

#define SCHEMA	 1
#define NS_PER_S 1e9
/* Processes stop counting 5 s after a report (engine/report.c). */
#define ASK_S	 4.0

static const char usage[] =
	"usage: urnic top [--json] [-n COUNT] [-d SECONDS] [-p PID] [-v VIEW] [-s KEY]\n"
	"Shows each second what your processes do in this network namespace: messages\n"
	"and bytes each second, time from post to completion, requests in the queues,\n"
	"retransmissions, RNR, the path, and why it is not a faster one.\n"
	"  -n COUNT     end after so many times\n"
	"  -d SECONDS   between two times (1)\n"
	"  -p PID       of this process alone\n"
	"  -v VIEW      processes, qps or peers\n"
	"  -s KEY       sort by messages, bytes, latency, retransmitted or pid\n"
	"  --json, --help\n"
	"Keys: v view, s sort, up and down or k and j to choose a process, Enter its\n"
	"queue pairs, Escape back, q end.\n";

static const char *const views[] = { "processes", "qps", "peers" };
static const char *const keys[] = { "messages", "bytes", "latency",
				    "retransmitted", "pid" };

struct top {
	bool json;
	bool live; /* a terminal: with keys */
	unsigned long count;
	double seconds;
	uint64_t pid;	/* 0: all */
	uint64_t drill; /* chosen with Enter; 0: none */
	enum ur_top_view view;
	enum ur_top_key key;
	size_t chosen;
	struct ur_top_rows qps; /* of the last document */
	uint64_t at_ns;
	bool waits; /* there is no urnicd */
	bool end;
};

static volatile sig_atomic_t interrupted;
static struct termios before;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

/* --- what is printed --- */

static const char *scaled(double v, char text[16])
{
	static const char units[] = " kMGT";
	size_t i = 0;

	for (; v >= 9999.5 && units[i + 1]; i++)
		v /= 1000;
	snprintf(text, 16, v < 99.95 && i ? "%.1f%c" : "%.0f%c", v,
		 i ? units[i] : 0);
	return text;
}

static const char *micros(uint64_t ns, bool any, char text[16])
{
	if (any)
		snprintf(text, 16, "%.1f", (double)ns / 1000);
	else
		snprintf(text, 16, "-");
	return text;
}

static void print_row(const struct top *t, const struct ur_top_row *r,
		      bool chosen)
{
	char a[16], b[16], c[16], d[16], e[16], f[16], g[16], h[16], i[16];
	char who[32];
	bool timed = r->samples > 0;

	if (t->view == UR_TOP_QPS)
		snprintf(who, sizeof(who), "0x%06lx %s %s",
			 (unsigned long)r->qpn, r->type, r->state);
	else
		snprintf(who, sizeof(who), "%u QP", r->qps);
	printf("%s%7lu %-15.15s %-17.17s %7s %7s %7s %7s %8s %8s %8s %5lu %5lu "
	       "%6s %6s  %s%s%s%s%s%s\n",
	       chosen ? "\033[7m" : "", (unsigned long)r->pid, r->comm, who,
	       scaled(r->tx_messages, a), scaled(r->rx_messages, b),
	       scaled(r->tx_bytes, c), scaled(r->rx_bytes, d),
	       micros(r->p50_ns, timed, e), micros(r->p99_ns, timed, f),
	       micros(r->max_ns, timed, g), (unsigned long)r->sq,
	       (unsigned long)r->rq, scaled(r->retransmitted, h),
	       scaled(r->rnr, i), r->path, *r->why ? ": " : "", r->why,
	       t->view == UR_TOP_PROCESSES ? "" : "  ",
	       t->view == UR_TOP_PROCESSES ? "" : r->peer,
	       chosen ? "\033[0m" : "");
}

static size_t screen_rows(void)
{
	struct winsize w;

	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_row > 4
		       ? w.ws_row - 4u
		       : 20;
}

static const char waiting[] =
	"no urnicd runs in this network namespace: waiting "
	"for a program that uses urnic";

static void print_text(struct top *t, const struct ur_top_rows *rows)
{
	size_t n = rows->n, first = 0;

	if (t->live) {
		size_t room = screen_rows();

		/* No line wraps. */
		fputs("\033[H\033[2J\033[?7l", stdout);
		printf("urnic top: %s by %s; every %g s; v view, s sort, Enter "
		       "queue pairs, Esc back, q end\n",
		       views[t->view], keys[t->key], t->seconds);
		if (n && t->chosen >= n)
			t->chosen = n - 1;
		first = t->chosen >= room ? t->chosen - room + 1 : 0;
		n = n > first + room ? first + room : n;
	}
	printf("%7s %-15s %-17s %7s %7s %7s %7s %8s %8s %8s %5s %5s %6s %6s  %s\n",
	       "PID", "COMMAND", "QP", "TX/s", "RX/s", "TXB/s", "RXB/s",
	       "p50 us", "p99 us", "max us", "SQ", "RQ", "RETR/s", "RNR/s",
	       "PATH");
	for (size_t i = first; i < n; i++)
		print_row(t, &rows->row[i], t->live && i == t->chosen);
	if (t->live && t->waits)
		puts(waiting);
}

static void add_rate(struct json_object *o, const char *name, double v)
{
	json_object_object_add(o, name, json_object_new_double(v));
}

static struct json_object *row_json(const struct ur_top_row *r)
{
	struct json_object *o = json_object_new_object();

	ur_put_int(o, "pid", r->pid);
	ur_put_text(o, "comm", r->comm);
	ur_put_text(o, "device", r->device);
	ur_put_int(o, "qps", r->qps);
	if (r->qpn) {
		ur_put_int(o, "qpn", r->qpn);
		ur_put_text(o, "type", r->type);
		ur_put_text(o, "state", r->state);
	}
	ur_put_text(o, "peer", r->peer);
	add_rate(o, "tx_messages", r->tx_messages);
	add_rate(o, "rx_messages", r->rx_messages);
	add_rate(o, "tx_bytes", r->tx_bytes);
	add_rate(o, "rx_bytes", r->rx_bytes);
	ur_put_int(o, "samples", r->samples);
	ur_put_int(o, "p50_ns", r->p50_ns);
	ur_put_int(o, "p90_ns", r->p90_ns);
	ur_put_int(o, "p99_ns", r->p99_ns);
	ur_put_int(o, "max_ns", r->max_ns);
	ur_put_int(o, "sq", r->sq);
	ur_put_int(o, "rq", r->rq);
	add_rate(o, "retransmitted", r->retransmitted);
	add_rate(o, "rnr", r->rnr);
	ur_put_text(o, "path", r->path);
	ur_put_text(o, "why", r->why);
	return o;
}

/* One object in a line for each time. */
static void print_json(const struct top *t, const struct ur_top_rows *rows,
		       double seconds)
{
	struct json_object *o = json_object_new_object();
	struct json_object *list = json_object_new_array();

	ur_put_int(o, "schema", SCHEMA);
	add_rate(o, "seconds", seconds);
	ur_put_text(o, "view", views[t->view]);
	for (size_t i = 0; i < rows->n; i++)
		json_object_array_add(list, row_json(&rows->row[i]));
	json_object_object_add(o, "rows", list);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

/* --- one time after the other --- */

/* The first program starts it, and it ends after the last one. */
static void note_urnicd(struct top *t, struct json_object *doc)
{
	struct json_object *daemon = NULL;
	bool was = t->waits;

	t->waits = !t->pid &&
		   json_object_object_get_ex(doc, "daemon", &daemon) && !daemon;
	if (t->waits && !was && !t->live)
		ur_tool_error("%s", waiting);
}

/* The rows of now, and the seconds since those of before. */
static int ask(struct top *t, double *seconds)
{
	struct ur_top_rows rows = { 0 };
	struct json_object *doc;
	uint64_t now;
	int err = ur_show_collect(&doc);

	if (err)
		return err;
	now = ur_clock_ns();
	*seconds = (double)(now - t->at_ns) / NS_PER_S;
	note_urnicd(t, doc);
	err = t->waits ? 0 : ur_show_check(doc, t->pid);
	if (!err)
		err = ur_top_read(&rows, doc, t->pid, &t->qps, *seconds);
	json_object_put(doc);
	ur_top_free(&t->qps);
	t->qps = rows;
	t->at_ns = now;
	return err;
}

static int print(struct top *t, double seconds)
{
	struct ur_top_rows rows = { 0 };
	int err = ur_top_view(&rows, &t->qps, t->drill, t->view, t->key);

	if (!err && t->json)
		print_json(t, &rows, seconds);
	else if (!err)
		print_text(t, &rows);
	ur_top_free(&rows);
	return fflush(stdout) ? -EIO : err;
}

static void drill(struct top *t)
{
	struct ur_top_rows rows = { 0 };

	if (t->view != UR_TOP_QPS &&
	    !ur_top_view(&rows, &t->qps, 0, t->view, t->key) &&
	    t->chosen < rows.n) {
		t->drill = rows.row[t->chosen].pid;
		t->view = UR_TOP_QPS;
		t->chosen = 0;
	}
	ur_top_free(&rows);
}

static void on_key(struct top *t, const char *key, bool arrow)
{
	if (arrow ? key[2] == 'B' : *key == 'j') {
		t->chosen++;
	} else if (arrow ? key[2] == 'A' : *key == 'k') {
		t->chosen -= t->chosen > 0;
	} else if (arrow) {
		return;
	} else if (*key == 'q') {
		t->end = true;
	} else if (*key == 'v') {
		t->view = (t->view + 1) % UR_TOP_VIEWS;
	} else if (*key == 's') {
		t->key = (t->key + 1) % UR_TOP_KEYS;
	} else if (*key == '\n' || *key == '\r') {
		drill(t);
	} else if (*key == '\033') {
		t->drill = 0;
		t->view = UR_TOP_PROCESSES;
	}
}

/* Several may have come at once. The terminal may be gone. */
static void read_keys(struct top *t)
{
	char key[64];
	ssize_t n = read(STDIN_FILENO, key, sizeof(key));

	t->end = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
	for (ssize_t i = 0; i < n;) {
		bool arrow = n - i > 2 && !memcmp(key + i, "\033[", 2);

		on_key(t, key + i, arrow);
		i += arrow ? 3 : 1;
	}
}

/* Until the time is over; keys are obeyed at once. */
static int rest(struct top *t, double seconds)
{
	uint64_t until = ur_clock_ns() + (uint64_t)(seconds * NS_PER_S);
	struct pollfd p = { .fd = t->live ? STDIN_FILENO : -1,
			    .events = POLLIN };
	int err = 0;

	for (uint64_t now; !err && !t->end && !interrupted &&
			   (now = ur_clock_ns()) < until;) {
		if (poll(&p, 1, (int)((until - now) / 1000000) + 1) <= 0)
			continue;
		read_keys(t);
		err = print(t, seconds);
	}
	return err;
}

/* Longer times ask in between, or the processes would stop counting. */
static int next(struct top *t)
{
	double left = t->seconds, taken;
	struct json_object *doc;
	int err = 0;

	while (!err && left > ASK_S && !t->end && !interrupted) {
		left -= ASK_S;
		err = rest(t, ASK_S);
		if (!err && !ur_show_collect(&doc))
			json_object_put(doc);
	}
	if (!err)
		err = rest(t, left);
	if (err || t->end || interrupted)
		return err;
	err = ask(t, &taken);
	return err ? err : print(t, taken);
}

static int run(struct top *t)
{
	double seconds;
	int err = ask(t, &seconds);

	for (unsigned long i = 0;
	     !err && !t->end && !interrupted && (!t->count || i < t->count);
	     i++)
		err = next(t);
	ur_top_free(&t->qps);
	return err;
}

static void raw_terminal(bool on)
{
	struct termios raw;

	if (!on) {
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
		fputs("\033[?7h\n", stdout);
		return;
	}
	tcgetattr(STDIN_FILENO, &before);
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

/* The index of the name; -1: there is none. */
static int index_of(const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return i;
	ur_tool_error("there is no \"%s\" (urnic top --help)", name);
	return -1;
}

static bool number(const char *text, double least, double most, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= least && v <= most)) {
		ur_tool_error("\"%s\" is no number from %g to %g", text, least,
			      most);
		return false;
	}
	*out = v;
	return true;
}

static bool parse(struct top *t, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	double v = 0;
	int c, i = 0;

	while ((c = ur_tool_option(argc, argv, "jhn:d:p:v:s:", options,
				   usage)) != -1) {
		bool ok = true;

		if (c == 'n' && (ok = number(optarg, 1, 1e9, &v)))
			t->count = (unsigned long)v;
		else if (c == 'd')
			ok = number(optarg, 0.1, 3600, &t->seconds);
		else if (c == 'p' && (ok = number(optarg, 1, 1 << 30, &v)))
			t->pid = (uint64_t)v;
		else if (c == 'v' && (ok = (i = index_of(optarg, views,
							 UR_TOP_VIEWS)) >= 0))
			t->view = (enum ur_top_view)i;
		else if (c == 's' &&
			 (ok = (i = index_of(optarg, keys, UR_TOP_KEYS)) >= 0))
			t->key = (enum ur_top_key)i;
		else if (c == 'j')
			t->json = true;
		if (!ok)
			return false;
	}
	if (optind == argc)
		return true;
	ur_tool_error("top takes no argument \"%s\"", argv[optind]);
	return false;
}

int ur_cmd_top(int argc, char **argv)
{
	struct top t = { .seconds = 1 };
	struct sigaction sa = { .sa_handler = on_signal };
	int err;

	if (!parse(&t, argc, argv))
		return 2;
	t.live = !t.json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	sigaction(SIGQUIT, &sa, NULL);
	if (t.live)
		raw_terminal(true);
	err = run(&t);
	if (t.live)
		raw_terminal(false);
	return err ? 1 : 0;
}
