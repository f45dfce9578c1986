/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA connection setup (RFC 5044, 7.1; RFC 6581): the request and reply frames
 * before the stream of FPDUs.  Pure: bytes, time and verdicts only; the
 * memory is the caller's.
 *
 *   initiator  START ── request sent ──> WAIT ── reply ──> DONE | REJECTED
 *   responder  WAIT ── request ──> DECIDE ── accept ──> REPLY ── sent ──> DONE
 *                                         ── reject ──> REPLY ── sent ──> CLOSED
 *   either     any ── bad frame, timeout, stream ends ──> FAILED
 *
 * The initiator starts when TCP is connected.  ur_mpa_conn_want() and
 * ur_mpa_conn_input() never consume bytes after the frame: those belong to
 * the QP.
 */
#ifndef UR_IWARP_MPA_CONN_H
#define UR_IWARP_MPA_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iwarp/iwarp.h"
#include "wire/mpa.h"

/* Maximum private data of the application, by revision. */
#define UR_MPA_PRIVATE_MAX    512u
#define UR_MPA_PRIVATE_MAX_V2 508u

#define UR_MPA_TIMEOUT_NS                                                      \
	10000000000u /* fail if no frame arrives in this time */

struct ur_mpa_config {
	uint8_t rev;	   /* highest revision: 1 or 2 (2: enhanced) */
	bool crc;	   /* we request CRC32C */
	bool markers;	   /* we request markers in what we receive */
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
	UR_MPA_WAIT,	 /* waiting for a frame */
	UR_MPA_DECIDE,	 /* responder: accept or reject */
	UR_MPA_REPLY,	 /* responder: the reply is to be sent */
	UR_MPA_DONE,	 /* connected: ur_mpa_conn_result() */
	UR_MPA_REJECTED, /* initiator: the peer rejected */
	UR_MPA_CLOSED,	 /* responder: our rejection is sent; close */
	UR_MPA_FAILED,	 /* error: see `error`; close */
};

struct ur_mpa_conn {
	enum ur_mpa_state state;
	/*
	 * FAILED: -ETIMEDOUT; -ECONNRESET: the stream ended within or before
	 * the frame; -EPROTO: not MPA, or the peer's requirements cannot be
	 * met; -EPROTONOSUPPORT: the peer supports only revision 1, and the
	 * initiator may connect again with rev = 1.
	 */
	int error;
	bool initiator;
	struct ur_mpa_config cfg;
	struct ur_mpa_frame peer; /* the received frame */
	/* The peer's offer as limits of ours: ird <= its ORD and so on; in
	 * DECIDE and DONE. The application may lower them, accept() checks. */
	uint16_t ird;
	uint16_t ord;
	bool crc;
	bool rx_markers;
	enum ur_iw_rtr rtr;
	uint8_t rev;	      /* negotiated */
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

/* Either side. -EINVAL: private data too long for the revision, an unknown
 * revision, peer_to_peer without an RTR. */
int ur_mpa_conn_connect(struct ur_mpa_conn *c, const struct ur_mpa_config *cfg,
			const void *private_data, size_t len, uint64_t now_ns);
int ur_mpa_conn_listen(struct ur_mpa_conn *c, const struct ur_mpa_config *cfg,
		       uint64_t now_ns);

/* DECIDE → REPLY. ird and ord are the application's limits; they are reduced to
 * the peer's offer. -EINVAL: another state, private data too long. */
int ur_mpa_conn_accept(struct ur_mpa_conn *c, uint16_t ird, uint16_t ord,
		       const void *private_data, size_t len);
int ur_mpa_conn_reject(struct ur_mpa_conn *c, const void *private_data,
		       size_t len);

/* How many bytes to read next; 0: none now. */
size_t ur_mpa_conn_want(const struct ur_mpa_conn *c);

/* Consumes at most what is wanted, never beyond the frame; returns how many. */
size_t ur_mpa_conn_input(struct ur_mpa_conn *c, const void *data, size_t len,
			 uint64_t now_ns);
void ur_mpa_conn_eof(struct ur_mpa_conn *c);

/* The next bytes to send (*p), 0: none; sent: that many were sent. */
size_t ur_mpa_conn_output(const struct ur_mpa_conn *c, const uint8_t **p);
void ur_mpa_conn_sent(struct ur_mpa_conn *c, size_t len, uint64_t now_ns);

/* c->deadline_ns has come. */
void ur_mpa_conn_expire(struct ur_mpa_conn *c, uint64_t now_ns);

/* DONE: the QP's parameters. The caller sets max_fpdu. Before that the
 * initiator also checks `peer` for its private data. */
void ur_mpa_conn_result(const struct ur_mpa_conn *c, struct ur_iw_params *out);

#endif
