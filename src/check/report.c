/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings: collected under the lock, printed without it, since names of frames
 * need malloc(). A finding that a suppression names is counted only.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check/internal.h"

#define BUCKETS	   1024
#define FOUND	   512 /* characters of a detail */
#define OBJECT	   160
#define PRINT_WAIT 1 /* s for another thread to print */

struct seen {
	struct seen *next;
	uint64_t object;
	const void *site;
	enum urk_rule rule;
};

struct finding {
	struct finding *next;
	enum urk_rule rule;
	pid_t thread;
	char found[FOUND];
	char object[OBJECT]; /* "": none */
	const struct urk_stack *at;
	const struct urk_stack *made; /* NULL: unknown */
	const struct urk_stack *ended;
	const char *label; /* of other */
	const struct urk_stack *other;
};

/* A line of the file of suppressions */
struct suppression {
	char rule[64];
	char function[URK_NAME];
	char object[URK_NAME];
};

static struct seen *seen[BUCKETS];
static _Thread_local struct finding *mine; /* to be printed; newest first */

/* The printer's, under its lock. */
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static struct suppression suppressions[256];
static size_t nsuppressions;
static _Atomic unsigned int counts[URK_RULES];
static _Atomic unsigned int suppressed;
static char text[32768];
static size_t len;

bool urk_rule_on(enum urk_rule rule)
{
	return urk_options.all || urk_rules[rule].certain;
}

static bool is_new(enum urk_rule rule, const struct urk_object *o,
		   const void *site)
{
	uint64_t object = o ? o->serial : 0;
	struct seen **bucket =
		&seen[((uintptr_t)site + object * 31 + (unsigned int)rule) %
		      BUCKETS];

	for (struct seen *s = *bucket; s; s = s->next)
		if (s->rule == rule && s->object == object && s->site == site)
			return false;
	struct seen *s = urk_alloc(sizeof(*s));

	if (!s)
		return false;
	*s = (struct seen){ *bucket, object, site, rule };
	*bucket = s;
	return true;
}

static void describe(const struct urk_object *o, char *out)
{
	if (o->kind == URK_MR)
		snprintf(out, OBJECT,
			 "memory region of key 0x%x, 0x%llx (%llu bytes), "
			 "access 0x%x",
			 o->number, (unsigned long long)o->address,
			 (unsigned long long)o->length, o->access);
	else if (o->kind == URK_QP)
		snprintf(out, OBJECT, "queue pair 0x%06x", o->number);
	else
		snprintf(out, OBJECT, "%s %p", urk_kind_name(o->kind), o->ptr);
}

void urk_find(enum urk_rule rule, const struct urk_object *o,
	      const struct urk_stack *stack, const char *label,
	      const struct urk_stack *other, const char *fmt, ...)
{
	struct finding *f;
	va_list ap;

	if (!urk_rule_on(rule))
		return;
	if (!stack)
		stack = urk_stack_here();
	urk_lock();
	f = is_new(rule, o, stack->frame[0]) ? urk_alloc(sizeof(*f)) : NULL;
	if (f && o) {
		describe(o, f->object);
		f->made = o->made;
		f->ended = o->ended;
	}
	urk_unlock();
	if (!f)
		return;
	f->rule = rule;
	f->thread = urk_thread();
	f->at = stack;
	f->label = label;
	f->other = other;
	va_start(ap, fmt);
	vsnprintf(f->found, sizeof(f->found), fmt, ap);
	va_end(ap);
	f->next = mine;
	mine = f;
}

static void read_suppression(char *line)
{
	struct suppression *s = &suppressions[nsuppressions];
	int n = sscanf(line, "%63s %255s %255s", s->rule, s->function,
		       s->object);

	if (n < 1 || s->rule[0] == '#')
		return;
	if (n < 2)
		strcpy(s->function, "*");
	if (n < 3)
		strcpy(s->object, "*");
	nsuppressions++;
}

void urk_report_init(void)
{
	FILE *f = urk_options.suppressions
			  ? fopen(urk_options.suppressions, "re")
			  : NULL;
	char line[1024];

	if (!f)
		return;
	while (nsuppressions < sizeof(suppressions) / sizeof(*suppressions) &&
	       fgets(line, sizeof(line), f))
		read_suppression(line);
	fclose(f);
}

static bool fits(const struct suppression *s, const struct finding *f)
{
	struct urk_frame_name name;

	if (fnmatch(s->rule, urk_rules[f->rule].name, 0) != 0)
		return false;
	for (int i = 0; i < f->at->n; i++) {
		urk_name(f->at->frame[i], &name);
		if (fnmatch(s->function, name.function, 0) == 0 &&
		    fnmatch(s->object, name.object, 0) == 0)
			return true;
	}
	return false;
}

static void put(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text + len, sizeof(text) - len, fmt, ap);
	va_end(ap);
	if (n > 0)
		len += (size_t)n;
	if (len >= sizeof(text))
		len = sizeof(text) - 1;
}

static void put_string(const char *s)
{
	put("\"");
	for (; *s; s++)
		if (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20)
			put("\\u%04x", (unsigned char)*s);
		else
			put("%c", *s);
	put("\"");
}

static void put_member(const char *name, const char *value)
{
	put(",\"%s\":", name);
	put_string(value);
}

static void put_line_text(const char *label, const char *value)
{
	put("  %-12s%s\n", label, value);
}

