/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic trace: calls and requests of a program, from the rings that
 * liburnic-trace.so fills in its processes (tracer/ring.h).
 */
#include "trace.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "run.h"
#include "run_check.h"
#include "urnic.h"

#define LIBRARY	 "liburnic-trace.so"
/* While the program runs, records are written out for a twentieth of the time, or
 * a hundredth if there are more, and the rest waits in the spool, so that the tool
 * takes little of the processors.  Not with so much in the spool that it might fill
 * the file system: then it is no burst. */
#define TICK_MS	 5
#define SHARE_NS 250000u
#define LATE_NS	 50000u /* with records in the spool: the text is late anyhow */
#define BURST	 ((uint64_t)2 << 30) /* bytes */
#define AT_ONCE	 64u /* records between two looks at the clock */

static const char usage[] =
	"usage: urnic trace [options] [--] PROGRAM [ARGUMENTS]\n"
	"       urnic trace [options] PID\n"
	"       urnic trace --merge [-o FILE] FILE FILE...\n"
	"Runs PROGRAM with urnic, or attaches to a process of yours until SIGINT, and\n"
	"writes its calls of verbs, rdma_cm and rsockets, and its work requests from\n"
	"post to completion.\n"
	"  -o FILE           write there, not to standard error\n"
	"  -e LIST           only these, separated by commas: names of calls, verbs,\n"
	"                    cm, rsocket, data (post and poll), wr (requests), and\n"
	"                    errors: only those that failed\n"
	"  --qp QPN          only of this queue pair (0x...)\n"
	"  --sample N        of the data path only every Nth\n"
	"  --block           a program that is faster than the tool waits for it, and\n"
	"                    no record is missing\n"
	"  -c                count: calls, errors and time of each\n"
	"  --json            lines of JSON\n"
	"  --perfetto FILE   trace events for ui.perfetto.dev or chrome://tracing\n"
	"  --merge           files of --perfetto into one\n"
	"  --help\n";

