/* SPDX-License-Identifier: BSD-2-Clause */
#include "ports/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sys.h"
#include "base/timer.h"
#include "ports/nic.h"
#include "ports/stream_internal.h"

#define POLLED_FRESH_NS 1000000u
/* Between looks at the host's side while lanes look at the ports: each costs a
 * system call. */
#define HOST_NS		50000u
#define SWEEP_TICKS	20u /* a second */
#define LEAVE_NS	500000000u
#define LEAVE_NAP_US	200u

struct ur_streams ur_streams = {
	.opening = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.all = { &ur_streams.all, &ur_streams.all },
	.holds = { &ur_streams.holds, &ur_streams.holds },
	.epfd = -1,
};

/* A socket whose port number TCP may still use. */
struct hold {
	struct ur_list node;
	uint16_t number;
	int fd; /* -1: closed, the lease is left */
	uint32_t lease;
	struct ur_stream_port *port;
};

bool ur_streams_available(void)
{
	return ur_nic_is_there() && ur_stack_is_there();
}

/* ---- Addresses ---- */

static struct ur_stream_addr *find(const uint8_t ip[16])
{
	uint32_t n =
		atomic_load_explicit(&ur_streams.naddrs, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++)
		if (!memcmp(ur_streams.addrs[i].ip, ip, 16))
			return &ur_streams.addrs[i];
	return NULL;
}

struct ur_stream_addr *ur_stream_addr_find(const uint8_t ip[16])
{
	return find(ip);
}

bool ur_streams_are_there(void)
{
	return !atomic_load_explicit(&ur_streams.dead, memory_order_relaxed) &&
	       atomic_load_explicit(&ur_streams.naddrs, memory_order_relaxed);
}

/* Between addresses of this host the kernel carries. */
bool ur_streams_carry(const uint8_t src[16], const uint8_t dst[16])
{
	const struct ur_stream_addr *a;
	uint8_t own[1][16];

	if (atomic_load_explicit(&ur_streams.dead, memory_order_relaxed))
		return false;
	memcpy(own[0], src, 16);
	a = find(src);
	return a &&
	       !atomic_load_explicit(&a->port->dead, memory_order_relaxed) &&
	       !find(dst) && ur_port_carries(own, 1, src, dst);
}

/* ---- Packets ---- */

static int output(void *arg, const uint8_t *packet, uint32_t len)
{
	int err = ur_stream_port_send(arg, packet, len, ur_clock_ns());

	ur_streams.stuck |= err == -EAGAIN;
	return err;
}

static bool input(void *arg, const uint8_t *packet, uint32_t len)
{
	const struct ur_stream_addr *a;
	uint8_t src[16], dst[16];

	ur_addr_of_packet(packet, src, dst);
	a = find(dst);
	/* A packet from the wire with a source address of ours is spoofed: an
	 * answer to it would not leave lwIP, which has no loopback. */
	return a && !find(src) && a->port == arg &&
	       ur_streams.tcp->input(a->at, packet, len);
}

static bool no_roce(void *arg, const struct ur_rx *rx)
{
	return false;
}

void ur_stream_port_push(struct ur_stream_port *p)
{
	ur_stream_port_flush(p);
	if (!p->asleep)
		return;
	p->asleep = false;
	if (p->own)
		(void)ur_port_wait_fd(p->own, ur_clock_ns());
}

static void set_asleep(bool yes)
{
	for (uint32_t i = 0; i < ur_streams.nports; i++)
		ur_streams.ports[i].asleep = yes;
}

/* ---- Time ---- */

void ur_stream_hold(const struct ur_stream *s)
{
	struct hold *h = calloc(1, sizeof(*h));

	if (!h) {
		close(s->hold);
		if (s->lease)
			(void)ur_stream_port_put(s->port, s->lease);
		return;
	}
	h->fd = s->hold;
	h->number = s->number;
	h->lease = s->lease;
	h->port = s->port;
	ur_list_add_tail(&ur_streams.holds, &h->node);
}

static void sweep(void)
{
	ur_list_each_safe(struct hold, h, &ur_streams.holds, node) {
		if (h->fd >= 0 && ur_streams.tcp->has_port(h->number))
			continue;
		if (h->fd >= 0)
			close(h->fd);
		h->fd = -1;
		if (h->lease && !ur_stream_port_put(h->port, h->lease))
			continue;
		ur_list_del(&h->node);
		free(h);
	}
}

static void flush_all(void)
{
	for (uint32_t i = 0; i < ur_streams.nports; i++)
		ur_stream_port_flush(&ur_streams.ports[i]);
}

