/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of a network interface controller that this process drives by itself:
 * what stands between a port (port.h) and a library of drivers.  That library
 * is a plugin, liburnic-dpdk.so, which is loaded when the first port is
 * opened; nothing else is linked with it.
 *
 * One thread at a time for each of its queues, which come in pairs, one to
 * receive and one to send; open and close are for all of them.
 */
#ifndef UR_PORTS_NIC_H
#define UR_PORTS_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/port_spec.h"

#define UR_NIC_ABI    7u
#define UR_NIC_BURST  64u
#define UR_NIC_SYMBOL "urnic_nic_plugin"

/* What it does by itself with frames that it is given to send. */
#define UR_NIC_TX_IPV4_SUM 1u
#define UR_NIC_TX_UDP_SUM  2u

/* What it found out about a received frame (as net/net.h has it). */
#define UR_NIC_RX_IP_GOOD 1u
#define UR_NIC_RX_L4_GOOD 2u
#define UR_NIC_RX_L4_BAD  4u

struct ur_nic;

struct ur_nic_info {
	uint8_t mac[6];
	bool shared;	   /* the kernel has the interface as well */
	bool interrupts;   /* wait_fd() is there, of each queue */
	uint16_t queues;   /* as were asked for; fewer, if it has no more; more,
			    * if it shares out what comes in to all it has */
	bool spreads;	   /* … and it shares out what comes in by flows */
	uint32_t tx;	   /* UR_NIC_TX_ */
	uint32_t rx_depth; /* frames that a queue keeps until they are taken */
	uint32_t mtu;	   /* of IP packets, that it was set to */
	char driver[32];
};

struct ur_nic_rx {
	const uint8_t *frame;
	uint32_t len;
	uint32_t flags; /* UR_NIC_RX_ */
};

/* A frame to be sent: where its headers end. */
struct ur_nic_tx {
	uint32_t len;
	uint8_t l2; /* bytes of Ethernet and tag … */
	uint8_t l3; /* … and of IP */
	bool v4;
	uint8_t sums; /* UR_NIC_TX_: to be computed by the controller */
};

struct ur_nic_stats {
	uint64_t rx_missed; /* not received in time */
	uint64_t tx_errors;
	uint64_t no_buffer;
};

struct ur_nic_plugin {
	uint32_t abi; /* UR_NIC_ABI */

	/*
	 * Start the library, if it was not, with these arguments, and take the
	 * controller that spec->dev names, or the next free one.  Where the
	 * kernel has the interface as well, frames of all addresses are
	 * received.  0; -ENODEV: no such controller; -EBUSY: it is in use;
	 * -EINVAL: the library refuses the arguments; else the driver's
	 * reason.  Each is logged.
	 */
	int (*open)(const struct ur_eal_args *eal,
		    const struct ur_port_spec *spec, struct ur_nic **out);
	void (*close)(struct ur_nic *nic);
	void (*info)(const struct ur_nic *nic, struct ur_nic_info *out);

	/* Receive up to UR_NIC_BURST frames; how many. */
	uint32_t (*rx)(struct ur_nic *nic, uint16_t queue,
		       void (*fn)(void *arg, const struct ur_nic_rx *rx),
		       void *arg);

	/*
	 * Room for one frame of len bytes; NULL: there is none now.  tx()
	 * sends what was written there, or keeps it until flush().
	 */
	uint8_t *(*room)(struct ur_nic *nic, uint16_t queue, uint32_t len);
	void (*tx)(struct ur_nic *nic, uint16_t queue,
		   const struct ur_nic_tx *tx);
	/* Send what is kept.  Returns how many of all since the last call
	 * found no room. */
	uint32_t (*flush)(struct ur_nic *nic, uint16_t queue);

	/*
	 * With interrupts: let the descriptor become readable by the next
	 * frame.  False: a frame is there already.
	 */
	bool (*arm)(struct ur_nic *nic, uint16_t queue);
	/* -1: no interrupts */
	int (*wait_fd)(const struct ur_nic *nic, uint16_t queue);

	/* Is the link up?  Drivers that connect to a peer try to when they are
	 * asked. */
	bool (*link)(const struct ur_nic *nic);

	void (*stats)(const struct ur_nic *nic, struct ur_nic_stats *out);

	/*
	 * Let packets of RoCEv2 to queue pairs whose numbers are qpn under the
	 * mask come into that queue.  0; -EOPNOTSUPP: it cannot, which is
	 * logged once; else why not this time.  unsteer() takes it back; true:
	 * it was so.  Both from any thread.
	 */
	int (*steer)(struct ur_nic *nic, uint16_t queue, uint32_t qpn,
		     uint32_t mask);
	bool (*unsteer)(struct ur_nic *nic, uint32_t qpn, uint32_t mask);
};

/* Is the plugin installed? */
bool ur_nic_is_there(void);

/* The plugin, loaded if it is not yet.  -ENOENT: not installed;
 * -EPROTO: one of another version.  Both are logged. */
int ur_nic_load(const struct ur_nic_plugin **ops);

#endif
