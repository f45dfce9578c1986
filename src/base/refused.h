/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel, or the sandbox around the process, refuses, and what that
 * costs.  The code that meets a refusal takes another path and records it here;
 * `urnic show` lists the refusals, `urnic doctor` has the same words.
 */
#ifndef UR_BASE_REFUSED_H
#define UR_BASE_REFUSED_H

enum ur_refused {
	UR_REFUSED_GSO,
	UR_REFUSED_GRO,
	UR_REFUSED_MEMBARRIER,
	UR_REFUSED_AIO,
	UR_REFUSED_PROCESS_VM,
	UR_REFUSED_MEMFD,
	UR_REFUSED_KINDS,
};

/* The error is an errno; the first one is kept.  Any thread; keeps errno. */
void ur_refused_note(enum ur_refused what, int error);

/* 0: not refused so far. */
int ur_refused_error(enum ur_refused what);

/* The call or option, and what is slower or missing without it. */
const char *ur_refused_name(enum ur_refused what);
const char *ur_refused_effect(enum ur_refused what);

#endif
