/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared-memory transport: requests between queue pairs of two lanes on one
 * host and of one user.  It stands beside roce/ and iwarp/, on top of roce/,
 * since a queue pair uses it together with the wire.  Decisions 0011 to 0014
 * have the reasons and measurements.
 *
 * Theory of operation
 *
 * Three mechanisms carry requests; the requester picks one for each:
 *
 *  descriptor ring  chan.h     Every request can go this way.  One ring in each
 *                              direction per pair of lanes; small payload is in
 *                              the descriptor, larger payload beside the ring.
 *  direct access    direct.h   WRITE, READ and atomics: the requester itself
 *                              copies to or from the peer's memory, which it has
 *                              mapped or reaches by process_vm_writev(2).
 *  rendezvous       rendezvous.c  A large SEND: the descriptor names the data,
 *                              and the responder gets it by direct access.
 *
 * The ring loses and reorders nothing, so RC needs no PSNs, windows or
 * retransmission: a request is one or more descriptors, its acknowledgement a
 * count of requests done.  The transport completes requests that succeed.  A
 * responder that cannot do one refuses it and all behind it, and the requester
 * sends those by the wire, whose responder answers with the NAK, timer and event
 * of the specification.  So errors are decided in one place.
 *
 *      requester                              responder
 *      RTS: ASK (first PSN, epoch) ---------> RTR or later and the same PSN:
 *           READY <-------------------------- executes requests of that epoch
 *      SEND, WRITE, READ, CMP_SWAP, ... ----> executes in order
 *           DONE, DATA, OLD <---------------- acknowledges
 *      RNDV, RNDV_WRITE: the data stays ----> gets the data from there, if
 *      in the requester's memory              it said RNDV_OK for the region
 *           REFUSED <------------------------ drops the rest of the epoch
 *
 * A responder that enters RTR sends HELLO, so that a requester that asked too
 * early asks again.
 *
 * States of an RC requester (ready, again, on_shm):
 *
 *      wire --ASK, READY--> ready --wire idle, request--> on the channel
 *        ^                    ^                                 |
 *        |                    +-- requests that only the wire --+
 *        |                        knows, all before them done   |
 *        +-- wire did the refused, ASK <--- refused <--REFUSED--+
 *
 * It changes between wire and channel only while none of its requests is
 * outstanding on the one that it leaves, so order and exactly-once hold.  If the
 * channel ends with requests outstanding, nothing tells whether they were done:
 * they fail after the time that ack timeout and retries give.
 *
 * UC and UD (unreliable.c) need no agreement and get no acknowledgement.
 *
 * A descriptor behind packets that the sender sent before is marked BEHIND, and
 * the receiver takes it only when its link is empty: the first of a requester
 * that comes from the wire, too, since its queue pair may have acknowledged there.
 *
 * Threads and ownership
 *
 *  - The holder of the lane's lock calls all functions of this header, and owns
 *    struct ur_shm, struct ur_shm_qp and its side of the channel.
 *  - The engine's watcher thread (engine/shm_peers.c) makes and ends channels,
 *    under the lane's lock, and reads their sockets: ur_direct_message().
 *  - Ring memory is written by both processes.  A side trusts its own struct
 *    ur_chan only; it copies a descriptor before it reads it and checks every
 *    number.  A peer that writes nonsense loses the channel (`broken`).
 *  - Exported regions and queue pairs (export.h) are read by peers at any time;
 *    taking one back waits for peers that are inside (direct.c).
 *
 * A lane that polls is not signalled.  One that sleeps says so in the ring and
 * looks once more; the peer then signals its wakeup fd (spsc.c).
 *
 * Files: shm.c channels and waiting for room; req.c, resp.c RC's two sides;
 * fast.c their fast path; acks.c when to acknowledge; req_direct.c, rendezvous.c
 * the other mechanisms; unreliable.c, uc.c, ud.c.  Direct access, which knows no
 * queue pair: direct*.c, export.c, segment.c, view.c, object.c, cma.c.  Making
 * private memory mappable for peers: share*.c.
 */
#ifndef UR_SHM_SHM_H
#define UR_SHM_SHM_H

#include "base/list.h"
#include "shm/chan.h"

struct ur_qp;
struct ur_roce;
struct ur_direct;
struct ur_tap;

/* What is known of our regions that the peer may get data from (rendezvous.c);
 * direct-mapped by key. */
#define UR_SHM_RNDV_REGIONS 256u

struct ur_shm_rndv {
	struct {
		uint32_t key;
		uint32_t uses; /* pieces that went through the ring */
		bool ok;       /* the peer has said that it can */
	} of[UR_SHM_RNDV_REGIONS];
	uint32_t sent;	/* pieces since the last refusal */
	uint32_t pause; /* pieces that go through the ring first */
	uint32_t level; /* the next pause is 2^level times as long */
	/* Data of descriptors that the peer has not taken, oldest first. */
	struct {
		uint32_t at; /* the descriptor's position */
		uint32_t len;
	} pending[UR_CHAN_DESCS];
	uint32_t pending_head;
	uint32_t pending_tail;
	uint32_t pending_bytes;
};

