/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder: one memory file of a process, which urnicd has as well,
 * so that it can be read after the process has ended.  It holds
 *
 * - for each queue pair a ring of its last exceptional events, and what the
 *   queue pair was at the last of them (struct ur_record_qp),
 * - a ring of events of the process: connections that were refused, requests
 *   that were not accepted, injected faults,
 * - the keys that were removed last.
 *
 * Ordinary requests and packets are not recorded: PSNs and queue counters say
 * how far a queue pair has come.
 *
 * Writers: a queue pair's ring, the thread that holds its lane; the rest, under
 * ur_recorder.lock.  Readers take no lock: an entry has a version, which is odd
 * while the entry is written, so an entry of a process that was killed just
 * then is skipped.  A reader trusts nothing in the file but its size, and a writer
 * not even that what it wrote is still there: other processes of the user get the
 * file from urnicd.
 *
 * An event that equals an earlier one since the last change of state only
 * increments its count, so that a stall does not displace the history.
 */
#ifndef UR_CORE_RECORD_H
#define UR_CORE_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "core/types.h"

#define UR_RECORD_MAGIC	 0x75725231u /* "urR1" */
#define UR_RECORD_EVENTS 20u	     /* of a queue pair */
#define UR_RECORD_NOTES	 64u	     /* of the process */
#define UR_RECORD_KEYS	 1024u	     /* removed ones */
#define UR_RECORD_QPS	 2048u	     /* queue pairs beyond are not recorded */
/* Rings of destroyed queue pairs that are kept before one is used again. */
#define UR_RECORD_GONE	 64u
#define UR_RECORD_ARGS	 8u
/* arg of every event that a request to a target of DC has caused: the initiator,
 * see ur_record_from(); 0: another event. */
#define UR_RECORD_FROM	 7u

/* What happened; `code` and `arg` depend on it. */
enum ur_record_type {
	UR_REC_NONE,
	UR_REC_STATE, /* code: the new state; arg: old, 1: by a call */
	UR_REC_WC, /* code: status; arg: wr_id, opcode (UR_WR_), length, first
			  * PSN, remote address, rkey, oldest PSN that is not
			  * acknowledged */
	UR_REC_RECV_WC, /* code: status; arg: wr_id, -, buffer length, received */
	UR_REC_KEY, /* code: errno; side: enum ur_record_side; arg: see below */
	UR_REC_REFUSED,	 /* code: enum ur_record_reason; arg: operation (wire),
			  * access of the QP, expected, found, PSN */
	UR_REC_NAK_SENT, /* code: syndrome; arg: PSN */
	UR_REC_NAK_RCVD, /* code: syndrome; arg: PSN */
	UR_REC_TIMEOUT,	 /* arg: PSN, retries left */
	UR_REC_DROP,	 /* code: enum ur_record_reason; arg: found, expected */
	UR_REC_EVENT,	 /* code: enum ur_event_type */
	UR_REC_MODIFY,	 /* code: errno; arg: from, to, mask */
	UR_REC_POST, /* of the process. code: errno; side: 1 receive; arg: QPN,
			  * opcode, state, requests in the queue, its size */
	UR_REC_CM, /* of the process. code: enum ur_record_cm; side: reason of the REJ; arg: QPN,
			  * status of the event (errno), peer's address (2), port */
	UR_REC_TERMINATED, /* iWARP, from the peer. code: error code; side: layer
			  * << 4 | type (RFC 5040, 4.8); arg: the segment that
			  * it is about: enum ur_record_segment, STag, offset or
			  * MSN */
	UR_REC_FAULT, /* of the process, injected. code: enum ur_record_fault;
			  * arg: see there */
	UR_REC_TYPES,
};

/* Faults that no packet shows (urnic-fault(7)). */
enum ur_record_fault {
	UR_REC_F_LATE_CQ = 1, /* arg: handle of the last CQ, how late (ns) */
	UR_REC_F_FORK,	      /* arg: 0, how long the child lives (ns) */
};

