/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests between lanes of one host, through shared memory (decision 0013).  This
 * is RC's way; UC's and UD's are in shm_loose.c.
 *
 * What passes a channel cannot be lost, so there are no PSNs, windows and
 * repetitions: a request is a few cells, a response is a count of requests
 * done.  Whatever is not plain success is left to the protocol of the wire: a
 * responder that cannot do a request refuses it and all behind it, and the
 * requester sends them as packets, to be refused again with the NAK, timer and
 * event that the specification asks for.  So both paths mean the same.
 *
 * Each requester decides for itself: it goes over to the channel, or leaves
 * it, only while nothing of its is under way on the other path.
 *
 *      requester                              responder
 *      RTS: ASK (its first PSN, epoch) -----> in RTR or later, same PSN:
 *           READY <-------------------------- takes requests of that epoch
 *      SEND, WRITE, READ, ATOMIC -----------> executes in order
 *           DONE, DATA, OLD <---------------- counts what is done
 *      PULL: a SEND whose data stays, ------> takes it from there
 *      where the peer has said it can: PULLS
 *           REFUSED <------------------------ drops the rest of the epoch
 *
 * A responder that enters RTR says HELLO, so that a requester that has asked
 * too early asks again.
 */
#ifndef UR_SHM_SHM_H
#define UR_SHM_SHM_H

#include "base/list.h"
#include "shm/chan.h"

struct ur_qp;
struct ur_roce;
struct ur_direct;

/*
 * Regions of ours whose data the peer may be able to take itself
 * (shm_pull.c): what it has said of them.
 */
#define UR_SHM_PULLED 256u

struct ur_shm_pulled {
	struct {
		uint32_t key;
		uint32_t uses; /* pieces that went through the channel */
		bool taken;
	} of[UR_SHM_PULLED];
	uint32_t sent;	/* since it could not the last time … */
	uint32_t pause; /* … pieces that go through the channel first */
	uint32_t level;
	/* Data that cells name which the peer has not taken, oldest first. */
	struct {
		uint32_t at; /* its cell */
		uint32_t len;
	} named[UR_CHAN_CELLS];
	uint32_t named_head;
	uint32_t named_tail;
	uint32_t named_bytes;
};

/* The lane at the other end of a channel.  The engine makes it and owns it. */
struct ur_shm_peer {
	struct ur_list node; /* of the lane's peers */
	struct ur_chan chan;
	uint16_t slot;
	bool broken;	     /* it has written what no urnic writes */
	bool dirty;	     /* published since its bell was looked at */
	struct ur_list qps;  /* ur_shm.node: who talks to it */
	struct ur_list full; /* ur_shm.full: who waits for room … */
	uint32_t seen_tail;  /* … and how much there was when they tried */
	uint32_t seen_data_tail;
	bool serving;		  /* they are trying again */
	struct ur_list acks;	  /* ur_shm.acking: who has done requests */
	uint64_t synced;	  /* ur_roce.shm_wire when … (shm_loose.c) */
	uint32_t marked;	  /* our head behind the newest marked cell */
	bool held;		  /* the oldest cell is behind packets … */
	bool dry;		  /* … and all that the link held was taken */
	bool deaf;		  /* it took nothing for long, and … */
	uint32_t deaf_tail;	  /* … has taken nothing since */
	bool given_up;		  /* the same, for who owes it something … */
	uint32_t given_up_tail;	  /* … and has waited in vain */
	struct ur_direct *direct; /* its memory without its help; NULL: no */
	struct ur_shm_pulled pulled;
	void (*bell)(struct ur_shm_peer *p); /* wake its lane */
};

/* The channel is open, or gone: then what was under way goes by the wire. */
void ur_shm_open(struct ur_roce *r, struct ur_shm_peer *p);
void ur_shm_close(struct ur_roce *r, struct ur_shm_peer *p, uint64_t now_ns);

/* The lane is to have a channel to that slot: who wants one? */
bool ur_shm_wants(const struct ur_roce *r, uint16_t slot);

/* For `urnic show`. */
void ur_shm_for_each(const struct ur_roce *r,
		     void (*fn)(void *arg, const struct ur_shm_peer *p),
		     void *arg);

/*
 * A cell waits until all is taken that the link holds: its sender has used
 * that before.  _dry: a look into the link has found nothing.
 */
bool ur_shm_waits_link(const struct ur_roce *r);
void ur_shm_link_dry(struct ur_roce *r);

/* Is there any channel at all? */
bool ur_shm_any(const struct ur_roce *r);

/* Is there anything to take, or room for what waits?  Cheap. */
bool ur_shm_pending(const struct ur_roce *r);

/* Take a bounded number of cells, and answer.  Returns how many. */
int ur_shm_poll(struct ur_roce *r, uint64_t now_ns);

/*
 * As ur_roce_kick() of a QP that on_shm, as far as its requests can be done in
 * the peer's memory at once.  That takes no time and nothing to send: the
 * completions are stamped with an old one.  True: that was all.
 */
bool ur_shm_kick_direct(struct ur_qp *qp);

/* The same for one that leaves by the channel: no deadline changes by it. */
bool ur_shm_kick_small(struct ur_qp *qp);

/*
 * Somebody has begun to wait for room, and it may have been made before the
 * peer could know that: then true, once, and the channels are to be polled.
 */
bool ur_shm_stalled(struct ur_roce *r);

/*
 * Nothing more comes for the moment: answers that waited for a request to ride
 * with, or for others, leave now.  _idle: a look of many has found nothing, so
 * those leave that somebody waits for, and after some looks the others too.
 */
void ur_shm_settle(struct ur_roce *r);
void ur_shm_idle(struct ur_roce *r);

/* Waits something for room that the peer needs to complete what it has sent? */
bool ur_shm_owes(const struct ur_roce *r);
/* It was waited for in vain: not for those again until they take something. */
void ur_shm_give_up(const struct ur_roce *r);

/* Signal peers that sleep and have got something. */
void ur_shm_signal(struct ur_roce *r);

/* The lane goes to sleep, or is awake.  False: something has come, look. */
bool ur_shm_sleep(struct ur_roce *r, bool asleep);

/* It is polled all the time; who ends that sleeps a millisecond at most until
 * he has looked once more. */
void ur_shm_polled(struct ur_roce *r);

#endif
