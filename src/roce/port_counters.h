/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a port under its counters/ and hw_counters/ in the view of
 * /sys, with the names of ib_core, mlx5 and rxe. Each is the sum of two of a
 * lane's, in units of `unit`; both are the same if it has one.
 */
#ifndef UR_ROCE_PORT_COUNTERS_H
#define UR_ROCE_PORT_COUNTERS_H

#include <stddef.h>

#include "roce/counters.h"

#define UR_PORT_COUNTERS(X)                                                    \
	X("counters/port_xmit_data", sent_bytes, sent_bytes, 4)                \
	X("counters/port_rcv_data", rcvd_bytes, rcvd_bytes, 4)                 \
	X("counters/port_xmit_packets", sent_pkts, sent_pkts, 1)               \
	X("counters/port_rcv_packets", rcvd_pkts, rcvd_pkts, 1)                \
	X("counters/port_rcv_errors", drop_icrc, drop_malformed, 1)            \
	X("hw_counters/sent_pkts", sent_pkts, sent_pkts, 1)                    \
	X("hw_counters/rcvd_pkts", rcvd_pkts, rcvd_pkts, 1)                    \
	X("hw_counters/duplicate_request", duplicate_request,                  \
	  duplicate_request, 1)                                                \
	X("hw_counters/out_of_sequence", out_of_sequence, out_of_sequence, 1)  \
	X("hw_counters/out_of_seq_request", out_of_sequence, out_of_sequence,  \
	  1)                                                                   \
	X("hw_counters/out_of_buffer", send_rnr_err, drop_no_recv, 1)          \
	X("hw_counters/packet_seq_err", packet_seq_err, packet_seq_err, 1)     \
	X("hw_counters/implied_nak_seq_err", implied_nak_seq_err,              \
	  implied_nak_seq_err, 1)                                              \
	X("hw_counters/local_ack_timeout_err", local_ack_timeout_err,          \
	  local_ack_timeout_err, 1)                                            \
	X("hw_counters/rnr_nak_retry_err", rnr_nak_retry_err,                  \
	  rnr_nak_retry_err, 1)                                                \
	X("hw_counters/send_rnr_err", send_rnr_err, send_rnr_err, 1)           \
	X("hw_counters/rcvd_rnr_err", rcvd_rnr_err, rcvd_rnr_err, 1)           \
	X("hw_counters/rcvd_seq_err", rcvd_seq_err, rcvd_seq_err, 1)           \
	X("hw_counters/retry_exceeded_err", retry_exceeded_err,                \
	  retry_exceeded_err, 1)                                               \
	X("hw_counters/retry_rnr_exceeded_err", retry_rnr_exceeded_err,        \
	  retry_rnr_exceeded_err, 1)                                           \
	X("hw_counters/resp_local_length_error", resp_local_length_error,      \
	  resp_local_length_error, 1)                                          \
	X("hw_counters/resp_remote_access_errors", resp_remote_access_errors,  \
	  resp_remote_access_errors, 1)                                        \
	X("hw_counters/resp_cqe_error", resp_cqe_error, resp_cqe_error, 1)     \
	X("hw_counters/req_cqe_error", req_cqe_error, req_cqe_error, 1)        \
	X("hw_counters/req_remote_access_errors", req_remote_access_errors,    \
	  req_remote_access_errors, 1)                                         \
	X("hw_counters/req_remote_invalid_request",                            \
	  req_remote_invalid_request, req_remote_invalid_request, 1)           \
	X("hw_counters/rx_read_requests", rx_read_requests, rx_read_requests,  \
	  1)                                                                   \
	X("hw_counters/rx_write_requests", rx_write_requests,                  \
	  rx_write_requests, 1)                                                \
	X("hw_counters/rx_atomic_requests", rx_atomic_requests,                \
	  rx_atomic_requests, 1)                                               \
	X("hw_counters/rx_icrc_encapsulated", drop_icrc, drop_icrc, 1)         \
	X("hw_counters/np_ecn_marked_roce_packets",                            \
	  np_ecn_marked_roce_packets, np_ecn_marked_roce_packets, 1)           \
	X("hw_counters/np_cnp_sent", np_cnp_sent, np_cnp_sent, 1)              \
	X("hw_counters/rp_cnp_handled", rp_cnp_handled, rp_cnp_handled, 1)

struct ur_port_counter {
	const char *name; /* below the port's directory */
	size_t a;
	size_t b;
	unsigned int unit;
};

#define UR_PORT_COUNTER(name, a, b, unit)                                      \
	{ name, offsetof(struct ur_roce_counters, a),                          \
	  offsetof(struct ur_roce_counters, b), unit },

#endif
