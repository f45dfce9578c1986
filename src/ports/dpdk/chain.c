/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames whose payload stays where it is: a buffer of the headers, one that
 * points at the payload, and one of what is behind it.  The second one holds a
 * reference to the mapping that it points into, in its private area, and drops
 * it when the driver frees the buffer.
 */
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ports/dpdk/internal.h"
#include "ports/dpdk/lcore.h"

#define PIECES 4096u /* buffers for each pair of queues */
#define SHARED RTE_ALIGN(sizeof(struct rte_mbuf_ext_shared_info), 8)

/*
 * These drivers copy frames out of buffers within their burst call, by the CPU,
 * and take chains.  Others may pass buffers on (rings), read the first one
 * only, or be controllers, which access only registered memory; they get no
 * external buffers.
 */
static bool is_copying(const char *driver, const char *args)
{
	if (!strcmp(driver, "net_memif"))
		return !args || !strstr(args, "zero-copy=yes");
	return !strcmp(driver, "net_af_packet");
}

bool ur_chain_may(const struct rte_eth_dev_info *dev)
{
	const struct rte_devargs *a = rte_dev_devargs(dev->device);

	return (dev->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) &&
	       is_copying(dev->driver_name, a ? a->args : NULL);
}

struct rte_mempool *ur_chain_pool(uint16_t id, uint16_t queues)
{
	static _Atomic unsigned int made;
	struct rte_mempool *pool;
	char name[32];

	/* That of a closed port may still exist. */
	snprintf(name, sizeof(name), "urnicl%u.%u", id,
		 atomic_fetch_add(&made, 1));
	pool = rte_pktmbuf_pool_create_by_ops(name, PIECES * queues,
					      ur_lcore_cache(), SHARED,
					      UR_NIC_TAIL, SOCKET_ID_ANY,
					      "stack");
	if (!pool)
		ur_warn("port %u: no memory for %u buffers: payload is copied",
			id, PIECES * queues);
	return pool;
}

static void give_back(void *addr, void *pin)
{
	(void)addr;
	ur_pin_put(pin);
}

static void point(struct rte_mbuf *m, const struct ur_nic_extbuf *l)
{
	struct rte_mbuf_ext_shared_info *s = rte_mbuf_to_priv(m);

	s->free_cb = give_back;
	s->fcb_opaque = l->pin;
	rte_mbuf_ext_refcnt_set(s, 1);
	ur_pin_get(l->pin);
	/* The library has no read-only buffers. */
	rte_pktmbuf_attach_extbuf(m, (void *)(uintptr_t)l->data, RTE_BAD_IOVA,
				  (uint16_t)l->len, s);
	m->data_len = (uint16_t)l->len;
}

bool ur_chain_add(struct rte_mempool *pool, struct rte_mbuf *head,
		  const struct ur_nic_extbuf *l)
{
	struct rte_mbuf *m[2];

	if (l->len > UINT16_MAX || l->tail_len > UR_NIC_TAIL ||
	    rte_pktmbuf_alloc_bulk(pool, m, 2))
		return false;
	point(m[0], l);
	m[1]->data_off = 0;
	m[1]->data_len = (uint16_t)l->tail_len;
	memcpy(rte_pktmbuf_mtod(m[1], uint8_t *), l->tail, l->tail_len);
	head->next = m[0];
	m[0]->next = m[1];
	head->nb_segs = 3;
	head->pkt_len = l->len + l->tail_len;
	return true;
}
