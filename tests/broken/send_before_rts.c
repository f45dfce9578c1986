/* SPDX-License-Identifier: BSD-2-Clause */
/* A SEND is posted before the queue pair is in RTS. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_qp *qp;

	pair_open(&p);
	qp = make_qp(&p);
	to_init(qp);
	show_qp(qp);
	say_error("ibv_post_send", post(qp, IBV_WR_SEND, p.memory, p.mr->lkey,
					64, IBV_SEND_SIGNALED));
	need(!ibv_destroy_qp(qp), "ibv_destroy_qp");
	pair_close(&p);
	return 0;
}
