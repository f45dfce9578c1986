/* SPDX-License-Identifier: BSD-2-Clause */
/* No experimental request is signaled. */
#include <infiniband/verbs_exp.h>
#include <string.h>

#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_sge sge;
	int rc = 0;

	pair_open(&p);
	sge = (struct ibv_sge){ (uintptr_t)p.memory, 64, p.mr->lkey };
	memset(&wr, 0, sizeof(wr));
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_opcode = IBV_EXP_WR_SEND;
	/* The peer has no receive, so none is complete. */
	for (int i = 0; i < 100 && !rc; i++)
		rc = ibv_exp_post_send(p.a, &wr, &bad);
	say_error("ibv_exp_post_send", rc);
	pair_close(&p);
	return 0;
}
