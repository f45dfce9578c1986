/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate limit of a queue pair (ibv_modify_qp_rate_limit(3)): a bucket of
 * tokens that fills at the rate.  A queue pair has one number, the time at
 * which its bucket holds any: in the future if more was sent than is paid for,
 * in the past by what was saved, at most the burst.  A packet of any size may
 * leave when it is not in the future.
 */
#ifndef UR_CORE_RATE_H
#define UR_CORE_RATE_H

#include "core/qp.h"

/* kbit/s that may be asked for; 0: no limit. */
static inline bool ur_rate_in_range(uint32_t kbps)
{
	return !kbps || (kbps >= UR_RATE_MIN_KBPS && kbps <= UR_RATE_MAX_KBPS);
}

/* The new time, after so many bytes have left; there is a limit. */
uint64_t ur_rate_after(const struct ur_qp_attr *a, uint64_t rate_at_ns,
		       uint32_t bytes, uint64_t now_ns);

#endif
