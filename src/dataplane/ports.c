/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each queue of a port has a thread and a lock, which the thread holds while it
 * works.  A lane belongs to one queue, which sends the lane's bursts, so they
 * leave in order.  Packets for a lane are put into its ring by the thread of any
 * queue: a controller keeps one flow on one queue, so they stay in order too.
 * The table of lanes is read with any of the locks and changed, by the server's
 * thread, with all of them.  A lane that writes an invalid record, or does not
 * read, harms itself only: its rings are not polled any more, or its packets are
 * dropped and counted.
 *
 * Locks: those of the queues in their order > a lane's, TCP's > the port's.
 * Some of these threads may have real-time priority: the holder of a lock
 * inherits it while they wait (base/thread_sched).
 */
#include "dataplane/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread_sched.h"
#include "config/config.h"
#include "dataplane/port_sched.h"
#include "dataplane/ports_report.h"
#include "dataplane/ports_tcp.h"
#include "ports/port.h"
#include "ports/ring.h"

#define QPN_SLOT_MASK	(0xffffffu << UR_SLOT_SHIFT & 0xffffffu)
#define BURSTS_PER_TURN 16
#define HOST_EVERY	32u
#define SPIN_MAX_NS	20000u
#define SPIN_MIN_NS	2000u
#define SHORT_NS	50000u /* a sleep that a spin would have saved */
#define EVENTS		32
#define PORT_EVENT	UR_SLOTS       /* other values are a slot, or … */
#define TCP_EVENTS	(UR_SLOTS + 1) /* … of the rings of a TCP */

struct port;

struct lane {
	struct ur_rings rings; /* rx: its queue's thread's */
	struct ur_lock lock;   /* rings.tx, where there are several threads */
	struct port *queue;    /* its queue */
	atomic_bool broken; /* wrote an invalid record, or closed its socket */
};

/* What the queues of a port share. */
struct group {
	uint32_t ifindex; /* constant from here … */
	unsigned int nqueues;
	struct port *queues[UR_PORT_QUEUES]; /* … to here */
	struct lane *lanes[UR_SLOTS];
	struct ur_ports_tcp *tcp; /* its target: all locks, or … */
	struct ur_lock tcp_lock;  /* … this one, with several queues */
};

/* A queue of a port. */
struct port {
	struct ur_port *port; /* constant from here … */
	struct group *group;
	struct lane **lanes; /* the group's */
	uint16_t index;
	int priority;
	int epfd; /* … to here */
	struct ur_sched_lock lock;
	unsigned int slots[UR_SLOTS]; /* of lanes that are its own */
	unsigned int nslots;
	/* Of the thread. */
	uint32_t rounds;
	bool slept;	   /* until the port, and maybe its host, had packets */
	uint64_t busy_ns;  /* when it last had work */
	uint64_t slept_ns; /* duration; 0: accounted for */
	uint64_t spin_ns;  /* how long to spin; 0: it did not pay */
	struct ur_port_sched sched;
	struct ur_burst burst;
};

static struct group *ports[UR_MAX_PORTS]; /* constant once they run */
static unsigned int nports;
static unsigned int nfirst; /* threads that may have real-time priority */

static void lock_all(const struct group *g)
{
	for (unsigned int q = 0; q < g->nqueues; q++)
		ur_sched_lock_rare(&g->queues[q]->lock);
}

static void unlock_all(const struct group *g)
{
	for (unsigned int q = g->nqueues; q-- > 0;)
		ur_sched_unlock(&g->queues[q]->lock);
}

/* ---- The thread ---- */

/* A port of one queue has one thread: no lock is needed. */
static void lock_ring(const struct port *p, struct ur_lock *lock)
{
	if (p->group->nqueues > 1)
		ur_lock(lock);
}

static void unlock_ring(const struct port *p, struct ur_lock *lock)
{
	if (p->group->nqueues > 1)
		ur_unlock(lock);
}

