/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of cm/.
 *
 *  *	ib_cm.c    the object: input, output, timers, events
 *  *	state.c    the table [state][message], and the effect of timeouts
 *  *	conn.c     the effect of a message on a connection
 *  *	request.c  a new REQ or SIDR_REQ
 *  *	sidr.c     datagram lookups
 *  *	command.c  commands of the owner
 *  *	id.c       life of an id, lookup
 *  *	send.c     building and repeating messages
 *  *	qp_attr.c  attributes for the QP
 *  *	route.c    destination of a MAD, for urnicd
 */
#ifndef UR_CM_INTERNAL_H
#define UR_CM_INTERNAL_H

#include "base/addr.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/timer.h"
#include "cm/ib_cm.h"
#include "cm/table.h"
#include "wire/cm_msg.h"

/*
 * States (IBTA 12.9).  Those of sent MRAs are not distinguished:
 * an MRA is sent whenever the peer asks again, and a received one only moves
 * the timer.
 *
 * IDLE          create, listen, connect
 * LISTEN        destroy
 * REQ_SENT      reject, destroy; waits for REP
 * REQ_RCVD      accept, reject, destroy
 * REP_SENT      reject, disconnect, notify, destroy; waits for RTU
 * REP_RCVD      establish, reject, destroy
 * ESTABLISHED   disconnect, lap, apr, destroy
 * DREQ_SENT     disconnect (no effect), destroy
 * DREQ_RCVD     disconnect (sends the DREP), destroy
 * TIMEWAIT      destroy; packets of the old connection may still be in flight
 * REJ_SENT      destroy; remembers the REJ for a repeated REQ or REP,
 *               also after a REJ of the peer that overtook its own REQ
 * SIDR_*        named after the messages; SIDR_REP_SENT remembers the reply
 * CLOSED        destroy; final
 */
#define UR_CM_STATES(X)                                                        \
	X(IDLE)                                                                \
	X(LISTEN)                                                              \
	X(REQ_SENT)                                                            \
	X(REQ_RCVD)                                                            \
	X(REP_SENT)                                                            \
	X(REP_RCVD)                                                            \
	X(ESTABLISHED)                                                         \
	X(DREQ_SENT)                                                           \
	X(DREQ_RCVD)                                                           \
	X(TIMEWAIT)                                                            \
	X(REJ_SENT)                                                            \
	X(SIDR_REQ_SENT)                                                       \
	X(SIDR_REQ_RCVD)                                                       \
	X(SIDR_REP_SENT)                                                       \
	X(CLOSED)

enum ur_cm_state {
#define X(name) UR_CMS_##name,
	UR_CM_STATES(X)
#undef X
		UR_CMS_COUNT,
};

/* Exchange of LAP and APR, within ESTABLISHED. */
enum ur_cm_lap_state {
	UR_CM_LAP_NONE,
	UR_CM_LAP_SENT,
	UR_CM_LAP_RCVD,
};

#define UR_CM_LIFETIME	       16u /* packet lifetime code: 268 ms */
#define UR_CM_RESPONSE_TIMEOUT 20u /* CM response timeout code: 4.3 s */
#define UR_CM_MAX_RETRIES      15u
#define UR_CM_FAST_RETRIES     4u  /* instead of one full wait */
#define UR_CM_MRA_TIMEOUT      24u /* requested when the owner is slow: 69 s */
#define UR_CM_LINGER_NS	       10000000000u /* REJ_SENT, SIDR_REP_SENT */
#define UR_CM_LINGER_MAX       1024u	    /* lingering ids without an owner */
#define UR_CM_MIN_RNR_TIMER    12u	    /* 0.64 ms */
#define UR_CM_LONG_RNR_TIMER   0u	    /* 655 ms */
#define UR_CM_RNR_INFINITE     7u	    /* infinite retry count */
#define UR_CM_EXTENDED_XRC     1u /* of the extended transports (A14) */

