/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port of DPDK as ports/nic.h wants it: pairs of queues, frames in buffers of
 * one piece.  Drivers differ in their features; the stack above does what a
 * driver cannot.
 */
#include <errno.h>
#include <poll.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "ports/dpdk/internal.h"
#include "ports/dpdk/lcore.h"
#include "ports/nic.h"

#define DEPTH	  1024u		   /* frames in the queue of each direction */
#define POOL	  (4u * DEPTH)	   /* buffers */
#define POOL_MORE (5u * DEPTH / 2) /* … for each further pair of queues */
#define L2_EXTRA  18u		   /* Ethernet's header and one tag */
#define ROOM_MIN  2048u
#define ROOM_STEP 1024u
#define ROOM_MOST                                                              \
	10240u	   /* for a frame of the largest MTU, and what is before */
#define TRIES  64  /* at a queue that is full */
#define SPARES 32u /* buffers fetched at a time */

/* A pair of them, one thread's at a time. */
struct queue {
	unsigned int rx_lcore; /* lcore of the thread that receives … */
	unsigned int tx_lcore; /* … and sends: lcore.h */
	int fd;		       /* of its interrupts; -1: none */
	bool fd_counts;	       /* an eventfd */
	bool fd_socket;	       /* a packet socket */
	uint64_t no_buffer;
	struct rte_mbuf *room; /* given by room() */
	struct rte_mbuf *spare[SPARES];
	uint32_t nspare;
	uint32_t lost; /* since flush() was called last */
	uint32_t kept;
	struct rte_mbuf *out[UR_NIC_BURST];
	uint8_t *flat; /* a frame of many pieces in one */
};

struct ur_nic {
	uint16_t id;
	struct rte_mempool *pool;
	uint32_t len_max; /* of a frame */
	bool ours;	  /* we have configured it, so we stop it */
	struct ur_flows flows;
	struct ur_nic_info info;
	uint32_t made; /* queues */
	struct queue queues[UR_PORT_QUEUES];
};

static pthread_mutex_t taken_lock = PTHREAD_MUTEX_INITIALIZER;
static bool taken[RTE_MAX_ETHPORTS]; /* taken_lock */

static int find_port(const char *name, uint16_t *id)
{
	uint16_t i;

	if (*name) {
		if (rte_eth_dev_get_port_by_name(name, id))
			return -ENODEV;
		return taken[*id] ? -EBUSY : 0;
	}
	for (i = 0; i < RTE_MAX_ETHPORTS; i++) {
		if (taken[i] || !rte_eth_dev_is_valid_port(i))
			continue;
		*id = i;
		return 0;
	}
	return -ENODEV;
}

/* Of these drivers the interface stays the kernel's too, with its MAC address. */
static bool is_shared(const char *driver)
{
	return !strcmp(driver, "net_af_packet") ||
	       !strcmp(driver, "net_af_xdp") || !strcmp(driver, "net_pcap") ||
	       !strcmp(driver, "net_tap");
}

/* Round sizes, since drivers have such, and refuse smaller buffers.  The
 * driver for packet sockets needs buffers for the frame size in its
 * arguments, which is larger than its default if the port's is, and does not
 * report it. */
static int make_pool(struct ur_nic *n)
{
	uint32_t room = (n->len_max / ROOM_STEP + 1) * ROOM_STEP;
	unsigned int count = POOL + (n->info.queues - 1u) * POOL_MORE;
	unsigned int cache = ur_lcore_cache();
	static _Atomic unsigned int made;
	char name[32];

	if (room < ROOM_MIN)
		room = ROOM_MIN;
	else if (!strcmp(n->info.driver, "net_af_packet"))
		room = ROOM_MOST;
	room += RTE_PKTMBUF_HEADROOM;
	/* That of a closed port may still exist. */
	snprintf(name, sizeof(name), "urnic%u.%u", n->id,
		 atomic_fetch_add(&made, 1));
	/* A stack gives the buffers that were used last, which are in the
	 * cache. */
	n->pool = rte_pktmbuf_pool_create_by_ops(
		name, count, cache, 0, (uint16_t)room, SOCKET_ID_ANY, "stack");
	if (!n->pool)
		n->pool = rte_pktmbuf_pool_create(
			name, count, cache, 0, (uint16_t)room, SOCKET_ID_ANY);
	if (n->pool)
		return 0;
	ur_err("port %u: no memory for %u buffers of %u bytes: %s", n->id,
	       count, room, rte_strerror(rte_errno));
	return -ENOMEM;
}

