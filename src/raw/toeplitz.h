/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive side scaling: the hash that distributes packets over receive queues.
 */
#ifndef UR_RAW_TOEPLITZ_H
#define UR_RAW_TOEPLITZ_H

#include "core/wq.h"
#include "raw/pkt.h"

/* The Toeplitz hash of len <= UR_RSS_KEY_LEN - 4 bytes. */
uint32_t ur_toeplitz(const uint8_t key[UR_RSS_KEY_LEN], const uint8_t *data,
		     uint32_t len);

/*
 * Hash of the selected fields (UR_RSS_), in the order source address,
 * destination address, source port, destination port. Fields that the packet
 * lacks are left out; without any the hash is 0.
 */
uint32_t ur_rss_hash(const struct ur_rss *rss, const struct ur_pkt *p);

#endif
