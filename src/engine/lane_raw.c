/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lane of raw packets: one network device of those that the adapter stands
 * for, its packet sockets, and all raw queue pairs and work queues.  The
 * sockets are opened for the first queue pair, since they need CAP_NET_RAW.
 */
#include "engine/lane_raw.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/timer.h"
#include "engine/capture.h"
#include "engine/report.h"

#define RETRY_SEND_NS	     50000u
#define ROUNDS_PER_SEND	     64u
#define FULL_TRIES	     20u
#define BATCH_BYTES	     262144u
#define STARVED_CHECK_MIN_NS 20000u
#define STARVED_CHECK_MAX_NS 5000000u

static int raw_open(struct ur_lane *l)
{
	struct ur_raw_lane *rl = calloc(1, sizeof(*rl));
	int err;

	if (!rl)
		return -ENOMEM;
	/* For `urnic show` alone. */
	(void)ur_process_client_open(l->adapter);
	err = ur_raw_create(&l->adapter->mrs, &rl->raw);
	if (err) {
		free(rl);
		return err;
	}
	rl->starved_check_ns = UR_NEVER;
	l->slot = UR_RAW_SLOT;
	l->raw = rl;
	return 0;
}

static void raw_close(struct ur_lane *l)
{
	if (l->raw->packet)
		ur_packet_close(l->raw->packet);
	ur_raw_destroy(l->raw->raw);
	free(l->raw);
	l->raw = NULL;
}

static void raw_abandon(struct ur_lane *l)
{
	if (l->raw->packet)
		ur_packet_close(l->raw->packet);
	l->raw->packet = NULL;
}

static bool try_device(struct ur_raw_lane *rl, const char *name)
{
	if (ur_netdev_find(name, &rl->dev))
		return false;
	snprintf(rl->ifname, sizeof(rl->ifname), "%s", name);
	return true;
}

/*
 * URNIC_RAW_NETDEV, else the first Ethernet device in the order of the GID
 * table of port 1, which has loopback last, as a fallback.
 */
static int find_device(struct ur_lane *l)
{
	const char *name = getenv("URNIC_RAW_NETDEV");

	if (name && *name)
		return try_device(l->raw, name) ? 0 : -ENODEV;
	for (uint32_t i = 0; i < UR_GID_TABLE_LEN; i++) {
		struct ur_gid g;

		if (!ur_dev_gid(&l->adapter->dev, 1, i, &g) && g.ifindex &&
		    g.up && try_device(l->raw, g.ifname))
			return 0;
	}
	return -ENODEV;
}

static int open_packet(struct ur_lane *l)
{
	struct ur_raw_lane *rl = l->raw;
	int err = find_device(l);

	if (!err)
		err = ur_packet_open(&rl->dev, &rl->packet);
	if (err)
		return err;
	ur_debug("raw packets of %s", rl->ifname);
	/* The helper has a descriptor to sleep on now. */
	ur_lane_wake(l);
	return 0;
}

static int raw_attach(struct ur_lane *l, struct ur_qp *qp)
{
	int err = ur_packet_allowed();

	if (!err && !l->raw->packet)
		err = open_packet(l);
	return err ? err : ur_raw_qp_attach(l->raw->raw, qp);
}

int ur_raw_lane_refilter(struct ur_lane *l)
{
	struct ur_raw_lane *rl = l->raw;
	const struct ur_flow_table *t = ur_raw_flows(rl->raw);
	uint32_t n;
	int err;

	n = ur_prefilter(t, rl->dev.mac, rl->dev.loopback, rl->code);
	err = ur_packet_filter(rl->packet, rl->code, n);
	return err ? err
		   : ur_packet_want(rl->packet,
				    ur_flow_filters(t, rl->dev.mac));
}

/*
 * -ENOBUFS: the device's queue is full and will have room soon.  But a firewall
 * rule that drops the frame gives the same error each time; then the frame is
 * lost, as on the wire.
 */
