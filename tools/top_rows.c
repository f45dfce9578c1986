/* SPDX-License-Identifier: BSD-2-Clause */
#include "top_rows.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

static struct ur_top_row *add(struct ur_top_rows *to)
{
	struct ur_top_row *more =
		realloc(to->row, (to->n + 1) * sizeof(*to->row));

	if (!more)
		return NULL;
	to->row = more;
	memset(&more[to->n], 0, sizeof(*more));
	return &more[to->n++];
}

void ur_top_free(struct ur_top_rows *rows)
{
	free(rows->row);
	*rows = (struct ur_top_rows){ 0 };
}

/* From a process: nothing that moves a terminal's cursor may get through. */
static void copy(char *to, size_t size, struct json_object *o, const char *name)
{
	const char *text = ur_show_text_of(o, name);

	snprintf(to, size, "%s", text ? text : "-");
	for (; *to; to++)
		if (*to < 0x20 || *to > 0x7e)
			*to = '?';
}

/* The counters of struct ur_top_row, in order, and how many bits each has. */
static const struct {
	const char *name;
	unsigned int bits;
} counters[] = {
	{ "sends", 32 },      { "receives", 32 },      { "sent_bytes", 64 },
	{ "rcvd_bytes", 64 }, { "retransmitted", 64 }, { "rnr_received", 64 },
	{ "rnr_sent", 64 },
};
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

static const struct ur_top_row *find(const struct ur_top_rows *rows,
				     const struct ur_top_row *of)
{
	for (size_t i = 0; i < rows->n; i++)
		if (rows->row[i].pid == of->pid &&
		    rows->row[i].qpn == of->qpn &&
		    !strcmp(rows->row[i].device, of->device))
			return &rows->row[i];
	return NULL;
}

/* A queue pair that was not there before has no rates yet. */
static void set_rates(struct ur_top_row *r, const struct ur_top_row *was,
		      double seconds)
{
	double rate[COUNTERS] = { 0 };

	for (size_t i = 0; was && i < COUNTERS; i++) {
		uint64_t more = r->count[i] - was->count[i];

		if (counters[i].bits == 32)
			more = (uint32_t)more;
		else if (r->count[i] < was->count[i])
			more = 0; /* the number was given to another one */
		rate[i] = (double)more / seconds;
	}
	r->tx_messages = rate[0];
	r->rx_messages = rate[1];
	r->tx_bytes = rate[2];
	r->rx_bytes = rate[3];
	r->retransmitted = rate[4];
	r->rnr = rate[5] + rate[6];
}

static void read_qp(struct ur_top_row *r, struct json_object *qp)
{
	copy(r->type, sizeof(r->type), qp, "type");
	copy(r->state, sizeof(r->state), qp, "state");
	copy(r->path, sizeof(r->path), qp, "path");
	copy(r->why, sizeof(r->why), qp, "why");
	copy(r->peer, sizeof(r->peer), qp,
	     ur_show_text_of(qp, "peer") ? "peer" : "dgid");
	r->qpn = ur_show_int(qp, "qpn");
	r->qps = 1;
	r->samples = ur_show_int(qp, "samples");
	r->p50_ns = ur_show_int(qp, "p50_ns");
	r->p90_ns = ur_show_int(qp, "p90_ns");
	r->p99_ns = ur_show_int(qp, "p99_ns");
	r->max_ns = ur_show_int(qp, "max_ns");
	r->sq = ur_show_int(qp, "sq_outstanding");
	r->rq = ur_show_int(qp, "rq_posted");
	for (size_t i = 0; i < COUNTERS; i++)
		r->count[i] = ur_show_int(qp, counters[i].name);
}

static size_t length(struct json_object *list)
{
	return list ? json_object_array_length(list) : 0;
}

