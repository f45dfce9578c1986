/* SPDX-License-Identifier: BSD-2-Clause */
/* No request is signaled, so nothing tells that the queue has room again. */
#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_wc wc;
	int rc = 0;

	pair_open(&p);
	for (int i = 0; i < 4; i++)
		need(!receive(p.b, p.memory + SIZE + i * 64, p.mr->lkey, 64),
		     "receive");
	for (int i = 0; i < 100 && !rc; i++) {
		rc = post(p.a, IBV_WR_SEND, p.memory, p.mr->lkey, 64, 0);
		if (!rc)
			continue;
		say_error("ibv_post_send", rc);
		break;
	}
	while (ibv_poll_cq(p.cq, 1, &wc) > 0)
		;
	pair_close(&p);
	return 0;
}
