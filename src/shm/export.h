/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target's side of one-sided access on the same host: what this process
 * lets its peers do to its memory without its help (docs/decisions/0011).
 * One per adapter.  All functions take a lock of their own and may be called
 * under any lock of the adapter; NULL for the export, and calls in a forked
 * child, do nothing.
 *
 * What stands here, a peer may act upon at any moment.  To take something
 * away is to wait for those who are acting: microseconds, since a peer works
 * in pieces of UR_DIRECT_CHUNK bytes and counts itself in and out around each.
 * A peer that died is noticed; one that stays inside for UR_EXPORT_PATIENCE_NS
 * (it was stopped there, by a debugger say) is shut out of this channel for
 * good and waited for no longer.  If it ever goes on, what remains of its
 * present piece still reaches the memory, as a DMA in flight would.
 */
#ifndef UR_SHM_EXPORT_H
#define UR_SHM_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mr.h"

struct ur_export;

#define UR_EXPORT_PATIENCE_NS 2000000000LL

/* NULL: no memory, limits, or a kernel without seals; then there is none. */
struct ur_export *ur_export_create(void);

/* Every ur_direct that was opened with it is closed. */
void ur_export_free(struct ur_export *e);

/*
 * The segment's descriptor, for peers to map; it stays the export's own.
 * Whoever has it reads all keys: give it to processes of the same user only.
 */
int ur_export_fd(const struct ur_export *e);

/*
 * Peers may reach the region from now on, by its rights; one without any for
 * them only to take what a SEND of ours tells them to (ur_direct_pull()).  Null
 * regions, those whose memory is in another process, windows and what finds no
 * room are left out, which is no error: peers then ask us.
 */
void ur_export_mr_add(struct ur_export *e, const struct ur_mr *mr);

/* The region goes; returns when nobody reaches it any more. */
void ur_export_mr_remove(struct ur_export *e, const struct ur_mr *mr);

/* Re-registered under the same key: as remove and add. */
void ur_export_mr_replace(struct ur_export *e, const struct ur_mr *old,
			  const struct ur_mr *mr);

/*
 * A queue pair and what its peer may do: `access` of UR_ACCESS_REMOTE_ (leave
 * out reads and atomics if the QP has no responder resources for them).
 * `open`: it takes requests (RTR, RTS, SQD) from dest_qpn.  With open = false
 * it is forgotten.  Never sleeps, since it is called under a lane's lock: a
 * WRITE that a peer has begun may go on until ur_export_settle() has returned,
 * which sleeps and is called under no such lock.  What a peer still reads it
 * does not use.
 */
void ur_export_qp_set(struct ur_export *e, uint32_t qpn, const struct ur_pd *pd,
		      uint32_t access, uint32_t dest_qpn, bool open);
void ur_export_settle(struct ur_export *e);

/*
 * In the place of `qpn`: the peer may take the data of SENDs, of any region of
 * the domain.  Numbers of queue pairs have 24 bits.
 */
static inline uint32_t ur_export_pull_key(uint32_t qpn)
{
	return qpn | 1u << 31;
}

#endif
