/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC (IBTA annex A14): domains, and the shared receive queues that peers name
 * by number. A target queue pair has neither a protection domain nor completion
 * queues: it uses those of the queue that a request names, which must be of the
 * target's domain.
 *
 * The table is read without a lock by any thread that holds a lane's lock.
 * After removing a queue, each lane's lock is taken once before the queue is
 * freed.
 */
#ifndef UR_CORE_XRC_H
#define UR_CORE_XRC_H

#include "core/srq.h"

#define UR_SRQN_MASK	  0xffffffu
#define UR_SRQ_INDEX_MASK ((1u << UR_SLOT_SHIFT) - 1u)

struct ur_xrcd {
	_Atomic uint32_t users; /* SRQs and target QPs: closing needs 0 */
	/* Constant: opened with a file and so shared with other processes. */
	bool shared;
	uint64_t dev;
	uint64_t ino;
	uint32_t device;
};

struct ur_srq_table {
	struct ur_lock lock; /* writers */
	uint32_t next;	     /* index to try first; lock */
	uint32_t count;	     /* lock */
	struct ur_srq *_Atomic slots[1u << UR_SLOT_SHIFT];
};

/* NULL: out of memory. */
struct ur_srq_table *ur_srq_table_new(void);
void ur_srq_table_free(struct ur_srq_table *t);

/* Give the queue a number with those upper ten bits. -ENOMEM: no number is
 * free. */
int ur_srq_table_add(struct ur_srq_table *t, struct ur_srq *srq, uint32_t slot);
void ur_srq_table_remove(struct ur_srq_table *t, struct ur_srq *srq);

/*
 * The queue of that number in the domain; NULL: none. The caller holds a lane.
 */
struct ur_srq *ur_srq_lookup(const struct ur_srq_table *t, uint32_t number,
			     const struct ur_xrcd *xrcd);

/* From now on the lane `bit` (1 << number) may complete on the CQs of the
 * domain's queues. */
void ur_srq_table_feed(struct ur_srq_table *t, const struct ur_xrcd *xrcd,
		       uint64_t bit);

#endif