static int give_up(struct ur_raw_lane *rl, uint32_t done, int err)
{
	if (done)
		rl->full = 0;
	if (err != -ENOBUFS)
		return err;
	if (++rl->full < FULL_TRIES)
		return -EAGAIN;
	rl->full = 0;
	return err;
}

static void tap_sent(const struct ur_tap *tap, const struct ur_frame_tx *f,
		     uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ur_tap_frame(tap, f[i].iov, f[i].niov, true);
}

/* Each queue pair in turn, a batch at a time. */
static bool raw_send(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_raw_lane *rl = l->raw;
	struct ur_qp *qp;
	uint32_t rounds = 0;
	bool sent = false;

	l->retry_ns = UR_NEVER;
	while ((qp = ur_raw_next(rl->raw, now_ns))) {
		uint32_t n = ur_raw_collect(rl->raw, qp, rl->tx,
					    UR_PACKET_BATCH, now_ns);
		uint32_t done;
		int err;

		if (n == 0)
			continue;
		done = ur_packet_send(rl->packet, rl->tx, n, &err);
		if (l->tap)
			tap_sent(l->tap, rl->tx, done);
		err = give_up(rl, done, err);
		ur_raw_sent(rl->raw, qp, done, err == -EAGAIN ? 0 : err,
			    now_ns);
		if (done)
			l->activity_ns = now_ns;
		sent = sent || done;
		if (err == -EAGAIN || ++rounds == ROUNDS_PER_SEND) {
			l->retry_ns = now_ns + RETRY_SEND_NS;
			break;
		}
	}
	return sent;
}

static void raw_kick(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	ur_raw_kick(l->raw->raw, qp, now_ns);
}

static void on_frame(void *arg, const struct ur_frame_rx *f)
{
	struct ur_raw_lane *rl = arg;

	if (rl->now_ns == 0)
		rl->now_ns = ur_clock_ns();
	if (rl->tap)
		ur_tap_frame(rl->tap, &(struct iovec){ f->data, f->len }, 1,
			     false);
	ur_raw_input(rl->raw, f, rl->now_ns);
}

/*
 * No QP has a receive: frames stay in the socket's buffer, or a program that
 * posts late would lose frames that an adapter would have placed.  The longer
 * no receive is posted, the rarer is the check.
 */
static void starve(struct ur_raw_lane *rl, uint64_t now_ns)
{
	if (rl->starved_ns == 0)
		rl->starved_ns = now_ns;
	rl->starved_check_ns = now_ns + ur_backoff_ns(now_ns - rl->starved_ns,
						      8, STARVED_CHECK_MIN_NS,
						      STARVED_CHECK_MAX_NS);
}

static uint32_t receive(struct ur_raw_lane *rl, uint64_t now_ns)
{
	uint32_t room;

	if (ur_raw_flows(rl->raw)->count == 0) {
		rl->starved_ns = 0;
		rl->starved_check_ns = UR_NEVER;
		return 0;
	}
	room = ur_raw_room(rl->raw, UR_PACKET_BATCH);
	if (room == 0 && ur_packet_ready(rl->packet)) {
		starve(rl, now_ns);
		return 0;
	}
	rl->starved_ns = 0;
	rl->starved_check_ns = UR_NEVER;
	if (room == 0)
		return 0;
	return ur_packet_recv(rl->packet, room, on_frame, rl);
}

static int raw_step(struct ur_lane *l, uint64_t now_ns)
{
	struct ur_raw_lane *rl = l->raw;
	uint32_t n;

	rl->now_ns = 0;
	rl->tap = l->tap;
	n = receive(rl, now_ns);
	if (rl->now_ns)
		now_ns = rl->now_ns;
	if (n)
		l->activity_ns = now_ns;
	ur_lane_drain(l, now_ns);
	ur_lane_send(l, now_ns);
	return (int)n;
}

