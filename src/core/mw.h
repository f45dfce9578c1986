/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBTA 10.6.7, 11.2.8.9 ff.), and access by a peer through a key
 * of a region or a window.
 *
 *  type 1   bound by a request of its own at any time, repeatedly; accessible
 *           through all QPs of its protection domain
 *  type 2B  bound only while free, freed by invalidation, local or remote;
 *           accessible only through the QP that bound it
 *
 * The upper 24 bits of a window's key never change; the lower eight change with
 * every bind, so that the key of an earlier binding is no longer valid.
 */
#ifndef UR_CORE_MW_H
#define UR_CORE_MW_H

#include <sys/uio.h>

#include "base/list.h"
#include "core/mr.h"

struct ur_qp;
struct ur_swqe;

enum ur_mw_type {
	UR_MW_TYPE_1 = 1,
	UR_MW_TYPE_2 = 2,
};

/* Rights of a window; LOCAL_WRITE is accepted and ignored. */
#define UR_MW_ACCESS                                                           \
	(UR_ACCESS_LOCAL_WRITE | UR_ACCESS_REMOTE_WRITE |                      \
	 UR_ACCESS_REMOTE_READ | UR_ACCESS_REMOTE_ATOMIC |                     \
	 UR_ACCESS_FLUSH_GLOBAL | UR_ACCESS_ZERO_BASED)

struct ur_mw {
	struct ur_mr win;    /* the peers' view; lock */
	struct ur_lock lock; /* innermost of all */
	enum ur_mw_type type;
	struct ur_mr *mr;	/* the bound region; NULL: none; table lock */
	const struct ur_qp *qp; /* type 2, bound: the QP that bound it; lock */
	struct ur_list node;	/* in ur_qp.windows; table lock */
};

/* A bind request in a send queue. */
struct ur_mw_bind {
	uint64_t addr;
	uint64_t length;
	uint32_t window;   /* its present key; only the upper 24 bits count */
	uint32_t key;	   /* its next one; only the lower 8 bits count */
	uint32_t lkey;	   /* the region's; 0: none (type 1: unbind) */
	uint32_t access;   /* UR_MW_ACCESS */
	uint32_t old_rkey; /* the window's before it was posted */
	void *object;	   /* the ABI layer's ibv_mw, until it is posted */
};

/* Created unbound. -EINVAL: unknown type; -ENOMEM: UR_MAX_MW reached. */
int ur_mw_create(struct ur_mr_table *t, struct ur_pd *pd, enum ur_mw_type type,
		 struct ur_mw **out);

/* Bound or not. Waits for lanes that use it: hold no lane. */
void ur_mw_destroy(struct ur_mr_table *t, struct ur_mw *mw);

/* Checks at posting time: -EINVAL if no region like `mr` (NULL: none) can ever
 * carry such a window. */
int ur_mw_check(enum ur_mw_type type, const struct ur_mw_bind *b,
		const struct ur_mr *mr);

/*
 * Execute a request of qp; the caller holds its lane. -EINVAL: no such window
 * or region, not of the QP's domain, a type 2 that is bound already, or refused
 * by ur_mw_check(); the window is then unchanged.
 */
int ur_mw_bind(struct ur_mr_table *t, struct ur_qp *qp,
	       const struct ur_mw_bind *b);

/* LOCAL_INV of qp, whose lane the caller holds. -EINVAL: the key is not of a
 * type 2 window that qp has bound. Invalidating a free one succeeds. */
int ur_mw_invalidate(struct ur_mr_table *t, const struct ur_qp *qp,
		     uint32_t key);

/* Execute a request of qp that sends no packet (ur_swqe_is_local()); the caller
 * holds its lane. 0, or -EINVAL as above. */
int ur_mw_request(struct ur_qp *qp, const struct ur_swqe *w);

/*
 * May the peer of qp invalidate that key (SEND with invalidate)? 0; -ENOENT: no
 * such key, or it is free; -EACCES: a region, or a type 1 window; -EPERM:
 * another QP's.
 */
int ur_mw_may_invalidate(const struct ur_mr_table *t, const struct ur_qp *qp,
			 uint32_t key);

/* qp is being destroyed, the caller holds its lane: frees the windows it has
 * bound. */
void ur_mw_release(struct ur_mr_table *t, struct ur_qp *qp);

/*
 * Resolve a key used by the peer of qp, within the request's protection domain
 * (that of the QP, or with XRC of the receive queue): *at is the address of
 * [va, va + len). 0; -ENOENT: no such key; -EPERM: of another domain or QP;
 * -EACCES: insufficient rights; -ERANGE: out of bounds. With `at` NULL only the
 * rights are checked (va and len are ignored). The caller holds qp's lane; *at
 * is valid until it releases that or a bind changes the window.
 *
 * The range of an indirect key may consist of several pieces: then *at is NULL,
 * only the first piece was checked, and the functions below access them all.
 * Not for REMOTE_ATOMIC: -ERANGE unless the bytes are aligned and in one piece.
 */
int ur_mr_reach(const struct ur_mr_table *t, const struct ur_pd *pd,
		const struct ur_qp *qp, uint32_t key, uint64_t va, uint64_t len,
		uint32_t access, uint8_t **at);

/* Memory that a peer names; the fields are arguments of ur_mr_reach(). */
struct ur_mr_ref {
	const struct ur_mr_table *t;
	const struct ur_pd *pd;
	const struct ur_qp *qp;
	uint32_t key;
	uint64_t va;
};

/* The range, len > 0, as pieces of this process' memory: how many, at most max,
 * or an error as above. -E2BIG: there are more; the first max are in `out`. */
int ur_mr_pieces(const struct ur_mr_ref *m, uint32_t len, uint32_t access,
		 struct iovec *out, uint32_t max);

/* WRITE into it, READ from it: 0, an error as above, or -EFAULT. */
int ur_mr_put(const struct ur_mr_ref *m, const void *src, uint32_t len);
int ur_mr_get(const struct ur_mr_ref *m, void *dst, uint32_t len);

#endif