static void tick(uint64_t now_ns)
{
	if (ur_streams.stuck) {
		ur_streams.stuck = false;
		ur_streams.tcp->resume();
		flush_all();
	}
	if (now_ns < ur_streams.tick_ns)
		return;
	ur_streams.tick_ns = now_ns + UR_STACK_TICK_NS;
	if (++ur_streams.ticks % SWEEP_TICKS == 0)
		sweep();
	if (!ur_streams.tcp->is_busy())
		return;
	ur_streams.tcp->tick();
	flush_all();
}

/* Its connections end here as well: their port numbers are free again. */
static void end_port(struct ur_stream_port *p)
{
	atomic_store_explicit(&p->dead, true, memory_order_relaxed);
	ur_list_each(struct ur_stream, s, &ur_streams.all, all) {
		if (s->port != p || !s->c)
			continue;
		ur_streams.tcp->close(s->c, true);
		s->c = NULL;
		ur_stream_news(s, false);
	}
}

static uint32_t serve(uint64_t now_ns, bool idle)
{
	bool host = idle || now_ns >= ur_streams.host_ns + HOST_NS;
	uint32_t n = 0;

	for (uint32_t i = 0; i < ur_streams.nports; i++) {
		struct ur_stream_port *p = &ur_streams.ports[i];

		n += ur_stream_port_poll(p, now_ns);
		if (host)
			n += ur_stream_port_host(p, now_ns);
		if (p->ring && !p->dead && ur_ring_port_is_dead(p->ring))
			end_port(p);
	}
	if (host)
		ur_streams.host_ns = now_ns;
	if (ur_streams.nports)
		tick(now_ns);
	return n;
}

uint32_t ur_streams_serve(uint64_t now_ns, bool idle)
{
	uint32_t n;

	if (!ur_streams_lock())
		return 0;
	set_asleep(false);
	n = serve(now_ns, idle);
	ur_streams_unlock();
	return n;
}

bool ur_streams_are_polled(uint64_t now_ns)
{
	return now_ns <
	       POLLED_FRESH_NS + atomic_load_explicit(&ur_streams.polled_ns,
						      memory_order_relaxed);
}

int ur_streams_wait_fd(uint64_t now_ns, uint64_t *until_ns)
{
	*until_ns = UR_NEVER;
	if (!ur_streams_lock())
		return -1;
	for (uint32_t i = 0; i < ur_streams.nports; i++)
		(void)ur_stream_port_wait_fd(&ur_streams.ports[i], now_ns);
	if (ur_streams.stuck)
		*until_ns = now_ns;
	else if (ur_streams.nports && (ur_streams.tcp->is_busy() ||
				       !ur_list_empty(&ur_streams.holds)))
		*until_ns = ur_streams.tick_ns;
	set_asleep(true);
	ur_streams_unlock();
	return ur_streams.epfd;
}

/* ---- Sets ---- */

int ur_stream_set_init(struct ur_stream_set *set)
{
	ur_list_init(&set->news);
	set->signalled = false;
	set->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return set->fd < 0 ? -errno : 0;
}

void ur_stream_set_fini(struct ur_stream_set *set)
{
	close(set->fd);
	set->fd = -1;
}

static bool has_end(const struct ur_stream *s)
{
	return !s->c || ur_streams.tcp->has_end(s->c) ||
	       ur_streams.tcp->error(s->c);
}

static void tell(struct ur_stream_set *set,
		 void (*news)(void *arg, void *user, bool ended), void *arg)
{
	uint64_t n;

	if (set->signalled)
		(void)!ur_sys_read(set->fd, &n, sizeof(n));
	set->signalled = false;
	ur_list_each_safe(struct ur_stream, s, &set->news, news) {
		ur_list_del(&s->news);
		news(arg, s->user, has_end(s));
	}
}

void ur_stream_set_poll(struct ur_stream_set *set, bool quick, uint64_t now_ns,
			void (*news)(void *arg, void *user, bool ended),
			void *arg)
{
	if (atomic_load_explicit(&ur_streams.dead, memory_order_relaxed))
		return;
	if (quick) {
		atomic_store_explicit(&ur_streams.polled_ns, now_ns,
				      memory_order_relaxed);
		if (pthread_mutex_trylock(&ur_streams.lock))
			return;
	} else {
		pthread_mutex_lock(&ur_streams.lock);
	}
	ur_streams.polling = set;
	(void)serve(now_ns, false);
	ur_streams.polling = NULL;
	tell(set, news, arg);
	ur_streams_unlock();
}

/* ---- Life ---- */

