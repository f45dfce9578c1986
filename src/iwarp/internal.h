/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of iwarp/. Everything here is accessed only under the
 * lane's lock.
 *
 * Receiving: rx.c (MPA framing, destination of bytes), ddp.c (validity and
 * placement of a segment), rdmap.c (effect of a message). Sending: req.c (send
 * requests) and answer.c (READ and atomic responses), then tx.c (FPDUs in
 * batches of iovecs). terminate.c ends a stream, in either direction; fault.c
 * maps errors.
 */
#ifndef UR_IWARP_INTERNAL_H
#define UR_IWARP_INTERNAL_H

#include <string.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/timer.h"
#include "core/sge.h"
#include "iwarp/iwarp.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

#define UR_IW_INDEX_MASK ((1u << UR_SLOT_SHIFT) - 1u)

/* A payload of at least this size is read directly to its destination. */
#define UR_IW_DIRECT_MIN  8192u
/* Its last bytes are stored after the CRC was checked: a program that polls on
 * the end of a message sees it last and only if it is valid. */
#define UR_IW_DIRECT_HOLD 16u

/* The buffer of received bytes that are not yet parsed. */
#define UR_IW_RX_BUF	     65536u
#define UR_IW_RX_BUF_MARKERS 73728u
/* Receive buffers that a lane keeps for its next connections, with the pages
 * that were touched: at most 512 KiB.  A program that connects again and again
 * needs one, or one for each thread that does so; more than eight are not worth
 * the memory that a lane keeps without use. */
#define UR_IW_SPARE_BUFS     8u

/* A request of the peer that is not answered completely. */
struct ur_iw_inbound {
	bool atomic;
	uint32_t stag; /* READ: sink and source, size */
	uint64_t to;
	uint32_t src_stag;
	uint64_t src_to;
	uint32_t len;
	uint32_t id; /* atomic */
	uint64_t orig;
};

#define UR_IW_BATCH_FPDUS  128u
#define UR_IW_BATCH_BYTES  262144u
#define UR_IW_BATCH_LINEAR 139264u
/* Room after the batch, into which the rest of an FPDU is copied
 * (ur_iw_tx_cut()). */
#define UR_IW_BATCH_SPARE  65600u

/* FPDUs to be given to TCP. A stream has one while it has bytes to send; the
 * lane keeps unused ones. */
struct ur_iw_batch {
	struct ur_list node; /* in ur_iwarp.batches while unused */
	uint32_t niov;
	uint32_t first; /* first piece that is not wholly sent */
	uint32_t skip;	/* bytes of it that are sent */
	uint32_t bytes;
	uint32_t sent;
	uint32_t nfpdu;
	uint32_t next_fpdu; /* the first that is not wholly sent */
	uint32_t linear_len;
	struct {
		uint32_t end;	   /* in bytes of the batch */
		uint32_t niov;	   /* pieces up to its end */
		uint32_t last_len; /* length of the last of these then */
		bool whole;	   /* the last FPDU of a send request */
		uint32_t request;  /* that request's counter in the SQ */
	} fpdu[UR_IW_BATCH_FPDUS];
	struct iovec iov[UR_IW_TX_IOV];
	uint8_t linear[UR_IW_BATCH_LINEAR + UR_IW_BATCH_SPARE];
};

struct ur_iw_tx {
	struct ur_iw_batch *batch; /* NULL: all is sent */
	bool blocked;		   /* TCP accepted less than offered */
	bool rtr_due;
	bool rtr_read; /* the RTR was a READ; its response is outstanding */
	bool hold; /* responder: waits for the peer's first FPDU (RFC 5044, 7.1) */
	uint8_t rtr_repeats; /* initiator: RTR repetitions left while the peer is silent */
	bool last_was_response; /* the last message was a response: a request comes next */
	/* Requests. */
	uint32_t cur;	  /* SQ counter of the current or next request */
	uint32_t off;	  /* bytes of it that are in FPDUs */
	bool in_message;  /* it was started */
	bool imm_pending; /* WRITE with immediate: only the immediate is left */
	uint32_t sent;	  /* TCP has accepted all before this counter */
	uint8_t stuck;	  /* status with which `cur` fails; 0: none */
	uint32_t msn[UR_QN_COUNT]; /* of the next message */
	uint32_t *rd; /* SQ counters of READs and atomics outstanding */
	uint32_t rd_head;
	uint32_t rd_count;
	bool sqd_reported;
	/* Responses. */
	struct ur_iw_inbound *in;
	uint32_t in_head;
	uint32_t in_count;
	uint32_t in_off; /* bytes of the oldest READ's response in FPDUs */
	bool in_answer;
	/* TERMINATE */
	uint32_t term_len; /* bytes to send; 0: none */
	uint8_t term[UR_TERM_MAX];
};

