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
};

void ur_report_int(struct json_object *o, const char *key, uint64_t value);
void ur_report_string(struct json_object *o, const char *key, const char *s);
void ur_report_gid(struct json_object *o, const char *key,
		   const uint8_t gid[16]);

/* Adds a QP to the list, with the fields that every QP has. */
struct json_object *ur_report_qp(struct ur_report_qps *list,
				 const struct ur_qp *qp);

/* report_obj.c: queues and regions of an adapter, which belong to no lane. */
struct ur_adapter;
struct json_object *ur_report_objects(struct ur_adapter *a);

#endif
