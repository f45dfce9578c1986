/* SPDX-License-Identifier: BSD-2-Clause */
/* The program ends without destroying anything. */
#include "broken.h"

static struct pair p;

int main(void)
{
	pair_open(&p);
	say("nothing");
	return 0;
}
