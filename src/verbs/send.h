/* SPDX-License-Identifier: BSD-2-Clause */
/* What ibv_post_send() and the builders of ibv_qp_ex have in common. */
#ifndef UR_VERBS_SEND_H
#define UR_VERBS_SEND_H

#include "verbs/objects.h"

enum urv_op_kind {
	URV_OP_NONE,   /* not for this queue pair */
	URV_OP_SEND,   /* two-sided; to an address on UD */
	URV_OP_RDMA,   /* remote address and key */
	URV_OP_ATOMIC, /* those, operands, and eight bytes of result */
	URV_OP_PUT,    /* remote address and key, and eight bytes of data */
	URV_OP_FLUSH,  /* those, and what is to be flushed; builders only */
	URV_OP_BIND,   /* a window and what it is to show */
	URV_OP_INV,    /* a key */
	URV_OP_TSO,    /* a header, and data to be cut behind it */
};

#define URV_ATOMIC_LEN 8u

/* What kind of operation an opcode is on a queue pair with that op_type: of
 * enum ur_qp_type, or URV_OPS_IWARP. */
enum urv_op_kind urv_op_kind(uint32_t op_type, uint32_t opcode);

/* May data of the operation be inline? */
bool urv_op_inline(uint32_t opcode);

/* 0, or the errno of posting a send in the queue pair's present state. */
int urv_send_state(const struct urv_qp *qp);

/* Append to the request; positive errno.  Inline: room is left for it. */
int urv_wqe_add_sges(const struct urv_qp *qp, struct ur_swqe *w,
		     const struct ur_sge *sge, size_t n);
int urv_wqe_add_inline(const struct urv_qp *qp, struct ur_swqe *w,
		       const void *data, size_t len);

/* The header of a TSO request: 0 or positive errno. */
int urv_tso_fill(const struct urv_qp *qp, struct ur_swqe *w, const void *hdr,
		 uint16_t hdr_len, uint16_t mss);

/* Flags that a request may have (UR_SEND_). */
uint32_t urv_send_flags(const struct urv_qp *qp);

/* A complete request, whose data is known: 0 or positive errno. */
int urv_wqe_check(const struct urv_qp *qp, const struct ur_swqe *w);

/* After the queue's lock is given up: start what was committed. */
static inline void urv_send_kick(struct urv_qp *qp)
{
	ur_adapter_doorbell(&qp->core);
}

#endif
