/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/opcode.h"

#include <assert.h>
#include <stddef.h>

#define FIRST  UR_POS_FIRST
#define MIDDLE UR_POS_MIDDLE
#define LAST   UR_POS_LAST
#define ONLY   UR_POS_ONLY

#define DETH	  UR_HDR_DETH
#define RETH	  UR_HDR_RETH
#define ATOMIC	  UR_HDR_ATOMIC
#define AETH	  UR_HDR_AETH
#define ATOMICACK UR_HDR_ATOMICACK
#define IMM	  UR_HDR_IMM
#define IETH	  UR_HDR_IETH
#define XRCETH	  UR_HDR_XRCETH
#define FETH	  UR_HDR_FETH
#define DCETH	  UR_HDR_DCETH

#define IF(set, bit, len) (((set) & (bit)) ? (len) : 0u)

#define HDR_LEN(set)                                                           \
	(UR_BTH_LEN + IF(set, DETH, 8u) + IF(set, RETH, UR_RETH_LEN) +         \
	 IF(set, ATOMIC, 28u) + IF(set, AETH, 4u) + IF(set, ATOMICACK, 8u) +   \
	 IF(set, IMM, 4u) + IF(set, IETH, 4u) + IF(set, XRCETH, 4u) +          \
	 IF(set, FETH, 4u) + IF(set, DCETH, 24u))

/*
 * A CNP carries 16 reserved bytes (IBTA A17.9.3), which are treated as payload.
 */
#define PAYLOAD(kind)                                                          \
	((kind) == UR_OP_SEND || (kind) == UR_OP_WRITE ||                      \
	 (kind) == UR_OP_READ_RESPONSE || (kind) == UR_OP_CNP ||               \
	 (kind) == UR_OP_ATOMIC_WRITE)

#define EATS_RWQE(kind, set)                                                   \
	((kind) == UR_OP_SEND || ((kind) == UR_OP_WRITE && ((set)&IMM)))

