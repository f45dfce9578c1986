/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "verbs/strings.h"

static const char *const node_types[] = {
	[IBV_NODE_CA] = "InfiniBand channel adapter",
	[IBV_NODE_SWITCH] = "InfiniBand switch",
	[IBV_NODE_ROUTER] = "InfiniBand router",
	[IBV_NODE_RNIC] = "iWARP NIC",
	[IBV_NODE_USNIC] = "usNIC",
	[IBV_NODE_USNIC_UDP] = "usNIC over UDP",
	[IBV_NODE_UNSPECIFIED] = "unspecified",
};

static const char *const port_states[] = {
	[IBV_PORT_NOP] = "no change of state (NOP)",
	[IBV_PORT_DOWN] = "down",
	[IBV_PORT_INIT] = "init",
	[IBV_PORT_ARMED] = "armed",
	[IBV_PORT_ACTIVE] = "active",
	[IBV_PORT_ACTIVE_DEFER] = "active, deferred",
};

static const char *const event_types[] = {
	[IBV_EVENT_CQ_ERR] = "CQ error",
	[IBV_EVENT_QP_FATAL] = "QP fatal error",
	[IBV_EVENT_QP_REQ_ERR] = "QP got an invalid request",
	[IBV_EVENT_QP_ACCESS_ERR] = "QP local access violation",
	[IBV_EVENT_COMM_EST] = "communication established",
	[IBV_EVENT_SQ_DRAINED] = "send queue drained",
	[IBV_EVENT_PATH_MIG] = "path migrated",
	[IBV_EVENT_PATH_MIG_ERR] = "path migration failed",
	[IBV_EVENT_DEVICE_FATAL] = "device fatal error",
	[IBV_EVENT_PORT_ACTIVE] = "port active",
	[IBV_EVENT_PORT_ERR] = "port error",
	[IBV_EVENT_LID_CHANGE] = "LID change",
	[IBV_EVENT_PKEY_CHANGE] = "P_Key change",
	[IBV_EVENT_SM_CHANGE] = "SM change",
	[IBV_EVENT_SRQ_ERR] = "SRQ error",
	[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
	[IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
	[IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
	[IBV_EVENT_GID_CHANGE] = "GID table change",
	[IBV_EVENT_WQ_FATAL] = "WQ fatal error",
};

static const char *const wc_statuses[] = {
	[IBV_WC_SUCCESS] = "success",
	[IBV_WC_LOC_LEN_ERR] = "local length error",
	[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
	[IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
	[IBV_WC_LOC_PROT_ERR] = "local protection error",
	[IBV_WC_WR_FLUSH_ERR] = "work request flushed",
	[IBV_WC_MW_BIND_ERR] = "memory window bind error",
	[IBV_WC_BAD_RESP_ERR] = "bad response",
	[IBV_WC_LOC_ACCESS_ERR] = "local access error",
	[IBV_WC_REM_INV_REQ_ERR] = "remote: invalid request",
	[IBV_WC_REM_ACCESS_ERR] = "remote: access error",
	[IBV_WC_REM_OP_ERR] = "remote: operation error",
	[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
	[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
	[IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation",
	[IBV_WC_REM_INV_RD_REQ_ERR] = "remote: invalid RD request",
	[IBV_WC_REM_ABORT_ERR] = "aborted by the remote side",
	[IBV_WC_INV_EECN_ERR] = "invalid EE context number",
	[IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
	[IBV_WC_FATAL_ERR] = "fatal error",
	[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout",
	[IBV_WC_GENERAL_ERR] = "general error",
	[IBV_WC_TM_ERR] = "tag matching error",
	[IBV_WC_TM_RNDV_INCOMPLETE] = "tag matching: rendezvous incomplete",
};

/* Numbers: newer than the installed header may be */
static const char *const wr_opcodes[] = {
	[IBV_WR_RDMA_WRITE] = "RDMA write",
	[IBV_WR_RDMA_WRITE_WITH_IMM] = "RDMA write with immediate",
	[IBV_WR_SEND] = "send",
	[IBV_WR_SEND_WITH_IMM] = "send with immediate",
	[IBV_WR_RDMA_READ] = "RDMA read",
	[IBV_WR_ATOMIC_CMP_AND_SWP] = "atomic compare and swap",
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = "atomic fetch and add",
	[IBV_WR_LOCAL_INV] = "local invalidate",
	[IBV_WR_BIND_MW] = "bind memory window",
	[IBV_WR_SEND_WITH_INV] = "send with invalidate",
	[IBV_WR_TSO] = "TSO",
	[IBV_WR_DRIVER1] = "driver's own",
	[14] = "flush",
	[15] = "atomic write",
};

static const char *lookup(const char *const *table, size_t n, int i)
{
	if (i < 0 || (size_t)i >= n || !table[i])
		return "unknown";
	return table[i];
}

#define LOOKUP(table, i)                                                       \
	lookup(table, sizeof(table) / sizeof((table)[0]), (int)(i))

const char *ibv_node_type_str(enum ibv_node_type node_type)
{
	return LOOKUP(node_types, node_type);
}

const char *ibv_port_state_str(enum ibv_port_state port_state)
{
	return LOOKUP(port_states, port_state);
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return LOOKUP(event_types, event);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return LOOKUP(wc_statuses, status);
}

const char *urv_wr_opcode_str(int opcode)
{
	return LOOKUP(wr_opcodes, opcode);
}
