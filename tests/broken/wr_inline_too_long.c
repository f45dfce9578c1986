/* SPDX-License-Identifier: BSD-2-Clause */
/* A builder is given inline data without a look at the limit. */
#include "broken.h"

static struct pair p = { .builders = 1 };

int main(void)
{
	struct ibv_qp_ex *ex;

	pair_open(&p);
	ex = ibv_qp_to_qp_ex(p.a);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, p.memory, 1024);
	say_error("ibv_wr_complete", ibv_wr_complete(ex));
	pair_close(&p);
	return 0;
}