static bool deliver(void *arg, const struct ur_rx *rx)
{
	struct port *p = arg;
	uint32_t qpn = (uint32_t)rx->data[5] << 16 |
		       (uint32_t)rx->data[6] << 8 | rx->data[7];
	struct lane *l = p->lanes[qpn >> UR_SLOT_SHIFT];

	if (!l || l->broken)
		return false;
	lock_ring(p, &l->lock);
	if (ur_ring_put_rx(&l->rings.tx, rx) > 0)
		ur_rings_wake(&l->rings);
	unlock_ring(p, &l->lock);
	ur_port_belongs(p->port, l->queue->index);
	return true;
}

/* False: a burst that no lane of ours would write. */
static bool make_burst(struct ur_burst *t, const struct ur_ring_rec *rec,
		       const uint8_t *payload)
{
	if (!rec->len || rec->len > UR_BURST_BYTES || !rec->pkt_len ||
	    rec->sport < IPPORT_RESERVED)
		return false;
	t->npkts = (rec->len - 1) / rec->pkt_len + 1;
	if (t->npkts > UR_BURST_PKTS)
		return false;
	memcpy(t->src, rec->src, 16);
	memcpy(t->dst, rec->dst, 16);
	t->scope_id = rec->scope_id;
	t->sport = rec->sport;
	t->tclass = rec->tclass;
	t->hop_limit = rec->hop_limit;
	t->pkt_len = t->npkts > 1 ? rec->pkt_len : rec->len;
	t->bytes = rec->len;
	t->niov = 1;
	/* It is only read. */
	t->iov[0] = (struct iovec){ (void *)(uintptr_t)payload, rec->len };
	return true;
}

static int next_burst(struct port *p, struct lane *l)
{
	struct ur_ring_rec rec;
	const uint8_t *payload;
	int got = ur_ring_peek(&l->rings.rx, &rec, &payload);

	if (got > 0 && !make_burst(&p->burst, &rec, payload))
		got = -EPROTO;
	return got;
}

/* Only from the port's own addresses: others are routed by the host. */
static int send_burst(struct port *p, const struct ur_burst *t)
{
	return ur_port_has(p->port, t->src, t->dst)
		       ? ur_port_add(p->port, t, ur_clock_ns())
		       : -EADDRNOTAVAIL;
}

/* Send the lane's bursts; how many left. */
static unsigned int send_lane(struct port *p, unsigned int slot)
{
	struct lane *l = p->lanes[slot];
	unsigned int n;
	int got = 0;

	for (n = 0; n < BURSTS_PER_TURN && !l->broken; n++) {
		int err;

		got = next_burst(p, l);
		if (got <= 0)
			break;
		err = send_burst(p, &p->burst);
		if (err == -EAGAIN)
			break;
		if (err)
			ur_debug("slot %u: burst of %u x %u bytes: %s", slot,
				 p->burst.npkts, p->burst.pkt_len,
				 strerror(-err));
		ur_ring_pop(&l->rings.rx);
	}
	/* A burst that did not leave may have made the stack resolve its neighbour. */
	if (n || got > 0)
		ur_port_flush(p->port);
	if (got < 0) {
		l->broken = true;
		ur_warn_some(
			"slot %u wrote an invalid record: its rings are ignored",
			slot);
	}
	return n;
}

/* ---- The thread, for TCP, which the first one sends ---- */

static bool deliver_tcp(void *arg, const uint8_t *packet, uint32_t len)
{
	struct port *p = arg;
	struct group *g = p->group;
	bool taken;

	lock_ring(p, &g->tcp_lock);
	taken = ur_ports_tcp_in(g->tcp, packet, len, ur_clock_ns());
	unlock_ring(p, &g->tcp_lock);
	return taken;
}

static uint32_t send_tcp(struct port *p)
{
	struct group *g = p->group;
	uint32_t n;

	if (p->index)
		return 0;
	lock_ring(p, &g->tcp_lock);
	n = ur_ports_tcp_work(g->tcp, ur_clock_ns());
	unlock_ring(p, &g->tcp_lock);
	return n;
}

