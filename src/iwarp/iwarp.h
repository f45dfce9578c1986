/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iWARP (MPA, DDP, RDMAP: RFC 5040, 5041, 5044, 6581, 7306) for one lane: a
 * pure protocol object.  No thread, clock, socket or system call: time is an
 * argument, memory, queues and keys are those of core/.  The engine runs it
 * under the lane's lock; tests and fuzzers run it without any.
 *
 * A connected QP owns one byte stream each way.  Its `link`, which holds the
 * lane and the TCP connection, does the following:
 *
 *   receiving    n = ur_iwarp_rx_want(w, qp, iov, max)   destination
 *                k = readv(fd, iov, n)
 *                ur_iwarp_rx_done(w, qp, k, now)         k bytes came
 *   or, from a buffer of its own: ur_iwarp_input(w, qp, data, len, now)
 *
 *   sending      while ((qp = ur_iwarp_next(w)))         has work
 *                        n = ur_iwarp_tx_get(w, qp, iov, max, now)
 *                        k = writev(fd, iov, n)          or 0 for EAGAIN
 *                        ur_iwarp_tx_done(w, qp, k, now)
 *                        act on ur_iwarp_link_action(qp)
 *
 * The pieces from rx_want and tx_get may lie in registered memory of the
 * application: they are valid only until the lane is unlocked, and an unmapped
 * page makes the system call fail with EFAULT (ur_iwarp_rx_fault(),
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
	uint64_t seed; /* for the order of QP numbers */
	struct ur_mr_table *mrs;
	/*
	 * A SEND waits for a receive (ur_iwarp_rx_starved()) instead of ending
	 * the stream: TCP's flow control stops the peer, as RNR does on
	 * InfiniBand.
	 */
	bool patient;
	/* Has the peer's TCP acknowledged everything sent on this link? NULL:
	 * assumed. */
	bool (*delivered)(void *link);
};

int ur_iwarp_create(const struct ur_iwarp_config *cfg, struct ur_iwarp **out);
void ur_iwarp_destroy(struct ur_iwarp *w); /* all QPs must be gone */

/* Assign a number and protocol state to an RC qp. -ENOSPC: the lane is full;
 * -EINVAL: another type; -ENOMEM. */
int ur_iwarp_qp_attach(struct ur_iwarp *w, struct ur_qp *qp);

/* Detach qp; nothing of it is sent, received or completed any more. The link
 * closes or resets the connection, as ur_iwarp_link_action() said. */
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

/* The result of MPA's negotiation; ur_mpa_conn_result() fills it except for
 * max_fpdu. */
struct ur_iw_params {
	bool initiator;	    /* we opened the TCP connection */
	bool crc;	    /* CRC32C in both directions */
	bool rx_markers;    /* the peer inserts markers into its stream */
	enum ur_iw_rtr rtr; /* initiator: send it first; responder: await it */
	uint16_t ird;	    /* READs and atomics that we serve at once */
	uint16_t ord;	    /* that we may have outstanding */
	uint32_t max_fpdu;  /* TCP's MSS, in which a whole FPDU should fit */
};

#define UR_IW_FPDU_MIN	   128u	  /* max_fpdu: minimum */
#define UR_IW_FPDU_MAX	   64772u /* maximum (RFC 5044, 4.1: ULPDU) */
#define UR_IW_FPDU_DEFAULT 1448u  /* value for 0 */
#define UR_IW_MAX_IRD	   128u	  /* ird, ord: maximum */

/*
 * The negotiation is over: qp goes from RESET, INIT or RTR to RTS, and the rest
 * of the stream belongs to it. `link` is the caller's, see ur_iwarp_link().
 * -EINVAL: not in such a state; -ENOMEM.
 */
int ur_iwarp_qp_connect(struct ur_iwarp *w, struct ur_qp *qp,
			const struct ur_iw_params *params, void *link,
			uint64_t now_ns);

