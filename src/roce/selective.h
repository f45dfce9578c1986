/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selective repeat between two urnics (docs/wire/roce.md): packets that arrive
 * ahead of a lost one are kept, and only the lost one is sent again.  Towards
 * other adapters a loss makes the requester go back to it and send everything
 * after it again (IBTA 9.7.5.1).
 *
 * rc_keep.c is the responder's part, rc_repair.c the requester's.
 */
#ifndef UR_ROCE_SELECTIVE_H
#define UR_ROCE_SELECTIVE_H

#include "roce/internal.h"
#include "roce/psn_set.h"

/* A packet that arrived ahead of the expected one. */
struct ur_kept {
	struct ur_rx rx;
	uint8_t data[];
};

/* A part of an earlier READ response, requested again. */
struct ur_repeat {
	uint32_t psn;
	uint32_t count;
};

#define UR_REPEATS_MAX 384u

/* PSNs from the expected one on; the ranges of a report have 16 bits. */
#define UR_KEPT_SPAN   16384u
/* How much more than one window a requester sends while a gap is repaired: three
 * round trips of a full window of 1 MiB, within what a responder keeps. */
#define UR_AHEAD_BYTES (3u << 20)

/* The responder's part: allocated when the first packet is missing. */
struct ur_keeper {
	struct ur_psn_set have;
	uint32_t bytes;
	uint32_t unreported; /* packets since the last report */
	uint32_t nrepeats;
	struct ur_repeat repeats[UR_REPEATS_MAX];
	struct ur_kept *packets[UR_KEPT_SPAN]; /* by PSN, of those in `have` */
};

static inline bool ur_keeper_has_packets(const struct ur_responder *p)
{
	return p->keeper && p->keeper->have.n;
}

/* Is a packet kept, or a part of a response to be repeated? */
static inline bool ur_keeper_is_busy(const struct ur_responder *p)
{
	return p->keeper && (p->keeper->have.n || p->keeper->nrepeats);
}

/* The peer sends and understands selective repeat. */
static inline bool ur_rc_is_selective(const struct ur_rqp *q)
{
	return q->peer == UR_PEER_URNIC && q->qp->type == UR_QPT_RC;
}

/* A request ahead of the expected one: keeps it, if there is room. */
void ur_keep_request(struct ur_rqp *q, const struct ur_in *in);
/* The oldest kept request, if it is the expected one now; the caller frees it. */
struct ur_kept *ur_keep_next(struct ur_rqp *q);
/* Drops all that is kept; _end also frees the memory. */
void ur_keep_clear(struct ur_rqp *q);
void ur_keep_end(struct ur_rqp *q);

/* The payload of an acknowledge packet with ranges; returns its length. */
#define UR_RANGES_LEN_MAX 1024u
uint32_t ur_keep_ranges(struct ur_rqp *q, uint8_t *to);

/* Repeat that part of a READ response; it is dropped if too many wait. */
void ur_keep_repeat(struct ur_rqp *q, uint32_t psn, uint32_t count);

/* rc_resp.c: the record of a request that was answered; NULL: none. */
struct ur_resource *ur_resp_resource(struct ur_rqp *q, uint8_t kind,
				     uint32_t psn);

/*
 * The requester's part, all for a selective peer.  _clear: forget everything,
 * because all is sent again; _end also frees the memory.
 */
void ur_repair_clear(struct ur_rqp *q);
void ur_repair_end(struct ur_rqp *q);

/*
 * From the responder: it has executed all requests before psn, and what it sent
 * before is here or lost.  False: out of memory, so go back as without it.
 */
bool ur_repair_reached(struct ur_rqp *q, uint32_t psn, uint64_t now_ns);
/*
 * The responder's ePSN.  If an earlier range covered it, the responder has
 * discarded that packet (e.g. a lost RNR NAK): go-back-N.
 */
void ur_repair_expected(struct ur_rqp *q, uint32_t psn);
/* An acknowledge packet with ranges; false: as above. */
bool ur_repair_ranges(struct ur_rqp *q, const struct ur_in *in);
/*
 * The request that awaits a response with that PSN, of which an earlier one is
 * missing; NULL: it came already.  _response: it was placed.
 */
struct ur_swqe *ur_repair_awaiting(struct ur_rqp *q, uint32_t psn);
void ur_repair_response(struct ur_rqp *q, const struct ur_swqe *w, uint32_t psn,
			uint64_t now_ns);
/* Sends what is lost. */
enum ur_emit ur_repair_emit(struct ur_rqp *q, struct ur_burst *t,
			    uint64_t now_ns);
/*
 * No response for two round trips: the last packet is sent again, so that the
 * responder tells what it lacks (a tail loss probe, RFC 8985 section 7).  Others
 * than a urnic get it once.
 */
bool ur_repair_may_probe(struct ur_rqp *q);
enum ur_emit ur_repair_emit_probe(struct ur_rqp *q, struct ur_burst *t);

/* rc_comp.c */
/* n PSNs from una, all of w, are done; the window of `early` was released. */
void ur_req_consume(struct ur_rqp *q, const struct ur_swqe *w, uint32_t n,
		    uint32_t early);
void ur_req_progress(struct ur_rqp *q, uint64_t now_ns);
void ur_req_go_back(struct ur_rqp *q); /* sends everything from una on again */
/* The window that a packet of w fills. */
static inline uint32_t ur_swqe_price(const struct ur_swqe *w)
{
	return (w->length < w->mtu ? w->length : w->mtu) + UR_PKT_OVERHEAD;
}

/* rc_req.c: the packet with that PSN once more; of a READ, a request for `count`
 * packets of its response. */
enum ur_emit ur_req_emit_again(struct ur_rqp *q, struct ur_swqe *w,
			       struct ur_burst *t, uint32_t psn,
			       uint32_t count);
/* The first PSN of the READ request that includes psn, or of any other; and one
 * beyond its last. */
uint32_t ur_req_chunk_start(const struct ur_rqp *q, const struct ur_swqe *w,
			    uint32_t psn);
uint32_t ur_req_chunk_end(const struct ur_rqp *q, const struct ur_swqe *w,
			  uint32_t psn);
/* The memory of w is not accessible: fails w if it is the oldest request; false:
 * it is not. */
bool ur_req_fail_if_oldest(struct ur_rqp *q, const struct ur_swqe *w);

#endif
