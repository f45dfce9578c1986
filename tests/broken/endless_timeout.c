/* SPDX-License-Identifier: BSD-2-Clause */
/* A timeout of 0 is taken for a short one; it is none at all. */
#include "broken.h"

static struct pair p = { .no_timeout = 1 };

int main(void)
{
	pair_open(&p);
	say("nothing");
	pair_close(&p);
	return 0;
}
