/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane of iWARP: its TCP connections (engine/tcp) and the protocol.
 *
 * Reading: the protocol says where the next bytes belong: those of a large
 * message in the application's memory, others in a buffer of its own.  A
 * connection whose next message has no receive is not read; each step of the
 * lane checks for one.  Writing: the protocol names pieces, mostly of the
 * application's memory, and the kernel copies them before the lane is unlocked.
 */
#include "engine/lane_iwarp.h"
#include "base/socket.h"
#include "engine/faulty_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/timer.h"
#include "engine/report.h"

#define READS_PER_STEP	     8u
/* TCP takes this in one call, and loses nothing. */
#define BATCH_BYTES	     262144u
#define STARVED_CHECK_MIN_NS 50000u
#define STARVED_CHECK_MAX_NS 10000000u
#define STARVED_MAX_NS	     10000000000u
#define STARVED_ENDED_MAX_NS 1000000000u

static bool delivered(void *link)
{
	struct ur_iw_link *k = link;

	return ur_tcp_delivered(&k->tcp);
}

static int iw_open(struct ur_lane *l)
{
	/* The connection identifies the queue pair, so any slot will do. */
	struct ur_iwarp_config cfg = { .slot = l->id + 1,
				       .mrs = &l->adapter->mrs,
				       .patient = true,
				       .delivered = delivered };
	struct ur_iw_lane *iw = calloc(1, sizeof(*iw));
	int err;

	if (!iw)
		return -ENOMEM;
	/* For `urnic show` alone: iWARP works without urnicd. */
	(void)ur_process_client_open(l->adapter);
	ur_list_init(&iw->claimed);
	ur_list_init(&iw->open);
	ur_list_init(&iw->lingering);
	ur_list_init(&iw->starved);
	iw->starved_check_ns = UR_NEVER;
	err = ur_tcp_init(&iw->tcp);
	if (err)
		goto free_lane;
	ur_rng_secret(&cfg.seed, sizeof(cfg.seed));
	err = ur_iwarp_create(&cfg, &iw->w);
	if (err)
		goto fini_tcp;
	l->slot = cfg.slot;
	l->iw = iw;
	return 0;
fini_tcp:
	ur_tcp_fini(&iw->tcp);
free_lane:
	free(iw);
	return err;
}

static void iw_close(struct ur_lane *l)
{
	ur_iwarp_destroy(l->iw->w);
	ur_tcp_fini(&l->iw->tcp);
	free(l->iw->faults);
	free(l->iw);
	l->iw = NULL;
}

/* The epoll set is the parent's too: only close the sockets, so that peers see
 * the end of the parent. */
static void close_all(const struct ur_list *links)
{
	ur_list_each(struct ur_iw_link, l, links, node) {
		int fd = l->tcp.fd;

		if (fd >= 0)
			close(fd);
	}
}

static void iw_abandon(struct ur_lane *l)
{
	close_all(&l->iw->open);
	close_all(&l->iw->lingering);
	ur_tcp_fini(&l->iw->tcp);
}

static int iw_attach(struct ur_lane *l, struct ur_qp *qp)
{
	return ur_iwarp_qp_attach(l->iw->w, qp);
}

static void transmit(struct ur_iw_lane *iw, struct ur_qp *qp,
		     struct ur_iw_link *k, uint64_t now_ns)
{
	struct iovec iov[UR_IW_TX_IOV];
	uint32_t n;
	ssize_t len;

	while ((n = ur_iwarp_tx_get(iw->w, qp, iov, UR_IW_TX_IOV, now_ns))) {
		len = __builtin_expect(iw->faults != NULL, 0)
			      ? ur_faulty_stream_write(k, iov, n)
			      : ur_tcp_write(&iw->tcp, &k->tcp, iov, n);
		if (len == -EFAULT) {
			ur_iwarp_tx_fault(iw->w, qp, now_ns);
			continue;
		}
		if (__builtin_expect(k->lane->tap != NULL, 0) && len > 0)
			ur_tap_stream(k, iov, n, (uint32_t)len, true);
		ur_iwarp_tx_done(iw->w, qp, (uint32_t)len, now_ns);
		if (len == 0)
			return;
		if (ur_iwarp_tx_blocked(qp))
			ur_iwarp_tx_unblock(iw->w, qp);
	}
}

