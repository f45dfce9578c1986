/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct access, target's side: what this process lets peers do to its memory
 * without its help (docs/decisions/0011). One per adapter.  All functions take
 * a lock of their own and may be called under any lock of the adapter.  With
 * NULL for the export, and in a child of fork(), they do nothing.
 *
 * A peer may act upon an entry at any time.  To remove an entry is to wait for
 * peers that are inside: microseconds, since a peer works in pieces of
 * UR_DIRECT_CHUNK bytes and is inside for one piece at a time.  A peer that
 * died is detected.  One that stays inside for UR_EXPORT_PATIENCE_NS (stopped
 * by a debugger, say) is excluded from this channel for good and no longer
 * waited for.  If it continues, the rest of its present piece still reaches the
 * memory, as a DMA in flight would.
 */
#ifndef UR_SHM_EXPORT_H
#define UR_SHM_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mr.h"

struct ur_export;

#define UR_EXPORT_PATIENCE_NS 2000000000LL

/*
 * NULL: no memory, limits, or a kernel without seals; the process then exports
 * nothing.
 */
struct ur_export *ur_export_create(void);

/* From now on this process and its peers copy by ur_guard_copy_whole(). */
void ur_export_set_whole(void);

/* Every ur_direct that was opened with it is closed. */
void ur_export_free(struct ur_export *e);

/*
 * The segment's file descriptor, for peers to map; owned by the export.  It
 * shows all keys: pass it to processes of the same user only.
 */
int ur_export_fd(const struct ur_export *e);

/*
 * Peers may access the region from now on, by its rights.  One without remote
 * rights can only be the source of a SEND or WRITE (ur_direct_get()). Null
 * regions, regions of another process, windows, and those that find no room are left
 * out; peers then send requests to us.
 */
void ur_export_mr_add(struct ur_export *e, const struct ur_mr *mr);

/* Remove the region; returns when no peer accesses it any more. */
void ur_export_mr_remove(struct ur_export *e, const struct ur_mr *mr);

/* Registered again under the same key: as remove and add. */
void ur_export_mr_replace(struct ur_export *e, const struct ur_mr *old,
			  const struct ur_mr *mr);

/*
 * A queue pair and what its peer may do: `access` is of UR_ACCESS_REMOTE_
 * (without reads and atomics if the QP has no responder resources for them).
 * `open`: it takes requests (RTR, RTS, SQD) from dest_qpn; otherwise the entry
 * is removed.  Does not sleep, since it is called under a lane's lock: a WRITE
 * that a peer has begun may go on until ur_export_settle() has returned, which
 * sleeps and is called without that lock.  Data that a peer still reads it does
 * not use.
 */
void ur_export_qp_set(struct ur_export *e, uint32_t qpn, const struct ur_pd *pd,
		      uint32_t access, uint32_t dest_qpn, bool open);
void ur_export_settle(struct ur_export *e);

/*
 * The key, instead of `qpn`, under which the peer may get the data of SENDs
 * from any region of the domain.  QP numbers have 24 bits.
 */
static inline uint32_t ur_export_rndv_key(uint32_t qpn)
{
	return qpn | 1u << 31;
}

#endif
