/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port's lock guards its lanes and is held by its thread while that works;
 * the server's thread takes it to attach and detach them.  A lane that writes
 * nonsense, or does not read, harms itself only: its rings are not looked at
 * any more, or its packets are lost and counted.
 */
#include "daemon/ports.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/turns.h"
#include "config/config.h"
#include "daemon/ports_report.h"
#include "daemon/ports_tcp.h"
#include "link/port.h"
#include "link/ring.h"

#define QPN_INDEX_BITS	14
#define TRAINS_PER_TURN 16
#define HOST_EVERY	32u
#define SPIN_MAX_NS	20000u
#define SPIN_MIN_NS	2000u
#define SHORT_NS	50000u /* a sleep that a spin would have saved */
#define EVENTS		32
#define PORT_EVENT	UR_SLOTS       /* others are the slot's, or … */
#define TCP_EVENTS	(UR_SLOTS + 1) /* … a process' TCP's */

struct lane {
	struct ur_rings rings;
	bool broken; /* wrote nonsense, or hung up */
};

struct port {
	struct ur_port *port; /* constant from here … */
	uint32_t ifindex;
	struct ur_ports_tcp *tcp; /* what it points at has the lock */
	int epfd;		  /* … to here */
	pthread_mutex_t lock;
	_Atomic unsigned int waiting; /* for the lock, which is not fair */
	struct lane *lanes[UR_SLOTS];
	unsigned int slots[UR_SLOTS]; /* of lanes that are there */
	unsigned int nslots;
	/* Of the thread. */
	uint32_t turns;
	bool slept; /* until the port, and maybe its host, had something */
	uint64_t busy_ns;  /* when there was something to do */
	uint64_t slept_ns; /* how long; 0: it has been looked at */
	uint64_t spin_ns;  /* how long to look for more; 0: it has not paid */
	struct ur_train train;
};

static struct port *ports[UR_MAX_PORTS]; /* constant once they run */
static unsigned int nports;

