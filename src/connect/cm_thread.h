/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CM thread: one per process, started by the first connection, asleep
 * unless something about connections happens.  It delivers events to their
 * owners one at a time, holding no lock; it runs timers and descriptors of
 * both protocols, holding its lock.  A thread of the application that waits for an
 * event does that in its place (ur_conn_wait()).  A child of fork() has none until
 * it starts its own.
 *
 * One lock guards every connection of the process.  Order: it stands before
 * the lane's lock; a thread that holds it may not wait for urnicd.
 */
#ifndef UR_CONNECT_CM_THREAD_H
#define UR_CONNECT_CM_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/timer.h"

struct ur_adapter;
struct ur_conn;

/* A descriptor to watch (level triggered). */
struct ur_cmt_source {
	int fd; /* -1: not watched */
	void (*ready)(struct ur_cmt_source *src, uint32_t events);
};

struct ur_cmt_timer {
	struct ur_timer timer;
	void (*fire)(struct ur_cmt_timer *t, uint64_t now_ns);
};

/*
 * Removal in two phases: the thread may still hold a pointer to a source in
 * its round of events, so memory is freed by the thread after the round.
 */
struct ur_cmt_grave {
	struct ur_list node;
	void (*free)(struct ur_cmt_grave *g);
};

/* Which thread runs the event loop (cm_thread.c). */
enum ur_cmt_watch {
	UR_CMT_OWN,    /* the CM thread */
	UR_CMT_CALLER, /* one in ur_conn_wait() */
	UR_CMT_AWAY,   /* none: that one has its event, and may come back */
};

struct ur_cmt {
	struct ur_lock lock;
	enum ur_cmt_watch watch;
	uint32_t callers; /* threads in ur_conn_wait() */
	int epfd;
	int wake_fd;   /* wakes the CM thread */
	int caller_fd; /* wakes the caller that runs the loop */
	int tick_fd;   /* timer: has the caller come back? */
	bool ticking;  /* it is set */
	bool busy;     /* a round is being made */
	bool woken;    /* its descriptor was written and not yet read */
	uint64_t sleep_until_ns; /* 0: the thread that runs the loop is awake */
	uint64_t active_ns;	 /* when a descriptor was last ready */
	uint64_t left_ns;	 /* when the caller left */
	struct ur_timers timers;
	uint32_t ntimers;      /* reserved for */
	struct ur_list events; /* of all connections, in order */
	struct ur_list graves;
	struct ur_list conns;	  /* ur_conn: all that have not ended */
	struct ur_conn *running;  /* its handler is being called */
	uint32_t waiting;	  /* threads that wait for the next */
	pthread_cond_t delivered; /* a handler has returned, or a round ended */
	pthread_t thread;
};

/* The process' CM thread, started if it is not there.  0 or -errno. */
int ur_cmt_get(struct ur_cmt **out);

struct ur_cmt *ur_cmt_started(void); /* NULL: it is not there */

/* Is the calling thread the one that runs the loop? */
bool ur_cmt_is_here(void);

/* All below under the lock. */

/* Watch src->fd for EPOLL… events.  0 or -errno. */
int ur_cmt_watch(struct ur_cmt *t, struct ur_cmt_source *src, uint32_t events);
int ur_cmt_rewatch(struct ur_cmt *t, struct ur_cmt_source *src,
		   uint32_t events);
/* Ends the watching and sets src->fd to -1; the caller closes it. */
void ur_cmt_unwatch(struct ur_cmt *t, struct ur_cmt_source *src);

/* One timer more, so that arming cannot fail: 0 or -ENOMEM. */
int ur_cmt_timer_init(struct ur_cmt *t, struct ur_cmt_timer *timer,
		      void (*fire)(struct ur_cmt_timer *t, uint64_t now_ns));
void ur_cmt_timer_arm(struct ur_cmt *t, struct ur_cmt_timer *timer,
		      uint64_t at_ns);
void ur_cmt_timer_fini(struct ur_cmt *t, struct ur_cmt_timer *timer);

/* Have fn called once no thread can hold a pointer to it. */
void ur_cmt_bury(struct ur_cmt *t, struct ur_cmt_grave *g,
		 void (*fn)(struct ur_cmt_grave *g));

/*
 * For conn.c: no event of c will come any more; waits, with the lock released
 * meanwhile, for one that is being delivered, unless called by its own handler.
 * Connections whose REQUEST was not delivered are linked to `orphans`.
 */
void ur_cmt_forget(struct ur_cmt *t, struct ur_conn *c,
		   struct ur_list *orphans);

#endif
