/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of direct access.  A ur_direct has two roles: what we do
 * to the peer's memory (operations and `views`), and what the peer does to ours
 * (`own`; removals from it wait for the peer).
 *
 * Ownership: fields marked (op) belong to the thread that calls operations, (w)
 * to the watcher thread, which calls ur_direct_message(). Views belong to
 * operations, except while the watcher has set `busy` and has seen `in` at 0.
 */
#ifndef UR_SHM_DIRECT_INTERNAL_H
#define UR_SHM_DIRECT_INTERNAL_H

#include "base/guard.h"
#include "base/list.h"
#include "shm/backing.h"
#include "shm/direct.h"
#include "shm/segment.h"

/* In the channel's shared page; each word has cache lines of its own. */
struct ur_direct_word {
	_Atomic uint64_t value;
	uint8_t pad[120]; /* the prefetcher fetches lines in pairs */
};

struct ur_direct_shared {
	struct ur_direct_word
		inside[2]; /* odd: that side's initiator is inside */
	struct ur_direct_word
		shut[2]; /* not 0: that side admits no operation */
};

_Static_assert(sizeof(struct ur_direct_shared) <= UR_DIRECT_SHARED_SIZE, "");

#define UR_SHARE_REQUESTS 8u
#define UR_SHARE_FRESH	  16u

/* A region to be made shareable, or one that may be. */
struct ur_share_req {
	uint32_t key;
	uint64_t seq;
	uint64_t pd; /* of fresh ones */
};

struct ur_export {
	struct ur_lock lock;
	int fd;
	unsigned int forks; /* ur_direct_forks() of the process that made it */
	struct ur_seg *seg;
	struct ur_list peers; /* ur_direct.node; lock */
	struct ur_list node;  /* in the process's list; ur_share_lock() */
	uint64_t nonce[2];
	struct ur_share_req requests[UR_SHARE_REQUESTS]; /* lock */
	_Atomic uint32_t nrequests; /* written under lock */
	/* The newest regions, not yet considered; lock. */
	struct ur_share_req fresh[UR_SHARE_FRESH];
	_Atomic uint32_t nfresh; /* written under lock */
	/*
	 * Queue pairs removed while a peer was inside, and how many of these
	 * removals are settled; lock.
	 */
	uint64_t gone;
	uint64_t settled;
};

/* A mapping of an object of the peer; (w). */
struct ur_object {
	struct ur_list node;
	uint64_t dev, ino; /* of a SysV segment: 0 and its number */
	uint64_t offset;   /* of `base` in the object */
	uint64_t length;
	uint8_t *base;
	bool sysv;
	bool writable;
	uint32_t refs; /* views */
};

enum ur_view_state {
	UR_VIEW_FREE,
	UR_VIEW_SEEN,  /* used, but not often enough */
	UR_VIEW_ASKED, /* the peer is asked how to map it */
	UR_VIEW_MAPPED,
	UR_VIEW_NONE, /* it cannot be mapped */
};

/* Our knowledge of a region of the peer. */
struct ur_view {
	enum ur_view_state state;
	bool sharable; /* UR_VIEW_NONE: the peer may make it shareable */
	bool plain;    /* CMA does not wait for its page faults */
	uint32_t uses; /* while it is not mapped */
	const struct ur_seg_entry *at;
	struct ur_seg_entry
		is; /* copy of the entry; all this holds for its seq */
	struct ur_object *object;
	uint8_t *base; /* address of the region's begin, if mapped */
};

struct ur_qp_view {
	const struct ur_seg_entry *at; /* NULL: empty */
	struct ur_seg_entry is;
};

/*
 * A cached lookup of a small operation.  It is valid while the watcher has
 * changed nothing since (`turn`) and both entries of the peer's segment have
 * the same sequence numbers.
 */
