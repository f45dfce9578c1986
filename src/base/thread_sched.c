/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/thread_sched.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define TIMER_SLACK_NS 2000u
#define SAMPLE_NS      1000000u
#define SAMPLE_MANY_NS 16000000u
#define SLICE_NS       100000u /* the kernel's minimum */

/* struct sched_attr. Since Linux 6.12 runtime_ns is the slice of a SCHED_OTHER
 * thread. */
struct slice_attr {
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
 * A thread with a shorter slice than the running one preempts it when it wakes,
 * instead of waiting for the end of that slice (3 ms). Otherwise a program that
 * polls for data delays the thread that delivers it. Older kernels ignore the
 * slice; policy and weight stay.
 */
void ur_sched_short_slices(void)
{
	struct slice_attr attr = { .size = sizeof(attr) };

	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) ||
	    attr.policy != SCHED_OTHER)
		return;
	attr.runtime_ns = SLICE_NS;
	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		ur_debug("no short slices: errno %d", errno);
}

bool ur_sched_set_realtime(int priority)
{
	const struct sched_param p = { .sched_priority = priority };

	/* Child threads start as SCHED_OTHER. */
	if (sched_setscheduler(0,
			       (priority ? SCHED_FIFO : SCHED_OTHER) |
				       SCHED_RESET_ON_FORK,
			       &p)) {
		ur_debug("no real-time priority: errno %d", errno);
		return false;
	}
	if (!priority)
		ur_sched_short_slices();
	return true;
}

unsigned int ur_sched_cpus(void)
{
	cpu_set_t set;

	/* EINVAL: the machine has more CPUs than cpu_set_t. */
	if (sched_getaffinity(0, sizeof(set), &set))
		return CPU_SETSIZE;
	return (unsigned int)CPU_COUNT(&set);
}

void ur_sched_mutex_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	/* A kernel without priority inheritance has no real-time threads
	 * either. */
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

void ur_sched_lock_frequent(struct ur_sched_lock *l)
{
	/* The waiter holds `next` until it has `m`, and inherits this thread's
	 * priority meanwhile. */
	if (atomic_load_explicit(&l->wanted, memory_order_relaxed)) {
		pthread_mutex_lock(&l->next);
		pthread_mutex_unlock(&l->next);
	}
	pthread_mutex_lock(&l->m);
}

void ur_sched_lock_rare(struct ur_sched_lock *l)
{
	pthread_mutex_lock(&l->next);
	atomic_store_explicit(&l->wanted, true, memory_order_relaxed);
	pthread_mutex_lock(&l->m);
	atomic_store_explicit(&l->wanted, false, memory_order_relaxed);
	pthread_mutex_unlock(&l->next);
}

void ur_sched_unlock(struct ur_sched_lock *l)
{
	pthread_mutex_unlock(&l->m);
}

uint64_t ur_sched_sleep(uint64_t ns)
{
	const struct timespec t = { .tv_nsec = (long)ns };
	uint64_t since = ur_clock_ns();

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return ur_clock_ns() - since;
}

/* "0.31 0.40 0.42 3/512 1234": the fourth field begins with the runnable
 * threads. */
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
	return at && strchr(at, '/') ? strtol(at, NULL, 10) : 0;
}

/* glibc reads three files for it. */
static long processors(void)
{
	static _Atomic long known;
	long n = atomic_load_explicit(&known, memory_order_relaxed);

	if (!n) {
		n = sysconf(_SC_NPROCESSORS_ONLN);
		atomic_store_explicit(&known, n, memory_order_relaxed);
	}
	return n;
}

/* Reading files is a cancellation point, which polling must not be. */
static uint32_t sample(void)
{
	static _Atomic int file = -1;
	int fd = atomic_load_explicit(&file, memory_order_acquire);
	int none = -1, state;
	long threads, per;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (fd < 0) {
		fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
		if (fd >= 0 &&
		    !atomic_compare_exchange_strong(&file, &none, fd)) {
			close(fd);
			fd = none;
		}
	}
	threads = running(fd);
	per = processors();
	pthread_setcancelstate(state, NULL);
	return threads > per ? (uint32_t)((threads + per - 1) / per) : 1;
}

static _Atomic uint32_t last_load = 1;

uint32_t ur_sched_last_load(void)
{
	return atomic_load_explicit(&last_load, memory_order_relaxed);
}

uint32_t ur_sched_load(uint64_t now_ns)
{
	static _Atomic uint64_t sampled_ns;
	uint64_t last = atomic_load_explicit(&sampled_ns, memory_order_relaxed);
	bool many = ur_sched_last_load() > 1;

	/* Where many processes do so, reading it often is part of the load. */
	if (!last || now_ns - last >= (many ? SAMPLE_MANY_NS : SAMPLE_NS)) {
		atomic_store_explicit(&sampled_ns, now_ns,
				      memory_order_relaxed);
		atomic_store_explicit(&last_load, sample(),
				      memory_order_relaxed);
	}
	return ur_sched_last_load();
}
