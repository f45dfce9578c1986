/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet capture: a ring in a memory file that a tool (`urnic pcap`) has made and
 * drains.  Lanes write what they send and receive; any number of threads write,
 * one process reads.  A writer never waits: a record without room is counted.
 *
 * A record begins at a multiple of UR_CAPTURE_ALIGN.  A writer reserves it by
 * moving `head`, fills it, and then stores `mark`.  The reader moves `tail`.
 * Positions only grow; a record does not cross the end of the ring, so one of
 * kind UR_CAP_PAD may stand before it.  A writer killed in between leaves a record
 * without mark, at which the reader ends.
 *
 * Neither side trusts the memory: positions are masked, and the reader checks
 * lengths.  Off, it costs one test of ur_lane.tap per packet (ur_roce.tap per
 * descriptor).
 */
#ifndef UR_CORE_CAPTURE_H
#define UR_CORE_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/dev_spec.h"

#define UR_CAPTURE_MAGIC  0x75725032u /* "urP2" */
#define UR_CAPTURE_RING	  (64u << 20) /* bytes of records, a power of two */
#define UR_CAPTURE_ALIGN  128u
#define UR_CAPTURE_MAX	  (1u << 20) /* bytes of payload of a record */
#define UR_CAPTURE_DEVICE 16u	     /* of a name, with the final zero */

enum ur_capture_kind {
	UR_CAP_PAD = 1,
	UR_CAP_ROCE, /* UDP payloads: npkts packets of pkt_len, the last shorter */
	UR_CAP_SHM,    /* a request or answer through shared memory */
	UR_CAP_TCP,    /* bytes of a stream (iWARP) */
	UR_CAP_FRAME,  /* a raw packet, with its Ethernet header */
	UR_CAP_FAILED, /* a completion has failed: qpn */
};

enum ur_capture_flag {
	UR_CAP_OUT = 1 << 0,   /* sent, else received */
	UR_CAP_FIRST = 1 << 1, /* SHM: the message begins or ends here */
	UR_CAP_LAST = 1 << 2,
	UR_CAP_IMM = 1 << 3,
	UR_CAP_SOLICITED = 1 << 4,
	UR_CAP_ACK = 1 << 5,	 /* SHM: ack is valid */
	UR_CAP_DIRECT = 1 << 6,	 /* SHM: without the peer's processor */
	UR_CAP_RESTART = 1 << 7, /* SHM: requests are counted from 0 again */
};

/* What a record of UR_CAP_SHM is: enum ur_op_kind, or one of these. */
enum {
	UR_CAP_OP_NONE = 64, /* an acknowledgement alone */
	UR_CAP_OP_NAK,	     /* remote access error */
};

/* What faults (urnic-fault(7)) have done to packets of UR_CAP_ROCE. */
enum ur_capture_injected {
	UR_CAP_INJ_DROPPED = 1 << 0,
	UR_CAP_INJ_CORRUPT = 1 << 1,
	UR_CAP_INJ_NAK = 1 << 2, /* it was an acknowledgement */
	UR_CAP_INJ_COPY = 1 << 3,
	UR_CAP_INJ_LATE = 1 << 4,
};

struct ur_capture_rec {
	_Atomic uint64_t mark; /* position ^ ur_capture_head.nonce: complete */
	uint64_t ns;	       /* CLOCK_MONOTONIC */
	uint32_t len;	       /* bytes behind this header */
	uint32_t scope_id;
	uint8_t kind;
	uint8_t flags;
	uint8_t device;
	uint8_t qp_type; /* SHM: enum ur_qp_type */
	uint8_t op;	 /* SHM */
	uint8_t tclass;
	uint8_t hop_limit; /* 0: unknown */
	uint8_t mtu;	   /* SHM: code */
	uint16_t sport;
	uint16_t dport; /* TCP */
	uint16_t index; /* ROCE, received: of the packet in its burst */
	/* ROCE, received: 1 + the place in UR_ROCE_VERDICTS (roce/counters.h); 0: it
	 * was accepted.  Sent: errno. */
	uint16_t verdict;
	uint8_t src[16]; /* as GIDs */
	uint8_t dst[16];
	uint32_t qpn;	  /* SHM, TCP: ours */
	uint8_t injected; /* ROCE: enum ur_capture_injected */
	union {
		struct {
			uint32_t npkts;
			uint32_t pkt_len;
		};
		struct {
			uint32_t dqpn;	 /* the peer's */
			uint32_t ack;	 /* requests done, modulo 2^32 */
			uint32_t number; /* of the request, modulo 2^32 */
			uint32_t
				psn; /* of the wire, where requests would go on */
			uint32_t total; /* bytes of the message */
			uint32_t rkey;	/* UD: Q_Key */
			uint64_t va;	/* UD: the sender's QPN */
			uint32_t imm_be;
		};
	};
};

_Static_assert(sizeof(struct ur_capture_rec) <= UR_CAPTURE_ALIGN, "layout");

enum ur_capture_state {
	UR_CAP_OFFERED,
	UR_CAP_ON,
	UR_CAP_OFF,	/* the process has ended it */
	UR_CAP_REFUSED, /* in secure-execution mode */
};

/* Lines apart for what each side writes.
 * NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct ur_capture_head {
	uint32_t magic;
	uint32_t size;		/* of the file */
	uint64_t nonce;		/* the reader's */
	_Atomic uint32_t state; /* enum ur_capture_state, the writer's */
	char device[UR_MAX_DEVICES][UR_CAPTURE_DEVICE]; /* the writer's */
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;		    /* the reader's */
	_Alignas(64) _Atomic uint64_t lost[UR_MAX_DEVICES]; /* records */
};

#define UR_CAPTURE_HEAD 4096u
#define UR_CAPTURE_FILE (UR_CAPTURE_HEAD + UR_CAPTURE_RING)

_Static_assert(sizeof(struct ur_capture_head) <= UR_CAPTURE_HEAD, "layout");

/* The writer's side, one in a process. */
struct ur_capture {
	struct ur_capture_head *head;
	uint8_t *ring;
	uint64_t nonce; /* as it was when the capture began */
	uint64_t (*now)(void);
};

/* What a lane writes to; NULL: no capture. */
struct ur_tap {
	const struct ur_capture *capture;
	uint8_t device;
};

/*
 * Append a record with a copy of the pieces; ignores its mark, ns, len and device.
 * Pieces may be memory that the application has unmapped: the record is then
 * lost.
 */
void ur_capture_put(const struct ur_tap *tap, const struct ur_capture_rec *rec,
		    const struct iovec *iov, uint32_t n);

/*
 * Reader: the oldest record, copied, and its payload, valid until _pop().
 * 1, or 0: there is none, or -EPROTO: the writer has violated the format.
 */
int ur_capture_peek(struct ur_capture_head *h, uint64_t nonce,
		    struct ur_capture_rec *rec, const uint8_t **payload);
void ur_capture_pop(struct ur_capture_head *h,
		    const struct ur_capture_rec *rec);

#endif
