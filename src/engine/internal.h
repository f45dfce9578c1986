/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of engine/ share.
 *
 * Threads: the application's, which run the lanes from post and poll; one
 * helper per lane (wake.c); one watcher per process (watch.c), which alone
 * may block on urnicd.  Locks, outermost first: ur_adapter.lock (making
 * lanes), then those of base/lock.h, the lane's first.
 */
#ifndef UR_ENGINE_INTERNAL_H
#define UR_ENGINE_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/latch.h"
#include "base/list.h"
#include "base/timer.h"
#include "base/yield.h"
#include "client/client.h"
#include "core/dev.h"
#include "core/mr.h"
#include "core/packet.h"
#include "engine/doorbell.h"
#include "engine/engine.h"
#include "engine/moderate.h"
#include "engine/pin_queue.h"
#include "engine/spin.h"
#include "roce/roce.h"
#include "sockets/link.h"

/*
 * The times of polls and of batching are multiplied by ur_timescale().
 *
 * An application that polled this recently is driving the lane.
 */
#define UR_POLL_FRESH_NS      100000u
/* Polls this close make a streak; a streak this long a poller … */
#define UR_POLL_GAP_NS	      20000u
#define UR_POLL_STREAK_NS     200000u
/* … twice as long, up to this, each time the last streak ended early. */
#define UR_POLL_STREAK_MAX_NS 3200000u
#define UR_TICK_NS	      1000000u
/* Traffic this recent: what watches the link wakes up once a tick. */
#define UR_ACTIVE_NS	      10000000u
/* Where urnicd runs the port, gaps between polls are longer by this factor:
 * urnicd may take the core of the polling thread. */
#define UR_TIMESCALE_SERVED   8u
#define UR_GATHER_NS	      10000u
/* What nobody polls for is sent by the helper, so long after it was posted. */
#define UR_GATHER_LATE_NS     40000u
/* About; for moments whose length does not matter much. */
#define UR_TICKS_PER_NS	      3u

struct json_object;
struct ur_iw_lane;
struct ur_raw_lane;

/* What watches the link of a lane (wake.c). */
enum ur_watch {
	UR_WATCH_ARMED, /* sleeps on the link as well: runs what comes */
	UR_WATCH_TICK,	/* an application polls: looks once a millisecond */
	/* A thread of the application sleeps on the link, or has done so within
	 * a tick (wait.c): the helper looks once a millisecond, or rests. */
	UR_WATCH_WAITER,
};

/* A multicast group that a QP of the lane has joined. */
struct ur_member {
	struct ur_list node;
	struct ur_qp *qp;
	uint8_t gid[16];
};

/*
 * What differs from protocol to protocol; all under the lane's lock.  The path
 * of every message has one predictable branch instead (ur_lane_kick() …).
 */
struct ur_lane_ops {
	const char *name;
	uint32_t qp_types; /* bit ur_qp_type */
	int (*open)(struct ur_lane *l);
	void (*close)(struct ur_lane *l);
	/* The child after fork(): close our descriptors. */
	void (*abandon)(struct ur_lane *l);

	int (*attach)(struct ur_lane *l, struct ur_qp *qp);
	void (*detach)(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns);
	int (*modify)(struct ur_lane *l, struct ur_qp *qp,
		      const struct ur_qp_attr *attr, uint32_t mask,
		      uint64_t now_ns);
	void (*query)(const struct ur_lane *l, const struct ur_qp *qp,
		      struct ur_qp_attr *attr);
	int (*mcast)(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16],
		     bool attach);
	/* Call fn for each QP that is attached; fn may modify it. */
	void (*for_each_qp)(struct ur_lane *l,
			    void (*fn)(void *arg, const struct ur_qp *qp),
			    void *arg);

	void (*kick)(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns);
	void (*send)(struct ur_lane *l, uint64_t now_ns);
	int (*step)(struct ur_lane *l, uint64_t now_ns);
	/* A step for a poller that looks only where something is likely to
	 * come; sets now_ns of the lane if something has.  -EAGAIN: it is time
	 * for a whole step.  NULL: there is no such place. */
	int (*glance)(struct ur_lane *l);
	uint64_t (*deadline)(const struct ur_lane *l);
	int (*wait_fd)(const struct ur_lane *l);

	/* The process or a QP ends: what was completed gets out first. */
	void (*settle)(struct ur_lane *l, uint64_t now_ns);
	/* Something is going away that unsent data may point at; NULL: no
	 * data waits. */
	void (*drop_held)(struct ur_lane *l);
	void (*report)(struct ur_lane *l, struct json_object *o);
};

