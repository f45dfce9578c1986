/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/qp.h"
#include "explain/internal.h"

void ur_text(struct ur_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	/* clang-tidy 14 misses va_start() when it looks at several files */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	n = vsnprintf(t->at, t->size, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n >= t->size)
		n = (int)t->size - 1;
	t->at += n;
	t->size -= (size_t)n;
}

static void duration(struct ur_text *t, uint64_t ns)
{
	if (ns < 1000000)
		ur_text(t, "%.0f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		ur_text(t, "%.0f ms", (double)ns / 1e6);
	else if (ns < 120000000000)
		ur_text(t, "%.1f s", (double)ns / 1e9);
	else
		ur_text(t, "%.0f min", (double)ns / 6e10);
}

void ur_text_ago(struct ur_text *t, uint64_t then_ns, uint64_t now_ns)
{
	duration(t, now_ns > then_ns ? now_ns - then_ns : 0);
}

void ur_text_access(struct ur_text *t, uint32_t access)
{
	static const struct {
		uint32_t right;
		const char *name;
	} rights[] = {
		{ UR_ACCESS_LOCAL_WRITE, "local write" },
		{ UR_ACCESS_REMOTE_WRITE, "remote write" },
		{ UR_ACCESS_REMOTE_READ, "remote read" },
		{ UR_ACCESS_REMOTE_ATOMIC, "remote atomic" },
		{ UR_ACCESS_MW_BIND, "window bind" },
		{ UR_ACCESS_ZERO_BASED, "zero based" },
		{ UR_ACCESS_FLUSH_GLOBAL, "flush" },
	};
	const char *comma = "";

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		if (!(access & rights[i].right))
			continue;
		ur_text(t, "%s%s", comma, rights[i].name);
		comma = ", ";
	}
	if (!*comma)
		ur_text(t, "local read only");
}

const char *ur_text_status(uint8_t status)
{
	static const char *const names[] = {
		[UR_WC_SUCCESS] = "success",
		[UR_WC_LOC_LEN_ERR] = "local length error",
		[UR_WC_LOC_QP_OP_ERR] = "local QP operation error",
		[UR_WC_LOC_PROT_ERR] = "local protection error",
		[UR_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
		[UR_WC_MW_BIND_ERR] = "memory bind operation error",
		[UR_WC_BAD_RESP_ERR] = "bad response error",
		[UR_WC_LOC_ACCESS_ERR] = "local access error",
		[UR_WC_REM_INV_REQ_ERR] = "remote invalid request error",
		[UR_WC_REM_ACCESS_ERR] = "remote access error",
		[UR_WC_REM_OP_ERR] = "remote operation error",
		[UR_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
		[UR_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
		[UR_WC_FATAL_ERR] = "fatal error",
		[UR_WC_GENERAL_ERR] = "general error",
	};

	if (status < sizeof(names) / sizeof(names[0]) && names[status])
		return names[status];
	return "another error";
}

const char *ur_text_wr(uint64_t opcode)
{
	static const char *const names[] = {
		[UR_WR_RDMA_WRITE] = "RDMA WRITE",
		[UR_WR_RDMA_WRITE_IMM] = "RDMA WRITE with immediate",
		[UR_WR_SEND] = "SEND",
		[UR_WR_SEND_IMM] = "SEND with immediate",
		[UR_WR_RDMA_READ] = "RDMA READ",
		[UR_WR_CMP_SWP] = "compare and swap",
		[UR_WR_FETCH_ADD] = "fetch and add",
		[UR_WR_LOCAL_INV] = "local invalidate",
		[UR_WR_BIND_MW] = "window bind",
		[UR_WR_SEND_INV] = "SEND with invalidate",
		[UR_WR_TSO] = "TSO",
		[UR_WR_FLUSH] = "FLUSH",
		[UR_WR_ATOMIC_WRITE] = "ATOMIC WRITE",
	};

	if (opcode < sizeof(names) / sizeof(names[0]) && names[opcode])
		return names[opcode];
	return "request";
}

const char *ur_text_state(uint64_t state)
{
	return ur_qp_state_name(state < UR_QPS_COUNT ? (enum ur_qp_state)state
						     : UR_QPS_COUNT);
}
