/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of shm/ share.  Two sides meet in a ur_direct: what we do to
 * the peer's memory (the operations and `views`), and what the peer does to
 * ours (`own`, whose removals wait for it).
 *
 * Who may touch it: fields marked (op) the thread that calls operations, (w)
 * the watcher, which calls ur_direct_message(); the views belong to operations,
 * except while the watcher holds `busy` and has seen `in` at 0.
 */
#ifndef UR_SHM_DIRECT_INTERNAL_H
#define UR_SHM_DIRECT_INTERNAL_H

#include "base/list.h"
#include "shm/direct.h"
#include "shm/segment.h"
#include "shm/where.h"

/* In the channel's page; every word on a cache line of its own. */
struct ur_direct_word {
	_Atomic uint64_t value;
	uint8_t pad[120]; /* the prefetcher fetches lines in pairs */
};

struct ur_direct_shared {
	struct ur_direct_word inside[2]; /* odd: that side's initiator is in */
	struct ur_direct_word shut[2];	 /* that side lets nobody in any more */
};

_Static_assert(sizeof(struct ur_direct_shared) <= UR_DIRECT_SHARED_SIZE, "");

#define UR_SHARE_WISHES 8u
#define UR_SHARE_FRESH	16u

/* A region that a peer wishes it could map, or may come to. */
struct ur_wish {
	uint32_t key;
	uint64_t seq;
	uint64_t pd; /* of fresh ones */
};

struct ur_export {
	struct ur_lock lock;
	int fd;
	unsigned int forks; /* ur_direct_forks() of the process that made it */
	struct ur_seg *seg;
	struct ur_list reaches; /* ur_direct.node; lock */
	struct ur_list node;	/* in the process' list; ur_share_lock() */
	uint64_t nonce[2];
	struct ur_wish wish[UR_SHARE_WISHES]; /* lock */
	_Atomic uint32_t nwishes;	      /* written under lock */
	/* The newest regions that have not been thought of; lock. */
	struct ur_wish fresh[UR_SHARE_FRESH];
	_Atomic uint32_t nfresh; /* written under lock */
	/* Queue pairs that went while a peer was inside, and how many of them
	 * were waited for; lock. */
	uint64_t gone;
	uint64_t settled;
};

/* A mapping of something of the peer's; (w). */
struct ur_object {
	struct ur_list node;
	uint64_t dev, ino; /* of a SysV segment: 0 and its number */
	uint64_t offset;   /* that of `base` in the object */
	uint64_t length;
	uint8_t *base;
	bool sysv;
	bool writable;
	uint32_t refs; /* views */
};

enum ur_view_state {
	UR_VIEW_FREE,
	UR_VIEW_SEEN,  /* used, but not often */
	UR_VIEW_ASKED, /* the peer is to say how it can be mapped */
	UR_VIEW_MAPPED,
	UR_VIEW_NONE, /* it cannot be */
};

/* What we know of a region of the peer. */
struct ur_view {
	enum ur_view_state state;
	bool sharable; /* UR_VIEW_NONE: the peer may make it shared memory */
	bool plain;    /* the kernel's calls do not wait for it */
	uint32_t uses; /* while it is not mapped */
	const struct ur_seg_entry *at;
	struct ur_seg_entry
		is; /* copy, with the seq for which all this holds */
	struct ur_object *object;
	uint8_t *base; /* where the region begins, if mapped */
};

struct ur_qp_view {
	const struct ur_seg_entry *at; /* NULL: empty */
	struct ur_seg_entry is;
};

/*
 * What the last small operations of a queue pair found out, together with all
 * that it rests on: it holds while the watcher has changed nothing since
 * (`turn`) and both entries of the peer's segment are still those.
 */
struct ur_memo {
	uint32_t dqpn;
	uint32_t sqpn;
	uint32_t rkey;
	uint32_t access; /* UR_ACCESS_REMOTE_ that are granted, and can be */
	uint64_t turn;	 /* 0: empty */
	const struct ur_seg_entry *qp;
	const struct ur_seg_entry *mr;
	uint64_t qp_seq;
	uint64_t mr_seq;
	uint64_t iova;
	uint64_t length;
	uint8_t *base; /* where iova lies here */
};

#define UR_MEMOS 64u

#define UR_VIEW_SETS 512u
#define UR_VIEW_WAYS 4u
#define UR_QP_VIEWS  256u

struct ur_direct {
	struct ur_direct_shared *shared;
	_Atomic uint64_t *inside; /* ours, in *shared */
	_Atomic uint64_t *shut;	  /* the peer's */
	uint64_t count;		  /* (op) what *inside holds */
	_Atomic uint32_t in;	  /* (op) 1: in an operation */
	_Atomic uint32_t busy;	  /* (w) 1: keep out */
	uint64_t turn; /* (w) times that it was, from 1; operations read it */
	unsigned int side;
	unsigned int forks;
	const struct ur_seg *seg; /* the peer's, mapped read-only */
	int sock;
	int pidfd; /* -1: unknown */
	pid_t pid;
	bool kernel_may; /* (op) */
	bool kept_out;	 /* (op) not by the peer, but by our watcher */
	_Atomic bool kernel_can;
	struct ur_direct_stats stats; /* (op) */
	struct ur_view views[UR_VIEW_SETS][UR_VIEW_WAYS];
	struct ur_qp_view qps[UR_QP_VIEWS]; /* (op) */
	struct ur_memo memos[UR_MEMOS];	    /* (op) */
	struct ur_list objects;		    /* ur_object.node; (w) */
	struct ur_export *own;
	struct ur_list node; /* in own->reaches */
	bool forget_lost;    /* own->lock: the peer is to drop all its views */
	bool expelled;	     /* own->lock */
	uint32_t waiters;    /* for the peer, without own->lock; own->lock */
};