/* The lane at the other end of a channel.  Made and owned by the engine. */
struct ur_shm_peer {
	struct ur_list node; /* of the lane's peers */
	struct ur_chan chan;
	uint16_t slot;
	bool broken;	     /* it has violated the protocol */
	bool dirty;	     /* published since the last ur_shm_signal() */
	struct ur_list qps;  /* ur_shm_qp.node: queue pairs that use it */
	struct ur_list full; /* ur_shm_qp.full: those that wait for room */
	uint32_t seen_tail;  /* room when the last of them tried */
	uint32_t seen_data_tail;
	bool serving;	     /* they are trying again */
	struct ur_list acks; /* ur_shm_qp.acking: to be acknowledged */
	uint64_t synced;     /* ur_shm.wire at the last mark */
	uint32_t marked;     /* our head behind the newest marked one */
	bool held;	     /* the oldest descriptor is marked, and waits */
	bool link_empty;     /* the link was found empty since */
	bool stalled;	     /* took nothing for long, nor since */
	uint32_t stalled_tail;
	bool given_up; /* the same, while acknowledgements waited */
	uint32_t given_up_tail;
	struct ur_direct *direct; /* direct access to its memory; or NULL */
	struct ur_shm_rndv rndv;
	void (*signal)(struct ur_shm_peer *p); /* wake its lane */
};

/*
 * The channel is open, or has ended.  The engine closes it under the lane's
 * lock; descriptors that came before still count.
 */
void ur_shm_open(struct ur_roce *r, struct ur_shm_peer *p);
void ur_shm_close(struct ur_roce *r, struct ur_shm_peer *p, uint64_t now_ns);

/* Is there still a queue pair that wants a channel to that slot? */
bool ur_shm_wants(const struct ur_roce *r, uint16_t slot);

/* For `urnic show`: where requests of the queue pair go, and why they do not go
 * a faster way ("": there is none). */
enum ur_shm_path {
	UR_SHM_NOT,	   /* no shared memory */
	UR_SHM_NO_CHANNEL, /* nor a channel to the peer, yet */
	UR_SHM_RING,
	UR_SHM_DIRECT, /* but for SENDs */
};
enum ur_shm_path ur_shm_path(const struct ur_qp *qp, const char **why);

/* For `urnic show`. */
void ur_shm_for_each(const struct ur_roce *r,
		     void (*fn)(void *arg, const struct ur_shm_peer *p),
		     void *arg);

/*
 * A marked descriptor waits until everything is taken that the link holds.
 * _empty: a poll of the link has found nothing.
 */
bool ur_shm_waits_link(const struct ur_roce *r);
void ur_shm_link_empty(struct ur_roce *r);

/* Capture what goes through shared memory; NULL: no more.  *tap stays the
 * caller's. */
void ur_shm_set_tap(struct ur_roce *r, const struct ur_tap *tap);
/* In a child of fork(): no more, and touch nothing else. */
void ur_shm_drop_tap(struct ur_roce *r);

/*
 * RC requests of both directions go as packets, while it is paused: ours as soon as
 * none is outstanding, the peers' since they are refused.  Of UC and UD only what we
 * send does; a peer of this host goes on in its channel.  After the pause, channels
 * that are missing are requested.
 */
void ur_shm_pause(struct ur_roce *r, bool paused);

/* Is there any channel? */
bool ur_shm_any(const struct ur_roce *r);

/* Is there a descriptor to take, or room for a queue pair that waits?  Cheap. */
bool ur_shm_pending(const struct ur_roce *r);

/* Take a bounded number of descriptors, and answer.  Returns how many. */
int ur_shm_poll(struct ur_roce *r, uint64_t now_ns);

/*
 * ur_roce_kick() for a queue pair on_shm whose requests can all be done by
 * direct access at once.  Needs no time: completions get an old time stamp.
 * True: nothing is left to do.
 */
bool ur_shm_kick_direct(struct ur_qp *qp);

/* The same for one small request through the ring: no deadline changes. */
bool ur_shm_kick_small(struct ur_qp *qp);

/*
 * True, once, if a queue pair has begun to wait for room while the lane was
 * marked asleep, and there is room or a descriptor: poll the channels.
 */
bool ur_shm_stalled(struct ur_roce *r);

/*
 * Send acknowledgements that waited.  _flush_acks: all; the lane is about to
 * stop polling.  _idle: a poll found nothing; those that a requester waits for,
 * and after some such polls the others too.
 */
void ur_shm_flush_acks(struct ur_roce *r);
void ur_shm_idle(struct ur_roce *r);

/* Does an acknowledgement wait for room in a ring? */
bool ur_shm_owes_acks(const struct ur_roce *r);
/* Stop waiting for those peers until they have taken something. */
void ur_shm_give_up(const struct ur_roce *r);

/* The lane is about to sleep, or awake.  False: poll again, do not sleep. */
bool ur_shm_sleep(struct ur_roce *r, bool asleep);

/*
 * The lane is polled without a pause, so peers need not check whether to signal
 * it.  When that ends it may sleep a millisecond at most, then polls again.
 */
void ur_shm_polled(struct ur_roce *r);

#endif
