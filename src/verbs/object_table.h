/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of existing ABI objects. The kernel finds an object by its `handle`
 * and returns ENOENT if there is none. Here it is found by its address, and the
 * handle is compared before anything else of the object is used. So a freed or
 * damaged object causes an error of the call and not a crash.
 *
 * Posting, polling and arming do not check. They are safe on a recently
 * destroyed object: see urv_retire().
 */
#ifndef UR_VERBS_OBJECT_TABLE_H
#define UR_VERBS_OBJECT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

enum urv_kind {
	URV_CONTEXT, /* has no handle */
	URV_PD,
	URV_MR,
	URV_MW,
	URV_DM,
	URV_AH,
	URV_CHANNEL, /* has no handle */
	URV_CQ,
	URV_SRQ,
	URV_QP,
	URV_XRCD, /* has no handle */
	URV_TD,	  /* has no handle */
	URV_WQ,
	URV_RWQ_TABLE,
	URV_FLOW,
	URV_COUNTERS, /* has no handle */
	URV_DMAH,     /* has no handle */
	URV_DCT,
	URV_KINDS,
};

/* Embedded in each object. */
struct urv_object_entry {
	struct urv_object_entry *next; /* in its bucket */
	const void *object;	       /* the application's pointer */
	uint32_t handle;
	uint8_t kind;
	bool ending; /* a thread is about to destroy it */
};

/* The object is complete; its handle does not change from now on. */
void urv_object_add(struct urv_object_entry *k, enum urv_kind kind,
		    const void *object);

/* 0, or -ENOENT: no such object of that kind, or another handle. */
int urv_check(enum urv_kind kind, const void *object);

/*
 * The same for its destruction: only one thread gets 0, and then reports the
 * result. rc not 0: it stays. 0: it is removed from the table, and its memory
 * may be freed.
 */
int urv_ending(enum urv_kind kind, const void *object);
int urv_ended(struct urv_object_entry *k, int rc);

/*
 * Replaces free() for objects of the application. The memory of the last few
 * objects of each kind is kept unchanged, because the inline functions of
 * verbs.h read the context in it before they call the library.
 */
void urv_retire(enum urv_kind kind, void *memory);

#endif
