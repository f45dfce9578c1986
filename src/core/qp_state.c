/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The legal state transitions of a QP and their attributes (IBTA 11.2.5.2,
 * table "QP state transition properties"). The kernel's drivers enforce the
 * same sets, so programs rely on them.
 *
 * RESET and ERR can be reached from every state and take no attributes.
 */
#include <errno.h>

#include "core/qp.h"

struct transition {
	bool legal;
	uint32_t required;
	uint32_t optional;
};

#define TYPES (UR_QPT_DC_TGT - UR_QPT_RC + 1)

/* May change in all transitions to RTS, and in RTS. */
#define RC_RTS                                                                 \
	(UR_QP_CUR_STATE | UR_QP_ACCESS_FLAGS | UR_QP_ALT_PATH |               \
	 UR_QP_PATH_MIG_STATE | UR_QP_MIN_RNR_TIMER | UR_QP_RATE_LIMIT)
#define UC_RTS                                                                 \
	(UR_QP_CUR_STATE | UR_QP_ACCESS_FLAGS | UR_QP_ALT_PATH |               \
	 UR_QP_PATH_MIG_STATE | UR_QP_RATE_LIMIT)
#define UD_RTS	(UR_QP_CUR_STATE | UR_QP_QKEY | UR_QP_RATE_LIMIT)
#define RAW_RTS (UR_QP_CUR_STATE | UR_QP_RATE_LIMIT)

#define CONN_INIT (UR_QP_PKEY_INDEX | UR_QP_PORT | UR_QP_ACCESS_FLAGS)
#define UD_INIT	  (UR_QP_PKEY_INDEX | UR_QP_PORT | UR_QP_QKEY)

/* Required and optional attributes of INIT to RTR and RTR to RTS. */
#define UC_RTR	     (UR_QP_AV | UR_QP_PATH_MTU | UR_QP_DEST_QPN | UR_QP_RQ_PSN)
#define RC_RTR	     (UC_RTR | UR_QP_MAX_DEST_RD_ATOMIC | UR_QP_MIN_RNR_TIMER)
#define CONN_RTR_MAY (UR_QP_ALT_PATH | UR_QP_ACCESS_FLAGS | UR_QP_PKEY_INDEX)
#define RC_SENDER                                                              \
	(UR_QP_TIMEOUT | UR_QP_RETRY_CNT | UR_QP_RNR_RETRY | UR_QP_SQ_PSN |    \
	 UR_QP_MAX_QP_RD_ATOMIC)

/* What may change while the send queue is drained. */
#define UC_DRAINED                                                             \
	(UR_QP_AV | UR_QP_ALT_PATH | UR_QP_ACCESS_FLAGS | UR_QP_PKEY_INDEX |   \
	 UR_QP_PATH_MIG_STATE)
#define RC_DRAINED                                                             \
	(UC_DRAINED | UR_QP_PORT | UR_QP_TIMEOUT | UR_QP_RETRY_CNT |           \
	 UR_QP_RNR_RETRY | UR_QP_MAX_QP_RD_ATOMIC | UR_QP_MAX_DEST_RD_ATOMIC | \
	 UR_QP_MIN_RNR_TIMER)

/* An XRC initiator has the attributes of RC's requester, a target the rest; but
 * perftest sets all of RC's on either, so inapplicable ones are ignored. */
#define XRC_SEND_DRAINED                                                       \
	(UC_DRAINED | UR_QP_PORT | UR_QP_TIMEOUT | UR_QP_RETRY_CNT |           \
	 UR_QP_RNR_RETRY | UR_QP_MAX_QP_RD_ATOMIC)
#define XRC_RECV_RTS (UR_QP_TIMEOUT | UR_QP_SQ_PSN)
#define XRC_RECV_DRAINED                                                       \
	(UC_DRAINED | UR_QP_PORT | UR_QP_TIMEOUT | UR_QP_MAX_DEST_RD_ATOMIC |  \
	 UR_QP_MIN_RNR_TIMER)

/* The manual of the experimental verbs has these tables for an initiator of DC;
 * SQD is that of RC. There is no alternate path: each request has its address. A
 * target is set up at once. */
#define DC_INIT (UR_QP_PKEY_INDEX | UR_QP_PORT)
#define DC_SENDER                                                              \
	(UR_QP_TIMEOUT | UR_QP_RETRY_CNT | UR_QP_RNR_RETRY |                   \
	 UR_QP_MAX_QP_RD_ATOMIC)
