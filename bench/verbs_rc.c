/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs_rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define GID_INDEX 0

void rc_need(const void *p, const char *what)
{
	if (!p)
		die(what);
}

struct ibv_context *rc_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	rc_need(list, "ibv_get_device_list");
	for (unsigned int i = 0; list[i] && !context; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	rc_need(context, name);
	return context;
}

struct ibv_qp *rc_create(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = depth,
			 .max_recv_wr = depth,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	rc_need(qp, "ibv_create_qp");
	return qp;
}

unsigned int rc_poll(struct ibv_cq *cq)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, 16, wc);

	if (n < 0)
		die("ibv_poll_cq");
	for (int i = 0; i < n; i++) {
		if (wc[i].status == IBV_WC_SUCCESS)
			continue;
		fprintf(stderr, "completion: %s\n",
			ibv_wc_status_str(wc[i].status));
		exit(1);
	}
	return (unsigned int)n;
}

struct ibv_pd *rc_domain(struct ibv_pd *pd, struct ibv_td **td)
{
	struct ibv_td_init_attr none = { 0 };
	struct ibv_parent_domain_init_attr parent = { .pd = pd };
	struct ibv_pd *own;

	*td = ibv_alloc_td(pd->context, &none);
	rc_need(*td, "ibv_alloc_td");
	parent.td = *td;
	own = ibv_alloc_parent_domain(pd->context, &parent);
	rc_need(own, "ibv_alloc_parent_domain");
	return own;
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags =
					    IBV_ACCESS_REMOTE_WRITE };

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  IBV_QP_ACCESS_FLAGS))
		die("to INIT");
}

static void to_rtr(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .sgid_index = GID_INDEX,
				      .hop_limit = 64 } },
	};

	if (ibv_query_gid(qp->context, 1, GID_INDEX, &attr.ah_attr.grh.dgid))
		die("ibv_query_gid");
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		die("to RTR");
}

void rc_connect(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1 };

	to_init(qp);
	to_rtr(qp, peer);
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		die("to RTS");
}
