/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/thread_sched.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define TIMER_SLACK_NS 2000u
#define LOOK_NS	       1000000u
#define SLICE_NS       100000u /* the least that the kernel takes */

/* Since Linux 6.12: how long an ordinary thread wants to run at a time. */
struct sched_wish {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns;
	uint64_t deadline_ns;
	uint64_t period_ns;
};

/*
 * Whoever asks for a shorter slice than the thread that has the core takes it
 * when it wakes, instead of waiting until the other's (3 ms) is over.  A
 * program that spins until we have brought it something would otherwise wait
 * for its own slice to end.  Older kernels ignore it; the thread keeps its
 * policy and weight.
 */
void ur_sched_short(void)
{
	struct sched_wish wish = { .size = sizeof(wish) };

	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	if (syscall(SYS_sched_getattr, 0, &wish, sizeof(wish), 0) ||
	    wish.policy != SCHED_OTHER)
		return;
	wish.runtime_ns = SLICE_NS;
	if (syscall(SYS_sched_setattr, 0, &wish, 0))
		ur_debug("no short slices: errno %d", errno);
}

bool ur_sched_first(int priority)
{
	const struct sched_param p = { .sched_priority = priority };

	/* What it starts is none of our kind. */
	if (sched_setscheduler(0,
			       (priority ? SCHED_FIFO : SCHED_OTHER) |
				       SCHED_RESET_ON_FORK,
			       &p)) {
		ur_debug("no real-time priority: errno %d", errno);
		return false;
	}
	if (!priority)
		ur_sched_short();
	return true;
}

unsigned int ur_sched_cores(void)
{
	cpu_set_t set;

	/* More than a set has room for is an error. */
	if (sched_getaffinity(0, sizeof(set), &set))
		return CPU_SETSIZE;
	return (unsigned int)CPU_COUNT(&set);
}

void ur_sched_mutex_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	/* A kernel without that has no threads that come first either. */
	if (pthread_mutex_init(m, &a))
		pthread_mutex_init(m, NULL);
	pthread_mutexattr_destroy(&a);
}

void ur_sched_lock_init(struct ur_sched_lock *l)
{
	ur_sched_mutex_init(&l->m);
	ur_sched_mutex_init(&l->next);
	atomic_init(&l->wanted, false);
}

void ur_sched_lock_fini(struct ur_sched_lock *l)
{
	pthread_mutex_destroy(&l->m);
	pthread_mutex_destroy(&l->next);
}

void ur_sched_take(struct ur_sched_lock *l)
{
	/* He has it until m is his, and runs for us meanwhile. */
	if (atomic_load_explicit(&l->wanted, memory_order_relaxed)) {
		pthread_mutex_lock(&l->next);
		pthread_mutex_unlock(&l->next);
	}
	pthread_mutex_lock(&l->m);
}

void ur_sched_ask(struct ur_sched_lock *l)
{
	pthread_mutex_lock(&l->next);
	atomic_store_explicit(&l->wanted, true, memory_order_relaxed);
	pthread_mutex_lock(&l->m);
	atomic_store_explicit(&l->wanted, false, memory_order_relaxed);
	pthread_mutex_unlock(&l->next);
}

void ur_sched_give(struct ur_sched_lock *l)
{
	pthread_mutex_unlock(&l->m);
}

uint64_t ur_sched_nap(uint64_t ns)
{
	const struct timespec t = { .tv_nsec = (long)ns };
	uint64_t since = ur_clock_ns();

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return ur_clock_ns() - since;
}

/* "0.31 0.40 0.42 3/512 1234": the fourth is how many run, or could. */
static long running(int fd)
{
	char text[96];
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
	const char *at = text;

	if (len <= 0)
		return 0;
	text[len] = '\0';
	for (int i = 0; i < 3 && at; i++)
		at = strchr(at + (i > 0), ' ');
	return at ? strtol(at, NULL, 10) : 0;
}

bool ur_sched_crowded(uint64_t now_ns)
{
	static _Thread_local uint64_t looked_ns;
	static _Thread_local bool crowded;
	static _Thread_local long cores;
	static _Thread_local int fd = -1;

	if (looked_ns && now_ns - looked_ns < LOOK_NS)
		return crowded;
	if (!looked_ns) {
		fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
		cores = sysconf(_SC_NPROCESSORS_ONLN);
	}
	looked_ns = now_ns;
	crowded = running(fd) > cores;
	return crowded;
}