enum ur_record_segment {
	UR_REC_SEG_UNKNOWN,
	UR_REC_SEG_TAGGED,
	UR_REC_SEG_UNTAGGED, /* STag: the queue number */
};

/* arg of UR_REC_KEY */
enum ur_record_key_arg {
	UR_RECK_KEY, /* key | handle of the PD << 32 */
	UR_RECK_VA,
	UR_RECK_LENGTH,
	UR_RECK_NEED,	/* UR_ACCESS_ | a window: the QPN that bound it << 32 |
			 * UR_RECK_WINDOW */
	UR_RECK_IOVA,	/* what was there; 0 with ENOENT */
	UR_RECK_HAS,	/* its length */
	UR_RECK_GRANTS, /* its UR_ACCESS_ | handle of its PD << 32 */
};
#define UR_RECK_WINDOW (1ull << 63)

enum ur_record_side {
	UR_REC_REMOTE, /* a peer's request named it */
	UR_REC_SEND,   /* element of a send request */
	UR_REC_RECV,   /* element of a receive */
};

/* Why a packet was refused or dropped. */
enum ur_record_reason {
	UR_REC_R_SEQUENCE = 1, /* opcode does not continue the message */
	UR_REC_R_QP_ACCESS,    /* the QP does not allow the operation */
	UR_REC_R_OPERATION,    /* not supported */
	UR_REC_R_TOO_LONG,     /* the receive is shorter */
	UR_REC_R_LENGTH,       /* not as path MTU or RETH say */
	UR_REC_R_ALIGNMENT,    /* an atomic */
	UR_REC_R_RESOURCES,    /* more READs or atomics than agreed */
	UR_REC_R_INVALIDATE,   /* a key that may not be invalidated */
	UR_REC_R_STATE,	       /* the QP does not receive in its state */
	UR_REC_R_TRANSPORT,    /* of another type of QP */
	UR_REC_R_PKEY,
	UR_REC_R_QKEY,
	UR_REC_R_PEER,	    /* from an address that is not the peer's */
	UR_REC_R_NO_RECV,   /* UC, UD */
	UR_REC_R_UD_LENGTH, /* UD: does not fit into the receive */
	UR_REC_R_CQ_OVERRUN,
	UR_REC_R_SRQ,	     /* XRC: no such queue */
	UR_REC_R_DC_KEY,     /* DC: another access key than the target's */
	UR_REC_R_DC_MTU,     /* DC: a larger path MTU than the target's */
	UR_REC_R_DC_ADDRESS, /* DC: to another address than the target's GID */
	UR_REC_R_FPDU_CRC,   /* iWARP */
	UR_REC_R_FPDU, /* iWARP: headers that are not valid, or out of order */
	UR_REC_R_UNBUFFERED, /* iWARP: a SEND without a receive */
	UR_REC_REASONS,
};

enum ur_record_cm {
	UR_REC_CM_REJECTED = 1,
	UR_REC_CM_UNREACHABLE,
	UR_REC_CM_ERROR,
	UR_REC_CM_DISCONNECTED,
	UR_REC_CM_RESOLVE,
};

struct ur_record_event {
	_Atomic uint32_t version; /* odd: it is being written */
	uint32_t number;	  /* 1 is the first of its ring; 0: unused */
	uint32_t count;
	uint8_t type; /* enum ur_record_type */
	uint8_t code;
	uint8_t side;
	uint8_t rest;
	uint64_t first_ns; /* CLOCK_MONOTONIC */
	uint64_t last_ns;
	uint64_t same_ns; /* since then with the same arg[0] */
	uint64_t arg[UR_RECORD_ARGS];
};

