/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP (MPA, DDP, RDMAP: RFC 5040, 5041, 5044, 6581, 7306) for one lane: a
 * pure protocol object.  No thread, clock, socket or system call: time is an
 * argument, memory, queues and keys are those of core/.  The engine runs it
 * under the lane's lock; tests and fuzzers run it without any.
 *
 * A connected QP owns one byte stream each way.  Whoever holds the lane and
 * the TCP connection is its `link` and does the following:
 *
 *   receiving    n = ur_iwarp_rx_want(w, qp, iov, max)   where bytes belong
 *                k = readv(fd, iov, n)
 *                ur_iwarp_rx_done(w, qp, k, now)         k bytes came
 *   or, from a buffer of its own: ur_iwarp_input(w, qp, data, len, now)
 *
 *   sending      while ((qp = ur_iwarp_next(w)))         who has work
 *                        n = ur_iwarp_tx_get(w, qp, iov, max, now)
 *                        k = writev(fd, iov, n)          or 0 for EAGAIN
 *                        ur_iwarp_tx_done(w, qp, k, now)
 *                        act on ur_iwarp_link_wish(qp)
 *
 * The pieces that rx_want and tx_get give out may lie in registered memory of
 * the application: they are good only until the lane is given up, and a page
 * that is gone makes the system call fail with EFAULT (ur_iwarp_rx_fault(),
 * ur_iwarp_tx_fault()).
 */
#ifndef UR_IWARP_IWARP_H
#define UR_IWARP_IWARP_H

#include <stdint.h>
#include <sys/uio.h>

#include "core/mr.h"
#include "core/qp.h"
#include "iwarp/counters.h"

struct ur_iwarp;

struct ur_iwarp_config {
	uint32_t slot; /* upper ten bits of our QP numbers */
	uint64_t seed; /* for QP numbers' order */
	struct ur_mr_table *mrs;
	/* A SEND waits for a receive (ur_iwarp_rx_starved()) instead of ending
	 * the stream: TCP holds the peer back, as RNR does on InfiniBand. */
	bool patient;
	/* Has the peer's TCP acknowledged all that went to this link?  NULL: it
	 * is taken for granted. */
	bool (*delivered)(void *link);
};

int ur_iwarp_create(const struct ur_iwarp_config *cfg, struct ur_iwarp **out);
void ur_iwarp_destroy(struct ur_iwarp *w); /* all QPs must be gone */

/* Give qp (of type RC) a number and protocol state.  -ENOSPC: the lane is
 * full; -EINVAL: another type; -ENOMEM. */
int ur_iwarp_qp_attach(struct ur_iwarp *w, struct ur_qp *qp);

/* Take qp out; nothing of it is sent, received or completed any more.  The
 * link closes or resets the connection, as ur_iwarp_link_wish() said. */
void ur_iwarp_qp_detach(struct ur_iwarp *w, struct ur_qp *qp);

/*
 * ibv_modify_qp(3).  RESET, INIT and RTR are the states before a connection
 * and take any attributes; RTS is reached by ur_iwarp_qp_connect() alone and
 * may be asked for only in RTS.  SQD closes the connection once all that was
 * posted is complete; ERR flushes and closes at once; RESET is for a QP
 * without connection or drops it.  -EINVAL: transition or value not allowed.
 */
int ur_iwarp_qp_modify(struct ur_iwarp *w, struct ur_qp *qp,
		       const struct ur_qp_attr *attr, uint32_t mask,
		       uint64_t now_ns);
void ur_iwarp_qp_query(const struct ur_iwarp *w, const struct ur_qp *qp,
		       struct ur_qp_attr *attr);

/* The ready-to-receive frame of peer-to-peer mode (RFC 6581, 4.2). */
enum ur_iw_rtr {
	UR_IW_RTR_NONE = 0,
	UR_IW_RTR_FPDU = 1,
	UR_IW_RTR_WRITE = 2,
	UR_IW_RTR_READ = 4,
};

/* What MPA has negotiated; ur_mpa_conn_result() fills it but for max_fpdu. */
struct ur_iw_params {
	bool initiator;	    /* we opened the TCP connection */
	bool crc;	    /* CRC32C in both directions */
	bool rx_markers;    /* the peer puts markers into what it sends */
	enum ur_iw_rtr rtr; /* initiator: send it first; responder: await it */
	uint16_t ird;	    /* READs and atomics that we serve at once */
	uint16_t ord;	    /* … that we may have outstanding */
	uint32_t max_fpdu;  /* TCP's MSS, in which a whole FPDU should fit */
};

#define UR_IW_FPDU_MIN	   128u	  /* max_fpdu: smaller is taken as this, */
#define UR_IW_FPDU_MAX	   64772u /* larger as this (RFC 5044, 4.1: ULPDU), */
#define UR_IW_FPDU_DEFAULT 1448u  /* 0 as this */
#define UR_IW_MAX_IRD	   128u	  /* ird, ord: larger are cut to this */

