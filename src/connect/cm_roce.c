/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation.  Our communication IDs carry the number of a slot of
 * port 4791 that only this process has, so the kernel delivers the MADs that
 * name one of them; the CM thread reads that socket.  Other MADs, requests
 * above all, come through urnicd.  The thread that reads urnicd's connection
 * (mostly the CM thread, sometimes one that waits for a reply) holds the
 * client's lock and may not take ours, so it puts MADs into the inbox, whose
 * lock is inside all others.  The CM thread takes them out, runs the state
 * machine under its lock, sends the resulting messages and queues the events.
 */
#include "connect/cm_roce.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sys.h"
#include "engine/capture.h"
#include "engine/hooks.h"
#include "engine/internal.h"

#define QPN_AT		5u /* in the BTH */
#define QP1		1u
#define ACK_DELAY	15u /* local_ca_ack_delay, as the kernel's devices say */
#define READS_PER_ROUND 64u

static pthread_mutex_t make_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_cm_roce *_Atomic the_cm; /* written under make_lock */
/* Connections made before a fork() still point at it. */
static struct ur_cm_roce *inherited __attribute__((used));

struct ur_cm_roce *ur_cm_roce_started(void)
{
	return atomic_load_explicit(&the_cm, memory_order_acquire);
}

/* What the packet of a received one had besides is not known any more. */
static void tap(struct ur_cm_roce *rt, const struct ur_cm_dgram *d, bool sent)
{
	if (ur_capture_is_on())
		ur_tap_mad(ur_qp1_packet(rt->qp1, d), sent);
}

static void send_mad(struct ur_cm_roce *rt, const struct ur_cm_dgram *d)
{
	tap(rt, d, true);
	(void)ur_qp1_send(rt->qp1, d);
}

static void input(struct ur_cm_roce *rt, const struct ur_cm_dgram *d)
{
	tap(rt, d, false);
	ur_cm_input(rt->cm, d, ur_clock_ns());
	ur_cm_roce_flush(rt);
}

void ur_cm_roce_flush(struct ur_cm_roce *rt)
{
	struct ur_cm_dgram d;
	struct ur_cm_event ev;
	bool more;

	do {
		more = false;
		while (ur_cm_output(rt->cm, &d))
			send_mad(rt, &d);
		while (ur_cm_take_event(rt->cm, &ev)) {
			ur_conn_roce_event(rt, &ev);
			more = true;
		}
	} while (more);
	ur_cmt_timer_arm(rt->cmt, &rt->timer, ur_cm_deadline(rt->cm));
}

static void expire(struct ur_cmt_timer *t, uint64_t now_ns)
{
	struct ur_cm_roce *rt = ur_container_of(t, struct ur_cm_roce, timer);

	ur_cm_expire(rt->cm, now_ns);
	ur_cm_roce_flush(rt);
}

static void signal_inbox(struct ur_cm_roce *rt)
{
	ur_event_signal(rt->inbox_src.fd);
}

static bool put(struct ur_cm_roce *rt, const struct ur_cm_dgram *d)
{
	bool first;

	ur_lock(&rt->inbox_lock);
	first = rt->count == 0;
	if (rt->count < UR_CM_INBOX) {
		rt->inbox[(rt->head + rt->count) % UR_CM_INBOX] = *d;
		rt->count++;
	} else {
		rt->inbox_lost++;
	}
	ur_unlock(&rt->inbox_lock);
	return first;
}

/* From the client.  client_ready() looks into the inbox afterwards. */
static void on_mad(void *arg, const struct ur_cm_dgram *d)
{
	struct ur_cm_roce *rt = arg;

	if (put(rt, d) && !(ur_cmt_is_here() && rt->in_client_ready))
		signal_inbox(rt);
}

static bool get(struct ur_cm_roce *rt, struct ur_cm_dgram *d)
{
	bool there;

	ur_lock(&rt->inbox_lock);
	there = rt->count > 0;
	if (there) {
		*d = rt->inbox[rt->head];
		rt->head = (rt->head + 1) % UR_CM_INBOX;
		rt->count--;
	}
	ur_unlock(&rt->inbox_lock);
	return there;
}

static bool get_est(struct ur_cm_roce *rt, uint32_t *qpn)
{
	bool there;

	ur_lock(&rt->inbox_lock);
	there = rt->est_count > 0;
	if (there) {
		*qpn = rt->est[rt->est_head];
		rt->est_head = (rt->est_head + 1) % UR_CM_INBOX;
		rt->est_count--;
	}
	ur_unlock(&rt->inbox_lock);
	return there;
}

