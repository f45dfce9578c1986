/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table of the InfiniBand transport (IBTA 9.2, table 38): one row
 * per opcode. Header lengths, legal sequences and receive consumption are
 * derived from the row.
 */
#ifndef UR_WIRE_OPCODE_H
#define UR_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/* The upper three bits of an opcode. */
enum ur_transport {
	UR_TP_RC = 0x00,
	UR_TP_UC = 0x20,
	UR_TP_RD = 0x40,
	UR_TP_UD = 0x60,
	UR_TP_CNP = 0x80,
	UR_TP_XRC = 0xa0,
	UR_TP_DC = 0xe0, /* ours (docs/wire/dc.md) */
};

enum ur_op_kind {
	UR_OP_SEND,
	UR_OP_WRITE,
	UR_OP_READ_REQUEST,
	UR_OP_READ_RESPONSE,
	UR_OP_ACK,
	UR_OP_ATOMIC_ACK,
	UR_OP_CMP_SWAP,
	UR_OP_FETCH_ADD,
	UR_OP_CNP,
	UR_OP_FLUSH,
	UR_OP_ATOMIC_WRITE,
};

/* Position in the message. */
#define UR_POS_FIRST  0x1u
#define UR_POS_LAST   0x2u
#define UR_POS_ONLY   (UR_POS_FIRST | UR_POS_LAST)
#define UR_POS_MIDDLE 0x0u

/* Extended headers in wire order after the BTH, except those of XRC, DC and
 * FLUSH, which come first. */
#define UR_HDR_DETH	 0x01u	/* 8 bytes */
#define UR_HDR_RETH	 0x02u	/* 16 */
#define UR_HDR_ATOMIC	 0x04u	/* 28 */
#define UR_HDR_AETH	 0x08u	/* 4 */
#define UR_HDR_ATOMICACK 0x10u	/* 8 */
#define UR_HDR_IMM	 0x20u	/* 4 */
#define UR_HDR_IETH	 0x40u	/* 4 */
#define UR_HDR_XRCETH	 0x80u	/* 4 */
#define UR_HDR_FETH	 0x100u /* 4 */
#define UR_HDR_DCETH	 0x200u /* 24 */

#define UR_BTH_LEN  12u
#define UR_RETH_LEN 16u
#define UR_ICRC_LEN 4u
/* The longest: BTH, DCETH and AtomicETH */
#define UR_HDR_MAX  64u

struct ur_opcode {
	const char *name; /* IBTA's name, NULL in an empty row */
	uint8_t code;
	uint8_t transport;  /* enum ur_transport */
	uint8_t kind;	    /* enum ur_op_kind */
	uint8_t position;   /* UR_POS_ */
	uint16_t headers;   /* UR_HDR_ set */
	bool payload;	    /* may carry payload */
	bool consumes_rwqe; /* its message consumes a receive WR */
	uint8_t hdr_len;    /* derived: BTH and extended headers */
};

