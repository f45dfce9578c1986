/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of iwarp/ share.  Everything here is touched only by the
 * holder of the lane's lock.
 *
 * The way in:  rx.c (MPA framing, where bytes go) → ddp.c (is the segment
 * legal, where does it belong) → rdmap.c (what a whole message does).
 * The way out: req.c (send requests) and answer.c (READ and atomic responses)
 * → tx.c (FPDUs in batches of iovecs).  terminate.c ends a stream, in either
 * direction; fault.c says which error means what.
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

#define UR_IW_SLOT_SHIFT 14u
#define UR_IW_INDEX_MASK ((1u << UR_IW_SLOT_SHIFT) - 1u)

/* A payload of at least so many bytes is read straight to where it belongs. */
#define UR_IW_DIRECT_MIN  8192u
/* … except so many at its end, which are stored when the CRC was right: what
 * a program polls on appears last and only if it is true. */
#define UR_IW_DIRECT_HOLD 16u

/* The buffer of bytes received and not yet understood. */
#define UR_IW_RX_BUF	     65536u
#define UR_IW_RX_BUF_MARKERS 73728u

/* What the peer asks for, and has not got yet. */
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
/* Room behind it, into which the rest of an FPDU is saved (ur_iw_tx_cut()). */
#define UR_IW_BATCH_SPARE  65600u

/*
 * FPDUs on their way to TCP.  A stream has one while it has bytes to send;
 * they are kept by the lane.
 */
struct ur_iw_batch {
	struct ur_list node; /* in ur_iwarp.batches while nobody uses it */
	uint32_t niov;
	uint32_t first; /* piece that is sent next … */
	uint32_t skip;	/* … from this byte on */
	uint32_t bytes;
	uint32_t sent;
	uint32_t nfpdu;
	uint32_t next_fpdu; /* the first that is not wholly sent */
	uint32_t linear_len;
	struct {
		uint32_t end;	   /* in bytes of the batch */
		uint32_t niov;	   /* pieces up to its end … */
		uint32_t last_len; /* … and the last one's length then */
		bool whole;	   /* the last of the send request … */
		uint32_t request;  /* … with this counter of the SQ */
	} fpdu[UR_IW_BATCH_FPDUS];
	struct iovec iov[UR_IW_TX_IOV];
	uint8_t linear[UR_IW_BATCH_LINEAR + UR_IW_BATCH_SPARE];
};

struct ur_iw_tx {
	struct ur_iw_batch *batch; /* NULL: all is sent */
	bool blocked;		   /* TCP took less than it was given */
	bool rtr_due;
	bool rtr_read;	/* the RTR was a READ: its response is awaited */
	bool hold;	/* responder: the peer speaks first (RFC 5044, 7.1) */
	uint8_t nudges; /* initiator: so many more while the peer is silent */
	bool answering; /* the last message was an answer: requests' turn */
	/* Requests. */
	uint32_t cur;	 /* SQ counter of the request under way or next */
	uint32_t off;	 /* bytes of it that are in FPDUs */
	bool in_message; /* it was begun */
	bool imm_due;	 /* WRITE with immediate: only that is missing */
	uint32_t sent;	 /* all before were taken by TCP */
	uint8_t stuck;	 /* status with which `cur` fails; 0: fine */
	uint32_t msn[UR_QN_COUNT]; /* of the next message */
	uint32_t *rd; /* SQ counters of READs and atomics outstanding */
	uint32_t rd_head;
	uint32_t rd_count;
	bool sqd_told;
	/* Answers. */
	struct ur_iw_inbound *in;
	uint32_t in_head;
	uint32_t in_count;
	uint32_t in_off; /* bytes of the oldest READ's response in FPDUs */
	bool in_answer;
	/* TERMINATE */
	uint32_t term_len; /* to be sent; 0: none */
	uint8_t term[UR_TERM_MAX];
};

/* A segment on its way in. */
struct ur_iw_in {
	struct ur_ddp_hdr h;
	const struct ur_rdmap_op *op;
	uint8_t opcode;
	uint32_t len;		/* of the payload */
	const uint8_t *payload; /* NULL: not (all) here yet */
	const uint8_t *seg;	/* its beginning: the DDP header … */
	uint32_t seg_len;	/* … and how much of it is here */
};