static void follow_action(struct ur_iw_link *k, enum ur_iw_link_action action,
			  uint64_t now_ns)
{
	switch (action) {
	case UR_IW_KEEP:
		return;
	case UR_IW_SHUT:
		if (!k->shut)
			ur_tcp_shut(&k->tcp);
		k->shut = true;
		ur_iw_link_tell(k);
		return;
	case UR_IW_CLOSE:
	case UR_IW_ABORT:
		ur_iw_link_close(k, action == UR_IW_ABORT, now_ns);
		return;
	}
}

void ur_iw_serve(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	struct ur_iw_link *k = ur_iwarp_link(qp);

	if (!k)
		return;
	transmit(l->iw, qp, k, now_ns);
	follow_action(k, ur_iwarp_link_action(qp), now_ns);
}

static bool iw_send(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_qp *qp;
	bool sent = false;

	while ((qp = ur_iwarp_next(l->iw->w))) {
		ur_iw_serve(l, qp, now_ns);
		l->activity_ns = now_ns;
		sent = true;
	}
	return sent;
}

static void iw_kick(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	ur_iwarp_kick(l->iw->w, qp, now_ns);
}

/* Reads a connection once; false: it had nothing, or the QP wants nothing. */
static bool read_conn(struct ur_iw_lane *iw, struct ur_iw_link *k)
{
	struct iovec iov[UR_IW_RX_IOV];
	uint32_t n = ur_iwarp_rx_want(iw->w, k->qp, iov, UR_IW_RX_IOV);
	uint32_t want = 0;
	ssize_t len;

	if (n == 0)
		return false;
	for (uint32_t i = 0; i < n; i++)
		want += (uint32_t)iov[i].iov_len;
	len = __builtin_expect(iw->faults != NULL, 0)
		      ? ur_faulty_stream_read(k, iov, n)
		      : ur_tcp_read(&iw->tcp, &k->tcp, iov, n);
	if (len == -EAGAIN)
		return false;
	if (iw->now_ns == 0)
		iw->now_ns = ur_clock_ns();
	if (len > 0) {
		if (__builtin_expect(k->lane->tap != NULL, 0))
			ur_tap_stream(k, iov, n, (uint32_t)len, false);
		ur_iwarp_rx_done(iw->w, k->qp, (uint32_t)len, iw->now_ns);
		/* The read may have ended at unmapped memory. */
		if (n > 1 && (uint32_t)len < want)
			ur_tcp_again(&iw->tcp, &k->tcp);
	} else if (len == -EFAULT) {
		ur_iwarp_rx_fault(iw->w, k->qp, iw->now_ns);
	} else if (!k->ended) {
		k->ended = true;
		ur_iwarp_eof(iw->w, k->qp, (int)len, iw->now_ns);
	}
	if (ur_iwarp_rx_starved(k->qp) && ur_list_empty(&k->starved)) {
		ur_list_add_tail(&iw->starved, &k->starved);
		k->starved_ns = iw->now_ns;
		iw->starved_check_ns = iw->now_ns + STARVED_CHECK_MIN_NS;
	}
	return true;
}

/* The clock may have been read after `now_ns` when it starved. */
static uint64_t starved_for(const struct ur_iw_link *k, uint64_t now_ns)
{
	return now_ns > k->starved_ns ? now_ns - k->starved_ns : 0;
}

/* Longer than a program takes that posts receives in batches.  A program that
 * posts none, or whose peer has closed, gets an error. */
static bool is_starved_too_long(const struct ur_iw_link *k, uint64_t now_ns)
{
	return starved_for(k, now_ns) >
	       (k->tcp.ended ? STARVED_ENDED_MAX_NS : STARVED_MAX_NS);
}

/* Checks for receives, more rarely the longer there were none. */
static void retry_starved(struct ur_iw_lane *iw, uint64_t now_ns)
{
	iw->starved_check_ns = UR_NEVER;
	ur_list_each_safe(struct ur_iw_link, k, &iw->starved, starved) {
		uint64_t pause = ur_backoff_ns(starved_for(k, now_ns), 8,
					       STARVED_CHECK_MIN_NS,
					       STARVED_CHECK_MAX_NS);

		if (ur_iwarp_rx_retry(iw->w, k->qp,
				      is_starved_too_long(k, now_ns), now_ns)) {
			ur_list_del(&k->starved);
			ur_tcp_again(&iw->tcp, &k->tcp);
			continue;
		}
		if (now_ns + pause < iw->starved_check_ns)
			iw->starved_check_ns = now_ns + pause;
	}
}

