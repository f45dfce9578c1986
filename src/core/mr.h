/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and memory regions. Registration pins and copies nothing.
 * A key is 24 random bits and the key byte; lkey and rkey of a region are
 * equal. Memory windows (mw.h) are in the same table, since peers name either
 * by its key.
 *
 * The key table is read without a lock by any thread that holds a lane's lock,
 * and changed under its own mutex. A removed region is freed only after every
 * lane's lock was taken once (`quiesce`), so a pointer from ur_mr_lookup() is
 * valid until the reader unlocks its lane, or while `changes` is unchanged
 * (struct ur_mr_hint).
 */
#ifndef UR_CORE_MR_H
#define UR_CORE_MR_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/lock.h"
#include "core/types.h"

struct ur_pd {
	_Atomic uint32_t users; /* MRs, QPs, AHs, SRQs: dealloc needs 0 */
	uint32_t handle;
};

enum ur_mr_kind {
	UR_MR_MEMORY,  /* of the application */
	UR_MR_NULL,    /* reads as zeros, discards writes */
	UR_MR_FOREIGN, /* device memory, dma-buf: mapped by the ABI layer */
	UR_MR_REMOTE,  /* of another process: addr is a base/remote.h address */
	UR_MR_INDIRECT, /* blocks of other regions: umr.h */
};

struct ur_mw;
struct ur_umr_list;

struct ur_mr {
	_Atomic uint32_t key; /* a window's changes with each bind */
	uint32_t access;      /* UR_ACCESS_ */
	struct ur_pd *pd;
	uint64_t iova; /* base address in work requests and for peers */
	uint64_t length;
	uint8_t *addr; /* address of iova in this process */
	void *object;  /* the ABI layer's */
	enum ur_mr_kind kind;
	struct ur_mw *window; /* the window that this is; NULL: a region */
	uint32_t windows;     /* bound to it; table lock */
	uint32_t max_list;    /* indirect: blocks of its lists */
	struct ur_umr_list *_Atomic list; /* indirect; NULL: empty */
};

struct ur_mr_slots; /* open-addressed; replaced whole when it grows */

struct ur_mr_table {
	struct ur_lock lock; /* writers */
	struct ur_mr_slots *_Atomic slots;
	/* Starts at 1; changes before a removed region may be freed. */
	_Atomic uint64_t changes;	     /* written under lock */
	uint32_t count;			     /* regions; lock */
	uint32_t nviews;		     /* windows; lock */
	struct ur_umr_list *_Atomic retired; /* umr.c */
	_Atomic uint32_t retired_blocks;     /* of these, about */
	/* Returns after every lane's lock was free once; set by the engine. */
	void (*quiesce)(void *arg);
	/* The same, but what lanes hold to send later is left to them: it may
	 * point at memory of regions that are still registered. */
	void (*wait_readers)(void *arg);
	void *quiesce_arg;
	/*
	 * A region was added (`was` is NULL), is being removed (`is` is NULL),
	 * or was replaced under the same key; set by the engine, or NULL. The
	 * old one is not freed before this returns. No lock is held.
	 */
	void (*changed)(void *arg, const struct ur_mr *was,
			const struct ur_mr *is);
	void *changed_arg;
};

int ur_mr_table_init(struct ur_mr_table *t);
void ur_mr_table_fini(struct ur_mr_table *t);

/*
 * Register.  -EINVAL: remote write or atomic without local write, range wraps,
 * ON_DEMAND and other bits are accepted, unknown bits refused; -EFAULT: some
 * page of the range is not mapped with that access (not asked for ON_DEMAND);
 * -ENOMEM: UR_MAX_MR reached.  With ZERO_BASED iova is 0.
 */
int ur_mr_create(struct ur_mr_table *t, struct ur_pd *pd, void *addr,
		 uint64_t length, uint64_t iova, uint32_t access,
		 struct ur_mr **out);

/* A region of the largest length whose local key is valid for any address:
 * reads give zeros, writes are discarded. Peers have no access. */
int ur_mr_create_null(struct ur_mr_table *t, struct ur_pd *pd,
		      struct ur_mr **out);

