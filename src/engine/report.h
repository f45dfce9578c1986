/* SPDX-License-Identifier: BSD-2-Clause */
/* For a lane's part of the report (report.c). */
#ifndef UR_ENGINE_REPORT_H
#define UR_ENGINE_REPORT_H

#include <stdint.h>

#include "core/qp.h"

struct json_object;
struct ur_lane;

struct ur_report_qps {
	struct ur_lane *lane;
	struct json_object *array;
	struct ur_latency latency; /* of all of them */
};

void ur_report_int(struct json_object *o, const char *key, uint64_t value);
void ur_report_string(struct json_object *o, const char *key, const char *s);
void ur_report_gid(struct json_object *o, const char *key,
		   const uint8_t gid[16]);

/* The lists of a lane as its members "qps" and "latency". */
void ur_report_add_qps(struct json_object *o, const struct ur_report_qps *list);

/* Adds a QP to the list, with the fields that every QP has, and counts for the
 * next report (core/watch.h). */
struct json_object *ur_report_qp(struct ur_report_qps *list,
				 const struct ur_qp *qp);

/* The path that requests take, and why it is not a faster one. */
void ur_report_path(struct json_object *o, const char *path, const char *why);

/* Called by the watcher when ur_report_watch_ns(), which was until_ns, has passed:
 * no tool asks for reports any more. */
void ur_report_unwatch(uint64_t until_ns);
/* CLOCK_MONOTONIC; UR_NEVER: nothing is watched. */
uint64_t ur_report_watch_ns(void);

/* In a child of fork(). */
void ur_report_child(void);

/* report_obj.c: queues and regions of an adapter, which belong to no lane. */
struct ur_adapter;
struct json_object *ur_report_objects(struct ur_adapter *a);

#endif