static int read_some(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_iw_lane *iw = l->iw;
	struct ur_tcp_conn *c;
	int got = 0;

	iw->now_ns = 0;
	ur_tcp_poll(&iw->tcp, l->watch == UR_WATCH_TICK, now_ns);
	while ((c = ur_tcp_next_writable(&iw->tcp))) {
		struct ur_iw_link *k =
			ur_container_of(c, struct ur_iw_link, tcp);

		if (k->state == UR_IW_OPEN)
			ur_iwarp_tx_unblock(iw->w, k->qp);
	}
	for (uint32_t i = 0; i < READS_PER_STEP; i++) {
		struct ur_iw_link *k;

		c = ur_tcp_next_readable(&iw->tcp);
		if (!c)
			break;
		k = ur_container_of(c, struct ur_iw_link, tcp);
		if (k->state == UR_IW_OPEN)
			got += read_conn(iw, k);
		else
			ur_iw_linger_read(k);
	}
	return got;
}

/* Serves what n reads cause. */
static void respond(struct ur_lane *l, int n, uint64_t now_ns)
{
	struct ur_iw_lane *iw = l->iw;

	if (iw->now_ns)
		now_ns = iw->now_ns;
	if (n)
		l->activity_ns = now_ns;
	ur_lane_drain(l, now_ns);
	if (ur_iwarp_deadline(iw->w) <= now_ns)
		ur_iwarp_expire(iw->w, now_ns);
	ur_iw_linger_expire(iw, now_ns);
	ur_lane_send(l, now_ns);
}

static int iw_step(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_iw_lane *iw = l->iw;
	int n;

	if (iw->starved_check_ns != UR_NEVER)
		retry_starved(iw, now_ns);
	ur_faulty_stream_retry(iw, now_ns);
	n = read_some(l, now_ns);
	respond(l, n, now_ns);
	/* The hot connection could not rejoin the set: try again in a tick. */
	if (iw->tcp.out && l->watch == UR_WATCH_ARMED)
		l->activity_ns = ur_clock_ns();
	return n;
}

/* One read of the hot connection (engine/tcp), without the clock. */
static bool iw_quick_poll(struct ur_lane *l, uint64_t *now)
{
	struct ur_iw_lane *iw = l->iw;
	struct ur_tcp_conn *c;
	struct ur_iw_link *k;

	if (ur_lane_full_poll_is_due(l) || iw->starved_check_ns != UR_NEVER ||
	    iw->faults)
		return false;
	c = ur_tcp_hot(&iw->tcp);
	if (!c)
		return false;
	k = ur_container_of(c, struct ur_iw_link, tcp);
	if (k->state != UR_IW_OPEN)
		return false;
	iw->now_ns = 0;
	if (!read_conn(iw, k))
		return true;
	*now = iw->now_ns ? iw->now_ns : ur_clock_ns();
	respond(l, 1, *now);
	return false;
}

/* The edges of readable connections do not come again. */
static bool iw_rest(struct ur_lane *l, bool asleep)
{
	return !asleep || !ur_tcp_has_readable(&l->iw->tcp);
}

static uint64_t iw_deadline(const struct ur_lane *l)
{
	uint64_t a = ur_iwarp_deadline(l->iw->w);
	uint64_t b = ur_iw_linger_deadline(l->iw);

	uint64_t c = ur_faulty_stream_deadline(l->iw);

	if (l->iw->starved_check_ns < a)
		a = l->iw->starved_check_ns;
	if (c < a)
		a = c;
	return a < b ? a : b;
}

static int iw_wait_fd(const struct ur_lane *l)
{
	return ur_tcp_wait_fd(&l->iw->tcp);
}

static void iw_detach(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	ur_lane_settle(l, now_ns);
	ur_iw_link_orphan(l, qp, now_ns);
	ur_iwarp_qp_detach(l->iw->w, qp);
}

static int iw_modify(struct ur_lane *l, struct ur_qp *qp,
		     const struct ur_qp_attr *attr, uint32_t mask,
		     uint64_t now_ns)
{
	int err;

	ur_lane_settle(l, now_ns);
	err = ur_iwarp_qp_modify(l->iw->w, qp, attr, mask, now_ns);
	if (!err)
		ur_lane_send(l, now_ns);
	return err;
}

static void iw_query(const struct ur_lane *l, const struct ur_qp *qp,
		     struct ur_qp_attr *attr)
{
	ur_iwarp_qp_query(l->iw->w, qp, attr);
}

static int iw_mcast(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16],
		    bool attach)
{
	return -EOPNOTSUPP;
}

