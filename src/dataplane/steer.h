/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steering of TCP on a port that urnicd runs: to which process a segment goes,
 * and what a process may send.  No thread, no clock; of the system it uses only
 * the sockets that it is given.
 *
 * A process *leases* a port number with a socket that the kernel has bound to
 * it, so the kernel decides which process may have it.  From a leased number it
 * may connect, or accept connections if that socket listens.  Its SYN, or SYN
 * with ACK, makes a *flow* (addresses and ports of both ends), whose segments are
 * the process' until the flow or the process ends.  A segment that belongs to no
 * flow, and is no SYN to a listener, goes to the host.
 *
 * Addresses are 16 bytes, IPv4 is mapped; owners are small numbers of the
 * caller's.
 */
#ifndef UR_DATAPLANE_STEER_H
#define UR_DATAPLANE_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/tcp_proof.h"

#define UR_STEER_OWNERS	     1024u
#define UR_STEER_FLOWS	     16384u
#define UR_STEER_FLOWS_OF    4096u  /* of one owner */
#define UR_STEER_LEASES	     16384u /* with those that rest */
#define UR_STEER_LEASES_OF   4096u
/* How long the numbers of a process that has ended stay taken, so that late
 * segments do not reach their next owner. */
#define UR_STEER_REST_NS     30000000000ull
/* A flow without a segment from its owner for so long, after its FIN or at all,
 * may be replaced.  (An idle connection sends one every 15 s.) */
#define UR_STEER_OVER_NS     30000000000ull
#define UR_STEER_SILENT_NS   120000000000ull
/* The same for a SYN with ACK that was not acknowledged, as SYNs may be forged:
 * lwIP gives up after 4 s. */
#define UR_STEER_HALF_NS     10000000000ull
/* SYNs to listeners: for each the kernel is asked. */
#define UR_STEER_CALLS_PER_S 8192u
#define UR_STEER_CALLS_BURST 1024u
#define UR_STEER_RST_MAX     60u /* bytes */

#define UR_STEER_COUNTERS(X)                                                   \
	X(tcp_rx)      /* segments to processes */                             \
	X(tcp_tx)      /* … and from them */                                 \
	X(tcp_foreign) /* not of a flow of the sender's: dropped */            \
	X(tcp_full)    /* a SYN for which the table had no room: dropped */    \
	X(tcp_flood)   /* a SYN beyond UR_STEER_CALLS_PER_S: dropped */        \
	X(tcp_resets)  /* sent for processes that have ended */

struct ur_steer_counters {
#define UR_STEER_COUNTER_FIELD(name) uint64_t name;
	UR_STEER_COUNTERS(UR_STEER_COUNTER_FIELD)
#undef UR_STEER_COUNTER_FIELD
	uint32_t flows; /* now … */
	uint32_t leases;
	uint32_t resting; /* … and those of processes that have ended */
};

struct ur_steer;

/* Four numbers, as an owner names a flow that it does not know. */
struct ur_steer_ends {
	uint8_t local[16];
	uint8_t peer[16];
	uint8_t local_port[2]; /* big endian */
	uint8_t peer_port[2];
};

/* ifindex is the host's side of the port; seed is random and secret.
 * NULL: no memory. */
struct ur_steer *ur_steer_create(const uint8_t (*addrs)[16], uint32_t naddrs,
				 uint32_t ifindex, uint64_t seed);
void ur_steer_destroy(struct ur_steer *s);

/*
 * A new owner, of that user.  The owners of one user have together at most so
 * many per cent of the flows and of the leases.
 */
void ur_steer_begin(struct ur_steer *s, uint32_t owner, uint32_t uid,
		    uint32_t percent);

/* Does it match an address of this port? */
bool ur_steer_concerns(const struct ur_steer *s, const struct ur_tcp_proof *p);

/*
 * A lease, under the owner's name for it; fd holds the number, and is
 * taken on success.  0; -EEXIST: the name is in use; -ENOSPC; -EDQUOT: its user
 * has its share; -ENOMEM;
 * -EOPNOTSUPP: the kernel does not tell its connections.
 */
int ur_steer_lease(struct ur_steer *s, uint32_t owner, uint32_t handle,
		   const struct ur_tcp_proof *p, int fd);

/* Give it back.  Flows that connected from it end; those of a listener go on.
 * False: there is none of that name. */
bool ur_steer_put(struct ur_steer *s, uint32_t owner, uint32_t handle);

/*
 * The owner has ended: its peers get a reset, unless they have got a FIN or reset
 * from it.  Its listeners' numbers are free at once, others after
 * UR_STEER_REST_NS.
 */
void ur_steer_end(struct ur_steer *s, uint32_t owner, uint64_t now_ns,
		  void (*send)(void *arg, const uint8_t *packet, uint32_t len),
		  void *arg);

/* Free the numbers whose rest is over; to be called every few seconds. */
void ur_steer_expire(struct ur_steer *s, uint64_t now_ns);

/* An IP packet from the wire with TCP, or a fragment of it: the owner;
 * UR_STEER_HOSTS: it is the host's; UR_STEER_DROP: it is over a limit. */
#define UR_STEER_HOSTS (-1)
#define UR_STEER_DROP  (-2)
int ur_steer_in(struct ur_steer *s, const uint8_t *packet, uint32_t len,
		uint64_t now_ns);

/*
 * A packet that an owner wants to send; it must not change during the call.  0;
 * -EPERM: not of a flow of the owner's; -ENOBUFS: no room for a flow.  Counted.
 */
int ur_steer_out(struct ur_steer *s, uint32_t owner, const uint8_t *packet,
		 uint32_t len, uint64_t now_ns);

/* The owner does not know that flow: its segments go to the host from now on. */
void ur_steer_forget(struct ur_steer *s, uint32_t owner,
		     const struct ur_steer_ends *e);

void ur_steer_counters(const struct ur_steer *s, struct ur_steer_counters *out);

#endif
