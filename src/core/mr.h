/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and memory regions.  Registration pins and copies
 * nothing (DESIGN 8).  A key is 24 random bits and the key byte; lkey and rkey
 * of a region are the same number.
 *
 * The key table is read without a lock by whoever holds any lane's lock, and
 * changed under its own mutex.  A region that was removed is freed only after
 * every lane's lock was taken once (`quiesce`), so a pointer from
 * ur_mr_lookup() is good until the reader gives up its lane.
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

struct ur_mr {
	uint32_t key;
	uint32_t access; /* UR_ACCESS_ */
	struct ur_pd *pd;
	uint64_t iova; /* what work requests and peers name */
	uint64_t length;
	uint8_t *addr; /* where iova lies in this process; NULL: null MR */
	void *object;  /* the ABI layer's */
};

struct ur_mr_slots; /* open-addressed; replaced whole when it grows */

struct ur_mr_table {
	struct ur_lock lock; /* writers */
	struct ur_mr_slots *_Atomic slots;
	uint32_t count; /* regions; lock */
	/* Returns after every lane's lock was free once; set by the engine. */
	void (*quiesce)(void *arg);
	void *quiesce_arg;
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

/* Nobody finds it any more; frees it after `quiesce`: hold no lane. */
void ur_mr_destroy(struct ur_mr_table *t, struct ur_mr *mr);

/*
 * ibv_rereg_mr(3): flags are IBV_REREG_MR_CHANGE_{TRANSLATION,PD,ACCESS}.  The
 * key stays, *mr becomes another object.  Errors as of ur_mr_create(), with
 * the region as it was.  A new translation has iova = addr.
 */
#define UR_REREG_TRANSLATION 1u
#define UR_REREG_PD	     2u
#define UR_REREG_ACCESS	     4u
int ur_mr_rereg(struct ur_mr_table *t, struct ur_mr **mr, uint32_t flags,
		struct ur_pd *pd, void *addr, uint64_t length, uint32_t access);

/* The region of a key; NULL if there is none. The caller holds a lane. */
struct ur_mr *ur_mr_lookup(const struct ur_mr_table *t, uint32_t key);

/*
 * Where [va, va + len) of the region lies, if pd, range and rights fit; NULL
 * if not.  `access` is the set that must be granted (0: local read).
 */
static inline uint8_t *ur_mr_translate(const struct ur_mr *mr,
				       const struct ur_pd *pd, uint64_t va,
				       uint64_t len, uint32_t access)
{
	uint64_t off = va - mr->iova;

	if (mr->pd != pd || (mr->access & access) != access || va < mr->iova ||
	    off > mr->length || len > mr->length - off)
		return NULL;
	return mr->addr + off;
}

#endif