static void choose_offloads(const struct rte_eth_dev_info *dev,
			    struct rte_eth_conf *conf, struct ur_nic *n)
{
	uint64_t tx = dev->tx_offload_capa, rx = dev->rx_offload_capa;

	if (tx & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) {
		conf->txmode.offloads |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
		n->info.tx |= UR_NIC_TX_IPV4_SUM;
	}
	if (tx & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) {
		conf->txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
		n->info.tx |= UR_NIC_TX_UDP_SUM;
	}
	conf->rxmode.offloads |=
		rx &
		(RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM |
		 RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_SCATTER);
}

static int set_queues(struct ur_nic *n)
{
	uint16_t rx = DEPTH, tx = DEPTH;
	int socket = rte_eth_dev_socket_id(n->id);
	int err = rte_eth_dev_adjust_nb_rx_tx_desc(n->id, &rx, &tx);

	for (uint16_t q = 0; q < n->info.queues && !err; q++) {
		err = rte_eth_rx_queue_setup(n->id, q, rx, (unsigned)socket,
					     NULL, n->pool);
		if (!err)
			err = rte_eth_tx_queue_setup(n->id, q, tx,
						     (unsigned)socket, NULL);
	}
	n->info.rx_depth = rx;
	return err;
}

/* Virtual devices name a frame of 1518 bytes as their largest and carry larger
 * ones; the library insists on what they say. */
static uint32_t told_mtu(const struct ur_nic *n,
			 const struct rte_eth_dev_info *dev)
{
	uint32_t mtu = n->info.mtu;

	if (mtu > dev->max_mtu)
		mtu = dev->max_mtu;
	if (mtu + L2_EXTRA > dev->max_rx_pktlen)
		mtu = dev->max_rx_pktlen - L2_EXTRA;
	return mtu;
}

/* One flow, one queue: so packets of a queue pair stay in order. */
static void choose_spread(const struct rte_eth_dev_info *dev,
			  struct rte_eth_conf *conf, struct ur_nic *n)
{
	uint64_t can = dev->flow_type_rss_offloads &
		       (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);

	n->info.spreads = n->info.queues > 1 && can != 0;
	if (!n->info.spreads)
		return;
	conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	conf->rx_adv_conf.rss_conf.rss_hf = can;
}

static int try_configure(struct ur_nic *n, const struct rte_eth_conf *conf)
{
	int err = rte_eth_dev_configure(n->id, n->info.queues, n->info.queues,
					conf);

	n->ours |= err != -EBUSY;
	if (!err)
		err = set_queues(n);
	return err ? err : rte_eth_dev_start(n->id);
}

/* Try with interrupts first, then without. */
static int try_interrupts(struct ur_nic *n, struct rte_eth_conf *conf)
{
	int err;

	conf->intr_conf.rxq = 1;
	err = try_configure(n, conf);
	n->info.interrupts = !err;
	if (!err)
		return 0;
	conf->intr_conf.rxq = 0;
	return try_configure(n, conf);
}

static int configure(struct ur_nic *n, const struct rte_eth_dev_info *dev)
{
	struct rte_eth_conf conf = { .rxmode = { .mtu = told_mtu(n, dev) } };
	int err;

	choose_offloads(dev, &conf, n);
	choose_spread(dev, &conf, n);
	err = try_interrupts(n, &conf);
	if (!err || !n->info.spreads)
		return err;
	n->info.spreads = false;
	conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
	conf.rx_adv_conf.rss_conf.rss_hf = 0;
	return try_interrupts(n, &conf);
}

