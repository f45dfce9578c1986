/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the checks of the RC responder (rc_check.c) and the execution of a
 * request (rc_resp.c) have in common.
 */
#ifndef UR_ROCE_RESP_H
#define UR_ROCE_RESP_H

#include "roce/internal.h"

/* The first fault of the request; UR_FAULT_NONE: it may be executed. */
enum ur_fault ur_resp_check(struct ur_rqp *q, struct ur_in *in);

/* One piece of memory that the peer may access, or NULL. */
uint8_t *ur_resp_remote(struct ur_rqp *q, uint32_t rkey, uint64_t va,
			uint32_t len, uint32_t access);

/* The payload of the responses to a READ request, except the last one. */
static inline uint32_t ur_resp_read_mtu(const struct ur_rqp *q,
					const struct ur_hdr *h)
{
	return h->bth.full ? h->full_size : q->mtu;
}

#endif
