/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that posts and polls is cancelled.  Neither is a cancellation point
 * (pthreads(7) lists those that are), so it goes on until it asks by itself,
 * and leaves the queue pair and all locks as they should be: another thread
 * goes on with them.  -n: so many times.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "vt.h"

static struct vt_dev dev;
static struct vt_args args = {
	.gid_index = -1,
	.n = 200,
};

struct sender {
	struct vt_loop loop;
	_Atomic uint64_t sent;
};

static void *send_on(void *arg)
{
	struct sender *s = arg;

	for (;;) {
		vt_loop_send(&s->loop, s->sent++);
		pthread_testcancel();
	}
	return NULL;
}

/* Returns how many it had sent. */
static uint64_t cancel_one(unsigned int moment)
{
	struct sender s = { 0 };
	pthread_t t;
	void *end;

	vt_loop_open(&dev, &s.loop);
	VT_TRUE(pthread_create(&t, NULL, send_on, &s) == 0);
	while (s.sent < 1 + moment % 4)
		;
	for (volatile unsigned int i = 0; i < moment * 37 % 3000; i++)
		;
	VT_TRUE(pthread_cancel(t) == 0);
	VT_TRUE(pthread_join(t, &end) == 0);
	VT_TRUE(end == PTHREAD_CANCELED);
	vt_loop_send(&s.loop, s.sent);
	vt_loop_close(&s.loop);
	return s.sent;
}

int main(int argc, char **argv)
{
	uint64_t sent = 0;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	for (long i = 0; i < args.n; i++)
		sent += cancel_one((unsigned int)i);
	vt_dev_close(&dev);
	printf("%ld threads, %lu messages\n", args.n, (unsigned long)sent);
	return 0;
}
