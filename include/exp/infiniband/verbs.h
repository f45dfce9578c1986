/* SPDX-License-Identifier: BSD-2-Clause */
/* The distribution's infiniband/verbs.h with the experimental verbs, as the one
 * of Mellanox OFED: for programs that include no other header. */
#ifndef URNIC_EXP_VERBS_H
#define URNIC_EXP_VERBS_H

#pragma GCC system_header /* #include_next is an extension */

/* The event of that release has a target of DC too. The library's functions are
 * the same for both structures. */
#define ibv_async_event	    urnic_std_async_event
#define ibv_get_async_event urnic_std_get_async_event
#define ibv_ack_async_event urnic_std_ack_async_event

#include_next <infiniband/verbs.h>

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