extern const struct ur_lane_ops ur_lane_roce;
extern const struct ur_lane_ops ur_lane_iwarp;
extern const struct ur_lane_ops ur_lane_raw;

/* Every field is under `lock` unless it is said otherwise. */
struct ur_lane {
	struct ur_latch lock;
	_Atomic uint32_t waiting; /* threads asleep on the lock; anyone */
	_Atomic uint32_t skips;	  /* polls that made way for them; anyone */
	_Atomic uint32_t misses;  /* polls that found the lane taken; anyone */
	_Atomic uint64_t missed_ns;  /* the last of them; anyone */
	struct ur_doorbell doorbell; /* any thread */

	uint32_t id; /* constant from here … */
	uint32_t slot;
	struct ur_adapter *adapter;
	const struct ur_lane_ops *ops;
	struct ur_roce *roce; /* NULL: iWARP, then … */
	struct ur_link *link;
	struct ur_iw_lane *iw; /* … this (lane_iwarp.c), or raw packets: … */
	struct ur_raw_lane *raw; /* … this (lane_raw.c) */
	pthread_t thread;
	uint32_t timescale;	 /* ur_timescale() */
	uint32_t poll_timescale; /* of gaps between polls */
	int wait_fd;		 /* wakes the thread that waits (wait.c) */
	int wake_fd;		 /* … to here */
	int peer_wakefds; /* of peers on this host (wakefd.h); -1: none */

	_Atomic bool dead;   /* in a child after fork(): touch nothing */
	_Atomic bool woken;  /* wake_fd was written and not yet read */
	_Atomic bool stamps; /* it feeds a CQ that tells times; for good */
	bool serves_qp1;
	/* A thread that waits is asleep on the link: wait_fd wakes it.  Read
	 * without the lock. */
	_Atomic bool waiter_sleeps;
	bool waits;	   /* the last sleep was of such a thread */
	bool helper_rests; /* no tick until it goes away */
	bool heard;	   /* a packet of the batch was for something here */
	bool gathered_signaled; /* a gathered post asks for a completion */
	bool held;	      /* `burst` was refused by the link: goes first */
	uint32_t ud_qps;      /* they show their receivers the IP header */
	uint32_t timer_waits; /* reads that came before a late timer */
	struct ur_list members; /* ur_member */

	uint64_t now_ns;      /* of the batch that is being received */
	uint32_t read_bytes;  /* of the read that is going on */
	uint64_t activity_ns; /* last packet in or out */
	uint64_t retry_ns;    /* when to try `burst` again; UR_NEVER */

	/* Posts that wait for a burst to fill (progress.c). */
	uint64_t gathered_bytes;
	uint64_t flush_ticks; /* when the last burst left by a post */
	uint32_t company;     /* requests that last left together */
	uint64_t no_gather_until_ns;
	uint64_t gather_ns;   /* how long after a burst posts may wait */
	uint32_t gathered;    /* requests */
	uint32_t post_streak; /* posts since the last poll or pause */

	/* Polling application threads, and the helper. */
	enum ur_watch watch;	 /* what the helper does once it was woken */
	uint64_t app_ns;	 /* last post or poll */
	uint64_t excuse_ns;	 /* until when the helper kept it from more */
	uint64_t streak_ns;	 /* when the streak began */
	uint64_t streak_need_ns; /* how long it must be */
	uint64_t tick_since_ns;	 /* when watch became TICK */
	uint32_t glances;	 /* polls; most only look into the link */
	uint32_t empty_looks;	 /* into a link that urnicd serves … */
	uint32_t way_looks;	 /* … after so many it gets our core */
	struct ur_yield way;
	uint32_t shm_steps; /* steps in which it brought something */
	uint32_t shm_hot;   /* polls for which the memory is looked at first */
	bool shm_polled;    /* peers were told so */
	uint32_t shm_work;  /* such polls and cells since the clock */
	uint32_t shm_polls; /* such polls … */
	uint32_t shm_polls_seen; /* … at the helper's last tick */
	uint32_t shm_posts;
	_Atomic uint32_t polls; /* that found the lane free … */
	uint32_t polls_seen;	/* … at the helper's last tick */
	uint64_t taken_ns;	/* when completions had last been taken */
	uint32_t held_packets;	/* come while a cell waits for the link … */
	uint32_t dry_looks;	/* … and looks that found it dry */
	uint64_t link_ns;	/* when a poll last looked into the link */
	/* When what watches the link wakes by itself; 0: it is awake. */
	uint64_t sleep_until_ns;

