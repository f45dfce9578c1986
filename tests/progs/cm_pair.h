/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of one process that librdmacm has connected. */
#ifndef URNIC_TESTS_CM_PAIR_H
#define URNIC_TESTS_CM_PAIR_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "vt.h"

static struct rdma_cm_id *listener, *server, *client;

static inline struct rdma_conn_param vt_pair_param(void)
{
	return (struct rdma_conn_param){ .responder_resources = 8,
					 .initiator_depth = 8,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

static inline void *vt_pair_accept(void *arg)
{
	struct rdma_conn_param param = vt_pair_param();

	VT_TRUE(rdma_get_request(listener, &server) == 0);
	VT_TRUE(rdma_accept(server, &param) == 0);
	return arg;
}

/* `init` is a copy: librdmacm writes to it. */
static inline struct rdma_cm_id *vt_pair_end(const char *host, const char *port,
					     int flags, struct ibv_pd *pd,
					     struct ibv_qp_init_attr init)
{
	struct rdma_addrinfo hints = { .ai_flags = flags,
				       .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;

	VT_TRUE(rdma_getaddrinfo(host, port, &hints, &res) == 0);
	VT_TRUE(rdma_create_ep(&id, res, pd, &init) == 0);
	rdma_freeaddrinfo(res);
	return id;
}

/* Without a domain each side gets the default one of its device; likewise its
 * completion queues. */
static inline void vt_pair_open(const char *host, struct ibv_pd *pd,
				struct ibv_qp_init_attr init)
{
	struct rdma_conn_param param = vt_pair_param();
	pthread_t thread;
	char port[16];

	listener = vt_pair_end(host, NULL, RAI_PASSIVE, pd, init);
	VT_TRUE(rdma_listen(listener, 1) == 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	VT_TRUE(pthread_create(&thread, NULL, vt_pair_accept, NULL) == 0);
	client = vt_pair_end(host, port, 0, pd, init);
	VT_TRUE(rdma_connect(client, &param) == 0);
	VT_TRUE(pthread_join(thread, NULL) == 0);
}

#endif
