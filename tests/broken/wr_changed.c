/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffer of a request of the builders is reused while it is sent. */
#include <string.h>
#include <unistd.h>

#include "broken.h"

static struct pair p = { .builders = 1 };

int main(void)
{
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;

	pair_open(&p);
	ex = ibv_qp_to_qp_ex(p.a);
	ibv_wr_start(ex);
	ex->wr_id = 7;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, p.mr->lkey, (uintptr_t)p.memory, SIZE);
	need(!ibv_wr_complete(ex), "ibv_wr_complete");
	memset(p.memory, 1, SIZE);
	/* The peer takes it late. */
	usleep(2000);
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, SIZE), "receive");
	do
		wc = next(p.cq);
	while (wc.qp_num != p.a->qp_num);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
