/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a watcher (`urnic top`, `urnic metrics`) sees of a queue pair and of no
 * other: bytes, and how long requests take from post to completion.  Nothing is
 * counted while no report is asked for: ur_qp.aside is false then, and posting
 * and completing do not come here.
 *
 * Of the requests, one in `stride` is timed, and one at a time.  The poster
 * writes when it was posted, the lane completes it.  Posters may race, and then a
 * sample has the time of one and the number of the other, which were posted at
 * the same time.
 */
#ifndef UR_CORE_WATCH_H
#define UR_CORE_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ur_qp;
struct ur_swqe;

/* Four buckets for each power of two: a percentile is at most 25 % too high. */
#define UR_WATCH_SUB	 4u
#define UR_WATCH_BUCKETS (40u * UR_WATCH_SUB)
/* Samples of a queue pair that a period between two reports should have. */
#define UR_WATCH_SAMPLES 1024u

struct ur_latency {
	uint64_t samples;
	uint64_t max_ns;
	uint32_t bucket[UR_WATCH_BUCKETS];
};

struct ur_qp_watch {
	uint64_t (*now)(void);
	bool on;	 /* lane */
	uint32_t stride; /* lane */
	uint32_t left;	 /* completions until the next sample; lane */
	uint32_t before; /* sq.head at the last report; lane */
	uint64_t sent_bytes;
	uint64_t rcvd_bytes;
	_Atomic bool wanted; /* the next request that is posted is timed */
	_Atomic uint32_t index;
	_Atomic uint64_t posted_ns; /* 0: none is being timed */
	struct ur_latency latency;  /* since the last report; lane */
};

/*
 * Under the lane's lock: count from now on; a new period begins. -ENOMEM. What
 * was counted before stays, and ur_qp_fini() frees it.
 */
int ur_watch_start(struct ur_qp *qp, uint64_t (*now)(void));
void ur_watch_stop(struct ur_qp *qp);

/* For queue pairs with ur_qp.aside. Requests were posted; holds no lock. */
void ur_watch_posted(struct ur_qp *qp);
/* Under the lane's lock; before the slot of the oldest request is freed. */
void ur_watch_completes(struct ur_qp *qp, const struct ur_swqe *w);
void ur_watch_received(struct ur_qp *qp, uint32_t bytes);

void ur_latency_add(struct ur_latency *l, uint64_t ns);
void ur_latency_merge(struct ur_latency *to, const struct ur_latency *from);
/* The upper end of the bucket with that part of the samples, per mille; 0: there
 * are none. */
uint64_t ur_latency_at(const struct ur_latency *l, uint32_t permille);

#endif
