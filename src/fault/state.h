/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The faults in force in this process.  A set is made when a step of a scenario
 * begins and is never freed: a thread may be reading it.
 */
#ifndef UR_FAULT_STATE_H
#define UR_FAULT_STATE_H

#include <stdatomic.h>

#include "fault/spec.h"

struct ur_fault_count {
	_Atomic uint64_t seen; /* packets or calls that the rule is for */
	_Atomic uint64_t done; /* faults injected */
};

struct ur_fault_set {
	struct ur_fault_spec spec;
	struct ur_fault_count count[UR_FAULT_RULES];
};

/* Those in force; NULL: none.  Written by the engine's thread of faults. */
extern struct ur_fault_set *_Atomic ur_fault_set;
/* Injected since the process began, by kind. */
extern _Atomic uint64_t ur_fault_done[UR_FAULT_KINDS];

/* NULL: no memory. */
struct ur_fault_set *ur_fault_set_new(const struct ur_fault_spec *spec);

/*
 * Does the rule inject a fault now?  `number` counts from 0 what it is for, in
 * its stream (of a lane and direction, or the calls of a verb).
 */
bool ur_fault_is_due(struct ur_fault_set *s, uint32_t rule, uint32_t stream,
		     uint64_t number);

/* The rule was injected once; for what is no packet and no call. */
void ur_fault_count(struct ur_fault_set *s, uint32_t rule);

/*
 * What delay, jitter, rate, slow and kill do to a packet or a piece of a stream, and to
 * the thread; nothing for rules of other kinds.  `draw`: in millionths, for jitter.
 */
void ur_fault_pace(const struct ur_fault_rule *r, uint32_t draw,
		   uint64_t *delay_ns, uint64_t *bits_per_s);

/*
 * The engine's, NULL before: forks soon, a child that lives up to life_ns; `draw`, in
 * millionths, says when and how long.  One at a time: until ur_fault_forking is clear.
 */
extern void (*ur_fault_fork)(uint64_t life_ns, uint32_t draw);
extern _Atomic bool ur_fault_forking;

/* 0, or -errno: this call of the verb is to fail with it. */
int ur_fault_call_slow(enum ur_fault_verb verb);

static inline int ur_fault_call(enum ur_fault_verb verb)
{
	if (__builtin_expect(!atomic_load_explicit(&ur_fault_set,
						   memory_order_relaxed),
			     1))
		return 0;
	return ur_fault_call_slow(verb);
}

#endif
