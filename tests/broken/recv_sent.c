/* SPDX-License-Identifier: BSD-2-Clause */
/* The buffer of a posted receive is sent, and the peer's answer overwrites it before
 * the program knows that it was sent. */
#include <unistd.h>

#include "broken.h"

static struct pair p;

static void wait_for(const volatile uint8_t *at, uint8_t value)
{
	for (int i = 0; *at != value; i++) {
		need(i < 100000, "no message");
		usleep(100);
	}
}

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	need(!receive(p.a, p.memory, p.mr->lkey, 64), "receive");
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, 64), "receive");
	p.memory[0] = 1;
	need(!post(p.a, IBV_WR_SEND, p.memory, p.mr->lkey, 64,
		   IBV_SEND_SIGNALED),
	     "post");
	wait_for(p.memory + SIZE, 1);
	p.memory[SIZE + 64] = 2;
	need(!post(p.b, IBV_WR_SEND, p.memory + SIZE + 64, p.mr->lkey, 64,
		   IBV_SEND_SIGNALED),
	     "post");
	wait_for(p.memory, 2);
	do
		wc = next(p.cq);
	while (wc.qp_num != p.a->qp_num || wc.opcode != IBV_WC_SEND);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