/* False: the frames behind it are those of the C library. */
static bool put_frame(void *frame, const char *label, bool first)
{
	struct urk_frame_name n;
	char s[3 * URK_NAME];

	urk_name(frame, &n);
	if (!n.function[0])
		snprintf(s, sizeof(s), "%.200s+0x%zx", n.object, n.offset);
	else if (n.line[0])
		snprintf(s, sizeof(s), "%.200s (%.200s)", n.function, n.line);
	else
		snprintf(s, sizeof(s), "%.200s+0x%zx (%.200s)", n.function,
			 n.offset, n.object);
	if (urk_options.json) {
		put(first ? "" : ",");
		put_string(s);
	} else {
		put_line_text(first ? label : "", s);
	}
	return strcmp(n.function, "main") != 0;
}

static void put_stack(const char *label, const struct urk_stack *s)
{
	if (!s || !s->n)
		return;
	if (urk_options.json)
		put(",\"%s\":[", label);
	for (int i = 0; i < s->n && put_frame(s->frame[i], label, i == 0); i++)
		;
	if (urk_options.json)
		put("]");
}

static void put_text(const struct finding *f)
{
	const struct urk_rule_text *r = &urk_rules[f->rule];

	put("urnic check: process %d (%s), thread %d: %s [%s]\n", (int)getpid(),
	    program_invocation_short_name, (int)f->thread, r->what, r->name);
	put_line_text("found", f->found);
	put_stack("at", f->at);
	if (f->other)
		put_stack(f->label, f->other);
	if (f->object[0])
		put_line_text("object", f->object);
	put_stack("made at", f->made);
	put_stack("ended at", f->ended);
	put_line_text("rule", r->source);
	put_line_text("change", r->change);
}

static void put_json(const struct finding *f)
{
	const struct urk_rule_text *r = &urk_rules[f->rule];

	put("{\"pid\":%d,\"thread\":%d", (int)getpid(), (int)f->thread);
	put_member("program", program_invocation_short_name);
	put_member("rule", r->name);
	put_member("what", r->what);
	put_member("found", f->found);
	put_stack("at", f->at);
	if (f->other)
		put_stack(f->label, f->other);
	if (f->object[0])
		put_member("object", f->object);
	put_stack("made at", f->made);
	put_stack("ended at", f->ended);
	put_member("source", r->source);
	put_member("change", r->change);
	put("}\n");
}

/* The file's name, with %p replaced by the process. */
static int open_file(void)
{
	const char *at = strstr(urk_options.file, "%p");
	char path[4096];

	snprintf(path, sizeof(path), "%.*s",
		 at ? (int)(at - urk_options.file)
		    : (int)strlen(urk_options.file),
		 urk_options.file);
	if (at) {
		size_t n = strlen(path);

		snprintf(path + n, sizeof(path) - n, "%d%s", (int)getpid(),
			 at + 2);
	}
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void write_text(void)
{
	int fd = urk_options.file ? open_file() : STDERR_FILENO;

	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, text + done, len - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (urk_options.file && fd >= 0)
		close(fd);
	len = 0;
}

static void print(const struct finding *f)
{
	for (size_t i = 0; i < nsuppressions; i++) {
		if (!fits(&suppressions[i], f))
			continue;
		suppressed++;
		return;
	}
	counts[f->rule]++;
	if (urk_options.json)
		put_json(f);
	else
		put_text(f);
	write_text();
}

/* first: the oldest. */
static void print_all(const struct finding *first)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PRINT_WAIT;
	if (pthread_mutex_timedlock(&printing, &end)) {
		for (const struct finding *f = first; f; f = f->next)
			counts[f->rule]++;
		return;
	}
	urk_names_begin(true);
	for (const struct finding *f = first; f; f = f->next)
		print(f);
	urk_names_end();
	pthread_mutex_unlock(&printing);
}

/*
 * A thread that prints calls malloc(), where it may wait for one that is in a hook
 * of malloc() and comes here. So it waits for a limited time, and then only counts
 * its finding. It is not cancelled while it writes: calls that post are no points of
 * cancellation, and the lock would stay taken.
 */
void urk_report_flush(void)
{
	struct finding *f = mine, *before = NULL, *next;
	int cancel;

	if (!f)
		return;
	mine = NULL;
	for (; f; f = next) {
		next = f->next;
		f->next = before;
		before = f;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	print_all(before);
	pthread_setcancelstate(cancel, NULL);
}

void urk_report_forget(void)
{
	mine = NULL;
	pthread_mutex_init(&printing, NULL);
	len = 0;
	for (size_t i = 0; i < URK_RULES; i++)
		counts[i] = 0;
	suppressed = 0;
}

static void put_count(size_t i, bool first)
{
	if (urk_options.json)
		put("%s\"%s\":%u", first ? "" : ",", urk_rules[i].name,
		    counts[i]);
	else
		put("%s%s %u", first ? "" : ", ", urk_rules[i].name, counts[i]);
}

unsigned int urk_report_end(void)
{
	unsigned int sum = 0;
	bool first = true;

	for (size_t i = 0; i < URK_RULES; i++)
		sum += counts[i];
	if (urk_options.json) {
		put("{\"pid\":%d", (int)getpid());
		put_member("program", program_invocation_short_name);
		put(",\"findings\":%u,\"suppressed\":%u,\"rules\":{", sum,
		    suppressed);
	} else {
		put("urnic check: process %d (%s): %u findings, %u suppressed%s",
		    (int)getpid(), program_invocation_short_name, sum,
		    suppressed, sum ? ": " : "");
	}
	for (size_t i = 0; i < URK_RULES; i++) {
		if (!counts[i])
			continue;
		put_count(i, first);
		first = false;
	}
	put(urk_options.json ? "}}\n" : "\n");
	write_text();
	return sum;
}
