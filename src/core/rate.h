/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rate limit of a queue pair (ibv_modify_qp_rate_limit(3)): a token bucket,
 * kept as one time per queue pair: in the future if it has sent more than the
 * rate allows, in the past by the tokens saved, at most the burst. A packet of
 * any size may leave when that time is not in the future.
 */
#ifndef UR_CORE_RATE_H
#define UR_CORE_RATE_H

#include "core/qp.h"

/* Valid limits; 0: none. */
static inline bool ur_rate_in_range(uint32_t kbps)
{
	return !kbps || (kbps >= UR_RATE_MIN_KBPS && kbps <= UR_RATE_MAX_KBPS);
}

/* The new time after sending that many bytes; the QP has a limit. */
uint64_t ur_rate_after(const struct ur_qp_attr *a, uint64_t rate_at_ns,
		       uint32_t bytes, uint64_t now_ns);

#endif