static bool may_tcp_sleep(struct port *p)
{
	struct group *g = p->group;
	bool ok;

	if (p->index)
		return true;
	lock_ring(p, &g->tcp_lock);
	ok = ur_ports_tcp_sleep(g->tcp);
	unlock_ring(p, &g->tcp_lock);
	return ok;
}

static void hear_tcp(struct port *p, uint32_t what)
{
	struct group *g = p->group;

	lock_ring(p, &g->tcp_lock);
	ur_ports_tcp_hear(g->tcp, what);
	unlock_ring(p, &g->tcp_lock);
}

/* ---- The thread's rounds ---- */

static uint32_t serve_host(struct port *p)
{
	return p->index ? 0 : ur_port_host(p->port, ur_clock_ns());
}

/* The controller is polled between any two lanes: its queue would overflow
 * while the bursts of many lanes are sent. */
static unsigned int work(struct port *p)
{
	unsigned int n = ur_port_poll(p->port, ur_clock_ns());

	for (unsigned int i = 0; i < p->nslots; i++) {
		unsigned int sent = send_lane(p, p->slots[i]);

		n += sent;
		if (sent)
			n += ur_port_poll(p->port, ur_clock_ns());
	}
	n += send_tcp(p);
	if (p->slept || ++p->rounds % HOST_EVERY == 0)
		n += serve_host(p);
	p->slept = false;
	return n;
}

/* Lanes signal from now on.  False: one has written meanwhile. */
static bool may_sleep(struct port *p)
{
	bool ok = may_tcp_sleep(p);

	for (unsigned int i = 0; i < p->nslots; i++) {
		struct lane *l = p->lanes[p->slots[i]];

		ok &= l->broken || ur_ring_sleep(&l->rings.rx, true);
	}
	if (ok)
		(void)ur_port_wait_fd(p->port, ur_clock_ns());
	return ok;
}

/* A lane whose process has ended, or never took the rings, stays until the
 * server detaches it; its packets go to the host. */
static void hear(struct port *p, unsigned int slot)
{
	struct lane *l = slot < UR_SLOTS ? p->lanes[slot] : NULL;

	if (slot >= TCP_EVENTS)
		hear_tcp(p, slot);
	/* It may be another lane by now, which signals another thread. */
	if (!l || l->queue != p || ur_rings_woken(&l->rings))
		return;
	l->broken = true;
	(void)epoll_ctl(p->epfd, EPOLL_CTL_DEL, l->rings.sock, NULL);
}

/*
 * True: sleep.  A thread without work spins first, as long as spinning finds
 * work often enough, and only while there is a core for the thread that produces
 * that work.
 */
static bool is_idle(struct port *p, bool worked, uint64_t now)
{
	bool spun = now - p->busy_ns < SHORT_NS;

	if (worked) {
		if ((p->slept_ns && p->slept_ns < SHORT_NS) ||
		    (!p->slept_ns && p->spin_ns))
			p->spin_ns = SPIN_MAX_NS;
		p->busy_ns = now;
		p->slept_ns = 0;
		return false;
	}
	if (now - p->busy_ns < p->spin_ns && !ur_sched_is_oversubscribed(now))
		return false;
	if (spun)
		p->spin_ns = p->spin_ns > SPIN_MIN_NS ? p->spin_ns / 2 : 0;
	return true;
}

/* The thread polls: lanes need not signal. */
static void note_awake(const struct port *p)
{
	for (unsigned int i = 0; i < p->nslots; i++)
		(void)ur_ring_sleep(&p->lanes[p->slots[i]]->rings.rx, false);
}

static void doze(struct port *p)
{
	struct epoll_event ev[EVENTS];
	uint64_t since = ur_clock_ns();
	int n = epoll_wait(p->epfd, ev, EVENTS, -1);

	ur_sched_lock_frequent(&p->lock);
	p->slept_ns = ur_clock_ns() - since;
	ur_port_sched_slept(&p->sched, p->slept_ns);
	for (int i = 0; i < n; i++) {
		p->slept |= ev[i].data.u32 == PORT_EVENT;
		hear(p, ev[i].data.u32);
	}
	note_awake(p);
	ur_sched_unlock(&p->lock);
}

