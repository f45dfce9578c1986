/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The export segment: what a process shows its peers on the same host of its
 * memory regions and queue pairs.  A memfd that can be neither resized nor
 * written by others: one page of header, then two tables of entries.
 *
 * A table has levels of growing size; an entry is in the first level that has
 * room in its key's group of eight.  So a process with few regions touches few
 * pages, and a lookup is bounded whatever the segment holds.  An entry that
 * finds no room is not exported: peers then send requests to the process
 * itself.
 *
 * An entry's sequence number is odd while it changes, and unique after each
 * change, so (key, sequence) names one registration.  Only the owner writes.  A
 * reader trusts nothing: it copies the entry and checks the copy.
 */
#ifndef UR_SHM_SEGMENT_H
#define UR_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_SEG_MAGIC  0x74726f7078656e75ULL /* "unexport" */
#define UR_SEG_LEVELS 4u
#define UR_SEG_GROUP  8u
#define UR_SEG_SLOTS  (0x400u + 0x2000u + 0x10000u + 0x80000u)

struct ur_seg_entry {
	_Atomic uint64_t seq;
	uint32_t key;	 /* rkey or QP number; 0: empty */
	uint32_t access; /* UR_ACCESS_ */
	uint64_t pd;
	union {
		struct {
			uint64_t iova;
			uint64_t length;
			uint64_t addr; /* where iova lies in the owner */
			uint64_t
				served; /* owner: some peer may have it mapped */
		} mr;
		struct {
			uint32_t dest_qpn;
		} qp;
	};
	uint64_t spare;
};

_Static_assert(sizeof(struct ur_seg_entry) == 64, "a cache line");

/* Reading a page allocates it: unused levels are not read. */
struct ur_seg_table {
	_Alignas(64) _Atomic uint32_t levels; /* 1 … UR_SEG_LEVELS, or 0 */
	uint64_t serial;		      /* owner: entries put so far */
	_Alignas(64) struct ur_seg_entry slot[UR_SEG_SLOTS];
};

struct ur_seg {
	uint64_t magic;
	uint64_t nonce[2];	/* random … */
	uint64_t nonce_addr;	/* its address in the owner */
	_Atomic uint32_t whole; /* copy by ur_guard_copy_whole() */
	uint8_t pad[4096 - 36];
	struct ur_seg_table mrs;
	struct ur_seg_table qps;
};

/*
 * A consistent copy of the entry of a key, and its address; NULL: none. *out is
 * written only on success.
 */
const struct ur_seg_entry *ur_seg_find(const struct ur_seg_table *t,
				       uint32_t key, struct ur_seg_entry *out);

/* Has the entry still the sequence number of a copy? Acquire. */
static inline bool ur_seg_same(const struct ur_seg_entry *e, uint64_t seq)
{
	return atomic_load_explicit(&e->seq, memory_order_seq_cst) == seq;
}

/*
 * For the owner, under its lock.  Put: store `from` (without its seq) in a free
 * slot; NULL: no room.  Drop: with a full barrier, after which no reader finds
 * it.
 */
struct ur_seg_entry *ur_seg_put(struct ur_seg_table *t,
				const struct ur_seg_entry *from);
void ur_seg_drop(struct ur_seg_entry *e);

/* Slots that may hold an entry: the first ones. */
uint32_t ur_seg_used(const struct ur_seg_table *t);

#endif