/* Not for the port's own thread. */
static void lock_port(struct port *p)
{
	atomic_fetch_add(&p->waiting, 1);
	pthread_mutex_lock(&p->lock);
	atomic_fetch_sub(&p->waiting, 1);
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- The thread ---- */

static bool deliver(void *arg, const struct ur_rx *rx)
{
	struct port *p = arg;
	uint32_t qpn = (uint32_t)rx->data[5] << 16 |
		       (uint32_t)rx->data[6] << 8 | rx->data[7];
	struct lane *l = p->lanes[qpn >> QPN_INDEX_BITS];

	if (!l || l->broken)
		return false;
	if (ur_ring_put_rx(&l->rings.tx, rx) > 0)
		ur_rings_bell(&l->rings);
	return true;
}

static bool deliver_tcp(void *arg, const uint8_t *packet, uint32_t len)
{
	struct port *p = arg;

	return ur_ports_tcp_in(p->tcp, packet, len, clock_ns());
}

/* Who gives a train of a slot must not give one that no lane would. */
static bool make_train(struct ur_train *t, const struct ur_ring_rec *rec,
		       const uint8_t *payload)
{
	if (!rec->len || rec->len > UR_TRAIN_BYTES || !rec->pkt_len ||
	    rec->sport < IPPORT_RESERVED)
		return false;
	t->npkts = (rec->len - 1) / rec->pkt_len + 1;
	if (t->npkts > UR_TRAIN_PKTS)
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

static int next_train(struct port *p, struct lane *l)
{
	struct ur_ring_rec rec;
	const uint8_t *payload;
	int got = ur_ring_peek(&l->rings.rx, &rec, &payload);

	if (got > 0 && !make_train(&p->train, &rec, payload))
		got = -EPROTO;
	return got;
}

/* For the port's own addresses only: others' paths are the host's. */
static int send_train(struct port *p, const struct ur_train *t)
{
	return ur_port_has(p->port, t->src, t->dst)
		       ? ur_port_send(p->port, t, clock_ns())
		       : -EADDRNOTAVAIL;
}

/* What the lane has written; how many trains left. */
static unsigned int send_lane(struct port *p, unsigned int slot)
{
	struct lane *l = p->lanes[slot];
	unsigned int n;
	int got = 0;

	for (n = 0; n < TRAINS_PER_TURN && !l->broken; n++) {
		int err;

		got = next_train(p, l);
		if (got <= 0)
			break;
		err = send_train(p, &p->train);
		if (err == -EAGAIN)
			break;
		if (err)
			ur_debug("slot %u: train of %u x %u bytes: %s", slot,
				 p->train.npkts, p->train.pkt_len,
				 strerror(-err));
		ur_ring_pop(&l->rings.rx);
	}
	if (got < 0) {
		l->broken = true;
		ur_warn_some(
			"slot %u writes nonsense and is not heard any more",
			slot);
	}
	return n;
}

/* What comes in is looked at between any two lanes: sending all that many have
 * takes longer than a controller's queue lasts. */
static unsigned int work(struct port *p)
{
	unsigned int n = ur_port_poll(p->port, clock_ns());

	for (unsigned int i = 0; i < p->nslots; i++) {
		unsigned int sent = send_lane(p, p->slots[i]);

		n += sent;
		if (sent)
			n += ur_port_poll(p->port, clock_ns());
	}
	n += ur_ports_tcp_work(p->tcp, clock_ns());
	if (p->slept || ++p->turns % HOST_EVERY == 0)
		n += ur_port_host(p->port, clock_ns());
	p->slept = false;
	return n;
}

/* Lanes ring from now on.  False: one has written meanwhile. */
static bool may_sleep(struct port *p)
{
	bool ok = ur_ports_tcp_sleep(p->tcp);

	for (unsigned int i = 0; i < p->nslots; i++) {
		struct lane *l = p->lanes[p->slots[i]];

		ok &= l->broken || ur_ring_sleep(&l->rings.rx, true);
	}
	if (ok)
		(void)ur_port_wait_fd(p->port, clock_ns());
	return ok;
}

/* A lane whose process has ended, or never took the rings, stays until the
 * server detaches it; what is for it takes the way of the host. */
static void hear(struct port *p, unsigned int slot)
{
	struct lane *l = slot < UR_SLOTS ? p->lanes[slot] : NULL;

	if (slot >= TCP_EVENTS)
		ur_ports_tcp_hear(p->tcp, slot);
	if (!l || ur_rings_heard(&l->rings))
		return;
	l->broken = true;
	(void)epoll_ctl(p->epfd, EPOLL_CTL_DEL, l->rings.sock, NULL);
}

/*
 * There was work, or not.  True: it is time to sleep.  Looking for more before
 * that has to pay; and whoever is to bring it needs a core for himself: where
 * there is none for him, we are in his way.
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
	if (now - p->busy_ns < p->spin_ns && !ur_turns_crowded(now))
		return false;
	if (spun)
		p->spin_ns = p->spin_ns > SPIN_MIN_NS ? p->spin_ns / 2 : 0;
	return true;
}

/* They need not ring for what we look at anyway. */
static void note_awake(const struct port *p)
{
	for (unsigned int i = 0; i < p->nslots; i++)
		(void)ur_ring_sleep(&p->lanes[p->slots[i]]->rings.rx, false);
}

static void doze(struct port *p)
{
	struct epoll_event ev[EVENTS];
	uint64_t since = clock_ns();
	int n = epoll_wait(p->epfd, ev, EVENTS, -1);

	pthread_mutex_lock(&p->lock);
	p->slept_ns = clock_ns() - since;
	for (int i = 0; i < n; i++) {
		p->slept |= ev[i].data.u32 == PORT_EVENT;
		hear(p, ev[i].data.u32);
	}
	note_awake(p);
	pthread_mutex_unlock(&p->lock);
}

static void *port_main(void *arg)
{
	struct port *p = arg;

	ur_turns_short();
	for (;;) {
		bool sleeps;

		pthread_mutex_lock(&p->lock);
		sleeps = is_idle(p, work(p) > 0, clock_ns()) && may_sleep(p);
		pthread_mutex_unlock(&p->lock);
		while (atomic_load(&p->waiting))
			sched_yield();
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

/* p->lock is held. */
static int add_lane(struct port *p, unsigned int slot)
{
	struct lane *l = calloc(1, sizeof(*l));
	int peer, err;

	if (!l)
		return -ENOMEM;
	err = ur_rings_make(&l->rings, &peer);
	if (err) {
		free(l);
		return err;
	}
	/* The thread may be asleep: the first train rings. */
	(void)ur_ring_sleep(&l->rings.rx, true);
	err = watch(p, l->rings.sock, slot);
	if (err) {
		close(peer);
		ur_rings_drop(&l->rings);
		free(l);
		return err;
	}
	p->lanes[slot] = l;
	p->slots[p->nslots++] = slot;
	return peer;
}

/* p->lock is held. */
static void drop_lane(struct port *p, unsigned int slot)
{
	struct lane *l = p->lanes[slot];
	unsigned int i = 0;

	if (!l)
		return;
	while (p->slots[i] != slot)
		i++;
	p->slots[i] = p->slots[--p->nslots];
	p->lanes[slot] = NULL;
	ur_rings_drop(&l->rings);
	free(l);
}

static void detach(void *arg, unsigned int slot)
{
	for (unsigned int i = 0; i < nports; i++) {
		lock_port(ports[i]);
		drop_lane(ports[i], slot);
		pthread_mutex_unlock(&ports[i]->lock);
	}
}

/* A lane that asks again has lost what it had. */
static int attach(void *arg, unsigned int slot, uint32_t ifindex)
{
	int fd = -ENOENT;

	for (unsigned int i = 0; i < nports && fd == -ENOENT; i++) {
		struct port *p = ports[i];

		if (p->ifindex != ifindex)
			continue;
		lock_port(p);
		drop_lane(p, slot);
		fd = add_lane(p, slot);
		pthread_mutex_unlock(&p->lock);
	}
	return fd;
}

/* ---- The server, for TCP ---- */

static int attach_tcp(uint32_t session, uint32_t ifindex)
{
	int fd = -ENOENT;

	for (unsigned int i = 0; i < nports && fd == -ENOENT; i++) {
		struct port *p = ports[i];

		if (p->ifindex != ifindex)
			continue;
		lock_port(p);
		fd = ur_ports_tcp_attach(p->tcp, session);
		pthread_mutex_unlock(&p->lock);
	}
	return fd;
}

static void detach_tcp(uint32_t session)
{
	for (unsigned int i = 0; i < nports; i++) {
		lock_port(ports[i]);
		ur_ports_tcp_detach(ports[i]->tcp, session, clock_ns());
		pthread_mutex_unlock(&ports[i]->lock);
	}
}

static void put_tcp(uint32_t session, uint32_t handle)
{
	for (unsigned int i = 0; i < nports; i++) {
		lock_port(ports[i]);
		ur_ports_tcp_put(ports[i]->tcp, session, handle);
		pthread_mutex_unlock(&ports[i]->lock);
	}
}

/* A lease is of all ports whose addresses it is about, or of none. */
static int lease_tcp(uint32_t session, uint32_t handle,
		     const struct ur_tcp_proof *proof, int fd)
{
	int err = -ENOENT;

	for (unsigned int i = 0; i < nports && (!err || err == -ENOENT); i++) {
		int got;

		lock_port(ports[i]);
		got = ur_ports_tcp_lease(ports[i]->tcp, session, handle, proof,
					 fd);
		pthread_mutex_unlock(&ports[i]->lock);
		if (got != -ENOENT)
			err = got;
	}
	if (err && err != -ENOENT && err != -EEXIST)
		put_tcp(session, handle);
	return err;
}

/* ---- What is told of them ---- */

/* p->lock is held. */
static void view(const struct port *p, struct ur_port_view *v)
{
	*v = (struct ur_port_view){ .ifindex = p->ifindex,
				    .lanes = p->nslots,
				    .counters = *ur_port_counters(p->port) };
	ur_port_stats(p->port, &v->stats);
	ur_port_facts(p->port, &v->facts);
	ur_ports_tcp_view(p->tcp, &v->tcp);
	for (unsigned int i = 0; i < p->nslots; i++) {
		const struct lane *l = p->lanes[p->slots[i]];

		v->broken += l->broken;
		v->lanes_lost += ur_ring_lost(&l->rings.tx);
	}
}

static int report(void *arg)
{
	struct ur_port_view views[UR_MAX_PORTS];

	for (unsigned int i = 0; i < nports; i++) {
		lock_port(ports[i]);
		view(ports[i], &views[i]);
		pthread_mutex_unlock(&ports[i]->lock);
	}
	return ur_ports_report(views, nports);
}

static int run(struct port *p, const struct ur_config *c, uint32_t i)
{
	char ifname[IF_NAMESIZE];
	struct ur_port_config cfg = { .spec = &c->ports[i],
				      .eal = &c->eal,
				      .ifname = ifname,
				      .deliver = deliver,
				      .tcp = deliver_tcp,
				      .arg = p };
	pthread_t thread;
	int err;

	ur_config_ifname(c, i, ifname);
	pthread_mutex_init(&p->lock, NULL);
	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epfd < 0)
		return -errno;
	err = ur_port_open(&cfg, &p->port);
	if (err == -EBUSY)
		ur_err("port %s: another process runs it", ifname);
	if (err)
		return err;
	p->ifindex = if_nametoindex(ifname);
	p->tcp = ur_ports_tcp_create(p->port, cfg.spec, p->ifindex, p->epfd,
				     TCP_EVENTS);
	if (!p->tcp)
		return -ENOMEM;
	err = watch(p, ur_port_wait_fd(p->port, clock_ns()), PORT_EVENT);
	if (!err)
		err = -pthread_create(&thread, NULL, port_main, p);
	if (!err)
		(void)pthread_setname_np(thread, "urnicd-port");
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
		struct port *p = calloc(1, sizeof(*p));
		int err = p ? run(p, c, i) : -ENOMEM;

		if (err)
			return err;
		ports[nports++] = p;
	}
	*out = &ops;
	return 0;
}
