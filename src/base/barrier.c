/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/refused.h"
#include "base/sys.h"

/* The thread sanitizer does not know what membarrier() orders. */
#if defined(__has_feature)
#define WITH_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#else
#define WITH_TSAN 0
#endif

_Atomic bool ur_barrier_split;

static bool membarrier(int cmd)
{
	return syscall(SYS_membarrier, cmd, 0, 0) == 0;
}

/* Before any thread uses a barrier. */
__attribute__((constructor)) static void choose(void)
{
	int saved = errno;

	if (!WITH_TSAN && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		atomic_store(&ur_barrier_split, true);
	else if (!WITH_TSAN)
		ur_refused_note(UR_REFUSED_MEMBARRIER, errno);
	errno = saved;
}

static _Atomic bool
	giving_up; /* Set before split is cleared and again after. */

/*
 * A seccomp filter was installed since. From now on the light side has full
 * barriers, and a thread in the middle of a light one has passed an interrupt
 * before this returns.
 */
static void give_up(void)
{
	const struct timespec nap = { .tv_nsec = 20000000 };

	ur_refused_note(UR_REFUSED_MEMBARRIER, errno);
	atomic_store(&giving_up, true);
	atomic_store(&ur_barrier_split, false);
	ur_sys_nanosleep(&nap);
	atomic_store(&giving_up, false);
}

void ur_barrier_heavy(void)
{
	int saved = errno;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&giving_up) ||
	    (atomic_load(&ur_barrier_split) &&
	     !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
	     /* A child of fork() does not inherit the registration. */
	     !(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
	       membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))))
		give_up();
	atomic_thread_fence(memory_order_seq_cst);
	errno = saved;
}