static uint64_t raw_deadline(const struct ur_lane *l)
{
	uint64_t paced_ns = ur_raw_deadline(l->raw->raw);

	return paced_ns < l->raw->starved_check_ns ? paced_ns
						   : l->raw->starved_check_ns;
}

static int raw_wait_fd(const struct ur_lane *l)
{
	const struct ur_raw_lane *rl = l->raw;

	return rl->packet && !rl->starved_ns ? ur_packet_fd(rl->packet) : -1;
}

static void raw_detach(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	ur_lane_settle(l, now_ns);
	ur_raw_qp_detach(l->raw->raw, qp);
	(void)ur_raw_lane_refilter(l);
}

static int raw_modify(struct ur_lane *l, struct ur_qp *qp,
		      const struct ur_qp_attr *attr, uint32_t mask,
		      uint64_t now_ns)
{
	int err;

	ur_lane_settle(l, now_ns);
	err = ur_raw_qp_modify(l->raw->raw, qp, attr, mask, now_ns);
	if (!err)
		ur_lane_send(l, now_ns);
	return err;
}

static void raw_query(const struct ur_lane *l, const struct ur_qp *qp,
		      struct ur_qp_attr *attr)
{
	ur_raw_qp_query(qp, attr);
}

/* Multicast groups of raw packets are flows. */
static int raw_mcast(struct ur_lane *l, struct ur_qp *qp, const uint8_t gid[16],
		     bool attach)
{
	return -EINVAL;
}

static void add_qp(void *arg, const struct ur_qp *qp)
{
	ur_report_path(ur_report_qp(arg, qp), "packet socket",
		       "raw packets have no other path");
}

static void raw_for_each_qp(struct ur_lane *l,
			    void (*fn)(void *arg, const struct ur_qp *qp),
			    void *arg)
{
	ur_raw_for_each_qp(l->raw->raw, fn, arg);
}

static void raw_report(struct ur_lane *l, struct json_object *o)
{
	const struct ur_raw_counters *c = ur_raw_counters(l->raw->raw);
	struct ur_report_qps list = { .lane = l,
				      .array = json_object_new_array() };
	struct json_object *counters = json_object_new_object();

	ur_report_string(o, "link", "packet");
	ur_report_string(o, "netdev", l->raw->ifname);
	ur_report_int(o, "flows", ur_raw_flows(l->raw->raw)->count);
	if (l->raw->packet)
		ur_report_int(o, "rx_overflow",
			      ur_packet_drops(l->raw->packet));
	ur_raw_for_each_qp(l->raw->raw, add_qp, &list);
	ur_report_add_qps(o, &list);
#define ADD(name) ur_report_int(counters, #name, c->name);
	UR_RAW_COUNTERS(ADD)
#undef ADD
	json_object_object_add(o, "counters", counters);
}

static void raw_count(const struct ur_lane *l, struct ur_roce_counters *sum)
{
	const struct ur_raw_counters *c = ur_raw_counters(l->raw->raw);

	sum->sent_pkts += c->sent_pkts;
	sum->rcvd_pkts += c->rx_delivered;
	sum->sent_bytes += c->sent_bytes;
	sum->req_cqe_error += c->req_cqe_error;
	sum->drop_no_recv += c->drop_no_recv;
}

const struct ur_lane_ops ur_lane_raw = {
	.name = "raw",
	.batch_bytes = BATCH_BYTES,
	.qp_types = 1u << UR_QPT_RAW_PACKET,
	.open = raw_open,
	.close = raw_close,
	.abandon = raw_abandon,
	.attach = raw_attach,
	.detach = raw_detach,
	.modify = raw_modify,
	.query = raw_query,
	.mcast = raw_mcast,
	.for_each_qp = raw_for_each_qp,
	.kick = raw_kick,
	.send = raw_send,
	.step = raw_step,
	.deadline = raw_deadline,
	.wait_fd = raw_wait_fd,
	.settle = ur_lane_settle,
	.report = raw_report,
	.count = raw_count,
};
