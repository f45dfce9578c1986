/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator's side of one-sided access on the same host: WRITE, READ and
 * atomics done on a peer's memory without the peer (docs/decisions/0011).
 * One ur_reach per channel between two lanes.
 *
 * Memory that can be mapped is: the first requests go another way while the
 * peer is asked for the region's descriptor, later ones are plain loads and
 * stores.  What cannot be mapped is reached by process_vm_writev(2) and
 * _readv where the kernel lets us.
 *
 * Threads: the operations are called by one thread at a time (the lane's
 * lock) and never wait.  ur_reach_message() is called by the one thread that
 * reads the socket, at the same time as operations.
 */
#ifndef UR_REACH_REACH_H
#define UR_REACH_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "reach/export.h"

#define UR_REACH_CHUNK	     262144u /* bytes moved per check of the rights */
#define UR_REACH_SHARED_SIZE 4096u
#define UR_REACH_MSG_MIN     16u /* first byte of our messages: at least this */
#define UR_REACH_MSG_SIZE    64u /* no message of ours is longer */

struct ur_reach;

struct ur_reach_stats {
	uint64_t mapped; /* pieces moved by loads and stores */
	uint64_t kernel; /* … by process_vm_ */
	uint64_t again;	 /* operations left to the caller */
	uint64_t asked;	 /* regions asked for */
};

/*
 * `export_fd`, the peer's segment, is mapped and stays the caller's.  `pid` is
 * the peer's, if it is known: memory is reached by it only after it has proved
 * to be that process.  `sock`: the channel's SOCK_SEQPACKET socket, the
 * caller's too, open as long as this is.  `shared`: UR_REACH_SHARED_SIZE bytes
 * of the channel's memory, zero at first, mapped by both; `side` is 0 at one
 * end and 1 at the other.  `own`: our export, which this peer reads.  NULL:
 * no memory, or what the peer handed over is not a segment.
 */
struct ur_reach *ur_reach_open(int export_fd, pid_t pid, int sock, void *shared,
			       unsigned int side, struct ur_export *own);

/*
 * Instead of open: the peer may have our export, but nobody would wait for it
 * here, so it never comes in.  Before a queue pair is open to it.
 */
void ur_reach_refuse(void *shared, unsigned int side);

/* Nobody is in another call.  Waits until the peer is out of our memory. */
void ur_reach_close(struct ur_reach *r);

/*
 * A message of the peer whose first byte is at least UR_REACH_MSG_MIN, with
 * the descriptors that came with it, which stay the caller's.  0; -EINVAL: it
 * is malformed, which means nothing for the channel.
 */
int ur_reach_message(struct ur_reach *r, const void *buf, size_t len,
		     const int *fds, unsigned int nfds);

/*
 * May operations use the kernel's calls (a microsecond and more) from now on?
 * True at first.  Not worth it while the peer's lane is awake.
 */
void ur_reach_by_kernel(struct ur_reach *r, bool yes);

/*
 * A request of QP `sqpn` here to QP `dqpn` there: `len` bytes (the sum of iov)
 * at `va` of the region `rkey`.  All earlier requests of that QP are complete.
 * 0: done, and visible to the target, the last word last.  -EAGAIN: not this
 * way, for whatever reason; some of it may be done.  The target has the last
 * word on every error, so ask it.
 */
int ur_reach_write(struct ur_reach *r, uint32_t dqpn, uint32_t sqpn,
		   uint32_t rkey, uint64_t va, const struct iovec *iov,
		   int niov, uint32_t len);
int ur_reach_read(struct ur_reach *r, uint32_t dqpn, uint32_t sqpn,
		  uint32_t rkey, uint64_t va, const struct iovec *iov, int niov,
		  uint32_t len);

/*
 * Data of a SEND, which QP `sqpn` of the peer wants QP `dqpn` here to take: as
 * ur_reach_read(), but the region needs no rights for peers.  What the peer's
 * export must say instead is that ur_export_pull_key(sqpn) is open to dqpn.
 */
int ur_reach_pull(struct ur_reach *r, uint32_t sqpn, uint32_t dqpn,
		  uint32_t key, uint64_t va, const struct iovec *iov, int niov,
		  uint32_t len);

/* An operation on [va, va + len), all of one piece. */
struct ur_op {
	uint32_t dqpn;
	uint32_t sqpn;
	uint32_t rkey;
	uint32_t access; /* UR_ACCESS_REMOTE_ that it needs */
	uint64_t va;
	uint64_t len;
};

/*
 * A WRITE from, or a READ to (op->access), memory of ours that is all at
 * `here`, of at most UR_REACH_CHUNK bytes, if the other end is mapped; else
 * -EAGAIN, and ur_reach_write() or _read may still do it, if some of it was
 * done or not.  Up to UR_REACH_WORDS bytes move as a few words, if the first of
 * them is a whole one.
 */
#define UR_REACH_WORDS 64u
int ur_reach_piece(struct ur_reach *r, const struct ur_op *op, void *here);

/* Is the region mapped here?  Asking again and again has it mapped. */
bool ur_reach_has_mapped(struct ur_reach *r, uint32_t rkey);

/* Has the peer been asked how, and its answer is not there yet? */
bool ur_reach_is_asked(struct ur_reach *r, uint32_t rkey);

/* Either done, or not at all; *old only if done.  Native byte order. */
int ur_reach_atomic(struct ur_reach *r, uint32_t dqpn, uint32_t sqpn,
		    uint32_t rkey, uint64_t va, bool cas, uint64_t compare_add,
		    uint64_t swap, uint64_t *old);

const struct ur_reach_stats *ur_reach_stats(const struct ur_reach *r);

#endif
