/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator's side of one-sided access on the same host: WRITE, READ and
 * atomics done on a peer's memory without the peer (docs/decisions/0011).
 * One ur_direct per channel between two lanes.
 *
 * Memory that can be mapped is: the first requests go another way while the
 * peer is asked for the region's descriptor, later ones are plain loads and
 * stores.  What cannot be mapped is reached by process_vm_writev(2) and
 * _readv where the kernel lets us.
 *
 * Threads: the operations are called by one thread at a time (the lane's
 * lock) and never wait.  ur_direct_message() is called by the one thread that
 * reads the socket, at the same time as operations.
 */
#ifndef UR_SHM_DIRECT_H
#define UR_SHM_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shm/export.h"

#define UR_DIRECT_CHUNK	      262144u /* bytes moved per check of the rights */
#define UR_DIRECT_SHARED_SIZE 4096u
#define UR_DIRECT_MSG_MIN     16u /* first byte of our messages: at least this */
#define UR_DIRECT_MSG_SIZE    64u /* no message of ours is longer */

struct ur_direct;

struct ur_direct_stats {
	uint64_t mapped; /* pieces moved by loads and stores */
	uint64_t kernel; /* … by process_vm_ */
	uint64_t again;	 /* operations left to the caller */
	uint64_t asked;	 /* regions asked for */
};

/*
 * `export_fd`, the peer's segment, is mapped and stays the caller's.  `pid` is
 * the peer's, if it is known: memory is reached by it only after it has proved
 * to be that process.  `sock`: the channel's SOCK_SEQPACKET socket, the
 * caller's too, open as long as this is.  `shared`: UR_DIRECT_SHARED_SIZE bytes
 * of the channel's memory, zero at first, mapped by both; `side` is 0 at one
 * end and 1 at the other.  `own`: our export, which this peer reads.  NULL:
 * no memory, or what the peer handed over is not a segment.
 */
struct ur_direct *ur_direct_open(int export_fd, pid_t pid, int sock,
				 void *shared, unsigned int side,
				 struct ur_export *own);

/*
 * Instead of open: the peer may have our export, but nobody would wait for it
 * here, so it never comes in.  Before a queue pair is open to it.
 */
void ur_direct_refuse(void *shared, unsigned int side);

/* Nobody is in another call.  Waits until the peer is out of our memory. */
void ur_direct_close(struct ur_direct *r);

/*
 * A message of the peer whose first byte is at least UR_DIRECT_MSG_MIN, with
 * the descriptors that came with it, which stay the caller's.  0; -EINVAL: it
 * is malformed, which means nothing for the channel.
 */
int ur_direct_message(struct ur_direct *r, const void *buf, size_t len,
		      const int *fds, unsigned int nfds);

/*
 * May operations use the kernel's calls (a microsecond and more) from now on?
 * True at first.  Not worth it while the peer's lane is awake.
 */
void ur_direct_by_kernel(struct ur_direct *r, bool yes);

/*
 * A request of QP `sqpn` here to QP `dqpn` there: `len` bytes (the sum of iov)
 * at `va` of the region `rkey`.  All earlier requests of that QP are complete.
 * 0: done, and visible to the target, the last word last.  -EAGAIN: not this
 * way, for whatever reason; some of it may be done.  The target has the last
 * word on every error, so ask it.
 */
int ur_direct_write(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		    uint32_t rkey, uint64_t va, const struct iovec *iov,
		    int niov, uint32_t len);
int ur_direct_read(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		   uint32_t rkey, uint64_t va, const struct iovec *iov,
		   int niov, uint32_t len);

/*
 * Data of a SEND, which QP `sqpn` of the peer wants QP `dqpn` here to take: as
 * ur_direct_read(), but the region needs no rights for peers.  What the peer's
 * export must say instead is that ur_export_pull_key(sqpn) is open to dqpn.
 */
int ur_direct_pull(struct ur_direct *r, uint32_t sqpn, uint32_t dqpn,
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
 * `here`, of at most UR_DIRECT_CHUNK bytes, if the other end is mapped; else
 * -EAGAIN, and ur_direct_write() or _read may still do it, if some of it was
 * done or not.  Up to UR_DIRECT_WORDS bytes move as a few words, if the first of
 * them is a whole one.
 */
#define UR_DIRECT_WORDS 64u
int ur_direct_piece(struct ur_direct *r, const struct ur_op *op, void *here);

/* Is the region mapped here?  Asking again and again has it mapped. */
bool ur_direct_has_mapped(struct ur_direct *r, uint32_t rkey);

/* Has the peer been asked how, and its answer is not there yet? */
bool ur_direct_is_asked(struct ur_direct *r, uint32_t rkey);

/* Either done, or not at all; *old only if done.  Native byte order. */
int ur_direct_atomic(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		     uint32_t rkey, uint64_t va, bool cas, uint64_t compare_add,
		     uint64_t swap, uint64_t *old);

const struct ur_direct_stats *ur_direct_stats(const struct ur_direct *r);

#endif
