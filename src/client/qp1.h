/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair 1 on the wire: CM MADs as UD datagrams to and from port 4791
 * (IBTA 9, 12, A17).  urnicd receives all of its namespace on slot 0; each
 * process sends its own, from a socket of its own, so that GRO does not merge
 * them with packets of other queue pairs.
 */
#ifndef UR_CLIENT_QP1_H
#define UR_CLIENT_QP1_H

#include <stdint.h>

#include "cm/ib_cm.h"
#include "core/packet.h"

#define UR_QP1_COUNTERS(X)                                                     \
	X(received)                                                            \
	X(sent)                                                                \
	X(send_errors)                                                         \
	X(drop_malformed) /* no UD SEND of one MAD */                          \
	X(drop_qp)	  /* QP0, or a number without a queue pair */          \
	X(drop_pkey)                                                           \
	X(drop_qkey)                                                           \
	X(drop_icrc)

struct ur_qp1_counters {
#define X(name) uint64_t name;
	UR_QP1_COUNTERS(X)
#undef X
};

struct ur_qp1;

/*
 * Take over rx_fd, urnicd's slot; -1: only send.  0 or -errno; on failure
 * rx_fd stays the caller's.
 */
int ur_qp1_open(int rx_fd, struct ur_qp1 **out);
void ur_qp1_close(struct ur_qp1 *q);

/* The packet of the next ur_qp1_send() of that datagram; valid until the next call. */
const struct ur_burst *ur_qp1_packet(struct ur_qp1 *q,
				     const struct ur_cm_dgram *d);

/* 0 or -errno; what the network does not take is lost, as on the way. */
int ur_qp1_send(struct ur_qp1 *q, const struct ur_cm_dgram *d);

/*
 * Is it a proper datagram for QP1?  Then its MAD and addresses are in *out;
 * else it is counted.  The MAD itself is not checked.
 */
bool ur_qp1_check(struct ur_qp1 *q, const struct ur_rx *rx,
		  struct ur_cm_dgram *out);

/* Receive what is there, a bounded amount: fn for each that passes. */
int ur_qp1_recv(struct ur_qp1 *q,
		void (*fn)(void *arg, const struct ur_cm_dgram *d), void *arg);

/* What it sends and receives with. */
struct ur_link *ur_qp1_link(struct ur_qp1 *q);

const struct ur_qp1_counters *ur_qp1_counters(const struct ur_qp1 *q);

#endif