/*
 * A setting that a driver lacks is no error: some keep the interface's own MTU,
 * and some receive all frames anyway.
 */
static void set_filters(struct ur_nic *n, const struct rte_eth_dev_info *dev)
{
	if (told_mtu(n, dev) != n->info.mtu ||
	    rte_eth_dev_set_mtu(n->id, (uint16_t)n->info.mtu))
		ur_debug("port %u keeps its MTU", n->id);
	if (n->info.shared && rte_eth_promiscuous_enable(n->id))
		ur_debug("port %u has no promiscuous mode", n->id);
	if (rte_eth_allmulticast_enable(n->id) &&
	    rte_eth_promiscuous_enable(n->id))
		ur_info("port %u may not receive multicast", n->id);
}

static bool is_eventfd(int fd)
{
	char path[32], target[32];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, target, sizeof(target) - 1);
	target[len > 0 ? len : 0] = '\0';
	return strcmp(target, "anon_inode:[eventfd]") == 0;
}

/* Asked first: the library logs an error for drivers that have none. */
static void open_interrupt(struct ur_nic *n, const struct rte_eth_dev_info *dev,
			   uint16_t q)
{
	struct queue *u = &n->queues[q];

	if (n->info.interrupts && !rte_eth_dev_rx_intr_enable(n->id, q))
		u->fd = rte_eth_dev_rx_intr_ctl_q_get_fd(n->id, q);
	/* Of several sockets it is not known which queue each belongs to. */
	if (u->fd < 0 && n->info.queues == 1 &&
	    !strcmp(n->info.driver, "net_af_packet")) {
		u->fd = ur_packet_socket(dev->if_index);
		u->fd_socket = u->fd >= 0;
	}
	u->fd_counts = u->fd >= 0 && is_eventfd(u->fd);
}

static void open_interrupts(struct ur_nic *n,
			    const struct rte_eth_dev_info *dev)
{
	bool all = true;

	for (uint16_t q = 0; q < n->info.queues; q++) {
		open_interrupt(n, dev, q);
		all &= n->queues[q].fd >= 0;
	}
	n->info.interrupts = all;
}

/*
 * As many as it has, if fewer than asked for.  The driver for packet sockets
 * has as many as its arguments say, and the kernel distributes frames to all of
 * them, whether they are polled or not.
 */
static void choose_queues(struct ur_nic *n, const struct rte_eth_dev_info *dev,
			  uint16_t want)
{
	uint16_t have = want ? want : 1;

	if (!strcmp(n->info.driver, "net_af_packet"))
		have = UR_PORT_QUEUES;
	if (have > dev->max_rx_queues)
		have = dev->max_rx_queues;
	if (have > dev->max_tx_queues)
		have = dev->max_tx_queues;
	n->info.queues = have ? have : 1;
	if (n->info.queues < want)
		ur_warn("port %u: %u queues asked for, %s has %u", n->id, want,
			dev->driver_name, n->info.queues);
}

/* Until it is told what there is, there is nothing. */
static int make_queues(struct ur_nic *n)
{
	for (uint32_t q = 0; q < n->info.queues; q++) {
		n->made = q + 1;
		n->queues[q].rx_lcore = ur_lcore_take();
		n->queues[q].tx_lcore = ur_lcore_take();
		n->queues[q].fd = -1;
		n->queues[q].flat = malloc(n->len_max);
		if (!n->queues[q].flat)
			return -ENOMEM;
	}
	return 0;
}

