/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of engine/ share.
 *
 * Threads: the application's, which run the lanes from post, poll, arm and
 * waits for events (wait.c); one helper per lane (wake.c); one watcher per
 * process (watch.c), which alone may block on urnicd.  Locks, outermost first:
 * ur_adapter.lock (making lanes), then those of base/lock.h, the lane's first.
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
#include "base/thread_sched.h"
#include "base/timer.h"
#include "base/yield.h"
#include "client/client.h"
#include "core/capture.h"
#include "core/cross.h"
#include "core/dev.h"
#include "core/mr.h"
#include "core/packet.h"
#include "engine/chanpoll.h"
#include "engine/doorbell.h"
#include "engine/engine.h"
#include "engine/handover.h"
#include "engine/moderate.h"
#include "engine/spin.h"
#include "roce/roce.h"
#include "sockets/link.h"

/*
 * The times of polls and of batching are multiplied by ur_timescale().
 *
 * An application that has polled within this time drives the lane.
 */
#define UR_POLL_FRESH_NS      100000u
/* Polls with smaller gaps are a streak; a streak this long is a poller.  The
 * length doubles, up to the maximum, each time TICK has ended early. */
#define UR_POLL_GAP_NS	      20000u
#define UR_POLL_STREAK_NS     200000u
#define UR_POLL_STREAK_MAX_NS 3200000u
#define UR_TICK_NS	      1000000u
/* The longest between two looks at a lane on which threads wait: two of them are
 * no longer than the shortest timers of requests (EARLY_MIN_NS). */
#define UR_WAITER_TICK_NS     4000000u
/* What helpers wait is longer by up to this factor where threads wait for a
 * processor (ur_crowd()): 4 ms instead of 1 are still within those timers. */
#define UR_CROWD_MAX	      4u
/* For so long after traffic, what watches the link wakes up once a tick. */
#define UR_ACTIVE_NS	      10000000u
/* Where urnicd runs the port, gaps between polls are longer by this factor:
 * urnicd may take the core of the polling thread. */
#define UR_TIMESCALE_SERVED   8u
#define UR_BATCH_WINDOW_NS    10000u
/* The helper sends a batch this long after it was posted. */
#define UR_BATCH_LATE_NS      40000u
#define UR_QUICK_POLLS	      4u
/* More packets than the buffer of a socket holds. */
#define UR_SOCKET_PACKETS     16384u
/* An estimate, for times that need not be exact. */
#define UR_TICKS_PER_NS	      3u

struct json_object;
struct ur_roce_counters;
struct ur_iw_lane;
struct ur_raw_lane;

/* What differs between protocols; all under the lane's lock. */
struct ur_lane_ops {
	const char *name;
	uint32_t qp_types; /* bit ur_qp_type */
	/* Requests of reliable QPs complete by an acknowledgement, else when they
	 * leave. */
	bool acknowledged;
	uint32_t batch_bytes; /* the most that posts gather */
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

	/* Add the lane's counters, those that it has, to *sum. */
	void (*count)(const struct ur_lane *l, struct ur_roce_counters *sum);

	void (*kick)(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns);
	/* True: packets have left. */
	bool (*send)(struct ur_lane *l, uint64_t now_ns);
	/*
	 * Reads what peers have sent, then serves doorbells, expires timers and
	 * sends.  Returns the number of packets and descriptors (iWARP: of reads).
	 */
	int (*step)(struct ur_lane *l, uint64_t now_ns);
	/*
	 * A poll that only looks where something is likely to come: a program that
	 * waits for a message polls until it is there, and is delayed by half of
	 * what an empty poll costs.  True: nothing came.  False: do a whole step;
	 * *now is set if it is known.  NULL: there is no such place.
	 */
	bool (*quick_poll)(struct ur_lane *l, uint64_t *now);
	/* What watches the link has changed; or NULL. */
	void (*watched)(struct ur_lane *l);
	/*
	 * asleep: a thread is about to sleep on wait_fd and the peers' wakeup
	 * descriptors, which what comes from now on makes readable.  False: there
	 * is something to do first.  Else no thread sleeps: peers of this host
	 * need not signal.  NULL: there is nothing but wait_fd.
	 */
	bool (*rest)(struct ur_lane *l, bool asleep);
	/* Does a peer wait for work that no thread is sure to do?  Or NULL. */
	bool (*stalled)(const struct ur_lane *l);
	uint64_t (*deadline)(const struct ur_lane *l);
	int (*wait_fd)(const struct ur_lane *l);