static void empty_inbox(struct ur_cm_roce *rt)
{
	struct ur_cm_dgram d;
	uint32_t qpn;

	while (get(rt, &d))
		input(rt, &d);
	while (get_est(rt, &qpn))
		ur_conn_roce_established(rt, qpn);
}

static void inbox_ready(struct ur_cmt_source *src, uint32_t events)
{
	struct ur_cm_roce *rt =
		ur_container_of(src, struct ur_cm_roce, inbox_src);
	uint64_t n;

	(void)!read(src->fd, &n, sizeof(n));
	empty_inbox(rt);
}

static void on_slot_mad(void *arg, const struct ur_cm_dgram *d)
{
	input(arg, d);
}

/*
 * Requests that came before stand in the inbox.  The set reports again what is
 * left in the socket, so a lone message needs no second, empty read.  Without
 * empty reads ur_udp_recv() reads every third lone message as a batch, which
 * takes 0.3 µs longer; an empty read takes 0.4 µs.
 */
static void slot_ready(struct ur_cmt_source *src, uint32_t events)
{
	struct ur_cm_roce *rt =
		ur_container_of(src, struct ur_cm_roce, slot_src);

	empty_inbox(rt);
	for (unsigned int i = 0; i < READS_PER_ROUND; i++) {
		if (ur_qp1_recv(rt->qp1, on_slot_mad, rt) <= 1)
			return;
	}
}

/* Without our lock: it takes the client's, and a report takes the lanes'. */
static void client_ready(struct ur_cmt_source *src, uint32_t events)
{
	struct ur_cm_roce *rt =
		ur_container_of(src, struct ur_cm_roce, client_src);

	rt->in_client_ready = true;
	ur_unlock(&rt->cmt->lock);
	ur_client_service(rt->client);
	ur_lock(&rt->cmt->lock);
	rt->in_client_ready = false;
	empty_inbox(rt);
}

bool ur_cm_hook_input(const struct ur_rx *rx)
{
	struct ur_cm_roce *rt = ur_cm_roce_started();
	struct ur_rd r = ur_rd_init(rx->data, rx->len);
	struct ur_cm_dgram d;

	(void)ur_rd_bytes(&r, QPN_AT);
	if (ur_rd_be24(&r) != QP1 || r.bad || !rt)
		return false;
	if (ur_qp1_check(rt->qp1, rx, &d) && put(rt, &d))
		signal_inbox(rt);
	return true;
}

void ur_cm_hook_comm_est(uint32_t qpn)
{
	struct ur_cm_roce *rt = ur_cm_roce_started();
	bool first;

	if (!rt)
		return;
	ur_lock(&rt->inbox_lock);
	first = rt->est_count == 0;
	/* Beyond that, only the RTU establishes. */
	if (rt->est_count < UR_CM_INBOX) {
		rt->est[(rt->est_head + rt->est_count) % UR_CM_INBOX] = qpn;
		rt->est_count++;
	}
	ur_unlock(&rt->inbox_lock);
	if (first)
		signal_inbox(rt);
}

/*
 * A program ends without destroying its connections: as the kernel does for
 * it, each peer is notified.  A thread of ours that is at work is not waited for.
 */
__attribute__((destructor)) static void hang_up_at_exit(void)
{
	struct ur_cm_roce *rt = atomic_load(&the_cm);
	struct ur_cm_dgram d;

	if (!rt || !ur_trylock(&rt->cmt->lock))
		return;
	ur_list_each(struct ur_conn_roce, rc, &rt->conns, node) {
		ur_conn_roce_on_exit(rc, UR_CONN_EXIT_NOTHING);
		if (ur_cm_disconnect(rc->id, ur_clock_ns()))
			(void)ur_cm_reject(rc->id, 0, NULL, 0, ur_clock_ns());
		while (ur_cm_output(rt->cm, &d))
			send_mad(rt, &d);
	}
	ur_unlock(&rt->cmt->lock);
}

/* The child must not send on the parent's sockets. */
static void abandon(void)
{
	struct ur_cm_roce *rt = atomic_load(&the_cm);

	if (!rt)
		return;
	ur_qp1_close(rt->qp1);
	close(rt->inbox_src.fd);
	inherited = rt;
	atomic_store(&the_cm, NULL);
	pthread_mutex_init(&make_lock, NULL);
}

static int make_cm(struct ur_cm_roce *rt, uint32_t slot)
{
	struct ur_cm_config cfg = {
		.slot = slot,
		.ca_guid = rt->adapter->dev.node_guid,
		.ack_delay = ACK_DELAY,
	};

	ur_rng_secret(&cfg.seed, sizeof(cfg.seed));
	return ur_cm_create(&cfg, &rt->cm);
}

