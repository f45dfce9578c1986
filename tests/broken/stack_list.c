/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of a prepared request is on the stack of a function that has returned. */
#include <string.h>

#include "broken.h"

static struct pair p;
static struct ibv_send_wr wr;

static __attribute__((noinline)) void prepare(void)
{
	/* Far below the frames of the calls that come */
	volatile struct ibv_sge list[16384];
	uintptr_t at = (uintptr_t)&list[16];

	list[16].addr = (uintptr_t)p.memory;
	list[16].length = 64;
	list[16].lkey = p.mr->lkey;
	wr = (struct ibv_send_wr){ .wr_id = 7,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED };
	memcpy(&wr.sg_list, &at, sizeof(at));
}

int main(void)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	pair_open(&p);
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, 64), "receive");
	prepare();
	need(!ibv_post_send(p.a, &wr, &bad), "ibv_post_send");
	do
		wc = next(p.cq);
	while (wc.qp_num != p.a->qp_num);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
