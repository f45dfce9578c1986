/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/internal.h"

#define NAK(code) (UR_AETH_NAK | (code))

/*
 * IBTA 9.7.5.2 and table 58 "responder error behavior": the effect of a fault
 * of an inbound request on an RC responder. UC and UD use `status` only: they
 * never answer and drop the rest of the message (9.8.2.2, 9.8.3.2).
 */
const struct ur_fault_row ur_fault_rows[UR_FAULT_COUNT] = {
	[UR_FAULT_PSN_SEQ] = { NAK(UR_NAK_PSN_SEQ), 0, false, -1 },
	[UR_FAULT_RNR] = { UR_AETH_RNR, 0, false, -1 },
	[UR_FAULT_BAD_OPCODE] = { NAK(UR_NAK_INV_REQ), UR_WC_REM_INV_REQ_ERR,
				  true, UR_EVENT_QP_REQ_ERR },
	[UR_FAULT_TOO_LONG] = { NAK(UR_NAK_INV_REQ), UR_WC_LOC_LEN_ERR, true,
				-1 },
	[UR_FAULT_BAD_LENGTH] = { NAK(UR_NAK_INV_REQ), UR_WC_REM_INV_REQ_ERR,
				  true, UR_EVENT_QP_REQ_ERR },
	[UR_FAULT_ACCESS] = { NAK(UR_NAK_REM_ACCESS), UR_WC_LOC_ACCESS_ERR,
			      true, UR_EVENT_QP_ACCESS_ERR },
	[UR_FAULT_LOCAL_PROT] = { NAK(UR_NAK_REM_OP), UR_WC_LOC_PROT_ERR, true,
				  -1 },
	/*
	 * Class J, a class of its own: the data is placed, the invalidation
	 * fails at the responder. The message is acknowledged, and its receive
	 * completes with the error (decision 0018).
	 */
	[UR_FAULT_INVALIDATE] = { UR_AETH_ACK | UR_AETH_CREDITS_INVALID,
				  UR_WC_REM_INV_REQ_ERR, true, -1 },
	[UR_FAULT_RESOURCES] = { NAK(UR_NAK_INV_REQ), UR_WC_REM_INV_REQ_ERR,
				 true, UR_EVENT_QP_REQ_ERR },
};
