/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/port.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "client/ipc_io.h"
#include "config/config.h"
#include "engine/internal.h"
#include "engine/streams.h"
#include "ports/port_link.h"
#include "ports/ring.h"
#include "ports/stream.h"
#include "sockets/udp.h"

/* A process that runs the port has created its interface on the host. */
static bool is_run(const struct ur_dev_spec *s)
{
	return if_nametoindex(s->ports[0].netdev) != 0;
}

/* If a lane of this process has the port, there may be another queue of it.
 * -EBUSY: other processes have it, or all queues are taken. */
static int run_port(struct ur_lane *l, int fd)
{
	const struct ur_config *c = ur_config_get();
	const struct ur_dev_spec *s = &l->adapter->dev.spec;
	struct ur_port_config cfg = { .spec = &c->ports[s->port - 1],
				      .eal = &c->eal,
				      .ifname = s->ports[0].netdev };
	int err = ur_port_link_join(&cfg, l->slot, fd, &l->link);

	if (err != -ENOENT)
		return err;
	return is_run(s) ? -EBUSY
			 : ur_port_link_create(&cfg, l->slot, fd, &l->link);
}

/* By rings, if urnicd runs the port; else by a socket of the host. */
static int use_port(struct ur_lane *l, int fd)
{
	const struct ur_config *c = ur_config_get();
	const struct ur_dev_spec *s = &l->adapter->dev.spec;
	int sock,
		err = ur_client_ring(l->adapter->client, l->slot,
				     if_nametoindex(s->ports[0].netdev), &sock);

	if (!err)
		return ur_ring_link_create(sock, &c->ports[s->port - 1], fd,
					   &l->link);
	if (err != -ENOENT)
		ur_warn("%s: urnicd gives no rings: %s", l->adapter->dev.name,
			strerror(-err));
	ur_info("%s: no queue of its port is ours, packets go through %s",
		l->adapter->dev.name, s->ports[0].netdev);
	return ur_udp_link_create(fd, &l->link);
}

/* Two processes may begin at once: one has made the host's side first. */
int ur_port_lane_link(struct ur_lane *l, int fd)
{
	int err = run_port(l, fd);

	return err == -EBUSY ? use_port(l, fd) : err;
}

/* A port of RoCE reports its errors when it is opened.  One of TCP may be
 * missing; then the interface must exist, made by another process. */
bool ur_adapter_present(struct ur_adapter *a)
{
	return (a->dev.spec.port &&
		(a->dev.kind == UR_DEV_ROCE || ur_streams_available())) ||
	       ur_dev_present(&a->dev);
}

/* Without urnicd no other process runs a port for this one. */
static bool urnicd_is_there(void)
{
	int fd = ur_ipc_connect();

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int ask_rings(struct ur_adapter *a, uint32_t ifindex)
{
	int sock, err = -ENOENT;

	if (urnicd_is_there())
		err = ur_process_client_open(a);
	if (!err)
		err = ur_client_tcp_ring(a->client, ifindex, &sock);
	return err ? err
		   : ur_streams_join(
			     sock,
			     &ur_config_get()->ports[a->dev.spec.port - 1],
			     ifindex);
}

/* Uses the TCP of a port that urnicd runs, if it accepts our segments; else the
 * kernel's TCP, on the host's side of the port. */
static void join_streams(struct ur_adapter *a)
{
	const struct ur_config *c = ur_config_get();
	const struct ur_dev_spec *s = &a->dev.spec;
	uint32_t ifindex = if_nametoindex(s->ports[0].netdev);
	static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
	int err;

	/* First without the lock: in a child forked while another thread held
	 * it, no rings are wanted. */
	if (!ur_streams_want(&c->ports[s->port - 1]))
		return;
	/* Asking takes the rings away from a thread that asked before. */
	pthread_mutex_lock(&joining);
	err = ur_streams_want(&c->ports[s->port - 1]) ? ask_rings(a, ifindex)
						      : 0;
	pthread_mutex_unlock(&joining);
	/* -EEXIST: this process runs the port by now. */
	if (!err || err == -EEXIST)
		return;
	if (err != -ENOENT)
		ur_warn("%s: no TCP of its own: %s", a->dev.name,
			strerror(-err));
	ur_info("%s: another process runs its port, connections go "
		"through %s",
		a->dev.name, s->ports[0].netdev);
}

/* Connections are made before there are lanes, so a thread serves the port. */
static int run_streams(const struct ur_adapter *a)
{
	const struct ur_config *c = ur_config_get();
	const struct ur_dev_spec *s = &a->dev.spec;
	struct ur_port_config cfg = { .spec = &c->ports[s->port - 1],
				      .eal = &c->eal,
				      .ifname = s->ports[0].netdev };

	return ur_streams_open(&cfg);
}

static bool has_lost_port(struct ur_lane *l)
{
	bool lost;

	if (!l->roce)
		return false;
	ur_lane_lock(l);
	lost = ur_ring_link_is_dead(l->link);
	ur_lane_unlock(l);
	return lost;
}

/* The slot and its socket stay; the lane gets new rings. */
static int reclaim_lane(struct ur_lane *l)
{
	const struct ur_dev_spec *s = &l->adapter->dev.spec;
	int sock,
		err = ur_client_ring(l->adapter->client, l->slot,
				     if_nametoindex(s->ports[0].netdev), &sock);

	if (err)
		return err;
	ur_lane_lock(l);
	err = ur_ring_link_renew(l->link, sock);
	ur_lane_unlock(l);
	/* The helper sleeps on the old descriptors. */
	ur_helper_wake(l);
	return err;
}

/* Lanes outlive the contexts of a device, and the urnicd that ran its port. */
static int reclaim_port(struct ur_adapter *a)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		if (has_lost_port(l))
			err = is_run(&a->dev.spec) ? reclaim_lane(l) : -ENODEV;
	}
	return err;
}

static int run_lane(struct ur_adapter *a)
{
	struct ur_lane *l;

	return ur_adapter_lane(a, &l);
}

/* Two processes may begin at once: one has made the host's side first. */
static int open_port(struct ur_adapter *a)
{
	bool tcp = a->dev.kind == UR_DEV_IWARP, others = is_run(&a->dev.spec);
	int err = 0;

	if (!others) {
		err = tcp ? run_streams(a) : run_lane(a);
		others = tcp && err == -EBUSY;
	}
	if (!others)
		return err ? err : ur_dev_refresh(&a->dev);
	if (tcp)
		join_streams(a);
	return 0;
}

int ur_adapter_open(struct ur_adapter *a)
{
	int err;

	if (!ur_adapter_present(a))
		return -ENODEV;
	if (!a->dev.spec.port)
		return 0;
	ur_lock(&a->lock);
	err = reclaim_port(a);
	ur_unlock(&a->lock);
	if (err)
		return err;
	err = open_port(a);
	/* Its thread may have failed to start. */
	if (!err && ur_streams_are_there())
		err = ur_streams_start();
	return err;
}