struct ur_cm_id {
	struct ur_cm *cm;
	struct ur_list node;	 /* of cm->ids */
	struct ur_list linger;	 /* in cm->linger: ended and without owner */
	struct ur_list sibling;	 /* of listener->children */
	struct ur_list children; /* LISTEN: requests not yet answered */
	struct ur_cm_link by_local;
	struct ur_cm_link by_remote;  /* REQ and SIDR_REQ: the peer's ID */
	struct ur_cm_link by_qpn;     /* the peer's QP, while connected */
	struct ur_cm_link by_service; /* LISTEN */
	struct ur_timer timer;
	enum ur_cm_state state;
	enum ur_cm_lap_state lap;
	bool owned;	    /* not yet destroyed by its owner */
	bool event_pending; /* its REQUEST event was not taken yet */
	bool active;	    /* we sent the REQ or SIDR_REQ */
	bool has_alt;	    /* alt was negotiated */
	bool mra_sent;	    /* the peer may wait that long */
	uint16_t port_space;
	void *user;
	struct ur_cm_id *listener; /* set while it counts for the backlog */
	/* LISTEN */
	uint8_t addr[16];
	bool v6_only;
	uint32_t backlog;
	uint32_t pending;
	/* The connection. */
	uint64_t service_id;
	uint64_t tid;	     /* of the REQ or SIDR_REQ */
	uint64_t answer_tid; /* of the message to be answered: DREQ, LAP */
	uint64_t remote_guid;
	uint32_t local_id;
	uint32_t remote_id; /* 0: not yet known */
	uint32_t local_qpn;
	uint32_t remote_qpn;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t flow_label;
	enum ur_qp_type qp_type;
	struct ur_cm_path path;
	struct ur_cm_path alt; /* offered or negotiated */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t ack_timeout;	  /* of the QP, code */
	uint8_t ack_timeout_set;  /* by the owner; 0: not set */
	uint8_t response_timeout; /* the peer's, code */
	uint8_t max_retries;
	uint8_t failover;	 /* of the REP: handling of a second path */
	uint8_t retries;	 /* of the message in `mad` */
	uint8_t mad[UR_MAD_LEN]; /* to be repeated by the timer or on request */
};

struct ur_cm_ev_node {
	struct ur_list node;
	struct ur_cm_event ev;
};

struct ur_cm {
	struct ur_cm_config cfg;
	struct ur_rng rng;
	uint32_t id_key[4]; /* of the permutation that makes IDs */
	uint32_t id_next;
	uint32_t tid_high;
	uint64_t hash_key;
	struct ur_list ids;
	uint32_t nids;
	struct ur_list linger; /* oldest first */
	uint32_t nlinger;
	struct ur_cm_table by_local;
	struct ur_cm_table by_remote;
	struct ur_cm_table by_qpn;
	struct ur_cm_table by_service;
	struct ur_timers timers;
	struct ur_list events;
	struct ur_cm_ev_node *spare; /* for the event of the next message */
	struct ur_cm_dgram out[UR_CM_OUTPUT_MAX];
	uint32_t out_head; /* counts up */
	uint32_t out_tail;
	struct ur_cm_counters counters;
};

/* One inbound MAD. */
struct ur_cm_rx {
	struct ur_cm *cm;
	const struct ur_cm_dgram *in;
	struct ur_cm_msg m;
	uint64_t now_ns;
};

/* --- ib_cm.c --- */

/* Allocates the node for one ur_cm_post(): 0 or -ENOMEM. */
int ur_cm_spare(struct ur_cm *cm);

/* Queue an event; the caller fills in the rest. Discarded without owner. */
struct ur_cm_event *ur_cm_post(struct ur_cm_id *id, enum ur_cm_event_type type,
			       int status);
void ur_cm_post_private(struct ur_cm_event *ev, const uint8_t *data,
			unsigned int len);
void ur_cm_purge_events(struct ur_cm_id *id);

/* --- state.c --- */
const char *ur_cm_state_name(enum ur_cm_state state);

/* The only place where a state changes.  CLOSED frees an id without owner. */
void ur_cm_set_state(struct ur_cm_id *id, enum ur_cm_state state);
/* Remember an ended id without owner, within UR_CM_LINGER_MAX. */
void ur_cm_linger(struct ur_cm_id *id);
void ur_cm_message(struct ur_cm_id *id, const struct ur_cm_rx *rx);
void ur_cm_timeout(struct ur_cm_id *id, uint64_t now_ns);

/* --- conn.c: true if the state changes as in the table --- */
typedef bool ur_cm_action(struct ur_cm_id *id, const struct ur_cm_rx *rx);
ur_cm_action ur_cm_on_again; /* repeat the last message */
ur_cm_action
	ur_cm_on_pending; /* repeated request: MRA, the owner has not answered yet */
ur_cm_action ur_cm_on_dup;	 /* counted, no answer */
ur_cm_action ur_cm_on_stale;	 /* REQ of a connection that has ended */
ur_cm_action ur_cm_on_req_ended; /* REQ of one that its owner has ended */
ur_cm_action ur_cm_on_mra;
ur_cm_action ur_cm_on_rej;	 /* of our REQ */
ur_cm_action ur_cm_on_rej_early; /* of a request to us, or our REP */
ur_cm_action ur_cm_on_rej_late;	 /* for an established connection */
ur_cm_action ur_cm_on_rej_dreq;	 /* while disconnecting */
ur_cm_action ur_cm_on_rep;
ur_cm_action ur_cm_on_rep_dup;
ur_cm_action ur_cm_on_rtu;
ur_cm_action ur_cm_on_dreq;
ur_cm_action ur_cm_on_dreq_early;
ur_cm_action ur_cm_on_dreq_cross;
ur_cm_action ur_cm_on_dreq_dup;
ur_cm_action ur_cm_on_drep;
ur_cm_action ur_cm_on_lap;
ur_cm_action ur_cm_on_apr;