/* An inbound segment. */
struct ur_iw_in {
	struct ur_ddp_hdr h;
	const struct ur_rdmap_op *op;
	uint8_t opcode;
	uint32_t len;		/* of the payload */
	const uint8_t *payload; /* NULL: not complete in the buffer */
	const uint8_t *seg;	/* its start: the DDP header */
	uint32_t seg_len;	/* bytes of it in the buffer */
};

struct ur_iw_rx {
	uint8_t *buf;
	uint32_t cap;
	uint32_t head;
	uint32_t tail;
	uint64_t pos; /* stream position of buf[head], for the markers */
	bool first_fpdu_seen; /* the first FPDU has arrived */
	bool last_direct;     /* the last FPDU was placed directly */
	bool waits_for_recv;  /* a message waits for a receive */
	bool wait_expired;    /* its wait is over */
	/* Bytes that the last want() requested outside the buffer. */
	uint32_t given;
	uint32_t msn[UR_QN_COUNT]; /* of the current or next message */
	/* The current SEND. */
	bool in_send;
	uint8_t send_opcode;
	struct ur_rwqe *rwqe; /* NULL: none */
	struct ur_rwqe *copy; /* buffer for a receive copied from an SRQ */
	uint32_t received;
	/* WRITEs: bytes of the current one, and of the last complete one. */
	uint64_t written;
	uint64_t last_written;
	/* The response to the oldest READ. */
	uint32_t rd_received;
	/* A segment whose payload is read directly to its destination. */
	bool direct;
	uint32_t placed;
	uint32_t crc;
	uint32_t ulpdu_len;
	struct ur_iw_in in;
	uint8_t direct_seg[UR_DDP_HDR_MAX];
};

struct ur_iwqp {
	struct ur_qp *qp;
	struct ur_iwarp *w;
	struct ur_list ready;  /* in ur_iwarp.ready */
	struct ur_timer timer; /* hold, or wait for the peer's FIN */
	uint32_t index;
	bool overrun;	 /* a CQ overran: the QP has to fail */
	bool access_set; /* the application has set access flags */
	/* The connection. */
	void *link; /* NULL: none */
	struct ur_iw_params params;
	uint32_t max_ulpdu;
	bool eof; /* the peer has closed its direction */
	bool fin; /* we close ours once the batch is sent */
	bool abort;
	struct ur_iw_tx tx;
	struct ur_iw_rx rx;
};

struct ur_iwarp {
	uint32_t slot;
	struct ur_mr_table *mrs;
	bool patient;
	bool (*delivered)(void *link);
	struct ur_rng rng;
	struct ur_iwqp **qps; /* by index */
	uint32_t qp_count;
	uint32_t next_index;
	struct ur_timers timers;
	struct ur_list ready;
	struct ur_list batches;
	uint8_t *spare[UR_IW_SPARE_BUFS]; /* of UR_IW_RX_BUF bytes */
	uint32_t spares;
	uint64_t now_ns; /* time argument of the running entry point */
	struct ur_iwarp_counters cnt;
};

static inline struct ur_iwqp *ur_iwqp_of(const struct ur_qp *qp)
{
	return qp->proto;
}

static inline enum ur_qp_state ur_iwqp_state(const struct ur_iwqp *q)
{
	return atomic_load_explicit(&q->qp->state, memory_order_relaxed);
}