struct ur_memo {
	uint32_t dqpn;
	uint32_t sqpn;
	uint32_t rkey;
	uint32_t
		access; /* UR_ACCESS_REMOTE_ rights that are granted and usable */
	uint64_t turn; /* 0: empty */
	const struct ur_seg_entry *qp;
	const struct ur_seg_entry *mr;
	uint64_t qp_seq;
	uint64_t mr_seq;
	uint64_t iova;
	uint64_t length;
	uint8_t *base; /* address of iova here */
};

#define UR_MEMOS 64u

#define UR_VIEW_SETS 512u
#define UR_VIEW_WAYS 4u
#define UR_QP_VIEWS  256u

struct ur_direct {
	struct ur_direct_shared *shared;
	_Atomic uint64_t *inside; /* ours, in *shared */
	_Atomic uint64_t *shut;	  /* the peer's */
	uint64_t count;		  /* (op) the value of *inside */
	_Atomic uint32_t in;	  /* (op) 1: in an operation */
	_Atomic uint32_t busy;	  /* (w) 1: no operation may begin */
	uint64_t
		turn; /* (w) counts changes by the watcher, from 1; read by (op) */
	unsigned int side;
	unsigned int forks;
	const struct ur_seg *seg; /* the peer's, mapped read-only */
	int sock;
	int pidfd; /* -1: unknown */
	pid_t pid;
	bool cma_allowed; /* (op) */
	bool blocked;	  /* (op) by our watcher, not by the peer */
	_Atomic bool cma_works;
	struct ur_direct_stats stats; /* (op) */
	struct ur_view views[UR_VIEW_SETS][UR_VIEW_WAYS];
	struct ur_qp_view qps[UR_QP_VIEWS]; /* (op) */
	struct ur_memo memos[UR_MEMOS];	    /* (op) */
	struct ur_list objects;		    /* ur_object.node; (w) */
	struct ur_export *own;
	struct ur_list node; /* in own->peers */
	bool forget_lost;    /* own->lock: tell the peer to drop all views */
	bool expelled;	     /* own->lock */
	uint32_t waiters;    /* threads that wait for the peer; own->lock */
};

/* Number of fork() calls between the first process and this one: export.c. */
extern _Atomic unsigned int ur_direct_forked
	__attribute__((visibility("hidden")));

static inline unsigned int ur_direct_forks(void)
{
	return atomic_load_explicit(&ur_direct_forked, memory_order_relaxed);
}

/* May a file have this size? To exceed the limit raises a signal. */
bool ur_direct_file_limit(uint64_t bytes);

/*
 * The view of the region of `op` if the peer permits the operation, else NULL.
 * The caller is inside. _admit: also asks for a view that is used often.
 */
struct ur_view *ur_view_may(struct ur_direct *r, const struct ur_op *op);
struct ur_view *ur_view_admit(struct ur_direct *r, const struct ur_op *op);

/*
 * After a copy from the peer's memory: were queue pair and region still
 * exported when it ended?
 */
bool ur_view_still(const struct ur_direct *r, const struct ur_op *op,
		   const struct ur_view *v);

/*
 * ur_view_may() for a mapped region, as a memo; false: not mapped, or not
 * permitted. *m is written only on success.
 */
bool ur_view_memo(struct ur_direct *r, const struct ur_op *op,
		  struct ur_memo *m);

/* Is the region mapped? If not, this counts as a use. The caller is inside. */
bool ur_view_is_mapped(struct ur_direct *r, uint32_t key);
/*
 * Is the peer's answer awaited?  Does not count as a use.  The caller is
 * inside.
 */
bool ur_view_is_asked(struct ur_direct *r, uint32_t key);

/* For the watcher: the view of (key, seq), or NULL. */
struct ur_view *ur_view_find(struct ur_direct *r, uint32_t key, uint64_t seq);

/*
 * (op) Leave the peer's memory; enter it: false if not permitted, or not now.
 */
static inline void ur_direct_leave(struct ur_direct *r)
{
	atomic_store_explicit(r->inside, ++r->count, memory_order_release);
	atomic_store_explicit(&r->in, 0, memory_order_release);
}