void ur_cm_end_stale(struct ur_cm_id *old, uint64_t now_ns);

/* --- request.c, sidr.c --- */
void ur_cm_on_request(const struct ur_cm_rx *rx);
void ur_cm_on_sidr_request(const struct ur_cm_rx *rx);
ur_cm_action ur_cm_on_sidr_rep;

/* A new id for a request to listener, which counts it in its backlog; NULL:
 * dropped. */
struct ur_cm_id *ur_cm_child(struct ur_cm_id *listener,
			     const struct ur_cm_rx *rx,
			     const struct ur_cma_hdr *hdr);

/*
 * Decode the CMA header of a REQ or SIDR_REQ; true if it matches the datagram.
 */
bool ur_cm_check_hdr(const struct ur_cm_rx *rx, struct ur_cma_hdr *hdr);

/* --- qp_attr.c --- */
void ur_cm_path_av(const struct ur_cm_id *id, const struct ur_cm_path *path,
		   struct ur_av *av);

/* --- id.c --- */
struct ur_cm_id *ur_cm_id_new(struct ur_cm *cm, uint16_t port_space);
void ur_cm_id_free(struct ur_cm_id *id);
bool ur_cm_is_datagram(const struct ur_cm_id *id);
uint64_t ur_cm_tid(const struct ur_cm_id *id);
uint32_t ur_cm_draw_psn(struct ur_cm *cm);

/* Enter the keys by which the peer's messages find it. */
void ur_cm_enter_remote(struct ur_cm_id *id);
void ur_cm_enter_qpn(struct ur_cm_id *id);
void ur_cm_path_changed(struct ur_cm_id *id);

struct ur_cm_id *ur_cm_find_local(struct ur_cm *cm, uint32_t local_id);
struct ur_cm_id *ur_cm_find_remote(struct ur_cm *cm, bool datagram,
				   const uint8_t addr[16], uint64_t guid,
				   uint32_t remote_id);
struct ur_cm_id *ur_cm_find_qpn(struct ur_cm *cm, const uint8_t addr[16],
				uint64_t guid, uint32_t qpn);
struct ur_cm_id *ur_cm_find_listener(struct ur_cm *cm, bool datagram,
				     uint64_t service_id,
				     const uint8_t addr[16]);
void ur_cm_enter_service(struct ur_cm_id *id);
bool ur_cm_listener_exists(struct ur_cm *cm, uint64_t service_id,
			   const uint8_t addr[16], bool v6_only);

/* --- send.c --- */

/* 4.096 us * 2^code (IBTA 9.7.6.1.3), within our limits. */
uint64_t ur_cm_code_ns(unsigned int code);

/* The QP's ack timeout for a path and the other side's delay. */
uint8_t ur_cm_ack_timeout(unsigned int lifetime, unsigned int ack_delay);

/* Initialise *m with the id's comm IDs. */
void ur_cm_msg_init(const struct ur_cm_id *id, struct ur_cm_msg *m,
		    enum ur_cm_attr attr, uint64_t tid);
void ur_cm_set_private(struct ur_cm_msg *m, const void *data, uint8_t len);

/* Send once; _kept: keep it, to be repeated when the peer asks. */
void ur_cm_send(struct ur_cm_id *id, const struct ur_cm_msg *m);
void ur_cm_send_kept(struct ur_cm_id *id, const struct ur_cm_msg *m);
/* Likewise, and repeated by the timer. */
void ur_cm_send_timed(struct ur_cm_id *id, const struct ur_cm_msg *m,
		      uint64_t now_ns);
void ur_cm_send_again(struct ur_cm_id *id);
void ur_cm_arm_retry(struct ur_cm_id *id, uint64_t now_ns);
bool ur_cm_may_retry(const struct ur_cm_id *id);
/* To the source of a datagram. */
void ur_cm_send_back(struct ur_cm *cm, const struct ur_cm_dgram *out);

void ur_cm_send_mra(struct ur_cm_id *id, enum ur_cm_about about);
void ur_cm_send_rtu(struct ur_cm_id *id);
void ur_cm_send_drep(struct ur_cm_id *id, uint64_t tid);
void ur_cm_send_dreq(struct ur_cm_id *id, uint64_t now_ns);
void ur_cm_send_rej_timeout(struct ur_cm_id *id);

/* Start TIMEWAIT. */
void ur_cm_arm_timewait(struct ur_cm_id *id, uint64_t now_ns);
void ur_cm_arm_linger(struct ur_cm_id *id, uint64_t now_ns);

#endif