/* A queue pair as it was at `at_ns`: the last event, or report. */
struct ur_record_qp {
	_Atomic uint32_t version;
	uint32_t serial; /* 0: the ring was never used */
	uint32_t qpn;
	uint32_t dest_qpn;
	uint8_t type;
	uint8_t state;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic;
	uint8_t dest_rd_atomic;
	uint8_t mtu; /* code */
	/* Flags, not bool: a file from elsewhere may hold any value. */
	uint8_t has_srq;
	uint8_t failed; /* a completion has failed, or the peer's request */
	uint8_t rnr_wait;
	uint32_t access;
	uint32_t pd;
	uint64_t made_ns;
	uint64_t gone_ns; /* destroyed; 0: not yet */
	uint64_t at_ns;
	uint8_t sgid[16];
	uint8_t dgid[16];
	uint32_t sends; /* in the queue */
	uint32_t send_max;
	uint32_t receives; /* in the queue, its own or the SRQ's */
	uint32_t una;	   /* PSN: the oldest that is not acknowledged */
	uint32_t end;	   /* PSN: the next new one */
	uint32_t epsn;	   /* PSN that the peer is to send next */
	uint32_t rq_psn;   /* as the attributes set them */
	uint32_t sq_psn;
	uint32_t flushed; /* completions */
	uint32_t rest;
	uint64_t
		progress_ns; /* the last response that acknowledged something */
	uint64_t oldest_wr_id;
	uint32_t oldest_opcode;
	uint32_t oldest_length;
	uint64_t rest2[12];
};

struct ur_record_ring {
	struct ur_record_qp qp;
	struct ur_record_event event[UR_RECORD_EVENTS];
};

enum ur_record_why {
	UR_REC_DEREGISTERED = 1,
	UR_REC_REREGISTERED, /* another range, PD or rights */
	UR_REC_UNBOUND, /* a window: unbound, bound to another range, or destroyed */
};

struct ur_record_key {
	_Atomic uint32_t version;
	uint32_t key; /* 0: unused */
	uint32_t access;
	uint32_t pd;
	uint64_t iova;
	uint64_t length;
	uint64_t gone_ns;
	uint32_t thread; /* that removed it */
	uint32_t why;	 /* enum ur_record_why */
	uint64_t rest[2];
};

struct ur_record_head {
	uint32_t magic;
	uint32_t pid;
	uint64_t start_ns;	     /* CLOCK_MONOTONIC */
	uint64_t start_real_ns;	     /* CLOCK_REALTIME at the same time */
	_Atomic uint32_t qps;	     /* rings that were ever used */
	_Atomic uint32_t failures;   /* of completions and connections */
	_Atomic uint32_t unrecorded; /* queue pairs without a ring */
	uint32_t rest;
	char comm[16];
	uint64_t
		end_ns; /* by exit(), else urnicd; 0: runs, or killed without urnicd */
	uint8_t rest2[4032];
};

struct ur_record_file {
	struct ur_record_head head;
	struct ur_record_key key[UR_RECORD_KEYS];
	struct ur_record_event note[UR_RECORD_NOTES];
	struct ur_record_ring ring[UR_RECORD_QPS];
};

/* Two versions of this software may meet. */
_Static_assert(sizeof(struct ur_record_head) == 4096, "layout");
_Static_assert(sizeof(struct ur_record_event) == 104, "layout");
_Static_assert(sizeof(struct ur_record_qp) == 256, "layout");
_Static_assert(sizeof(struct ur_record_key) == 64, "layout");

struct ur_mr;
struct ur_mr_table;
struct ur_pd;
struct ur_qp;
struct ur_swqe;

/* The writer's side of the file, one in a process. */
struct ur_recorder {
	struct ur_record_file *file;
	struct ur_lock lock;
	uint64_t (*now)(void);
	uint32_t (*thread)(void);
	/*
	 * The first failing completion of a queue pair, or of its peer's
	 * requests, is recorded; or NULL. Called under the lane's lock.
	 */
	void (*failed)(struct ur_qp *qp);
	uint32_t notes; /* number of the last one */
	uint32_t rings; /* that were ever used */
	uint32_t keys;
	uint32_t serial;
	uint32_t gone[UR_RECORD_QPS]; /* rings of destroyed QPs: a queue */
	uint32_t gone_head;
	uint32_t gone_tail;
};