	/* The process or a QP ends: send completions and acknowledgements. */
	void (*settle)(struct ur_lane *l, uint64_t now_ns);
	/* Memory or a QP goes away: drop unsent data that points there.  NULL:
	 * the protocol keeps none. */
	void (*drop_held)(struct ur_lane *l);
	void (*report)(struct ur_lane *l, struct json_object *o);
};

extern const struct ur_lane_ops ur_lane_roce;
extern const struct ur_lane_ops ur_lane_iwarp;
extern const struct ur_lane_ops ur_lane_raw;

/* Every field is under `lock` unless it says otherwise. */
struct ur_lane {
	struct ur_latch lock;
	_Atomic uint32_t waiting; /* threads asleep on the lock; any thread */
	_Atomic uint32_t skips;	  /* polls left out for them; any thread */
	_Atomic uint32_t
		misses; /* polls that found the lane taken; any thread */
	_Atomic uint64_t missed_ns;  /* time of the last of them; any thread */
	struct ur_doorbell doorbell; /* any thread */

	uint32_t id; /* constant from here … */
	uint32_t slot;
	struct ur_adapter *adapter;
	const struct ur_lane_ops *ops;
	struct ur_roce *roce; /* NULL unless RoCE */
	struct ur_link *link;
	const struct ur_tap *tap; /* capture.c; not constant; NULL: none */
	struct ur_iw_lane *iw;	  /* iWARP (lane_iwarp.c) */
	struct ur_raw_lane *raw;  /* raw packets (lane_raw.c) */
	uint32_t timescale;	  /* ur_timescale() */
	uint32_t poll_timescale;  /* for gaps between polls */
	int wait_fd;		  /* wakes the thread that waits (wait.c) */
	int wake_fd;		  /* wakes the helper; constant up to here */
	/* wakefd.h; -1: none. */
	int peer_wakefds; /* the set of all peers' of this host */
	int sole_wakefd;  /* if there is one peer */
	uint32_t peer_count;
	bool link_dry; /* the link need not be read; during a call */
	bool left_dry; /* it was empty when the last wait ended (wait.c) */

	_Atomic bool dead;  /* in a child after fork(): touch nothing */
	_Atomic bool woken; /* wake_fd was written and not yet read */
	_Atomic bool
		stamps; /* feeds a CQ that stamps completions; never cleared */
	bool serves_qp1;
	/* A waiting thread sleeps on the link: signal wait_fd, not the helper.
	 * Read without the lock. */
	_Atomic bool waiter_sleeps;
	bool waits;	   /* its threads wait for events; cleared by a tick */
	bool helper_rests; /* no tick until it goes away */
	bool accepted;	   /* a QP here took a packet of the last read */
	bool batched_signaled; /* a batched post asks for a completion */
	bool held;	       /* the link refused `burst`: it goes first */
	uint32_t ud_qps;       /* receivers of UD see the IP header */
	uint32_t timer_waits;  /* reads before a late timer */

	uint64_t now_ns;      /* of the batch that is being received */
	uint32_t read_bytes;  /* of the present read */
	uint64_t activity_ns; /* last packet in or out */
	uint64_t retry_ns;    /* when to try `burst` again; UR_NEVER */

	/* Batching of posts (progress.c). */
	uint64_t batched_bytes;
	uint64_t flush_ticks; /* when the last burst left by a post */
	uint32_t last_batch;  /* requests that left together last */
	uint64_t no_batch_until_ns;
	uint64_t batch_window_ns; /* how long after a burst posts are batched */
	uint32_t batched;	  /* requests */

