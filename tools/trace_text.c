/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic trace: lines as strace writes them, and lines of JSON. */
#include <string.h>
#include <unistd.h>

#include "trace.h"

/* --- text --- */

/* Seconds; printf() needs most of a line's time for a double. */
static void put_seconds(FILE *f, uint64_t ns, const char *end)
{
	uint64_t us = (ns + 500) / 1000;

	fprintf(f, "%llu.%06u%s", (unsigned long long)(us / 1000000),
		(unsigned int)(us % 1000000), end);
}

/* Since the trace began; what was before it has 0. */
static void put_since(const struct ur_trace_out *o, uint64_t ns)
{
	put_seconds(o->file, ns > o->begin_ns ? ns - o->begin_ns : 0, " ");
}

static void put_thread(const struct ur_trace_out *o,
		       const struct ur_trace_source *s)
{
	if (!o->several)
		return;
	if (s->tid == s->proc->pid)
		fprintf(o->file, "[pid %u] ", s->proc->pid);
	else
		fprintf(o->file, "[pid %u tid %u] ", s->proc->pid, s->tid);
}

/* Arguments, or those of the result; true: there were some. */
static bool put_pairs(FILE *f, const struct ur_trace_item *item, bool results)
{
	const char *name, *value, *comma = "";
	uint32_t at = 0;

	while ((name = ur_trace_pair(item, &at, &value))) {
		if ((*name == '>') != results)
			continue;
		if (results && !*comma)
			fputs(" {", f);
		fprintf(f, "%s%s=%s", comma, name + results, value);
		comma = ", ";
	}
	if (results && *comma)
		fputc('}', f);
	return *comma;
}

static void put_result(FILE *f, const struct ur_trace_rec *r)
{
	char text[16];

	if (r->error && !r->result)
		fputs("NULL", f);
	else if (r->result > UINT32_MAX)
		fprintf(f, "0x%llx", (unsigned long long)r->result);
	else
		fprintf(f, "%lld", (long long)r->result);
	if (r->error)
		fprintf(f, " %s (%s)", ur_trace_errno(r->error, text),
			strerror((int)r->error));
}

static void text_call(struct ur_trace_out *o, const struct ur_trace_source *s,
		      const struct ur_trace_item *item, bool ended)
{
	const struct ur_trace_rec *r = &item->rec;

	if (r->kind == UR_TRACE_EMPTY) {
		put_since(o, r->wr_id);
		put_thread(o, s);
		fprintf(o->file, "ibv_poll_cq() = 0, %u times in ", r->count);
		put_seconds(o->file, r->ns - r->wr_id, " s\n");
		return;
	}
	put_since(o, ended ? r->ns - r->dur_ns : r->ns);
	put_thread(o, s);
	fprintf(o->file, "%s(", ur_trace_call_name(r->call));
	put_pairs(o->file, item, false);
	if (!ended) {
		fputs(" <unfinished ...>\n", o->file);
		return;
	}
	fputs(") = ", o->file);
	put_result(o->file, r);
	put_pairs(o->file, item, true);
	fputs(" <", o->file);
	put_seconds(o->file, r->dur_ns, ">\n");
}

static void text_wr(struct ur_trace_out *o, const struct ur_trace_wr *w)
{
	put_since(o, w->poller ? w->done.ns : w->end_ns);
	put_thread(o, w->poller ? w->poller : w->poster);
	fprintf(o->file, "%s qp=0x%06x wr_id=0x%llx %s %u bytes = %s",
		ur_trace_is_recv(w) ? "recv" : "send", ur_trace_qpn(w),
		(unsigned long long)ur_trace_wr_id(w), ur_trace_opcode(w),
		ur_trace_bytes(w),
		w->poller ? ur_trace_status(w->done.status) : "not completed");
	if (w->poller && w->done.status)
		fprintf(o->file, " vendor_err=0x%x", w->done.vendor);
	if (w->implied)
		fputs(" (by a later one)", o->file);
	if (w->poster && w->poller) {
		fputs(" <", o->file);
		put_seconds(o->file, w->done.ns - w->post.ns, ">\n");
	} else {
		fputs(w->poller ? " <posted unseen>\n" : "\n", o->file);
	}
}

static void text_end(struct ur_trace_out *o)
{
}

const struct ur_trace_format ur_trace_text = { text_end, text_call, text_wr,
					       text_end };

