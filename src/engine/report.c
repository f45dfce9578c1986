/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `urnic show` tells about this process, as JSON:
 *
 *   {"pid":1,"command":"x","lanes":[{"id":0,"slot":1,"link":"udp",
 *     "rx_buffer":8388608,"rx_overflow":0,"tx_errors":0,
 *     "qps":[{"qpn":16385,"type":"RC","state":"RTS","dest_qpn":16386,
 *             "sgid":"…","dgid":"…","sq_psn":1,"rq_psn":1,
 *             "sq_outstanding":0}, …],
 *     "counters":{"sent_pkts":0, …}}]}
 */
#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#include "engine/internal.h"

static const char *type_name(enum ur_qp_type type)
{
	switch (type) {
	case UR_QPT_RC:
		return "RC";
	case UR_QPT_UC:
		return "UC";
	case UR_QPT_UD:
		return "UD";
	}
	return "?";
}

static const char *state_name(enum ur_qp_state state)
{
	static const char *const names[UR_QPS_COUNT] = {
		[UR_QPS_RESET] = "RESET", [UR_QPS_INIT] = "INIT",
		[UR_QPS_RTR] = "RTR",	  [UR_QPS_RTS] = "RTS",
		[UR_QPS_SQD] = "SQD",	  [UR_QPS_SQE] = "SQE",
		[UR_QPS_ERR] = "ERR",
	};

	return state < UR_QPS_COUNT ? names[state] : "?";
}

static void add_int(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

static void add_string(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, json_object_new_string(s));
}

static void add_gid(struct json_object *o, const char *key,
		    const uint8_t gid[16])
{
	char text[INET6_ADDRSTRLEN];

	if (inet_ntop(AF_INET6, gid, text, sizeof(text)))
		add_string(o, key, text);
}

struct qp_list {
	const struct ur_lane *lane;
	struct json_object *array;
};

static void add_qp(void *arg, const struct ur_qp *qp)
{
	struct qp_list *list = arg;
	struct json_object *o = json_object_new_object();
	struct ur_qp_attr attr;

	memset(&attr, 0, sizeof(attr));
	ur_roce_qp_query(list->lane->roce, qp, &attr);
	add_int(o, "qpn", qp->qpn);
	add_string(o, "type", type_name(qp->type));
	add_string(o, "state", state_name(atomic_load(&qp->state)));
	if (qp->type != UR_QPT_UD) {
		add_int(o, "dest_qpn", attr.dest_qpn);
		add_gid(o, "sgid", attr.av.sgid);
		add_gid(o, "dgid", attr.av.dgid);
	}
	add_int(o, "sq_psn", attr.sq_psn);
	add_int(o, "rq_psn", attr.rq_psn);
	add_int(o, "sq_outstanding",
		atomic_load(&qp->sq.tail) - atomic_load(&qp->sq.head));
	json_object_array_add(list->array, o);
}

static struct json_object *counters(const struct ur_lane *l)
{
	const struct ur_roce_counters *c = ur_roce_counters(l->roce);
	struct json_object *o = json_object_new_object();

#define ADD(name) add_int(o, #name, c->name);
	UR_ROCE_COUNTERS(ADD)
#undef ADD
	return o;
}

static struct json_object *lane_object(struct ur_lane *l)
{
	struct json_object *o = json_object_new_object();
	struct qp_list list = { .lane = l, .array = json_object_new_array() };

	ur_lane_lock(l);
	add_int(o, "id", l->id);
	add_int(o, "slot", l->slot);
	add_string(o, "link", l->link->ops->name);
	add_int(o, "rx_buffer", l->link->rx_bytes);
	add_int(o, "rx_overflow", l->link->rx_overflow);
	add_int(o, "tx_errors", l->link->tx_errors);
	ur_roce_for_each_qp(l->roce, add_qp, &list);
	json_object_object_add(o, "qps", list.array);
	json_object_object_add(o, "counters", counters(l));
	ur_lane_unlock(l);
	return o;
}

/* Called by the client in the watcher's thread, which holds no lane.  If cap
 * is too small, the answer tells how much is needed. */
size_t ur_report(void *adapter, char *buf, size_t cap)
{
	struct ur_adapter *a = adapter;
	struct json_object *root = json_object_new_object();
	struct json_object *lanes = json_object_new_array();
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);
	const char *text;
	size_t len;

	add_int(root, "pid", (uint64_t)getpid());
	add_string(root, "command", program_invocation_short_name);
	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		json_object_array_add(lanes, lane_object(l));
	}
	json_object_object_add(root, "lanes", lanes);
	text = json_object_to_json_string_length(root, JSON_C_TO_STRING_PLAIN,
						 &len);
	if (len <= cap)
		memcpy(buf, text, len);
	json_object_put(root);
	return len;
}