#define DC_RTS (UR_QP_CUR_STATE | UR_QP_MIN_RNR_TIMER | UR_QP_RATE_LIMIT)
#define DC_TARGET                                                              \
	(UR_QP_PKEY_INDEX | UR_QP_PORT | UR_QP_ACCESS_FLAGS | UR_QP_AV |       \
	 UR_QP_PATH_MTU | UR_QP_MIN_RNR_TIMER | UR_QP_DC_KEY)

#define NOTIFY UR_QP_EN_SQD_ASYNC_NOTIFY

#define T(type, from, to)                                                      \
	[UR_QPT_##type - UR_QPT_RC][UR_QPS_##from][UR_QPS_##to]

static const struct transition table[TYPES][UR_QPS_COUNT][UR_QPS_COUNT] = {
	T(RC, RESET, INIT) = { true, CONN_INIT, 0 },
	T(RC, INIT, INIT) = { true, 0, CONN_INIT },
	T(RC, INIT, RTR) = { true, RC_RTR, CONN_RTR_MAY },
	T(RC, RTR, RTS) = { true, RC_SENDER, RC_RTS },
	T(RC, RTS, RTS) = { true, 0, RC_RTS },
	T(RC, RTS, SQD) = { true, 0, NOTIFY },
	T(RC, SQD, RTS) = { true, 0, RC_RTS },
	T(RC, SQD, SQD) = { true, 0, RC_DRAINED },

	T(UC, RESET, INIT) = { true, CONN_INIT, 0 },
	T(UC, INIT, INIT) = { true, 0, CONN_INIT },
	T(UC, INIT, RTR) = { true, UC_RTR, CONN_RTR_MAY },
	T(UC, RTR, RTS) = { true, UR_QP_SQ_PSN, UC_RTS },
	T(UC, RTS, RTS) = { true, 0, UC_RTS },
	T(UC, RTS, SQD) = { true, 0, NOTIFY },
	T(UC, SQD, RTS) = { true, 0, UC_RTS },
	T(UC, SQD, SQD) = { true, 0, UC_DRAINED },
	T(UC, SQE, RTS) = { true, 0, UR_QP_CUR_STATE | UR_QP_ACCESS_FLAGS },

	T(UD, RESET, INIT) = { true, UD_INIT, 0 },
	T(UD, INIT, INIT) = { true, 0, UD_INIT },
	T(UD, INIT, RTR) = { true, 0, UR_QP_PKEY_INDEX | UR_QP_QKEY },
	T(UD, RTR, RTS) = { true, UR_QP_SQ_PSN, UD_RTS },
	T(UD, RTS, RTS) = { true, 0, UD_RTS },
	T(UD, RTS, SQD) = { true, 0, NOTIFY },
	T(UD, SQD, RTS) = { true, 0, UD_RTS },
	T(UD, SQD, SQD) = { true, 0, UR_QP_PKEY_INDEX | UR_QP_QKEY },
	T(UD, SQE, RTS) = { true, 0, UD_RTS },

	T(XRC_SEND, RESET, INIT) = { true, CONN_INIT, 0 },
	T(XRC_SEND, INIT, INIT) = { true, 0, CONN_INIT },
	T(XRC_SEND, INIT, RTR) = { true, UC_RTR, CONN_RTR_MAY | RC_RTR },
	T(XRC_SEND, RTR, RTS) = { true, RC_SENDER, UC_RTS },
	T(XRC_SEND, RTS, RTS) = { true, 0, UC_RTS },
	T(XRC_SEND, RTS, SQD) = { true, 0, NOTIFY },
	T(XRC_SEND, SQD, RTS) = { true, 0, UC_RTS },
	T(XRC_SEND, SQD, SQD) = { true, 0, XRC_SEND_DRAINED },

	T(XRC_RECV, RESET, INIT) = { true, CONN_INIT, 0 },
	T(XRC_RECV, INIT, INIT) = { true, 0, CONN_INIT },
	T(XRC_RECV, INIT, RTR) = { true, RC_RTR, CONN_RTR_MAY },
	T(XRC_RECV, RTR, RTS) = { true, XRC_RECV_RTS, RC_RTS | RC_SENDER },
	T(XRC_RECV, RTS, RTS) = { true, 0, RC_RTS },
	T(XRC_RECV, RTS, SQD) = { true, 0, NOTIFY },
	T(XRC_RECV, SQD, RTS) = { true, 0, RC_RTS },
	T(XRC_RECV, SQD, SQD) = { true, 0, XRC_RECV_DRAINED },

	T(DC_INI, RESET, INIT) = { true, DC_INIT | UR_QP_DC_KEY, 0 },
	T(DC_INI, INIT, INIT) = { true, 0, DC_INIT | UR_QP_ACCESS_FLAGS },
	T(DC_INI, INIT, RTR) = { true, UR_QP_AV | UR_QP_PATH_MTU,
				 UR_QP_PKEY_INDEX | UR_QP_DC_KEY },
	T(DC_INI, RTR, RTS) = { true, DC_SENDER, DC_RTS },
	T(DC_INI, RTS, RTS) = { true, 0, DC_RTS },
	T(DC_INI, RTS, SQD) = { true, 0, NOTIFY },
	T(DC_INI, SQD, RTS) = { true, 0, DC_RTS },
	T(DC_INI, SQD, SQD) = { true, 0, DC_SENDER | UR_QP_PKEY_INDEX },

	T(DC_TGT, RESET, RTR) = { true, DC_TARGET, 0 },

	/* No address, key or sequence: only the port. */
	T(RAW_PACKET, RESET, INIT) = { true, UR_QP_PORT, 0 },
	T(RAW_PACKET, INIT, INIT) = { true, 0, UR_QP_PORT },
	T(RAW_PACKET, INIT, RTR) = { true, 0, 0 },
	T(RAW_PACKET, RTR, RTS) = { true, 0, RAW_RTS },
	T(RAW_PACKET, RTS, RTS) = { true, 0, RAW_RTS },
	T(RAW_PACKET, RTS, SQD) = { true, 0, NOTIFY },
	T(RAW_PACKET, SQD, RTS) = { true, 0, UR_QP_CUR_STATE },
	T(RAW_PACKET, SQD, SQD) = { true, 0, 0 },
	T(RAW_PACKET, SQE, RTS) = { true, 0, UR_QP_CUR_STATE },
};

static const char *const names[UR_QPS_COUNT] = {
	[UR_QPS_RESET] = "RESET", [UR_QPS_INIT] = "INIT", [UR_QPS_RTR] = "RTR",
	[UR_QPS_RTS] = "RTS",	  [UR_QPS_SQD] = "SQD",	  [UR_QPS_SQE] = "SQE",
	[UR_QPS_ERR] = "ERR",
};

const char *ur_qp_state_name(enum ur_qp_state state)
{
	return (unsigned int)state < UR_QPS_COUNT ? names[state] : "?";
}

const char *ur_qp_type_name(uint32_t type)
{
	static const char *const of[] = {
		[UR_QPT_RC] = "RC",
		[UR_QPT_UC] = "UC",
		[UR_QPT_UD] = "UD",
		[UR_QPT_RAW_PACKET] = "RAW_PACKET",
		[UR_QPT_XRC_SEND] = "XRC_SEND",
		[UR_QPT_XRC_RECV] = "XRC_RECV",
		[UR_QPT_DC_INI] = "DC_INI",
		[UR_QPT_DC_TGT] = "DC_TGT",
	};

	return type < sizeof(of) / sizeof(of[0]) && of[type] ? of[type] : "?";
}

int ur_qp_state_masks(enum ur_qp_type type, enum ur_qp_state from,
		      enum ur_qp_state to, uint32_t *required,
		      uint32_t *allowed)
{
	static const struct transition end = { true, 0, 0 };
	const struct transition *t = &end;

	if (!ur_qp_type_known(type) || (unsigned int)from >= UR_QPS_COUNT ||
	    (unsigned int)to >= UR_QPS_COUNT)
		return -EINVAL;
	if (to != UR_QPS_RESET && to != UR_QPS_ERR)
		t = &table[type - UR_QPT_RC][from][to];
	if (!t->legal)
		return -EINVAL;
	*required = t->required;
	*allowed = t->required | t->optional | UR_QP_STATE;
	return 0;
}

int ur_qp_state_check(enum ur_qp_type type, enum ur_qp_state from,
		      enum ur_qp_state to, uint32_t mask)
{
	uint32_t required, allowed;
	int rc = ur_qp_state_masks(type, from, to, &required, &allowed);

	if (!rc && ((mask & required) != required || (mask & ~allowed)))
		rc = -EINVAL;
	return rc;
}