/*
 * The negotiation is over: qp goes from RESET, INIT or RTR to RTS, and what
 * follows on the stream is its.  `link` is the caller's, see ur_iwarp_link().
 * -EINVAL: not in such a state; -ENOMEM.
 */
int ur_iwarp_qp_connect(struct ur_iwarp *w, struct ur_qp *qp,
			const struct ur_iw_params *params, void *link,
			uint64_t now_ns);

/* As given to connect; NULL: not connected. */
void *ur_iwarp_link(const struct ur_qp *qp);

/*
 * rdma_disconnect(3): go to ERR, flush, and close the connection in an orderly
 * way.  What was completed reaches the peer.
 */
void ur_iwarp_qp_disconnect(struct ur_iwarp *w, struct ur_qp *qp,
			    uint64_t now_ns);

/* The stream ended: FIN with err 0, else what the socket said (-errno). */
void ur_iwarp_eof(struct ur_iwarp *w, struct ur_qp *qp, int err,
		  uint64_t now_ns);

/* What the link has to do; ask after every call that works on qp. */
enum ur_iw_wish {
	UR_IW_KEEP,  /* nothing: the connection is in use */
	UR_IW_SHUT,  /* all is sent: shutdown(SHUT_WR), go on reading (it is
		      * thrown away) until the peer closes, then close */
	UR_IW_CLOSE, /* both sides have closed: close */
	UR_IW_ABORT, /* close with a reset */
};
enum ur_iw_wish ur_iwarp_link_wish(const struct ur_qp *qp);

/* The link is gone (closed): forget it.  QP is in ERR by then, or goes. */
void ur_iwarp_unlink(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns);

/* New send requests were committed on qp->sq. */
void ur_iwarp_kick(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns);

/*
 * Receiving.  want: where the next bytes of the stream belong, in order, at
 * least one piece of at least one byte, at most max (>= 4) pieces; none while
 * a message waits for a receive.  done: so
 * many have come, at most as many as were asked for and before any other call
 * for qp that is not want.  Both may be called whenever qp has a link; after
 * an error the bytes are thrown away, so that a reset does not overtake our
 * TERMINATE.
 */
#define UR_IW_RX_IOV (UR_MAX_SGE + 2u) /* never more pieces than this */
uint32_t ur_iwarp_rx_want(struct ur_iwarp *w, struct ur_qp *qp,
			  struct iovec *iov, uint32_t max);
void ur_iwarp_rx_done(struct ur_iwarp *w, struct ur_qp *qp, uint32_t len,
		      uint64_t now_ns);

/*
 * A message waits for a receive (config.patient): want gives no piece until
 * retry has found one (true).  give_up ends the stream instead, as it would
 * have been without waiting.
 */
bool ur_iwarp_rx_starved(const struct ur_qp *qp);
bool ur_iwarp_rx_retry(struct ur_iwarp *w, struct ur_qp *qp, bool give_up,
		       uint64_t now_ns);

/* The same with bytes that were read elsewhere.  Returns how many were taken:
 * all, unless a message waits for a receive. */
uint32_t ur_iwarp_input(struct ur_iwarp *w, struct ur_qp *qp, const void *data,
			uint32_t len, uint64_t now_ns);

/* Reading gave EFAULT: memory of the application is gone. */
void ur_iwarp_rx_fault(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns);

/*
 * Sending.  next: a QP that has bytes to send or a new wish; NULL: none.  It
 * comes up again only when there is something new, except that after tx_done
 * with fewer bytes than were given out it is blocked until
 * ur_iwarp_tx_unblock().  get: the next bytes in order, at most max pieces;
 * 0: none.  What it gave and done did not take is given again unchanged.
 */
#define UR_IW_TX_IOV 512u /* never more pieces than this */
struct ur_qp *ur_iwarp_next(struct ur_iwarp *w);
uint32_t ur_iwarp_tx_get(struct ur_iwarp *w, struct ur_qp *qp,
			 struct iovec *iov, uint32_t max, uint64_t now_ns);
void ur_iwarp_tx_done(struct ur_iwarp *w, struct ur_qp *qp, uint32_t len,
		      uint64_t now_ns);
void ur_iwarp_tx_unblock(struct ur_iwarp *w, struct ur_qp *qp);
bool ur_iwarp_tx_blocked(const struct ur_qp *qp);

/* Writing gave EFAULT: memory of the application is gone. */
void ur_iwarp_tx_fault(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns);

/* Timers: a peer that does not close, a responder that waits to send. */
uint64_t ur_iwarp_deadline(const struct ur_iwarp *w);
void ur_iwarp_expire(struct ur_iwarp *w, uint64_t now_ns);

const struct ur_iwarp_counters *ur_iwarp_counters(const struct ur_iwarp *w);

/* For `urnic show`: calls fn for every attached QP. */
void ur_iwarp_for_each_qp(struct ur_iwarp *w,
			  void (*fn)(void *arg, const struct ur_qp *qp),
			  void *arg);

#endif
