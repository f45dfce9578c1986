/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine tells by the length of pauses who polls and who has ceased to.
 * On an emulated processor, on which sending one datagram takes longer than
 * such a pause, nobody would ever be seen to poll, and the helper would wake
 * up for each packet beside him.  So moments are as much longer as system
 * calls are.
 *
 * The shortest of some tells, so that what else the machine does does not
 * show.  Real processors differ by two or three, and keep the moments that were
 * chosen on them.
 */
#include "engine/pace.h"

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/sys.h"
#include "engine/internal.h"

#define TRIES	 16
#define USUAL_NS 150u
#define SLOW	 4u /* times as long: another kind of machine */

uint32_t ur_pace_of(uint64_t call_ns)
{
	uint64_t pace = call_ns / USUAL_NS;

	return pace < SLOW	    ? 1
	       : pace > UR_PACE_MAX ? UR_PACE_MAX
				    : (uint32_t)pace;
}

static uint64_t shortest_call_ns(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t start = ur_clock_ns(), took;

		(void)ur_sys_poll(NULL, 0, 0);
		took = ur_clock_ns() - start;
		if (took < best)
			best = took;
	}
	return best;
}

uint32_t ur_pace(void)
{
	static _Atomic uint32_t known;
	uint32_t pace = atomic_load_explicit(&known, memory_order_relaxed);

	if (!pace) {
		pace = ur_pace_of(shortest_call_ns());
		atomic_store_explicit(&known, pace, memory_order_relaxed);
	}
	return pace;
}
