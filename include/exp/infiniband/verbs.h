/* SPDX-License-Identifier: BSD-2-Clause */
/* The distribution's infiniband/verbs.h with the experimental verbs, as the one
 * of Mellanox OFED: for programs that include no other header.  Its enumerations have
 * the additional members, so that a switch may name them. */
#ifndef URNIC_EXP_VERBS_H
#define URNIC_EXP_VERBS_H

#pragma GCC system_header /* #include_next is an extension */

/* The event of that release has a target of DC too. The library's functions are
 * the same for both structures. */
#define ibv_async_event	    urnic_std_async_event
#define ibv_get_async_event urnic_std_get_async_event
#define ibv_ack_async_event urnic_std_ack_async_event

/* In front of the first enumerator, so that the others keep their values */
#define IBV_EVENT_CQ_ERR                                                       \
	IBV_EXP_EVENT_DCT_KEY_VIOLATION = 32, IBV_EXP_EVENT_DCT_ACCESS_ERR,    \
	IBV_EXP_EVENT_DCT_REQ_ERR, IBV_EVENT_CQ_ERR = 0
#define IBV_QPT_RC                                                             \
	IBV_EXP_QP_TYPE_START = 32, IBV_EXP_QPT_DC_INI = 32, IBV_QPT_RC

#include_next <infiniband/verbs.h>

#undef IBV_EVENT_CQ_ERR
#undef IBV_QPT_RC
#undef ibv_async_event
#undef ibv_get_async_event
#undef ibv_ack_async_event

struct ibv_exp_dct;

struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		struct ibv_exp_dct *dct;
		int port_num;
	} element;
	enum ibv_event_type event_type;
};

#ifdef __cplusplus
extern "C" {
#endif
int ibv_get_async_event(struct ibv_context *context,
			struct ibv_async_event *event);
void ibv_ack_async_event(struct ibv_async_event *event);
#ifdef __cplusplus
}
#endif

#include <infiniband/verbs_exp.h>

#endif
