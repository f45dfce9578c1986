/* SPDX-License-Identifier: BSD-2-Clause */
/* All receives have one buffer: the second message overwrites the first. */
#include <string.h>

#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;

	pair_open(&p);
	for (int i = 0; i < 2; i++)
		need(!receive(p.b, p.memory + SIZE, p.mr->lkey, 64), "receive");
	memset(p.memory, 1, 64);
	memset(p.memory + 64, 2, 64);
	for (int i = 0; i < 2; i++)
		need(!post(p.a, IBV_WR_SEND, p.memory + i * 64, p.mr->lkey, 64,
			   0),
		     "post");
	wc = next(p.cq);
	need(wc.status == IBV_WC_SUCCESS, "receive");
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
