/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port that urnic runs itself: a controller (nic.h), Ethernet and IP
 * (net/net.h), and the host's interface (tap.h), which gets what is not for a
 * lane.  The owner calls it from one thread at a time, with the time of
 * CLOCK_MONOTONIC.
 *
 * A controller may have several pairs of queues.  Each is a struct ur_port of
 * its own, which is used by one thread at a time and shares everything else;
 * the owner of the first one serves the host and the free queues.  A queue that
 * its owner does not poll is polled by others.
 *
 *	wire ── nic ── net ─┬─ deliver(): a lane's packets
 *			    └─ TAP: everything else, QP1 and ARP's answers too
 */
#ifndef UR_PORTS_PORT_H
#define UR_PORTS_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/packet.h"
#include "core/port_spec.h"
#include "net/counters.h"

/* Polls of a port, at most, until its lane polls the host's sockets too. */
#define UR_PORT_HOST_EVERY 256u

struct ur_port;

struct ur_port_config {
	const struct ur_port_spec *spec;
	const struct ur_eal_args *eal;
	const char *ifname; /* of the TAP */
	/*
	 * A packet to a QP other than 0 and 1.  False: no lane here has the QP,
	 * and the host's sockets get the packet.  Valid during the call.
	 */
	bool (*deliver)(void *arg, const struct ur_rx *rx);
	/*
	 * An IP packet for us with a TCP segment, or a fragment of one; NULL:
	 * all TCP is the host's.  False: as above.
	 */
	bool (*tcp)(void *arg, const uint8_t *packet, uint32_t len);
	/*
	 * Packets are about to be taken from a queue of several: those that
	 * others have passed to us come before.  False: not all of them were
	 * taken, so nothing is taken now.  May be NULL.
	 */
	bool (*before)(void *arg);
	void *arg;
	/* As many queues as the spec has, for ur_port_attach(); else one. */
	bool several;
};

struct ur_port_stats {
	uint64_t rx_missed; /* by the controller: not received in time */
	uint64_t tx_lost;   /* found no room there */
	uint64_t host_lost; /* the TAP was full */
	uint32_t rx_bytes;  /* payload that the controller keeps for us */
	uint64_t elsewhere; /* packets that came by another queue than that of
			     * their lane */
};

struct ur_port_facts {
	char driver[32];
	uint16_t queue;	  /* this one */
	uint16_t queues;  /* of the controller in use */
	bool spreads;	  /* it shares out by flows what comes in */
	uint32_t steered; /* lanes that get their packets in their own queue */
	uint64_t elsewhere; /* as of struct ur_port_stats */
};

/* In words, how packets get to the queues. */
static inline const char *ur_port_spread(const struct ur_port_facts *f)
{
	return f->queues < 2 ? "one queue"
	       : f->steered  ? "by QPN"
	       : f->spreads  ? "by RSS"
			     : "by driver";
}

/*
 * 0 or -errno: -EBUSY: another process has the port; -ENOENT: no plugin, or no
 * TAP; what the controller says.  All but -EBUSY is logged.
 */
int ur_port_open(const struct ur_port_config *cfg, struct ur_port **out);

/*
 * The next queue of a port that is open, for another thread; cfg's deliver,
 * tcp, before and arg are looked at.  -EBUSY: there is none left.  The last one that is
 * closed closes the port.
 */
int ur_port_attach(const struct ur_port *other,
		   const struct ur_port_config *cfg, struct ur_port **out);

void ur_port_close(struct ur_port *p);

/*
 * Ask the controller to put packets to queue pairs whose numbers are qpn under
 * the mask into this queue, until that is taken back.  To be called while
 * there are none, since those under way would be reordered; if the controller
 * refuses, they come as before, through deliver() of another queue.
 */
void ur_port_steer(struct ur_port *p, uint32_t qpn, uint32_t mask);
void ur_port_unsteer(struct ur_port *p, uint32_t qpn, uint32_t mask);

/* In deliver(): the packet is for the owner of that queue.  Counts those that
 * came by another. */
void ur_port_belongs(struct ur_port *p, uint16_t queue);

/* Descriptors of a child of fork(); the port itself is the parent's. */
void ur_port_abandon(const struct ur_port *p);

/*
 * Send a burst.  0; -EAGAIN: no room, nothing was sent; -EMSGSIZE: its packets
 * are larger than the path's MTU; -EFAULT: its memory is gone; else as
 * ur_net_flow().  Packets that a full controller drops are counted only.
 */
int ur_port_send(struct ur_port *p, const struct ur_burst *t, uint64_t now_ns);

/* Likewise, but it leaves as that of ur_port_send_ip() does. */
int ur_port_add(struct ur_port *p, const struct ur_burst *t, uint64_t now_ns);

/*
 * Send an IP packet that is complete; it leaves with the next of _flush(),
 * _send(), or of _poll() or _host() that moved something.  As
 * ur_net_send_ip(), and -EAGAIN: the controller has no room now.
 */
int ur_port_send_ip(struct ur_port *p, const uint8_t *packet, uint32_t len,
		    uint64_t now_ns);
void ur_port_flush(struct ur_port *p);

/* Receive a burst, and run timers that are due; how many frames came. */
uint32_t ur_port_poll(struct ur_port *p, uint64_t now_ns);

/* Is it for us to call ur_port_host()? */
bool ur_port_serves_host(const struct ur_port *p);

/* Take what the host sends, at most a burst; how many frames. */
uint32_t ur_port_host(struct ur_port *p, uint64_t now_ns);

/* Has the host asked for a neighbour and said nothing since?  Then it may hold
 * packets until it hears the answer. */
bool ur_port_host_asks(const struct ur_port *p);

/*
 * A descriptor that becomes readable when ur_port_poll() or ur_port_host() may
 * have something to do, from now on until they are called.  Where the
 * controller has no interrupts it does so again and again, the less often the
 * longer nothing came.
 */
int ur_port_wait_fd(struct ur_port *p, uint64_t now_ns);

/* Does a packet from that source to there go by a port of these addresses?
 * Multicast and the host's own addresses are the host's. */
bool ur_port_carries(const uint8_t (*addrs)[16], uint32_t naddrs,
		     const uint8_t src[16], const uint8_t dst[16]);

/* … by this port? */
bool ur_port_has(const struct ur_port *p, const uint8_t src[16],
		 const uint8_t dst[16]);

/* Its interface on the host's side. */
uint32_t ur_port_ifindex(const struct ur_port *p);

/* Of its stack, for all queues; until it is called again. */
const struct ur_net_counters *ur_port_counters(struct ur_port *p);

void ur_port_stats(const struct ur_port *p, struct ur_port_stats *out);
void ur_port_facts(const struct ur_port *p, struct ur_port_facts *out);

#endif