/* Real-time priority while there are too few cores, for its share of the time. */
static void take_turn(struct port *p)
{
	struct ur_port_sched *t = &p->sched;
	uint64_t now = ur_clock_ns(), rest;
	bool first =
		p->priority && ur_port_sched_comes_first(
				       t, ur_sched_is_oversubscribed(now), now);

	if (first != t->first) {
		if (ur_sched_set_realtime(first ? p->priority : 0))
			t->first = first;
		else
			p->priority = 0;
	}
	rest = ur_port_sched_rest_ns(t, now);
	if (rest)
		(void)ur_sched_sleep(rest);
}

static void *port_main(void *arg)
{
	struct port *p = arg;

	ur_sched_short_slices();
	for (;;) {
		uint64_t naps;
		bool sleeps;
		uint32_t n;

		take_turn(p);
		ur_sched_lock_frequent(&p->lock);
		n = work(p);
		ur_port_sched_worked(&p->sched, n);
		sleeps = is_idle(p, n > 0, ur_clock_ns());
		naps = sleeps ? ur_port_sched_nap_ns(&p->sched) : 0;
		sleeps = sleeps && !naps && may_sleep(p);
		ur_sched_unlock(&p->lock);
		if (naps)
			ur_port_sched_napped(&p->sched, ur_sched_sleep(naps));
		if (sleeps)
			doze(p);
	}
	return NULL;
}

/* ---- The server ---- */

