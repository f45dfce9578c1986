/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers by which threads that are not DPDK's have caches of its pools. */
#ifndef UR_PORTS_DPDK_LCORE_H
#define UR_PORTS_DPDK_LCORE_H

/* The environment is ours: there are numbers from now on, unless another
 * process has part in it, and none can have part any more. */
void ur_lcore_allow(void);

/* Buffers that a cache of a pool is to have; 0: there are no numbers. */
unsigned int ur_lcore_cache(void);

/* A free one; LCORE_ID_ANY: there is none, and no cache. */
unsigned int ur_lcore_take(void);
void ur_lcore_give(unsigned int id);

/*
 * Give the calling thread that number (LCORE_ID_ANY: keep its own), and return
 * the number that it had, to be restored by another call.  No two threads may
 * have the same number at once.
 */
unsigned int ur_lcore_be(unsigned int id);
void ur_lcore_again(unsigned int was);

#endif
