/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA connection setup (RFC 5044, 7.1; RFC 6581): the request and reply frames
 * in front of the stream of FPDUs.  Pure: bytes, time and verdicts only; the
 * memory is the caller's.
 *
 *   initiator  START ── request sent ──> WAIT ── reply ──> DONE | REJECTED
 *   responder  WAIT ── request ──> DECIDE ── accept ──> REPLY ── sent ──> DONE
 *                                         ── reject ──> REPLY ── sent ──> CLOSED
 *   either     any ── bad frame, timeout, stream ends ──> FAILED
 *
 * The initiator starts when TCP is connected.  Bytes are read by
 * ur_mpa_conn_want() and ur_mpa_conn_input(), which never take one that lies
 * behind the frame: those belong to the QP.
 */
#ifndef UR_IWARP_MPA_CONN_H
#define UR_IWARP_MPA_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iwarp/iwarp.h"
#include "wire/mpa.h"

/* Private data that the application may send, by revision. */
#define UR_MPA_PRIVATE_MAX    512u
#define UR_MPA_PRIVATE_MAX_V2 508u

#define UR_MPA_TIMEOUT_NS 10000000000u /* no frame for so long: give up */

struct ur_mpa_config {
	uint8_t rev;	   /* highest revision: 1 or 2 (2: enhanced) */
	bool crc;	   /* we ask for CRC32C */
	bool markers;	   /* we ask for markers in what we receive */
	bool peer_to_peer; /* initiator: offer RTR frames, so that either side
			    * may send first (rev 2) */
	uint8_t rtr;	   /* set of enum ur_iw_rtr we can send / accept */
	uint16_t ird;
	uint16_t ord;
};

/* rev 2, CRC, no markers, peer to peer by WRITE or READ. */
struct ur_mpa_config ur_mpa_config_default(void);

enum ur_mpa_state {
	UR_MPA_START,	 /* initiator: the request is to be sent */
	UR_MPA_WAIT,	 /* a frame is awaited */
	UR_MPA_DECIDE,	 /* responder: accept or reject */
	UR_MPA_REPLY,	 /* responder: the reply is to be sent */
	UR_MPA_DONE,	 /* connected: ur_mpa_conn_result() */
	UR_MPA_REJECTED, /* initiator: the peer said no */
	UR_MPA_CLOSED,	 /* responder: our rejection is sent; close */
	UR_MPA_FAILED,	 /* error: see `error`; close */
};

struct ur_mpa_conn {
	enum ur_mpa_state state;
	/* FAILED: -ETIMEDOUT; -ECONNRESET: the stream ended within or before
	 * the frame; -EPROTO: not MPA, or what the peer demands cannot be;
	 * -EPROTONOSUPPORT: the peer speaks only revision 1, and the initiator
	 * may connect again with rev = 1. */
	int error;
	bool initiator;
	struct ur_mpa_config cfg;
	struct ur_mpa_frame peer; /* the frame that came, decoded */
	/* The peer's offer as limits of ours: ird <= its ORD and so on;
	 * in DECIDE and DONE.  An application may lower, accept() checks. */
	uint16_t ird;
	uint16_t ord;
	bool crc;
	bool rx_markers;
	enum ur_iw_rtr rtr;
	uint8_t rev;	      /* agreed */
	uint64_t deadline_ns; /* UR_NEVER: none */
	/* The peer's private data, without the IRD/ORD word. */
	const uint8_t *private_data;
	uint16_t private_len;

	uint16_t rx_len;
	uint16_t tx_len;
	uint16_t tx_done;
	uint8_t rx[UR_MPA_HDR_LEN + UR_MPA_PRIVATE_MAX];
	uint8_t tx[UR_MPA_HDR_LEN + UR_MPA_PRIVATE_MAX];
};

/*
 * Either side.  -EINVAL: private data too long for the revision, a revision
 * that is not, peer_to_peer without an RTR.
 */
int ur_mpa_conn_connect(struct ur_mpa_conn *c, const struct ur_mpa_config *cfg,
			const void *private_data, size_t len, uint64_t now_ns);
int ur_mpa_conn_listen(struct ur_mpa_conn *c, const struct ur_mpa_config *cfg,
		       uint64_t now_ns);

/*
 * DECIDE → REPLY.  ird and ord are what the application wants; they are cut
 * to what the peer offered.  -EINVAL: another state, private data too long.
 */
int ur_mpa_conn_accept(struct ur_mpa_conn *c, uint16_t ird, uint16_t ord,
		       const void *private_data, size_t len);
int ur_mpa_conn_reject(struct ur_mpa_conn *c, const void *private_data,
		       size_t len);

/* How many bytes to read next; 0: none now. */
size_t ur_mpa_conn_want(const struct ur_mpa_conn *c);

/* Takes at most what is wanted; returns how many.  Never behind the frame. */
size_t ur_mpa_conn_input(struct ur_mpa_conn *c, const void *data, size_t len,
			 uint64_t now_ns);
void ur_mpa_conn_eof(struct ur_mpa_conn *c);

/* What to send next (*p), 0: nothing; and so many were sent. */
size_t ur_mpa_conn_output(const struct ur_mpa_conn *c, const uint8_t **p);
void ur_mpa_conn_sent(struct ur_mpa_conn *c, size_t len, uint64_t now_ns);

/* c->deadline_ns has come. */
void ur_mpa_conn_expire(struct ur_mpa_conn *c, uint64_t now_ns);

/*
 * DONE: what the QP needs.  max_fpdu is the caller's to set.  Beforehand the
 * initiator also checks `peer` for its private data.
 */
void ur_mpa_conn_result(const struct ur_mpa_conn *c, struct ur_iw_params *out);

#endif