static void add_end(struct json_object *o, const char *name,
		    const struct sockaddr_storage *ss)
{
	char addr[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 16];
	const struct sockaddr_in *v4 = (const void *)ss;
	const struct sockaddr_in6 *v6 = (const void *)ss;
	bool is_v4 = ss->ss_family == AF_INET;

	inet_ntop(ss->ss_family,
		  is_v4 ? (const void *)&v4->sin_addr : &v6->sin6_addr, addr,
		  sizeof(addr));
	snprintf(text, sizeof(text), is_v4 ? "%s:%u" : "[%s]:%u", addr,
		 ur_sockaddr_port(ss));
	ur_report_string(o, name, text);
}

static bool find_ends(const struct ur_tcp_conn *c,
		      struct sockaddr_storage *local,
		      struct sockaddr_storage *peer)
{
	socklen_t llen = sizeof(*local), plen = sizeof(*peer);
	struct ur_stack_end ours, theirs;

	if (!c->stream)
		return !getsockname(c->fd, (struct sockaddr *)local, &llen) &&
		       !getpeername(c->fd, (struct sockaddr *)peer, &plen);
	ur_stream_ends(c->stream, &ours, &theirs);
	ur_sockaddr_from_gid(ours.addr, ours.scope, ours.port, local);
	ur_sockaddr_from_gid(theirs.addr, theirs.scope, theirs.port, peer);
	return true;
}

static void add_qp(void *arg, const struct ur_qp *qp)
{
	struct ur_report_qps *list = arg;
	struct json_object *o = ur_report_qp(list, qp);
	const struct ur_iw_link *k = ur_iwarp_link(qp);
	struct sockaddr_storage local = { 0 }, peer = { 0 };

	ur_report_path(
		o, list->lane->iw->tcp.streams ? "port, TCP" : "sockets, TCP",
		"iWARP uses no shared memory");
	if (!k || k->state != UR_IW_OPEN || !find_ends(&k->tcp, &local, &peer))
		return;
	add_end(o, "local", &local);
	add_end(o, "peer", &peer);
}

static void iw_for_each_qp(struct ur_lane *l,
			   void (*fn)(void *arg, const struct ur_qp *qp),
			   void *arg)
{
	ur_iwarp_for_each_qp(l->iw->w, fn, arg);
}

static void iw_report(struct ur_lane *l, struct json_object *o)
{
	const struct ur_iwarp_counters *c = ur_iwarp_counters(l->iw->w);
	struct ur_report_qps list = { .lane = l,
				      .array = json_object_new_array() };
	struct json_object *counters = json_object_new_object();

	ur_report_string(o, "link", l->iw->tcp.streams ? "lwip" : "tcp");
	ur_report_int(o, "connections", l->iw->tcp.count);
	ur_iwarp_for_each_qp(l->iw->w, add_qp, &list);
	ur_report_add_qps(o, &list);
#define ADD(name) ur_report_int(counters, #name, c->name);
	UR_IWARP_COUNTERS(ADD)
#undef ADD
	json_object_object_add(o, "counters", counters);
}

static void iw_count(const struct ur_lane *l, struct ur_roce_counters *sum)
{
	const struct ur_iwarp_counters *c = ur_iwarp_counters(l->iw->w);

	sum->sent_pkts += c->sent_fpdus;
	sum->rcvd_pkts += c->rcvd_fpdus;
	sum->sent_bytes += c->sent_bytes;
	sum->rcvd_bytes += c->rcvd_bytes;
	sum->rx_write_requests += c->rx_write_requests;
	sum->rx_read_requests += c->rx_read_requests;
	sum->rx_atomic_requests += c->rx_atomic_requests;
	sum->drop_malformed += c->crc_errors + c->framing_errors;
	sum->req_cqe_error += c->req_cqe_error;
	sum->resp_cqe_error += c->resp_cqe_error;
}

const struct ur_lane_ops ur_lane_iwarp = {
	.name = "iwarp",
	.batch_bytes = BATCH_BYTES,
	.qp_types = 1u << UR_QPT_RC,
	.open = iw_open,
	.close = iw_close,
	.abandon = iw_abandon,
	.attach = iw_attach,
	.detach = iw_detach,
	.modify = iw_modify,
	.query = iw_query,
	.mcast = iw_mcast,
	.for_each_qp = iw_for_each_qp,
	.kick = iw_kick,
	.send = iw_send,
	.step = iw_step,
	.quick_poll = iw_quick_poll,
	.deadline = iw_deadline,
	.wait_fd = iw_wait_fd,
	.rest = iw_rest,
	.settle = ur_lane_settle,
	.report = iw_report,
	.count = iw_count,
};
