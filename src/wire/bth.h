/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Base and extended transport headers (IBTA 9.2 to 9.3), in host byte order
 * when decoded. Immediate data and invalidated keys stay as the application
 * gave them: imm_be is never swapped.
 */
#ifndef UR_WIRE_BTH_H
#define UR_WIRE_BTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"

#define UR_PSN_MASK	 0xffffffu
#define UR_QPN_MASK	 0xffffffu
#define UR_QPN_MULTICAST 0xffffffu
#define UR_ROCE_PORT	 4791

/* AETH syndrome classes (IBTA 9.7.5.2.1): upper three bits of the byte. */
#define UR_AETH_ACK		0x00u
#define UR_AETH_RNR		0x20u
#define UR_AETH_NAK		0x60u
#define UR_AETH_CLASS(s)	((s)&0x60u)
#define UR_AETH_VALUE(s)	((s)&0x1fu)
#define UR_AETH_CREDITS_INVALID 0x1fu

enum ur_nak {
	UR_NAK_PSN_SEQ = 0,
	UR_NAK_INV_REQ = 1,
	UR_NAK_REM_ACCESS = 2,
	UR_NAK_REM_OP = 3,
	UR_NAK_INV_RD = 4,
};

/* The piggybacked acknowledgement behind the headers of a SEND or WRITE. */
#define UR_PIGGYBACK_LEN 8u

/* The size of packets behind the headers of a READ request, a probe, its answer
 * or the end of an agreement: docs/wire/roce.md, "Full packets". */
#define UR_FULL_LEN 4u

enum ur_full_kind {
	UR_FULL_READ = 0,
	UR_FULL_PROBE = 1,
	UR_FULL_ANSWER = 2,
	UR_FULL_END = 3,
};

struct ur_bth {
	uint8_t opcode;
	bool solicited;
	bool migreq;
	uint8_t pad; /* 0..3 bytes after the payload */
	uint8_t tver;
	uint16_t pkey;
	bool fecn;
	bool becn;
	uint32_t dqpn;
	bool ackreq;
	/* Reserved bits of IBTA: docs/wire/roce.md. */
	bool urnic;
	bool has_ack;
	bool selective; /* of a request; in an ACK packet: it carries ranges */
	bool full;	/* may be longer than the path MTU */
	bool masked;	/* the sender executes atomics with masks */
	uint32_t psn;
};

/* One packet's headers.  Only the fields of op->headers are meaningful. */
struct ur_hdr {
	const struct ur_opcode *op;
	struct ur_bth bth;
	/* XRCETH: the shared receive queue */
	uint32_t srqn;
	/* DCETH (docs/wire/dc.md), with sqpn */
	uint64_t dc_key;
	uint64_t dc_session;
	uint32_t dc_first; /* PSN of the session's first packet */
	uint8_t dc_version;
	uint8_t dc_mtu; /* code */
	/* FETH (IBTA A19): placement and selectivity */
	uint8_t placement; /* 4 bits */
	uint8_t level;	   /* 2 bits */
	/* DETH */
	uint32_t qkey;
	uint32_t sqpn;
	/* RETH, AtomicETH */
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_len;
	uint64_t swap_add;
	uint64_t compare;
	/* AETH, AtomicAckETH; the first two and ack_psn if bth.has_ack */
	uint8_t syndrome;
	uint32_t msn;
	uint32_t ack_psn;
	uint64_t orig;
	/* If ur_op_has_size() */
	uint8_t full_kind; /* enum ur_full_kind */
	uint16_t full_size;
	/* ImmDt, IETH */
	uint32_t imm_be;
	uint32_t inv_rkey;
};

/* Opcodes whose packets may carry a piggybacked acknowledgement. */
static inline bool ur_op_may_piggyback(const struct ur_opcode *op)
{
	return op->transport == UR_TP_RC && (op->position & UR_POS_LAST) &&
	       (op->kind == UR_OP_SEND || op->kind == UR_OP_WRITE);
}

/* Do UR_FULL_LEN bytes follow the headers? */
static inline bool ur_op_has_size(const struct ur_opcode *op, bool full)
{
	return full && op->transport == UR_TP_RC &&
	       (op->kind == UR_OP_READ_REQUEST || op->kind == UR_OP_ACK);
}

/*
 * Decode the headers of pkt, `len` bytes from the BTH to the end of the ICRC.
 * On success returns 0 and the payload (without pad and ICRC) in *payload,
 * *payload_len. -EPROTONOSUPPORT: opcode not in the table; -EBADMSG: too short,
 * payload where none is allowed, or pad longer than the payload.
 */
int ur_hdr_decode(struct ur_hdr *h, const uint8_t *pkt, size_t len,
		  const uint8_t **payload, size_t *payload_len);

/*
 * Encode h (bth.opcode selects the extended headers) at buf, which has
 * UR_HDR_MAX bytes. Returns the number of bytes written: op->hdr_len and
 * ur_hdr_extra().
 */
size_t ur_hdr_encode(const struct ur_hdr *h, uint8_t *buf);

/* The bytes that our extensions add to the headers. */
static inline uint32_t ur_hdr_extra(const struct ur_hdr *h)
{
	return (h->bth.has_ack ? UR_PIGGYBACK_LEN : 0) +
	       (ur_op_has_size(ur_opcode_get(h->bth.opcode), h->bth.full)
			? UR_FULL_LEN
			: 0);
}

/* PSN arithmetic in 24 bits: a - b as a signed number (IBTA 9.7.2). */
static inline int32_t ur_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t ur_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & UR_PSN_MASK;
}

/* RNR timer code (0..31) to nanoseconds (IBTA table 45). */
uint64_t ur_rnr_timer_ns(uint8_t code);

#endif
