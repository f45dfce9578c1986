/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What port.c (packets), port_wait.c and port_life.c share: a controller with
 * its addresses, and the pairs of queues that it has, each somebody's.
 *
 * Where there are several, each is one thread's at a time, and `lock` guards
 * what they have in common.  It is held for headers only, not for payload.
 */
#ifndef UR_LINK_PORT_INTERNAL_H
#define UR_LINK_PORT_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "link/nic.h"
#include "link/port.h"
#include "net/net.h"

#define UR_PORT_TAG_LEN 4u

/* Who looks into a queue. */
enum {
	UR_QUEUE_FREE,	/* the one with the first queue does */
	UR_QUEUE_BUSY,	/* … and just does so */
	UR_QUEUE_OWNED, /* somebody of its own */
};

/* What all queues share. */
struct ur_port_core {
	const struct ur_nic_plugin *ops;
	struct ur_nic *nic;
	struct ur_nic_info info;
	bool many; /* queues: only then is there something to lock */
	uint16_t vlan;
	uint32_t naddrs;
	uint8_t addrs[UR_PORT_ADDRS][16];
	int tap;
	uint32_t ifindex; /* of the TAP */
	int free_fd;	  /* the interrupts of queues that nobody has taken */
	atomic_uchar state[UR_PORT_QUEUES];
	atomic_bool abandoned; /* in a child of fork() */

	struct ur_lock lock; /* from here on */
	struct ur_net *net;
	uint64_t now_ns;		      /* when it was called last */
	uint64_t told_ns[UR_NET_EVENT_KINDS]; /* when one was told last */
	bool host_asks;	    /* the last that the host said is such a question */
	uint64_t host_lost; /* of what the stack itself has told it */
	uint32_t given;	    /* queues that a struct ur_port has, as bits */
};

struct ur_port {
	struct ur_port_core *core;
	uint16_t queue;
	bool owns; /* the queue is ours to look into */
	bool (*deliver)(void *arg, const struct ur_rx *rx);
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	void *arg;
	int epfd;
	int timer;
	uint64_t now_ns;     /* of the poll under way */
	uint64_t busy_ns;    /* when something came or left */
	uint64_t link_at_ns; /* when the link is to be looked at */
	uint64_t timer_ns;   /* what the timer is set to */
	bool linked;
	uint64_t tx_lost;
	uint64_t host_lost;
	struct ur_net_counters seen;
	/* A frame with room for a tag before it. */
	uint8_t frame[UR_PORT_TAG_LEN + UR_NET_FRAME_MAX];
};

static inline void ur_port_hold(struct ur_port_core *c)
{
	if (c->many)
		ur_lock(&c->lock);
}

static inline void ur_port_drop(struct ur_port_core *c)
{
	if (c->many)
		ur_unlock(&c->lock);
}

/* Is the queue ours to look into?  Whoever looked into it before us may just
 * do so. */
bool ur_port_own(struct ur_port *p);

/* A queue that nobody has taken, for who has the first one to look into, until
 * ur_port_unborrow(); false: it is somebody's. */
static inline bool ur_port_borrow(struct ur_port_core *c, uint32_t q)
{
	unsigned char was = UR_QUEUE_FREE;

	return atomic_load_explicit(&c->state[q], memory_order_relaxed) ==
		       UR_QUEUE_FREE &&
	       atomic_compare_exchange_strong(&c->state[q], &was,
					      UR_QUEUE_BUSY);
}

static inline void ur_port_unborrow(struct ur_port_core *c, uint32_t q)
{
	atomic_store_explicit(&c->state[q], UR_QUEUE_FREE,
			      memory_order_release);
}

void ur_port_disown(struct ur_port *p);

/* The descriptors of either; on failure those that are there stay. */
int ur_port_wait_init(struct ur_port_core *c);
int ur_port_wait_open(struct ur_port *p);

#endif
