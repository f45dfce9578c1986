/* SPDX-License-Identifier: BSD-2-Clause */
/* No mistake: requests without elements (their lists are not read), in memory that
 * is mapped late, which is where a stack without a limit could grow to. */
#include <string.h>
#include <unistd.h>

#include "broken.h"

#define LARGE (1 << 20)

static struct pair p;

/* Puts into *at where a list was that is gone. */
static __attribute__((noinline)) void stale(uintptr_t *at)
{
	volatile struct ibv_sge list[16384];

	list[16].length = 64;
	*at = (uintptr_t)&list[16];
}

int main(void)
{
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct ibv_send_wr *wr, *bad;
	uintptr_t at;

	stale(&at);
	pair_open(&p);
	wr = sbrk(LARGE); /* zeroed, and behind what was mapped so far */
	need((intptr_t)wr != -1, "sbrk");
	wr->opcode = IBV_WR_SEND;
	wr->send_flags = IBV_SEND_SIGNALED;
	memcpy(&wr->sg_list, &at, sizeof(at));
	memcpy(&recv.sg_list, &at, sizeof(at));
	need(!ibv_post_recv(p.b, &recv, &bad_recv), "ibv_post_recv");
	need(!ibv_post_send(p.a, wr, &bad), "ibv_post_send");
	for (int i = 0; i < 2; i++)
		need(next(p.cq).status == IBV_WC_SUCCESS, "completion");
	pair_close(&p);
	say("done");
	return 0;
}
