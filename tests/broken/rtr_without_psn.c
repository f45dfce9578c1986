/* SPDX-License-Identifier: BSD-2-Clause */
/* The first PSN is set in the structure, and not in the mask. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .rq_psn = 77,
				 .max_dest_rd_atomic = 1 };
	struct ibv_qp *qp;

	pair_open(&p);
	qp = make_qp(&p);
	to_init(qp);
	show_qp(qp);
	a.dest_qp_num = p.a->qp_num;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.dgid = p.gid;
	say_error("ibv_modify_qp",
		  ibv_modify_qp(qp, &a,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					IBV_QP_DEST_QPN |
					IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER));
	need(!ibv_destroy_qp(qp), "ibv_destroy_qp");
	pair_close(&p);
	return 0;
}
