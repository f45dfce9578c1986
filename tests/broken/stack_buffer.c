/* SPDX-License-Identifier: BSD-2-Clause */
/* The message is on the stack of a function that has returned. */
#include <stdio.h>
#include <unistd.h>

#include "broken.h"

static struct pair p;
static struct ibv_mr *mr;

static __attribute__((noinline)) void send_number(int number)
{
	char text[SIZE];

	snprintf(text, sizeof(text), "number %d", number);
	mr = ibv_reg_mr(p.pd, text, sizeof(text), 0);
	need(mr != NULL, "ibv_reg_mr");
	need(!post(p.a, IBV_WR_SEND, text, mr->lkey, sizeof(text),
		   IBV_SEND_SIGNALED),
	     "post");
}

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	send_number(7);
	/* The peer takes it late. */
	usleep(2000);
	need(!receive(p.b, p.memory + SIZE, p.mr->lkey, SIZE), "receive");
	do
		wc = next(p.cq);
	while (wc.qp_num != p.a->qp_num);
	say_status(&wc);
	need(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	pair_close(&p);
	return 0;
}
