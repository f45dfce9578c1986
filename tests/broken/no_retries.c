/* SPDX-License-Identifier: BSD-2-Clause */
/* The first lost packet, or late receive, ends the connection. */
#include "broken.h"

static struct pair p = { .no_retries = 1 };

int main(void)
{
	pair_open(&p);
	say("nothing");
	pair_close(&p);
	return 0;
}
