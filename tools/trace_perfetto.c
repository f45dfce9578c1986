/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * urnic trace --perfetto: trace events of Chrome, which Perfetto reads too.  A call
 * is a slice of its thread, a request an asynchronous slice, and a message an arrow
 * from the call that posted it to the poll that found the receive.  Both ends of an
 * arrow have the same identifier, made of the connection's addresses, so files of
 * two hosts need only be put together (trace_merge.c).
 */
#include <string.h>
#include <unistd.h>

#include "trace.h"

/* Microseconds; what was before the trace has 0. */
static double us(const struct ur_trace_out *o, uint64_t ns)
{
	return ns > o->begin_ns ? (double)(ns - o->begin_ns) / 1e3 : 0;
}

static void begin(struct ur_trace_out *o)
{
	char host[256] = "", boot[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	(void)gethostname(host, sizeof(host) - 1);
	if (f && fgets(boot, sizeof(boot), f))
		boot[strcspn(boot, "\n")] = 0;
	if (f)
		(void)fclose(f);
	/* Strings: a double does not hold such times. */
	fprintf(o->file,
		"{\"otherData\":{\"urnic_trace\":%d,\"realtime_ns\":\"%llu\","
		"\"monotonic_ns\":\"%llu\",\"host\":",
		UR_TRACE_VERSION, (unsigned long long)o->real_ns,
		(unsigned long long)o->begin_ns);
	ur_trace_quote(o->file, host);
	fputs(",\"boot\":", o->file);
	ur_trace_quote(o->file, boot);
	fputs("},\n\"displayTimeUnit\":\"ns\",\n\"traceEvents\":[", o->file);
}

static void event(struct ur_trace_out *o, char ph,
		  const struct ur_trace_source *s, uint64_t ns)
{
	fprintf(o->file, "%s\n{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f",
		o->comma ? "," : "", ph, s->proc->pid, s->tid, us(o, ns));
	o->comma = true;
}

static void name_thread(struct ur_trace_out *o, const struct ur_trace_source *s)
{
	struct ur_trace_source *x = (struct ur_trace_source *)(uintptr_t)s;

	if (!x->proc->named) {
		x->proc->named = true;
		event(o, 'M', s, 0);
		fputs(",\"name\":\"process_name\",\"args\":{\"name\":",
		      o->file);
		ur_trace_quote(o->file, x->proc->comm);
		fputs("}}", o->file);
	}
	x->named = true;
}

static void call(struct ur_trace_out *o, const struct ur_trace_source *s,
		 const struct ur_trace_item *item, bool ended)
{
	const struct ur_trace_rec *r = &item->rec;
	const char *name, *value, *comma = "";
	uint64_t from = ended ? r->ns - r->dur_ns : r->ns;
	uint64_t end = r->ns;
	uint32_t at = 0;
	char text[16];

	name_thread(o, s);
	if (r->kind == UR_TRACE_EMPTY)
		from = r->wr_id;
	event(o, 'X', s, from);
	fprintf(o->file,
		",\"dur\":%.3f,\"cat\":\"%s\",\"name\":\"%s\",\"args\":{",
		us(o, end) - us(o, from),
		r->kind == UR_TRACE_EMPTY
			? "data"
			: ur_trace_class_name(ur_trace_call_class(r->call)),
		r->kind == UR_TRACE_EMPTY ? "empty polls"
					  : ur_trace_call_name(r->call));
	if (r->kind == UR_TRACE_EMPTY) {
		fprintf(o->file, "\"count\":%u}}", r->count);
		return;
	}
	while ((name = ur_trace_pair(item, &at, &value))) {
		fputs(comma, o->file);
		ur_trace_quote(o->file, name + (*name == '>'));
		fputc(':', o->file);
		ur_trace_quote(o->file, value);
		comma = ",";
	}
	fprintf(o->file, "%s\"=\":\"%lld\"", comma, (long long)r->result);
	if (r->error)
		fprintf(o->file, ",\"errno\":\"%s\"",
			ur_trace_errno(r->error, text));
	fputs(ended ? "}}" : ",\"unfinished\":true}}", o->file);
}

/* Both ends of an asynchronous slice are of the process that posted. */
static void slice_end(struct ur_trace_out *o, char ph,
		      const struct ur_trace_source *s, uint64_t ns,
		      const struct ur_trace_wr *w)
{
	event(o, ph, s, ns);
	fprintf(o->file,
		",\"cat\":\"wr\",\"id\":\"0x%llx\",\"name\":\"%s qp 0x%06x\"",
		(unsigned long long)o->wrs, ur_trace_opcode(w),
		ur_trace_qpn(w));
}

static void arrow(struct ur_trace_out *o, char ph,
		  const struct ur_trace_source *s, uint64_t ns, uint64_t flow)
{
	event(o, ph, s, ns);
	fprintf(o->file,
		",\"cat\":\"message\",\"name\":\"message\",\"id\":\"0x%llx\"%s}",
		(unsigned long long)flow, ph == 'f' ? ",\"bp\":\"e\"" : "");
}

static void wr(struct ur_trace_out *o, const struct ur_trace_wr *w)
{
	const struct ur_trace_source *s = w->poster ? w->poster : w->poller;
	uint64_t end = w->poller ? w->done.ns : w->end_ns;

	if (!s)
		return;
	o->wrs++;
	name_thread(o, s);
	slice_end(o, 'b', s, w->poster ? w->post.ns : end, w);
	fprintf(o->file,
		",\"args\":{\"wr_id\":\"0x%llx\",\"bytes\":%u,"
		"\"status\":\"%s\",\"implied\":%s}}",
		(unsigned long long)ur_trace_wr_id(w), ur_trace_bytes(w),
		w->poller ? ur_trace_status(w->done.status) : "not completed",
		w->implied ? "true" : "false");
	slice_end(o, 'e', s, end, w);
	fputs("}", o->file);
	if (!w->flow)
		return;
	if (w->poller && ur_trace_is_recv(w))
		arrow(o, 'f', w->poller, w->done.ns, w->flow);
	else if (w->poster)
		arrow(o, 's', w->poster, w->post.ns, w->flow);
}

static void end(struct ur_trace_out *o)
{
	fprintf(o->file, "\n],\n\"lost\":%llu}\n",
		(unsigned long long)ur_trace_lost(o->sources));
}

const struct ur_trace_format ur_trace_perfetto = { begin, call, wr, end };
