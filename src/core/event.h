/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels and asynchronous event queues: an eventfd in semaphore
 * mode plus a queue under a lock. Every entry of the queue is one count of the
 * eventfd (a deferred one later: ur_evq_defer_wakes()), so it is
 * level-triggered, may be polled, and may be set O_NONBLOCK by the application.
 * Objects count the events that were delivered and not yet acknowledged; their
 * destruction waits for the rest (IBTA 11.2.8, ibv_destroy_cq(3)).
 */
#ifndef UR_CORE_EVENT_H
#define UR_CORE_EVENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/lock.h"
#include "core/types.h"

struct ur_evq {
	struct ur_lock lock;
	pthread_cond_t acked; /* an acknowledgement was counted */
	struct ur_list queue; /* of ur_ev.node */
	uint32_t stale; /* counts that takers hold whose entry is gone; lock */
	uint32_t deferred;  /* entries not yet added to the count; lock */
	uint32_t deferring; /* threads that defer counts; lock */
	pid_t pid;	    /* the process that added them */
	int fd;
	_Atomic uint32_t armed; /* CQs that are */
	/*
	 * A program polls fd, and the kernel adds counts without an entry when
	 * packets come (engine/chanpoll.c).  Bit i: it may do so for lane i;
	 * never cleared.
	 */
	_Atomic uint64_t polled_lanes;
	/* Armings, and polls of armed CQs, since the last call for an event. */
	_Atomic uint32_t spins;
	bool inner;	     /* constant: its threads sleep in ur_wait_poll() */
	_Atomic bool blocks; /* the last call without an event did */
	/* Bit i: lane i of the channel's adapter raises events here; only
	 * grows (ur_adapter_feed()). */
	_Atomic uint64_t feeders;
	/*
	 * NULL, or called by ur_evq_hand_out(), without locks, for events that
	 * this thread has deferred: takes them by ur_evq_take_now() and returns
	 * true, or leaves them to be signalled.
	 */
	bool (*raised)(struct ur_evq *q);
	void *owner; /* for `raised` */
};

/* The object that an event is about; embedded in CQs, QPs, SRQs and devices. */
struct ur_ev_source {
	uint32_t delivered; /* taken by the application; evq lock */
	uint32_t acked;	    /* acknowledged by it; evq lock */
};

struct ur_ev {
	struct ur_list node;
	struct ur_ev_source *source;
	void *object; /* the ABI layer's ibv_cq, ibv_qp ...; NULL: the device */
	enum ur_event_type type; /* asynchronous queues only */
	uint32_t pending; /* queued entries that it represents; evq lock */
	uint8_t port_num;
	bool owned; /* allocated by ur_evq_post_async(): freed when taken */
};

/* Initialise `ev`; object and source are those of the containing object. */
void ur_ev_init(struct ur_ev *ev, struct ur_ev_source *source, void *object);

int ur_evq_init(struct ur_evq *q); /* 0 or -errno */
/* Waits for threads that have deferred events of the queue, to which no more are
 * posted: afterwards none of them is in `raised`. */
void ur_evq_settle(struct ur_evq *q);
void ur_evq_fini(struct ur_evq *q);

/* Queue one more event. `ev` is the caller's memory, e.g. in the CQ. If it is
 * queued already, its count rises: each post is one event to be taken. */
void ur_evq_post(struct ur_evq *q, struct ur_ev *ev);

/*
 * Queue a copy, for asynchronous events. Out of memory it is lost, and logged.
 */
void ur_evq_post_async(struct ur_evq *q, enum ur_event_type type,
		       struct ur_ev_source *source, void *object,
		       uint8_t port_num);

/*
 * For a thread that holds locks which the woken thread needs: after
 * ur_evq_defer_wakes() its posts do not signal the eventfd until
 * ur_evq_flush_wakes(), which it must call after unlocking and before it
 * sleeps.
 */
#define UR_EVQ_DEFERRED_MAX 64u /* queues; more are signalled at once */
void ur_evq_defer_wakes(void);
void ur_evq_flush_wakes(void);

/* What a thread that sleeps on descriptors has to look at (ur_evq_hand_out()). */
struct ur_evq_told {
	bool raised;	/* a queue's `raised` took its events */
	bool signalled; /* a queue's descriptor was signalled */
};

/* As ur_evq_flush_wakes(), but gives the events to queues' `raised` first. */
struct ur_evq_told ur_evq_hand_out(void);

/* Has this thread deferred any? */
bool ur_evq_has_deferred(void);

/* After ur_evq_flush_wakes(): posts of this thread signal at once again. */
void ur_evq_end_deferring(void);

/*
 * Take the next event, as read(2) on the descriptor does: blocks unless the
 * descriptor is non-blocking (then -EAGAIN); -EINTR on a signal.  The source
 * counts one more delivered event.
 */
int ur_evq_take(struct ur_evq *q, struct ur_ev *out);

/* Is there an event to take?  It may be gone by the time it is taken. */
bool ur_evq_has(struct ur_evq *q);

/*
 * Take the next event if there is one, whatever the descriptor's mode; one
 * that this thread has posted since ur_evq_defer_wakes() needs no system call.
 */
bool ur_evq_take_now(struct ur_evq *q, struct ur_ev *out);

/*
 * The same where the kernel adds counts without an entry (polled_lanes): removes
 * those that are there.  Without an event, *readable: the descriptor was.
 */
bool ur_evq_take_polled(struct ur_evq *q, struct ur_ev *out, bool *readable);

/* Take an event of `ev` that was not posted. */
void ur_evq_deliver(struct ur_evq *q, const struct ur_ev *ev,
		    struct ur_ev *out);

/* Acknowledge n events of a source. */
void ur_evq_ack(struct ur_evq *q, struct ur_ev_source *source, uint32_t n);

/* The events of a source that were taken. */
uint32_t ur_evq_delivered(struct ur_evq *q, const struct ur_ev_source *source);

/* Remove the queued events of a source. */
void ur_evq_purge(struct ur_evq *q, struct ur_ev_source *source);

/*
 * Before a source is freed: remove its queued events, then wait until all
 * delivered ones are acknowledged. Hold no lock that an acknowledging thread
 * may want. q may be NULL: nothing to do.
 */
void ur_evq_drain(struct ur_evq *q, struct ur_ev_source *source);

#endif
