/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the plugin. */
#ifndef UR_PORTS_DPDK_INTERNAL_H
#define UR_PORTS_DPDK_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/port_spec.h"
#include "ports/nic.h"

struct rte_eth_dev_info;
struct rte_mbuf;
struct rte_mempool;

/* Buffers of a pool that each direction of a queue keeps, about. */
#define UR_NIC_CACHE 64u

#define UR_FLOW_FAMILIES 2u /* IPv4, IPv6 */

/*
 * Begin DPDK's Environment Abstraction Layer, once for the process, unless the
 * program has; later calls ask for the same or for nothing.  0; -EINVAL: it refuses the
 * arguments; else its reason.
 */
int ur_eal_begin(const struct ur_eal_args *args);

/* One of its arguments: if it makes us the server of a memif whose last one has
 * left its socket, that is removed. */
void ur_memif_clear(const char *arg);

/*
 * The driver's packet socket that is bound to this interface: it is the
 * driver's, and readable while it has frames; -1: none.  Its error for an
 * interface that went down stays until it is cleared.
 */
int ur_packet_socket(unsigned int ifindex);
void ur_packet_clear(int fd);

/* Rules of a controller that put packets into queues by the number of their
 * queue pair. */
struct ur_flows {
	pthread_mutex_t lock; /* what follows `vlan` */
	uint16_t id;	      /* of the controller */
	bool vlan;	      /* its frames have a tag */
	/* The form of a family's rules: 0: not known yet; n: the n-th; -1:
	 * the driver accepts none. */
	int forms[UR_FLOW_FAMILIES];
	bool told; /* that a rule was not taken */
	struct ur_list rules;
};

void ur_flows_init(struct ur_flows *f, uint16_t id, bool vlan);
void ur_flows_fini(struct ur_flows *f);

/* As steer() and unsteer() of ports/nic.h. */
int ur_flows_add(struct ur_flows *f, uint16_t queue, uint32_t qpn,
		 uint32_t mask);
bool ur_flows_del(struct ur_flows *f, uint32_t qpn, uint32_t mask);

#endif
