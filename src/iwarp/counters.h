/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of a lane. Fields, names and output are generated from one list. */
#ifndef UR_IWARP_COUNTERS_H
#define UR_IWARP_COUNTERS_H

#include <stdint.h>

#define UR_IWARP_COUNTERS(X)                                                   \
	X(sent_fpdus)                                                          \
	X(rcvd_fpdus)                                                          \
	X(sent_bytes)                                                          \
	X(rcvd_bytes)                                                          \
	X(rx_send_requests)                                                    \
	X(rx_write_requests)                                                   \
	X(rx_read_requests)                                                    \
	X(rx_atomic_requests)                                                  \
	X(rx_immediates)                                                       \
	X(placed_direct_bytes)                                                 \
	X(sent_terminate)                                                      \
	X(rcvd_terminate)                                                      \
	X(crc_errors)                                                          \
	X(marker_errors)                                                       \
	X(framing_errors)                                                      \
	X(ddp_tagged_errors)                                                   \
	X(ddp_untagged_errors)                                                 \
	X(rdmap_protection_errors)                                             \
	X(rdmap_operation_errors)                                              \
	X(local_errors)                                                        \
	X(no_receive_posted)                                                   \
	X(peer_closed)                                                         \
	X(connection_lost)                                                     \
	X(sent_nudges)                                                         \
	X(linger_timeouts)                                                     \
	X(req_cqe_error)                                                       \
	X(resp_cqe_error)                                                      \
	X(drop_after_error)

struct ur_iwarp_counters {
#define UR_X(name) uint64_t name;
	UR_IWARP_COUNTERS(UR_X)
#undef UR_X
};

#endif
