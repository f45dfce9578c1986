/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of the communication manager, with one for every reason to drop a
 * message. Fields and names are generated from the lists. */
#ifndef UR_CM_COUNTERS_H
#define UR_CM_COUNTERS_H

#include <stdint.h>

#define UR_CM_COUNTERS(X)                                                      \
	X(received)                                                            \
	X(sent)                                                                \
	X(retries)                                                             \
	X(timeouts)                                                            \
	X(duplicates)                                                          \
	X(stale)                                                               \
	X(rejects_sent)                                                        \
	X(drop_malformed)  /* no CM MAD, or an unknown attribute */            \
	X(drop_unknown_id) /* for no connection of this process */             \
	X(drop_wrong_peer) /* not from the connection's peer */                \
	X(drop_state)	   /* not legal in this state */                       \
	X(drop_backlog)                                                        \
	X(drop_resources) /* no memory, or too many ids */                     \
	X(drop_output)	  /* UR_CM_OUTPUT_MAX messages are queued */

struct ur_cm_counters {
#define X(name) uint64_t name;
	UR_CM_COUNTERS(X)
#undef X
};

#endif
