/* SPDX-License-Identifier: BSD-2-Clause */
/* The completion queue is destroyed before its queue pairs. */
#include "broken.h"

static struct pair p;

int main(void)
{
	pair_open(&p);
	say_error("ibv_destroy_cq", ibv_destroy_cq(p.cq));
	pair_close(&p);
	return 0;
}