	/* Polling application threads, and the helper. */
	enum ur_watch watch; /* what the helper does when it wakes up */
	uint64_t app_ns;     /* last post or poll */
	uint64_t
		helper_ran_ns; /* when the helper last ran between posts or polls */
	uint64_t streak_ns;	 /* when the streak began */
	uint64_t streak_need_ns; /* how long it must be */
	uint64_t tick_since_ns;	 /* when watch became TICK */
	uint64_t doze_until_ns;	 /* a poller sleeps, at most until then */
	uint64_t dozed_ns;	 /* when one last woke */
	uint32_t quick_polls;	 /* polls that tried to read the link alone */
	uint32_t empty_reads;	 /* of a link that urnicd serves, in a row */
	uint32_t yield_reads; /* after so many of them urnicd gets the core */
	struct ur_yield yield;
	uint32_t shm_steps; /* steps in which shared memory brought something */
	uint32_t shm_hot;   /* polls that look at shared memory first */
	bool shm_polled;    /* peers know that the lane is polled */
	uint32_t
		shm_work; /* those polls and descriptors since the clock was read */
	uint32_t shm_polls; /* polls that looked at shared memory first … */
	uint32_t shm_polls_seen; /* … at the helper's last tick */
	uint32_t shm_posts;
	_Atomic uint32_t polls; /* that found the lane free … */
	uint32_t polls_seen;	/* … at the helper's last tick */
	uint64_t taken_ns;	/* when a post last found completions taken */
	uint32_t
		link_wait_packets; /* read while a descriptor waits for the link */
	uint32_t link_wait_empty; /* empty reads meanwhile, in a row */
	uint64_t link_ns;	  /* when a step last read the link */
	/* When the thread that watches the link wakes by itself; 0: it is awake. */
	uint64_t sleep_until_ns;

	/* Threads that wait for events (wait.c). */
	uint32_t waiters;	      /* threads in ur_adapter_wait() */
	uint32_t waits_seen;	      /* wait_count at the helper's last tick */
	_Atomic uint32_t waits_ended; /* by the helper, in a row */
	_Atomic uint32_t wait_count;  /* waits begun; read without the lock */
	uint64_t no_waiter_until_ns;  /* until then the helper serves them */
	struct ur_spin wait_spin;     /* the serving thread's */

