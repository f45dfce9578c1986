/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane of RoCE: a slot of urnicd's port with its socket, and the protocol.
 * What it does for each message is in roce_io.c.
 */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sys.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "engine/port.h"
#include "engine/report.h"
#include "engine/roce_io.h"
#include "engine/shm_peers.h"
#include "ports/port.h"
#include "shm/shm.h"
#include "sockets/udp.h"

/* How long to send requests of a queue pair that is being destroyed. */
#define DETACH_SEND_NS 1000000000u
#define BATCH_BYTES    32768u

/* Slot and link; on failure nothing is kept. */
static int open_link(struct ur_lane *l)
{
	struct ur_adapter *a = l->adapter;
	int fd, err;

	err = ur_process_client_open(a);
	if (err)
		return err;
	err = ur_client_slot(a->client, &l->slot, &fd);
	if (err)
		return err;
	err = a->dev.spec.port ? ur_port_lane_link(l, fd)
			       : ur_udp_link_create(fd, &l->link);
	if (!err)
		return 0;
	close(fd);
	ur_client_slot_put(a->client, l->slot);
	return err;
}

static void close_link(struct ur_lane *l)
{
	l->link->ops->destroy(l->link);
	ur_client_slot_put(l->adapter->client, l->slot);
}

static int roce_open(struct ur_lane *l)
{
	struct ur_roce_config cfg = { .mrs = &l->adapter->mrs,
				      .srqs = l->adapter->srqs,
				      .comm_est = ur_cm_hook_comm_est,
				      .xrc = &ur_xrc_lane_ops,
				      .xrc_arg = l };
	int err = open_link(l);

	if (err)
		return err;
	cfg.slot = l->slot;
	ur_shm_configure(l, &cfg);
	cfg.rx_bytes = l->link->rx_bytes;
	cfg.rx_overflow = &l->link->rx_overflow;
	if (l->link->udp == l->link)
		cfg.fragmented = &l->link->fragmented;
	ur_rng_secret(&cfg.seed, sizeof(cfg.seed));
	err = ur_roce_create(&cfg, &l->roce);
	if (err) {
		close_link(l);
		return err;
	}
	ur_roce_set_sports(l->roce, &l->link->sports);
	return 0;
}

static void roce_close(struct ur_lane *l)
{
	ur_roce_destroy(l->roce);
	close_link(l);
}

static void roce_abandon(struct ur_lane *l)
{
	l->link->ops->destroy(l->link);
	l->link = NULL;
}

/* The lane has one more or less that needs the addresses of packets, UD or a
 * target of DC; its lock is held. */
static void count_ud(struct ur_lane *l, const struct ur_qp *qp, int change)
{
	uint32_t before = l->ud_qps;

	if (qp->type != UR_QPT_UD && qp->type != UR_QPT_DC_TGT)
		return;
	l->ud_qps = before + (uint32_t)change;
	if ((before == 0) != (l->ud_qps == 0))
		ur_udp_tell_ip(l->link->udp, l->ud_qps > 0);
}

static int roce_attach(struct ur_lane *l, struct ur_qp *qp)
{
	int err = ur_roce_qp_attach(l->roce, qp);

	if (!err)
		count_ud(l, qp, 1);
	return err;
}

/*
 * Acknowledges what was received, as an adapter would have done at once.  A
 * peer without room for that within some 50 ms has been stopped.  It may wait
 * for us in the same way, so its descriptors are read as well.
 */
static void ack_received(struct ur_lane *l, uint64_t now_ns)
{
	const struct timespec nap = { .tv_nsec = 50000 };
	unsigned int left = 1000;

	ur_shm_flush_acks(l->roce);
	for (; left && ur_shm_owes_acks(l->roce); left--) {
		if (!ur_shm_poll(l->roce, now_ns))
			ur_sys_nanosleep(&nap);
		ur_shm_flush_acks(l->roce);
	}
	/* Once for all: there may be hundreds of queue pairs. */
	if (!left)
		ur_shm_give_up(l->roce);
}

/*
 * Reads what the link holds: a request that the peer has acknowledged completes
 * before others are flushed.  Bounded by what a socket holds, against a flood.
 */
static void read_unread(struct ur_lane *l)
{
	uint32_t taken = 0;
	int n;

	do {
		n = ur_lane_step(l, ur_clock_ns());
		taken += n > 0 ? (uint32_t)n : 0;
	} while (n > 0 && taken < UR_SOCKET_PACKETS);
}

/*
 * Requests of UC and UD that wait for room or for their rate, or a burst that
 * the link had no room for: its requests are complete, and it would be lost.
 */
static bool has_unsent(const struct ur_lane *l, const struct ur_qp *qp)
{
	uint32_t head = ur_sq_head(&qp->sq);
	uint32_t tail = ur_sq_tail(&qp->sq);

	return l->held || (!ur_qp_type_reliable(qp->type) && head != tail &&
			   qp->state == UR_QPS_RTS);
}

