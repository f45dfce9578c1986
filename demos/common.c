// SPDX-License-Identifier: BSD-2-Clause
#include "common.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Empty polls after which to look whether the peer is still there: that is a
 * system call, which must not cost every poll. */
#define POLLS_PER_LOOK 1024

int complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

int complain_errno(const char *tried)
{
	return complain("%s: %s", tried, strerror(errno));
}

bool parse_number(const char *text, unsigned long least, unsigned long most,
		  unsigned long *number)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		complain("'%s' is not a number from %lu to %lu", text, least,
			 most);
		return false;
	}
	*number = value;
	return true;
}

int create_endpoint(const char *host, const char *port, struct rdma_cm_id **id)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *found;
	int err;

	if (!host) {
		hints.ai_flags = RAI_PASSIVE;
		/* Any address of IPv6 is also any of IPv4. */
		hints.ai_family = AF_INET6;
	}
	if (rdma_getaddrinfo(host, port, &hints, &found))
		return complain_errno("rdma_getaddrinfo");
	err = rdma_create_ep(id, found, NULL, NULL);
	rdma_freeaddrinfo(found);
	return err ? complain_errno("rdma_create_ep") : 0;
}

/*
 * Once a connection is up, all that its event channel can say is that it is
 * about to end, so a single readable byte is enough.
 */
static bool peer_gone(const struct rdma_cm_id *id)
{
	struct pollfd p = { .fd = id->channel->fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Block until the queue has an event (armed before) or the peer has gone. */
static int sleep_until_event(const struct rdma_cm_id *id, struct ibv_cq *cq)
{
	struct pollfd p[] = { { .fd = cq->channel->fd, .events = POLLIN },
			      { .fd = id->channel->fd, .events = POLLIN } };
	struct ibv_cq *which;
	void *context;

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return complain_errno("poll");
	if (!(p[0].revents & POLLIN))
		return 0;
	if (ibv_get_cq_event(cq->channel, &which, &context))
		return complain_errno("ibv_get_cq_event");
	/* Unacknowledged events would keep ibv_destroy_cq() waiting. */
	ibv_ack_cq_events(which, 1);
	return 0;
}

/* A completion is either a success or the end of the connection. */
static enum wait_result judge(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return WAIT_DONE;
	/* Not this request has failed: the queue pair was stopped under it. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return WAIT_GONE;
	/* Only status, wr_id, qp_num and vendor_err are valid now. */
	complain("the connection has failed: %s",
		 ibv_wc_status_str(wc->status));
	return WAIT_FAILED;
}

enum wait_result wait_completion(struct rdma_cm_id *id, struct ibv_cq *cq,
				 bool sleep, struct ibv_wc *wc)
{
	bool gone = false, armed = false;

	for (unsigned int polls = 1;; polls++) {
		int n = ibv_poll_cq(cq, 1, wc);

		if (n < 0) {
			complain("ibv_poll_cq has failed");
			return WAIT_FAILED;
		}
		if (n > 0)
			return judge(wc);
		if (gone)
			return WAIT_GONE;
		if (!sleep) {
			/* What came before the end is still in the queue, so
			 * poll once more. */
			gone = polls % POLLS_PER_LOOK == 0 && peer_gone(id);
			continue;
		}
		if (!armed) {
			/* A completion from before it was armed makes no
			 * event: poll once more, and then sleep. */
			if (ibv_req_notify_cq(cq, 0)) {
				complain("ibv_req_notify_cq has failed");
				return WAIT_FAILED;
			}
			armed = true;
			continue;
		}
		if (sleep_until_event(id, cq))
			return WAIT_FAILED;
		armed = false;
		gone = peer_gone(id);
	}
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double half_us(uint64_t round_trip_ns)
{
	return (double)round_trip_ns / 2000;
}

void print_latency(uint64_t *round_trips_ns, size_t count)
{
	qsort(round_trips_ns, count, sizeof(*round_trips_ns), by_size);
	printf("%zu round trips, one way: least %.2f, median %.2f, "
	       "99 %% %.2f, most %.2f us\n",
	       count, half_us(round_trips_ns[0]),
	       half_us(round_trips_ns[count / 2]),
	       half_us(round_trips_ns[count * 99 / 100]),
	       half_us(round_trips_ns[count - 1]));
}