static int start(struct ur_nic *n, const struct ur_port_spec *spec)
{
	struct rte_ether_addr mac;
	struct rte_eth_dev_info dev;
	int err = rte_eth_dev_info_get(n->id, &dev);

	if (err)
		return err;
	n->info.mtu = spec->mtu;
	n->len_max = spec->mtu + L2_EXTRA;
	snprintf(n->info.driver, sizeof(n->info.driver), "%s", dev.driver_name);
	n->info.shared = is_shared(dev.driver_name);
	choose_queues(n, &dev, spec->queues);
	err = make_queues(n);
	if (!err)
		err = make_pool(n);
	if (err)
		return err;
	err = configure(n, &dev);
	if (!err)
		err = rte_eth_macaddr_get(n->id, &mac);
	if (err)
		return err;
	memcpy(n->info.mac, mac.addr_bytes, sizeof(n->info.mac));
	set_filters(n, &dev);
	open_interrupts(n, &dev);
	return 0;
}

/* Devices are opened by any thread. */
static int take_port(const char *name, uint16_t *id)
{
	int err;

	pthread_mutex_lock(&taken_lock);
	err = find_port(name, id);
	if (!err)
		taken[*id] = true;
	pthread_mutex_unlock(&taken_lock);
	return err;
}

static void give_port(uint16_t id)
{
	pthread_mutex_lock(&taken_lock);
	taken[id] = false;
	pthread_mutex_unlock(&taken_lock);
}

static void drop_queue(struct queue *u)
{
	if (u->room)
		rte_pktmbuf_free(u->room);
	for (uint32_t i = 0; i < u->kept; i++)
		rte_pktmbuf_free(u->out[i]);
	rte_pktmbuf_free_bulk(u->spare, u->nspare);
	free(u->flat);
	ur_lcore_give(u->rx_lcore);
	ur_lcore_give(u->tx_lcore);
}

/* Also one that did not start: its queues may have the buffers already.  But
 * one that runs belongs to the program. */
static void nic_close(struct ur_nic *n)
{
	for (uint32_t q = 0; q < n->made; q++)
		drop_queue(&n->queues[q]);
	ur_flows_fini(&n->flows);
	if (n->ours) {
		(void)rte_eth_dev_stop(n->id);
		(void)rte_eth_dev_close(n->id);
	}
	/* Frames in a ring that another port reads are still to be read. */
	if (n->pool && rte_mempool_full(n->pool))
		rte_mempool_free(n->pool);
	give_port(n->id);
	free(n);
}

static int nic_open(const struct ur_eal_args *eal,
		    const struct ur_port_spec *spec, struct ur_nic **out)
{
	struct ur_nic *n;
	uint16_t id;
	int err = ur_eal_begin(eal);

	if (err)
		return err;
	err = take_port(spec->dev, &id);
	if (err) {
		ur_err("DPDK has no port %s%s", spec->dev,
		       err == -EBUSY ? " that is free" : "");
		return err;
	}
	n = calloc(1, sizeof(*n));
	if (!n) {
		give_port(id);
		return -ENOMEM;
	}
	n->id = id;
	ur_flows_init(&n->flows, id, spec->vlan != 0);
	err = start(n, spec);
	if (err) {
		ur_err("port %u does not start: %s", id, rte_strerror(-err));
		nic_close(n);
		return err;
	}
	*out = n;
	return 0;
}

static void nic_info(const struct ur_nic *n, struct ur_nic_info *out)
{
	*out = n->info;
}