/* Is the stream in use: are bytes parsed and requests sent? */
static inline bool ur_iwqp_open(const struct ur_iwqp *q)
{
	enum ur_qp_state s = ur_iwqp_state(q);

	return q->link && (s == UR_QPS_RTS || s == UR_QPS_SQD);
}

/* fault.c: one for each error of inbound data. */
enum ur_iw_fault {
	UR_IWF_NONE,
	UR_IWF_CRC,
	UR_IWF_MARKER,
	UR_IWF_FRAME,
	UR_IWF_T_STAG,
	UR_IWF_T_BOUNDS,
	UR_IWF_T_NOT_ASSOCIATED,
	UR_IWF_T_WRAP,
	UR_IWF_T_VERSION,
	UR_IWF_U_QN,
	UR_IWF_U_NO_BUFFER,
	UR_IWF_U_IRD,
	UR_IWF_U_MSN,
	UR_IWF_U_MO,
	UR_IWF_U_TOO_LONG,
	UR_IWF_U_VERSION,
	UR_IWF_STAG,
	UR_IWF_BOUNDS,
	UR_IWF_ACCESS,
	UR_IWF_NOT_ASSOCIATED,
	UR_IWF_WRAP,
	UR_IWF_RDMAP_VERSION,
	UR_IWF_OPCODE,
	UR_IWF_CANNOT_INVALIDATE,
	UR_IWF_UNALIGNED,
	UR_IWF_LOCAL_RECV, /* the receive's own memory */
	UR_IWF_LOCAL_READ, /* that of our READ or atomic */
	UR_IWF_LOCAL_LEN,  /* it is too small for the response */
	UR_IWF_LOCAL_SEND, /* a send request cannot be sent */
	UR_IWF_COUNT,
};

struct ur_iw_fault_row {
	uint8_t layer; /* of the TERMINATE */
	uint8_t etype;
	uint8_t code;
	bool headers;	  /* the TERMINATE contains the segment's headers */
	uint8_t status;	  /* of the current receive */
	uint8_t request;  /* of the oldest READ or atomic; 0: flushed */
	int8_t event;	  /* enum ur_event_type or -1 */
	uint16_t counter; /* offset in struct ur_iwarp_counters */
};

extern const struct ur_iw_fault_row ur_iw_fault_rows[UR_IWF_COUNT];

/* Handle a fault: TERMINATE, complete, flush. `in` may be NULL. */
void ur_iw_fault(struct ur_iwqp *q, enum ur_iw_fault f,
		 const struct ur_iw_in *in);

/* terminate.c */
void ur_iw_terminate(struct ur_iwqp *q, enum ur_iw_fault f,
		     const struct ur_iw_in *in);
void ur_iw_terminated(struct ur_iwqp *q, const struct ur_iw_in *in);

/* iwarp.c: q has work for its link. */
void ur_iw_schedule(struct ur_iwqp *q);

/* qp.c */
/* To ERR: flush, close; `event` too unless it is -1. */
void ur_iwqp_fail(struct ur_iwqp *q, int event);
void ur_iwqp_flush(struct ur_iwqp *q);
void ur_iwqp_check_overrun(struct ur_iwqp *q);
/* The responder may send, if its reply was delivered. */
void ur_iwqp_release(struct ur_iwqp *q);
/* The peer is silent: repeat the RTR frame. */
void ur_iwqp_repeat_rtr(struct ur_iwqp *q);
/* SQD: close once everything is complete. */
void ur_iwqp_check_drained(struct ur_iwqp *q);

/* recv.c: consuming receive requests. */
bool ur_iw_recv_take(struct ur_iwqp *q);
void ur_iw_recv_complete(struct ur_iwqp *q, enum ur_wc_opcode opcode,
			 uint32_t byte_len, uint8_t flags, uint32_t imm_be,
			 bool solicited);
/* Complete the current receive, if any, with an error. */
void ur_iw_recv_fail(struct ur_iwqp *q, enum ur_wc_status status);
void ur_iw_recv_flush(struct ur_iwqp *q);

