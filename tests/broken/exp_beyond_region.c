/* SPDX-License-Identifier: BSD-2-Clause */
/* An experimental request is longer than its region. */
#include <infiniband/verbs_exp.h>
#include <string.h>

#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_exp_wc wc;
	struct ibv_sge sge;
	int n;

	pair_open(&p);
	sge = (struct ibv_sge){ (uintptr_t)p.memory + SIZE, SIZE + 64,
				p.mr->lkey };
	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 7;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_opcode = IBV_EXP_WR_SEND;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	need(!ibv_exp_post_send(p.a, &wr, &bad), "ibv_exp_post_send");
	do
		n = ibv_exp_poll_cq(p.cq, 1, &wc, sizeof(wc));
	while (!n);
	need(n == 1, "ibv_exp_poll_cq");
	say(ibv_wc_status_str(wc.status));
	pair_close(&p);
	return 0;
}
