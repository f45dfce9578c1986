/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which session has which slot.  Pure: time is an argument, and sockets are
 * numbers on which nothing is called here.
 *
 * A slot is FREE (the longest unused is taken first, and not before its
 * quarantine is over, so that no packets for its last owner are on the way), USED
 * by one owner, or an ORPHAN: a restarted urnicd has got its socket back, but no
 * process has claimed it yet.  An orphan may belong to a process that is stopped,
 * so it stays claimable and is taken last.
 */
#ifndef UR_URNICD_SLOTS_H
#define UR_URNICD_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "client/ipc.h"

#define UR_SLOT_BATCH	      16u
#define UR_SLOT_QUARANTINE_NS 3000000000ull
#define UR_SLOT_ORPHAN_NS     60000000000ull
#define UR_SLOT_SHRINK_NS     30000000000ull

enum ur_slot_state {
	UR_SLOT_ABSENT, /* no socket yet */
	UR_SLOT_OWN,	/* slot 0 */
	UR_SLOT_FREE,
	UR_SLOT_USED,
	UR_SLOT_ORPHAN,
	UR_SLOT_BROKEN, /* its socket was damaged by its last owner */
};

struct ur_slot {
	struct ur_list node; /* of free or orphans */
	enum ur_slot_state state;
	int fd;
	uint64_t cookie;    /* SO_COOKIE: names the socket */
	uint64_t usable_ns; /* end of the quarantine */
	const void *owner;
	bool given;   /* a process has had the socket, and may keep it */
	bool known;   /* … and the user and session are those below */
	bool damaged; /* it has to be replaced */
	bool kept; /* for that user: its duplicates cannot be shut (gate.h) */
	uint16_t swapped; /* BROKEN: fd is for this slot, which has the socket
			   * in our place; 0: no */
	uid_t uid;	  /* of the last owner, like … */
	uint32_t session; /* … the id of its session */
};

struct ur_slots {
	struct ur_slot slot[UR_SLOTS];
	unsigned int count; /* with a socket: 0 … count-1 */
	unsigned int used;
	struct ur_list free;
	struct ur_list orphans;
};

void ur_slots_init(struct ur_slots *s);

/* The socket of index `count`; the first one is slot 0. */
void ur_slots_add(struct ur_slots *s, int fd, uint64_t cookie,
		  enum ur_slot_state state, uint64_t now_ns);

/*
 * Take a slot for owner, of that user.  0 and *slot; -EAGAIN: add a batch
 * and ask again; -ENOSPC: all 1023 are taken, or kept for other users.
 */
int ur_slots_take(struct ur_slots *s, const void *owner, uid_t uid,
		  uint64_t now_ns, unsigned int *slot);

/* The slot has another socket from now on. */
void ur_slots_renew(struct ur_slots *s, unsigned int slot, int fd,
		    uint64_t cookie);

/* How many slots at the end have been free for UR_SLOT_SHRINK_NS, beyond the
 * first `keep`. */
unsigned int ur_slots_idle(const struct ur_slots *s, unsigned int keep,
			   uint64_t now_ns);

/* A broken one is free again, after its quarantine. */
void ur_slots_mend(struct ur_slots *s, unsigned int slot, uint64_t now_ns);

/* The last one, which is free, has no socket any more. */
void ur_slots_cut(struct ur_slots *s);

/*
 * A client claims a slot, and proves it with the socket.  0;
 * -ENOENT: no such slot or socket; -EBUSY: another client has it.
 */
int ur_slots_claim(struct ur_slots *s, const void *owner, unsigned int slot,
		   uint64_t cookie);

/* Give back, if owner has it: 0 or -ENOENT.  `broken`: never to be used. */
int ur_slots_put(struct ur_slots *s, const void *owner, unsigned int slot,
		 int broken, uint64_t now_ns);

/* The next slot >= from that owner has; UR_SLOTS: none. */
unsigned int ur_slots_next(const struct ur_slots *s, const void *owner,
			   unsigned int from);

#endif
