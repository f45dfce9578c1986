/* SPDX-License-Identifier: BSD-2-Clause */
/* The first PSN is a random number of 32 bits. */
#include "broken.h"

static struct pair p = { .psn = 0x12345678 };

int main(void)
{
	pair_open(&p);
	say("nothing");
	pair_close(&p);
	return 0;
}
