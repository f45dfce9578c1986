/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/device_faults.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "engine/internal.h"
#include "fault/state.h"

static const uint8_t pretends[UR_FAULT_KINDS] = {
	[UR_FAULT_PORT_DOWN] = UR_DEV_PORTS_DOWN,
	[UR_FAULT_NO_ADDRESS] = UR_DEV_NO_ADDRESSES,
	[UR_FAULT_REMOVE] = UR_DEV_REMOVED,
};

static bool is_of(const struct ur_fault_rule *r, const struct ur_adapter *a)
{
	return !r->device[0] || !strcmp(r->device, a->dev.name);
}

static bool pretend(struct ur_adapter *a, const struct ur_fault_set *s)
{
	uint8_t what = 0;

	for (uint32_t i = 0; s && i < s->spec.n; i++)
		if (is_of(&s->spec.rule[i], a))
			what |= pretends[s->spec.rule[i].kind];
	return ur_dev_pretend(&a->dev, what);
}

static void exhaust(struct ur_adapter *a, struct ur_fault_set *s, uint32_t rule)
{
	ur_lock(&a->cqs_lock);
	ur_list_each(struct ur_cq, c, &a->cqs, listed)
		if (ur_cq_exhaust(c))
			ur_fault_count(s, rule);
	ur_unlock(&a->cqs_lock);
}

/* urnicd may be another user's. */
static void kill_urnicd(struct ur_fault_set *s, uint32_t rule)
{
	struct ur_client *c = ur_process_client();
	pid_t pid = c ? ur_client_daemon(c) : 0;

	if (pid <= 0)
		ur_warn("fault: there is no urnicd to kill");
	else if (kill(pid, SIGKILL))
		ur_warn("fault: urnicd (pid %d) is not killed: %s", (int)pid,
			strerror(errno));
	else
		ur_fault_count(s, rule);
}

static void act(struct ur_adapter *a, struct ur_fault_set *s)
{
	for (uint32_t i = 0; i < s->spec.n; i++) {
		const struct ur_fault_rule *r = &s->spec.rule[i];

		if (!is_of(r, a))
			continue;
		if (r->kind == UR_FAULT_OVERRUN)
			exhaust(a, s, i);
		else if (r->kind == UR_FAULT_REMOVE)
			ur_fault_count(s, i);
	}
}

void ur_device_faults_begin(struct ur_fault_set *s)
{
	bool changed = false;

	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a)
			continue;
		changed |= pretend(a, s);
		if (s)
			act(a, s);
	}
	for (uint32_t i = 0; s && i < s->spec.n; i++)
		if (s->spec.rule[i].kind == UR_FAULT_KILL_URNICD)
			kill_urnicd(s, i);
	if (changed)
		ur_watcher_look();
}

void ur_device_faults_adapter(struct ur_adapter *a)
{
	(void)pretend(a, atomic_load(&ur_fault_set));
}
