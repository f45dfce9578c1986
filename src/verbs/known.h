/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which objects of the ABI there are.  The kernel finds an object by the number
 * in its `handle` and answers ENOENT if there is none; here the address finds
 * it, and the number is compared before anything else of the object is used.
 * So a freed or damaged object is an error of the call and not a crash.
 *
 * Posting, polling and arming do not ask.  They are safe on an object that was
 * destroyed a short time ago: see urv_retire().
 */
#ifndef UR_VERBS_KNOWN_H
#define UR_VERBS_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

enum urv_kind {
	URV_CONTEXT, /* has no number; as those below that are marked so */
	URV_PD,
	URV_MR,
	URV_MW,
	URV_DM,
	URV_AH,
	URV_CHANNEL, /* - */
	URV_CQ,
	URV_SRQ,
	URV_QP,
	URV_XRCD, /* - */
	URV_TD,	  /* - */
	URV_WQ,
	URV_RWQ_TABLE,
	URV_FLOW,
	URV_COUNTERS, /* - */
	URV_DMAH,     /* - */
	URV_KINDS,
};

/* In each object, for the time in which it is known. */
struct urv_known {
	struct urv_known *next; /* in its bucket */
	const void *object;	/* what the application has */
	uint32_t handle;
	uint8_t kind;
	bool ending; /* a thread is about to destroy it */
};

/* The object is complete; its number is its own from now on. */
void urv_known_add(struct urv_known *k, enum urv_kind kind, const void *object);

/* 0, or -ENOENT: no such object of that kind, or not with that number. */
int urv_check(enum urv_kind kind, const void *object);

/*
 * The same for who destroys it: one thread alone gets 0, and then says what
 * came of it.  rc not 0: it stays.  0: nobody finds it any more, and its memory
 * may go.
 */
int urv_ending(enum urv_kind kind, const void *object);
int urv_ended(struct urv_known *k, int rc);

/*
 * In the place of free() for what the application knows.  The memory of the
 * last few objects of each kind is kept as it was, because the inline functions
 * of verbs.h read the context in it before they call us.
 */
void urv_retire(enum urv_kind kind, void *memory);

#endif
