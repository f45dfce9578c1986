/* SPDX-License-Identifier: BSD-2-Clause */
/* A classic BPF program that passes what the flows may match: a superset of it.
 * Dropped packets cost no copy and no wakeup. */
#ifndef UR_RAW_PREFILTER_H
#define UR_RAW_PREFILTER_H

#include <linux/filter.h>

#include "raw/flow.h"

/* The kernel compiles it again for each added or removed flow. */
#define UR_PREFILTER_MAX 256u

/*
 * Returns the length of the program. Of packets sent by the host itself it
 * passes what a network adapter would loop back, multicast and frames to its
 * own address; on the loopback device none, since they are all received there.
 */
uint32_t ur_prefilter(const struct ur_flow_table *t, const uint8_t mac[6],
		      bool loopback, struct sock_filter out[UR_PREFILTER_MAX]);

#endif
