/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic trace -c: calls and requests, counted. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

struct row {
	uint64_t calls;
	uint64_t errors;
	uint64_t ns;
	uint64_t max_ns;
	uint64_t timed; /* of them have a time */
	uint64_t bytes;
};

struct ur_trace_counts {
	struct row call[UR_TRACE_CALLS];
	struct row send[16]; /* by opcode */
	struct row recv;
	uint64_t empty;
};

static void add(struct row *r, bool timed, uint64_t ns, bool failed)
{
	r->calls++;
	r->errors += failed;
	if (!timed)
		return;
	r->timed++;
	r->ns += ns;
	if (ns > r->max_ns)
		r->max_ns = ns;
}

static void begin(struct ur_trace_out *o)
{
	o->counts = calloc(1, sizeof(*o->counts));
}

static void call(struct ur_trace_out *o, const struct ur_trace_source *s,
		 const struct ur_trace_item *item, bool ended)
{
	const struct ur_trace_rec *r = &item->rec;

	if (!o->counts)
		return;
	if (r->kind == UR_TRACE_EMPTY)
		o->counts->empty += r->count;
	else
		add(&o->counts->call[r->call], ended, r->dur_ns,
		    ended && r->error);
}

static void wr(struct ur_trace_out *o, const struct ur_trace_wr *w)
{
	struct row *r;

	if (!o->counts || (!w->poster && !ur_trace_is_recv(w)))
		return;
	r = ur_trace_is_recv(w) ? &o->counts->recv
				: &o->counts->send[w->post.opcode & 15];
	add(r, w->poster && w->poller, w->done.ns - w->post.ns,
	    w->poller && w->done.status);
	r->bytes += ur_trace_bytes(w);
}

static void put_row(FILE *f, const struct row *r, const char *name)
{
	fprintf(f, "%12.6f %11.3f %11.3f %9llu %7llu  %s", (double)r->ns / 1e9,
		r->timed ? (double)r->ns / (double)r->timed / 1e3 : 0,
		(double)r->max_ns / 1e3, (unsigned long long)r->calls,
		(unsigned long long)r->errors, name);
}

static void put_requests(struct ur_trace_out *o)
{
	static const char line[] =
		"     seconds       us/wr      max us  requests  errors  request\n";
	const struct ur_trace_counts *c = o->counts;
	char name[64];

	fputs(line, o->file);
	for (uint8_t i = 0; i < 16; i++) {
		if (!c->send[i].calls)
			continue;
		snprintf(name, sizeof(name), "%s, %llu bytes\n",
			 ur_trace_wr_opcode(i),
			 (unsigned long long)c->send[i].bytes);
		put_row(o->file, &c->send[i], name);
	}
	if (c->recv.calls) {
		snprintf(name, sizeof(name), "RECV, %llu bytes\n",
			 (unsigned long long)c->recv.bytes);
		put_row(o->file, &c->recv, name);
	}
}

static const struct ur_trace_counts *sorted;

static int longer(const void *a, const void *b)
{
	uint64_t x = sorted->call[*(const uint16_t *)a].ns;
	uint64_t y = sorted->call[*(const uint16_t *)b].ns;

	return x < y ? 1 : x > y ? -1 : 0;
}

static void end(struct ur_trace_out *o)
{
	uint16_t order[UR_TRACE_CALLS];
	struct ur_trace_counts *c = o->counts;

	if (!c)
		return;
	for (uint32_t i = 0; i < UR_TRACE_CALLS; i++)
		order[i] = (uint16_t)i;
	sorted = c;
	qsort(order, UR_TRACE_CALLS, sizeof(order[0]), longer);
	fputs("     seconds     us/call      max us     calls  errors  call\n",
	      o->file);
	for (uint32_t i = 0; i < UR_TRACE_CALLS; i++) {
		const struct row *r = &c->call[order[i]];

		if (!r->calls)
			continue;
		put_row(o->file, r, ur_trace_call_name(order[i]));
		fputc('\n', o->file);
	}
	if (c->empty)
		fprintf(o->file, "%36s %9llu %7d  polls that found nothing\n",
			"", (unsigned long long)c->empty, 0);
	put_requests(o);
	free(c);
	o->counts = NULL;
}

const struct ur_trace_format ur_trace_count = { begin, call, wr, end };
