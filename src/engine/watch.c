/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The watcher: one thread per process, asleep until an address or link
 * changes or urnicd has something to say.  It is not a lane's helper because
 * finding a new daemon may take seconds, and a lane must not wait for that.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/internal.h"

enum {
	FD_WAKE,
	FD_NETLINK,
	FD_CLIENT,
	FD_COUNT,
};

static struct ur_client *client_of(struct ur_adapter *a)
{
	return atomic_load_explicit(&a->client, memory_order_acquire);
}

static void *watcher_main(void *arg)
{
	struct ur_adapter *a = arg;
	int nl = ur_dev_watch_open(&a->dev);

	if (nl < 0)
		ur_info("no netlink: address changes are not seen: %s",
			strerror(-nl));
	for (;;) {
		struct ur_client *client = client_of(a);
		struct pollfd fds[FD_COUNT] = {
			[FD_WAKE] = { a->watch_wake_fd, POLLIN, 0 },
			[FD_NETLINK] = { nl, POLLIN, 0 },
			[FD_CLIENT] = { client ? ur_client_fd(client) : -1,
					POLLIN, 0 },
		};
		uint64_t n;

		if (poll(fds, FD_COUNT, -1) <= 0)
			continue;
		if (fds[FD_WAKE].revents)
			(void)!read(a->watch_wake_fd, &n, sizeof(n));
		if (fds[FD_NETLINK].revents)
			ur_dev_watch_read(&a->dev, nl);
		if (fds[FD_CLIENT].revents)
			ur_client_service(client);
	}
	return NULL;
}

int ur_watcher_start(struct ur_adapter *a)
{
	int err;

	a->watch_wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->watch_wake_fd < 0)
		return -errno;
	err = ur_thread_start(&a->watcher, "urnic-watch", watcher_main, a);
	if (err)
		close(a->watch_wake_fd);
	return err;
}
