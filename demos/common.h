/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the demos share: a way to wait for the next completion that also
 * notices when the peer has gone, and a way to tell latencies.
 */
#ifndef DEMOS_COMMON_H
#define DEMOS_COMMON_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How wait_completion() ended. */
enum wait_result {
	WAIT_DONE,  /* *wc is a completion that succeeded */
	WAIT_GONE,  /* the peer has closed the connection, or has died */
	WAIT_FAILED /* told on standard error */
};

/*
 * The next completion of cq, the only queue of the connection id.  With sleep
 * it blocks on the queue's channel, which must exist and serve no other queue;
 * else it polls, which answers sooner and keeps a core busy.
 *
 * id must be a synchronous one (made with rdma_create_ep(), or without an event
 * channel), which has an event channel of its own.
 */
enum wait_result wait_completion(struct rdma_cm_id *id, struct ibv_cq *cq,
				 bool sleep, struct ibv_wc *wc);

/*
 * A synchronous endpoint without a queue pair: on the way to host, with address
 * and route resolved, or, without host, one to listen on every address.  To be
 * destroyed with rdma_destroy_ep(); 0, or -1 and told.
 */
int create_endpoint(const char *host, const char *port, struct rdma_cm_id **id);

/* printf() to standard error, with a newline; -1, for `return complain(…)`. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What errno says, after what was tried; -1. */
int complain_errno(const char *tried);

/* A number from text between least and most; false, and told, if it is none. */
bool parse_number(const char *text, unsigned long least, unsigned long most,
		  unsigned long *number);

/* Nanoseconds of a clock that only goes forward. */
uint64_t now_ns(void);

/* Sort count >= 1 times of round trips and print half of them, in µs. */
void print_latency(uint64_t *round_trips_ns, size_t count);

#endif
