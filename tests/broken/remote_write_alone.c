/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers shall write to the memory, so that is the only right it gets. */
#include <errno.h>

#include "broken.h"

static struct pair p;

int main(void)
{
	struct ibv_mr *mr;

	pair_open(&p);
	mr = ibv_reg_mr(p.pd, p.memory, SIZE, IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		say_error("ibv_reg_mr", errno);
	pair_close(&p);
	return mr != NULL;
}
