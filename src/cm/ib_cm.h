/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand communication manager (IBTA 12) of one process: a pure
 * protocol object.  MADs enter by ur_cm_input() and leave by ur_cm_output(),
 * time is an argument, and ur_cm_take_event() returns events for the owner.
 * No thread, socket, clock or lock: the engine runs it under one lock, the
 * simulator and the fuzzer without any.
 *
 * After every call that takes `now_ns`, fetch all output and events and check
 * the deadline again.
 *
 * A struct ur_cm_id is a listener, one side of a connection, or one side of a
 * datagram lookup (SIDR).  It is the owner's from ur_cm_id_create(), or from
 * the UR_CM_REQUEST that brings it, to ur_cm_id_destroy(); afterwards the
 * protocol finishes on its own (repeats a DREQ, answers late messages of the
 * peer).
 *
 * Communication IDs and SIDR request IDs are slot (10 bits) | number (22 bits,
 * unpredictable, reused late), so that MADs can be routed by them.
 */
#ifndef UR_CM_IB_CM_H
#define UR_CM_IB_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/counters.h"
#include "core/qp.h"
#include "core/types.h"

#define UR_CM_MAD_LEN	  256u
#define UR_CM_PRIVATE_MAX 224u	 /* the longest private data of a message */
#define UR_CM_BACKLOG_MAX 1024u	 /* also the meaning of a backlog <= 0 */
#define UR_CM_MAX_IDS	  65536u /* per process, all kinds */
#define UR_CM_OUTPUT_MAX  128u	 /* messages queued for ur_cm_output() */
#define UR_CM_UDP_QKEY	  0x01234567u /* of RDMA_PS_UDP, as in the kernel */
#define UR_CM_HOP_LIMIT	  64u
#define UR_CM_SLOT(id)	  ((id) >> 22)

/* Space for the owner's data in REQ and SIDR_REQ, after the CMA header. */
#define UR_CM_PRIVATE_REQ      56u
#define UR_CM_PRIVATE_REP      196u
#define UR_CM_PRIVATE_REJ      148u
#define UR_CM_PRIVATE_SIDR_REQ 180u
#define UR_CM_PRIVATE_SIDR_REP 136u
#define UR_CM_PRIVATE_LAP      168u
#define UR_CM_PRIVATE_APR      148u

/* Reasons of a REJ (IBTA 12.6.7.2) that are sent or recognized. */
enum ur_cm_rej {
	UR_CM_REJ_NO_QP = 1,
	UR_CM_REJ_NO_RESOURCES = 3,
	UR_CM_REJ_TIMEOUT = 4,
	UR_CM_REJ_UNSUPPORTED = 5,
	UR_CM_REJ_INVALID_COMM_ID = 6,
	UR_CM_REJ_INVALID_SERVICE_ID = 8,
	UR_CM_REJ_INVALID_TRANSPORT = 9,
	UR_CM_REJ_STALE_CONN = 10,
	UR_CM_REJ_INVALID_GID = 12,
	UR_CM_REJ_INVALID_MTU = 26,
	UR_CM_REJ_CONSUMER = 28,
	UR_CM_REJ_VENDOR_OPTION = 35,
};

/* Status of an APR (IBTA 12.8). */
enum ur_cm_apr {
	UR_CM_APR_SUCCESS = 0,
	UR_CM_APR_INVALID_COMM_ID = 1,
	UR_CM_APR_UNSUPPORTED = 2,
	UR_CM_APR_REJECT = 3,
	UR_CM_APR_IS_CURRENT = 5,
	UR_CM_APR_INVALID_QPN = 6,
	UR_CM_APR_INVALID_GID = 8,
};

/* Status of a SIDR_REP (IBTA 12.11). */
enum ur_cm_sidr {
	UR_CM_SIDR_SUCCESS = 0,
	UR_CM_SIDR_UNSUPPORTED = 1,
	UR_CM_SIDR_REJECT = 2,
	UR_CM_SIDR_NO_QP = 3,
};

struct ur_cm;
struct ur_cm_id;

/* One MAD between two QP1s.  Addresses are GIDs, IPv4 mapped. */
struct ur_cm_dgram {
	uint8_t src[16];
	uint8_t dst[16];
	uint32_t scope_id; /* interface of a link-local address, else 0 */
	uint8_t tclass;
	uint8_t hop_limit; /* output only */
	uint8_t mad[UR_CM_MAD_LEN];
};

