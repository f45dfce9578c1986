/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of the TCP streams of an iWARP lane (urnic-fault(7)): they act on what one
 * read or write of a connection takes.  A lane without faults has no such object.
 * Under the lane's lock.
 */
#ifndef UR_ENGINE_FAULTY_STREAM_H
#define UR_ENGINE_FAULTY_STREAM_H

#include "engine/lane_iwarp.h"

/* The faults that are in force act on the lane from now on, or none does.  0 or
 * -ENOMEM. */
int ur_faulty_stream_set(struct ur_lane *l, bool on);

/* In the places of ur_tcp_read() and ur_tcp_write(). */
ssize_t ur_faulty_stream_read(struct ur_iw_link *k, struct iovec *iov,
			      uint32_t n);
ssize_t ur_faulty_stream_write(struct ur_iw_link *k, const struct iovec *iov,
			       uint32_t n);

/* When what was held is to be tried again; UR_NEVER.  _retry: it is time. */
uint64_t ur_faulty_stream_deadline(const struct ur_iw_lane *iw);
void ur_faulty_stream_retry(struct ur_iw_lane *iw, uint64_t now_ns);

#endif