	struct ur_chanpoll chan; /* programs that poll a channel */

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
	struct ur_client *_Atomic client; /* NULL until the first lane */
	struct ur_moderator moderator;
	struct ur_lock cqs_lock; /* outside a queue's; guards the next */
	struct ur_list cqs;	 /* ur_cq.listed */
	/* Lanes shared by queue pairs, in turn; the others belong to thread
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

/* Reads the time stamp counter, in a third of the time of ur_clock_ns(). */
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

/* Takes the lowest lane out of a set of lane numbers. */
static inline struct ur_lane *ur_adapter_next_lane(struct ur_adapter *a,
						   uint64_t *lanes)
{
	uint32_t i = (uint32_t)__builtin_ctzll(*lanes);

	*lanes &= *lanes - 1;
	return atomic_load_explicit(&a->lanes[i], memory_order_acquire);
}

/* The lane of RoCE with the slot of that queue pair; NULL: another process'. */
struct ur_lane *ur_adapter_lane_of(const struct ur_adapter *a, uint32_t qpn);

static inline void ur_lane_kick(struct ur_lane *l, struct ur_qp *qp,
				uint64_t now_ns)
{
	if (__builtin_expect(qp->cross != NULL, 0))
		ur_cross_run(qp);
	l->ops->kick(l, qp, now_ns);
}

static inline int ur_lane_step(struct ur_lane *l, uint64_t now_ns)
{
	return l->ops->step(l, now_ns);
}

static inline bool ur_lane_rest(struct ur_lane *l, bool asleep)
{
	return !l->ops->rest || l->ops->rest(l, asleep);
}

/* Of polls that are quick, one in UR_QUICK_POLLS does a whole step, which reads
 * the clock, expires timers and sends. */
static inline bool ur_lane_full_poll_is_due(struct ur_lane *l)
{
	return ++l->quick_polls % UR_QUICK_POLLS == 0;
}

/*
 * Runnable threads for each processor, from 1 to UR_CROWD_MAX.  The helpers' ticks
 * are longer by this factor: a thread that waits for a processor comes back later,
 * and each tick takes one from another thread.  Helpers sample the load.
 */
static inline uint32_t ur_crowd(void)
{
	uint32_t load = ur_sched_last_load();

	return load < UR_CROWD_MAX ? load : UR_CROWD_MAX;
}

static inline uint64_t ur_tick_ns(void)
{
	return (uint64_t)UR_TICK_NS * ur_crowd();
}

static inline uint64_t ur_waiter_tick_ns(void)
{
	return (uint64_t)UR_WAITER_TICK_NS * ur_crowd();
}

static inline bool ur_cq_is_armed(const struct ur_cq *cq)
{
	return cq && atomic_load_explicit(&cq->armed, memory_order_relaxed) !=
			     UR_CQ_IDLE;
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

/* The lane completes requests in cq from now on; cq may be NULL. */
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

/* Waits for the lane; polls and the helper give it up for such callers. */
void ur_lane_lock(struct ur_lane *l);

/* Queues qp for the holder of the lane; true: the caller is the holder. */
bool ur_lane_ring(struct ur_lane *l, struct ur_qp *qp);

/*
 * Unlocks the lane and serves doorbells that have come meanwhile; wakes the
 * helper if it would oversleep a deadline by more than a tick.
 */
void ur_lane_unlock(struct ur_lane *l);
/* The same, if no deadline has changed and nothing waits for room. */
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
/* Sends what there is; true: packets have left. */
bool ur_lane_send(struct ur_lane *l, uint64_t now_ns);

/* ops->settle of protocols that delay nothing. */
static inline void ur_lane_settle(struct ur_lane *l, uint64_t now_ns)
{
	ur_lane_drain(l, now_ns);
	ur_lane_send(l, now_ns);
}

/* Counts a poll.  True: the lane is driven by polling from now on, call
 * ur_lane_hand_over(). */
bool ur_lane_note_poll(struct ur_lane *l, uint64_t now);

/* Under the lane's lock.  True: call ur_helper_wake() after unlocking. */
bool ur_lane_hand(struct ur_lane *l, enum ur_handover event);

/* wake.c */
int ur_helper_start(struct ur_lane *l);
void ur_helper_wake(struct ur_lane *l); /* without the lock */
/* Wakes the thread that watches the link: one that waits, or the helper. */
void ur_lane_wake(struct ur_lane *l);
/* The lane is driven by polling from now on: wakes both from the link. */
void ur_lane_hand_over(struct ur_lane *l);
/* Between unlocking and locking again: lets threads pass that sleep on the
 * lock, which is not fair. */
void ur_lane_make_way(const struct ur_lane *l);
/* When the next timer, batch, retry or moderated event is due. */
uint64_t ur_lane_earliest(const struct ur_lane *l);
/*
 * Under the lane's lock: does what watches the link sleep beyond the next
 * deadline by more than slack_ns?
 */
bool ur_helper_is_late(const struct ur_lane *l, uint64_t slack_ns);
/* Are there posts that no thread is sure to send in time? */
bool ur_helper_leaves_posts(const struct ur_lane *l);

/* A thread of ours: few signals, small stack, detached. */
int ur_thread_start(pthread_t *t, const char *name, void *(*fn)(void *),
		    void *arg);

/* watch.c; start again tells it of a new adapter. */
int ur_watcher_start(void);
void ur_watcher_wake(void);    /* descriptors have changed */
void ur_watcher_look(void);    /* read the states of the devices again */
void ur_watcher_abandon(void); /* the child after fork() */

/* report.c; of all adapters, whatever `arg` is. */
size_t ur_report(void *arg, char *buf, size_t cap);

#endif
