/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the rest of the layer takes for granted, checked by the compiler: equal
 * numbers on both sides of the ABI, and the layouts that inline functions and
 * applications were compiled with.
 */
#include <stddef.h>

#include "rdmacm/id.h"

#define SAME(ur, rdma)                                                         \
	_Static_assert((int)(ur) == (int)(rdma), #ur " is not " #rdma)
#define SIZE(type, size)                                                       \
	_Static_assert(sizeof(type) == (size), "size of " #type)
#define AT(type, member, offset)                                               \
	_Static_assert(offsetof(type, member) == (offset),                     \
		       "offset of " #member " in " #type)

SAME(UR_PS_IPOIB, RDMA_PS_IPOIB);
SAME(UR_PS_IB, RDMA_PS_IB);
SAME(UR_PS_TCP, RDMA_PS_TCP);
SAME(UR_PS_UDP, RDMA_PS_UDP);
SAME(UR_QP_STATE, IBV_QP_STATE);
SAME(UR_QP_AV, IBV_QP_AV);
SAME(UR_QP_DEST_QPN, IBV_QP_DEST_QPN);

SIZE(struct rdma_event_channel, 4);
SIZE(struct rdma_addr, 296);
SIZE(struct rdma_route, 312);
SIZE(struct rdma_conn_param, 24);
SIZE(struct rdma_ud_param, 56);
SIZE(struct rdma_cm_event, 80);
SIZE(struct rdma_addrinfo, 96);
SIZE(struct rdma_cm_id, 416);

AT(struct rdma_cm_id, channel, 8);
AT(struct rdma_cm_id, qp, 24);
AT(struct rdma_cm_id, route.addr.dst_addr, 160);
AT(struct rdma_cm_id, route.addr.addr.ibaddr.sgid, 288);
AT(struct rdma_cm_id, route.path_rec, 328);
AT(struct rdma_cm_id, ps, 344);
AT(struct rdma_cm_id, port_num, 348);
AT(struct rdma_cm_id, event, 352);
AT(struct rdma_cm_id, send_cq_channel, 360);
AT(struct rdma_cm_id, srq, 392);
AT(struct rdma_cm_id, qp_type, 408);
AT(struct rdma_cm_event, param, 24);

/* An application's handle is the address of both. */
AT(struct urc_id, id, 0);
AT(struct urc_channel, ch, 0);
AT(struct urc_event, ev, 0);

/* The argument of a user's event takes the place of the parameters. */
_Static_assert(sizeof(((struct rdma_cm_event *)0)->param) >= sizeof(uint64_t),
	       "room for the argument of rdma_write_cm_event()");
