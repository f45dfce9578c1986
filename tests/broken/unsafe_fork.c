/* SPDX-License-Identifier: BSD-2-Clause */
/* A child is made with registered memory, and without ibv_fork_init(). */
#include <sys/wait.h>
#include <unistd.h>

#include "broken.h"

static struct pair p;

int main(void)
{
	pid_t child;

	pair_open(&p);
	child = fork();
	if (!child)
		_exit(0);
	need(waitpid(child, NULL, 0) == child, "waitpid");
	say("nothing");
	pair_close(&p);
	return 0;
}