/* The client's descriptor is polled by the CM thread from now on. */
static int watch(struct ur_cm_roce *rt)
{
	int err;

	rt->client_src = (struct ur_cmt_source){ -1, client_ready };
	rt->inbox_src.ready = inbox_ready;
	rt->slot_src.ready = slot_ready;
	ur_lock(&rt->cmt->lock);
	err = ur_cmt_timer_init(rt->cmt, &rt->timer, expire);
	if (!err)
		err = ur_cmt_watch(rt->cmt, &rt->inbox_src, EPOLLIN);
	if (!err && !ur_client_is_alone(rt->client)) {
		rt->client_src.fd = ur_client_take(rt->client);
		err = ur_cmt_watch(rt->cmt, &rt->client_src, EPOLLIN);
	}
	if (!err && rt->slot_src.fd >= 0)
		err = ur_cmt_watch(rt->cmt, &rt->slot_src, EPOLLIN);
	ur_unlock(&rt->cmt->lock);
	ur_watcher_wake();
	return err;
}

/* A slot of our own.  Without one messages come to that of the lane. */
static int open_qp1(struct ur_cm_roce *rt)
{
	int fd = -1, err;

	if (!ur_client_is_alone(rt->client) &&
	    ur_client_slot(rt->client, &rt->slot, &fd))
		ur_info("no slot for connections, they share the lane's");
	err = ur_qp1_open(fd, &rt->qp1);
	if (!err)
		rt->slot_src.fd = fd;
	else if (fd >= 0)
		close(fd);
	return err;
}

static int open_parts(struct ur_cm_roce *rt, const struct ur_lane *lane)
{
	int err;

	rt->inbox = calloc(UR_CM_INBOX, sizeof(*rt->inbox));
	if (!rt->inbox)
		return -ENOMEM;
	rt->inbox_src.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rt->inbox_src.fd < 0)
		return -errno;
	err = open_qp1(rt);
	if (!err)
		err = make_cm(rt, rt->slot ? rt->slot : lane->slot);
	if (!err)
		err = watch(rt);
	return err;
}

static void close_parts(struct ur_cm_roce *rt)
{
	if (rt->cm)
		ur_cm_destroy(rt->cm);
	if (rt->qp1)
		ur_qp1_close(rt->qp1);
	if (rt->slot)
		ur_client_slot_put(rt->client, rt->slot);
	if (rt->inbox_src.fd >= 0)
		close(rt->inbox_src.fd);
	free(rt->inbox);
	free(rt);
}

/* Without a slot of our own communication IDs carry the lane's. */
static int make(struct ur_adapter *a, struct ur_cm_roce **out)
{
	static bool registered;
	struct ur_cm_roce *rt = calloc(1, sizeof(*rt));
	struct ur_lane *lane;
	int err;

	if (!rt)
		return -ENOMEM;
	ur_lock_init(&rt->inbox_lock);
	ur_list_init(&rt->conns);
	for (unsigned int i = 0; i < UR_CM_EST_BUCKETS; i++)
		ur_list_init(&rt->accepted[i]);
	rt->adapter = a;
	rt->inbox_src.fd = -1;
	rt->slot_src.fd = -1;
	err = ur_cmt_get(&rt->cmt);
	if (!err)
		err = ur_adapter_lane(a, &lane);
	if (!err) {
		rt->client = a->client;
		err = open_parts(rt, lane);
	}
	if (err) {
		close_parts(rt);
		return err;
	}
	ur_client_on_mad(rt->client, on_mad, rt);
	rt->exit_file = ur_client_exit_file(rt->client);
	if (!registered)
		registered = pthread_atfork(NULL, NULL, abandon) == 0;
	if (!rt->slot)
		ur_lane_serve_qp1(lane);
	*out = rt;
	return 0;
}

int ur_cm_roce_get(struct ur_adapter *a, struct ur_cm_roce **out)
{
	struct ur_cm_roce *rt = ur_cm_roce_started();
	int err = 0;

	if (rt) {
		*out = rt;
		return 0;
	}
	pthread_mutex_lock(&make_lock);
	rt = atomic_load(&the_cm);
	if (!rt)
		err = make(a, &rt);
	if (!err) {
		atomic_store_explicit(&the_cm, rt, memory_order_release);
		*out = rt;
	}
	pthread_mutex_unlock(&make_lock);
	return err;
}
