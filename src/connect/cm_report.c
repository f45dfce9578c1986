/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections in the report of a process (report.c):
 *
 *   "connections":[{"state":"ESTABLISHED","local_id":1,"remote_id":2,
 *     "local_qpn":3,"remote_qpn":4,"service_id":"0x1061c06",
 *     "local":"::ffff:10.0.0.1","local_port":7174,
 *     "remote":"::ffff:10.0.0.2","remote_port":33000}, …],
 *   "cm_counters":{"received":3, …}
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "connect/cm_roce.h"
#include "engine/hooks.h"
#include "engine/report.h"

static void add_connection(void *arg, const struct ur_cm_id *id)
{
	struct json_object *o = json_object_new_object();
	struct ur_cm_info info;
	char text[32];

	ur_cm_id_info(id, &info);
	ur_report_string(o, "state", info.state);
	ur_report_int(o, "local_id", info.local_id);
	ur_report_int(o, "remote_id", info.remote_id);
	ur_report_int(o, "local_qpn", info.local_qpn);
	ur_report_int(o, "remote_qpn", info.remote_qpn);
	snprintf(text, sizeof(text), "0x%" PRIx64, info.service_id);
	ur_report_string(o, "service_id", text);
	ur_report_gid(o, "local", info.path.local);
	ur_report_int(o, "local_port", info.path.local_port);
	ur_report_gid(o, "remote", info.path.remote);
	ur_report_int(o, "remote_port", info.path.remote_port);
	json_object_array_add(arg, o);
}

static struct json_object *counters(struct ur_cm_roce *rt)
{
	const struct ur_qp1_counters *q = ur_qp1_counters(rt->qp1);
	const struct ur_cm_counters *c = ur_cm_counters(rt->cm);
	struct json_object *o = json_object_new_object();

#define X(name) ur_report_int(o, #name, c->name);
	UR_CM_COUNTERS(X)
#undef X
	ur_report_int(o, "send_errors", q->send_errors);
	ur_lock(&rt->inbox_lock);
	ur_report_int(o, "drop_inbox", rt->inbox_lost);
	ur_unlock(&rt->inbox_lock);
	return o;
}

void ur_cm_hook_report(struct json_object *root)
{
	struct ur_cm_roce *rt = ur_cm_roce_started();
	struct json_object *list;

	if (!rt)
		return;
	list = json_object_new_array();
	ur_lock(&rt->cmt->lock);
	ur_cm_for_each(rt->cm, add_connection, list);
	json_object_object_add(root, "connections", list);
	json_object_object_add(root, "cm_counters", counters(rt));
	ur_unlock(&rt->cmt->lock);
}