/*
 * An adapter sends what it has accepted before a queue pair is destroyed.
 * Bounded, since a channel's peer may be stopped and a rate may be low.
 */
static void send_accepted(struct ur_lane *l, struct ur_qp *qp)
{
	const struct timespec nap = { .tv_nsec = 50000 };
	uint64_t now = ur_clock_ns(), until = now + DETACH_SEND_NS;

	while (has_unsent(l, qp) && now < until) {
		ur_lane_kick(l, qp, now);
		if (ur_lane_step(l, now) <= 0 && has_unsent(l, qp))
			ur_sys_nanosleep(&nap);
		now = ur_clock_ns();
	}
}

/* Serves doorbells too: a QP that is destroyed may be queued there. */
static void roce_settle(struct ur_lane *l, uint64_t now_ns)
{
	ur_lane_drain(l, now_ns);
	read_unread(l);
	ack_received(l, now_ns);
	ur_roce_flush_acks(l->roce, now_ns);
	ur_lane_send(l, now_ns);
}

/* A burst that the link refused points at memory of QPs and regions. */
static void roce_drop_held(struct ur_lane *l)
{
	l->held = false;
}

static void roce_detach(struct ur_lane *l, struct ur_qp *qp, uint64_t now_ns)
{
	roce_settle(l, now_ns);
	send_accepted(l, qp);
	ur_lane_leave_all(l, qp);
	roce_drop_held(l);
	ur_roce_qp_detach(l->roce, qp);
	count_ud(l, qp, -1);
}

/* Packets of that size have to fit the outgoing interface. */
static int mtu_fits(struct ur_dev *dev, uint32_t mtu, const struct ur_av *av)
{
	unsigned int most = ur_dev_path_mtu(dev, av->sgid);

	if (mtu <= most || !ur_mtu_bytes(mtu))
		return 0; /* what is no MTU at all is refused later */
	ur_warn("path MTU of %u bytes asked for, the interface has room for "
		"%u",
		ur_mtu_bytes(mtu), ur_mtu_bytes(most));
	return -EINVAL;
}

/* Each request of DC has a path of its own: what is asked for is the most. */
static void limit_mtu(struct ur_dev *dev, struct ur_qp_attr *t)
{
	unsigned int most = ur_dev_path_mtu(dev, t->av.sgid);

	if (t->path_mtu > most && ur_mtu_bytes(t->path_mtu))
		t->path_mtu = most;
}

/* An alternate path is used with the MTU of the primary one. */
static int check_mtu(struct ur_dev *dev, const struct ur_qp *qp,
		     struct ur_qp_attr *t, uint32_t mask)
{
	uint32_t mtu = mask & UR_QP_PATH_MTU ? t->path_mtu : qp->attr.path_mtu;
	int err = 0;

	if ((mask & UR_QP_AV) && (mask & UR_QP_PATH_MTU)) {
		if (ur_qp_type_dc(qp->type))
			limit_mtu(dev, t);
		else
			err = mtu_fits(dev, mtu, &t->av);
	}
	if (!err && (mask & UR_QP_ALT_PATH))
		err = mtu_fits(dev, mtu, &t->alt_av);
	return err;
}

/*
 * The port of a queue pair is that of its address vector. In SQD either may
 * change: a vector without a port number beside it moves the queue pair to the
 * vector's port, a port number without a vector has to be that of the old one.
 */
static int take_port(const struct ur_qp *qp, struct ur_qp_attr *t,
		     uint32_t *mask)
{
	bool sqd = atomic_load(&qp->state) == UR_QPS_SQD;

	if (sqd && (*mask & UR_QP_AV) && !(*mask & UR_QP_PORT)) {
		t->port_num = t->av.port_num;
		*mask |= UR_QP_PORT;
	}
	if (*mask & UR_QP_AV)
		return t->av.port_num == (*mask & UR_QP_PORT
						  ? t->port_num
						  : qp->attr.port_num)
			       ? 0
			       : -EINVAL;
	if (sqd && (*mask & UR_QP_PORT) && t->port_num != qp->attr.port_num)
		return -EINVAL;
	return 0;
}

/* Each request of DC has an address vector of its own, and that of the queue pair may
 * name its port alone. */
static bool names_no_peer(const struct ur_qp *qp, const struct ur_av *av)
{
	return qp->type == UR_QPT_DC_INI &&
	       (av->is_global ? ur_addr_is_zero(av->dgid) : !av->dlid);
}

