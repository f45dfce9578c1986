/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine recognises a polling thread by the short gaps between its polls.
 * On an emulated processor one sendmsg() takes longer than the longest such
 * gap, so no thread would count as polling and each packet would wake the
 * helper.  Timeouts therefore grow with the cost of a system call.
 *
 * The shortest of several calls is taken, which excludes the load of the
 * machine.  Real processors differ by a factor of two or three: factor 1.
 */
#include "engine/timescale.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/sys.h"
#include "engine/internal.h"

#define TRIES	 16
#define USUAL_NS 150u
#define SLOW	 4u /* smaller factors count as 1 */

uint32_t ur_timescale_of(uint64_t call_ns)
{
	uint64_t factor = call_ns / USUAL_NS;

	return factor < SLOW		   ? 1
	       : factor > UR_TIMESCALE_MAX ? UR_TIMESCALE_MAX
					   : (uint32_t)factor;
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

uint32_t ur_timescale(void)
{
	static _Atomic uint32_t known;
	uint32_t factor = atomic_load_explicit(&known, memory_order_relaxed);

	if (!factor) {
		factor = ur_timescale_of(shortest_call_ns());
		atomic_store_explicit(&known, factor, memory_order_relaxed);
	}
	return factor;
}