static inline bool ur_direct_enter(struct ur_direct *r)
{
	if (r->forks != ur_direct_forks())
		return false;
	atomic_store_explicit(&r->in, 1, memory_order_relaxed);
	atomic_exchange(r->inside, ++r->count);
	if (!atomic_load_explicit(&r->busy, memory_order_acquire) &&
	    !atomic_load_explicit(r->shut, memory_order_acquire))
		return true;
	r->blocked = !atomic_load_explicit(r->shut, memory_order_relaxed);
	ur_direct_leave(r);
	return false;
}

/*
 * The peer no longer waits for us: data that we have read may be newer data of
 * its application.
 */
static inline bool ur_direct_is_too_late(const struct ur_direct *r)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(r->shut, memory_order_relaxed);
}

/* Has one of the processes operands that are moved whole (base/guard.h)? */
static inline bool ur_direct_is_whole(const struct ur_direct *r)
{
	return ur_guard_is_whole() ||
	       __builtin_expect(atomic_load_explicit(&r->seg->whole,
						     memory_order_relaxed) != 0,
				0);
}

/* Between the two no operation is in progress, and none begins. */
void ur_direct_block(struct ur_direct *r);
void ur_direct_unblock(struct ur_direct *r);

/*
 * (w) A mapping of `length` bytes of the file at the offset; NULL: it cannot be
 * mapped, or its page faults may wait for a server (FUSE, devices). Reference
 * counted; put unmaps.
 */
struct ur_object *ur_object_file(struct ur_direct *r, int fd, uint64_t offset,
				 uint64_t length);
struct ur_object *ur_object_sysv(struct ur_direct *r, int shmid,
				 uint64_t offset, uint64_t length);
void ur_object_put(struct ur_object *o);

/* Is [at, end) memory of ours whose page faults wait only for the kernel? */
bool ur_faults_are_prompt(uint64_t at, uint64_t end);

/*
 * Move `len` bytes between our memory and the peer's at `addr`. 0 or -EAGAIN;
 * does not wait.
 */
int ur_cma_write(struct ur_direct *r, uint64_t addr, const struct iovec *iov,
		 int niov, size_t len);
int ur_cma_read(struct ur_direct *r, uint64_t addr, const struct iovec *iov,
		int niov, size_t len);

/* Is the process behind `pid` the one whose segment we have? */
bool ur_cma_check(struct ur_direct *r);

/* Has the peer ended, or closed the channel? */
bool ur_direct_is_gone(const struct ur_direct *r);

/*
 * Wait until the peer is not in our memory, or exclude it. own->lock is held,
 * and released meanwhile.
 */
void ur_direct_wait_out(struct ur_direct *r);

/* Ask for a region; false: later. */
bool ur_msg_ask(struct ur_direct *r, const struct ur_seg_entry *is);

/* Ask the peer to make it shared memory; false: later. */
bool ur_msg_make_shared(struct ur_direct *r, const struct ur_seg_entry *is);

/* Is this length within the limit of URNIC_SHARE? */
bool ur_share_allowed(uint64_t length);

/* Queue a request to share a region; own->lock. */
void ur_share_request(struct ur_export *own, uint32_t key, uint64_t seq);

/* Queue a new region, given as its entry; own->lock. */
void ur_share_note(struct ur_export *own, const struct ur_seg_entry *mr);

/*
 * Admit no peer any more, and wait for those inside; false: one has not left.
 * Sleeps only if `patient`.
 */
bool ur_direct_shut_all(struct ur_export *own, bool patient);
void ur_direct_open_all(struct ur_export *own);

/*
 * The same for all exports of the process, which stay locked until _open;
 * ur_share_lock() held. _reverted: the memory [at, end) is private again, so
 * peers that may have it mapped must unmap it and ask again.
 */
bool ur_exports_shut(void);
void ur_exports_reverted(uint64_t at, uint64_t end);
void ur_exports_open(void);

/* Tell the peer to forget a region of ours, or all (NULL); own->lock. */
bool ur_msg_forget(struct ur_direct *r, const struct ur_seg_entry *is);

#endif