struct ur_iw_rx {
	uint8_t *buf;
	uint32_t cap;
	uint32_t head;
	uint32_t tail;
	uint64_t pos;	/* of buf[head] in the stream, for the markers */
	bool spoke;	/* the first FPDU has come */
	bool last_big;	/* the last FPDU was placed directly */
	bool starved;	/* a message waits for a receive */
	bool impatient; /* it has waited long enough */
	uint32_t given; /* bytes that the last want() sent elsewhere */
	uint32_t msn[UR_QN_COUNT]; /* of the message under way or next */
	/* The SEND under way. */
	bool in_send;
	uint8_t send_opcode;
	struct ur_rwqe *rwqe; /* NULL: none */
	struct ur_rwqe *copy; /* room for one taken from an SRQ */
	uint32_t received;
	/* WRITEs: bytes of the one under way, and of the last whole one. */
	uint64_t written;
	uint64_t last_written;
	/* The response to the oldest READ. */
	uint32_t rd_received;
	/* A segment whose payload is read to where it belongs. */
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
	struct ur_timer timer; /* hold, linger */
	uint32_t index;
	bool overrun;	 /* a CQ was full: the QP has to fail */
	bool access_set; /* the application gave access flags */
	/* The connection. */
	void *link; /* NULL: none */
	struct ur_iw_params params;
	uint32_t max_ulpdu;
	bool eof; /* the peer will send nothing more */
	bool fin; /* we will not either, once the batch is sent */
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
	uint32_t batch_count;
	uint64_t now_ns; /* of the entry point that runs */
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

/* Is the stream in use: are bytes understood and requests sent? */
static inline bool ur_iwqp_open(const struct ur_iwqp *q)
{
	enum ur_qp_state s = ur_iwqp_state(q);

	return q->link && (s == UR_QPS_RTS || s == UR_QPS_SQD);
}

/* fault.c: one for each thing that can be wrong with what comes in. */
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
	UR_IWF_LOCAL_LEN,  /* it is too small for the answer */
	UR_IWF_LOCAL_SEND, /* a send request cannot be sent */
	UR_IWF_COUNT,
};

struct ur_iw_fault_row {
	uint8_t layer; /* of the TERMINATE */
	uint8_t etype;
	uint8_t code;
	bool headers;	  /* the TERMINATE shows the segment */
	uint8_t status;	  /* of the receive under way */
	uint8_t request;  /* of the oldest READ or atomic; 0: flushed */
	int8_t event;	  /* enum ur_event_type or -1 */
	uint16_t counter; /* offset in struct ur_iwarp_counters */
};

extern const struct ur_iw_fault_row ur_iw_fault_rows[UR_IWF_COUNT];

/* What is wrong: TERMINATE, complete, flush.  `in` may be NULL. */
void ur_iw_fault(struct ur_iwqp *q, enum ur_iw_fault f,
		 const struct ur_iw_in *in);

/* terminate.c */
void ur_iw_terminate(struct ur_iwqp *q, enum ur_iw_fault f,
		     const struct ur_iw_in *in);
void ur_iw_terminated(struct ur_iwqp *q, const struct ur_iw_in *in);

/* iwarp.c: q has something for its link. */
void ur_iw_schedule(struct ur_iwqp *q);

/* qp.c */
/* To ERR: flush, close; `event` too unless it is -1. */
void ur_iwqp_fail(struct ur_iwqp *q, int event);
void ur_iwqp_flush(struct ur_iwqp *q);
void ur_iwqp_check_overrun(struct ur_iwqp *q);
/* The responder may speak, if its reply has arrived. */
void ur_iwqp_unhold(struct ur_iwqp *q);
/* The peer has not spoken for a while: send it something that means nothing. */
void ur_iwqp_nudge(struct ur_iwqp *q);
/* SQD: close once all is done. */
void ur_iwqp_check_drained(struct ur_iwqp *q);

