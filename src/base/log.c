/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"

#define LINE_BYTES 1024

int ur_log_level = UR_LOG_WARN;

static int log_fd = STDERR_FILENO;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

static const char *const level_name[] = {
	[UR_LOG_ERROR] = "error", [UR_LOG_WARN] = "warn",
	[UR_LOG_INFO] = "info",	  [UR_LOG_DEBUG] = "debug",
	[UR_LOG_TRACE] = "trace",
};

int ur_log_level_of(const char *name)
{
	for (int i = UR_LOG_ERROR; i <= UR_LOG_TRACE; i++) {
		if (!strcmp(name, level_name[i]))
			return i;
	}
	return -1;
}

static void read_environment(void)
{
	const char *level = secure_getenv("URNIC_LOG");
	const char *file = secure_getenv("URNIC_LOG_FILE");

	int n = level ? ur_log_level_of(level) : -1;

	if (n >= 0)
		ur_log_level = n;
	if (file) {
		int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			      0666);

		if (fd >= 0)
			log_fd = fd;
	}
}

void ur_log_init(void)
{
	pthread_once(&log_once, read_environment);
}

/* One write() per line, so that lines of several processes on one terminal or
 * file do not mix. Preserves errno: error paths log before they return it. */
void ur_log_write(enum ur_log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[LINE_BYTES];
	va_list args;
	size_t used;
	int n;

	used = (size_t)snprintf(line, sizeof(line),
				"urnic[%d]: %s: ", (int)getpid(),
				level_name[level]);
	va_start(args, fmt);
	/* clang-tidy 14 loses va_start() when it looks at several files */
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	n = vsnprintf(line + used, sizeof(line) - used, fmt, args);
	va_end(args);
	if (n > 0)
		used += (size_t)n;
	if (used > sizeof(line) - 1)
		used = sizeof(line) - 1;
	line[used++] = '\n';
	if (ur_sys_write(log_fd, line, used) < 0) {
		/* no other place to report to */
	}
	errno = saved_errno;
}

/* Racy at the border of a window: a line more or less may be written. */
bool ur_log_may(struct ur_log_limit *limit, enum ur_log_level level)
{
	struct timespec t;
	uint64_t window, last;
	uint32_t asked;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	window = (uint64_t)t.tv_sec / UR_LOG_SOME_SECONDS + 1;
	last = atomic_exchange_explicit(&limit->window, window,
					memory_order_relaxed);
	if (last != window) {
		asked = atomic_exchange_explicit(&limit->lines, 0,
						 memory_order_relaxed);
		if (asked > UR_LOG_SOME)
			ur_log_write(level, "%u lines like the next left out",
				     asked - UR_LOG_SOME);
	}
	asked = atomic_fetch_add_explicit(&limit->lines, 1,
					  memory_order_relaxed);
	if (asked == UR_LOG_SOME)
		ur_log_write(level, "more like the last are left out for %u s",
			     UR_LOG_SOME_SECONDS);
	return asked < UR_LOG_SOME;
}
