/* SPDX-License-Identifier: BSD-2-Clause */
/* Data is posted inline without a look at the limit. */
#include "broken.h"

static struct pair p;

int main(void)
{
	pair_open(&p);
	say_error("ibv_post_send", post(p.a, IBV_WR_SEND, p.memory, 0, 1024,
					IBV_SEND_INLINE | IBV_SEND_SIGNALED));
	pair_close(&p);
	return 0;
}
