/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/late_cqs.h"

#include <string.h>

#include "core/record.h"
#include "engine/faults.h"
#include "engine/internal.h"
#include "fault/state.h"

static bool is_for(const struct ur_fault_rule *r, const struct ur_adapter *a)
{
	return r->kind == UR_FAULT_LATE_CQ &&
	       (!r->device[0] || !strcmp(r->device, a->dev.name));
}

/* ur_cq_late_fn: each queue is a stream of events of its own. */
static uint64_t late(void *arg, const struct ur_cq *cq, uint64_t number)
{
	struct ur_fault_set *s = atomic_load(&ur_fault_set);
	uint64_t ns = 0, until;

	for (uint32_t i = 0; s && i < s->spec.n; i++)
		if (is_for(&s->spec.rule[i], arg) &&
		    ur_fault_is_due(s, i, cq->handle, number))
			ns += s->spec.rule[i].value;
	if (!ns)
		return 0;
	ur_record_note(&(struct ur_record){ .type = UR_REC_FAULT,
					    .code = UR_REC_F_LATE_CQ,
					    .arg = { cq->handle, ns } });
	until = ur_clock_ns() + ns;
	ur_faults_wake_at(until);
	return until;
}

void ur_late_cqs_cq(struct ur_adapter *a, struct ur_cq *cq)
{
	const struct ur_fault_set *s = atomic_load(&ur_fault_set);
	bool any = false;

	for (uint32_t i = 0; s && i < s->spec.n; i++)
		any |= is_for(&s->spec.rule[i], a);
	/* Without such a fault only where there was one. */
	if (any || cq->late)
		ur_cq_set_late(cq, any ? late : NULL, a);
}

static void begin(struct ur_adapter *a, struct ur_cq *cq, uint64_t now_ns)
{
	ur_late_cqs_cq(a, cq);
}

static void show(struct ur_adapter *a, struct ur_cq *cq, uint64_t now_ns)
{
	ur_faults_wake_at(ur_cq_show(cq, now_ns));
}

static void for_each_cq(void (*fn)(struct ur_adapter *a, struct ur_cq *cq,
				   uint64_t now_ns),
			uint64_t now_ns)
{
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a)
			continue;
		ur_lock(&a->cqs_lock);
		ur_list_each(struct ur_cq, c, &a->cqs, listed)
			fn(a, c, now_ns);
		ur_unlock(&a->cqs_lock);
	}
	ur_evq_flush_wakes();
}

void ur_late_cqs_begin(void)
{
	for_each_cq(begin, 0);
}

void ur_late_cqs_show(uint64_t now_ns)
{
	for_each_cq(show, now_ns);
}
