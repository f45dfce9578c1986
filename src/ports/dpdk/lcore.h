/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers by which threads that are not DPDK's have caches of its pools. */
#ifndef UR_PORTS_DPDK_LCORE_H
#define UR_PORTS_DPDK_LCORE_H

/* The environment is ours: there are numbers from now on, unless another
 * process has part in it, and none can have part any more. */
void ur_lcore_allow(void);

/* Buffers that a cache of a pool is to have; 0: there are no numbers. */
unsigned int ur_lcore_cache(void);

/* One that nobody has; LCORE_ID_ANY: there is none, and no cache. */
unsigned int ur_lcore_take(void);
void ur_lcore_give(unsigned int id);

/*
 * The calling thread is that one until it is again who this says that it was;
 * LCORE_ID_ANY: it stays who it is.  No two threads may be the same at once.
 */
unsigned int ur_lcore_be(unsigned int id);
void ur_lcore_again(unsigned int was);

#endif
