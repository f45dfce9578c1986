/* SPDX-License-Identifier: BSD-2-Clause */
/* `urnic top`: rates from two documents of `urnic show`. */
#ifndef UR_TOOLS_TOP_ROWS_H
#define UR_TOOLS_TOP_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct json_object;

enum ur_top_view {
	UR_TOP_PROCESSES,
	UR_TOP_QPS,
	UR_TOP_PEERS, /* a row for each process and peer */
	UR_TOP_VIEWS,
};

enum ur_top_key {
	UR_TOP_MESSAGES,
	UR_TOP_BYTES,
	UR_TOP_LATENCY, /* p99 */
	UR_TOP_RETRANSMITTED,
	UR_TOP_PID,
	UR_TOP_KEYS,
};

/* A queue pair, or the sum over some; latencies are the highest of those. */
struct ur_top_row {
	uint64_t pid;
	char comm[24];
	char device[32];
	char peer[64];
	char type[12];
	char state[8];
	char path[24];
	char why[96];
	uint64_t qpn; /* of a sum: 0 */
	uint32_t qps;
	double tx_messages; /* each second */
	double rx_messages;
	double tx_bytes;
	double rx_bytes;
	uint64_t samples;
	uint64_t p50_ns;
	uint64_t p90_ns;
	uint64_t p99_ns;
	uint64_t max_ns;
	uint64_t sq; /* requests in the queues */
	uint64_t rq;
	double retransmitted; /* each second */
	double rnr;	      /* each second, sent and received */
	/* counters, for the next one */
	uint64_t count[7];
};

struct ur_top_rows {
	struct ur_top_row *row;
	size_t n;
};

/* The queue pairs of a document; pid 0: of all processes. Rates are those since
 * `before`, which has the rows of the document before, or none. */
int ur_top_read(struct ur_top_rows *to, struct json_object *doc, uint64_t pid,
		const struct ur_top_rows *before, double seconds);

/* Those of a view, sorted, the greatest first (PIDs: the lowest); pid 0: of all
 * processes. */
int ur_top_view(struct ur_top_rows *to, const struct ur_top_rows *qps,
		uint64_t pid, enum ur_top_view view, enum ur_top_key key);

void ur_top_free(struct ur_top_rows *rows);

#endif
