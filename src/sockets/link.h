/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link carries bursts between lanes: UDP sockets, shared memory, a DPDK
 * queue.  One table of operations; the lane's lock is held around every call.
 */
#ifndef UR_SOCKETS_LINK_H
#define UR_SOCKETS_LINK_H

#include <stdint.h>

#include "core/packet.h"
#include "net/counters.h"

struct ur_link;
struct ur_port_facts;

struct ur_link_ops {
	const char *name;

	/*
	 * Send a burst.  0; -EAGAIN: no room now for the packets from
	 * burst->sent on: pass the same burst again, or drop it (the protocol
	 * recovers as from loss); other -errno: some packets, or all, cannot be
	 * sent there (-ENETUNREACH, -EMSGSIZE …), counted by the link.
	 */
	int (*send)(struct ur_link *link, struct ur_burst *burst);

	/*
	 * Receive what is there, at most a bounded amount, calling rx for
	 * each packet in order.  Returns the number of packets; 0: nothing.
	 */
	int (*recv)(struct ur_link *link,
		    void (*rx)(void *arg, const struct ur_rx *rx), void *arg);

	/* A descriptor that is readable while recv has work; -1: none. */
	int (*wait_fd)(const struct ur_link *link);

	/*
	 * Tell destination, interface, traffic class and hop limit of what
	 * comes in, or dst_unknown, 0, 0 and the usual limit: the kernel
	 * needs time to tell them.
	 */
	void (*tell_ip)(struct ur_link *link, bool on);

	/* Multicast membership on an interface of that source address. */
	int (*join)(struct ur_link *link, const uint8_t group[16],
		    const uint8_t source[16]);
	int (*leave)(struct ur_link *link, const uint8_t group[16],
		     const uint8_t source[16]);

	/* What the stack of a port has counted (NULL: it has none here). */
	const struct ur_net_counters *(*counters)(const struct ur_link *link);

	/* What the port is (likewise NULL). */
	void (*facts)(const struct ur_link *link, struct ur_port_facts *out);

	/* The process is about to end: pass on what the link holds for others
	 * (NULL: it holds nothing). */
	void (*part)(struct ur_link *link);

	void (*destroy)(struct ur_link *link);
};

/* Embedded first in every backend's struct. */
struct ur_link {
	const struct ur_link_ops *ops;
	uint64_t rx_bytes; /* receive buffer */
	uint64_t tx_errors;
	uint64_t rx_overflow;	 /* datagrams the kernel dropped for us */
	struct ur_sports sports; /* source ports of what we send */
	/* Constant: a thread of another process does the work behind it, maybe
	 * on the core of who polls, whose pauses are as long as that takes. */
	bool served;
	/* Constant: it leaves payload of bursts where it is, if it may. */
	bool lends;
};

#endif
