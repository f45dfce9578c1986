/* SPDX-License-Identifier: BSD-2-Clause */
/* The next message is built in the buffer of the one that is being sent. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broken.h"

static struct pair p;

static void build(const char *text)
{
	memset(p.memory, 0, SIZE);
	snprintf((char *)p.memory, SIZE, "%s", text);
}

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	build("first");
	need(!post(p.a, IBV_WR_SEND, p.memory, p.mr->lkey, SIZE,
		   IBV_SEND_SIGNALED),
	     "post");
	build("second");
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
