/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tracer that tests/trace preloads: every function of a library built with
 * -finstrument-functions that is entered while tracing is on is recorded with
 * its time.  The symbols are weak, so that the traced program also runs
 * without the tracer.
 */
#ifndef UR_TESTS_TRACE_HOPS_H
#define UR_TESTS_TRACE_HOPS_H

/* Start recording in this process. */
void hops_start(void) __attribute__((weak));

/* Record a point of the application itself; `name` must stay valid. */
void hops_mark(const char *name) __attribute__((weak));

/*
 * Stop and write the records to `path`: one a line, time in ns, thread, then
 * "=name" of a mark or module and offset of a function.  0 or -errno; -ENOSPC
 * if there were more records than room.
 */
int hops_write(const char *path) __attribute__((weak));

#endif