static int watch(const struct port *p, int fd, uint32_t what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = what };

	return epoll_ctl(p->epfd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* The queue with the fewest lanes. */
static struct port *least_of(const struct group *g)
{
	struct port *least = g->queues[0];

	for (unsigned int q = 1; q < g->nqueues; q++)
		if (g->queues[q]->nslots < least->nslots)
			least = g->queues[q];
	return least;
}

static void free_lane(struct lane *l)
{
	ur_rings_drop(&l->rings);
	ur_lock_fini(&l->lock);
	free(l);
}

/* The slot is the upper bits of its queue pairs' numbers. */
static void steer(const struct lane *l, unsigned int slot, bool on)
{
	(on ? ur_port_steer : ur_port_unsteer)(
		l->queue->port, slot << UR_SLOT_SHIFT, QPN_SLOT_MASK);
}

/* The locks of all queues are held. */
static int add_lane(struct group *g, unsigned int slot)
{
	struct lane *l = calloc(1, sizeof(*l));
	struct port *p = least_of(g);
	int peer, err;

	if (!l)
		return -ENOMEM;
	ur_sched_mutex_init(&l->lock.m);
	err = ur_rings_make(&l->rings, &peer);
	if (err) {
		free_lane(l);
		return err;
	}
	/* The thread may be asleep: the first burst signals. */
	(void)ur_ring_sleep(&l->rings.rx, true);
	err = watch(p, l->rings.sock, slot);
	if (err) {
		close(peer);
		free_lane(l);
		return err;
	}
	l->queue = p;
	g->lanes[slot] = l;
	p->slots[p->nslots++] = slot;
	steer(l, slot, true);
	return peer;
}

/* The locks of all queues are held. */
static void drop_lane(struct group *g, unsigned int slot)
{
	struct lane *l = g->lanes[slot];
	unsigned int i = 0;
	struct port *p;

	if (!l)
		return;
	p = l->queue;
	while (p->slots[i] != slot)
		i++;
	p->slots[i] = p->slots[--p->nslots];
	g->lanes[slot] = NULL;
	steer(l, slot, false);
	free_lane(l);
}

static void detach(void *arg, unsigned int slot)
{
	for (unsigned int i = 0; i < nports; i++) {
		lock_all(ports[i]);
		drop_lane(ports[i], slot);
		unlock_all(ports[i]);
	}
}

/* A lane that asks again gives up its rings. */
static int attach(void *arg, unsigned int slot, uint32_t ifindex)
{
	int fd = -ENOENT;

	for (unsigned int i = 0; i < nports && fd == -ENOENT; i++) {
		struct group *g = ports[i];

		if (g->ifindex != ifindex)
			continue;
		lock_all(g);
		drop_lane(g, slot);
		fd = add_lane(g, slot);
		unlock_all(g);
	}
	return fd;
}

/* ---- The server, for TCP ---- */

/* As above. */
static int attach_tcp(uint32_t session, uint32_t uid, uint32_t percent,
		      uint32_t ifindex)
{
	int fd = -ENOENT;

	for (unsigned int i = 0; i < nports && fd == -ENOENT; i++) {
		struct group *g = ports[i];

		if (g->ifindex != ifindex)
			continue;
		lock_all(g);
		fd = ur_ports_tcp_attach(g->tcp, session, uid, percent,
					 ur_clock_ns());
		unlock_all(g);
	}
	return fd;
}

static void detach_tcp(uint32_t session)
{
	for (unsigned int i = 0; i < nports; i++) {
		lock_all(ports[i]);
		ur_ports_tcp_detach(ports[i]->tcp, session, ur_clock_ns());
		unlock_all(ports[i]);
	}
}

static void put_tcp(uint32_t session, uint32_t handle)
{
	for (unsigned int i = 0; i < nports; i++) {
		lock_all(ports[i]);
		ur_ports_tcp_put(ports[i]->tcp, session, handle);
		unlock_all(ports[i]);
	}
}

/* A lease is valid on all ports with a matching address, or on none. */
static int lease_tcp(uint32_t session, uint32_t handle,
		     const struct ur_tcp_proof *proof, int fd)
{
	int err = -ENOENT;

	for (unsigned int i = 0; i < nports && (!err || err == -ENOENT); i++) {
		int got;

		lock_all(ports[i]);
		got = ur_ports_tcp_lease(ports[i]->tcp, session, handle, proof,
					 fd);
		unlock_all(ports[i]);
		if (got != -ENOENT)
			err = got;
	}
	if (err && err != -ENOENT && err != -EEXIST)
		put_tcp(session, handle);
	return err;
}

/* ---- Reports ---- */

/* The lock of the queue is held. */
static void view_queue(const struct port *p, struct ur_port_view *v)
{
	struct ur_port_stats stats;

	ur_port_stats(p->port, &stats);
	v->stats.rx_missed = stats.rx_missed;
	v->stats.tx_lost += stats.tx_lost;
	v->stats.host_lost += stats.host_lost;
	v->stats.elsewhere += stats.elsewhere;
	v->lanes += p->nslots;
	v->lanes_of[p->index] = p->nslots;
	for (unsigned int i = 0; i < p->nslots; i++) {
		const struct lane *l = p->lanes[p->slots[i]];

		v->broken += l->broken;
		v->lanes_lost += ur_ring_lost(&l->rings.tx);
	}
}

/* The locks of all queues are held. */
static void view(const struct group *g, struct ur_port_view *v)
{
	struct ur_port *first = g->queues[0]->port;

	*v = (struct ur_port_view){ .ifindex = g->ifindex,
				    .threads = g->nqueues,
				    .counters = *ur_port_counters(first) };
	ur_port_facts(first, &v->facts);
	ur_ports_tcp_view(g->tcp, &v->tcp);
	for (unsigned int q = 0; q < g->nqueues; q++)
		view_queue(g->queues[q], v);
}

static int report(void *arg)
{
	struct ur_port_view views[UR_MAX_PORTS];

	for (unsigned int i = 0; i < nports; i++) {
		lock_all(ports[i]);
		view(ports[i], &views[i]);
		unlock_all(ports[i]);
	}
	return ur_ports_report(views, nports);
}

/* ---- Start ---- */

static struct port *queue_new(struct group *g, unsigned int index)
{
	struct port *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	ur_sched_lock_init(&p->lock);
	p->group = g;
	p->lanes = g->lanes;
	p->index = (uint16_t)index;
	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epfd >= 0)
		return p;
	free(p);
	return NULL;
}