/* --- JSON lines --- */

static void json_begin(struct ur_trace_out *o)
{
	char host[256] = "";

	(void)gethostname(host, sizeof(host) - 1);
	fprintf(o->file,
		"{\"type\":\"start\",\"version\":%d,\"realtime_ns\":%llu,"
		"\"host\":",
		UR_TRACE_VERSION, (unsigned long long)o->real_ns);
	ur_trace_quote(o->file, host);
	fputs("}\n", o->file);
}

static void json_head(struct ur_trace_out *o, const char *type,
		      const struct ur_trace_source *s, uint64_t ns)
{
	fprintf(o->file,
		"{\"type\":\"%s\",\"t_ns\":%lld,\"pid\":%u,\"tid\":%u,"
		"\"comm\":",
		type, (long long)(ns - o->begin_ns), s->proc->pid, s->tid);
	ur_trace_quote(o->file, s->proc->comm);
}

static void json_pairs(FILE *f, const struct ur_trace_item *item, bool results)
{
	const char *name, *value, *comma = "";
	uint32_t at = 0;

	fputs(results ? ",\"out\":{" : ",\"args\":{", f);
	while ((name = ur_trace_pair(item, &at, &value))) {
		if ((*name == '>') != results)
			continue;
		fputs(comma, f);
		ur_trace_quote(f, name + results);
		fputc(':', f);
		ur_trace_quote(f, value);
		comma = ",";
	}
	fputc('}', f);
}

static void json_call(struct ur_trace_out *o, const struct ur_trace_source *s,
		      const struct ur_trace_item *item, bool ended)
{
	const struct ur_trace_rec *r = &item->rec;
	char text[16];

	if (r->kind == UR_TRACE_EMPTY) {
		json_head(o, "empty_polls", s, r->wr_id);
		fprintf(o->file, ",\"count\":%u,\"dur_ns\":%llu}\n", r->count,
			(unsigned long long)(r->ns - r->wr_id));
		return;
	}
	json_head(o, ended ? "call" : "unfinished", s,
		  ended ? r->ns - r->dur_ns : r->ns);
	fprintf(o->file, ",\"name\":\"%s\",\"class\":\"%s\"",
		ur_trace_call_name(r->call),
		ur_trace_class_name(ur_trace_call_class(r->call)));
	json_pairs(o->file, item, false);
	if (ended) {
		fprintf(o->file, ",\"result\":%lld,\"dur_ns\":%llu",
			(long long)r->result, (unsigned long long)r->dur_ns);
		if (r->error)
			fprintf(o->file, ",\"errno\":\"%s\"",
				ur_trace_errno(r->error, text));
		json_pairs(o->file, item, true);
	}
	fputs("}\n", o->file);
}

static void json_wr(struct ur_trace_out *o, const struct ur_trace_wr *w)
{
	json_head(o, "wr", w->poller ? w->poller : w->poster,
		  w->poller ? w->done.ns : w->end_ns);
	fprintf(o->file,
		",\"queue\":\"%s\",\"qp\":%u,\"wr_id\":\"0x%llx\","
		"\"opcode\":\"%s\",\"bytes\":%u,\"implied\":%s",
		ur_trace_is_recv(w) ? "recv" : "send", ur_trace_qpn(w),
		(unsigned long long)ur_trace_wr_id(w), ur_trace_opcode(w),
		ur_trace_bytes(w), w->implied ? "true" : "false");
	if (w->poster)
		fprintf(o->file, ",\"posted_ns\":%lld",
			(long long)(w->post.ns - o->begin_ns));
	if (w->poller)
		fprintf(o->file, ",\"status\":\"%s\",\"vendor_err\":%u",
			ur_trace_status(w->done.status), w->done.vendor);
	if (w->poster && w->poller)
		fprintf(o->file, ",\"latency_ns\":%llu",
			(unsigned long long)(w->done.ns - w->post.ns));
	if (w->flow)
		fprintf(o->file, ",\"message\":\"%llx\"",
			(unsigned long long)w->flow);
	fputs("}\n", o->file);
}

static void json_end(struct ur_trace_out *o)
{
	fprintf(o->file, "{\"type\":\"end\",\"lost\":%llu}\n",
		(unsigned long long)ur_trace_lost(o->sources));
}

const struct ur_trace_format ur_trace_json = { json_begin, json_call, json_wr,
					       json_end };
