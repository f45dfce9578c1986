/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why did this end?  From the flight recorders (core/record.h) of one process or
 * several, which may be both ends of a queue pair.  What is in them is not
 * trusted.
 */
#ifndef UR_EXPLAIN_EXPLAIN_H
#define UR_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/record.h"

/* Where the cause is. */
enum ur_xp_where {
	UR_XP_HERE, /* the process of the queue pair */
	UR_XP_PEER,
	UR_XP_BOTH, /* the two do not fit each other */
	UR_XP_NETWORK,
};

/* One row of the table (causes.c). */
struct ur_cause {
	const char *name;
	uint8_t type;	   /* of the event that shows it: enum ur_record_type */
	uint8_t code;	   /* UR_XP_ANY: any */
	uint8_t side;	   /* the same */
	uint8_t condition; /* enum ur_condition (internal.h) */
	uint8_t where;	   /* enum ur_xp_where */
	const char *why;
	const char *change;
};
#define UR_XP_ANY 255u

extern const struct ur_cause ur_causes[];
extern const size_t ur_cause_count;

struct ur_xp_process {
	const struct ur_record_file *file;
	uint32_t id;
	uint32_t pid;
	uint32_t uid;
	bool runs;
	char comm[17];
};

struct ur_xp_set {
	struct ur_xp_process *process;
	uint32_t n;
	uint64_t now_ns; /* CLOCK_MONOTONIC; of a saved file: when it was */
};

#define UR_XP_TEXT 384u

struct ur_verdict {
	const struct ur_cause *cause; /* NULL: nothing to explain */
	enum ur_xp_where where;
	uint32_t pid;
	uint32_t qpn;	   /* 0: of the process */
	uint32_t peer_pid; /* 0: not known here */
	uint32_t peer_qpn;
	uint64_t at_ns;	       /* the first such event; CLOCK_MONOTONIC */
	char what[UR_XP_TEXT]; /* what the application saw */
	char why[UR_XP_TEXT];
	char expected[UR_XP_TEXT]; /* this and the next may be empty */
	char found[UR_XP_TEXT];
	char before[UR_XP_TEXT];
	char change[UR_XP_TEXT];
};

/* A queue pair of process p. False: nothing is wrong with it, as far as known;
 * v->what says what it does. */
bool ur_explain_qp(const struct ur_xp_set *set, uint32_t p,
		   const struct ur_record_ring *ring, struct ur_verdict *v);

/* An event of process p itself.  False: there is nothing to explain; v->what is an
 * injected fault, or empty. */
bool ur_explain_note(const struct ur_xp_set *set, uint32_t p,
		     const struct ur_record_event *e, struct ur_verdict *v);

/* The same from this process's own record only. */
void ur_explain_own(const struct ur_record_file *file,
		    const struct ur_record_ring *ring, uint64_t now_ns,
		    struct ur_verdict *v);

/* One line of history. */
void ur_explain_event(const struct ur_record_event *e, uint64_t now_ns,
		      char *text, size_t size);

#endif