/* Real-time threads leave a share of a core to others, so there are not to be
 * more of them than cores. */
static int priority_of(const struct ur_port_spec *spec)
{
	if (!spec->priority || nfirst >= ur_sched_cpus())
		return 0;
	nfirst++;
	return spec->priority;
}

/* The port with its first queue, or another queue of it. */
static int open_queue(struct group *g, struct ur_port_config *cfg)
{
	struct port *p = queue_new(g, g->nqueues);
	int err;

	if (!p)
		return -ENOMEM;
	p->priority = priority_of(cfg->spec);
	cfg->arg = p;
	err = p->index ? ur_port_attach(g->queues[0]->port, cfg, &p->port)
		       : ur_port_open(cfg, &p->port);
	if (!err)
		err = watch(p, ur_port_wait_fd(p->port, ur_clock_ns()),
			    PORT_EVENT);
	if (!err)
		g->queues[g->nqueues++] = p;
	return err;
}

/* As many queues as are configured and the controller has; packets of its other
 * queues go to the first one. */
static int open_queues(struct group *g, struct ur_port_config *cfg)
{
	struct ur_port_facts facts;
	int err = open_queue(g, cfg);

	if (err == -EBUSY)
		ur_err("port %s: another process runs it", cfg->ifname);
	if (err)
		return err;
	ur_port_facts(g->queues[0]->port, &facts);
	while (!err && g->nqueues < cfg->spec->queues &&
	       g->nqueues < facts.queues)
		err = open_queue(g, cfg);
	return err;
}

static int begin_thread(struct port *p)
{
	char name[24] = "urnicd-port";
	pthread_t thread;
	int err = pthread_create(&thread, NULL, port_main, p);

	if (err)
		return -err;
	if (p->index)
		snprintf(name, sizeof(name), "urnicd-port.%u", p->index);
	(void)pthread_setname_np(thread, name);
	return 0;
}

static int run(struct group *g, const struct ur_config *c, uint32_t i)
{
	char ifname[IF_NAMESIZE];
	struct ur_port_config cfg = { .spec = &c->ports[i],
				      .eal = &c->eal,
				      .ifname = ifname,
				      .deliver = deliver,
				      .tcp = deliver_tcp,
				      .several = true };
	int err;

	ur_config_ifname(c, i, ifname);
	ur_sched_mutex_init(&g->tcp_lock.m);
	err = open_queues(g, &cfg);
	if (err)
		return err;
	g->ifindex = if_nametoindex(ifname);
	g->tcp = ur_ports_tcp_create(g->queues[0]->port, cfg.spec, g->ifindex,
				     g->queues[0]->epfd, TCP_EVENTS);
	if (!g->tcp)
		return -ENOMEM;
	for (unsigned int q = 0; q < g->nqueues && !err; q++)
		err = begin_thread(g->queues[q]);
	return err;
}

int ur_ports_check(void)
{
	const struct ur_config *c = ur_config_get();

	if (!c)
		return -EINVAL;
	if (c->nports)
		return 0;
	ur_err("--dpdk, but there are no ports in the configuration");
	return -ENOENT;
}

int ur_ports_start(const struct ur_server_ports **out)
{
	static const struct ur_server_ports ops = {
		.attach = attach,
		.detach = detach,
		.report = report,
		.attach_tcp = attach_tcp,
		.detach_tcp = detach_tcp,
		.lease_tcp = lease_tcp,
		.put_tcp = put_tcp,
	};
	const struct ur_config *c = ur_config_get();

	for (uint32_t i = 0; i < c->nports; i++) {
		struct group *g = calloc(1, sizeof(*g));
		int err = g ? run(g, c, i) : -ENOMEM;

		if (err)
			return err;
		ports[nports++] = g;
	}
	*out = &ops;
	return 0;
}
