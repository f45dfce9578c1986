/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TIME-WAIT for acknowledgements.  The last acknowledgement of an RC queue pair,
 * or of a target of DC, may be lost.  Without a queue pair to repeat it the peer
 * would run out of retries and report requests as failed that were executed.  So
 * for UR_TIMEWAIT_NS after a queue pair is gone its number acknowledges duplicates
 * of SENDs and WRITEs that it had acknowledged.  Requests that were never
 * executed, READs and atomics get no answer.
 *
 * While the process lives, its lane does this.  When it exits it leaves its
 * records to urnicd (client/exit_file.h, urnicd/unowned.c).
 */
#ifndef UR_ROCE_TIMEWAIT_H
#define UR_ROCE_TIMEWAIT_H

#include "core/packet.h"

#define UR_TIMEWAIT_NS	3000000000ull
#define UR_TIMEWAIT_MAX 1024u /* of a lane; the oldest is replaced */

/* One queue pair, or target of DC, and its peer, in host byte order; addresses are
 * GIDs.  It is part of the format that urnicd reads (docs/wire/daemon.md). */
struct ur_timewait {
	uint8_t src[16]; /* ours */
	uint8_t dst[16];
	uint32_t qpn; /* ours */
	uint32_t dqpn;
	uint32_t epsn; /* every PSN before it was acknowledged */
	uint32_t msn;
	uint32_t scope_id;
	uint8_t tclass;
	uint8_t hop_limit;
	uint8_t urnic;	  /* the peer may be a urnic: docs/wire/roce.md */
	uint8_t migreq;	  /* MigReq of the queue pair's packets */
	uint64_t session; /* of the initiator of DC; 0: RC */
};

_Static_assert(sizeof(struct ur_timewait) == 64, "layout");

/* Is rx a duplicate of a SEND or WRITE of that peer that was acknowledged, with
 * AckReq and a good ICRC? */
bool ur_timewait_match(const struct ur_timewait *l, const struct ur_rx *rx);

/* The acknowledgement, as a burst of one packet, from one of `sports`. */
void ur_timewait_ack(const struct ur_timewait *l,
		     const struct ur_sports *sports, struct ur_burst *t);

#endif