/* How often this process came out of a fork(): export.c. */
extern _Atomic unsigned int ur_direct_forked
	__attribute__((visibility("hidden")));

static inline unsigned int ur_direct_forks(void)
{
	return atomic_load_explicit(&ur_direct_forked, memory_order_relaxed);
}

/* May a file have so many bytes?  Beyond the limit is a signal, not an error. */
bool ur_direct_file_limit(uint64_t bytes);

/*
 * The view of the region that `op` is about if the peer allows it, else NULL.
 * The caller is inside.  _admit: a view that is used often is asked for.
 */
struct ur_view *ur_view_may(struct ur_direct *r, const struct ur_op *op);
struct ur_view *ur_view_admit(struct ur_direct *r, const struct ur_op *op);

/* After a copy from the peer's memory: were queue pair and region of the view
 * that ur_view_admit() gave still there when it ended? */
bool ur_view_still(const struct ur_direct *r, const struct ur_op *op,
		   const struct ur_view *v);

/* The same as ur_view_may() for a region that is mapped, as a memo; false: it
 * is not, or may not be.  *m is written only if it is. */
bool ur_view_memo(struct ur_direct *r, const struct ur_op *op,
		  struct ur_memo *m);

/* Is the region mapped?  If not, this is a use of it.  The caller is inside. */
bool ur_view_is_mapped(struct ur_direct *r, uint32_t key);
/* Is the peer's answer about it awaited?  No use.  The caller is inside. */
bool ur_view_is_asked(struct ur_direct *r, uint32_t key);

/* For the watcher: the view of (key, seq); NULL. */
struct ur_view *ur_view_find(struct ur_direct *r, uint32_t key, uint64_t seq);

/* (op) Out of the peer's memory; and in, false: we may not, or not now. */
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
	r->kept_out = !atomic_load_explicit(r->shut, memory_order_relaxed);
	ur_direct_leave(r);
	return false;
}

/*
 * The peer has waited for us no longer: what we have read may be what its
 * application wrote there since.
 */
static inline bool ur_direct_is_too_late(const struct ur_direct *r)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(r->shut, memory_order_relaxed);
}

/* Between the two no operation is under way, and none begins. */
void ur_direct_keep_out(struct ur_direct *r);
void ur_direct_let_in(struct ur_direct *r);

/*
 * (w) Length bytes of the file at the offset; NULL: it cannot be mapped, or is
 * no memory to wait for nobody (FUSE, devices).  Counted; put unmaps.
 */
struct ur_object *ur_object_file(struct ur_direct *r, int fd, uint64_t offset,
				 uint64_t length);
struct ur_object *ur_object_sysv(struct ur_direct *r, int shmid,
				 uint64_t offset, uint64_t length);
void ur_object_put(struct ur_object *o);

/* Is [at, end) memory of ours that no access has to wait for? */
bool ur_is_plain(uint64_t at, uint64_t end);

/*
 * Move `len` bytes between our memory and [addr, …) of the peer.  0 or
 * -EAGAIN; never a wait.
 */
int ur_kernel_write(struct ur_direct *r, uint64_t addr, const struct iovec *iov,
		    int niov, size_t len);
int ur_kernel_read(struct ur_direct *r, uint64_t addr, const struct iovec *iov,
		   int niov, size_t len);

/* Is the process behind `pid` the one whose segment we have? */
bool ur_kernel_check(struct ur_direct *r);

/* Has the peer ended, or closed the channel? */
bool ur_direct_is_gone(const struct ur_direct *r);

/* Wait until the peer is not in our memory, or shut it out; own->lock, which
 * is free meanwhile. */
void ur_direct_wait_out(struct ur_direct *r);

/* Ask for a region; false: later. */
bool ur_msg_ask(struct ur_direct *r, const struct ur_seg_entry *is);

/* Ask the peer to make it shared memory; false: later. */
bool ur_msg_wish(struct ur_direct *r, const struct ur_seg_entry *is);

/* May a region of ours be asked for like that? */
bool ur_share_allowed(uint64_t length);

/* Note a wish; own->lock. */
void ur_share_wish(struct ur_export *own, uint32_t key, uint64_t seq);

/* Note a new region, given as its entry; own->lock. */
void ur_share_note(struct ur_export *own, const struct ur_seg_entry *mr);

/* No peer comes in any more, and those inside have left; false: one has not.
 * Sleeps for it if `patient`. */
bool ur_direct_shut_all(struct ur_export *own, bool patient);
void ur_direct_open_all(struct ur_export *own);

/*
 * The same for all exports of the process, which stay locked in between;
 * ur_share_lock() held.  Taken: the memory [at, end) is private again, and
 * peers that may have it mapped are to let go and ask anew.
 */
bool ur_exports_shut(void);
void ur_exports_taken(uint64_t at, uint64_t end);
void ur_exports_open(void);

/* The peer must let go of a region of ours, or of all (NULL); own->lock. */
bool ur_msg_forget(struct ur_direct *r, const struct ur_seg_entry *is);

#endif
