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

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/timer.h"
#include "engine/hooks.h"
#include "engine/internal.h"
#include "engine/publish.h"
#include "engine/report.h"
#include "engine/shm_peers.h"

enum {
	FD_WAKE,
	FD_CLIENT,
	FD_NETLINK, /* of each adapter */
	FD_SHM = FD_NETLINK + UR_MAX_DEVICES,
	FD_COUNT = FD_SHM + UR_SHM_MAX + UR_IMPORT_FDS, /* at most */
};

static int wake_fd = -1; /* written before the thread starts */
static _Atomic bool looks_again;

/* What the last reading of the device's addresses has changed. */
static void report(struct ur_adapter *a)
{
	ur_adapter_check_removed(a);
	ur_cm_hook_addresses(a);
}

/* -1 while there is no adapter of that index, or no netlink.  Opening reads the
 * addresses too, since some may have gone before. */
static void open_netlink(int nl[UR_MAX_DEVICES], bool tried[UR_MAX_DEVICES])
{
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a || tried[k])
			continue;
		tried[k] = true;
		nl[k] = ur_dev_watch_open(&a->dev);
		if (nl[k] < 0)
			ur_info("no netlink: address changes of %s are not "
				"seen: %s",
				a->dev.name, strerror(-nl[k]));
		else
			report(a);
	}
}

/* A device that has come back is taken up by the read after its removal. */
static void follow(struct ur_adapter *a, int fd)
{
	ur_dev_watch_read(&a->dev, fd);
	report(a);
}

static void look_again(void)
{
	if (!atomic_exchange(&looks_again, false))
		return;
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		struct ur_adapter *a = ur_process_adapter(k);

		if (!a)
			continue;
		(void)ur_dev_refresh(&a->dev);
		report(a);
	}
}

/* What has its time: milliseconds until the next, -1: none. */
static int timed_work(void)
{
	uint64_t now = ur_clock_ns(), next = ur_report_watch_ns();

	if (now >= next)
		ur_report_unwatch(next);
	if (now >= ur_publish_next_ns())
		ur_publish(now);
	next = ur_report_watch_ns();
	if (ur_publish_next_ns() < next)
		next = ur_publish_next_ns();
	if (next == UR_NEVER)
		return -1;
	return next > now ? (int)((next - now) / 1000000u) + 1 : 1;
}

static void work(const struct pollfd *fds, unsigned int nshm,
		 struct ur_client *client)
{
	uint64_t n;

	if (fds[FD_WAKE].revents)
		(void)!read(wake_fd, &n, sizeof(n));
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		const struct pollfd *p = &fds[FD_NETLINK + k];

		if (p->revents)
			follow(ur_process_adapter(k), p->fd);
	}
	if (fds[FD_CLIENT].revents)
		ur_client_service(client);
	ur_shm_work(client, fds + FD_SHM, nshm);
}

static void *watcher_main(void *arg)
{
	bool tried[UR_MAX_DEVICES] = { false };
	int nl[UR_MAX_DEVICES];

	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++)
		nl[k] = -1;
	for (;;) {
		struct ur_client *client = ur_process_client();
		struct pollfd fds[FD_COUNT];
		unsigned int nshm, nimport;

		fds[FD_WAKE] = (struct pollfd){ wake_fd, POLLIN, 0 };
		fds[FD_CLIENT] =
			(struct pollfd){ client ? ur_client_fd(client) : -1,
					 POLLIN, 0 };

		open_netlink(nl, tried);
		look_again();
		for (unsigned int k = 0; k < UR_MAX_DEVICES; k++)
			fds[FD_NETLINK + k] =
				(struct pollfd){ nl[k], POLLIN, 0 };
		nshm = ur_shm_fds(fds + FD_SHM);
		nimport = ur_import_fds(fds + FD_SHM + nshm);
		if (poll(fds, FD_SHM + nshm + nimport, timed_work()) <= 0)
			continue;
		work(fds, nshm, client);
		ur_import_work(fds + FD_SHM + nshm, nimport);
	}
	return NULL;
}

void ur_watcher_wake(void)
{
	ur_event_signal(wake_fd);
}

void ur_watcher_look(void)
{
	atomic_store(&looks_again, true);
	if (wake_fd >= 0)
		ur_watcher_wake();
}

void ur_watcher_abandon(void)
{
	if (wake_fd >= 0)
		close(wake_fd);
	wake_fd = -1;
	ur_shm_abandon();
	ur_import_abandon();
}

int ur_watcher_start(void)
{
	pthread_t thread;
	int err;

	if (wake_fd >= 0) {
		ur_watcher_wake();
		return 0;
	}
	ur_publish_start();
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return -errno;
	err = ur_thread_start(&thread, "urnic-watch", watcher_main, NULL);
	if (err)
		ur_watcher_abandon();
	return err;
}
