/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers from a cache, without a lock.  DPDK keeps a cache of each pool for
 * each of its own threads, which it knows by a number, the lcore's; ours have
 * none.  Then a driver that sends gives back each buffer by itself under the
 * pool's lock, and an instruction that locks waits for all stores before it:
 * those of a packet into memory that another core reads, one packet after the
 * other, which costs more than all else.  So each queue has a number for either
 * direction, and the thread whose turn it is calls the driver by that name.
 *
 * The library allocates the numbers, as for a thread that registers, so that no
 * other thread gets them.  Secondary processes, which would have the same ones,
 * cannot attach any more then.  So we take none in an environment that the
 * program has initialized: it may want such processes.
 */
#include <rte_eal.h>
#include <rte_lcore.h>

#include "base/log.h"
#include "ports/dpdk/internal.h"
#include "ports/dpdk/lcore.h"

static bool allowed; /* set before the first port is opened */

void ur_lcore_allow(void)
{
	allowed = rte_mp_disable();
	if (!allowed)
		ur_info("DPDK's processes share memory: no caches of buffers");
}

unsigned int ur_lcore_cache(void)
{
	return allowed ? UR_NIC_CACHE : 0;
}

unsigned int ur_lcore_be(unsigned int id)
{
	unsigned int was = rte_lcore_id();

	if (id != LCORE_ID_ANY)
		RTE_PER_LCORE(_lcore_id) = id;
	return was;
}

void ur_lcore_again(unsigned int was)
{
	RTE_PER_LCORE(_lcore_id) = was;
}

/* It is registered as a thread, which is this one while that lasts. */
unsigned int ur_lcore_take(void)
{
	unsigned int was = rte_lcore_id(), id = LCORE_ID_ANY;

	if (!allowed)
		return id;
	if (!rte_thread_register())
		id = rte_lcore_id();
	ur_lcore_again(was);
	return id;
}

void ur_lcore_give(unsigned int id)
{
	unsigned int was;

	if (id == LCORE_ID_ANY)
		return;
	was = ur_lcore_be(id);
	rte_thread_unregister();
	ur_lcore_again(was);
}
