/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dynamically connected transport between urnics (docs/wire/dc.md): RC in
 * two halves.  An initiator is RC's requester, and each of its requests names a
 * target.  A target has one responder of RC for each initiator that sends to it,
 * its connection.
 *
 * What an initiator sends to one target without waiting for all to be complete is
 * a session.  Every packet names its session and the session's first PSN, so that
 * there is no handshake: whichever packet comes first begins the session at the
 * target.  A session's number is larger than those of all earlier ones, so late
 * packets of those are recognized.
 */
#ifndef UR_ROCE_DC_H
#define UR_ROCE_DC_H

#include "roce/internal.h"

#define UR_DC_VERSION 0u

/*
 * A connection ends when it was not used for so long.  An initiator that waits for
 * an answer repeats its request more often: an RNR timer lasts up to 0.66 s, and
 * early retransmissions (rc_comp.c) wait for UR_DC_EARLY_MAX_NS at most.
 */
#define UR_DC_IDLE_NS	   10000000000ull
#define UR_DC_EARLY_MAX_NS 500000000ull

/*
 * An initiator sends nothing more of a session of which nothing was acknowledged
 * after so long without an answer.  What it sent before may be delayed by as long
 * again, and finds the connection.  The request fails when a timer expires, because
 * the link is read before that: the initiator may have been stopped, and the answer
 * may wait in its socket.
 */
#define UR_DC_SILENT_NS (UR_DC_IDLE_NS / 2)

/* Connections of a lane, as many as it may have queue pairs of RC. */
#define UR_MAX_DC_CONNECTIONS UR_MAX_QP_PER_LANE

struct ur_dci {
	struct ur_dc_target target; /* of the session */
	uint64_t session;	    /* 0: none yet */
	uint32_t first_psn;
	uint8_t mtu;	   /* code */
	uint64_t heard_ns; /* the target answered last, or the session began */
};

struct ur_dc_connection {
	struct ur_dc_connection *hash_next;
	struct ur_list node; /* in ur_dc.used */
	struct ur_rqp *target;
	struct ur_qp qp; /* without a number of its own; proto: the responder */
	uint64_t session;
	uint64_t used_ns;
};

/* A request that no responder answers: the answer that is due. */
struct ur_dc_refusal {
	struct ur_path *path;
	uint32_t dqpn;
	uint32_t psn;
	uint8_t syndrome;
};

#define UR_DC_REFUSALS	 64u
/* Any host can provoke refusals, so a lane sends no more than one in this time, and
 * UR_DC_REFUSALS at once (as RFC 4443 2.4 f demands of ICMPv6; echoes of ports
 * have the same rate: net/net.c). */
#define UR_DC_REFUSAL_NS 1000000ull
#define UR_DC_BUCKETS	 4096u

/* The newest request of an initiator that had a wrong key: repeated, it is no
 * further violation. */
struct ur_dc_violation {
	uint8_t src[16];
	uint64_t session; /* 0: none */
	uint64_t key;
	uint32_t sqpn;
	uint32_t psn;
};

#define UR_DC_VIOLATIONS 256u /* initiators with the same hash share one */

/* The targets' part of a lane; made for the first target. */
struct ur_dc {
	struct ur_list used; /* connections; the least recently used is first */
	uint64_t seed;	     /* secret */
	uint64_t refuse_at_ns; /* the refusals until now are at the rate then */
	uint32_t count;
	uint32_t nrefusals;
	struct ur_dc_refusal refusals[UR_DC_REFUSALS];
	struct ur_dc_violation violations[UR_DC_VIOLATIONS];
	struct ur_dc_connection *buckets[UR_DC_BUCKETS];
};

/* qp.c: the responder forgets everything, and expects that PSN next. */
void ur_rqp_reset_responder(struct ur_rqp *q, uint32_t psn);

/* A new queue pair, if it is of DC; 0 or -ENOMEM.  _close: it is being freed. */
int ur_dc_open(struct ur_rqp *q);
void ur_dc_close(struct ur_rqp *q);
void ur_dc_fini(struct ur_roce *r);

/*
 * Initiator.  _route: before the next request is begun, sets the session and the
 * path for it; false: it has to wait, or the queue pair failed.  _stamp: puts the
 * session into the header of a request.  _emit, _response: RC's, with the check for
 * UR_DC_SILENT_NS.  _gives_up: the retransmission timer has expired; true: the
 * queue pair failed, for that reason.
 */
bool ur_dci_route(struct ur_rqp *q);
void ur_dci_stamp(const struct ur_rqp *q, struct ur_hdr *h);
enum ur_emit ur_dci_emit(struct ur_rqp *q, struct ur_burst *t, uint64_t now_ns);
void ur_dci_response(struct ur_rqp *q, struct ur_in *in);
bool ur_dci_gives_up(struct ur_rqp *q, uint64_t now_ns);

/* Target.  _accepts: does the packet's header allow it?  _request: it is intact. */
bool ur_dct_accepts(const struct ur_rqp *q, const struct ur_in *in);
void ur_dct_request(struct ur_rqp *q, struct ur_in *in);

/* record.c: a request to a target is refused, of which no connection knows. */
void ur_record_dct_refused(struct ur_rqp *q, const struct ur_in *in,
			   enum ur_record_reason reason, uint64_t expected,
			   uint64_t found);

/* Refusals to be sent, one in a burst. */
static inline bool ur_dc_is_due(const struct ur_roce *r)
{
	return r->dc && r->dc->nrefusals;
}
void ur_dc_output(struct ur_roce *r, struct ur_burst *t);

/* The end of connections that are not used. */
uint64_t ur_dc_deadline(const struct ur_roce *r);
void ur_dc_expire(struct ur_roce *r, uint64_t now_ns);

#endif