static int resolve(struct ur_dev *dev, const struct ur_qp *qp, struct ur_av *av)
{
	struct ur_gid source;
	int err;

	/* That of a target, which has no peer, is resolved (verbs/exp_dct.c). */
	if (qp->type == UR_QPT_DC_TGT)
		return 0;
	if (!names_no_peer(qp, av))
		return ur_dev_resolve_av(dev, av);
	err = ur_dev_gid(dev, av->port_num, av->sgid_index, &source);
	if (!err && ur_addr_is_zero(source.addr))
		err = -EINVAL;
	if (!err)
		memcpy(av->sgid, source.addr, sizeof(av->sgid));
	return err;
}

static int roce_modify(struct ur_lane *l, struct ur_qp *qp,
		       const struct ur_qp_attr *attr, uint32_t mask,
		       uint64_t now_ns)
{
	struct ur_dev *dev = &l->adapter->dev;
	struct ur_qp_attr t = *attr;
	int err = take_port(qp, &t, &mask);

	if (!err && (mask & UR_QP_AV))
		err = resolve(dev, qp, &t.av);
	if (!err && (mask & UR_QP_ALT_PATH))
		err = ur_dev_resolve_alt_av(dev, &t.alt_av, t.alt_port_num);
	if (!err)
		err = check_mtu(dev, qp, &t, mask);
	if (err)
		return err;
	if ((mask & UR_QP_STATE) &&
	    (t.state == UR_QPS_RESET || t.state == UR_QPS_ERR))
		roce_settle(l, now_ns);
	err = ur_roce_qp_modify(l->roce, qp, &t, mask, now_ns);
	if (!err && (mask & UR_QP_AV))
		ur_roce_qp_fill(qp,
				ur_dev_room(dev, t.av.sgid, qp->attr.path_mtu));
	if (!err)
		ur_lane_send(l, now_ns);
	return err;
}

static void roce_query(const struct ur_lane *l, const struct ur_qp *qp,
		       struct ur_qp_attr *attr)
{
	ur_roce_qp_query(l->roce, qp, attr);
}

static int roce_mcast(struct ur_lane *l, struct ur_qp *qp,
		      const uint8_t gid[16], bool attach)
{
	return attach ? ur_lane_join(l, qp, gid) : ur_lane_leave(l, qp, gid);
}

static void roce_watched(struct ur_lane *l)
{
	ur_roce_answers_late(l->roce, l->watch == UR_WATCH_WAITER);
	ur_roce_timers_late(l->roce, l->chan.q);
	if (l->watch == UR_WATCH_TICK) {
		ur_shm_polled(l->roce);
		l->shm_polled = true;
	}
}

/* What peers have sent before they know that the lane sleeps is seen by the last
 * poll of ur_shm_sleep(). */
static bool roce_rest(struct ur_lane *l, bool asleep)
{
	if (l->watch == UR_WATCH_TICK) {
		roce_watched(l);
		return true;
	}
	/* A peer may have learned too late that it has to signal: then the helper
	 * ticks for some time. */
	if (l->shm_polled)
		l->activity_ns = ur_clock_ns();
	l->shm_polled = false;
	if (!ur_shm_any(l->roce))
		return true;
	if (asleep)
		ur_shm_flush_acks(l->roce);
	return ur_shm_sleep(l->roce, asleep);
}

static bool roce_stalled(const struct ur_lane *l)
{
	return ur_shm_stalled(l->roce);
}

static uint64_t roce_deadline(const struct ur_lane *l)
{
	/* Programs that poll a channel answer when they wake (chanpoll.c). */
	return l->chan.q ? ur_roce_timers(l->roce) : ur_roce_deadline(l->roce);
}

static int roce_wait_fd(const struct ur_lane *l)
{
	return l->link->ops->wait_fd(l->link);
}

static void add_path(struct json_object *o, const struct ur_lane *l,
		     const struct ur_qp *qp)
{
	const char *kernel = l->link->udp == l->link ? "sockets" : "port", *why;
	enum ur_shm_path path = ur_shm_path(qp, &why);
	const char *refused =
		path == UR_SHM_NO_CHANNEL
			? ur_shm_refused(l, (uint16_t)(qp->attr.dest_qpn >>
						       UR_SLOT_SHIFT))
			: NULL;

	if (path == UR_SHM_RING || path == UR_SHM_DIRECT)
		ur_report_path(
			o, path == UR_SHM_DIRECT ? "direct" : "shared memory",
			why);
	else
		ur_report_path(o, kernel, refused ? refused : why);
}

static void add_qp(void *arg, const struct ur_qp *qp)
{
	struct ur_qp_attr attr = { 0 };
	struct ur_report_qps *list = arg;
	struct json_object *o;

	ur_roce_qp_query(list->lane->roce, qp, &attr);
	o = ur_report_qp(list, qp);
	add_path(o, list->lane, qp);
	if (qp->type != UR_QPT_UD) {
		ur_report_int(o, "dest_qpn", attr.dest_qpn);
		ur_report_gid(o, "sgid", attr.av.sgid);
		ur_report_gid(o, "dgid", attr.av.dgid);
	}
	ur_report_int(o, "sq_psn", attr.sq_psn);
	ur_report_int(o, "rq_psn", attr.rq_psn);
}