#define ROW(op, op_name, op_kind, pos, set)                                    \
	[op] = { .name = op_name,                                              \
		 .code = op,                                                   \
		 .transport = (op)&0xe0,                                       \
		 .kind = UR_OP_##op_kind,                                      \
		 .position = pos,                                              \
		 .headers = set,                                               \
		 .payload = PAYLOAD(UR_OP_##op_kind),                          \
		 .consumes_rwqe = EATS_RWQE(UR_OP_##op_kind, set),             \
		 .hdr_len = HDR_LEN(set) }

/* RC, although bits 7-5 are not 000 */
#define MASKED_ROW(op, op_name, op_kind, set)                                  \
	[op] = { .name = op_name,                                              \
		 .code = op,                                                   \
		 .transport = UR_TP_RC,                                        \
		 .kind = UR_OP_##op_kind,                                      \
		 .position = ONLY,                                             \
		 .headers = set,                                               \
		 .payload = true,                                              \
		 .hdr_len = HDR_LEN(set) }

/* clang-format off */
static const struct ur_opcode opcodes[256] = {
	ROW(UR_RC_SEND_FIRST, "RC SEND First", SEND, FIRST, 0),
	ROW(UR_RC_SEND_MIDDLE, "RC SEND Middle", SEND, MIDDLE, 0),
	ROW(UR_RC_SEND_LAST, "RC SEND Last", SEND, LAST, 0),
	ROW(UR_RC_SEND_LAST_IMM, "RC SEND Last with Immediate", SEND, LAST, IMM),
	ROW(UR_RC_SEND_ONLY, "RC SEND Only", SEND, ONLY, 0),
	ROW(UR_RC_SEND_ONLY_IMM, "RC SEND Only with Immediate", SEND, ONLY, IMM),
	ROW(UR_RC_WRITE_FIRST, "RC RDMA WRITE First", WRITE, FIRST, RETH),
	ROW(UR_RC_WRITE_MIDDLE, "RC RDMA WRITE Middle", WRITE, MIDDLE, 0),
	ROW(UR_RC_WRITE_LAST, "RC RDMA WRITE Last", WRITE, LAST, 0),
	ROW(UR_RC_WRITE_LAST_IMM, "RC RDMA WRITE Last with Immediate", WRITE, LAST, IMM),
	ROW(UR_RC_WRITE_ONLY, "RC RDMA WRITE Only", WRITE, ONLY, RETH),
	ROW(UR_RC_WRITE_ONLY_IMM, "RC RDMA WRITE Only with Immediate", WRITE, ONLY, RETH | IMM),
	ROW(UR_RC_READ_REQUEST, "RC RDMA READ Request", READ_REQUEST, ONLY, RETH),
	ROW(UR_RC_READ_RESP_FIRST, "RC RDMA READ response First", READ_RESPONSE, FIRST, AETH),
	ROW(UR_RC_READ_RESP_MIDDLE, "RC RDMA READ response Middle", READ_RESPONSE, MIDDLE, 0),
	ROW(UR_RC_READ_RESP_LAST, "RC RDMA READ response Last", READ_RESPONSE, LAST, AETH),
	ROW(UR_RC_READ_RESP_ONLY, "RC RDMA READ response Only", READ_RESPONSE, ONLY, AETH),
	ROW(UR_RC_ACK, "RC Acknowledge", ACK, ONLY, AETH),
	ROW(UR_RC_ATOMIC_ACK, "RC ATOMIC Acknowledge", ATOMIC_ACK, ONLY, AETH | ATOMICACK),
	ROW(UR_RC_CMP_SWAP, "RC CmpSwap", CMP_SWAP, ONLY, ATOMIC),
	ROW(UR_RC_FETCH_ADD, "RC FetchAdd", FETCH_ADD, ONLY, ATOMIC),
	ROW(UR_RC_SEND_LAST_INV, "RC SEND Last with Invalidate", SEND, LAST, IETH),
	ROW(UR_RC_SEND_ONLY_INV, "RC SEND Only with Invalidate", SEND, ONLY, IETH),
	/* IBTA A19: both are answered by an empty READ response. */
	ROW(UR_RC_FLUSH, "RC FLUSH", FLUSH, ONLY, FETH | RETH),
	ROW(UR_RC_ATOMIC_WRITE, "RC ATOMIC WRITE", ATOMIC_WRITE, ONLY, RETH),
	ROW(UR_UC_SEND_FIRST, "UC SEND First", SEND, FIRST, 0),
	ROW(UR_UC_SEND_MIDDLE, "UC SEND Middle", SEND, MIDDLE, 0),
	ROW(UR_UC_SEND_LAST, "UC SEND Last", SEND, LAST, 0),
	ROW(UR_UC_SEND_LAST_IMM, "UC SEND Last with Immediate", SEND, LAST, IMM),
	ROW(UR_UC_SEND_ONLY, "UC SEND Only", SEND, ONLY, 0),
	ROW(UR_UC_SEND_ONLY_IMM, "UC SEND Only with Immediate", SEND, ONLY, IMM),
	ROW(UR_UC_WRITE_FIRST, "UC RDMA WRITE First", WRITE, FIRST, RETH),
	ROW(UR_UC_WRITE_MIDDLE, "UC RDMA WRITE Middle", WRITE, MIDDLE, 0),
	ROW(UR_UC_WRITE_LAST, "UC RDMA WRITE Last", WRITE, LAST, 0),
	ROW(UR_UC_WRITE_LAST_IMM, "UC RDMA WRITE Last with Immediate", WRITE, LAST, IMM),
	ROW(UR_UC_WRITE_ONLY, "UC RDMA WRITE Only", WRITE, ONLY, RETH),
	ROW(UR_UC_WRITE_ONLY_IMM, "UC RDMA WRITE Only with Immediate", WRITE, ONLY, RETH | IMM),
	ROW(UR_UD_SEND_ONLY, "UD SEND Only", SEND, ONLY, DETH),
	ROW(UR_UD_SEND_ONLY_IMM, "UD SEND Only with Immediate", SEND, ONLY, DETH | IMM),
	ROW(UR_CNP, "CNP", CNP, ONLY, 0),
	/* IBTA A14: an XRCETH in every request, none in the responses. */
	ROW(UR_XRC_SEND_FIRST, "XRC SEND First", SEND, FIRST, XRCETH),
	ROW(UR_XRC_SEND_MIDDLE, "XRC SEND Middle", SEND, MIDDLE, XRCETH),
	ROW(UR_XRC_SEND_LAST, "XRC SEND Last", SEND, LAST, XRCETH),
	ROW(UR_XRC_SEND_LAST_IMM, "XRC SEND Last with Immediate", SEND, LAST, XRCETH | IMM),
	ROW(UR_XRC_SEND_ONLY, "XRC SEND Only", SEND, ONLY, XRCETH),
	ROW(UR_XRC_SEND_ONLY_IMM, "XRC SEND Only with Immediate", SEND, ONLY, XRCETH | IMM),
	ROW(UR_XRC_WRITE_FIRST, "XRC RDMA WRITE First", WRITE, FIRST, XRCETH | RETH),
	ROW(UR_XRC_WRITE_MIDDLE, "XRC RDMA WRITE Middle", WRITE, MIDDLE, XRCETH),
	ROW(UR_XRC_WRITE_LAST, "XRC RDMA WRITE Last", WRITE, LAST, XRCETH),
	ROW(UR_XRC_WRITE_LAST_IMM, "XRC RDMA WRITE Last with Immediate", WRITE, LAST, XRCETH | IMM),
	ROW(UR_XRC_WRITE_ONLY, "XRC RDMA WRITE Only", WRITE, ONLY, XRCETH | RETH),
	ROW(UR_XRC_WRITE_ONLY_IMM, "XRC RDMA WRITE Only with Immediate", WRITE, ONLY, XRCETH | RETH | IMM),
	ROW(UR_XRC_READ_REQUEST, "XRC RDMA READ Request", READ_REQUEST, ONLY, XRCETH | RETH),
	ROW(UR_XRC_READ_RESP_FIRST, "XRC RDMA READ response First", READ_RESPONSE, FIRST, AETH),
	ROW(UR_XRC_READ_RESP_MIDDLE, "XRC RDMA READ response Middle", READ_RESPONSE, MIDDLE, 0),
	ROW(UR_XRC_READ_RESP_LAST, "XRC RDMA READ response Last", READ_RESPONSE, LAST, AETH),
	ROW(UR_XRC_READ_RESP_ONLY, "XRC RDMA READ response Only", READ_RESPONSE, ONLY, AETH),
	ROW(UR_XRC_ACK, "XRC Acknowledge", ACK, ONLY, AETH),
	ROW(UR_XRC_ATOMIC_ACK, "XRC ATOMIC Acknowledge", ATOMIC_ACK, ONLY, AETH | ATOMICACK),
	ROW(UR_XRC_CMP_SWAP, "XRC CmpSwap", CMP_SWAP, ONLY, XRCETH | ATOMIC),
	ROW(UR_XRC_FETCH_ADD, "XRC FetchAdd", FETCH_ADD, ONLY, XRCETH | ATOMIC),
	ROW(UR_XRC_SEND_LAST_INV, "XRC SEND Last with Invalidate", SEND, LAST, XRCETH | IETH),
	ROW(UR_XRC_SEND_ONLY_INV, "XRC SEND Only with Invalidate", SEND, ONLY, XRCETH | IETH),
	/* docs/wire/dc.md: a DCETH in every request, none in the responses. */
	ROW(UR_DC_SEND_FIRST, "DC SEND First", SEND, FIRST, DCETH),
	ROW(UR_DC_SEND_MIDDLE, "DC SEND Middle", SEND, MIDDLE, DCETH),
	ROW(UR_DC_SEND_LAST, "DC SEND Last", SEND, LAST, DCETH),
	ROW(UR_DC_SEND_LAST_IMM, "DC SEND Last with Immediate", SEND, LAST, DCETH | IMM),
	ROW(UR_DC_SEND_ONLY, "DC SEND Only", SEND, ONLY, DCETH),
	ROW(UR_DC_SEND_ONLY_IMM, "DC SEND Only with Immediate", SEND, ONLY, DCETH | IMM),
	ROW(UR_DC_WRITE_FIRST, "DC RDMA WRITE First", WRITE, FIRST, DCETH | RETH),
	ROW(UR_DC_WRITE_MIDDLE, "DC RDMA WRITE Middle", WRITE, MIDDLE, DCETH),
	ROW(UR_DC_WRITE_LAST, "DC RDMA WRITE Last", WRITE, LAST, DCETH),
	ROW(UR_DC_WRITE_LAST_IMM, "DC RDMA WRITE Last with Immediate", WRITE, LAST, DCETH | IMM),
	ROW(UR_DC_WRITE_ONLY, "DC RDMA WRITE Only", WRITE, ONLY, DCETH | RETH),
	ROW(UR_DC_WRITE_ONLY_IMM, "DC RDMA WRITE Only with Immediate", WRITE, ONLY, DCETH | RETH | IMM),
	ROW(UR_DC_READ_REQUEST, "DC RDMA READ Request", READ_REQUEST, ONLY, DCETH | RETH),
	ROW(UR_DC_READ_RESP_FIRST, "DC RDMA READ response First", READ_RESPONSE, FIRST, AETH),
	ROW(UR_DC_READ_RESP_MIDDLE, "DC RDMA READ response Middle", READ_RESPONSE, MIDDLE, 0),
	ROW(UR_DC_READ_RESP_LAST, "DC RDMA READ response Last", READ_RESPONSE, LAST, AETH),
	ROW(UR_DC_READ_RESP_ONLY, "DC RDMA READ response Only", READ_RESPONSE, ONLY, AETH),
	ROW(UR_DC_ACK, "DC Acknowledge", ACK, ONLY, AETH),
	ROW(UR_DC_ATOMIC_ACK, "DC ATOMIC Acknowledge", ATOMIC_ACK, ONLY, AETH | ATOMICACK),
	ROW(UR_DC_CMP_SWAP, "DC CmpSwap", CMP_SWAP, ONLY, DCETH | ATOMIC),
	ROW(UR_DC_FETCH_ADD, "DC FetchAdd", FETCH_ADD, ONLY, DCETH | ATOMIC),
	MASKED_ROW(UR_RC_MASKED_ACK, "RC masked ATOMIC Acknowledge", ATOMIC_ACK, AETH),
	MASKED_ROW(UR_RC_MASKED_CMP_SWAP, "RC masked CmpSwap", CMP_SWAP, RETH),
	MASKED_ROW(UR_RC_MASKED_FETCH_ADD, "RC masked FetchAdd", FETCH_ADD, RETH),
};
/* clang-format on */

const struct ur_opcode *ur_opcode_get(uint8_t code)
{
	return opcodes[code].name ? &opcodes[code] : NULL;
}

/*
 * The lower five bits of an opcode mean the same in every transport, so the RC
 * opcodes serve for all. Columns: last packet with nothing, immediate,
 * invalidate.
 */
static const uint8_t send_code[4][3] = {
	[MIDDLE] = { UR_RC_SEND_MIDDLE },
	[FIRST] = { UR_RC_SEND_FIRST },
	[LAST] = { UR_RC_SEND_LAST, UR_RC_SEND_LAST_IMM, UR_RC_SEND_LAST_INV },
	[ONLY] = { UR_RC_SEND_ONLY, UR_RC_SEND_ONLY_IMM, UR_RC_SEND_ONLY_INV },
};

static const uint8_t write_code[4][3] = {
	[MIDDLE] = { UR_RC_WRITE_MIDDLE },
	[FIRST] = { UR_RC_WRITE_FIRST },
	[LAST] = { UR_RC_WRITE_LAST, UR_RC_WRITE_LAST_IMM },
	[ONLY] = { UR_RC_WRITE_ONLY, UR_RC_WRITE_ONLY_IMM },
};

uint8_t ur_opcode_pick(enum ur_transport transport, enum ur_op_kind kind,
		       unsigned int position, unsigned int tail)
{
	unsigned int column = 0;

	assert(kind == UR_OP_SEND || (kind == UR_OP_WRITE && tail != IETH));
	if (position & LAST)
		column = tail == IMM ? 1 : tail == IETH ? 2 : 0;
	return (uint8_t)(transport |
			 (kind == UR_OP_SEND ? send_code[position][column]
					     : write_code[position][column]));
}