/* recv.c: consuming receive requests. */
bool ur_iw_recv_take(struct ur_iwqp *q);
void ur_iw_recv_complete(struct ur_iwqp *q, enum ur_wc_opcode opcode,
			 uint32_t byte_len, uint8_t flags, uint32_t imm_be,
			 bool solicited);
/* Complete the receive under way with an error; none: nothing. */
void ur_iw_recv_fail(struct ur_iwqp *q, enum ur_wc_status status);
void ur_iw_recv_flush(struct ur_iwqp *q);

/* ddp.c */
enum ur_iw_fault ur_ddp_admit(struct ur_iwqp *q, struct ur_iw_in *in);
/* Is it of a kind whose payload goes to the application's memory? */
bool ur_ddp_places(const struct ur_iw_in *in);
/* Where [off, off + len) of the payload goes: number of pieces. */
int ur_ddp_locate(struct ur_iwqp *q, const struct ur_iw_in *in, uint32_t off,
		  uint32_t len, struct iovec *iov, uint32_t max,
		  enum ur_iw_fault *fault);
/* Put [off, off + len) of the payload there. */
enum ur_iw_fault ur_ddp_place(struct ur_iwqp *q, const struct ur_iw_in *in,
			      uint32_t off, const void *data, uint32_t len);

/* rdmap.c: the payload is in place, the segment does what it does. */
enum ur_iw_fault ur_rdmap_deliver(struct ur_iwqp *q, struct ur_iw_in *in);

/* Rights and range in a region of ours that a peer names.  `tagged`: faults
 * of DDP's tagged model, else RDMAP's. */
enum ur_iw_fault ur_iw_region(const struct ur_iwqp *q, uint32_t stag,
			      uint64_t to, uint32_t len, uint32_t access,
			      bool tagged, uint8_t **at);

/* tx.c */
enum ur_iw_emit {
	UR_IW_EMIT_OK,	  /* one FPDU was appended */
	UR_IW_EMIT_IDLE,  /* nothing to send (now) */
	UR_IW_EMIT_FULL,  /* not into this batch */
	UR_IW_EMIT_FAULT, /* memory is gone; nothing was appended */
};
struct ur_iw_seg {
	struct ur_ddp_hdr h;
	const struct iovec *iov;
	uint32_t niov;
	uint32_t len;
	bool stable; /* may be sent from where it lies */
	bool empty;  /* an FPDU of length 0: no header either */
	bool whole;
	uint32_t request;
};
enum ur_iw_emit ur_iw_emit(struct ur_iwqp *q, const struct ur_iw_seg *seg);
/* Forget what is not sent, but finish an FPDU of which TCP has a part. */
void ur_iw_tx_cut(struct ur_iwqp *q);
void ur_iw_tx_drop(struct ur_iwqp *q);
static inline uint32_t ur_iw_max_payload(const struct ur_iwqp *q, bool tagged)
{
	return q->max_ulpdu - ur_ddp_hdr_len(tagged);
}

/* req.c */
enum ur_iw_emit ur_iw_request_emit(struct ur_iwqp *q);
bool ur_iw_request_begun(const struct ur_iwqp *q);
/* Is the next one of those that send nothing? */
bool ur_iw_request_is_local(const struct ur_iwqp *q);
void ur_iw_request_complete(struct ur_iwqp *q, const struct ur_swqe *w,
			    enum ur_wc_status status);
/* Complete what can be: called when TCP took more, or an answer came. */
void ur_iw_requests_advance(struct ur_iwqp *q);
struct ur_swqe *ur_iw_oldest_read(struct ur_iwqp *q); /* NULL: none */
/* The request with this counter of the SQ fails, those before are flushed. */
void ur_iw_request_fail(struct ur_iwqp *q, uint32_t i,
			enum ur_wc_status status);
void ur_iw_read_done(struct ur_iwqp *q);
enum ur_iw_emit ur_iw_rtr_emit(struct ur_iwqp *q);

/* answer.c */
enum ur_iw_emit ur_iw_answer_emit(struct ur_iwqp *q);
/* Room for one more; NULL: the peer exceeds our IRD. */
struct ur_iw_inbound *ur_iw_answer_add(struct ur_iwqp *q);

/* rx.c */
void ur_iw_rx_process(struct ur_iwqp *q);

#endif