struct trace {
	struct ur_trace_filter filter;
	struct ur_trace_out out;
	struct ur_trace_sources sources;
	struct ur_trace_queues *queues;
	uint32_t pid; /* of a running process; 0: none */
	uint32_t sample;
	bool block;
	bool merge;
	char socket[UR_TRACE_PATH];
	pid_t child; /* 0: it has ended */
	int status;
	int write_error;  /* the first errno of the output; 0: none */
	uint64_t last_ns; /* of the newest record */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

/* --- records --- */

static void on_wr(void *arg, const struct ur_trace_wr *w)
{
	struct trace *t = arg;

	if (ur_trace_filter_wr(&t->filter, w))
		t->out.format->wr(&t->out, w);
}

static void put_call(struct trace *t, struct ur_trace_source *s, bool ended,
		     const struct ur_trace_item *item)
{
	if (ur_trace_filter_call(&t->filter, item))
		t->out.format->call(&t->out, s, item, ended);
}

static void put_record(struct trace *t, struct ur_trace_source *s)
{
	struct ur_trace_item *item = &s->item;

	t->last_ns = item->rec.ns;
	t->out.several |= t->sources.n > 1;
	switch (item->rec.kind) {
	case UR_TRACE_ENTER:
		s->enter = *item;
		s->entered = true;
		break;
	case UR_TRACE_CALL:
		s->entered = false;
		put_call(t, s, true, item);
		break;
	case UR_TRACE_DATA:
		ur_trace_data_text(item);
		put_call(t, s, true, item);
		break;
	case UR_TRACE_EMPTY:
		if (!t->filter.errors && !t->filter.has_qp &&
		    ur_trace_filter_class(&t->filter, UR_TRACE_data))
			t->out.format->call(&t->out, s, item, true);
		break;
	case UR_TRACE_POST:
	case UR_TRACE_CANCEL:
	case UR_TRACE_DONE:
	case UR_TRACE_QP:
		ur_trace_queues_put(t->queues, s, &item->rec);
		break;
	default:
		break;
	}
}

/* Records of before `until`, until the clock says `stop`.  True: there may be more. */
static bool drain(struct trace *t, uint64_t until, uint64_t stop)
{
	struct ur_trace_source *s;

	ur_trace_accept(&t->sources);
	do {
		for (uint32_t n = 0; n < AT_ONCE; n++) {
			s = ur_trace_oldest(&t->sources, until);
			if (!s)
				return false;
			put_record(t, s);
			ur_trace_pop(s);
		}
	} while (ur_clock_ns() < stop);
	return true;
}

/* --- the program --- */

static bool program_runs(struct trace *t)
{
	int status;
	pid_t pid;

	/* All: as process 1 of a container it has orphans. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != t->child)
			continue;
		t->child = 0;
		t->status = WIFEXITED(status) ? WEXITSTATUS(status)
					      : 128 + WTERMSIG(status);
	}
	return t->child != 0;
}

static void forward_signal(struct trace *t)
{
	/* The terminal has sent SIGINT to the program itself. */
	if (interrupted == SIGTERM && t->child)
		kill(t->child, SIGTERM);
	if (t->child)
		interrupted = 0;
}

static void flush(struct trace *t)
{
	if (fflush(t->out.file) && !t->write_error)
		t->write_error = errno;
}

static void follow(struct trace *t)
{
	struct pollfd f = { t->pid ? t->sources.link : t->sources.listener,
			    POLLIN, 0 };
	uint64_t until = 0;
	uint64_t spooled = 0;
	bool runs = true, late;

	while (runs) {
		if (interrupted)
			forward_signal(t);
		/* Before the records: those written last are seen. */
		runs = (int)program_runs(t) |
		       (int)ur_trace_running(&t->sources);
		until = ur_clock_ns();
		late = spooled && spooled < BURST;
		if (!drain(t, until, until + (late ? LATE_NS : SHARE_NS)) &&
		    t->out.format != &ur_trace_perfetto)
			flush(t);
		spooled = ur_trace_spool(&t->sources);
		if (interrupted && !t->child)
			break;
		if (runs)
			poll(&f, 1, TICK_MS);
	}
	interrupted = 0;
	if (t->sources.link >= 0) {
		ur_trace_detach(&t->sources);
		until = ur_clock_ns();
	}
	while (!interrupted && drain(t, until, ur_clock_ns() + 100000000u))
		;
}

static void put_unfinished(struct trace *t, struct ur_trace_source *s)
{
	for (; s; s = s->next)
		if (s->entered)
			put_call(t, s, false, &s->enter);
}

static void finish(struct trace *t)
{
	put_unfinished(t, t->sources.first);
	put_unfinished(t, t->sources.drained);
	ur_trace_queues_end(t->queues, t->last_ns);
	t->out.format->end(&t->out);
	if (!t->sources.n)
		ur_tool_error("trace: nothing was recorded: no call that is "
			      "traced, or memfd_create() is refused");
	if (ur_trace_lost(&t->sources))
		ur_tool_error("trace: %llu records are missing, since the "
			      "processes wrote them faster than they were "
			      "read%s (--block, --sample, -e)",
			      (unsigned long long)ur_trace_lost(&t->sources),
			      t->sources.full ? ", and there was no space to "
						"keep them (/var/tmp)"
					      : "");
}

/* --- set up --- */

static unsigned int wanted_classes(const struct trace *t)
{
	bool flows = t->out.format == &ur_trace_json ||
		     t->out.format == &ur_trace_perfetto;

	return ur_trace_filter_classes(&t->filter) |
	       (t->block ? UR_TRACE_BLOCK : 0) |
	       (flows || t->sample != 1 ? UR_TRACE_NUMBERS : 0);
}

static int set_environment(const struct trace *t)
{
	char value[UR_TRACE_PATH + 64];

	snprintf(value, sizeof(value), "%u:%u:%s", wanted_classes(t), t->sample,
		 t->socket);
	if (setenv("URNIC_TRACE", value, 1))
		return -errno;
	return ur_run_environment(LIBRARY);
}

static int start(struct trace *t, char **argv)
{
	t->child = fork();
	if (t->child < 0) {
		t->child = 0;
		ur_tool_error("fork: %s", strerror(errno));
		return -errno;
	}
	if (!t->child) {
		int code;

		signal(SIGPIPE, SIG_DFL);
		execvp(argv[0], argv);
		code = errno == ENOENT ? 127 : 126; /* as shells do */
		ur_tool_error("%s: %s", argv[0], strerror(errno));
		_exit(code);
	}
	return 0;
}

static int open_output(struct trace *t)
{
	struct timespec now;

	t->out.sources = &t->sources;
	t->out.file = t->out.path ? fopen(t->out.path, "we") : stderr;
	if (!t->out.file) {
		ur_tool_error("%s: %s", t->out.path, strerror(errno));
		return -errno;
	}
	if (t->out.path)
		(void)setvbuf(t->out.file, NULL, _IOFBF, 1 << 20);
	/* One thread writes. */
	(void)__fsetlocking(t->out.file, FSETLOCKING_BYCALLER);
	t->out.begin_ns = ur_clock_ns();
	clock_gettime(CLOCK_REALTIME, &now);
	t->out.real_ns =
		(uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	t->last_ns = t->out.begin_ns;
	t->queues = ur_trace_queues_create(on_wr, t);
	return t->queues ? 0 : -ENOMEM;
}

static int begin_program(struct trace *t, char **argv)
{
	int status = ur_run_check(argv);

	if (status)
		return status;
	return ur_trace_listen(&t->sources, t->socket) || set_environment(t) ||
			       open_output(t) || start(t, argv)
		       ? 125
		       : 0;
}

static int begin_process(struct trace *t)
{
	return open_output(t) || ur_trace_attach(&t->sources, t->pid,
						 wanted_classes(t), t->sample);
}

static int trace_it(struct trace *t, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	int status;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	status = t->pid ? begin_process(t) : begin_program(t, argv);
	if (status)
		return status;
	t->out.format->begin(&t->out);
	follow(t);
	finish(t);
	flush(t);
	if (ferror(t->out.file) && !t->status) {
		ur_tool_error("%s: %s", t->out.path ? t->out.path : "stderr",
			      strerror(t->write_error ? t->write_error : EIO));
		return 125;
	}
	return t->status;
}

static void clean_up(struct trace *t)
{
	ur_trace_sources_close(&t->sources);
	if (t->socket[0])
		unlink(t->socket);
	if (t->out.path && t->out.file)
		(void)fclose(t->out.file);
	ur_trace_queues_destroy(t->queues);
}

/* --- options --- */

static bool number(const char *text, uint32_t *out, uint32_t least,
		   uint32_t most)
{
	uint64_t n = 0;
	bool ok = ur_tool_number(text, least, most, &n);

	*out = (uint32_t)n;
	return ok;
}

static bool option(struct trace *t, int c, const char *text)
{
	switch (c) {
	case 'p':
		t->out.format = &ur_trace_perfetto;
		t->out.path = text;
		return true;
	case 'o':
		t->out.path = text;
		return true;
	case 'e':
		return ur_trace_filter_parse(&t->filter, text);
	case 'q':
		t->filter.has_qp = true;
		return number(text, &t->filter.qpn, 0, 0xffffff);
	case 's':
		return number(text, &t->sample, 1, 1000000000);
	case 'b':
		t->block = true;
		return true;
	case 'c':
		t->out.format = &ur_trace_count;
		return true;
	case 'j':
		t->out.format = &ur_trace_json;
		return true;
	default:
		t->merge = true;
		return true;
	}
}

static bool is_pid(int n, const char *text)
{
	return n == 1 && *text && strspn(text, "0123456789") == strlen(text);
}

static bool parse(struct trace *t, int argc, char **argv)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "qp", required_argument, NULL, 'q' },
		{ "sample", required_argument, NULL, 's' },
		{ "block", no_argument, NULL, 'b' },
		{ "json", no_argument, NULL, 'j' },
		{ "perfetto", required_argument, NULL, 'p' },
		{ "merge", no_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = ur_tool_option(argc, argv, "+o:e:ch", options, usage)) !=
	       -1) {
		if (!option(t, c, optarg)) {
			ur_tool_error("trace: \"%s\" is not valid there",
				      optarg);
			return false;
		}
	}
	if (optind < argc && is_pid(argc - optind, argv[optind]) &&
	    !number(argv[optind], &t->pid, 1, INT_MAX)) {
		ur_tool_error("trace: \"%s\" is no process", argv[optind]);
		return false;
	}
	if (t->pid && t->sample != 1) {
		/* Requests that are outstanding would have to be counted. */
		ur_tool_error("trace: --sample: not of a running process");
		return false;
	}
	if (optind < argc || t->merge)
		return true;
	fputs(usage, stderr);
	return false;
}

int ur_cmd_trace(int argc, char **argv)
{
	struct trace *t = calloc(1, sizeof(*t));
	int status = 2;

	if (!t)
		return 1;
	t->sources.listener = -1;
	t->sources.link = -1;
	t->sample = 1;
	t->out.format = &ur_trace_text;
	if (parse(t, argc, argv))
		status = t->merge ? ur_trace_merge(t->out.path, argc - optind,
						   argv + optind)
				  : trace_it(t, argv + optind);
	clean_up(t);
	free(t);
	return status;
}
