/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "base/timer.h"
#include "engine/internal.h"
#include "roce/port_counters.h"

#define PERIOD_NS 1000000000u
/* At the end of the process: how often it tries, and how long it waits before
 * the next time. */
#define TRIES	  100
#define TRY_NS	  1000000

static const struct ur_port_counter rows[] = { UR_PORT_COUNTERS(
	UR_PORT_COUNTER) };
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* What this process has added to the files; the watcher's, then that of the
 * thread that ends the process. */
static uint64_t added[UR_MAX_DEVICES][ROWS];
static const char *root; /* NULL: there is no view */
static _Atomic uint64_t next_ns = UR_NEVER;
_Atomic bool ur_publish_rests;
/* Only one thread publishes: the end of the process may meet the watcher. */
static struct ur_lock one = UR_LOCK_INITIALIZER;

/* The owner may be stopped, or be this very thread, in a signal handler. */
static bool try_lock(struct ur_lane *l)
{
	for (int i = 0; i < 1000; i++) {
		if (ur_latch_try(&l->lock))
			return true;
		sched_yield();
	}
	return false;
}

/* False: a lane is taken. */
static bool add_lanes(struct ur_adapter *a, struct ur_roce_counters *sum)
{
	uint32_t n = atomic_load_explicit(&a->lane_count, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++) {
		struct ur_lane *l = atomic_load_explicit(&a->lanes[i],
							 memory_order_acquire);

		if (!try_lock(l))
			return false;
		if (!atomic_load(&l->dead))
			l->ops->count(l, sum);
		ur_lane_unlock(l);
	}
	return true;
}

static uint64_t value(const struct ur_roce_counters *sum,
		      const struct ur_port_counter *row)
{
	const uint8_t *at = (const uint8_t *)sum;
	uint64_t a, b;

	memcpy(&a, at + row->a, sizeof(a));
	memcpy(&b, at + row->b, sizeof(b));
	return (row->a == row->b ? a : a + b) / row->unit;
}

/* In place, so that a reader that keeps it open sees it; it only grows. */
static void add_to_file(int dir, const char *name, uint64_t more)
{
	char text[24] = "";
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int len;

	if (fd < 0)
		return;
	if (pread(fd, text, sizeof(text) - 1, 0) > 0) {
		len = snprintf(text, sizeof(text), "%lu\n",
			       strtoul(text, NULL, 10) + more);
		(void)!pwrite(fd, text, (size_t)len, 0);
	}
	close(fd);
}

static bool is_changed(const uint64_t *was, const struct ur_roce_counters *sum)
{
	for (size_t i = 0; i < ROWS; i++)
		if (value(sum, &rows[i]) != was[i])
			return true;
	return false;
}

/* False: another process adds just now. Unlocked before it is closed: a child of
 * fork() may have the descriptor too. */
static bool add(int dir, uint64_t *was, const struct ur_roce_counters *sum)
{
	if (flock(dir, LOCK_EX | LOCK_NB))
		return errno != EWOULDBLOCK;
	for (size_t i = 0; i < ROWS; i++) {
		uint64_t is = value(sum, &rows[i]);

		if (is > was[i])
			add_to_file(dir, rows[i].name, is - was[i]);
		was[i] = is;
	}
	flock(dir, LOCK_UN);
	return true;
}

enum outcome {
	UNCHANGED, /* or there is no directory */
	ADDED,
	LATER, /* a lane or the directory is taken */
};

/* The lanes of a device with several ports are not those of one of them. */
static enum outcome publish_device(unsigned int k)
{
	struct ur_adapter *a = ur_process_adapter(k);
	struct ur_roce_counters sum = { 0 };
	char path[4096];
	enum outcome is;
	int dir;

	if (!a || a->dev.spec.nports > 1)
		return UNCHANGED;
	if (!add_lanes(a, &sum))
		return LATER;
	if (!is_changed(added[k], &sum))
		return UNCHANGED;
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/1", root,
		 a->dev.name);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return UNCHANGED;
	is = add(dir, added[k], &sum) ? ADDED : LATER;
	close(dir);
	return is;
}

static enum outcome publish(void)
{
	enum outcome most = UNCHANGED;

	if (!ur_trylock(&one))
		return LATER;
	for (unsigned int k = 0; k < UR_MAX_DEVICES; k++) {
		enum outcome is = publish_device(k);

		if (is > most)
			most = is;
	}
	ur_unlock(&one);
	return most;
}

void ur_publish_start(void)
{
	const char *view = secure_getenv("URNIC_SYSFS");

	if (root || !view || !*view)
		return;
	root = strdup(view);
	atomic_store(&ur_publish_rests, root != NULL);
}

/* It rests before it looks: what is counted after that makes a helper call
 * ur_publish_resume() again. */
void ur_publish(uint64_t now_ns)
{
	next_ns = UR_NEVER;
	atomic_store(&ur_publish_rests, true);
	if (publish() == UNCHANGED)
		return;
	atomic_store(&ur_publish_rests, false);
	next_ns = now_ns + PERIOD_NS;
}

void ur_publish_resume(void)
{
	if (!atomic_exchange(&ur_publish_rests, false))
		return;
	next_ns = ur_clock_ns() + PERIOD_NS;
	ur_watcher_wake();
}

void ur_publish_end(void)
{
	const struct timespec t = { .tv_nsec = TRY_NS };

	for (int i = 0; root && i < TRIES && publish() == LATER; i++)
		ur_sys_nanosleep(&t);
}

uint64_t ur_publish_next_ns(void)
{
	return next_ns;
}

void ur_publish_child(void)
{
	ur_lock_init(&one);
	memset(added, 0, sizeof(added));
	next_ns = UR_NEVER;
	atomic_store(&ur_publish_rests, root != NULL);
}
