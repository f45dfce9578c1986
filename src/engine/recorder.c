/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "client/client.h"
#include "client/record_file.h"
#include "core/qp.h"
#include "engine/capture.h"
#include "explain/explain.h"

static int record_fd = -1;
/* Kept after fork(): the child may hold a pointer to it. */
static struct ur_recorder *inherited __attribute__((used));

static _Thread_local uint32_t tid;

static uint32_t thread_id(void)
{
	if (!tid)
		tid = (uint32_t)syscall(SYS_gettid);
	return tid;
}

static uint64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One line about the first failure of a queue pair, from what this process
 * knows. */
static void log_failure(struct ur_qp *qp)
{
	const struct ur_recorder *r = atomic_load(&ur_recorder);
	struct ur_verdict v;

	ur_capture_failed(qp);
	if (ur_log_level < UR_LOG_INFO)
		return;
	ur_explain_own(r->file, qp->record.ring, ur_clock_ns(), &v);
	ur_info_some("qp 0x%06x: %s: %s%s%s; %s", qp->qpn, v.what, v.why,
		     v.found[0] ? "; found " : "", v.found, v.change);
}

void ur_recorder_open(void)
{
	struct ur_record_file *file;
	struct ur_recorder *r;

	if (atomic_load(&ur_recorder))
		return;
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	record_fd = ur_record_file_make(&file);
	if (record_fd < 0) {
		ur_info("no flight recorder: %s", strerror(-record_fd));
		free(r);
		return;
	}
	r->now = ur_clock_ns;
	r->thread = thread_id;
	r->failed = log_failure;
	ur_recorder_start(r, file, (uint32_t)getpid(),
			  program_invocation_short_name, real_ns());
}

void ur_recorder_share(struct ur_client *c)
{
	if (record_fd >= 0)
		ur_client_record(c, record_fd);
}

/* The child does not write to the parent's recorder, so locks held there do not
 * matter; a stale pointer leads to private memory. */
void ur_recorder_child(void)
{
	tid = 0;
	inherited = atomic_exchange(&ur_recorder, NULL);
	if (inherited)
		ur_record_file_leave(inherited->file);
	if (record_fd >= 0)
		close(record_fd);
	record_fd = -1;
}

void ur_recorder_end(void)
{
	const struct ur_recorder *r = atomic_load(&ur_recorder);

	if (r)
		r->file->head.end_ns = ur_clock_ns();
}