/* In a queue pair; ring is NULL: it is not recorded. */
struct ur_record_writer {
	struct ur_record_ring *ring;
	/* Writes the protocol's part of ur_record_qp; or NULL. */
	void (*fill)(const struct ur_qp *qp, struct ur_record_qp *to);
	/*
	 * A connection of a target of DC: events are the target's, and `ring` is
	 * only its ring at the time; NULL: none.
	 */
	struct ur_qp *target;
	uint64_t from;	 /* the same: the initiator, UR_RECORD_FROM */
	uint32_t events; /* number of the last one */
	bool late;	 /* the ring is taken by the first fault */
	bool failed;
	bool flushed; /* a completion was, in this state */
	bool called;  /* the application changes it just now */
};

/* An event to be recorded. */
struct ur_record {
	enum ur_record_type type;
	uint8_t code;
	uint8_t side;
	uint64_t arg[UR_RECORD_ARGS];
};

/* NULL: nothing is recorded. It stays for the life of the process. */
extern struct ur_recorder *_Atomic ur_recorder;

/* `file` is zeroed; from now on it is written. */
void ur_recorder_start(struct ur_recorder *r, struct ur_record_file *file,
		       uint32_t pid, const char *comm, uint64_t real_ns);

/* A queue pair has its number, or is about to go; under the lane's lock. */
void ur_record_open(struct ur_qp *qp);
void ur_record_close(struct ur_qp *qp);

/* The address of a packet and the queue pair that it is from. */
static inline uint64_t ur_record_from(const uint8_t gid[16], uint32_t qpn)
{
	return (uint64_t)gid[12] << 56 | (uint64_t)gid[13] << 48 |
	       (uint64_t)gid[14] << 40 | (uint64_t)gid[15] << 32 | qpn;
}

/* Under the lane's lock. */
void ur_record_add(struct ur_qp *qp, const struct ur_record *e);

/* The same; for events that do not say more than their code. */
void ur_record_code(struct ur_qp *qp, enum ur_record_type type, uint8_t code,
		    uint64_t arg);

/* A change of the queue pair's attributes was refused. */
struct ur_qp_attr;
void ur_record_modify(struct ur_qp *qp, const struct ur_qp_attr *attr,
		      uint32_t mask, int err);

/* The queue pair has changed from that state. */
void ur_record_state(struct ur_qp *qp, enum ur_qp_state from);

/* Bring ur_record_qp up to date. */
void ur_record_refresh(struct ur_qp *qp);

/* A send request is complete with an error. */
void ur_record_wc(struct ur_qp *qp, const struct ur_swqe *w,
		  enum ur_wc_status status);
/* The same for the current receive. */
void ur_record_recv_wc(struct ur_qp *qp, uint64_t wr_id, uint32_t room,
		       uint32_t received, enum ur_wc_status status);
/* The peer's request has ended the queue pair. */
void ur_record_failed(struct ur_qp *qp);

/* Which access to memory was refused: what was there is looked up. */
struct ur_record_access {
	const struct ur_pd *pd;
	uint32_t key;
	uint32_t need; /* UR_ACCESS_ */
	uint64_t va;
	uint64_t length;
	enum ur_record_side side;
};
void ur_record_access(struct ur_qp *qp, const struct ur_record_access *a);
/* The first element of a list that may not be accessed; `need` as above. */
void ur_record_list(struct ur_qp *qp, const struct ur_pd *pd,
		    const struct ur_sge *sge, uint32_t n, uint32_t need,
		    enum ur_record_side side);

/* A request was not accepted; locks of queues may be held. err: positive errno. */
void ur_record_post(const struct ur_qp *qp, bool receive, int err);

/* Of the process. */
void ur_record_note(const struct ur_record *e);
/* A connection could not be had, or a call failed: count it. */
void ur_record_failure(void);
void ur_record_key_gone(const struct ur_mr *mr, enum ur_record_why reason);

/* Readers: a copy of an entry; false: it is unused, or was being written. */
bool ur_record_read(const struct ur_record_event *from,
		    struct ur_record_event *to);
bool ur_record_read_qp(const struct ur_record_qp *from,
		       struct ur_record_qp *to);
bool ur_record_read_key(const struct ur_record_key *from,
			struct ur_record_key *to);

#endif