static uint32_t flags_of(const struct rte_mbuf *m)
{
	uint64_t f = m->ol_flags;
	uint32_t flags = 0;

	if ((f & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD)
		flags |= UR_NIC_RX_IP_GOOD;
	if ((f & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
		flags |= UR_NIC_RX_L4_GOOD;
	if ((f & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD)
		flags |= UR_NIC_RX_L4_BAD;
	return flags;
}

/* Frames longer than the MTU allows are an error of the driver, or an
 * attack. */
static void deliver(const struct ur_nic *n, const struct queue *u,
		    struct rte_mbuf *m,
		    void (*fn)(void *arg, const struct ur_nic_rx *rx),
		    void *arg)
{
	struct ur_nic_rx rx = { .len = m->pkt_len, .flags = flags_of(m) };

	if (m->pkt_len > n->len_max)
		return;
	rx.frame = rte_pktmbuf_read(m, 0, m->pkt_len, u->flat);
	if (rx.frame)
		fn(arg, &rx);
}

/*
 * Rings pass on buffers of other pools.  Our cache of another pool is not used
 * by the threads that allocate from it: buffers in it would be lost to them.
 */
static bool is_own(const struct ur_nic *n, const struct rte_mbuf *m)
{
	while (m && m->pool == n->pool && RTE_MBUF_DIRECT(m))
		m = m->next;
	return !m;
}

static uint32_t nic_rx(struct ur_nic *n, uint16_t q,
		       void (*fn)(void *arg, const struct ur_nic_rx *rx),
		       void *arg)
{
	const struct queue *u = &n->queues[q];
	struct rte_mbuf *in[UR_NIC_BURST];
	unsigned int was = ur_lcore_be(u->rx_lcore);
	bool own = true;
	uint16_t got;

	/* Some drivers make system calls (base/sys.h). */
	ur_cancel_off();
	got = rte_eth_rx_burst(n->id, q, in, UR_NIC_BURST);
	ur_cancel_on();
	ur_lcore_again(was);
	if (!got)
		return 0;
	for (uint16_t i = 0; i < got; i++) {
		deliver(n, u, in[i], fn, arg);
		own = own && is_own(n, in[i]);
	}
	was = ur_lcore_be(own ? u->rx_lcore : LCORE_ID_ANY);
	rte_pktmbuf_free_bulk(in, got);
	ur_lcore_again(was);
	return got;
}

static struct rte_mbuf *take_buffer(const struct ur_nic *n, struct queue *u)
{
	struct rte_mbuf *m;
	unsigned int was;

	if (u->nspare)
		return u->spare[--u->nspare];
	was = ur_lcore_be(u->tx_lcore);
	if (rte_pktmbuf_alloc_bulk(n->pool, u->spare, SPARES)) {
		m = rte_pktmbuf_alloc(n->pool);
	} else {
		u->nspare = SPARES - 1;
		m = u->spare[u->nspare];
	}
	ur_lcore_again(was);
	return m;
}

static uint8_t *nic_room(struct ur_nic *n, uint16_t q, uint32_t len)
{
	struct queue *u = &n->queues[q];

	if (len > n->len_max)
		return NULL;
	if (!u->room)
		u->room = take_buffer(n, u);
	if (!u->room) {
		u->no_buffer++;
		return NULL;
	}
	return rte_pktmbuf_mtod(u->room, uint8_t *);
}

static void ask_sums(struct rte_mbuf *m, const struct ur_nic_tx *tx)
{
	m->tx_offload = rte_mbuf_tx_offload(tx->l2, tx->l3, 0, 0, 0, 0, 0);
	m->ol_flags |= tx->v4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
	if (tx->sums & UR_NIC_TX_IPV4_SUM)
		m->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	if (tx->sums & UR_NIC_TX_UDP_SUM)
		m->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM;
}

/* A queue that stays full is the network's: what does not fit is lost, as it
 * would be in a switch.  What the driver frees here it was given here, so that
 * it is of our pools. */
static void push(struct ur_nic *n, uint16_t q)
{
	struct queue *u = &n->queues[q];
	unsigned int was = ur_lcore_be(u->tx_lcore);
	uint32_t sent = 0;

	/* Some drivers make system calls (base/sys.h). */
	ur_cancel_off();
	for (int i = 0; i < TRIES && sent < u->kept; i++)
		sent += rte_eth_tx_burst(n->id, q, u->out + sent,
					 (uint16_t)(u->kept - sent));
	ur_cancel_on();
	u->lost += u->kept - sent;
	for (uint32_t i = sent; i < u->kept; i++)
		rte_pktmbuf_free(u->out[i]);
	u->kept = 0;
	ur_lcore_again(was);
}

static uint32_t nic_flush(struct ur_nic *n, uint16_t q)
{
	struct queue *u = &n->queues[q];
	uint32_t lost;

	if (u->kept)
		push(n, q);
	lost = u->lost;
	u->lost = 0;
	return lost;
}

static void nic_tx(struct ur_nic *n, uint16_t q, const struct ur_nic_tx *tx)
{
	struct queue *u = &n->queues[q];
	struct rte_mbuf *m = u->room;

	u->room = NULL;
	m->pkt_len = tx->len;
	m->data_len = (uint16_t)tx->len;
	if (tx->sums)
		ask_sums(m, tx);
	u->out[u->kept++] = m;
	if (u->kept == UR_NIC_BURST)
		push(n, q);
}

/*
 * Frames that came before the interrupt was enabled may not raise it.  An
 * eventfd counts interrupts, and stays readable until they are read; other
 * descriptors are the queue itself.
 */
static bool nic_arm(struct ur_nic *n, uint16_t q)
{
	const struct queue *u = &n->queues[q];
	struct pollfd p = { .fd = u->fd, .events = POLLIN };
	bool quiet;

	/* The error of an interface that went down stays until it is read. */
	if (u->fd_socket && ur_sys_poll(&p, 1, 0) > 0 && (p.revents & POLLERR))
		ur_packet_clear(u->fd);
	if (u->fd_socket)
		return !(p.revents & POLLIN);
	if (u->fd_counts && ur_sys_poll(&p, 1, 0) > 0)
		ur_event_clear(u->fd);
	ur_cancel_off();
	(void)rte_eth_dev_rx_intr_enable(n->id, q);
	quiet = ur_sys_poll(&p, 1, 0) <= 0 &&
		rte_eth_rx_queue_count(n->id, q) <= 0;
	ur_cancel_on();
	return quiet;
}

static int nic_wait_fd(const struct ur_nic *n, uint16_t q)
{
	return n->queues[q].fd;
}

/* A driver that cannot report it counts as linked. */
static bool nic_link(const struct ur_nic *n)
{
	struct rte_eth_link l = { 0 };
	bool has;

	ur_cancel_off();
	has = rte_eth_link_get_nowait(n->id, &l) || l.link_status;
	ur_cancel_on();
	return has;
}

static void nic_stats(const struct ur_nic *n, struct ur_nic_stats *out)
{
	struct rte_eth_stats s = { 0 };
	uint64_t no_buffer = 0;

	for (uint32_t q = 0; q < UR_PORT_QUEUES; q++)
		no_buffer += n->queues[q].no_buffer;
	(void)rte_eth_stats_get(n->id, &s);
	*out = (struct ur_nic_stats){ .rx_missed = s.imissed,
				      .tx_errors = s.oerrors,
				      .no_buffer = s.rx_nombuf + no_buffer };
}

static int nic_steer(struct ur_nic *n, uint16_t q, uint32_t qpn, uint32_t mask)
{
	return ur_flows_add(&n->flows, q, qpn, mask);
}

static bool nic_unsteer(struct ur_nic *n, uint32_t qpn, uint32_t mask)
{
	return ur_flows_del(&n->flows, qpn, mask);
}

extern const struct ur_nic_plugin urnic_nic_plugin;
__attribute__((visibility("default")))
const struct ur_nic_plugin urnic_nic_plugin = {
	.abi = UR_NIC_ABI,
	.open = nic_open,
	.close = nic_close,
	.info = nic_info,
	.rx = nic_rx,
	.room = nic_room,
	.tx = nic_tx,
	.flush = nic_flush,
	.arm = nic_arm,
	.wait_fd = nic_wait_fd,
	.link = nic_link,
	.stats = nic_stats,
	.steer = nic_steer,
	.unsteer = nic_unsteer,
};
