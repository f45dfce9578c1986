/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of raw packets. Fields, names and output are generated from one
 * list. */
#ifndef UR_RAW_COUNTERS_H
#define UR_RAW_COUNTERS_H

#include <stdint.h>

#define UR_RAW_COUNTERS(X)                                                     \
	X(sent_pkts)                                                           \
	X(sent_bytes)                                                          \
	X(sent_tso)                                                            \
	X(req_cqe_error)                                                       \
	X(rcvd_pkts)                                                           \
	X(rcvd_bytes)                                                          \
	X(rx_delivered)                                                        \
	X(tx_lost)                                                             \
	X(drop_malformed)                                                      \
	X(drop_no_flow)                                                        \
	X(drop_no_recv)                                                        \
	X(drop_length)                                                         \
	X(drop_qp_state)

struct ur_raw_counters {
#define FIELD(name) uint64_t name;
	UR_RAW_COUNTERS(FIELD)
#undef FIELD
};

#endif
