/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints "ready", and then the asynchronous events of a device on which it has queue
 * pairs, one a line, until it is killed.
 */
#include <stdio.h>

#include "vt.h"

int main(int argc, char **argv)
{
	struct vt_args args = { .gid_index = -1 };
	struct vt_dev dev;
	struct vt_loop loop;

	vt_args(&args, argc, argv);
	vt_dev_open(&dev, args.gid_index);
	vt_loop_open(&dev, &loop);
	vt_loop_send(&loop, 1);
	printf("ready\n");
	for (;;) {
		struct ibv_async_event e;

		fflush(stdout);
		VT_TRUE(!ibv_get_async_event(dev.ctx, &e));
		printf("%s\n", ibv_event_type_str(e.event_type));
		ibv_ack_async_event(&e);
	}
}