static int read_process(struct ur_top_rows *to, struct json_object *process,
			const struct ur_top_rows *before, double seconds)
{
	struct json_object *report = NULL, *lanes;

	json_object_object_get_ex(process, "report", &report);
	lanes = ur_show_list(report, "lanes");
	for (size_t i = 0; i < length(lanes); i++) {
		struct json_object *lane = json_object_array_get_idx(lanes, i);
		struct json_object *qps = ur_show_list(lane, "qps");

		for (size_t k = 0; k < length(qps); k++) {
			struct ur_top_row *r = add(to);

			if (!r)
				return -ENOMEM;
			r->pid = ur_show_int(process, "pid");
			copy(r->comm, sizeof(r->comm), process, "comm");
			copy(r->device, sizeof(r->device), lane, "device");
			read_qp(r, json_object_array_get_idx(qps, k));
			set_rates(r, find(before, r), seconds);
		}
	}
	return 0;
}

int ur_top_read(struct ur_top_rows *to, struct json_object *doc, uint64_t pid,
		const struct ur_top_rows *before, double seconds)
{
	struct json_object *list = ur_show_list(doc, "processes");
	int err = 0;

	for (size_t i = 0; !err && i < length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		if (!pid || ur_show_int(o, "pid") == pid)
			err = read_process(to, o, before, seconds);
	}
	return err;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void merge(struct ur_top_row *to, const struct ur_top_row *r)
{
	to->qps++;
	to->tx_messages += r->tx_messages;
	to->rx_messages += r->rx_messages;
	to->tx_bytes += r->tx_bytes;
	to->rx_bytes += r->rx_bytes;
	to->retransmitted += r->retransmitted;
	to->rnr += r->rnr;
	to->samples += r->samples;
	to->p50_ns = most(to->p50_ns, r->p50_ns);
	to->p90_ns = most(to->p90_ns, r->p90_ns);
	to->p99_ns = most(to->p99_ns, r->p99_ns);
	to->max_ns = most(to->max_ns, r->max_ns);
	to->sq += r->sq;
	to->rq += r->rq;
	if (strcmp(to->path, r->path) != 0) {
		snprintf(to->path, sizeof(to->path), "several");
		to->why[0] = 0;
	}
}

static struct ur_top_row *same(struct ur_top_rows *rows,
			       const struct ur_top_row *r, enum ur_top_view v)
{
	for (size_t i = 0; v != UR_TOP_QPS && i < rows->n; i++)
		if (rows->row[i].pid == r->pid &&
		    (v == UR_TOP_PROCESSES ||
		     !strcmp(rows->row[i].peer, r->peer)))
			return &rows->row[i];
	return NULL;
}

static double key_of(const struct ur_top_row *r, enum ur_top_key key)
{
	switch (key) {
	case UR_TOP_BYTES:
		return r->tx_bytes + r->rx_bytes;
	case UR_TOP_LATENCY:
		return (double)r->p99_ns;
	case UR_TOP_RETRANSMITTED:
		return r->retransmitted + r->rnr;
	case UR_TOP_PID:
		return -(double)r->pid;
	case UR_TOP_MESSAGES:
	case UR_TOP_KEYS:
		break;
	}
	return r->tx_messages + r->rx_messages;
}

static int compare(const void *a, const void *b, void *key)
{
	const struct ur_top_row *x = a, *y = b;
	enum ur_top_key k = *(enum ur_top_key *)key;
	double p = key_of(x, k), q = key_of(y, k);

	if (p != q)
		return p < q ? 1 : -1;
	if (x->pid != y->pid)
		return x->pid > y->pid ? 1 : -1;
	return x->qpn > y->qpn ? 1 : x->qpn < y->qpn ? -1 : 0;
}

int ur_top_view(struct ur_top_rows *to, const struct ur_top_rows *qps,
		uint64_t pid, enum ur_top_view view, enum ur_top_key key)
{
	for (size_t i = 0; i < qps->n; i++) {
		const struct ur_top_row *r = &qps->row[i];
		struct ur_top_row *sum = same(to, r, view);

		if (pid && r->pid != pid)
			continue;
		if (sum) {
			merge(sum, r);
			continue;
		}
		sum = add(to);
		if (!sum)
			return -ENOMEM;
		*sum = *r;
		if (view != UR_TOP_QPS)
			sum->qpn = 0;
	}
	if (to->n)
		qsort_r(to->row, to->n, sizeof(*to->row), compare, &key);
	return 0;
}