/* ddp.c */
enum ur_iw_fault ur_ddp_admit(struct ur_iwqp *q, struct ur_iw_in *in);
/* Is its payload placed in application memory? */
bool ur_ddp_places(const struct ur_iw_in *in);
/* Locates [off, off + len) of the payload: number of pieces. */
int ur_ddp_locate(struct ur_iwqp *q, const struct ur_iw_in *in, uint32_t off,
		  uint32_t len, struct iovec *iov, uint32_t max,
		  enum ur_iw_fault *fault);
/* Copies [off, off + len) of the payload there. */
enum ur_iw_fault ur_ddp_place(struct ur_iwqp *q, const struct ur_iw_in *in,
			      uint32_t off, const void *data, uint32_t len);

/* rdmap.c: act on a segment whose payload is in place. */
enum ur_iw_fault ur_rdmap_deliver(struct ur_iwqp *q, struct ur_iw_in *in);

/* Checks rights and range of an STag of ours that a peer uses. `tagged`: faults
 * of DDP's tagged model, else RDMAP's. */
enum ur_iw_fault ur_iw_region(const struct ur_iwqp *q, uint32_t stag,
			      uint64_t to, uint32_t len, uint32_t access,
			      bool tagged, uint8_t **at);

/* tx.c */
enum ur_iw_emit {
	UR_IW_EMIT_OK,	  /* one FPDU was appended */
	UR_IW_EMIT_IDLE,  /* nothing to send (now) */
	UR_IW_EMIT_FULL,  /* not into this batch */
	UR_IW_EMIT_FAULT, /* memory is unmapped; nothing was appended */
};
struct ur_iw_seg {
	struct ur_ddp_hdr h;
	const struct iovec *iov;
	uint32_t niov;
	uint32_t len;
	bool stable; /* may be sent without a copy */
	bool empty;  /* an FPDU of length 0, without a header */
	bool whole;
	uint32_t request;
};
enum ur_iw_emit ur_iw_emit(struct ur_iwqp *q, const struct ur_iw_seg *seg);
/* Discard unsent FPDUs, except the rest of one that is partly sent. */
void ur_iw_tx_cut(struct ur_iwqp *q);
void ur_iw_tx_drop(struct ur_iwqp *q);
/* A multiple of 16, so that no operand of an atomic (base/guard.h) is divided. */
static inline uint32_t ur_iw_max_payload(const struct ur_iwqp *q, bool tagged)
{
	return (q->max_ulpdu - ur_ddp_hdr_len(tagged)) & ~15u;
}

/* ddp.c: *len becomes that of UR_MAX_SGE pieces, which are all that a segment may
 * have. Returns UR_MAX_SGE. */
int ur_iw_shorten(const struct iovec *iov, uint32_t *len);
/* ur_mr_pieces() of an STag. */
int ur_iw_pieces(const struct ur_iwqp *q, uint32_t stag, uint64_t to,
		 uint32_t len, uint32_t access, struct iovec *iov,
		 uint32_t max);

/* req.c */
enum ur_iw_emit ur_iw_request_emit(struct ur_iwqp *q);
bool ur_iw_request_begun(const struct ur_iwqp *q);
/* Does the next one send nothing? */
bool ur_iw_request_is_local(const struct ur_iwqp *q);
void ur_iw_request_complete(struct ur_iwqp *q, const struct ur_swqe *w,
			    enum ur_wc_status status);
/* Complete what can be: called when TCP accepted more, or a response came. */
void ur_iw_requests_advance(struct ur_iwqp *q);
struct ur_swqe *ur_iw_oldest_read(struct ur_iwqp *q); /* NULL: none */
/* The request with this counter of the SQ fails, earlier ones are flushed. */
void ur_iw_request_fail(struct ur_iwqp *q, uint32_t i,
			enum ur_wc_status status);
void ur_iw_read_done(struct ur_iwqp *q);
enum ur_iw_emit ur_iw_rtr_emit(struct ur_iwqp *q);

/* answer.c */
enum ur_iw_emit ur_iw_answer_emit(struct ur_iwqp *q);
/* Room for one more; NULL: the peer exceeds our IRD. */
struct ur_iw_inbound *ur_iw_answer_add(struct ur_iwqp *q);

#endif
