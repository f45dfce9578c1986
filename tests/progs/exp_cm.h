/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections by librdmacm, for programs that make their queue pairs by
 * ibv_exp_create_qp(): one after the other, the server first. */
#ifndef URNIC_TESTS_EXP_CM_H
#define URNIC_TESTS_EXP_CM_H

#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "vt.h"

struct exp_cm {
	struct rdma_cm_id
		*listener; /* of the server, from the first connection on */
	char port[8];	   /* of the client likewise */
};

static inline void exp_cm_listen(struct exp_cm *cm, int fd)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int port, none;

	VT_TRUE(rdma_create_id(NULL, &cm->listener, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_bind_addr(cm->listener, (struct sockaddr *)&any) == 0);
	VT_TRUE(rdma_listen(cm->listener, 2) == 0);
	port = ntohs(rdma_get_src_port(cm->listener));
	vt_swap(fd, &port, &none, sizeof(port));
}

static inline struct rdma_cm_id *exp_cm_resolve(struct exp_cm *cm,
						const char *host, int fd)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *ai;
	struct rdma_cm_id *id;
	int port, none = 0;

	if (!cm->port[0]) {
		vt_swap(fd, &none, &port, sizeof(port));
		snprintf(cm->port, sizeof(cm->port), "%d", port);
	}
	VT_TRUE(rdma_getaddrinfo(host, cm->port, &hints, &ai) == 0);
	VT_TRUE(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	VT_TRUE(rdma_resolve_addr(id, NULL, ai->ai_dst_addr, 5000) == 0);
	VT_TRUE(rdma_resolve_route(id, 5000) == 0);
	rdma_freeaddrinfo(ai);
	return id;
}

/* The next connection, which has a device and needs a queue pair. `fd`: between the
 * two sides (vt_connect()). */
static inline struct rdma_cm_id *exp_cm_id(struct exp_cm *cm, const char *host,
					   int fd)
{
	struct rdma_cm_id *id;

	if (host)
		return exp_cm_resolve(cm, host, fd);
	if (!cm->listener)
		exp_cm_listen(cm, fd);
	VT_TRUE(rdma_get_request(cm->listener, &id) == 0);
	return id;
}

/* With id->qp, in RESET. It is in RTS afterwards, on both sides. */
static inline void exp_cm_connect(struct rdma_cm_id *id, const char *host)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT };
	struct rdma_conn_param param = { .responder_resources = 4,
					 .initiator_depth = 4,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
	int mask;

	VT_TRUE(rdma_init_qp_attr(id, &init, &mask) == 0);
	VT_TRUE(ibv_modify_qp(id->qp, &init, mask) == 0);
	VT_TRUE((host ? rdma_connect(id, &param) : rdma_accept(id, &param)) ==
		0);
}

static inline void exp_cm_end(struct exp_cm *cm)
{
	if (cm->listener)
		VT_TRUE(rdma_destroy_id(cm->listener) == 0);
}

#endif
