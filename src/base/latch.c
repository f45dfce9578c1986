/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whoever has to wait takes the latch as one with sleepers, whether there are
 * more or not: at worst it is given back with a call that wakes nobody.
 * Programs do not expect errno to change by a lock.
 */
#include "base/latch.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void ur_latch_wait(struct ur_latch *l)
{
	const uint32_t full = UR_LATCH_HELD | UR_LATCH_SLEEPERS;
	int saved = errno;

	while (atomic_exchange_explicit(&l->word, full, memory_order_acq_rel) &
	       UR_LATCH_HELD)
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, full, NULL,
			NULL, 0);
	errno = saved;
}

/* Its memory may be gone by now: the kernel then finds nobody there. */
void ur_latch_wake(struct ur_latch *l)
{
	int saved = errno;

	syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}