static int start_tcp(void)
{
	static const struct ur_stack_calls calls = {
		.output = output,
		.has_room = ur_stream_has_room,
		.accepted = ur_stream_accepted,
		.news = ur_stream_news,
	};
	const struct ur_stack_plugin *p;
	uint64_t secret;
	int err;

	if (ur_streams.tcp)
		return 0;
	err = ur_stack_load(&p);
	if (err)
		return err;
	ur_rng_secret(&secret, sizeof(secret));
	pthread_mutex_lock(&ur_streams.lock);
	err = p->start(&calls, secret);
	if (!err)
		ur_streams.tcp = p;
	pthread_mutex_unlock(&ur_streams.lock);
	return err;
}

static int add_addr(struct ur_stream_port *port,
		    const struct ur_port_spec *spec, uint32_t i,
		    struct ur_stream_addr *a)
{
	const struct ur_port_addr *s = &spec->addrs[i];

	/* Two ports could have the same link-local address, but a peer's packet
	 * could not be assigned to one of them. */
	if (find(s->ip))
		return -EADDRINUSE;
	memcpy(a->ip, s->ip, 16);
	a->port = port;
	return ur_streams.tcp->add(s->ip, s->prefix, spec->mtu, port, &a->at);
}

/* All or none: no thread sees any of them before. */
static int add_addrs(struct ur_stream_port *port,
		     const struct ur_port_spec *spec)
{
	uint32_t n = atomic_load(&ur_streams.naddrs), i;
	int err = 0;

	for (i = 0; i < spec->naddrs && !err; i++)
		err = add_addr(port, spec, i, &ur_streams.addrs[n + i]);
	if (!err) {
		atomic_store_explicit(&ur_streams.naddrs, n + i,
				      memory_order_release);
		return 0;
	}
	while (--i > 0)
		ur_streams.tcp->remove(ur_streams.addrs[n + i - 1].at);
	return err;
}

static int watch(struct ur_stream_port *p)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (ur_streams.epfd < 0)
		ur_streams.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (ur_streams.epfd < 0 ||
	    epoll_ctl(ur_streams.epfd, EPOLL_CTL_ADD,
		      ur_stream_port_wait_fd(p, ur_clock_ns()), &ev))
		return -errno;
	return 0;
}

static int join(struct ur_stream_port *p, const struct ur_port_spec *spec)
{
	int err;

	pthread_mutex_lock(&ur_streams.lock);
	err = watch(p);
	if (!err)
		err = add_addrs(p, spec);
	if (!err)
		ur_streams.nports++;
	pthread_mutex_unlock(&ur_streams.lock);
	return err;
}

/* The environment of a port may take seconds to begin, in which others are
 * served: it joins them when it is there. */
static int open_alone(const struct ur_port_config *cfg)
{
	struct ur_stream_port *p = &ur_streams.ports[ur_streams.nports];
	struct ur_port_config own = *cfg;
	int err;

	if (ur_streams.nports == UR_MAX_PORTS)
		return -ENOSPC;
	err = start_tcp();
	if (err)
		return err;
	own.deliver = no_roce;
	own.tcp = input;
	own.arg = p;
	err = ur_port_open(&own, &p->own);
	if (err)
		return err;
	err = join(p, cfg->spec);
	if (err) {
		ur_err("port %s: cannot use its addresses: %s", cfg->ifname,
		       strerror(-err));
		ur_stream_port_close(p);
	}
	return err;
}

int ur_streams_open(const struct ur_port_config *cfg)
{
	int err = -ENODEV;

	if (atomic_load_explicit(&ur_streams.dead, memory_order_relaxed))
		return err;
	pthread_mutex_lock(&ur_streams.opening);
	err = open_alone(cfg);
	pthread_mutex_unlock(&ur_streams.opening);
	return err;
}

/* ---- urnicd's ports ---- */

/* The port that has these addresses, if there is one. */
static struct ur_stream_port *find_port(const struct ur_port_spec *spec)
{
	const struct ur_stream_addr *a = find(spec->addrs[0].ip);

	return a ? a->port : NULL;
}

bool ur_streams_want(const struct ur_port_spec *spec)
{
	const struct ur_stream_port *p = find_port(spec);

	if (atomic_load_explicit(&ur_streams.dead, memory_order_relaxed) ||
	    !ur_stack_is_there())
		return false;
	return !p || atomic_load(&p->dead);
}

static int renew(struct ur_stream_port *p, int sock, uint32_t ifindex)
{
	int err = -EEXIST;

	pthread_mutex_lock(&ur_streams.lock);
	if (p->ring && p->dead)
		err = ur_ring_port_renew(p->ring, sock, ifindex);
	else
		close(sock);
	if (!err)
		atomic_store(&p->dead, false);
	pthread_mutex_unlock(&ur_streams.lock);
	return err;
}