struct ur_cm_config {
	uint32_t slot;	   /* upper ten bits of our IDs */
	uint64_t ca_guid;  /* node GUID of the device, host byte order */
	uint8_t ack_delay; /* the device's local_ca_ack_delay code */
	uint64_t seed; /* for IDs and PSNs: must be secret except in tests */
};

/* The path of a connection. Addresses as GIDs (IPv4 mapped), host order. */
struct ur_cm_path {
	uint8_t local[16];
	uint8_t remote[16];
	uint16_t local_port;
	uint16_t remote_port;
	uint32_t scope_id;
	uint8_t tclass;
	uint8_t hop_limit;   /* 0: 64 */
	uint8_t mtu;	     /* code 1..5, of the local interface */
	uint8_t ack_timeout; /* code; 0: derived from the path */
};

/*
 * Parameters exchanged by the two sides. private_data is copied; in events it
 * has the length of the message's field, since the sender's length is not
 * transmitted. In events the depths are already swapped: the receiver's own
 * limits.
 */
struct ur_cm_param {
	const void *private_data;
	uint8_t private_len;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint32_t qpn;
	uint32_t qkey; /* UD; 0 when sent: UR_CM_UDP_QKEY */
	/* RC, UC; XRC_SEND on the connecting side, XRC_RECV on the accepting
	 * one; UD in datagram spaces. */
	enum ur_qp_type qp_type;
	uint32_t ece_vendor; /* 24 bits; 0: none */
	uint32_t ece_options;
	struct ur_qp *qp; /* iWARP only: the QP that becomes connected */
};

enum ur_cm_event_type {
	UR_CM_REQUEST,	    /* `id` is new, to be answered by the owner */
	UR_CM_RESPONSE,	    /* REP: continue with establish or reject */
	UR_CM_ESTABLISHED,  /* passive side: RTU or notify; SIDR: result */
	UR_CM_REJECTED,	    /* status: enum ur_cm_rej */
	UR_CM_UNREACHABLE,  /* -ETIMEDOUT, or > 0: enum ur_cm_sidr */
	UR_CM_DISCONNECTED, /* 0, or -ETIMEDOUT: no DREP came */
	UR_CM_TIMEWAIT_EXIT,
	UR_CM_ALT_PATH,	       /* LAP of a usable path: answer by ur_cm_apr() */
	UR_CM_ALT_PATH_RESULT, /* status: enum ur_cm_apr, or -ETIMEDOUT */
};

struct ur_cm_event {
	enum ur_cm_event_type type;
	int status;
	struct ur_cm_id *id;
	void *user; /* the id's; in a REQUEST the listener's */
	struct ur_cm_param param;
	/* REQUEST: our and the peer's address; .mtu is the peer's. ALT_PATH:
	 * the offered one. */
	struct ur_cm_path path;
	struct ur_av av; /* SIDR result: destination of datagrams */
	uint8_t private_data[UR_CM_PRIVATE_MAX];
};

int ur_cm_create(const struct ur_cm_config *cfg, struct ur_cm **out);

/* Frees everything including ids; nothing is sent. */
void ur_cm_destroy(struct ur_cm *cm);

/* The service ID of a port in a port space (enum ur_port_space). */
static inline uint64_t ur_cm_service_id(uint16_t port_space, uint16_t port)
{
	return (uint64_t)port_space << 16 | port;
}

/* --- The four entry points. --- */

/*
 * A MAD has arrived. Invalid ones are dropped and counted; there is no error.
 */
void ur_cm_input(struct ur_cm *cm, const struct ur_cm_dgram *in,
		 uint64_t now_ns);

/* The next MAD to send; false if there is none. */
bool ur_cm_output(struct ur_cm *cm, struct ur_cm_dgram *out);

/* When ur_cm_expire() wants to be called; UR_NEVER. */
uint64_t ur_cm_deadline(const struct ur_cm *cm);

/* Run expired timers. Stops early if the output is full: then the deadline is
 * still in the past. */
void ur_cm_expire(struct ur_cm *cm, uint64_t now_ns);

/* The next event; false if there is none. ev->param.private_data points into
 * *ev, or is NULL. No events of destroyed ids. */
bool ur_cm_take_event(struct ur_cm *cm, struct ur_cm_event *ev);

/* True once no destroyed id has anything left to repeat (a DREQ without its
 * DREP): the process may exit. */
bool ur_cm_idle(const struct ur_cm *cm);

