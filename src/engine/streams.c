/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/streams.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/log.h"
#include "engine/internal.h"
#include "link/stream.h"

#define SPIN_NS	 20000u
#define AWAY_NS	 1000000u /* while lanes look: a pause between looks at them */
#define NS_OF_MS 1000000u

static void pause_ns(long ns)
{
	struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

static void sleep_until_news(uint64_t now_ns)
{
	struct epoll_event ev;
	uint64_t until;
	int fd = ur_streams_wait_fd(now_ns, &until), ms = -1;

	if (until != UR_NEVER)
		ms = until > now_ns
			     ? (int)((until - now_ns + NS_OF_MS - 1) / NS_OF_MS)
			     : 0;
	(void)epoll_wait(fd, &ev, 1, ms);
}

static void *streams_main(void *arg)
{
	bool slept = true;
	uint64_t busy = 0;

	for (;;) {
		uint64_t now = ur_clock_ns();

		if (ur_streams_are_polled(now)) {
			pause_ns(AWAY_NS);
			continue;
		}
		if (ur_streams_serve(now, slept))
			busy = now;
		slept = false;
		if (now - busy < SPIN_NS)
			continue;
		sleep_until_news(now);
		slept = true;
	}
	return NULL;
}

int ur_streams_start(void)
{
	static _Atomic bool started;
	pthread_t t;
	int err;

	if (atomic_exchange(&started, true))
		return 0;
	err = ur_thread_start(&t, "urnic-tcp", streams_main, NULL);
	if (err)
		atomic_store(&started, false);
	return err;
}
