/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `urnic trace PID`: loads the library that wraps this process's calls
 * (tools/tracer/attach.c), from where the own library is.
 */
#ifndef UR_ENGINE_TRACE_H
#define UR_ENGINE_TRACE_H

#include <stdbool.h>

#define UR_TRACE_ORDER                                                         \
	"trace " /* begins a tool's order; the rest: CLASSES:SAMPLE */

enum ur_traced_kind {
	UR_TRACED_CONTEXT, /* struct ibv_context */
	UR_TRACED_CQ,	   /* struct ibv_cq_ex; `extended`: with readers */
	UR_TRACED_QP,	   /* struct ibv_qp_ex; `extended`: with builders */
};

/* Gets an object, which is not destroyed meanwhile; takes no lock of ours. */
typedef void ur_traced_fn(enum ur_traced_kind kind, void *object, bool extended,
			  bool all_signaled);
/* Calls fn for each object there is. */
typedef void ur_traced_each(ur_traced_fn *fn);

/* libibverbs's. */
extern ur_traced_each *ur_traced_objects;

/* liburnic-trace.so's: takes the tool's socket, and returns when the trace is over;
 * NULL, or why there was none. */
typedef const char *ur_trace_attach_fn(int fd, const char *order,
				       ur_traced_each *each);

/* An order of a tool (docs/wire/daemon.md, "Orders"): takes its socket. */
void ur_tool_order(int fd);

#endif
