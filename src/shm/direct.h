/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct access, initiator's side: WRITE, READ and atomics done in a peer's
 * memory without the peer (docs/decisions/0011). One ur_direct per channel
 * between two lanes.
 *
 * Memory that can be mapped is mapped: the first requests fail with -EAGAIN
 * while the peer is asked for a descriptor of the region, later ones are loads
 * and stores.  Other memory is reached by CMA (process_vm_writev(2) and
 * process_vm_readv(2)) where the kernel permits it.
 *
 * Threads: operations are called by one thread at a time (the lane's lock) and
 * never wait.  ur_direct_message() is called by the one thread that reads the
 * socket, at the same time as operations.
 */
#ifndef UR_SHM_DIRECT_H
#define UR_SHM_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shm/export.h"

#define UR_DIRECT_CHUNK                                                        \
	262144u /* bytes moved between two checks of the rights */
#define UR_DIRECT_PIECES                                                       \
	256u /* of our memory in a request: indirect keys give many */
#define UR_DIRECT_SHARED_SIZE 4096u
#define UR_DIRECT_MSG_MIN     16u /* first byte of a message, at least */
#define UR_DIRECT_MSG_SIZE    64u /* the longest message */

struct ur_direct;
struct ur_masked;

struct ur_direct_stats {
	uint64_t mapped; /* pieces moved by loads and stores */
	uint64_t kernel; /* pieces moved by CMA */
	uint64_t again;	 /* operations that ended with -EAGAIN */
	uint64_t asked;	 /* regions asked for */
};

/*
 * `export_fd` is the peer's segment; it is mapped here and remains the
 * caller's.  `pid` is the peer's, if known: CMA is used only after the peer has
 * proved to be that process.  `sock` is the channel's SOCK_SEQPACKET socket,
 * which the caller closes after this.  `shared` is UR_DIRECT_SHARED_SIZE zeroed
 * bytes of the channel's memory, mapped by both; `side` is 0 at one end and 1
 * at the other.  `own` is our export, which this peer reads.  NULL: no memory,
 * or export_fd is no segment.
 */
struct ur_direct *ur_direct_open(int export_fd, pid_t pid, int sock,
				 void *shared, unsigned int side,
				 struct ur_export *own);

/*
 * Instead of open: keeps the peer out of our memory, which nothing here would
 * wait for.  To be called before a queue pair is exported to it.
 */
void ur_direct_refuse(void *shared, unsigned int side);

/* No other call is in progress. Waits until the peer is out of our memory. */
void ur_direct_close(struct ur_direct *r);

/*
 * A message of the peer whose first byte is at least UR_DIRECT_MSG_MIN, with
 * its file descriptors, which remain the caller's. 0; -EINVAL: malformed, which
 * does not affect the channel.
 */
int ur_direct_message(struct ur_direct *r, const void *buf, size_t len,
		      const int *fds, unsigned int nfds);

/*
 * May operations use CMA (a microsecond and more) from now on?  True at first.
 * Not worth it where the ring is cheaper: runs of small requests, and rendezvous.
 */
void ur_direct_allow_cma(struct ur_direct *r, bool yes);

/*
 * A request of QP `sqpn` here to QP `dqpn` there: `len` bytes (the sum of iov)
 * at `va` of the region `rkey`. All earlier requests of that QP are complete.
 * 0: done, and visible to the target, the last word last.  -EAGAIN: not
 * possible this way, for any reason; part of it may be done.  The target
 * decides about errors, so send the request to it.
 */
int ur_direct_write(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		    uint32_t rkey, uint64_t va, const struct iovec *iov,
		    int niov, uint32_t len);
int ur_direct_read(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		   uint32_t rkey, uint64_t va, const struct iovec *iov,
		   int niov, uint32_t len);

/*
 * Get the data of a SEND or WRITE of the peer's QP `sqpn` to QP `dqpn` here: as
 * ur_direct_read(), but the region needs no remote rights.  Instead the peer's
 * export must have an entry ur_export_rndv_key(sqpn) with dqpn as destination.
 * -EBUSY: our watcher is at work, try again after ur_direct_wait() (`turn` from 0
 * on; false: it has waited long enough).
 */
bool ur_direct_wait(unsigned int turn);
int ur_direct_get(struct ur_direct *r, uint32_t sqpn, uint32_t dqpn,
		  uint32_t key, uint64_t va, const struct iovec *iov, int niov,
		  uint32_t len);

/* An operation on [va, va + len). */
struct ur_op {
	uint32_t dqpn;
	uint32_t sqpn;
	uint32_t rkey;
	uint32_t access; /* the UR_ACCESS_REMOTE_ right that it needs */
	uint64_t va;
	uint64_t len;
};

/*
 * A WRITE from, or a READ to (op->access), our memory at `here`, of at most
 * UR_DIRECT_CHUNK bytes, if the region is mapped.  -EAGAIN: part of it may be
 * done, and ur_direct_write() or _read() may still succeed.  Up to
 * UR_DIRECT_WORDS bytes are moved as words, if the target is aligned to 8
 * bytes.
 */
#define UR_DIRECT_WORDS 64u
int ur_direct_piece(struct ur_direct *r, const struct ur_op *op, void *here);

/*
 * Is the region mapped here?  Counts as a use, so repeated calls have it
 * mapped.
 */
bool ur_direct_has_mapped(struct ur_direct *r, uint32_t rkey);

/* Has the peer been asked for it, without an answer yet? */
bool ur_direct_is_asked(struct ur_direct *r, uint32_t rkey);

/* Either done, or not at all; *old is set only if done. Native byte order. */
int ur_direct_atomic(struct ur_direct *r, uint32_t dqpn, uint32_t sqpn,
		     uint32_t rkey, uint64_t va, bool cas, uint64_t compare_add,
		     uint64_t swap, uint64_t *old);

/* The same with masks; op->len is the size of the operand. */
int ur_direct_masked(struct ur_direct *r, const struct ur_op *op, bool cas,
		     const struct ur_masked *m, uint64_t old[2]);

const struct ur_direct_stats *ur_direct_stats(const struct ur_direct *r);

#endif
