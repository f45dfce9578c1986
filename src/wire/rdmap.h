/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMAP (RFC 5040, section 4) with the extensions of RFC 7306: its octet in
 * every DDP header, and the messages that consist of a header only. */
#ifndef UR_WIRE_RDMAP_H
#define UR_WIRE_RDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ddp.h"

#define UR_RDMAP_VERSION 1u

enum ur_rdmap_opcode {
	UR_RDMAP_WRITE = 0,
	UR_RDMAP_READ_REQUEST = 1,
	UR_RDMAP_READ_RESPONSE = 2,
	UR_RDMAP_SEND = 3,
	UR_RDMAP_SEND_INV = 4,
	UR_RDMAP_SEND_SE = 5,
	UR_RDMAP_SEND_SE_INV = 6,
	UR_RDMAP_TERMINATE = 7,
	UR_RDMAP_IMM = 8,
	UR_RDMAP_IMM_SE = 9,
	UR_RDMAP_ATOMIC_REQUEST = 10,
	UR_RDMAP_ATOMIC_RESPONSE = 11,
};
#define UR_RDMAP_OPCODES 16u

/* One row per opcode; `known` is false for undefined ones. */
struct ur_rdmap_op {
	const char *name;
	bool known;
	bool tagged;
	uint8_t qn;	/* untagged: the queue it belongs to */
	uint8_t fixed;	/* length of a header-only message; 0: any */
	bool solicited; /* has the solicited event */
	bool invalidate;
};

const struct ur_rdmap_op *ur_rdmap_op(uint8_t opcode); /* low four bits */

/* RDMAP's octet in the DDP header: RV(2) rsvd(2) opcode(4). */
static inline uint8_t ur_rdmap_control(enum ur_rdmap_opcode opcode)
{
	return (uint8_t)(UR_RDMAP_VERSION << 6 | (unsigned int)opcode);
}

static inline uint8_t ur_rdmap_control_version(uint8_t control)
{
	return control >> 6;
}

static inline uint8_t ur_rdmap_control_opcode(uint8_t control)
{
	return control & 0x0fu;
}

#define UR_READ_REQUEST_LEN 28u
struct ur_read_request {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t size;
	uint32_t src_stag;
	uint64_t src_to;
};
bool ur_read_request_decode(struct ur_read_request *q, const uint8_t *buf,
			    size_t len);
void ur_read_request_encode(const struct ur_read_request *q,
			    uint8_t buf[UR_READ_REQUEST_LEN]);

/* RFC 7306, 5.2: the masks are those of the extended atomics of verbs. */
enum ur_atomic_opcode {
	UR_ATOMIC_FETCH_ADD = 0,
	UR_ATOMIC_CMP_SWAP = 2,
};

#define UR_ATOMIC_REQUEST_LEN 52u
struct ur_atomic_request {
	uint32_t opcode; /* enum ur_atomic_opcode; the upper 28 bits too */
	uint32_t id;	 /* echoed in the response */
	uint32_t stag;
	uint64_t to;
	uint64_t add_swap;
	uint64_t add_swap_mask;
	uint64_t compare;
	uint64_t compare_mask;
};
bool ur_atomic_request_decode(struct ur_atomic_request *q, const uint8_t *buf,
			      size_t len);
void ur_atomic_request_encode(const struct ur_atomic_request *q,
			      uint8_t buf[UR_ATOMIC_REQUEST_LEN]);

#define UR_ATOMIC_RESPONSE_LEN 12u
struct ur_atomic_response {
	uint32_t id;
	uint64_t orig;
};
bool ur_atomic_response_decode(struct ur_atomic_response *q, const uint8_t *buf,
			       size_t len);
void ur_atomic_response_encode(const struct ur_atomic_response *q,
			       uint8_t buf[UR_ATOMIC_RESPONSE_LEN]);

#define UR_IMMEDIATE_LEN 8u

/*
 * TERMINATE (RFC 5040, 4.8): the layer that found the error, its type and code.
 */
enum ur_term_layer {
	UR_TERM_RDMAP = 0,
	UR_TERM_DDP = 1,
	UR_TERM_MPA = 2,
};
#define UR_TERM_LOCAL                                                          \
	0u /* RDMAP and DDP: local catastrophic error of the sender */
#define UR_TERM_PROTECTION   1u /* RDMAP */
#define UR_TERM_OPERATION    2u /* RDMAP */
#define UR_TERM_DDP_TAGGED   1u
#define UR_TERM_DDP_UNTAGGED 2u
#define UR_TERM_MPA_ERROR    0u

/* Codes of RDMAP. */
#define UR_TERM_INVALID_STAG	  0x00u
#define UR_TERM_BOUNDS		  0x01u
#define UR_TERM_ACCESS		  0x02u
#define UR_TERM_NOT_ASSOCIATED	  0x03u
#define UR_TERM_TO_WRAP		  0x04u
#define UR_TERM_RDMAP_VERSION	  0x05u
#define UR_TERM_OPCODE		  0x06u
#define UR_TERM_CATASTROPHIC	  0x07u
#define UR_TERM_CANNOT_INVALIDATE 0x09u
#define UR_TERM_UNSPECIFIED	  0xffu
/* Codes of DDP, tagged. */
#define UR_TERM_T_INVALID_STAG	  0x00u
#define UR_TERM_T_BOUNDS	  0x01u
#define UR_TERM_T_NOT_ASSOCIATED  0x02u
#define UR_TERM_T_TO_WRAP	  0x03u
#define UR_TERM_T_VERSION	  0x04u
/* Codes of DDP, untagged. */
#define UR_TERM_U_QN		  0x01u
#define UR_TERM_U_NO_BUFFER	  0x02u
#define UR_TERM_U_MSN		  0x03u
#define UR_TERM_U_MO		  0x04u
#define UR_TERM_U_TOO_LONG	  0x05u
#define UR_TERM_U_VERSION	  0x06u
/* Codes of MPA. */
#define UR_TERM_MPA_CLOSED	  0x01u
#define UR_TERM_MPA_CRC		  0x02u
#define UR_TERM_MPA_MARKER	  0x03u
#define UR_TERM_MPA_FRAME	  0x04u
#define UR_TERM_MPA_IRD		  0x06u
#define UR_TERM_MPA_RTR		  0x07u

/* Parts of the offending segment that follow (HdrCt). */
#define UR_TERM_HAS_LENGTH 0x8000u
#define UR_TERM_HAS_DDP	   0x4000u
#define UR_TERM_HAS_RDMAP  0x2000u

#define UR_TERM_LEN 4u
#define UR_TERM_MAX (UR_TERM_LEN + 2u + UR_DDP_HDR_MAX + UR_ATOMIC_REQUEST_LEN)

struct ur_terminate {
	uint8_t layer;
	uint8_t etype;
	uint8_t code;
	uint16_t has_word; /* as on the wire; siw's order is also understood */
	uint16_t segment_len; /* of the DDP segment */
	const uint8_t *ddp;   /* its header; NULL: absent */
	const uint8_t *rdmap; /* the header after it; NULL: absent */
	uint16_t ddp_len;
	uint16_t rdmap_len;
};

/* False if it is too short.  The pointers point into buf. */
bool ur_terminate_decode(struct ur_terminate *t, const uint8_t *buf,
			 size_t len);
/* Returns the length. */
uint32_t ur_terminate_encode(const struct ur_terminate *t,
			     uint8_t buf[UR_TERM_MAX]);

#endif