	/* Threads that wait for events (wait.c). */
	uint32_t waiters;	     /* threads in ur_adapter_wait() */
	uint32_t waits_seen;	     /* wait_count at the helper's last tick */
	uint32_t waits_ended;	     /* ended by the tick, in a row */
	_Atomic uint32_t wait_count; /* waits begun; read without the lock */
	uint64_t no_waiter_until_ns; /* until then the helper serves them */
	struct ur_spin wait_spin;    /* the serving thread's */

	struct ur_burst burst;
};

struct ur_adapter {
	struct ur_lock lock;	       /* making lanes; the fields below */
	_Atomic bool dead;	       /* inherited by fork() */
	const struct ur_lane_ops *ops; /* of its protocol */
	struct ur_dev dev;
	struct ur_mr_table mrs;
	struct ur_srq_table *srqs; /* NULL: the device has no XRC */
	struct ur_export *export;  /* what peers of this host may do; or NULL */
	struct ur_pin_queue pin_queue; /* regions to be mapped for zero copy */
	struct ur_client *_Atomic client; /* NULL until the first lane */
	struct ur_moderator moderator;
	struct ur_lock cqs_lock; /* outside a queue's; guards the next */
	struct ur_list cqs;	 /* ur_cq.listed */
	/* Lanes that queue pairs share, by turns; the others belong to thread
	 * domains. */
	uint32_t want_lanes;
	uint32_t next_lane;
	uint32_t shared_count;
	uint8_t shared[UR_MAX_LANES]; /* their numbers */
	uint64_t idle_lanes;	  /* bit i: lane i has lost its thread domain */
	struct ur_lane *raw_lane; /* of raw packets; NULL: none yet */
	_Atomic uint32_t lane_count; /* grows only */
	struct ur_lane *_Atomic lanes[UR_MAX_LANES];
};

/* The processor's own clock, for a third of what the system's costs. */
static inline uint64_t ur_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#else
	return ur_clock_ns() * UR_TICKS_PER_NS;
#endif
}

static inline void ur_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Take the lowest lane out of a set of the adapter's. */
static inline struct ur_lane *ur_adapter_next_lane(struct ur_adapter *a,
						   uint64_t *lanes)
{
	uint32_t i = (uint32_t)__builtin_ctzll(*lanes);

	*lanes &= *lanes - 1;
	return atomic_load_explicit(&a->lanes[i], memory_order_acquire);
}

/* Of RoCE first: it must not pay for the other. */
static inline void ur_lane_kick(struct ur_lane *l, struct ur_qp *qp,
				uint64_t now_ns)
{
	if (__builtin_expect(l->roce != NULL, 1))
		ur_roce_kick(l->roce, qp, now_ns);
	else
		l->ops->kick(l, qp, now_ns);
}

static inline uint64_t ur_lane_deadline(const struct ur_lane *l)
{
	return __builtin_expect(l->roce != NULL, 1) ? ur_roce_deadline(l->roce)
						    : l->ops->deadline(l);
}

/* process.c */
struct ur_adapter *ur_process_adapter(uint32_t index); /* or NULL */
struct ur_client *ur_process_client(void);	       /* or NULL */
/* a->client, which all adapters share; a->lock is held. */
int ur_process_client_open(struct ur_adapter *a);

/* adapter.c */
/* A lane of the adapter, made if there is none yet.  0 or -errno. */
int ur_adapter_lane(struct ur_adapter *a, struct ur_lane **out);

/* The lane of raw packets, made if need be.  -EOPNOTSUPP: the device has no
 * such queues. */
