/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by ibv_post_send() and the builders of ibv_qp_ex. */
#ifndef UR_VERBS_SEND_H
#define UR_VERBS_SEND_H

#include <errno.h>

#include "verbs/objects.h"

enum urv_op_kind {
	URV_OP_NONE,   /* not for this queue pair */
	URV_OP_SEND,   /* two-sided; to an address on UD */
	URV_OP_RDMA,   /* remote address and key */
	URV_OP_ATOMIC, /* the same, operands, and eight bytes of result */
	URV_OP_PUT,    /* remote address and key, and eight bytes of data */
	URV_OP_FLUSH, /* the same, and placement and selectivity; builders only */
	URV_OP_BIND,   /* a window and its binding */
	URV_OP_INV,    /* a key */
	URV_OP_TSO,    /* a header, and data to be segmented after it */
	URV_OP_NOP,    /* nothing; experimental verbs only */
	URV_OP_MASKED, /* an atomic with masks; experimental verbs only */
	URV_OP_UMR,    /* an indirect key and its list; the same */
};

#define URV_ATOMIC_LEN 8u

#define URV_OPCODES (UR_WR_UMR_INVALIDATE + 1u)

struct urv_op {
	uint16_t types; /* bit op_type */
	uint8_t kind;
	bool inline_ok;
};

extern const struct urv_op urv_ops[URV_OPCODES]
	__attribute__((visibility("hidden")));

/* The kind of operation of an opcode on a queue pair with that op_type: of enum
 * ur_qp_type, or URV_OPS_IWARP. */
static inline enum urv_op_kind urv_op_kind(uint32_t op_type, uint32_t opcode)
{
	if (opcode >= URV_OPCODES || !(urv_ops[opcode].types & 1u << op_type))
		return URV_OP_NONE;
	return (enum urv_op_kind)urv_ops[opcode].kind;
}

/* May data of the operation be inline? */
static inline bool urv_op_inline(uint32_t opcode)
{
	return urv_ops[opcode].inline_ok;
}

/* 0, or the errno of posting a send in the queue pair's present state. IBTA
 * 10.8.2: no sends before RTS; SQE and ERR accept and flush them. */
static inline int urv_send_state(const struct urv_qp *qp)
{
	enum ur_qp_state state =
		atomic_load_explicit(&qp->core.state, memory_order_relaxed);

	if (qp->generation != urv_generation)
		return ENODEV;
	return state < UR_QPS_RTS ? EINVAL : 0;
}

/* Append to the request; positive errno. Inline: there is room for it. */
static inline int urv_wqe_add_sges(const struct urv_qp *qp, struct ur_swqe *w,
				   const struct ur_sge *sge, size_t n)
{
	struct ur_sge *dst = w->data.sge + w->num_sge;
	uint64_t length = w->length;

	if (n > qp->core.sq.max_sge - w->num_sge)
		return EINVAL;
	for (size_t i = 0; i < n; i++) {
		dst[i] = sge[i];
		length += sge[i].length;
	}
	if (length > UR_MAX_MSG_SIZE)
		return EINVAL;
	w->num_sge = (uint16_t)(w->num_sge + n);
	w->length = (uint32_t)length;
	return 0;
}

/* From the first queue pair with atomics of 16 bytes on, inline data is copied by
 * ur_guard_copy_whole().  The flag of base/guard.h is not visible in this library. */
extern _Atomic bool urv_inline_whole;
int urv_wqe_add_inline(const struct urv_qp *qp, struct ur_swqe *w,
		       const void *data, size_t len);

/* The header of a TSO request: 0 or positive errno. */
int urv_tso_fill(const struct urv_qp *qp, struct ur_swqe *w, const void *hdr,
		 uint16_t hdr_len, uint16_t mss);

/* Flags that a request may have (UR_SEND_). */
static inline uint32_t urv_send_flags(const struct urv_qp *qp)
{
	const uint32_t flags = UR_SEND_FENCE | UR_SEND_SIGNALED |
			       UR_SEND_SOLICITED | UR_SEND_INLINE;

	return qp->core.type == UR_QPT_RAW_PACKET ? flags | UR_SEND_IP_CSUM
						  : flags;
}

/* Stages one request, under the queue's lock: 0 or positive errno. */
int urv_send_stage(struct urv_qp *qp, const struct ibv_send_wr *wr);

/* Validates a complete request: 0 or positive errno. */
int urv_wqe_check(const struct urv_qp *qp, const struct ur_swqe *w);

/* Start committed requests; called after unlocking the queue. */
static inline void urv_send_kick(struct urv_qp *qp)
{
	ur_adapter_doorbell(&qp->core);
}

#endif
