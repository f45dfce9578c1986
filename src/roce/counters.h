/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of a lane, with the kernel's names where it has the same counter
 * (rdma statistic show). Fields, names and output are generated from one list.
 */
#ifndef UR_ROCE_COUNTERS_H
#define UR_ROCE_COUNTERS_H

#include <stdint.h>

/*
 * What becomes of packets that are not accepted, and how a capture says it: by the
 * first of these that counted the packet.
 */
#define UR_ROCE_VERDICTS(X)                                                    \
	X(drop_icrc, "dropped: wrong ICRC")                                    \
	X(drop_malformed, "dropped: malformed")                                \
	X(drop_no_qp, "dropped: no such queue pair")                           \
	X(drop_qp_state, "dropped: the queue pair does not receive")           \
	X(drop_transport, "dropped: of another type of queue pair")            \
	X(drop_pkey, "dropped: wrong P_Key")                                   \
	X(drop_qkey, "dropped: wrong Q_Key")                                   \
	X(drop_peer, "dropped: not from the queue pair's peer")                \
	X(drop_no_recv, "dropped: no receive is posted")                       \
	X(drop_length, "dropped: wrong length")                                \
	X(drop_uc_sequence, "dropped: of an incomplete message")               \
	X(drop_memory, "dropped: memory is not accessible")                    \
	X(drop_ghost_ack, "dropped: acknowledges what was not sent")           \
	X(drop_no_resource, "dropped: an earlier READ is not done")            \
	X(drop_window_in_use, "dropped: a READ uses the window to invalidate") \
	X(drop_xrc_held, "dropped: waits for another process")                 \
	X(drop_dc_key, "dropped: wrong DC access key")                         \
	X(drop_dc_full, "dropped: too many DC sessions")                       \
	X(drop_dc_stale, "dropped: of an old DC session")                      \
	X(drop_foreign, "dropped: of another process")                         \
	X(out_of_sequence, "dropped: out of sequence")                         \
	X(duplicate_request, "duplicate")                                      \
	X(send_rnr_err, "refused: no receive is posted (RNR NAK)")             \
	X(resp_local_length_error, "refused: longer than the receive")         \
	X(resp_remote_access_errors, "refused: remote access error")           \
	X(resp_remote_op_errors, "refused: remote operation error")

/* X(name), or X(name, text). */
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
	X(packet_seq_err)                                                      \
	X(implied_nak_seq_err)                                                 \
	X(local_ack_timeout_err)                                               \
	X(rnr_nak_retry_err)                                                   \
	X(rcvd_rnr_err)                                                        \
	X(rcvd_seq_err)                                                        \
	X(retry_exceeded_err)                                                  \
	X(retry_rnr_exceeded_err)                                              \
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
	X(timewait_acks_sent)                                                  \
	X(dc_refusals_limited)                                                 \
	UR_ROCE_VERDICTS(X)

struct ur_roce_counters {
#define UR_X(name, ...) uint64_t name;
	UR_ROCE_COUNTERS(UR_X)
#undef UR_X
};

#endif
