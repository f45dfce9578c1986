/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `urnic show` tells about this process, as JSON:
 *
 *   {"pid":1,"command":"x","lanes":[{"device":"urnic0","id":0,"slot":1,
 *     "link":"udp","rx_buffer":8388608,"rx_overflow":0,"tx_errors":0,
 *     "tx_fragmented":0,
 *     "qps":[{"qpn":16385,"type":"RC","state":"RTS","sq_outstanding":0,
 *             "rq_posted":0,"sends":0,"receives":0,"sent_bytes":0,
 *             "rcvd_bytes":0,"samples":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,
 *             "max_ns":0,"retransmitted":0,"rnr_received":0,"rnr_sent":0,
 *             "path":"sockets","why":"…","dest_qpn":16386,"sgid":"…",
 *             "dgid":"…","sq_psn":1,"rq_psn":1}, …],
 *     "latency":{"samples":0,"p50_ns":0, …},
 *     "counters":{"sent_pkts":0, …}}]}
 *
 * docs/show-schema.json describes it (SCHEMA of tools/show.c).
 *
 * Connections of RoCE stand beside the lanes (cm_report.c), as do each
 * device's completion queues and memory regions (report_obj.c).
 *
 * A lane with a queue of a port that this process runs has "port", what the
 * stack of that has counted, and "port_driver": {"driver":"net_memif",
 * "queue":0,"queues":2,"spread":"by driver", …}.
 *
 * Where this process runs ports with TCP there are "lwip", the stack's counters,
 * and "lwip_ports", those of each of its ports.
 *
 * "refused" has the system calls that were refused and what that costs
 * (base/refused.h), as {"call","error","effect"}.
 *
 * A lane of iWARP has no rx_ and tx_ fields; its QPs have "local" and "peer",
 * the addresses of their connections.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/refused.h"
#include "base/timer.h"
#include "engine/faults.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "engine/report.h"
#include "engine/streams.h"

void ur_report_int(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

void ur_report_string(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, json_object_new_string(s));
}

void ur_report_gid(struct json_object *o, const char *key,
		   const uint8_t gid[16])
{
	char text[INET6_ADDRSTRLEN];

	if (inet_ntop(AF_INET6, gid, text, sizeof(text)))
		ur_report_string(o, key, text);
}

void ur_report_path(struct json_object *o, const char *path, const char *why)
{
	ur_report_string(o, "path", path);
	ur_report_string(o, "why", why);
}

static void add_latency(struct json_object *o, const struct ur_latency *l)
{
	ur_report_int(o, "samples", l->samples);
	ur_report_int(o, "p50_ns", ur_latency_at(l, 500));
	ur_report_int(o, "p90_ns", ur_latency_at(l, 900));
	ur_report_int(o, "p99_ns", ur_latency_at(l, 990));
	ur_report_int(o, "max_ns", l->max_ns);
}

void ur_report_add_qps(struct json_object *o, const struct ur_report_qps *list)
{
	struct json_object *latency = json_object_new_object();

	json_object_object_add(o, "qps", list->array);
	add_latency(latency, &list->latency);
	json_object_object_add(o, "latency", latency);
}

/* Counters of the queues run freely, over 32 bits. */
static void add_work(struct ur_report_qps *list, struct json_object *o,
		     struct ur_qp *qp)
{
	static const struct ur_latency none;
	const struct ur_qp_watch *w = qp->watch;
	const struct ur_latency *latency = w && w->on ? &w->latency : &none;
	uint32_t taken =
		atomic_load_explicit(&qp->rq.head, memory_order_relaxed);

	ur_report_int(o, "rq_posted", ur_rq_posted(&qp->rq) - taken);
	ur_report_int(o, "sends", ur_sq_head(&qp->sq));
	ur_report_int(o, "receives", taken);
	ur_report_int(o, "sent_bytes", w ? w->sent_bytes : 0);
	ur_report_int(o, "rcvd_bytes", w ? w->rcvd_bytes : 0);
	add_latency(o, latency);
	ur_latency_merge(&list->latency, latency);
	ur_report_int(o, "retransmitted", qp->retransmitted);
	ur_report_int(o, "rnr_received", qp->rnr_received);
	ur_report_int(o, "rnr_sent", qp->rnr_sent);
	(void)ur_watch_start(qp, ur_clock_ns);
}

