/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link carries bursts between lanes: UDP sockets, a DPDK queue, a ring to
 * urnicd. One table of operations; the lane's lock is held around every call.
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
	 * Send a burst. 0; -EAGAIN: no room now for the packets from
	 * burst->sent on: pass the same burst again, or drop it (the protocol
	 * recovers as from loss); other -errno: some packets, or all, cannot be
	 * sent there (-ENETUNREACH, -EMSGSIZE ...), counted by the link.
	 */
	int (*send)(struct ur_link *link, struct ur_burst *burst);

	/* Receive a bounded number of available packets, calling rx for each in
	 * order. Returns the number of packets; 0: none. */
	int (*recv)(struct ur_link *link,
		    void (*rx)(void *arg, const struct ur_rx *rx), void *arg);

	/* A descriptor that is readable while recv has work; -1: none. */
	int (*wait_fd)(const struct ur_link *link);

	/* Counters of the port's stack (NULL: it has none in this process). */
	const struct ur_net_counters *(*counters)(const struct ur_link *link);

	/* Attributes of the port (likewise NULL). */
	void (*facts)(const struct ur_link *link, struct ur_port_facts *out);

	/* The process is about to exit: pass on packets held for other
	 * processes (NULL: it holds none). */
	void (*part)(struct ur_link *link);

	void (*destroy)(struct ur_link *link);
};

/* Embedded first in every backend's struct. */
struct ur_link {
	const struct ur_link_ops *ops;
	/* Constant: the sockets of the host (sockets/udp.h), which are this link,
	 * or beside that of a port. */
	struct ur_link *udp;
	uint64_t rx_bytes; /* receive buffer */
	uint64_t tx_errors;
	/* Datagrams that the kernel dropped from our buffer. */
	uint64_t rx_overflow;
	uint64_t fragmented;	 /* bursts sent so (ur_burst.may_fragment) */
	struct ur_sports sports; /* source ports of our packets */
	/* Constant: a thread of another process serves the link, maybe on the
	 * poller's core, whose pauses then last as long as that work. */
	bool served;
};

#endif
