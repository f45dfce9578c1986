/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A classic BPF program that lets through what the flows may want: more than
 * they take, never less.  What it drops costs no copy and wakes nobody.
 */
#ifndef UR_RAW_PREFILTER_H
#define UR_RAW_PREFILTER_H

#include <linux/filter.h>

#include "raw/flow.h"

/* The kernel compiles it anew for each flow that comes or goes. */
#define UR_PREFILTER_MAX 256u

/*
 * Returns the length of the program.  Of what the host itself sends it takes
 * what a network adapter would loop back, that is multicast and frames to its
 * own address; on the loopback device nothing, since all comes in there again.
 */
uint32_t ur_prefilter(const struct ur_flow_table *t, const uint8_t mac[6],
		      bool loopback, struct sock_filter out[UR_PREFILTER_MAX]);

#endif
