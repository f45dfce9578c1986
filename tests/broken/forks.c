/* SPDX-License-Identifier: BSD-2-Clause */
/* Children are made while another thread posts. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broken.h"

#define CHILDREN 100

static struct pair p;
static atomic_bool stop;

static void *posting(void *arg)
{
	while (!stop) {
		need(!post_to(p.a, IBV_WR_RDMA_WRITE, p.memory, p.mr->lkey, 64,
			      p.memory + SIZE, p.mr->rkey),
		     "post");
		need(next(p.cq).status == IBV_WC_SUCCESS, "WRITE");
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;

	pair_open(&p);
	need(!pthread_create(&thread, NULL, posting, NULL), "pthread_create");
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		need(waitpid(child, NULL, 0) == child, "waitpid");
	}
	stop = true;
	pthread_join(thread, NULL);
	say("done");
	pair_close(&p);
	return 0;
}
