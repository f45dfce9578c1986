/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by port.c (packets), port_wait.c and port_life.c: a controller with
 * its addresses, and its pairs of queues.
 *
 * Where there are several, each is used by one thread at a time, and `lock`
 * guards what they have in common.  It is held for headers, not for payload.
 */
#ifndef UR_PORTS_PORT_INTERNAL_H
#define UR_PORTS_PORT_INTERNAL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "net/net.h"
#include "ports/nic.h"
#include "ports/port.h"

#define UR_PORT_TAG_LEN 4u

/* State of polling a queue, on its own cache lines. */
struct ur_port_look {
	atomic_bool busy;	  /* a thread polls it */
	_Atomic uint64_t seen_ns; /* the owner's last poll */
	uint8_t apart[112];
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
	int free_fd;	  /* the interrupts of free queues */
	struct ur_port_look look[UR_PORT_QUEUES];
	_Atomic uint32_t steered; /* rules that the controller has taken */
	atomic_bool abandoned;	  /* in a child of fork() */

	struct ur_lock lock; /* from here on */
	struct ur_net *net;
	uint64_t now_ns;			/* the latest it was told */
	uint64_t warned_ns[UR_NET_EVENT_KINDS]; /* when one was told last */
	bool host_asks;	    /* the last that the host said is such a question */
	uint64_t host_lost; /* of what the stack itself has told it */
	_Atomic uint32_t given; /* queues that a struct ur_port has, as bits */
};

struct ur_port {
	struct ur_port_core *core;
	uint16_t queue;
	uint16_t at;	/* the queue that is looked into */
	uint16_t other; /* the queue of another that was looked into last … */
	uint32_t empty; /* … and how often ours was empty */
	bool (*deliver)(void *arg, const struct ur_rx *rx);
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	bool (*before)(void *arg);
	void *arg;
	int epfd;
	int timer;
	uint64_t now_ns;     /* of the poll under way */
	uint64_t busy_ns;    /* when something came or left */
	uint64_t link_at_ns; /* when the link is to be looked at */
	uint64_t timer_ns;   /* what the timer is set to */
	bool linked;
	uint64_t tx_lost;
	uint64_t elsewhere; /* packets, in deliver() */
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

/*
 * The lock is held.  Lanes read the clock each for itself, and come here in
 * another order; for the stack no time is before one that it was told.
 */
static inline uint64_t ur_port_time(struct ur_port_core *c, uint64_t now_ns)
{
	if (c->now_ns < now_ns)
		c->now_ns = now_ns;
	return c->now_ns;
}

/* Poll a queue alone until ur_port_unborrow(); false: another thread does. */
static inline bool ur_port_borrow(struct ur_port_core *c, uint32_t q)
{
	return !atomic_load_explicit(&c->look[q].busy, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&c->look[q].busy, true,
					 memory_order_acquire);
}

static inline void ur_port_unborrow(struct ur_port_core *c, uint32_t q)
{
	atomic_store_explicit(&c->look[q].busy, false, memory_order_release);
}

static inline bool ur_port_is_given(const struct ur_port_core *c, uint32_t q)
{
	return atomic_load_explicit(&c->given, memory_order_relaxed) >> q & 1;
}

/* The queue wakes p, or the owner of the first queue. */
void ur_port_own(const struct ur_port *p);
void ur_port_disown(const struct ur_port *p);

/* The descriptors of either; on failure those that are there stay. */
int ur_port_wait_init(struct ur_port_core *c);
int ur_port_wait_open(struct ur_port *p);

#endif
