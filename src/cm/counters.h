/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the communication manager counts.  Every reason for dropping a message
 * is here; the lists give both the fields and their names.
 */
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
	X(drop_malformed)  /* no CM MAD, or not of a known attribute */        \
	X(drop_unknown_id) /* for no connection of ours */                     \
	X(drop_wrong_peer) /* for one of ours, but not from its peer */        \
	X(drop_state)	   /* not expected in this state */                    \
	X(drop_backlog)                                                        \
	X(drop_resources) /* no memory, or too many ids */                     \
	X(drop_output)	  /* UR_CM_OUTPUT_MAX messages wait already */

struct ur_cm_counters {
#define X(name) uint64_t name;
	UR_CM_COUNTERS(X)
#undef X
};

#endif