static int join_alone(int sock, const struct ur_port_spec *spec,
		      uint32_t ifindex)
{
	struct ur_stream_port *p = find_port(spec);
	struct ur_ring_port_config cfg = { .ifindex = ifindex, .tcp = input };
	int err;

	if (p)
		return renew(p, sock, ifindex);
	err = ur_streams.nports == UR_MAX_PORTS ? -ENOSPC : start_tcp();
	if (err) {
		close(sock);
		return err;
	}
	p = &ur_streams.ports[ur_streams.nports];
	cfg.arg = p;
	err = ur_ring_port_create(sock, &cfg, &p->ring);
	if (err)
		return err;
	err = join(p, spec);
	if (err)
		ur_stream_port_close(p);
	return err;
}

int ur_streams_join(int sock, const struct ur_port_spec *spec, uint32_t ifindex)
{
	int err;

	if (atomic_load_explicit(&ur_streams.dead, memory_order_relaxed)) {
		close(sock);
		return -ENODEV;
	}
	pthread_mutex_lock(&ur_streams.opening);
	err = join_alone(sock, spec, ifindex);
	pthread_mutex_unlock(&ur_streams.opening);
	return err;
}

bool ur_streams_need_lease(const uint8_t *addr)
{
	const struct ur_stream_addr *a = addr ? find(addr) : NULL;
	uint32_t n = atomic_load(&ur_streams.naddrs);

	if (addr)
		return a && a->port->ring;
	for (uint32_t i = 0; i < n; i++)
		if (ur_streams.addrs[i].port->ring)
			return true;
	return false;
}

/* ---- Report ---- */

bool ur_streams_counters(struct ur_stack_counters *out)
{
	bool yes;

	if (!ur_streams_lock())
		return false;
	yes = ur_streams.nports > 0;
	if (yes)
		ur_streams.tcp->counters(out);
	ur_streams_unlock();
	return yes;
}

bool ur_streams_port(uint32_t i, struct ur_port_stats *stats,
		     struct ur_net_counters *net, uint32_t *ifindex)
{
	bool yes;

	if (!ur_streams_lock())
		return false;
	yes = i < ur_streams.nports;
	if (yes) {
		const struct ur_stream_port *p = &ur_streams.ports[i];

		memset(stats, 0, sizeof(*stats));
		memset(net, 0, sizeof(*net));
		*ifindex = ur_stream_port_ifindex(p);
		if (p->own) {
			ur_port_stats(p->own, stats);
			*net = *ur_port_counters(p->own);
		} else {
			stats->rx_missed = ur_ring_port_lost(p->ring);
		}
	}
	ur_streams_unlock();
	return yes;
}

/* ---- The process ---- */

static bool is_leaving(void)
{
	bool yes;

	if (!ur_streams_lock())
		return false;
	serve(ur_clock_ns(), true);
	yes = ur_streams.nports && ur_streams.tcp->is_sending();
	ur_streams_unlock();
	return yes;
}

/*
 * A kernel continues the connections of a process that has ended; ours end
 * with it.  So the peer gets what was written, then the end.
 */
void ur_streams_leave(void)
{
	uint64_t until = ur_clock_ns() + LEAVE_NS;

	if (!ur_streams_lock())
		return;
	ur_list_each(struct ur_stream, s, &ur_streams.all, all) {
		if (s->c)
			ur_streams.tcp->close(s->c, false);
		s->c = NULL;
	}
	flush_all();
	ur_streams_unlock();
	while (is_leaving() && ur_clock_ns() < until)
		usleep(LEAVE_NAP_US);
}

void ur_streams_before_fork(void)
{
	pthread_mutex_lock(&ur_streams.opening);
	pthread_mutex_lock(&ur_streams.lock);
}

void ur_streams_after_fork(void)
{
	pthread_mutex_unlock(&ur_streams.lock);
	pthread_mutex_unlock(&ur_streams.opening);
}

void ur_streams_child(void)
{
	atomic_store(&ur_streams.dead, true);
	for (uint32_t i = 0; i < ur_streams.nports; i++)
		ur_stream_port_abandon(&ur_streams.ports[i]);
	if (ur_streams.epfd >= 0)
		close(ur_streams.epfd);
	ur_list_each(struct ur_stream, s, &ur_streams.all, all)
		if (s->hold >= 0)
			close(s->hold);
	ur_list_each(struct hold, h, &ur_streams.holds, node) {
		int fd = h->fd;

		if (fd >= 0)
			close(fd);
	}
}
