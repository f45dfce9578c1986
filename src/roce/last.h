/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last word of an RC queue pair.  Its last acknowledgement may be lost, and
 * then there is nobody left to repeat it: the peer would retry in vain and
 * report as failed what was done.  So for a while after a queue pair its number
 * still acknowledges again what it has acknowledged, and nothing else: requests
 * that it never executed, READs and atomics remain without an answer.  The lane
 * does so as long as the process lives; then urnicd, which gets these records
 * when the process exits (docs/wire/daemon.md).
 */
#ifndef UR_ROCE_LAST_H
#define UR_ROCE_LAST_H

#include "core/packet.h"

#define UR_LAST_NS  3000000000ull
#define UR_LAST_MAX 1024u /* of a lane; the oldest go first */

/* As urnicd gets it: host byte order, addresses as GIDs. */
struct ur_last {
	uint8_t src[16]; /* ours */
	uint8_t dst[16];
	uint32_t qpn; /* ours */
	uint32_t dqpn;
	uint32_t epsn; /* all before it was acknowledged */
	uint32_t msn;
	uint32_t scope_id;
	uint8_t tclass;
	uint8_t hop_limit;
	uint8_t urnic;	/* the peer may be one: docs/wire/roce.md */
	uint8_t migreq; /* as it was in what it sent */
	uint8_t rest[8];
};

_Static_assert(sizeof(struct ur_last) == 64, "layout");

/* Is this a SEND or WRITE of that peer, intact, which was acknowledged and for
 * which it wants to hear so? */
bool ur_last_asked(const struct ur_last *l, const struct ur_rx *rx);

/* The acknowledgement, as a burst of one packet; one of our ports that are
 * meant for that destination. */
void ur_last_burst(const struct ur_last *l, const struct ur_sports *sports,
		   struct ur_burst *t);

#endif