static void roce_for_each_qp(struct ur_lane *l,
			     void (*fn)(void *arg, const struct ur_qp *qp),
			     void *arg)
{
	ur_roce_for_each_qp(l->roce, fn, arg);
}

static const char *const counter_names[] = {
#define NAME(name, ...) #name,
	UR_ROCE_COUNTERS(NAME)
#undef NAME
};
#define COUNTERS (sizeof(counter_names) / sizeof(counter_names[0]))

static void add_counters(struct json_object *o,
			 const struct ur_roce_counters *c)
{
	struct json_object *counters = json_object_new_object();
	uint64_t values[COUNTERS];
	size_t i;

	_Static_assert(sizeof(values) == sizeof(*c), "one value for each name");
	memcpy(values, c, sizeof(values));
	for (i = 0; i < COUNTERS; i++)
		ur_report_int(counters, counter_names[i], values[i]);
	json_object_object_add(o, "counters", counters);
}

static void roce_count(const struct ur_lane *l, struct ur_roce_counters *sum)
{
	uint64_t more[COUNTERS], all[COUNTERS];

	memcpy(more, ur_roce_counters(l->roce), sizeof(more));
	memcpy(all, sum, sizeof(all));
	for (size_t i = 0; i < COUNTERS; i++)
		all[i] += more[i];
	memcpy(sum, all, sizeof(all));
}

/* Counters of a port that this process runs. */
static void add_port(struct json_object *o, const struct ur_link *link)
{
	struct json_object *counters = json_object_new_object();
	const struct ur_net_counters *c = link->ops->counters(link);

#define ADD(name) ur_report_int(counters, #name, c->name);
	UR_NET_COUNTERS(ADD)
#undef ADD
	json_object_object_add(o, "port", counters);
}

static void add_facts(struct json_object *o, const struct ur_link *link)
{
	struct json_object *facts = json_object_new_object();
	struct ur_port_facts f;

	link->ops->facts(link, &f);
	ur_report_string(facts, "driver", f.driver);
	ur_report_int(facts, "queue", f.queue);
	ur_report_int(facts, "queues", f.queues);
	ur_report_string(facts, "spread", ur_port_spread(&f));
	ur_report_int(facts, "steered_lanes", f.steered);
	ur_report_int(facts, "other_queue", (int64_t)f.elsewhere);
	json_object_object_add(o, "port_driver", facts);
}

static void roce_report(struct ur_lane *l, struct json_object *o)
{
	struct ur_report_qps list = { .lane = l,
				      .array = json_object_new_array() };

	ur_report_string(o, "link", l->link->ops->name);
	ur_report_int(o, "rx_buffer", l->link->rx_bytes);
	ur_report_int(o, "rx_overflow", l->link->rx_overflow);
	ur_report_int(o, "tx_errors", l->link->tx_errors);
	ur_report_int(o, "tx_fragmented", l->link->fragmented);
	ur_shm_report(l, o);
	ur_roce_for_each_qp(l->roce, add_qp, &list);
	ur_report_add_qps(o, &list);
	add_counters(o, ur_roce_counters(l->roce));
	if (l->link->ops->counters)
		add_port(o, l->link);
	if (l->link->ops->facts)
		add_facts(o, l->link);
}

const struct ur_lane_ops ur_lane_roce = {
	.name = "roce",
	.acknowledged = true,
	.batch_bytes = BATCH_BYTES,
	.qp_types = 1u << UR_QPT_RC | 1u << UR_QPT_UC | 1u << UR_QPT_UD |
		    1u << UR_QPT_XRC_SEND | 1u << UR_QPT_XRC_RECV |
		    1u << UR_QPT_DC_INI | 1u << UR_QPT_DC_TGT,
	.open = roce_open,
	.close = roce_close,
	.abandon = roce_abandon,
	.attach = roce_attach,
	.detach = roce_detach,
	.modify = roce_modify,
	.query = roce_query,
	.mcast = roce_mcast,
	.for_each_qp = roce_for_each_qp,
	.kick = ur_roce_io_kick,
	.send = ur_roce_io_send,
	.step = ur_roce_io_step,
	.quick_poll = ur_roce_io_quick_poll,
	.watched = roce_watched,
	.rest = roce_rest,
	.stalled = roce_stalled,
	.deadline = roce_deadline,
	.wait_fd = roce_wait_fd,
	.settle = roce_settle,
	.drop_held = roce_drop_held,
	.report = roce_report,
	.count = roce_count,
};
