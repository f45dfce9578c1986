/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links: the assignment of a TCP connection to an iWARP queue pair, as
 * connection management (conn_iwarp.c) sees it.
 *
 *   CLAIMED  the QP belongs to a connection that is being established
 *   OPEN     the lane owns the stream
 *   LINGER   the QP is destroyed; unsent data reaches the peer, then it closes
 *   DEAD     no socket, no QP
 *
 * A link is created by claim and given up by put; it lives while the lane or
 * the connection needs it.  All calls take the lane's lock.
 */
#ifndef UR_ENGINE_IW_LINK_H
#define UR_ENGINE_IW_LINK_H

#include "iwarp/iwarp.h"

struct ur_adapter;
struct ur_iw_link;
struct ur_stream;

/*
 * Claim qp for a connection.  `down` is called once, holding the lane, when
 * the connection ends or the QP is destroyed; it may not call back.  -EINVAL:
 * not of an iWARP device, claimed or connected already, or in RTS or beyond;
 * -ENODEV: inherited by fork(); -ENOMEM.
 */
int ur_iw_link_claim(struct ur_qp *qp, void (*down)(void *arg), void *arg,
		     struct ur_iw_link **out);

/* The same for a QP known by its number; a QP that is not there is -EINVAL. */
int ur_iw_link_claim_qpn(struct ur_adapter *a, uint32_t qpn,
			 void (*down)(void *arg), void *arg,
			 struct ur_iw_link **out);

/*
 * The negotiation is over: qp moves to RTS and the lane owns the stream, or,
 * where that is NULL, fd.  -ENOTCONN: the QP is gone; -errno.  Then they stay
 * the caller's.
 */
int ur_iw_link_open(struct ur_iw_link *k, int fd, struct ur_stream *stream,
		    const struct ur_iw_params *params);

/* Close in order; -EINVAL: was not open. */
int ur_iw_link_disconnect(struct ur_iw_link *k);

/* The connection forgets it: `down` is not running and will not be called.  A
 * connection that is open is closed in order. */
void ur_iw_link_put(struct ur_iw_link *k);

#endif