int ur_adapter_raw_lane(struct ur_adapter *a, struct ur_lane **out);

/* cq is fed by the lane from now on; NULL: nothing. */
void ur_adapter_feed(struct ur_cq *cq, struct ur_lane *l);

/* adapter.c, for process.c */
int ur_adapter_create(const struct ur_dev_spec *spec, struct ur_adapter **out);
void ur_adapter_destroy(struct ur_adapter *a); /* without lanes */
void ur_adapter_abandon(struct ur_adapter *a);
void ur_adapter_settle(struct ur_adapter *a);

/* For watch.c: if the device's interface has been deleted, all queue pairs go
 * to ERR and connections are told. */
void ur_adapter_check_removed(struct ur_adapter *a);

/* lane.c */
int ur_lane_create(struct ur_adapter *a, const struct ur_lane_ops *ops,
		   uint32_t id, struct ur_lane **out);

/* For callers who must have the lane: pollers and the helper make way. */
void ur_lane_lock(struct ur_lane *l);

/* Leave a notice for the holder; true: there is none, the caller is it. */
bool ur_lane_ring(struct ur_lane *l, struct ur_qp *qp);

/*
 * Give the lane back, and answer what was rung meanwhile; wakes the helper if
 * it would oversleep a deadline by more than a tick.
 */
void ur_lane_unlock(struct ur_lane *l);
/* The same for who has changed no deadline, and waits for no room. */
void ur_lane_unlock_same(struct ur_lane *l);

/* The process has the port alone: the lane gets QP1's packets (hooks.h). */
void ur_lane_serve_qp1(struct ur_lane *l);

/* The child after fork(): close our descriptors of it. */
void ur_lane_abandon(struct ur_lane *l);

/* member.c; under the lane's lock.  Membership of QPs in multicast groups. */
int ur_lane_join(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16]);
int ur_lane_leave(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16]);
/* The QP is going away: leave all its groups. */
void ur_lane_leave_all(struct ur_lane *l, struct ur_qp *qp);

/* progress.c; all under the lane's lock. */
void ur_lane_drain(struct ur_lane *l, uint64_t now_ns); /* doorbells */
/* What there is to send; true: packets have left. */
bool ur_lane_send(struct ur_lane *l, uint64_t now_ns);
/*
 * Read the link once and do what follows: answer doorbells, expire timers,
 * send.  Returns the number of packets received (or of reads).
 */
int ur_lane_step(struct ur_lane *l, uint64_t now_ns);

/* Keep account of polling; true: a poller drives the lane from now on, and
 * the helper is to be told. */
bool ur_lane_note_poll(struct ur_lane *l, uint64_t now);

/* wake.c */
int ur_helper_start(struct ur_lane *l);
void ur_helper_wake(struct ur_lane *l); /* without the lock */
/* The same for what watches the link: a thread that waits, or the helper. */
void ur_lane_wake(struct ur_lane *l);
/* A poller drives the lane from now on: both leave the link to it. */
void ur_lane_hand_over(struct ur_lane *l);
/* Between unlocking and locking again: let threads pass that sleep on the
 * lock, which is not fair. */
void ur_lane_make_way(const struct ur_lane *l);
/* When something is due in the lane, or an event that is moderated. */
uint64_t ur_lane_earliest(const struct ur_lane *l);
/*
 * Under the lane's lock: must the helper be woken, because it would sleep
 * beyond the next deadline by more than slack_ns?
 */
bool ur_helper_is_late(const struct ur_lane *l, uint64_t slack_ns);
/* Would it leave posts waiting that nobody else is sure to send? */
bool ur_helper_leaves_posts(const struct ur_lane *l);

/* Block all signals of this thread but those of faults. */
void ur_thread_block_signals(sigset_t *old);

/* A thread of ours: few signals, small stack, detached. */
int ur_thread_start(pthread_t *t, const char *name, void *(*fn)(void *),
		    void *arg);

/* watch.c; start again tells it of a new adapter. */
int ur_watcher_start(void);
void ur_watcher_wake(void);    /* descriptors have changed */
void ur_watcher_abandon(void); /* the child after fork() */

/* report.c; of all adapters, whatever `arg` is. */
size_t ur_report(void *arg, char *buf, size_t cap);

#endif
