/* SPDX-License-Identifier: BSD-2-Clause */
/* 0 is taken for the shortest wait of RNR; it is the longest. */
#include "broken.h"

static struct pair p = { .rnr_timer_0 = 1 };

int main(void)
{
	pair_open(&p);
	say("nothing");
	pair_close(&p);
	return 0;
}
