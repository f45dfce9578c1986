/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread domain promises one thread; two post. */
#include <pthread.h>

#include "broken.h"

static struct pair p = { .thread_domain = 1 };

static void *write_once(void *arg)
{
	need(!post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, 64,
		      p.memory + SIZE, p.mr->rkey),
	     "post");
	return NULL;
}

int main(void)
{
	pthread_t thread;
	struct ibv_wc wc;

	pair_open(&p);
	write_once(NULL);
	need(!pthread_create(&thread, NULL, write_once, NULL),
	     "pthread_create");
	pthread_join(thread, NULL);
	wc = next(p.cq);
	wc = next(p.cq);
	say_status(&wc);
	pair_close(&p);
	return 0;
}
