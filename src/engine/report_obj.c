/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the report (report.c) with what belongs to no lane:
 *
 *   {"device":"urnic0","cqs":[{"handle":3,"cqe":127,"entries":0,"qps":2,
 *     "armed":"any","channel":true,"overrun":false}, …],
 *    "mr_count":1,"mr_bytes":4096,"mrs":[{"key":"0x1a2b3c00",
 *     "address":"0x7f…","iova":"0x7f…","length":4096,"access":"lwr",
 *     "windows":0}, …]}
 *
 * Access: l, w, r, a: local write, remote write, read, atomic; b: windows may
 * be bound.  At most ROWS_MAX of each are listed.
 */
#include <json-c/json.h>
#include <stdio.h>

#include "core/cq.h"
#include "core/mr.h"
#include "engine/internal.h"
#include "engine/report.h"

#define ROWS_MAX 4096u

static void add_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static void add_hex(struct json_object *o, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%lx", (unsigned long)value);
	ur_report_string(o, key, text);
}

static struct json_object *cq_object(struct ur_cq *cq)
{
	static const char *const armed[] = {
		[UR_CQ_IDLE] = "no",
		[UR_CQ_ARMED_SOLICITED] = "solicited",
		[UR_CQ_ARMED_ANY] = "any",
	};
	struct json_object *o = json_object_new_object();

	ur_latch_lock(&cq->lock);
	ur_report_int(o, "handle", cq->handle);
	ur_report_int(o, "cqe", cq->cqe);
	ur_report_int(o, "entries",
		      atomic_load(&cq->tail) - atomic_load(&cq->head));
	ur_report_int(o, "qps", atomic_load(&cq->users));
	ur_report_string(o, "armed", armed[atomic_load(&cq->armed)]);
	add_bool(o, "channel", cq->channel != NULL);
	add_bool(o, "overrun", cq->overrun);
	ur_latch_unlock(&cq->lock);
	return o;
}

static struct json_object *cq_list(struct ur_adapter *a)
{
	struct json_object *list = json_object_new_array();
	uint32_t n = 0;

	ur_lock(&a->cqs_lock);
	ur_list_each(struct ur_cq, c, &a->cqs, listed) {
		if (n++ == ROWS_MAX)
			break;
		json_object_array_add(list, cq_object(c));
	}
	ur_unlock(&a->cqs_lock);
	return list;
}

struct regions {
	struct json_object *list;
	uint64_t count;
	uint64_t bytes;
};

static void add_access(struct json_object *o, uint32_t access)
{
	static const struct {
		uint32_t right;
		char letter;
	} rights[] = {
		{ UR_ACCESS_LOCAL_WRITE, 'l' },
		{ UR_ACCESS_REMOTE_WRITE, 'w' },
		{ UR_ACCESS_REMOTE_READ, 'r' },
		{ UR_ACCESS_REMOTE_ATOMIC, 'a' },
		{ UR_ACCESS_MW_BIND, 'b' },
	};
	char text[sizeof(rights) / sizeof(rights[0]) + 1] = "";
	unsigned int n = 0;

	for (unsigned int i = 0; i < sizeof(rights) / sizeof(rights[0]); i++)
		if (access & rights[i].right)
			text[n++] = rights[i].letter;
	ur_report_string(o, "access", text);
}

/* Windows are counted with their regions. */
static void add_mr(void *arg, const struct ur_mr *mr)
{
	struct regions *r = arg;
	struct json_object *o;

	if (mr->window)
		return;
	r->bytes += mr->kind == UR_MR_NULL ? 0 : mr->length;
	if (r->count++ >= ROWS_MAX)
		return;
	o = json_object_new_object();
	add_hex(o, "key", atomic_load(&mr->key));
	add_hex(o, "address", (uintptr_t)mr->addr);
	add_hex(o, "iova", mr->iova);
	ur_report_int(o, "length", mr->length);
	add_access(o, mr->access);
	ur_report_int(o, "windows", mr->windows);
	json_object_array_add(r->list, o);
}

struct json_object *ur_report_objects(struct ur_adapter *a)
{
	struct json_object *o = json_object_new_object();
	struct regions r = { .list = json_object_new_array() };

	ur_report_string(o, "device", a->dev.name);
	json_object_object_add(o, "cqs", cq_list(a));
	ur_mr_for_each(&a->mrs, add_mr, &r);
	ur_report_int(o, "mr_count", r.count);
	ur_report_int(o, "mr_bytes", r.bytes);
	json_object_object_add(o, "mrs", r.list);
	return o;
}
