/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/rate.h"

/* The default burst: sleeping and waking must not reduce the rate. */
#define BURST_NS 1000000u

static uint64_t cost_ns(uint32_t bytes, uint32_t kbps)
{
	return (uint64_t)bytes * 8 * 1000000 / kbps;
}

uint64_t ur_rate_after(const struct ur_qp_attr *a, uint64_t rate_at_ns,
		       uint32_t bytes, uint64_t now_ns)
{
	uint64_t burst = a->rate_burst ? cost_ns(a->rate_burst, a->rate_limit)
				       : BURST_NS;

	if (now_ns > burst && rate_at_ns < now_ns - burst)
		rate_at_ns = now_ns - burst;
	return rate_at_ns + cost_ns(bytes, a->rate_limit);
}