enum {
	UR_RC_SEND_FIRST = 0x00,
	UR_RC_SEND_MIDDLE = 0x01,
	UR_RC_SEND_LAST = 0x02,
	UR_RC_SEND_LAST_IMM = 0x03,
	UR_RC_SEND_ONLY = 0x04,
	UR_RC_SEND_ONLY_IMM = 0x05,
	UR_RC_WRITE_FIRST = 0x06,
	UR_RC_WRITE_MIDDLE = 0x07,
	UR_RC_WRITE_LAST = 0x08,
	UR_RC_WRITE_LAST_IMM = 0x09,
	UR_RC_WRITE_ONLY = 0x0a,
	UR_RC_WRITE_ONLY_IMM = 0x0b,
	UR_RC_READ_REQUEST = 0x0c,
	UR_RC_READ_RESP_FIRST = 0x0d,
	UR_RC_READ_RESP_MIDDLE = 0x0e,
	UR_RC_READ_RESP_LAST = 0x0f,
	UR_RC_READ_RESP_ONLY = 0x10,
	UR_RC_ACK = 0x11,
	UR_RC_ATOMIC_ACK = 0x12,
	UR_RC_CMP_SWAP = 0x13,
	UR_RC_FETCH_ADD = 0x14,
	UR_RC_SEND_LAST_INV = 0x16,
	UR_RC_SEND_ONLY_INV = 0x17,
	UR_RC_FLUSH = 0x1c,
	UR_RC_ATOMIC_WRITE = 0x1d,
	UR_UC_SEND_FIRST = 0x20,
	UR_UC_SEND_MIDDLE = 0x21,
	UR_UC_SEND_LAST = 0x22,
	UR_UC_SEND_LAST_IMM = 0x23,
	UR_UC_SEND_ONLY = 0x24,
	UR_UC_SEND_ONLY_IMM = 0x25,
	UR_UC_WRITE_FIRST = 0x26,
	UR_UC_WRITE_MIDDLE = 0x27,
	UR_UC_WRITE_LAST = 0x28,
	UR_UC_WRITE_LAST_IMM = 0x29,
	UR_UC_WRITE_ONLY = 0x2a,
	UR_UC_WRITE_ONLY_IMM = 0x2b,
	UR_UD_SEND_ONLY = 0x64,
	UR_UD_SEND_ONLY_IMM = 0x65,
	UR_CNP = 0x81,
	UR_XRC_SEND_FIRST = 0xa0,
	UR_XRC_SEND_MIDDLE = 0xa1,
	UR_XRC_SEND_LAST = 0xa2,
	UR_XRC_SEND_LAST_IMM = 0xa3,
	UR_XRC_SEND_ONLY = 0xa4,
	UR_XRC_SEND_ONLY_IMM = 0xa5,
	UR_XRC_WRITE_FIRST = 0xa6,
	UR_XRC_WRITE_MIDDLE = 0xa7,
	UR_XRC_WRITE_LAST = 0xa8,
	UR_XRC_WRITE_LAST_IMM = 0xa9,
	UR_XRC_WRITE_ONLY = 0xaa,
	UR_XRC_WRITE_ONLY_IMM = 0xab,
	UR_XRC_READ_REQUEST = 0xac,
	UR_XRC_READ_RESP_FIRST = 0xad,
	UR_XRC_READ_RESP_MIDDLE = 0xae,
	UR_XRC_READ_RESP_LAST = 0xaf,
	UR_XRC_READ_RESP_ONLY = 0xb0,
	UR_XRC_ACK = 0xb1,
	UR_XRC_ATOMIC_ACK = 0xb2,
	UR_XRC_CMP_SWAP = 0xb3,
	UR_XRC_FETCH_ADD = 0xb4,
	UR_XRC_SEND_LAST_INV = 0xb6,
	UR_XRC_SEND_ONLY_INV = 0xb7,
	/* Of RC, between urnics (docs/wire/roce.md): codes that IBTA leaves to
	 * the manufacturer. */
	UR_RC_MASKED_ACK = 0xd2,
	UR_RC_MASKED_CMP_SWAP = 0xd3,
	UR_RC_MASKED_FETCH_ADD = 0xd4,
	/* Of DC, between urnics (docs/wire/dc.md) */
	UR_DC_SEND_FIRST = 0xe0,
	UR_DC_SEND_MIDDLE = 0xe1,
	UR_DC_SEND_LAST = 0xe2,
	UR_DC_SEND_LAST_IMM = 0xe3,
	UR_DC_SEND_ONLY = 0xe4,
	UR_DC_SEND_ONLY_IMM = 0xe5,
	UR_DC_WRITE_FIRST = 0xe6,
	UR_DC_WRITE_MIDDLE = 0xe7,
	UR_DC_WRITE_LAST = 0xe8,
	UR_DC_WRITE_LAST_IMM = 0xe9,
	UR_DC_WRITE_ONLY = 0xea,
	UR_DC_WRITE_ONLY_IMM = 0xeb,
	UR_DC_READ_REQUEST = 0xec,
	UR_DC_READ_RESP_FIRST = 0xed,
	UR_DC_READ_RESP_MIDDLE = 0xee,
	UR_DC_READ_RESP_LAST = 0xef,
	UR_DC_READ_RESP_ONLY = 0xf0,
	UR_DC_ACK = 0xf1,
	UR_DC_ATOMIC_ACK = 0xf2,
	UR_DC_CMP_SWAP = 0xf3,
	UR_DC_FETCH_ADD = 0xf4,
};

static inline bool ur_op_is_atomic(uint8_t kind)
{
	return kind == UR_OP_CMP_SWAP || kind == UR_OP_FETCH_ADD;
}

/* An atomic with masks: its operands, or the old value, are its payload. */
static inline bool ur_op_is_masked(const struct ur_opcode *op)
{
	return op->code >= UR_RC_MASKED_ACK &&
	       op->code <= UR_RC_MASKED_FETCH_ADD;
}

/* IBTA A19: requests that are answered by an empty READ response. */
static inline bool ur_op_is_placed(uint8_t kind)
{
	return kind == UR_OP_FLUSH || kind == UR_OP_ATOMIC_WRITE;
}

/* Requests that are answered by a response, not only by an acknowledgement. */
static inline bool ur_op_has_response(uint8_t kind)
{
	return kind == UR_OP_READ_REQUEST || ur_op_is_atomic(kind) ||
	       ur_op_is_placed(kind);
}

/* The row of an opcode; NULL if there is none. */
const struct ur_opcode *ur_opcode_get(uint8_t code);

/*
 * The opcode of a packet of a SEND or WRITE: transport RC, UC, XRC or DC, kind,
 * position, and the extra header of the last packet (UR_HDR_IMM, UR_HDR_IETH or
 * 0; ignored unless position has UR_POS_LAST).
 */
uint8_t ur_opcode_pick(enum ur_transport transport, enum ur_op_kind kind,
		       unsigned int position, unsigned int tail);

#endif
