/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Indirect memory keys (UMR, user-mode memory registration): a key with
 * a list of blocks of other regions as its range, one after another, or such a list
 * repeated with strides. It is created empty, filled and emptied by requests in
 * a send queue, and used as any key: its range is a sequence of pieces.
 *
 * A list names its regions by their keys. They are looked up at each access, so
 * a region may be deregistered meanwhile: access to its blocks then fails.
 *
 * A key has an immutable list, which is replaced as a whole. Readers hold a
 * lane, so a replaced list is retired, and freed after `wait_readers` of the
 * table (ur_umr_reap()).
 */
#ifndef UR_CORE_UMR_H
#define UR_CORE_UMR_H

#include <sys/uio.h>

#include "core/mr.h"

struct ur_qp;
struct ur_swqe;

/* How many lists an address may pass: a key over keys over regions has 2. */
#define UR_UMR_DEPTH  4u
/* Blocks of a list. Posting copies it: 4096 take some 10 us. */
#define UR_UMR_BLOCKS 4096u
/* Blocks of an inline list, which is copied like any other. The limit is for
 * programs that size their lists by it. */
#define UR_UMR_INLINE 64u

struct ur_umr_block {
	uint64_t va;
	uint64_t bytes;
	uint64_t stride; /* from one repetition to the next */
	uint64_t begin;	 /* offset in a repetition; set by _check() */
	uint32_t lkey;
};

struct ur_umr_list {
	struct ur_umr_list *next; /* retired, or not posted yet */
	uint64_t iova;		  /* base address of the key */
	uint64_t repeats;
	uint32_t key;	 /* the key to fill */
	uint32_t access; /* UR_ACCESS_: local and remote rights of the key */
	uint32_t depth;	 /* lists on the way to the memory */
	uint32_t n;
	uint64_t period; /* bytes of a repetition; set by _check() */
	uint64_t length; /* of all repetitions; set by _check() */
	struct ur_umr_block block[];
};

/* An empty key for lists of up to `max` blocks. -EINVAL: 0 or too many; -ENOMEM.
 * Destroyed by ur_mr_destroy(). */
int ur_umr_create(struct ur_mr_table *t, struct ur_pd *pd, uint32_t max,
		  struct ur_mr **out);

/* A zeroed list for n blocks; NULL: no memory. Freed by free(). */
struct ur_umr_list *ur_umr_list_new(uint32_t n);

/* Complete a list that the caller has filled in. -EINVAL: no block or
 * repetition, a block without bytes, or addresses that wrap. */
int ur_umr_list_check(struct ur_umr_list *list);

/*
 * Requests of a queue pair. _enable: it may have them; -ENOMEM. _post: under the
 * lock of its send queue; the list of the staged request w, now the queue
 * pair's. Returns one that a flushed request has left, or NULL. _reset: nothing
 * is posted any more. _disable: it is being destroyed.
 */
int ur_umr_enable(struct ur_qp *qp);
struct ur_umr_list *ur_umr_post(struct ur_qp *qp, const struct ur_swqe *w,
				struct ur_umr_list *list);
void ur_umr_reset(struct ur_qp *qp);
void ur_umr_disable(struct ur_qp *qp);

/* Execute a request of qp; the caller holds its lane. -EINVAL: no such key, or
 * a block is not accessible as the list requires; the key is then unchanged. */
int ur_umr_request(struct ur_qp *qp, const struct ur_swqe *w);

/* Free a list and those that follow by `next`. */
void ur_umr_free_all(struct ur_umr_list *list);

/* Free retired lists, if there are many. Hold no lock. */
void ur_umr_reap(struct ur_mr_table *t);

/* mr.c: the region is freed; the table is. */
void ur_umr_free(struct ur_mr *mr);
void ur_umr_table_fini(struct ur_mr_table *t);

/*
 * The first piece of [va, va + len), len > 0, of an indirect key: its size, with
 * its address in *at. -ENOENT: the key is empty; -EPERM: another domain; -EACCES:
 * insufficient rights, of the key or of a region in it; -ERANGE.  The caller
 * holds a lane.
 */
int64_t ur_umr_piece(const struct ur_mr_table *t, const struct ur_mr *mr,
		     const struct ur_pd *pd, uint64_t va, uint64_t len,
		     uint32_t access, uint8_t **at);

/*
 * The region in which the first piece of [*va, *va + *len), *len > 0, of an indirect
 * key lies, with the piece's address there and its size; NULL: not accessible to
 * us. Errors within the region are not found.  The caller holds a lane.
 */
const struct ur_mr *ur_umr_region(const struct ur_mr_table *t,
				  const struct ur_mr *mr,
				  const struct ur_pd *pd, uint64_t *va,
				  uint64_t *len);

/* ur_mr_reach() of an indirect key. */
int ur_umr_reach(const struct ur_mr_table *t, const struct ur_mr *mr,
		 const struct ur_pd *pd, uint64_t va, uint64_t len,
		 uint32_t access, uint8_t **at);

#endif
