/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose TCP is it, on a port that urnicd runs: to which process a segment
 * goes, and what a process may send.  No thread, no clock; the sockets that it
 * is given are all that it has of the system.
 *
 * A process *leases* a number with a socket that the kernel has bound to it, so
 * the kernel decides who may have which.  From a leased number it may call, or
 * be called if that socket listens.  Its SYN, or SYN with ACK, makes a *flow*:
 * four numbers, whose segments are its until the flow or the process ends.
 * What belongs to no flow and knocks at no listener is the host's, which
 * refuses it if nobody has it there.
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
#define UR_STEER_LEASES	     16384u /* those that rest, too */
#define UR_STEER_LEASES_OF   4096u
/* How long the numbers of a process that has ended stay taken: late segments
 * are not to meet who gets them next. */
#define UR_STEER_REST_NS     30000000000ull
/* A flow of which its owner has said nothing for so long, after his FIN or at
 * all, makes room.  (A connection that is idle says something every 15 s.) */
#define UR_STEER_OVER_NS     30000000000ull
#define UR_STEER_SILENT_NS   120000000000ull
/* An answer to a call that was not acknowledged, as calls may be forged: lwIP
 * gives up after 4 s. */
#define UR_STEER_HALF_NS     10000000000ull
/* Calls to listeners that are looked at: for each the kernel is asked. */
#define UR_STEER_CALLS_PER_S 8192u
#define UR_STEER_CALLS_BURST 1024u
#define UR_STEER_RST_MAX     60u /* bytes */

#define UR_STEER_COUNTERS(X)                                                   \
	X(tcp_rx)      /* segments to processes */                             \
	X(tcp_tx)      /* … and from them */                                 \
	X(tcp_foreign) /* not the sender's to send: dropped */                 \
	X(tcp_full)    /* a call for which there was no room: dropped */       \
	X(tcp_flood)   /* a call beyond UR_STEER_CALLS_PER_S: dropped */       \
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

/* ifindex is the host's side of the port; seed is what nobody can guess.
 * NULL: no memory. */
struct ur_steer *ur_steer_create(const uint8_t (*addrs)[16], uint32_t naddrs,
				 uint32_t ifindex, uint64_t seed);
void ur_steer_destroy(struct ur_steer *s);

/*
 * An owner begins, whose user that is: what all of one user's owners have
 * together is at most so many per cent of the flows and of the leases.
 */
void ur_steer_begin(struct ur_steer *s, uint32_t owner, uint32_t uid,
		    uint32_t percent);

/* Is it about an address of this port? */
bool ur_steer_concerns(const struct ur_steer *s, const struct ur_tcp_proof *p);

/*
 * A lease, under the owner's name for it; fd is what is held for it and is
 * taken on success.  0; -EEXIST: the name is in use; -ENOSPC; -EDQUOT: its user
 * has its share; -ENOMEM;
 * -EOPNOTSUPP: the kernel does not tell what connections it has.
 */
int ur_steer_lease(struct ur_steer *s, uint32_t owner, uint32_t handle,
		   const struct ur_tcp_proof *p, int fd);

/* Give it back.  Flows that were called from it end; those of a listener go
 * on.  False: there is none of that name. */
bool ur_steer_put(struct ur_steer *s, uint32_t owner, uint32_t handle);

/*
 * The owner has ended: its peers are told by a reset, unless it has said its
 * last word to them, its listeners are free at once, its other numbers after
 * a while.
 */
void ur_steer_end(struct ur_steer *s, uint32_t owner, uint64_t now_ns,
		  void (*send)(void *arg, const uint8_t *packet, uint32_t len),
		  void *arg);

/* Numbers that have rested; call it now and then. */
void ur_steer_expire(struct ur_steer *s, uint64_t now_ns);

/* An IP packet from the wire with TCP, or a fragment of it: the owner;
 * UR_STEER_HOSTS: it is the host's; UR_STEER_DROP: it is one too many. */
#define UR_STEER_HOSTS (-1)
#define UR_STEER_DROP  (-2)
int ur_steer_in(struct ur_steer *s, const uint8_t *packet, uint32_t len,
		uint64_t now_ns);

/*
 * A packet that an owner wants to send; nobody may change it meanwhile.  0;
 * -EPERM: it is not its to send; -ENOBUFS: no room for one more flow.  Counted.
 */
int ur_steer_out(struct ur_steer *s, uint32_t owner, const uint8_t *packet,
		 uint32_t len, uint64_t now_ns);

/* The owner knows nothing of that flow: what comes next is the host's. */
void ur_steer_forget(struct ur_steer *s, uint32_t owner,
		     const struct ur_steer_ends *e);

void ur_steer_counters(const struct ur_steer *s, struct ur_steer_counters *out);

#endif