const struct ur_cm_counters *ur_cm_counters(const struct ur_cm *cm);

/* --- Commands of the owner.  0 or -errno; -EINVAL: not in this state, or
 * private data longer than the message has space for. --- */

/* port_space: 0x0106 TCP and 0x013f IB are connections, others datagrams.
 * -ENOMEM; -ENOSPC: UR_CM_MAX_IDS. */
int ur_cm_id_create(struct ur_cm *cm, uint16_t port_space, void *user,
		    struct ur_cm_id **out);
void ur_cm_id_destroy(struct ur_cm_id *id, uint64_t now_ns);
void ur_cm_id_set_user(struct ur_cm_id *id, void *user);

/*
 * Requests for the port at `addr`; :: takes all addresses (without IPv4 if
 * v6_only), ::ffff:0.0.0.0 all of IPv4. The most specific listener gets a
 * request. At most `backlog` requests wait for their answer (accept, reject,
 * destroy, ur_cm_request_seen()); the rest are dropped, and the peers retry.
 * -EADDRINUSE: an identical listener exists.
 */
int ur_cm_listen(struct ur_cm_id *id, const uint8_t addr[16], uint16_t port,
		 bool v6_only, int backlog);

/* A waiting request no longer counts for the backlog. */
void ur_cm_request_seen(struct ur_cm_id *id);

/* REQ, or SIDR_REQ in a datagram port space. */
int ur_cm_connect(struct ur_cm_id *id, const struct ur_cm_path *path,
		  const struct ur_cm_param *param, uint64_t now_ns);

/* After RESPONSE: RTU.  No event follows. */
int ur_cm_establish(struct ur_cm_id *id, uint64_t now_ns);

/* After REQUEST: REP, or SIDR_REP.  Depths: ours, as the event gave them. */
int ur_cm_accept(struct ur_cm_id *id, const struct ur_cm_param *param,
		 uint64_t now_ns);

/* After REQUEST or RESPONSE, and instead of waiting for the RTU. reason 0:
 * UR_CM_REJ_CONSUMER. For datagrams a SIDR_REP with UR_CM_SIDR_REJECT. */
int ur_cm_reject(struct ur_cm_id *id, uint16_t reason, const void *private_data,
		 uint8_t private_len, uint64_t now_ns);

/* DREQ, or the DREP for the peer's. Also 0 if it has ended already; -EINVAL:
 * was never connected. */
int ur_cm_disconnect(struct ur_cm_id *id, uint64_t now_ns);

/* The QP has received before the RTU came: established. */
int ur_cm_notify(struct ur_cm_id *id, uint64_t now_ns);

/* Offer the peer an alternate path; ALT_PATH_RESULT follows. */
int ur_cm_lap(struct ur_cm_id *id, const struct ur_cm_path *alt,
	      const void *private_data, uint8_t private_len, uint64_t now_ns);
/* The QP has migrated: messages go by the negotiated path, if any, and the old
 * one is the alternate now. -EINVAL: not connected. */
int ur_cm_migrate(struct ur_cm_id *id);

/* Answer to ALT_PATH. */
int ur_cm_apr(struct ur_cm_id *id, enum ur_cm_apr status,
	      const void *private_data, uint8_t private_len, uint64_t now_ns);

/*
 * The QP attributes for its next state (INIT, RTR, RTS): only fields of *mask
 * are set. av.sgid is our address; the caller finds its sgid_index. Before
 * connect or accept only INIT (connections), and always for datagrams.
 */
int ur_cm_qp_attr(const struct ur_cm_id *id, enum ur_qp_state state,
		  struct ur_qp_attr *attr, uint32_t *mask);

/* Override the ack timeout of the QP (code), RDMA_OPTION_ID_ACK_TIMEOUT. */
void ur_cm_id_set_ack_timeout(struct ur_cm_id *id, uint8_t code);

/* --- For diagnostics and routing. --- */

struct ur_cm_info {
	const char *state;
	uint32_t local_id;
	uint32_t remote_id;
	uint32_t local_qpn;
	uint32_t remote_qpn;
	uint64_t service_id;
	struct ur_cm_path path;
};
void ur_cm_id_info(const struct ur_cm_id *id, struct ur_cm_info *info);
void ur_cm_for_each(const struct ur_cm *cm,
		    void (*fn)(void *arg, const struct ur_cm_id *id),
		    void *arg);

#endif
