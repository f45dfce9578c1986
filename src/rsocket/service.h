/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that do what must happen while no application thread is inside:
 * accept connections, finish non-blocking connects, answer datagrams on UDP
 * sockets, send keepalives.  Each starts with its first watch.
 */
#ifndef UR_RSOCKET_SERVICE_H
#define UR_RSOCKET_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

#define URS_NEVER INT64_MAX

struct urs_service;

extern struct urs_service urs_cm_service; /* streams */
extern struct urs_service
	urs_udp_service; /* datagrams: may block for seconds */

/* Owned by the caller; at rest while it is not started. */
struct urs_watch {
	int fd;		/* -1: timer only */
	int64_t due_ns; /* CLOCK_MONOTONIC; URS_NEVER: none */
	/* In the thread, when fd is readable or the time has come; due_ns is
	 * URS_NEVER then.  May stop or change its own watch. */
	void (*fn)(struct urs_watch *w);
	struct ur_list node;
	bool on;
};

static inline int64_t urs_now_ns(void)
{
	return (int64_t)ur_clock_ns();
}

void urs_watch_init(struct urs_watch *w, void (*fn)(struct urs_watch *w));

/* Starts it, if it is not, for its fd; and with the next time.  0 or -errno. */
int urs_watch_start(struct urs_service *svc, struct urs_watch *w);
int urs_watch_start_at(struct urs_service *svc, struct urs_watch *w,
		       int64_t due_ns);

/* After this fn does not run and will not (called from fn itself: not again).
 * Not under a lock that fn takes. */
void urs_watch_stop(struct urs_service *svc, struct urs_watch *w);

/* The thread is the parent's. */
void urs_service_after_fork(struct urs_service *svc);

#endif