/*
 * Insert a region of another process under the key it has there: `want`
 * describes it and is not validated. -EEXIST: the upper bits of the key are
 * used in this table; -ENOMEM.
 */
int ur_mr_import(struct ur_mr_table *t, const struct ur_mr *want,
		 struct ur_mr **out);

/* Removes it, then frees it after `quiesce`: hold no lane. -EBUSY while windows
 * are bound to it (IBTA 11.2.8.8). */
int ur_mr_destroy(struct ur_mr_table *t, struct ur_mr *mr);

/*
 * ibv_rereg_mr(3): flags are IBV_REREG_MR_CHANGE_{TRANSLATION,PD,ACCESS}. The
 * key stays, *mr becomes another object. Errors as of ur_mr_create(), with the
 * region unchanged. A new translation has iova = addr. -EINVAL: a null region;
 * -EOPNOTSUPP: memory that the ABI layer has mapped for it; -EBUSY: windows are
 * bound. Running operations go on: the intersection of the old and the new
 * range stays accessible throughout, so a region may be extended during
 * transfers (a wanted feature in libibverbs' own list).
 */
#define UR_REREG_TRANSLATION 1u
#define UR_REREG_PD	     2u
#define UR_REREG_ACCESS	     4u
int ur_mr_rereg(struct ur_mr_table *t, struct ur_mr **mr, uint32_t flags,
		struct ur_pd *pd, void *addr, uint64_t length, uint32_t access);

/* The region of a key; NULL if there is none, or it is a window's. The caller
 * holds a lane. */
struct ur_mr *ur_mr_lookup(const struct ur_mr_table *t, uint32_t key);

/* The last region looked up; all zero: none yet. */
struct ur_mr_hint {
	const struct ur_mr *mr;
	uint64_t changes; /* the table's, before the lookup */
};

/*
 * Cached lookup, for repeated use of one key of one table. If nothing was
 * removed before `changes` is read, a later removal waits for this thread's
 * lane before it frees the region.
 */
static inline const struct ur_mr *
ur_mr_lookup_again(const struct ur_mr_table *t, uint32_t key,
		   struct ur_mr_hint *hint)
{
	uint64_t now = atomic_load_explicit(&t->changes, memory_order_acquire);
	const struct ur_mr *mr = hint->mr;

	if (mr && hint->changes == now && mr->key == key)
		return mr;
	mr = ur_mr_lookup(t, key);
	if (mr)
		*hint = (struct ur_mr_hint){ mr, now };
	return mr;
}

/* The region or window of a key, or of a key's upper 24 bits alone. */
struct ur_mr *ur_mr_find(const struct ur_mr_table *t, uint32_t key);
struct ur_mr *ur_mr_find_family(const struct ur_mr_table *t, uint32_t key);

/* Give `mr` a key and insert it, if fewer than `max` of its kind exist
 * (`count`); -ENOMEM. Removing it waits until no lane uses it. */
int ur_mr_table_add(struct ur_mr_table *t, struct ur_mr *mr, uint32_t *count,
		    uint32_t max);
void ur_mr_table_remove(struct ur_mr_table *t, struct ur_mr *mr,
			uint32_t *count);

/* Call fn for every region and window that has a key, under the table's lock. */
void ur_mr_for_each(struct ur_mr_table *t,
		    void (*fn)(void *arg, const struct ur_mr *mr), void *arg);

/* For callers without a lane: a copy of the region's current state; -ENOENT. */
int ur_mr_peek(struct ur_mr_table *t, uint32_t key, struct ur_mr *out);

/* The address of [va, va + len) of the region, if pd, range and rights fit;
 * else NULL. `access` is the set that must be granted (0: local read). */
static inline uint8_t *ur_mr_translate(const struct ur_mr *mr,
				       const struct ur_pd *pd, uint64_t va,
				       uint64_t len, uint32_t access)
{
	uint64_t off = va - mr->iova;

	if (mr->pd != pd || (mr->access & access) != access || va < mr->iova ||
	    off > mr->length || len > mr->length - off)
		return NULL;
	/* As an integer: the region of all addresses begins at NULL. */
	return (uint8_t *)((uintptr_t)mr->addr + off);
}

#endif
