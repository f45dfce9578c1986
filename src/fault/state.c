/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/state.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/sys.h"

struct ur_fault_set *_Atomic ur_fault_set;
_Atomic uint64_t ur_fault_done[UR_FAULT_KINDS];
void (*ur_fault_fork)(uint64_t life_ns, uint32_t draw);
_Atomic bool ur_fault_forking;

struct ur_fault_set *ur_fault_set_new(const struct ur_fault_spec *spec)
{
	struct ur_fault_set *s = calloc(1, sizeof(*s));

	if (s)
		s->spec = *spec;
	return s;
}

static bool takes_first(struct ur_fault_count *c, uint64_t first)
{
	uint64_t n = atomic_load(&c->done);

	while (n < first)
		if (atomic_compare_exchange_weak(&c->done, &n, n + 1))
			return true;
	return false;
}

bool ur_fault_is_due(struct ur_fault_set *s, uint32_t rule, uint32_t stream,
		     uint64_t number)
{
	const struct ur_fault_rule *r = &s->spec.rule[rule];
	struct ur_fault_count *c = &s->count[rule];
	uint64_t seen = atomic_fetch_add(&c->seen, 1);

	if (r->nth && seen + 1 != r->nth)
		return false;
	if (r->millionths < UR_FAULT_MILLION &&
	    ur_fault_draw(s->spec.seed, rule, stream, number) >= r->millionths)
		return false;
	if (r->first && !takes_first(c, r->first))
		return false;
	if (!r->first)
		atomic_fetch_add(&c->done, 1);
	atomic_fetch_add(&ur_fault_done[r->kind], 1);
	return true;
}

void ur_fault_count(struct ur_fault_set *s, uint32_t rule)
{
	atomic_fetch_add(&s->count[rule].seen, 1);
	atomic_fetch_add(&s->count[rule].done, 1);
	atomic_fetch_add(&ur_fault_done[s->spec.rule[rule].kind], 1);
}

static void stand_still(uint64_t ns)
{
	const struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
				    .tv_nsec = (long)(ns % 1000000000u) };

	(void)ur_sys_nanosleep(&t);
}

/* That part of the value. */
static uint64_t part(uint64_t value, uint32_t millionths)
{
	return value / UR_FAULT_MILLION * millionths +
	       value % UR_FAULT_MILLION * millionths / UR_FAULT_MILLION;
}

void ur_fault_pace(const struct ur_fault_rule *r, uint32_t draw,
		   uint64_t *delay_ns, uint64_t *bits_per_s)
{
	if (r->kind == UR_FAULT_DELAY)
		*delay_ns += r->value;
	else if (r->kind == UR_FAULT_JITTER)
		*delay_ns += part(r->value, draw);
	else if (r->kind == UR_FAULT_RATE)
		*bits_per_s = r->value;
	else if (r->kind == UR_FAULT_SLOW)
		stand_still(r->value);
	else if (r->kind == UR_FAULT_KILL)
		(void)raise(SIGKILL);
}

/* Calls while a child is made or lives are not counted. */
static void fork_if_due(struct ur_fault_set *s, uint32_t i,
			enum ur_fault_verb verb)
{
	uint64_t n;

	if (!ur_fault_fork || atomic_exchange(&ur_fault_forking, true))
		return;
	n = atomic_load(&s->count[i].seen);
	if (ur_fault_is_due(s, i, verb, n))
		ur_fault_fork(s->spec.rule[i].value,
			      ur_fault_draw(~s->spec.seed, i, verb, n));
	else
		atomic_store(&ur_fault_forking, false);
}

int ur_fault_call_slow(enum ur_fault_verb verb)
{
	struct ur_fault_set *s =
		atomic_load_explicit(&ur_fault_set, memory_order_acquire);

	for (uint32_t i = 0; s && i < s->spec.n; i++) {
		const struct ur_fault_rule *r = &s->spec.rule[i];

		if (r->kind == UR_FAULT_FORK &&
		    (r->verb == verb || r->verb == UR_FAULT_VERB_COUNT))
			fork_if_due(s, i, verb);
		if (r->kind != UR_FAULT_FAIL || r->verb != verb ||
		    !ur_fault_is_due(s, i, verb,
				     atomic_load(&s->count[i].seen)))
			continue;
		ur_info_some("fault: %.*s", r->len, s->spec.text + r->at);
		return -r->error;
	}
	return 0;
}