struct json_object *ur_report_qp(struct ur_report_qps *list,
				 const struct ur_qp *qp)
{
	struct json_object *o = json_object_new_object();
	uint32_t head = atomic_load(&qp->sq.head);

	ur_report_int(o, "qpn", qp->qpn);
	ur_report_string(o, "type", ur_qp_type_name(qp->type));
	ur_report_string(o, "state", ur_qp_state_name(atomic_load(&qp->state)));
	ur_report_int(o, "sq_outstanding", ur_sq_posted(&qp->sq) - head);
	add_work(list, o, (struct ur_qp *)(uintptr_t)qp);
	json_object_array_add(list->array, o);
	/* `urnic explain` asks for a report before it reads the record. */
	ur_record_refresh((struct ur_qp *)(uintptr_t)qp);
	return o;
}

static struct json_object *lane_object(struct ur_lane *l)
{
	struct json_object *o = json_object_new_object();

	ur_lane_lock(l);
	ur_report_string(o, "device", l->adapter->dev.name);
	ur_report_int(o, "id", l->id);
	ur_report_int(o, "slot", l->slot);
	l->ops->report(l, o);
	ur_lane_unlock(l);
	return o;
}

/* CLOCK_MONOTONIC; the threads that serve the client report: the watcher's, and that
 * of the connection manager. */
static _Atomic uint64_t watch_ns = UR_NEVER;

/* Longer than the time between two reports of `urnic top`. */
#define WATCH_NS 5000000000u

uint64_t ur_report_watch_ns(void)
{
	return atomic_load_explicit(&watch_ns, memory_order_relaxed);
}

static void unwatch(void *arg, const struct ur_qp *qp)
{
	(void)arg;
	ur_watch_stop((struct ur_qp *)(uintptr_t)qp);
}

static void unwatch_lanes(struct ur_adapter *a)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		ur_lane_lock(l);
		l->ops->for_each_qp(l, unwatch, NULL);
		ur_lane_unlock(l);
	}
}

void ur_report_unwatch(uint64_t until_ns)
{
	/* Not if there was another report. */
	if (!atomic_compare_exchange_strong(&watch_ns, &until_ns, UR_NEVER))
		return;
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (a)
			unwatch_lanes(a);
	}
}

static void add_lanes(struct json_object *lanes, struct ur_adapter *a)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		json_object_array_add(lanes, lane_object(l));
	}
}

static void add_refused(struct json_object *root)
{
	struct json_object *list = json_object_new_array();

	for (enum ur_refused k = 0; k < UR_REFUSED_KINDS; k++) {
		int error = ur_refused_error(k);
		struct json_object *o;

		if (!error)
			continue;
		o = json_object_new_object();
		ur_report_string(o, "call", ur_refused_name(k));
		ur_report_string(o, "error", strerror(error));
		ur_report_string(o, "effect", ur_refused_effect(k));
		json_object_array_add(list, o);
	}
	json_object_object_add(root, "refused", list);
}

static struct json_object *make_report(void)
{
	struct json_object *root = json_object_new_object();
	struct json_object *devices = json_object_new_array();
	struct json_object *lanes = json_object_new_array();

	if (atomic_exchange(&watch_ns, ur_clock_ns() + WATCH_NS) == UR_NEVER)
		ur_watcher_wake();
	ur_report_int(root, "pid", (uint64_t)getpid());
	ur_report_string(root, "command", program_invocation_short_name);
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a)
			continue;
		add_lanes(lanes, a);
		json_object_array_add(devices, ur_report_objects(a));
	}
	json_object_object_add(root, "lanes", lanes);
	json_object_object_add(root, "devices", devices);
	ur_cm_hook_report(root);
	add_refused(root);
	ur_streams_report(root);
	ur_faults_report(root);
	return root;
}

/* The report that was too long for the thread's last call. To make it again would
 * begin another period of the latencies. */
static __thread struct json_object *too_long;

void ur_report_child(void)
{
	too_long = NULL;
}

/* Called by the client in a thread that serves it and holds no lane.  If cap
 * is too small, returns how much is needed. */
size_t ur_report(void *arg, char *buf, size_t cap)
{
	bool again = too_long != NULL;
	struct json_object *root = again ? too_long : make_report();
	const char *text;
	size_t len;

	too_long = NULL;
	text = json_object_to_json_string_length(root, JSON_C_TO_STRING_PLAIN,
						 &len);
	if (len <= cap)
		memcpy(buf, text, len);
	if (len <= cap || again)
		json_object_put(root);
	else
		too_long = root;
	return len;
}
