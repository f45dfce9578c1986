/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of a lane, with the kernel's names where it has the same counter
 * (rdma statistic show). Fields, names and output are generated from one list.
 */
#ifndef UR_ROCE_COUNTERS_H
#define UR_ROCE_COUNTERS_H

#include <stdint.h>

#define UR_ROCE_COUNTERS(X)                                                    \
	X(sent_pkts)                                                           \
	X(rcvd_pkts)                                                           \
	X(sent_bytes)                                                          \
	X(rcvd_bytes)                                                          \
	X(sent_bursts)                                                         \
	X(rx_send_requests)                                                    \
	X(rx_write_requests)                                                   \
	X(rx_read_requests)                                                    \
	X(rx_atomic_requests)                                                  \
	X(rx_flush_requests)                                                   \
	X(rx_atomic_write_requests)                                            \
	X(duplicate_request)                                                   \
	X(out_of_sequence)                                                     \
	X(packet_seq_err)                                                      \
	X(implied_nak_seq_err)                                                 \
	X(local_ack_timeout_err)                                               \
	X(rnr_nak_retry_err)                                                   \
	X(send_rnr_err)                                                        \
	X(rcvd_rnr_err)                                                        \
	X(rcvd_seq_err)                                                        \
	X(retry_exceeded_err)                                                  \
	X(retry_rnr_exceeded_err)                                              \
	X(resp_local_length_error)                                             \
	X(resp_remote_access_errors)                                           \
	X(resp_remote_op_errors)                                               \
	X(req_remote_access_errors)                                            \
	X(req_remote_invalid_request)                                          \
	X(req_remote_op_errors)                                                \
	X(req_cqe_error)                                                       \
	X(resp_cqe_error)                                                      \
	X(retransmitted_pkts)                                                  \
	X(probes_sent)                                                         \
	X(acks_sent)                                                           \
	X(acks_carried)                                                        \
	X(acks_rcvd)                                                           \
	X(shm_requests)                                                        \
	X(shm_refused)                                                         \
	X(shm_direct)                                                          \
	X(shm_pulled)                                                          \
	X(shm_lost)                                                            \
	X(np_ecn_marked_roce_packets)                                          \
	X(np_cnp_sent)                                                         \
	X(rp_cnp_handled)                                                      \
	X(path_migrations)                                                     \
	X(drop_icrc)                                                           \
	X(drop_malformed)                                                      \
	X(drop_no_qp)                                                          \
	X(drop_qp_state)                                                       \
	X(drop_transport)                                                      \
	X(drop_pkey)                                                           \
	X(drop_qkey)                                                           \
	X(drop_peer)                                                           \
	X(drop_no_recv)                                                        \
	X(drop_length)                                                         \
	X(drop_uc_sequence)                                                    \
	X(drop_memory)                                                         \
	X(drop_ghost_ack)                                                      \
	X(drop_no_resource)                                                    \
	X(drop_window_in_use)                                                  \
	X(timewait_acks_sent)                                                  \
	X(drop_xrc_held)                                                       \
	X(drop_dc_key)                                                         \
	X(drop_dc_full)                                                        \
	X(drop_dc_stale)                                                       \
	X(dc_refusals_limited)                                                 \
	X(drop_foreign)

struct ur_roce_counters {
#define UR_X(name) uint64_t name;
	UR_ROCE_COUNTERS(UR_X)
#undef UR_X
};

#endif