/* As given to connect; NULL: not connected. */
void *ur_iwarp_link(const struct ur_qp *qp);

/* rdma_disconnect(3): go to ERR, flush, and close the connection in an orderly
 * way. Completed messages reach the peer. */
void ur_iwarp_qp_disconnect(struct ur_iwarp *w, struct ur_qp *qp,
			    uint64_t now_ns);

/* The stream ended: FIN with err 0, else the socket's error (-errno). */
void ur_iwarp_eof(struct ur_iwarp *w, struct ur_qp *qp, int err,
		  uint64_t now_ns);

/* The action required of the link; ask after every call that affects qp. */
enum ur_iw_link_action {
	UR_IW_KEEP, /* none: the connection is in use */
	UR_IW_SHUT, /* all is sent: shutdown(SHUT_WR), read and discard until the peer closes, then close */
	UR_IW_CLOSE, /* both sides have closed: close */
	UR_IW_ABORT, /* close with a reset */
};
enum ur_iw_link_action ur_iwarp_link_action(const struct ur_qp *qp);

/* The link is closed: forget it. QP is in ERR by then, or being destroyed. */
void ur_iwarp_unlink(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns);

/* New send requests were committed on qp->sq. */
void ur_iwarp_kick(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns);

/*
 * Receiving. want: where the next bytes of the stream belong, in order, at
 * least one piece of at least one byte, at most max (>= 4) pieces; none while a
 * message waits for a receive. done: that many bytes came, at most as many as
 * requested, before any other call for qp except want. Both may be called
 * whenever qp has a link; after an error the bytes are discarded, so that a
 * reset does not overtake our TERMINATE.
 */
#define UR_IW_RX_IOV (UR_MAX_SGE + 2u) /* never more pieces than this */
uint32_t ur_iwarp_rx_want(struct ur_iwarp *w, struct ur_qp *qp,
			  struct iovec *iov, uint32_t max);
void ur_iwarp_rx_done(struct ur_iwarp *w, struct ur_qp *qp, uint32_t len,
		      uint64_t now_ns);

/* A message waits for a receive (config.patient): want gives no piece until
 * retry has found one (true). give_up ends the stream, as without waiting. */
bool ur_iwarp_rx_starved(const struct ur_qp *qp);
bool ur_iwarp_rx_retry(struct ur_iwarp *w, struct ur_qp *qp, bool give_up,
		       uint64_t now_ns);

/* The same with bytes that were read elsewhere. Returns how many were consumed:
 * all, unless a message waits for a receive. */
uint32_t ur_iwarp_input(struct ur_iwarp *w, struct ur_qp *qp, const void *data,
			uint32_t len, uint64_t now_ns);

/* Reading gave EFAULT: application memory is unmapped. */
void ur_iwarp_rx_fault(struct ur_iwarp *w, struct ur_qp *qp, uint64_t now_ns);

/*
 * Sending. next: a QP that has bytes to send or a new action; NULL: none. It is
 * returned again only when there is something new, except that after tx_done
 * with fewer bytes than were offered it is blocked until ur_iwarp_tx_unblock().
 * get: the next bytes in order, at most max pieces; 0: none. Bytes that done
 * did not confirm are offered again unchanged.
 */
#define UR_IW_TX_IOV 512u /* never more pieces than this */
struct ur_qp *ur_iwarp_next(struct ur_iwarp *w);
uint32_t ur_iwarp_tx_get(struct ur_iwarp *w, struct ur_qp *qp,
			 struct iovec *iov, uint32_t max, uint64_t now_ns);
void ur_iwarp_tx_done(struct ur_iwarp *w, struct ur_qp *qp, uint32_t len,
		      uint64_t now_ns);
void ur_iwarp_tx_unblock(struct ur_iwarp *w, struct ur_qp *qp);
bool ur_iwarp_tx_blocked(const struct ur_qp *qp);

/* Writing gave EFAULT: application memory is unmapped. */
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
